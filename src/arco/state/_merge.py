"""Merging layers: when, which, and how. Tiered, so that every row is rewritten a bounded number of times.

`fan_in` neighbouring layers of one level become one layer of the next; a table of n deltas thus has at most
`(fan_in - 1) * log(n)` layers and each row is written once a level. Only neighbours merge, and tombstones and expired
facts fall only where they cannot hide anything: tombstones in a merge that includes the oldest layer.
"""

from collections.abc import Sequence
from itertools import groupby

from arco.state._beside import work_on
from arco.state._files import FileWriter
from arco.state._layers import LayerReader, keep_alive
from arco.state._manifest import File, Layer, Manifest, Pending
from arco.state._table import Table

__all__ = ["adopt", "can_adopt", "merge_layers", "plan_merges"]


def plan_merges(manifest: Manifest, fan_in: int) -> list[list[Layer]]:
    """Runs of neighbours that should merge now and that no pending merge touches; at most one a table."""
    busy = {(pending.table, ends) for pending in manifest.pending for ends in pending.inputs}
    runs = []
    for table in sorted({layer.table for layer in manifest.layers}):
        for _, same in groupby(manifest.layers_of(table), key=lambda layer: layer.level):
            run = list(same)
            if len(run) >= fan_in and not any((table, (layer.first, layer.last)) in busy for layer in run[:fan_in]):
                runs.append(run[:fan_in])
                break
    return runs


def inputs_of(manifest: Manifest, pending: Pending) -> list[Layer]:
    """The layers a merge replaces, as they stand in the manifest; fewer if some are gone."""
    wanted = set(pending.inputs)
    return [layer for layer in manifest.layers_of(pending.table) if (layer.first, layer.last) in wanted]


def can_adopt(manifest: Manifest, pending: Pending) -> bool:
    """A result fits only if all inputs are still there, side by side."""
    layers = manifest.layers_of(pending.table)
    ends = [(layer.first, layer.last) for layer in layers]
    wanted = list(pending.inputs)
    return any(ends[i : i + len(wanted)] == wanted for i in range(len(ends)))


def adopt(layers: Sequence[Layer], pending: Pending, files: tuple[File, ...]) -> tuple[Layer, ...]:
    """The layers with a merge's inputs replaced by its result, in place."""
    wanted = set(pending.inputs)
    result: list[Layer] = []
    placed = False
    for layer in layers:
        if layer.table != pending.table or (layer.first, layer.last) not in wanted:
            result.append(layer)
        elif not placed:
            placed = True
            merged = Layer(layer.table, layer.level + 1, pending.inputs[0][0], pending.inputs[-1][1], files)
            result.append(merged)
    return tuple(result)


async def merge_layers(
    table: Table,
    layers: Sequence[Layer],
    oldest: bool,
    cutoff: int | None,
    reader: LayerReader,
    writer: FileWriter,
    *,
    buckets: Sequence[int] | None = None,
    name: str = "merged",
) -> tuple[File, ...]:
    """Write the rows of neighbouring layers as new files; those of some buckets only, if any are given."""
    data = await reader.rows(table, layers, buckets, dead=not oldest)
    kept = await work_on(data.num_rows, lambda: keep_alive(table, data, cutoff), reader.runtime)
    return await writer.files(table, kept, name)
