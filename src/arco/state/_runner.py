"""Runners: who does the heavy work of state. One fold, one merge; where they run is the runner's business.

`LocalRunner` works in this process. A runner on Spark takes the same jobs (docs/adr/0004): executors read segments and
layers through `Store` and write files with the same `FileWriter`; the compactor's loop adopts either result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec

from arco.core import Runtime
from arco.log import Pack, Place
from arco.state._beside import work_on
from arco.state._codec import to_arrow
from arco.state._definition import Definition
from arco.state._files import FileWriter
from arco.state._forward import fold_forward
from arco.state._layers import LayerReader
from arco.state._layout import Layout
from arco.state._manifest import File, Layer, Manifest, SkippedType
from arco.state._merge import merge_layers
from arco.state._open_ledger import open_ledger
from arco.state._replica import Replica
from arco.state._revisions import Revisions, empty_manifest
from arco.state._table import Table
from arco.storage import Store

__all__ = ["LocalRunner", "MergeJob", "RefoldJob", "Runner", "carry_over"]

SPILL_ROWS = 200_000
"""Changed rows held in memory before a refold writes them out as a layer."""
KEPT_ROWS = 1_000_000
"""Rows held in memory in all; what is dropped is read again as soon as an event needs its bucket."""


@dataclass(frozen=True)
class MergeJob:
    """Write neighbouring layers of one table as one."""

    table: Table
    layers: tuple[Layer, ...]
    oldest: bool
    """The table's oldest layer is among them."""
    cutoff: int | None
    directory: str


@dataclass(frozen=True)
class RefoldJob:
    """Fold a log from its beginning, or from a revision on, to a number."""

    definition: Definition
    through: int
    directory: str
    progress: Callable[[int, int], None] = lambda done, total: None
    base: Manifest | None = None
    """The revision to go on from, made by the same folds; None for the beginning."""
    packs: tuple[Pack, ...] = ()
    """Where packed segments are; newer packs are looked for if a segment is not where it was."""


class Runner(Protocol):
    async def merge(self, job: MergeJob) -> tuple[File, ...]: ...

    async def refold(self, job: RefoldJob) -> Manifest:
        """An unpublished manifest whose layers hold everything up to the number, those of the base included."""
        ...


class LocalRunner:
    def __init__(self, store: Store, place: Place, runtime: Runtime) -> None:
        self._store = store
        self._place = place
        self._layout = Layout(place)
        self._runtime = runtime
        self._reader = LayerReader(store, runtime)

    async def merge(self, job: MergeJob) -> tuple[File, ...]:
        writer = FileWriter(self._store, self._layout, job.directory, self._runtime)
        return await merge_layers(job.table, job.layers, job.oldest, job.cutoff, self._reader, writer)

    async def refold(self, job: RefoldJob) -> Manifest:
        writer = FileWriter(self._store, self._layout, job.directory, self._runtime)
        replica = Replica(job.definition, self._reader, job.base or empty_manifest(self._place))
        log = open_ledger(self._store, Revisions(self._store, self._place, self._runtime), job.packs)
        spills = 0
        async for number in fold_forward(replica, log, job.through, at_least=job.through):
            job.progress(number, job.through)
            if replica.dirty_rows() > (0 if number == job.through else SPILL_ROWS):
                spills += 1
                layers = await self._spill(writer, replica, spills)
                replica.rebase(carry_over(replica, (*replica.base.layers, *layers)))
                if replica.loaded_rows() > KEPT_ROWS:
                    replica.evict()
        return carry_over(replica, replica.base.layers)

    async def _spill(self, writer: FileWriter, replica: Replica, number: int) -> list[Layer]:
        """The changed rows as plain files, as a merge would write them."""
        first, last = replica.base.watermark, str(replica.watermark)
        layers = []
        for name, groups in sorted(replica.dirty.items()):
            table = replica.definition.tables[name]
            rows = sum(map(len, groups.values()))
            data = await work_on(rows, partial(to_arrow, table, groups.items()), self._runtime)
            files = await writer.files(table, data, f"refold-{number:04d}-{name}")
            layers.append(Layer(name, 1, first, last, files))
        return layers


def carry_over(replica: Replica, layers: tuple[Layer, ...]) -> Manifest:
    """The replica's base with these layers and everything else as the replica has it now."""
    return msgspec.structs.replace(
        replica.base,
        layers=layers,
        watermark=str(replica.watermark),
        link=replica.link,
        folds=dict(replica.definition.versions),
        skipped=tuple(SkippedType(name, str(skip.first), skip.events) for name, skip in sorted(replica.skips.items())),
        retention={
            name: tuple((str(since), before) for since, before in steps)
            for name, steps in sorted(replica.retention.items())
        },
        pins=tuple(pin for _, pin in sorted(replica.pins.items())),
    )
