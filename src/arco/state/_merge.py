"""Merging layers: when, which, and how. Tiered, so that every row is rewritten a bounded number of times.

`fan_in` neighbouring layers of one level become one layer of the next; a table of n deltas thus has at most
`(fan_in - 1) * log(n)` layers and each row is written once a level. Only neighbours merge, and tombstones and expired
rows fall only where they cannot hide anything: tombstones in a merge that includes the oldest layer.

A layer is *worn* when half of its rows have expired, as far as its statistics tell. It is written anew by itself, so
that what retention took is gone after a while however seldom its table changes; each time it shrinks by half, so that a
row is still written a bounded number of times.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

import msgspec

from arco.state._beside import work_on
from arco.state._files import FileWriter
from arco.state._layers import LayerReader, keep_alive
from arco.state._manifest import File, Layer, Manifest, Pending
from arco.state._table import Table

__all__ = ["adopt", "can_adopt", "is_worn", "merge_layers", "plan_merges"]


NO_TABLES: Mapping[str, Table] = MappingProxyType({})


def plan_merges(manifest: Manifest, fan_in: int, tables: Mapping[str, Table] = NO_TABLES) -> list[list[Layer]]:
    """Runs of neighbours that should merge now, or a worn layer, that no pending merge touches; at most one a table."""
    busy = {(pending.table, ends) for pending in manifest.pending for ends in pending.inputs}
    runs = []
    for table in sorted({layer.table for layer in manifest.layers}):
        for _, same in groupby(manifest.layers_of(table), key=lambda layer: layer.level):
            run = list(same)
            if len(run) >= fan_in and not any((table, (layer.first, layer.last)) in busy for layer in run[:fan_in]):
                runs.append(run[:fan_in])
                break
        else:
            runs += _worn_layers(manifest, tables.get(table), busy)[:1]
    return runs


def _worn_layers(manifest: Manifest, table: Table | None, busy: set[tuple[str, tuple[str, str]]]) -> list[list[Layer]]:
    cutoff = manifest.cutoff(table.name) if table is not None else None
    if table is None or cutoff is None:
        return []
    layers = [layer for layer in manifest.layers_of(table.name) if is_worn(table, layer, cutoff)]
    return [[layer] for layer in layers if (table.name, (layer.first, layer.last)) not in busy]


def is_worn(table: Table, layer: Layer, cutoff: int) -> bool:
    """Whether half of the rows of a layer have expired, if they are spread evenly between the oldest and the newest.

    Written anew it has no row before the cutoff, so it is not worn again before half of what is left has expired.
    """
    ends = [file.stats[table.time] for file in layer.files if table.time in file.stats]
    if not ends or not (least := min(low for low, _ in ends)) < table.limit(cutoff):
        return False
    oldest, newest = table.time_in(least), table.time_in(max(high for _, high in ends))
    return oldest is not None and newest is not None and oldest + newest < 2 * cutoff


def _without_expired(table: Table, layer: Layer, cutoff: int | None) -> Layer:
    """The layer without files of which every row has expired: they need not even be read."""
    if cutoff is None or not (table.is_fact or table.is_told_by_tombstones):
        return layer
    limit = table.limit(cutoff)
    files = tuple(file for file in layer.files if table.time not in file.stats or file.stats[table.time][1] >= limit)
    return msgspec.structs.replace(layer, files=files)


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
            level = layer.level + (len(pending.inputs) > 1)
            merged = Layer(layer.table, level, pending.inputs[0][0], pending.inputs[-1][1], files)
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
    left = [_without_expired(table, layer, cutoff) for layer in layers]
    data = await reader.rows(table, left, buckets, dead=not oldest)
    kept = await work_on(data.num_rows, lambda: keep_alive(table, data, cutoff), reader.runtime)
    return await writer.files(table, kept, name)
