"""Reading a whole log for an erasure: what would become of each event, of the state, and of what only they named.

    every segment -> redact -> fold in memory -> what is counted, what would be refused

A *named* object is one that only events give a meaning to: a blob, an archive of code, a file of a version of data.
What was named before and is not named afterwards goes. Nothing is written here.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from arco.backup._redact import Redaction, Selection, has_text, redact, replace_texts
from arco.backup._rewrite import rewrite_segment
from arco.backup._target import Progress
from arco.core import Refused
from arco.domains.orchestration import ORCHESTRATION
from arco.domains.tables import ICEBERG_COMMITTED
from arco.log import (
    FIRST_LINK,
    Blobs,
    Ledger,
    Link,
    Segment,
    check_segment,
    decode_segment,
    index_of,
    number_of,
    segment_text,
)
from arco.state import (
    INCARNATION_OPENED,
    REJECTIONS,
    WORKSPACE_ERASED,
    Definition,
    LayerReader,
    Replica,
    Revisions,
    Snapshot,
    empty_manifest,
    open_ledger,
    snapshot_at_revision,
)
from arco.storage import Store

__all__ = ["Editing", "rewrite_blobs", "survey_log"]

BATCH = 256
"""Segments that are folded at once."""
SHOWN = 5

_TOGETHER = frozenset(kind.name for kind in ORCHESTRATION.events)
"""An event of these types goes only with its run: without the end of a task it would be made again."""
_KEPT = frozenset({INCARNATION_OPENED.name, WORKSPACE_ERASED.name})

_BLOBS = re.compile(rb'"blobs":\[([^\]]*)\]')
_HASH = re.compile(rb"[0-9a-f]{64}")
_CODE = re.compile(rb'"code_sha256":"([0-9a-f]{64})"')
_DATA = re.compile(rb'"(data/[^"\\]+)"')


class _About(msgspec.Struct):
    run_id: str = ""
    table_id: str = ""


class _Told(msgspec.Struct):
    type: str
    data: _About | None = None


def named_in(event: bytes) -> set[str]:
    """Objects of the workspace that an event names."""
    found = {f"code/{sha256.decode()}.zip" for sha256 in _CODE.findall(event)}
    found |= {path.decode() for path in _DATA.findall(event)}
    return found | {Blobs.path(sha256) for sha256 in blobs_in(event)}


def blobs_in(event: bytes) -> set[str]:
    return {sha256.decode() for listed in _BLOBS.findall(event) for sha256 in _HASH.findall(listed)}


@dataclass
class Editing:
    """Edits the events of one log, and counts what it does. `edit` is for `rewrite_segment`."""

    log: str
    definition: Definition
    selection: Selection
    words: Mapping[str, str]
    reason: str
    whole: Counter[str] = field(default_factory=Counter)
    edited: Counter[str] = field(default_factory=Counter)
    found: set[str] = field(default_factory=set)
    """Ids and texts of the selection that were met."""
    chosen: set[int] = field(default_factory=set)
    """Positions of the selection that were met."""
    before: set[str] = field(default_factory=set)
    """What redacted events named."""
    after: set[str] = field(default_factory=set)
    """What is named by what stands there now."""
    first: int = 0
    """The first position where something else stands now."""

    def edit(self, position: int, event: bytes) -> bytes:
        redaction = redact(event, position, self.log, self.selection, self.words, self.definition.registry, self.reason)
        if redaction is None:
            self.after |= named_in(event)
            return event
        self._check(position, event, redaction)
        self.first = self.first or position
        (self.whole if redaction.is_whole else self.edited)[redaction.type] += 1
        self.before |= named_in(event)
        self.after |= named_in(redaction.data)
        said = repr(msgspec.json.decode(event))
        self.found |= {text for text in (*self.selection.ids, *self.selection.texts) if text in said}
        if self.selection.holds(self.log, position):
            self.chosen.add(position)
        return redaction.data

    @property
    def types(self) -> dict[str, int]:
        return dict(sorted((self.whole + self.edited).items()))

    def _check(self, position: int, event: bytes, redaction: Redaction) -> None:
        where = f"the {redaction.type} at {_shown(position)} of {self.log}"
        if redaction.is_whole and redaction.type in _KEPT:
            raise Refused(f"{where} says where this incarnation comes from; it stays")
        about = msgspec.json.decode(event, type=_Told).data or _About()
        if redaction.is_whole and redaction.type in _TOGETHER and about.run_id not in self.selection.ids:
            raise Refused(
                f"{where} belongs to the run {about.run_id}, whose tasks would be made again without it; "
                f"erase the run: --about {about.run_id}"
            )
        if (
            redaction.is_whole
            and redaction.type == ICEBERG_COMMITTED.name
            and (about.table_id not in self.selection.ids)
        ):
            raise Refused(
                f"{where} is the receipt of a commit, which would be told again; erase the table: "
                f"--about {about.table_id}"
            )


async def survey_log(
    store: Store, revisions: Revisions, last: int, editing: Editing, blobs: Mapping[str, bytes], progress: Progress
) -> None:
    """Redact and fold a log up to a segment, in memory; `editing` counts. `blobs` are those that are rewritten.

    `Refused` if events that stay could not be folded without those that go.
    """
    head = (await revisions.head()).manifest
    ledger = open_ledger(store, revisions, head.packs)
    replica = Replica(editing.definition, _Reader(store, blobs), empty_manifest(revisions.place))
    old, new, batch = FIRST_LINK, FIRST_LINK, list[tuple[Segment, Link]]()
    async for number, data, path in ledger.known(1, last):
        _, old = check_segment(data, ledger.place, old, path)
        rewritten, new = rewrite_segment(data, ledger.place, new, path, edit=editing.edit)
        batch.append((decode_segment(rewritten, path), new))
        if len(batch) == BATCH or number == last:
            await replica.apply(batch)
            batch = []
            progress(f"reading {editing.log}", number, last)
    if editing.first:
        published = snapshot_at_revision(editing.definition, store, head, revisions.runtime)
        await _check_folded(published, replica, editing)


async def _check_folded(published: Snapshot, replica: Replica, editing: Editing) -> None:
    """What cannot be folded now and could before depends on what goes. Of what is not published nobody knows."""
    known = set((await published.scan(REJECTIONS)).column("rejection_id").to_pylist())
    rejected = (await replica.scan(REJECTIONS)).select(["rejection_id", "position", "event_type"]).to_pylist()
    new = [row for row in rejected if row["rejection_id"] not in known and row["position"] <= published.position]
    if new:
        shown = ", ".join(f"{row['event_type']} at {_shown(row['position'])}" for row in new[:SHOWN])
        flags = " ".join(f"--event {editing.log}={_shown(row['position'])}" for row in new[:SHOWN])
        more = f", and {len(new) - SHOWN} more" if len(new) > SHOWN else ""
        raise Refused(
            f"{len(new)} events of {editing.log} mean nothing without what would go: {shown}{more}; erase them too "
            f"({flags}), or their table or asset as a whole with --about"
        )


async def rewrite_blobs(
    store: Store, ledgers: Iterable[tuple[Ledger, int]], words: Mapping[str, str]
) -> dict[str, bytes]:
    """Of each blob that holds a text, by sha256, what is to stand in its place. `ledgers` come with their ends."""
    named: set[str] = set()
    for ledger, segments in ledgers if words else ():
        async for _, data, path in ledger.known(1, segments):
            named |= blobs_in(segment_text(data, path))
    found: dict[str, bytes] = {}
    for sha256 in sorted(named):
        data = await Blobs(store).get(sha256)
        if has_text(data, words):
            try:
                value = msgspec.json.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise Refused(
                    f"{Blobs.path(sha256)} has the text and is no JSON that could go without it; erase the events that "
                    "name it whole (`arco log cat` shows them)"
                ) from None
            if (left := replace_texts(value, words)) != value:
                found[sha256] = msgspec.json.encode(left)
    return found


class _Reader(LayerReader):
    """Reads blobs as they will be."""

    def __init__(self, store: Store, blobs: Mapping[str, bytes]) -> None:
        super().__init__(store)
        self._blobs = {hashlib.sha256(data).hexdigest(): data for data in blobs.values()}

    async def blob(self, sha256: str) -> bytes:
        return self._blobs[sha256] if sha256 in self._blobs else await super().blob(sha256)


def _shown(position: int) -> str:
    return f"{number_of(position)}:{index_of(position)}"
