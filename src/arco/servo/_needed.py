"""Needed: which partitions a plan has to know, found before any of them is read.

A plan of one day of thousands of assets must not read their years. Where much of an asset is needed, or the asset is
not partitioned, reading all of it at once is as good.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from arco.assets import Dependency, Graph, upstream_keys
from arco.core import AssetId, Invalid, PartitionKey, Ulid, partition_id
from arco.servo._request import RunRequest
from arco.servo._targets import Spaces, Target, find_targets

__all__ = ["Needed", "find_needed"]

WHOLE: Final = 256
"""From so many partitions on, all of an asset are read."""


class Needed(msgspec.Struct, frozen=True):
    partitions: dict[str, set[str] | None]
    """Partition ids by asset id; None for all that the asset has."""
    made: set[str]
    """Ids of the assets that may run; the others are only read."""


def find_needed(
    graph: Graph,
    selected: Iterable[str],
    ids: Mapping[str, str],
    request: RunRequest,
    dynamic: Mapping[str, tuple[str, ...]],
) -> Needed:
    """What a request may make or read. It refuses what the planner would refuse for the same reason.

    Assets that are missing or not deployed are left out: the planner says so.
    """
    spaces = Spaces(request.at, dynamic)
    targets, _ = find_targets(graph, selected, request, spaces)
    found: dict[str, set[str] | None] = {}
    for target in targets.values():
        keys = target.keys if target.outputs[0].partitions and len(target.keys) <= WHOLE else None
        for output in target.outputs:
            _add(found, ids.get(output.key), keys)
        for dependency in target.outputs[0].dependencies:
            if dependency.parameter and dependency.key in graph.assets:
                _add(found, ids.get(dependency.key), _read(graph, spaces, target, dependency))
    outputs = [output for target in targets.values() for output in target.outputs]
    return Needed(found, {ids[output.key] for output in outputs if output.key in ids})


def _read(graph: Graph, spaces: Spaces, target: Target, dependency: Dependency) -> Iterable[PartitionKey] | None:
    """The partitions of a dependency that a target reads; None for all."""
    other = graph.assets[dependency.key]
    if not other.partitions or len(target.keys) > WHOLE:
        return None
    own, above = spaces.of(target.outputs[0]), spaces.of(other)
    found: dict[str, PartitionKey] = {}
    for key in target.keys:
        try:
            keys = upstream_keys(dependency, own, above, key)
        except Invalid:
            continue  # The planner says so of this partition; others may be fine.
        if len(keys) > WHOLE:
            return None
        found |= {part.canonical: part for part in keys}
    return found.values()


def _add(found: dict[str, set[str] | None], asset_id: str | None, keys: Iterable[PartitionKey] | None) -> None:
    known = found.setdefault(asset_id, set()) if asset_id is not None else None
    if asset_id is None or known is None:
        return
    if keys is not None:
        known.update(partition_id(AssetId(Ulid(asset_id)), key) for key in keys)
    if keys is None or len(known) > WHOLE:
        found[asset_id] = None
