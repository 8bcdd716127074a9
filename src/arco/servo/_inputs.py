"""Inputs: what a task reads, and which tasks of the plan come before it.

A partition that a task of the plan writes is an *edge*, and its version is known when that task has finished. Any other
one is *pinned* to its newest good version, in a rerun to the one that the repeated run read if that is still good. What
others make (external assets, observable ones) has no versions of ours, and what only comes earlier is not read: neither
is pinned. Of files of others a plan has the partitions that are read.
"""

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import NamedTuple

import msgspec

from arco.assets import (
    AssetDefinition,
    AssetKind,
    Dependency,
    Dimension,
    Graph,
    PartitionSpace,
    mapping_text,
    partition_text,
    upstream_keys,
)
from arco.core import AssetId, Invalid, PartitionKey, Ulid, partition_id
from arco.domains.orchestration.plan import Input, Pin
from arco.servo._planning_state import HELD_BACK, PlanningState
from arco.servo._reasons import missing_input
from arco.servo._targets import Spaces

__all__ = ["Needs", "Planned", "UnitInputs", "World"]

Keys = tuple[PartitionKey, ...]


class Planned(NamedTuple):
    """A task that is in the plan."""

    task_key: str
    stage: int


class Needs(NamedTuple):
    """What one task needs."""

    inputs: tuple[Input, ...]
    upstream: tuple[str, ...]
    stage: int
    unknown: str
    """A dependency of which nobody can tell whether it changed; empty if all are pinned or in the plan."""


class Found(NamedTuple):
    """What became of one partition of a dependency."""

    task: Planned | None
    pin: Pin | None
    """None if it is not read, or has no good version and no task of the plan writes it."""


class World:
    """What is known while a plan grows: ids, versions, spaces, and the tasks planned so far."""

    def __init__(self, graph: Graph, ids: Mapping[str, str], state: PlanningState, spaces: Spaces) -> None:
        self.graph = graph
        self.state = state
        self.spaces = spaces
        self.planned: dict[str, dict[str, Planned]] = {unit: {} for unit in graph.units}
        """By unit and canonical partition key. A unit is complete before another one asks."""
        self.found: dict[tuple[str, bool], dict[str, Found]] = {}
        """By asset and whether it is read, then by canonical partition key."""
        self._ids = ids
        self._partition_ids: dict[str, dict[str, str]] = {}
        self._texts: dict[str, str] = {}
        self._mapped: dict[tuple[tuple[Dimension, ...], tuple[Dimension, ...], bytes], dict[str, Keys]] = {}

    def definition(self, key: str) -> AssetDefinition:
        try:
            return self.graph.assets[key]
        except KeyError:
            raise Invalid(f"the project has no asset {key}, but one that depends on it; run `arco check`") from None

    def asset_id(self, key: str) -> str:
        try:
            return self._ids[key]
        except KeyError:
            raise Invalid(f"the asset {key} has no id: it is not deployed; run `arco deploy` first") from None

    def partition_id(self, asset_id: str, key: PartitionKey) -> str:
        known = self._partition_ids.setdefault(asset_id, {})
        found = known.get(key.canonical)
        if found is None:
            found = known[key.canonical] = partition_id(AssetId(Ulid(asset_id)), key)
        return found

    def text(self, key: PartitionKey) -> str:
        """The partition as people write it."""
        found = self._texts.get(key.canonical)
        if found is None:
            found = self._texts[key.canonical] = partition_text(key)
        return found

    def mapped(self, dependency: Dependency, own: AssetDefinition, other: AssetDefinition) -> dict[str, Keys]:
        """What was found out already about partitions mapped in this way; assets of equal dimensions share it."""
        said = msgspec.json.encode(dependency.mappings, order="sorted") if dependency.mappings else b""
        return self._mapped.setdefault((own.partitions, other.partitions, said), {})


