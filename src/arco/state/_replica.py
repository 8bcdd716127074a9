"""`Replica`: a fold held in memory at a position, on top of a published revision.

Rows are loaded by bucket when a fold or a reader needs them and may be evicted again. What changed since the base
revision is *dirty* and always in memory. A bucket that is not loaded has not changed, but for rows the fold writes
without looking (the audit): those lie *aside* until it is loaded. `rebase` moves the base forward: a dirty row whose
position the new revision covers is clean. The same rule serves after our own publish and after somebody else's, because
state is a function of the log's prefix.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa

from arco.core import Conflict, Refused, Unavailable
from arco.log import Command, Event, Link, NewEvent, Receipt, Segment, position_of
from arco.state._aging import Aged, count_aged, oldest_time
from arco.state._bucket import Bucket, Overlay, overlaid, split_buckets
from arco.state._codec import to_arrow
from arco.state._definition import Definition
from arco.state._fold import Folded, Retention, Rows, Skipped, Versioned, Writes, cutoff, fold_batch
from arco.state._layers import LayerReader
from arco.state._manifest import Layer, Manifest, PinEntry
from arco.state._system import OPERATIONS, PINS, REJECTIONS, REQUESTS
from arco.state._table import Key, Table, bucket_of
from arco.state._view import scan

__all__ = ["Replica"]

ATTACHMENTS = 2
"""Decoded attachments kept in memory; each may be large."""


class Replica:
    """The state of one log. Implements `log.Fold`."""

    def __init__(self, definition: Definition, reader: LayerReader, base: Manifest) -> None:
        self.definition = definition
        self._reader = reader
        self._users = 0
        self._attached: OrderedDict[str, Any] = OrderedDict()
        self.reset(base)

    def reset(self, base: Manifest) -> None:
        """Forget everything and stand on a revision."""
        self.base = base
        self._link = base.link
        self.retention: Retention = {
            table: [(int(since), before) for since, before in steps] for table, steps in base.retention.items()
        }
        self.skips = {skip.type: Skipped(int(skip.first), skip.count) for skip in base.skipped}
        self.pins = {pin.pin_id: pin for pin in base.pins}
        self._buckets: dict[str, dict[int, Bucket]] = {name: {} for name in self.definition.tables}
        self._aside: dict[str, dict[int, dict[str, Rows]]] = {name: {} for name in self.definition.tables}
        self.dirty: Writes = {}

    @property
    def link(self) -> Link:
        return self._link

    @property
    def watermark(self) -> int:
        return position_of(self._link.number + 1, 0) - 1

    @property
    def versions(self) -> Mapping[str, int]:
        return self.definition.versions

    def skipped(self) -> str | None:
        if not self.skips:
            return None
        name, skip = next(iter(sorted(self.skips.items())))
        return f"the event type {name} at position {skip.first} is not known here"

    # Folding

    async def apply(self, segments: Sequence[tuple[Segment, Link]], *, through: int | None = None) -> None:
        """Fold segments that follow; with `through`, only events up to that position."""
        if not segments:
            return
        self.hold()
        try:
            folded = await fold_batch(
                self.definition.domains, self.definition.registry, self, _events(segments, through), self.retention
            )
        finally:
            self.release()
        self._commit(folded, segments[-1][1])

    def _commit(self, folded: Folded, link: Link) -> None:
        for name, groups in folded.writes.items():
            buckets, dirty = self._buckets[name], self.dirty.setdefault(name, {})
            for group, writes in groups.items():
                number = bucket_of(group)
                if number in buckets:
                    buckets[number].write(group, writes)
                else:
                    self._put_aside(name, number, group, writes)
                dirty.setdefault(group, {}).update(writes)
        for group, writes in folded.writes.get(PINS.name, {}).items():
            for _, pin in writes.values():
                if pin is None:
                    self.pins.pop(group, None)
                else:
                    self.pins[group] = PinEntry(pin.pin_id, pin.revision, pin.expires_at)
        for name, skip in folded.skipped.items():
            known = self.skips.get(name)
            self.skips[name] = Skipped(known.first, known.events + skip.events) if known else skip
        # Of the steps behind us only the furthest matters to what comes.
        before, self.retention = self.retention, {name: steps[-1:] for name, steps in folded.retention.items()}
        for name, steps in self.retention.items():
            if steps != before.get(name):
                for bucket in self._buckets[name].values():
                    bucket.expire(steps[-1][1])
        self._link = link

    async def attachment(self, event: Event) -> Any:
        """What the event's blob holds. It is folded twice, as a draft and for good, so the last ones are kept."""
        sha256 = event.blobs[0]
        if sha256 not in self._attached:
            data = await self._reader.blob(sha256)
            self._attached[sha256] = self.definition.registry.decode_attachment(event.type, data)
            while len(self._attached) > ATTACHMENTS:
                self._attached.popitem(last=False)
        return self._attached[sha256]

    # Rows

    async def load(self, table: Table, buckets: Iterable[int]) -> None:
        loaded, aside = self._buckets[table.name], self._aside[table.name]
        missing = {bucket for bucket in buckets if bucket not in loaded}
        if not missing:
            return
        layers = self.base.layers_of(table.name)
        found: dict[int, pa.Table] = {}
        if layers:
            # Held: a bucket that was loaded, changed, published and evicted meanwhile would be taken for unchanged.
            self.hold()
            try:
                found = dict(split_buckets(await self._reader.rows(table, layers, missing)))
            finally:
                self.release()
        for number in missing:
            if number not in loaded:  # else another reader has loaded it meanwhile, and a fold may have changed it
                bucket = loaded[number] = Bucket(table, found.get(number))
                for group, writes in aside.pop(number, {}).items():
                    bucket.write(group, writes)

    def _put_aside(self, name: str, bucket: int, group: str, writes: Rows) -> None:
        """Rows of a bucket that is not loaded; `load` adds them."""
        self._aside[name].setdefault(bucket, {}).setdefault(group, {}).update(writes)

    def group(self, table: Table, group: str) -> Mapping[Key, Versioned]:
        bucket = self._loaded(table, group)
        found = bucket.groups.get(group)
        return bucket.find(group) if found is None else found

    def _loaded(self, table: Table, group: str) -> Bucket:
        bucket = self._buckets[table.name].get(bucket_of(group))
        if bucket is None:
            raise Unavailable("the state was replaced by a rebuild while it was read; try again")
        return bucket

    async def get(self, table: Table, group: str, key: Key) -> Any:
        """The row as of the replica's position, or None."""
        self.hold()
        try:
            await self.load(table, (bucket_of(group),))
            found = self.group(table, group).get(key)
        finally:
            self.release()
        return found[1] if found and self._lives(table, found[1]) else None

    async def rows(self, table: Table, group: str) -> list[Any]:
        """All rows of a group, in key order."""
        self.hold()
        try:
            await self.load(table, (bucket_of(group),))
            self.settle(table, group)
            return [row for _, (_, row) in self.ordered(table, group) if self._lives(table, row)]
        finally:
            self.release()

    async def page(self, table: Table, group: str, after: Key | None, limit: int) -> list[Any]:
        """The next rows of a group in key order, after a key."""
        self.hold()
        try:
            await self.load(table, (bucket_of(group),))
            alive = (row for _, (_, row) in self.ordered(table, group, after) if self._lives(table, row))
            return list(islice(alive, limit))
        finally:
            self.release()

    def settle(self, table: Table, group: str) -> None:
        """All rows of a group whose bucket was loaded will be read: make them once."""
        self._loaded(table, group).settle(group)

    def ordered(self, table: Table, group: str, after: Key | None = None) -> Iterator[tuple[Key, Versioned]]:
        """The rows of a group whose bucket was loaded, in key order, those that retention took included."""
        return self._loaded(table, group).ordered(group, after)

    async def scan(self, table: Table, buckets: Iterable[int] | None = None) -> pa.Table:
        """All rows as of the replica's position, as Arrow."""
        overlay = to_arrow(table, self.dirty.get(table.name, {}).items())
        layers = self.base.layers_of(table.name)
        limit = cutoff(self.retention, table.name, self.watermark + 1)
        return await scan(self._reader, table, layers, overlay, limit, buckets)

    def oldest(self, table: Table, column: str = "") -> int | None:
        """A time before which the table has no row that is stored; None if it has none. Nothing is read."""
        return oldest_time(table, self.base.layers_of(table.name), self.dirty.get(table.name, {}).values(), column)

    def reached(self, table: Table) -> int:
        """The time before which retention has taken the rows of a table; 0 if it has taken none."""
        return cutoff(self.retention, table.name, self.watermark + 1) or 0

    async def aged(self, table: Table, until: int) -> Aged:
        """What is published of a table that retention has not taken and would take if it reached a time."""
        return await count_aged(self._reader, table, self.base.layers_of(table.name), self.reached(table), until)

    def with_layers(self, layers: tuple[Layer, ...]) -> "Replica":
        """A replica for one scan that reads only these layers of its base, with the same rows in memory on top."""
        other = Replica(self.definition, self._reader, msgspec.structs.replace(self.base, layers=layers))
        other._link, other.retention, other.dirty = self._link, self.retention, self.dirty
        return other

    def _lives(self, table: Table, row: Any) -> bool:
        if row is None or table.name not in self.retention:
            return row is not None
        return not table.is_expired(row, cutoff(self.retention, table.name, self.watermark + 1))

    # The base

    def rebase(self, base: Manifest) -> None:
        """Stand on a newer revision of the same generation, at or below our position."""
        covered = int(base.watermark)
        self.base = base
        for name, groups in list(self.dirty.items()):
            for group, writes in list(groups.items()):
                for key in [key for key, versioned in writes.items() if versioned[0] <= covered]:
                    del writes[key]
                if not writes:
                    del groups[group]
            if not groups:
                del self.dirty[name]
        if not self._users:  # else somebody may be loading what an older revision has, and needs these rows too
            for buckets in self._aside.values():
                buckets.clear()
            for name, groups in self.dirty.items():
                for group, writes in groups.items():
                    if bucket_of(group) not in self._buckets[name]:
                        self._put_aside(name, bucket_of(group), group, writes)

    def freeze(self) -> "Replica":
        """A replica that stays at this position, whatever becomes of this one."""
        other = Replica(self.definition, self._reader, self.base)
        other._link, other.retention = self._link, self.retention
        other.skips, other.pins = dict(self.skips), dict(self.pins)
        other.dirty = {
            name: {group: dict(rows) for group, rows in groups.items()} for name, groups in self.dirty.items()
        }
        for name, groups in other.dirty.items():
            for group, rows in groups.items():
                other._put_aside(name, bucket_of(group), group, rows)
        return other

    def hold(self) -> None:
        """Nothing is evicted until `release`: somebody has loaded rows and is about to use them."""
        self._users += 1

    def release(self) -> None:
        self._users -= 1

    def dirty_rows(self) -> int:
        return sum(len(rows) for groups in self.dirty.values() for rows in groups.values())

    def loaded_rows(self) -> int:
        """Rows in memory."""
        return sum(bucket.held for buckets in self._buckets.values() for bucket in buckets.values())

    def evict(self) -> None:
        """Drop every bucket that has no dirty row, unless somebody is reading right now."""
        if self._users:
            return
        for name, buckets in self._buckets.items():
            dirty = {bucket_of(group) for group in self.dirty.get(name, ())}
            for bucket in [bucket for bucket in buckets if bucket not in dirty]:
                del buckets[bucket]

    def draft(self) -> "ReplicaDraft":
        return ReplicaDraft(self)


