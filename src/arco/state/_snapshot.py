"""`Snapshot`: the state at a revision, at a position or at a time, for readers. It never changes.

Any position is an older revision plus a fold of the log above it, and so is any time: of what was received by then.
The present position of a live replica is a copy of its rows in memory (`freeze`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from arco.core import Invalid, NotFound, Runtime, Stale
from arco.log import Ledger, number_of
from arco.state._aging import Aged
from arco.state._definition import Definition
from arco.state._forward import fold_forward
from arco.state._layers import LayerReader
from arco.state._manifest import File, Layer, Manifest
from arco.state._replica import Replica
from arco.state._revisions import Revisions, base_for, check_versions
from arco.state._table import BUCKETS, Key, Kind, Table, bucket_of
from arco.storage import Store

__all__ = [
    "Snapshot",
    "TableSummary",
    "freeze",
    "snapshot_at_position",
    "snapshot_at_revision",
    "snapshot_at_time",
]


@dataclass(frozen=True)
class TableSummary:
    """What a revision says of a table without reading it."""

    name: str
    kind: Kind
    layers: int
    files: int
    rows: int
    """Stored rows, older images and tombstones included."""
    bytes: int


class Snapshot:
    def __init__(self, definition: Definition, replica: Replica, position: int) -> None:
        self.definition = definition
        self.manifest = replica.base
        self.position = position
        """Everything up to this position is in here, and nothing else."""
        self._replica = replica

    def table(self, name: str) -> Table:
        found = self.definition.tables.get(name)
        if found is None:
            names = ", ".join(sorted(self.definition.tables))
            raise NotFound(f"the log {self.definition.log} has no table {name!r}; it has {names}")
        return found

    async def get(self, table: Table, group: str, key: Key) -> Any:
        """One row by its group and key, or None. Reads only files that hold the group's bucket."""
        return await self._replica.get(table, group, key)

    async def load(self, table: Table, buckets: Iterable[int]) -> None:
        """Bring buckets into memory that will be read one after the other, with one read of each file."""
        await self._replica.load(table, buckets)

    async def rows(self, table: Table, group: str) -> list[Any]:
        return await self._replica.rows(table, group)

    async def page(self, table: Table, group: str, after: Key | None, limit: int) -> list[Any]:
        """The next rows of a group in key order, after a key."""
        return await self._replica.page(table, group, after, limit)

    def reached(self, table: Table) -> int:
        """The time before which retention has taken the rows of a table; 0 if it has taken none."""
        return self._replica.reached(table)

    async def aged(self, table: Table, until: int) -> Aged:
        """What is published of a table that retention has not taken and would take if it reached a time."""
        return await self._replica.aged(table, until)

    async def scan(
        self,
        table: Table,
        *,
        groups: Iterable[str] | None = None,
        buckets: Iterable[int] | None = None,
        between: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> pa.Table:
        """All rows, or those of some groups or buckets, or with a prunable column in a range (ends included)."""
        wanted = None if groups is None else list(groups)
        if wanted is not None:
            buckets = {bucket_of(group) for group in wanted}
        replica = self._replica
        if between:
            unknown = set(between) - set(table.prune)
            if unknown:
                raise Invalid(f"{table.name} cannot be pruned by {sorted(unknown)}; only by {list(table.prune)}")
            replica = self._pruned(table, between)
        data = await replica.scan(table, buckets)
        if wanted is not None:
            data = data.filter(pa.compute.is_in(data.column(table.group), pa.array(wanted, pa.string())))
        for name, (low, high) in (between or {}).items():
            column = data.column(name)
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.int64())
            data = data.filter(
                pa.compute.and_(pa.compute.greater_equal(column, low), pa.compute.less_equal(column, high))
            )
        return data

    def differing(self, other: "Snapshot", table: Table) -> set[int]:
        """The buckets in which the rows of two states may differ; in all others they are the same."""
        if self._replica.retention.get(table.name) != other._replica.retention.get(table.name):
            return set(range(BUCKETS))
        mine, others = self._files(table), other._files(table)
        bits = 0
        for place in mine.keys() ^ others.keys():
            bits |= int((mine.get(place) or others[place]).buckets, 16)
        found = {bucket for bucket in range(BUCKETS) if bits >> bucket & 1}
        for state in (self, other):
            found |= {bucket_of(group) for group in state._replica.dirty.get(table.name, ())}
        return found

    def _files(self, table: Table) -> dict[tuple[str, int], File]:
        return {(file.path, file.offset): file for layer in self.manifest.layers_of(table.name) for file in layer.files}

    def _pruned(self, table: Table, between: Mapping[str, tuple[Any, Any]]) -> Replica:
        """A replica that does not even know the files that cannot hold a wanted row.

        A file of images may also hide an older row that is wanted: a tombstone has no values, and a key that was
        dropped may be used again. So it goes only if no older file that stays shares a bucket with it.
        """
        hidden = 0

        def may_hold(file: File) -> bool:
            return all(
                name not in file.stats or not (file.stats[name][1] < low or file.stats[name][0] > high)
                for name, (low, high) in between.items()
            )

        layers = []
        for layer in self.manifest.layers_of(table.name):
            files = tuple(f for f in layer.files if may_hold(f) or int(f.buckets, 16) & hidden)
            if table.kind is Kind.IMAGE:
                for file in files:
                    hidden |= int(file.buckets, 16)
            layers.append(Layer(layer.table, layer.level, layer.first, layer.last, files))
        return self._replica.with_layers(tuple(layers))

    def rows_held(self) -> int:
        """How many rows reading it has brought into memory."""
        return self._replica.loaded_rows()

    def summary(self) -> list[TableSummary]:
        found = []
        for name, table in sorted(self.definition.tables.items()):
            layers = self.manifest.layers_of(name)
            found.append(
                TableSummary(
                    name,
                    table.kind,
                    len(layers),
                    sum(len(layer.files) for layer in layers),
                    sum(layer.rows for layer in layers),
                    sum(layer.bytes for layer in layers),
                )
            )
        return found