class _Source:
    """One dependency of a unit."""

    def __init__(self, world: World, own: AssetDefinition, dependency: Dependency) -> None:
        self.dependency = dependency
        self.definition = world.definition(dependency.key)
        self.asset_id = world.asset_id(dependency.key)
        self.mapping = mapping_text(dependency) if dependency.mappings else ""
        self._world = world
        self._space: PartitionSpace = world.spaces.of(own)
        self._other: PartitionSpace = world.spaces.of(self.definition)
        self._known = world.mapped(dependency, own, self.definition)
        self._planned = world.planned[world.graph.unit_of[dependency.key]]
        self._versions = world.state.versions.get(self.asset_id, {})
        self._again = world.state.again.get(self.asset_id, {})
        self.is_pinned = bool(dependency.parameter) and self.definition.kind in (AssetKind.ASSET, AssetKind.SQL)
        self.is_source = bool(dependency.parameter) and self.definition.source is not None
        # Others may ask for the same partitions: what was found for one is the same for all.
        self._found = world.found.setdefault((dependency.key, self.is_pinned or self.is_source), {})
        # Where nothing is read and nothing comes earlier, which partitions it would be does not matter.
        self.matters = self.is_pinned or self.is_source or bool(self._planned)

    def keys(self, key: PartitionKey) -> Keys:
        """The partitions that a partition of the unit needs."""
        found = self._known.get(key.canonical)
        if found is None:
            found = self._known[key.canonical] = upstream_keys(self.dependency, self._space, self._other, key)
        return found

    def find(self, key: PartitionKey) -> Found:
        found = self._found.get(key.canonical)
        if found is None:
            found = self._found[key.canonical] = self._find(key)
        return found

    def _find(self, key: PartitionKey) -> Found:
        task = self._planned.get(key.canonical)
        if not self.is_pinned and not self.is_source:
            return Found(task, None)
        partition = self._world.partition_id(self.asset_id, key)
        if self.is_source:
            return Found(None, Pin(partition, key.canonical))
        if task is not None:
            return Found(task, Pin(partition, key.canonical))
        version = self._versions.get(partition)
        if version is None:
            return Found(None, None)
        return Found(None, Pin(partition, key.canonical, self._again.get(partition) or version.materialization_id))

    def missing(self, own: str, partition: str, needed: Keys) -> str:
        """Why a partition of the asset `own` cannot run: of what it needs of the dependency, some has no good version.

        All of that is named, for a cure of the first alone would only lead to the next.
        """
        lacking = [key for key in needed if self.find(key).pin is None]
        bad = self._world.state.bad.get(self.asset_id, {})
        why = bad.get(self._world.partition_id(self.asset_id, lacking[0]), "no version of it exists")
        return missing_input(
            own,
            partition,
            self.dependency.key,
            self._world.text(lacking[0]),
            why,
            is_held=why in HELD_BACK,
            more=len(lacking) - 1,
            all_of_them=self._options(lacking) if len(lacking) > 1 else "",
        )

    def _options(self, keys: Sequence[PartitionKey]) -> str:
        """Options of `arco backfill` that name these partitions of the dependency: of each dimension a range."""
        found = [places for key in keys if (places := self._other.places(key)) is not None]
        ranges = []
        for axis, places in zip(self._other.axes, zip(*found, strict=True), strict=True):
            first, last = (self._world.text(axis.keys[place]) for place in (min(places), max(places)))
            ranges.append(first if first == last else f"{first}..{last.partition('=')[2]}")
        return " ".join(f"--partition {quote(text)}" for text in ranges)

    def input(self, pins: tuple[Pin, ...]) -> Input:
        return Input(
            asset_id=self.asset_id,
            asset_key=self.dependency.key,
            parameter=self.dependency.parameter,
            mapping=self.mapping,
            pins=pins,
            is_partitioned=bool(self.definition.partitions),
            is_source=self.is_source or None,
        )


class UnitInputs:
    """The dependencies of one unit; `needs` tells what each of its tasks reads."""

    def __init__(self, world: World, outputs: tuple[AssetDefinition, ...]) -> None:
        self._world = world
        self._key = outputs[0].key
        self._sources = [_Source(world, outputs[0], dependency) for dependency in outputs[0].dependencies]
        self._unknown = next((source.dependency.key for source in self._sources if not source.is_pinned), "")
        self.is_root = not self._sources

    def needs(self, key: PartitionKey) -> Needs | str:
        """What the task of a partition needs, or why it cannot run."""
        inputs: list[Input] = []
        upstream: set[str] = set()
        stage = 0
        for source in self._sources:
            pins: list[Pin] = []
            for other in source.keys(key) if source.matters else ():
                task, pin = source.find(other)
                if task is not None:
                    upstream.add(task.task_key)
                    if task.stage >= stage:
                        stage = task.stage + 1
                if pin is not None:
                    pins.append(pin)
                elif source.is_pinned:
                    return source.missing(self._key, self._world.text(key), source.keys(key))
            inputs.append(source.input(tuple(pins)))
        return Needs(tuple(inputs), tuple(sorted(upstream)), stage, self._unknown)
