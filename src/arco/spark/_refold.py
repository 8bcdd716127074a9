"""A round of a refold: fold the buckets of a partition, write their rows, and send on what later rounds need.

The fold is the one of `arco.state`: `FoldBatch.run_group` with all that a group is told. What a task writes does not
depend on how events were cut into segments, parcels or partitions.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from arco.core import Invalid, new_ulid
from arco.log import Event, number_of, position_of
from arco.runtime import AsyncRuntime
from arco.spark._course import Course, Step
from arco.spark._parcels import (
    BARE,
    LOG,
    WHOLE,
    Changed,
    Chunk,
    Noted,
    Outbox,
    Parcel,
    Plain,
    Report,
    Told,
    Turned,
    open_parcel,
    report_parcel,
)
from arco.spark._site import Assignment, Sent, perform
from arco.spark._source import Source
from arco.spark._typed import NOTHING, decode_event, decode_events, envelope
from arco.state import (
    AUDIT,
    REJECTED,
    REJECTIONS,
    SPLIT_BYTES,
    Change,
    File,
    FileWriter,
    FoldBatch,
    Input,
    Key,
    Reject,
    Retention,
    Rows,
    Table,
    audit_row,
    cutoff,
    keep_alive,
    name_rejections,
    row_text,
    to_arrow,
)

__all__ = ["fold_round"]

ENCODE_ROWS = 2_000
"""Rows of a table that a task holds as Python objects before it makes Arrow of them: as many as stay in the cache."""

HOME_BYTES = 1 << 20
"""A table of which a task has less than this is sent to the driver, which writes one file for all tasks."""

SEND_BYTES = 32 << 20
"""Bytes of changes that a task gathers before it sends them."""

_encode_event = msgspec.json.Encoder().encode
_encode_row = msgspec.msgpack.Encoder().encode
_NOBODY = Event("", "", "", "", "", "", NOTHING)


def fold_round(
    assignment: Assignment, round: int, retention: Retention, partition: int, parcels: Iterable[Parcel]
) -> list[Sent]:
    """Fold what a partition has for a round."""
    partitions = assignment.partitions

    async def work(runtime: AsyncRuntime, sent: list[Sent]) -> None:
        course = assignment.course
        outbox = Outbox(partitions)
        # A name of its own for each attempt: a repeated or speculative task leaves files that nobody names.
        name = f"refold-{partition:03d}-{new_ulid(runtime, runtime)}"
        tables = _Tables(assignment, retention, assignment.site.writer(runtime, assignment.directory), name)
        fold = _Fold(course, Source(assignment, runtime), retention, outbox, tables)
        buckets: dict[int, list[Parcel]] = {}
        later: list[Parcel] = []
        for parcel in parcels:
            if parcel[0] == round:
                buckets.setdefault(parcel[1], []).append(parcel)
            elif parcel[0] > round:
                later.append(parcel)
        sent += outbox.carry(later)
        for bucket in sorted(buckets):
            chunks = [open_parcel(parcel) for parcel in sorted(buckets.pop(bucket), key=lambda known: known[2])]
            if round < course.closing:
                await fold.groups(bucket, chunks)
            elif round == course.closing:
                fold.close(chunks)
            else:
                fold.rejections(chunks)
            await tables.keep()
            if fold.size > SEND_BYTES:
                sent += outbox.flush(0)
                fold.size = 0
        sent += outbox.flush(0)
        await tables.end()
        sent.append(report_parcel(Report(partition, sent=outbox.sent, files=tables.files), partitions))

    return list(perform(partition, partitions, work))


class _Fold:
    """Folds bucket after bucket. Rows go to `tables`, everything else to the outbox."""

    def __init__(self, course: Course, source: Source, retention: Retention, outbox: Outbox, tables: "_Tables") -> None:
        self.size = 0
        self._course = course
        self._registry = course.definition.registry
        self._source = source
        self._outbox = outbox
        self._tables = tables
        self._batch = FoldBatch(course.definition.domains, source, retention)

    async def groups(self, bucket: int, chunks: list[Chunk]) -> None:
        """Fold every group of a bucket, each with all it is told, in position order."""
        items: dict[tuple[str, int], list[Input]] = {}
        changed: dict[tuple[str, int], list[Changed]] = {}
        plain: dict[tuple[str, int], list[Plain]] = {}
        received: dict[int, int] = {}
        composite: set[int] = set()
        for chunk in chunks:
            received |= chunk.received
            for found in chunk.plain:
                plain.setdefault((found.group, found.step), []).append(found)
            for told in chunk.told:
                composite.update(told.audited)
                await self._take_events(told, chunk.received, items)
            for change in chunk.changed:
                changed.setdefault((change.group, change.step), []).append(change)
        audits = self._course.audits
        for number in {number for _, number in (*plain, *items, *changed)}:
            for table in self._course.steps[number].stage.tables:
                await self._source.load(table, (bucket,))
        for name in sorted({*plain, *items, *changed}):
            group, number = name
            step, mine = self._course.steps[number], items.pop(name, [])
            # That an audited event must also be valid is seen when the audit is written.
            self._batch.audited = {}
            if step.may_audit or composite:
                positions = [item.position for item in mine if item.event.type in audits or item.position in composite]
                self._batch.audited = {position: {} for position in positions}
            if name in plain:
                # One group at a time, from its bytes to its rows: what it consists of never leaves the cache.
                events = self._decode(plain.pop(name), received)
                mine = sorted(mine + events, key=_by_position) if mine else events
            if name in changed:
                mine = self._with_changes(mine, changed.pop(name))
            self._batch.run_group(step.stage, step.domain.name, group, mine)
            self._harvest(step, group)

    def _decode(self, plain: list[Plain], received: dict[int, int]) -> list[Input]:
        """The events that one group sees as a whole."""
        pieces = [piece for found in plain for piece in (b",", found.events)]
        text = b"".join([b"[", *pieces[1:], b"]"])
        positions = list(chain.from_iterable([found.positions for found in plain]))
        times = [received[number] for number in map(number_of, positions)]
        events = self._course.typed.events(text)
        if events is None:
            return self._decode_one_by_one(text, positions, times)
        return [Input(at, time, event, event.data) for at, time, event in zip(positions, times, events, strict=True)]

    def _decode_one_by_one(self, text: bytes, positions: list[int], times: list[int]) -> list[Input]:
        """Some of them do not fit. Every group that was sent one turns it away; the closing round counts it once."""
        items = []
        for position, received, event in zip(positions, times, decode_events(text), strict=True):
            try:
                payload = self._registry.decode(event.type, event.version, event.data)
            except Invalid as error:
                turned = Turned(position, LOG, False, "", 0, received, event.type, "log", error.message)
                self._outbox.chunk(self._course.closing, str(position)).turned.append(turned)
            else:
                items.append(Input(position, received, event, payload))
        return items

    async def _take_events(
        self, told: Told, received: dict[int, int], items: dict[tuple[str, int], list[Input]]
    ) -> None:
        """Give each group the events it is told: as a whole, in parts, or bare."""
        events = decode_events(told.events)
        known: tuple[int, Any, list[Any]] = (-1, None, [])
        for place, part, group in zip(told.places, told.parts, told.groups, strict=True):
            event, position = events[place], told.positions[place]
            if part != BARE and known[0] != place:
                payload = self._registry.decode(event.type, event.version, event.data)
                composite = self._registry.composite.get(event.type)
                known = (place, payload, list(composite(payload)) if composite is not None else [])
            attached = None
            if part == WHOLE and event.blobs and self._registry.has_attachment(event.type):
                attached = await self._source.attachment(event)
            given = None if part == BARE else known[1] if part == WHOLE else known[2][part][1]
            found = Input(position, received[number_of(position)], event, given, attached)
            items.setdefault((group, told.step), []).append(found)

    def _with_changes(self, items: list[Input], changed: list[Changed]) -> list[Input]:
        """Inputs in position order; of one event, what it says itself comes before what others made of it."""
        ordered: list[tuple[tuple[int, int, str, int], Input]] = [
            ((item.position, -1, "", index), item) for index, item in enumerate(items)
        ]
        for found in changed:
            before, after = (_decode_row(self._course, found.table, row) for row in (found.before, found.after))
            change = Change(found.table, before, after)
            ordered.append((found.order(), Input(found.position, found.received, decode_event(found.event), change)))
            if found.audited:
                self._batch.audited.setdefault(found.position, {})
        ordered.sort(key=lambda entry: entry[0])
        return [item for _, item in ordered]

    def _harvest(self, step: Step, group: str) -> None:
        """Send on what a group has become."""
        batch = self._batch
        for table in step.stage.tables:
            self._tables.add(table, group, batch.writes[table.name].pop(group))
        for turn, item in enumerate(batch.changes):
            self._send_change(step, group, turn, item)
        for turn, (item, domain, reason) in enumerate(batch.rejected):
            self._turn_away(item, step, True, group, turn, domain, reason)
        for position, noted in batch.audited.items():
            closing = self._outbox.chunk(self._course.closing, str(position)).noted if noted else []
            for (name, key), (before, after) in noted.items():
                closing.append(Noted(position, step.number, group, name, key, row_text(before), row_text(after)))
        batch.changes.clear()
        batch.rejected.clear()

    def _send_change(self, source: Step, group: str, turn: int, item: Input) -> None:
        change: Change = item.payload
        encoded: tuple[bytes, bytes | None, bytes | None] | None = None
        for step in self._course.watching[change.table]:
            try:
                keys = step.stage.group(item)
            except Reject as error:
                origin = f"{source.number:06d} {group}"
                self._turn_away(item, step, False, origin, turn, step.domain.name, str(error))
                continue
            if encoded is None and keys:
                event = _encode_event(envelope(item.event))
                encoded = (event, _encode_or_none(change.before), _encode_or_none(change.after))
            for key in keys:
                assert encoded is not None
                event, before, after = encoded
                self.size += len(event) + len(before or b"") + len(after or b"")
                self._outbox.chunk(step.round, key).changed.append(
                    Changed(
                        step.number,
                        key,
                        item.position,
                        source.number,
                        group,
                        turn,
                        item.received,
                        item.position in self._batch.audited,
                        event,
                        change.table,
                        before,
                        after,
                    )
                )

    def _turn_away(
        self, item: Input, step: Step, folded: bool, group: str, turn: int, domain: str, reason: str
    ) -> None:
        turned = Turned(item.position, step.number, folded, group, turn, item.received, item.event.type, domain, reason)
        self._outbox.chunk(self._course.closing, str(item.position)).turned.append(turned)

    # What concerns one event

    def close(self, chunks: list[Chunk]) -> None:
        """Write the audit of a bucket of positions and name what was rejected."""
        told = {found.order(): found for chunk in chunks for found in chunk.turned}
        turned = [found for _, found in sorted(told.items())]
        rejected = {found.position for found in turned}
        notes: dict[int, list[Noted]] = {}
        for chunk in chunks:
            for note in chunk.noted:
                notes.setdefault(note.position, []).append(note)
        audited = sorted((str(found.position), found) for chunk in chunks for found in chunk.audited)
        for name, found in audited:
            if found.position not in rejected:
                kind = next(kind for kind in reversed(self._course.audits.values()) if kind.name in found.kinds)
                noted = _merged(notes.get(found.position, []))
                row = audit_row(kind, found.position, found.received, decode_event(found.event), noted)
                self._tables.add(AUDIT, name, {name: (found.position, row)})
        rows = name_rejections((row.position, row.received, row.type, row.domain, row.reason) for row in turned)
        for rejection in rows:
            self._outbox.chunk(self._course.last, rejection.rejection_id).named.append(rejection)

    def rejections(self, chunks: list[Chunk]) -> None:
        for row in sorted((row for chunk in chunks for row in chunk.named), key=lambda row: row.rejection_id):
            item = Input(row.position, row.received_at, _NOBODY, row)
            self._batch.run_group(REJECTED, "system", row.rejection_id, [item])
            self._tables.add(REJECTIONS, row.rejection_id, self._batch.writes[REJECTIONS.name].pop(row.rejection_id))


_by_position = attrgetter("position")


def _merged(notes: list[Noted]) -> Iterator[tuple[str, bytes | None, bytes | None]]:
    """The rows an event changed, by table and key; of several writes the first says what was there before."""
    found: dict[tuple[str, Key], tuple[bytes | None, bytes | None]] = {}
    for note in sorted(notes, key=lambda note: (note.step, note.group)):
        name = (note.table, note.key)
        found[name] = (found[name][0] if name in found else note.before, note.after)
    for (table, _), (before, after) in sorted(found.items()):
        yield table, before, after


@lru_cache(maxsize=64)
def _row_decoder(row: type[msgspec.Struct]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(row)


def _decode_row(course: Course, table: str, data: bytes | None) -> Any:
    return None if data is None else _row_decoder(course.definition.tables[table].row).decode(data)


def _encode_or_none(row: Any) -> bytes | None:
    return None if row is None else _encode_row(row)


class _Tables:
    """The rows of a partition, as they come in the order of buckets and groups, on their way into files."""

    def __init__(self, assignment: Assignment, retention: Retention, writer: FileWriter, name: str) -> None:
        self.files: list[tuple[str, File | None, bytes | None]] = []
        self._tables = assignment.course.definition.tables
        self._is_first = not assignment.layers
        end = position_of(assignment.through + 1, 0)
        self._cutoffs = {table: cutoff(retention, table, end) for table in self._tables}
        self._writer = writer
        self._name = name
        self._rows: dict[str, dict[str, Rows]] = {}
        self._counts: dict[str, int] = {}
        self._data: dict[str, list[pa.Table]] = {}
        self._bytes: dict[str, int] = {}
        self._written: dict[str, int] = {}

    def add(self, table: Table, group: str, rows: Rows) -> None:
        """What became of a group. If this is its whole history, nothing is left of what was deleted."""
        if self._is_first and not table.is_fact:
            rows = {key: found for key, found in rows.items() if found[1] is not None}
        if rows:
            self._rows.setdefault(table.name, {})[group] = rows
            count = self._counts[table.name] = self._counts.get(table.name, 0) + len(rows)
            if count >= ENCODE_ROWS:
                self._encode(table.name)

    async def keep(self) -> None:
        """Between two buckets: bring what has become large into files."""
        for name in [name for name, size in self._bytes.items() if size >= SPLIT_BYTES]:
            await self._write(name)

    async def end(self) -> None:
        for name in list(self._counts):
            self._encode(name)
        for name in sorted(self._data):
            if self._bytes[name] < HOME_BYTES and name not in self._written:
                self.files.append((name, None, _pack(pa.concat_tables(self._data[name]))))
            else:
                await self._write(name)

    def _encode(self, name: str) -> None:
        table = self._tables[name]
        del self._counts[name]
        data = keep_alive(table, to_arrow(table, self._rows.pop(name).items()), self._cutoffs[name])
        if data.num_rows:
            self._data.setdefault(name, []).append(data)
            self._bytes[name] = self._bytes.get(name, 0) + data.nbytes

    async def _write(self, name: str) -> None:
        pieces = self._data.pop(name)
        del self._bytes[name]
        table = self._tables[name]
        turn = self._written.get(name, 0)
        self._written[name] = turn + 1
        data = pa.concat_tables(pieces)
        files = await self._writer.files(table, data, f"{self._name}-{name}-{turn:03d}")
        self.files += [(name, file, None) for file in files]


def _pack(data: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as stream:
        stream.write_table(data)
    return bytes(sink.getvalue())
