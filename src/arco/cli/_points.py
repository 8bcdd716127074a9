"""Points in the past as people name them, and the state there.

A point is a revision number (`7`), a position (`12:0`, every event up to and including it) or a time
(`2026-11-15T20:45:00Z`, every event that the log had received by then). Revision 0 is before everything.
"""

import re
from dataclasses import dataclass

from arco.cli._open import Reader
from arco.cli._output import shown_position
from arco.core import Invalid, format_time, parse_time
from arco.log import parse_position
from arco.state import (
    Definition,
    Snapshot,
    empty_manifest,
    snapshot_at_position,
    snapshot_at_revision,
    snapshot_at_time,
)

__all__ = ["HEAD", "Point", "parse_point", "parse_revision", "snapshot_at"]

MAX_DIGITS = 18


@dataclass(frozen=True)
class Point:
    """At most one is set; none means the newest revision."""

    revision: int | None = None
    position: int | None = None
    time: int | None = None

    @property
    def of_one_log(self) -> bool:
        """Whether it means something in one log only: revisions and positions count for themselves in each."""
        return self.revision is not None or self.position is not None

    def __str__(self) -> str:
        if self.revision is not None:
            return f"revision {self.revision}"
        if self.position is not None:
            return f"position {shown_position(self.position)}"
        return format_time(self.time) if self.time is not None else "the newest revision"


HEAD = Point()


def parse_point(text: str) -> Point:
    if re.fullmatch("[0-9]+", text):
        return Point(revision=parse_revision(text))
    if re.fullmatch("[0-9]+:[0-9]+", text):
        return Point(position=parse_position(text))
    try:
        return Point(time=parse_time(text))
    except (Invalid, OverflowError):
        raise Invalid(
            f"{text[:80]!r} is no point in the past; write a revision (7), a position (12:0) or a time with its offset "
            "(2026-11-15T20:45:00Z)"
        ) from None


def parse_revision(text: str) -> int:
    if not re.fullmatch("[0-9]+", text) or len(text) > MAX_DIGITS:
        raise Invalid(f"{text[:80]!r} is not the number of a revision; `arco state history` lists those there are")
    return int(text)


async def snapshot_at(reader: Reader, definition: Definition, point: Point) -> Snapshot:
    """The state of a log at a point."""
    log = definition.log
    revisions, store, place = reader.revisions(log), reader.handle(), reader.place(log)
    if point.revision == 0:
        return snapshot_at_revision(definition, store, empty_manifest(place))
    head = (await revisions.head()).manifest
    ledger = reader.ledger(log, head.packs)
    if point.position is not None:
        return await snapshot_at_position(definition, store, revisions, ledger, head, point.position)
    if point.time is not None:
        return await snapshot_at_time(definition, store, revisions, ledger, head, point.time)
    manifest = head if point.revision is None else await revisions.at_revision(head, point.revision)
    return snapshot_at_revision(definition, store, manifest)
