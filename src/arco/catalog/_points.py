"""Points in the past as callers name them (`as_of`), and the state of both logs there.

A point is a time, a run, or a position in one log or in each. The two logs have no common order; what joins them is
the time at which each segment was received. So a point in one log means the other log as of that segment's time, and a
run means the activity up to its last event with the catalog of that moment.
"""

from collections import OrderedDict
from dataclasses import dataclass

import pyarrow.compute as pc

from arco.core import Invalid, NotFound, parse_time, shown
from arco.domains.execution import MATERIALIZATIONS
from arco.domains.orchestration import RUNS
from arco.log import decode_segment, number_of, parse_position
from arco.runtime import OpenLog, Workspace
from arco.state import Snapshot

__all__ = ["ACTIVITY", "CATALOG", "NOW", "AsOf", "Points", "parse_as_of"]

CATALOG, ACTIVITY = "catalog", "activity"
LOGS = (ACTIVITY, CATALOG)
"""Activity first: what it names exists in a catalog that is read after it."""

MAX_RUN = 256
KEPT = 16
"""Past states that are kept, since they never change: eight pairs."""
KEPT_FOR = 300.0
"""Seconds: what a state is read from may be collected when its revision is no longer retained."""


@dataclass(frozen=True)
class AsOf:
    """At most one of time and run, or positions. Nothing set means now."""

    time: int | None = None
    """Microseconds since 1970."""
    run: str | None = None
    catalog: int | None = None
    activity: int | None = None

    @property
    def is_now(self) -> bool:
        return self == NOW


NOW = AsOf()


def parse_as_of(text: str | None) -> AsOf:
    """The point a text names: a time, `run:ID`, `catalog:POSITION`, `activity:POSITION` or both, or a position."""
    if text is None:
        return NOW
    if text.startswith("run:"):
        run = text[len("run:") :]
        if not 1 <= len(run) <= MAX_RUN:
            raise Invalid(f"run: needs the id of a run after it, of at most {MAX_RUN} characters")
        return AsOf(run=run)
    try:
        if text.startswith((f"{CATALOG}:", f"{ACTIVITY}:")):
            return _positions(text)
        if text.replace(":", "", 1).isdecimal():
            return AsOf(catalog=parse_position(text))
        return AsOf(time=parse_time(text))
    except (Invalid, OverflowError):
        raise Invalid(
            f"{shown(text)} names no state; write a time (2026-11-15T20:45:00Z), run:ID, catalog:POSITION, "
            "activity:POSITION, or both joined by a comma; a position is a number or segment:index"
        ) from None


def _positions(text: str) -> AsOf:
    found: dict[str, int] = {}
    for part in text.split(","):
        log, _, position = part.partition(":")
        if log not in LOGS or log in found:
            raise Invalid(f"{shown(part)} is no position of a log, or its log is named twice")
        found[log] = parse_position(position)
    return AsOf(catalog=found.get(CATALOG), activity=found.get(ACTIVITY))


class Points:
    """The past of an open workspace. Keep one per workspace: it remembers the states that were asked for last."""

    def __init__(self, workspace: Workspace) -> None:
        self._logs = workspace.logs
        self._most_rows = workspace.cadence.max_rows
        self._runtime = workspace.runtime
        self._kept: OrderedDict[tuple[str, int | None, int | None], tuple[Snapshot, float]] = OrderedDict()

    async def snapshots_at(self, as_of: AsOf) -> dict[str, Snapshot]:
        """Both logs at a point, by name."""
        if as_of.run is not None:
            as_of = AsOf(activity=await self._end_of(as_of.run))  # once: it may write more meanwhile
        return {log: await self.snapshot_at(log, as_of) for log in LOGS}

    async def snapshot_at(self, log: str, as_of: AsOf) -> Snapshot:
        """One log at a point. Now is a frozen copy of the live state after catching up."""
        opened = self._logs[log]
        if as_of.is_now:
            return await opened.frozen()
        position, time = await self._point(log, as_of)
        key = (log, position, time)
        kept = self._find(key)
        if kept is not None:
            return kept
        # What was received by then is complete once something later has been folded.
        final = time is None or opened.replica.link.received > time
        snapshot = await opened.snapshot(position=position, time=time)
        if final:
            self._kept[key] = snapshot, self._runtime.boottime() + KEPT_FOR
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return snapshot

    def rows_held(self) -> int:
        """Rows in memory of the states that are kept."""
        return sum(snapshot.rows_held() for snapshot, _ in self._kept.values())

    def shed(self) -> None:
        """Keep none of them."""
        self._kept.clear()

    def _find(self, key: tuple[str, int | None, int | None]) -> Snapshot | None:
        """A state that was kept, unless it is too old or has grown too large."""
        found = self._kept.pop(key, None)
        if found is None or found[1] < self._runtime.boottime() or found[0].rows_held() > self._most_rows:
            return None
        self._kept[key] = found
        return found[0]

    async def _point(self, log: str, as_of: AsOf) -> tuple[int | None, int | None]:
        """The position or the time at which a log is to be read."""
        if as_of.time is not None:
            return None, as_of.time
        activity = as_of.activity if as_of.run is None else await self._end_of(as_of.run)
        given = {CATALOG: as_of.catalog, ACTIVITY: activity}
        mine = given.pop(log)
        if mine is not None:
            return mine, None
        [(other, position)] = given.items()
        return None, await _received(self._logs[other], position or 0)

    async def _end_of(self, run: str) -> int:
        """The position of the last event of a run; of one that another program told of, of its last output."""
        activity = await self._logs[ACTIVITY].frozen()
        rows = await activity.scan(RUNS, groups=[run])
        position: int | None = pc.max(rows.column("_position")).as_py()
        if position is None:
            found = await activity.scan(MATERIALIZATIONS, between={"run_id": (run, run)})
            position = pc.max(found.column("_position")).as_py()
        if position is None:
            raise NotFound(f"nothing of the run {shown(run)} is known, so there is no state as of its end")
        return position


async def _received(opened: OpenLog, position: int) -> int:
    """When the segment of a position was received."""
    number = number_of(position)
    if number == 0:
        return 0
    await opened.current(min_position=position)
    ledger = opened.follower.ledger
    segment = decode_segment(await ledger.read(number), ledger.path(number))
    return segment.header.received