def snapshot_at_revision(
    definition: Definition, store: Store, manifest: Manifest, runtime: Runtime | None = None
) -> Snapshot:
    """The state of a revision. With a runtime, large tables are read beside the loop."""
    return Snapshot(definition, Replica(definition, LayerReader(store, runtime), manifest), int(manifest.watermark))


def freeze(definition: Definition, replica: Replica) -> Snapshot:
    """The state exactly where a replica stands now. Later folds and publishes do not change it."""
    return Snapshot(definition, replica.freeze(), replica.watermark)


async def snapshot_at_position(
    definition: Definition,
    store: Store,
    revisions: Revisions,
    log: Ledger,
    head: Manifest,
    position: int,
) -> Snapshot:
    """The state exactly at a position, which must exist already."""
    base = base_for(definition, await revisions.below(head, position))
    if int(base.watermark) < position:
        check_versions(base, definition.versions)  # folding an older way on top of a newer one is neither
    replica = Replica(definition, LayerReader(store, revisions.runtime), base)
    through = number_of(position)
    known = min(through, head.link.number)
    async for _ in fold_forward(replica, log, through, at_least=known, position=position):
        pass
    if replica.link.number < through:
        last = replica.link.number
        raise Stale(f"the log {log.place.log} ends at segment {last}; position {position} does not exist yet")
    return Snapshot(definition, replica, position)


async def snapshot_at_time(
    definition: Definition,
    store: Store,
    revisions: Revisions,
    log: Ledger,
    head: Manifest,
    time: int,
) -> Snapshot:
    """The state of everything the log had received by a time; its position says how far that is.

    Received times never go back, so this is a prefix of the log. A time that lies ahead gives the tail.
    """
    base = base_for(definition, await revisions.received_by(head, time))
    replica = Replica(definition, LayerReader(store, revisions.runtime), base)
    segments = fold_forward(replica, log, None, at_least=head.link.number, received=time)
    async for _ in segments:
        check_versions(base, definition.versions)  # folding an older way on top of a newer one is neither
    return Snapshot(definition, replica, replica.watermark)