class ReplicaDraft:
    """A replica plus events that are not appended yet. Implements `log.Draft` and the deciders' `View`."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._writes: Writes = {}
        self._retention = replica.retention
        self._staged: list[tuple[int, int, Event]] = []

    async def find(self, command: Command) -> Receipt | None:
        operation = command.operation
        if command.key:
            request = await self.get(REQUESTS, command.key, command.key)
            if request is not None:
                asked = command.request_hash()
                if request.keyhash != asked:
                    raise Conflict(
                        f"the request key {command.key} was used for another request (fingerprint {request.keyhash}, "
                        f"this one has {asked}); use a new key",
                        stored=request.keyhash,
                        given=asked,
                    )
                operation = request.operation
        row = await self.get(OPERATIONS, operation, operation)
        return Receipt(operation, str(row.first), str(row.last), replayed=True) if row is not None else None

    async def decide(self, command: Command, received: int) -> Sequence[NewEvent]:
        return await self._replica.definition.decide(command, self, received)

    async def stage(self, number: int, index: int, events: Sequence[Event], received: int) -> None:
        """Facts without a key are folded only when a later member looks at the state.

        What was decided or carries a key is folded at once: if the fold rejects it, it must not be appended, because
        the operation would count as carried out and its key as used.
        """
        at_once = any(event.command or event.key for event in events)
        if at_once:
            await self._fold_staged()
        self._staged += [(position_of(number, index + i), received, event) for i, event in enumerate(events)]
        if at_once:
            await self._fold_staged(refuse=True)

    async def _fold_staged(self, *, refuse: bool = False) -> None:
        if not self._staged:
            return
        definition, staged = self._replica.definition, self._staged
        self._staged = []
        self._replica.hold()
        try:
            folded = await fold_batch(definition.domains, definition.registry, self, staged, self._retention)
        finally:
            self._replica.release()
        for rows in folded.writes.get(REJECTIONS.name, {}).values() if refuse else ():
            for _, row in rows.values():
                raise Refused(f"the event {row.event_type} cannot be folded: {row.reason}")
        for name, groups in folded.writes.items():
            mine = self._writes.setdefault(name, {})
            for group, rows in groups.items():
                mine.setdefault(group, {}).update(rows)
        self._retention = folded.retention

    async def attachment(self, event: Event) -> Any:
        return await self._replica.attachment(event)

    async def load(self, table: Table, buckets: Iterable[int]) -> None:
        await self._replica.load(table, buckets)

    def group(self, table: Table, group: str) -> Mapping[Key, Versioned]:
        before, mine = self._replica.group(table, group), self._mine(table, group)
        return Overlay(mine, before) if mine else before

    async def get(self, table: Table, group: str, key: Key) -> Any:
        await self._fold_staged()
        await self.load(table, (bucket_of(group),))
        found = self.group(table, group).get(key)
        return found[1] if found and self._lives(table, found[1]) else None

    async def rows(self, table: Table, group: str) -> list[Any]:
        await self._fold_staged()
        await self.load(table, (bucket_of(group),))
        self._replica.settle(table, group)
        return list(self._alive(table, group, None))

    async def page(self, table: Table, group: str, after: Key | None, limit: int) -> list[Any]:
        await self._fold_staged()
        await self.load(table, (bucket_of(group),))
        return list(islice(self._alive(table, group, after), limit))

    def _mine(self, table: Table, group: str) -> Rows:
        return self._writes.get(table.name, {}).get(group, {})

    def _alive(self, table: Table, group: str, after: Key | None) -> Iterator[Any]:
        mine, before = self._mine(table, group), self._replica.ordered(table, group, after)
        keys = sorted(key for key in mine if after is None or key > after)  # type: ignore[operator]
        both = overlaid(before, mine, keys) if mine else before
        return (row for _, (_, row) in both if self._lives(table, row))

    def _lives(self, table: Table, row: Any) -> bool:
        """What retention took does not exist for a decider either, whether a merge has dropped it yet or not."""
        steps = self._retention.get(table.name)
        return row is not None and (not steps or not table.is_expired(row, steps[-1][1]))


def _events(segments: Sequence[tuple[Segment, Link]], through: int | None) -> Iterable[tuple[int, int, Event]]:
    for segment, _ in segments:
        received, first = segment.header.received, position_of(segment.header.number, 0)
        for position, event in enumerate(segment.events, first):
            if through is not None and position > through:
                return
            yield position, received, event
