"""Targets: what a request asks for, as units and their partitions, before anybody asks whether it can or must run.

A unit is taken as a whole if any of its assets is selected. Partitions that are asked for apply to every selected asset
that has the dimension; each gets those that exist in its own range. A key that exists in none of them is refused. They
are given by dimension, as a range of time, or one by one.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple

import msgspec

from arco.assets import AssetDefinition, AssetKind, Axis, Dimension, Graph, PartitionSpace, TimePartitions
from arco.core import Invalid, PartitionKey, TooLarge, shown
from arco.domains.orchestration.plan import Skip
from arco.servo._reasons import cannot_run, external, selected_by
from arco.servo._request import RunRequest

__all__ = ["Spaces", "Target", "find_targets"]

MAX_TASKS: Final = 1_000_000


class Target(msgspec.Struct, frozen=True):
    """A unit that is asked for, and its partitions in order."""

    unit: str
    outputs: tuple[AssetDefinition, ...]
    keys: tuple[PartitionKey, ...]
    reason: str
    """Why it is asked for."""


class Spaces:
    """Partition spaces of all assets at one moment; those of equal dimensions are one."""

    def __init__(self, at: int, dynamic: Mapping[str, Sequence[str]]) -> None:
        self._at = at
        self._dynamic = dynamic
        self._spaces: dict[tuple[Dimension, ...], PartitionSpace] = {}

    def of(self, definition: AssetDefinition) -> PartitionSpace:
        space = self._spaces.get(definition.partitions)
        if space is None:
            space = PartitionSpace(definition.partitions, self._at, self._dynamic)
            self._spaces[definition.partitions] = space
        return space


def find_targets(
    graph: Graph, selected: Iterable[str], request: RunRequest, spaces: Spaces
) -> tuple[dict[str, Target], list[Skip]]:
    """The targets by unit, and what was selected and cannot run at all."""
    skips: list[Skip] = []
    chosen: dict[str, list[str]] = {}
    for key in sorted(selected):
        if graph.assets[key].kind is AssetKind.EXTERNAL:
            skips.append(Skip(key, "", external()))
        else:
            chosen.setdefault(graph.unit_of[key], []).append(key)
    if not chosen:
        raise Invalid(f"`{request.selection}` selects only assets that others make, so there is nothing to run")
    choice = _Choice(request, spaces)
    targets: dict[str, Target] = {}
    failed: Invalid | None = None
    for unit in sorted(chosen):
        outputs = graph.units[unit]
        choice.check_given(outputs[0])
        try:
            keys = choice.keys(outputs[0])
        except Invalid as error:
            failed = failed or error
            skips += [Skip(definition.key, "", cannot_run(error.message)) for definition in outputs]
            continue
        others = [definition.key for definition in outputs if definition.key not in chosen[unit]]
        targets[unit] = Target(unit, outputs, keys, selected_by(request.selection, chosen[unit], others))
    choice.check_all_used(failed)
    count = sum(len(target.keys) for target in targets.values())
    if count > MAX_TASKS:
        raise TooLarge(f"the request asks for {count:,} tasks, the limit is {MAX_TASKS:,}; choose fewer partitions")
    return targets, skips


class _Choice:
    """The partitions that were asked for, matched with what each asset has."""

    def __init__(self, request: RunRequest, spaces: Spaces) -> None:
        self._parts = {name: [part.strip() for part in text.split(",")] for name, text in request.partitions.items()}
        self._window = request.window
        self._listed = [_listed(text) for text in request.partition_keys]
        self._spaces = spaces
        self._used: set[tuple[str, str]] = set()
        self._unused: dict[tuple[str, str], Invalid] = {}
        self._keys: dict[tuple[Dimension, ...], tuple[PartitionKey, ...] | Invalid] = {}

    def keys(self, definition: AssetDefinition) -> tuple[PartitionKey, ...]:
        """The keys of an asset that were asked for; `Invalid` if there is none."""
        found = self._keys.get(definition.partitions)
        if found is None:
            space = self._spaces.of(definition)
            is_listed = bool(self._listed) and bool(space.axes)
            found = self._keys[definition.partitions] = self._match_listed(space) if is_listed else self._match(space)
        if isinstance(found, Invalid):
            raise found
        return found

    def check_all_used(self, failed: Invalid | None) -> None:
        """Refuse a dimension that no selected asset has, and a key that exists in none of them."""
        known = {name for name, _ in (*self._used, *self._unused)}
        if self._window and _WINDOW not in known:
            raise Invalid("no selected asset is partitioned by time; leave --from and --to out, or select others")
        if self._window and (_WINDOW, self._window) not in self._used:
            raise self._unused[_WINDOW, self._window]
        for name, parts in sorted(self._parts.items()):
            if name not in known:
                raise Invalid(
                    f"no selected asset is partitioned by {name}; leave --partition {name}=... out, or select others",
                    dimension=name,
                )
            for part in parts:
                if (name, part) not in self._used:
                    raise self._unused[name, part]
        for listed in self._listed:
            if (_LISTED, listed.text) not in self._used:
                none = Invalid(f"no selected asset has partitions, so there is no {shown(listed.text)}")
                raise self._unused.get((_LISTED, listed.text), none)
        if failed is not None and not any(isinstance(keys, tuple) for keys in self._keys.values()):
            raise failed

    def check_given(self, definition: AssetDefinition) -> None:
        """Refuse an asset of which nobody said which partitions are meant."""
        if self._listed:
            return  # each is matched by itself
        space = self._spaces.of(definition)
        missing = [axis for axis in space.axes if not self._asked(axis)[1]]
        if missing:
            options = " ".join(f"--partition {axis.name}=KEY" for axis in missing)
            have = "; ".join(f"{axis.name}: {axis.described()}" for axis in missing)
            others = sorted(self._parts.keys() - {axis.name for axis in space.axes})
            but_not = f", not by {', '.join(shown(name) for name in others)}" if others else ""
            raise Invalid(
                f"{definition.key} is partitioned by {', '.join(axis.name for axis in space.axes)}{but_not}; say which "
                f"with {options}, a range as FROM..TO, or * for all ({have})",
                asset=definition.key,
                dimensions=[axis.name for axis in missing],
            )

    def _asked(self, axis: Axis) -> tuple[str, list[str]]:
        """What was asked for of a dimension, and under which name."""
        parts = self._parts.get(axis.name)
        if parts is None and self._window and isinstance(axis.definition, TimePartitions):
            return _WINDOW, [self._window]
        return axis.name, parts or []

    def _match(self, space: PartitionSpace) -> tuple[PartitionKey, ...] | Invalid:
        """The keys of a space, as far as the parts of the values stand for any; else why there is none."""
        chosen: list[list[int]] = []
        for axis in space.axes:
            places: set[int] = set()
            failed: Invalid | None = None
            name, parts = self._asked(axis)
            for part in parts:
                try:
                    places |= set(axis.places(part))
                except Invalid as error:
                    failed = error
                    self._unused.setdefault((name, part), error)
                else:
                    self._used.add((name, part))
            if not places:
                return failed or Invalid(f"there is no partition of {axis.name}: it has {axis.described()}")
            chosen.append(sorted(places))
        return tuple(space.key_at(places) for places in product(*chosen))

    def _match_listed(self, space: PartitionSpace) -> tuple[PartitionKey, ...] | Invalid:
        """The keys of a space that are in the list; of what has more dimensions than the space those that it has."""
        found: set[tuple[int, ...]] = set()
        failed: Invalid | None = None
        for listed in self._listed:
            try:
                found.add(tuple(axis.place(listed.value(axis, space)) for axis in space.axes))
            except Invalid as error:
                failed = error
                self._unused.setdefault((_LISTED, listed.text), error)
            else:
                self._used.add((_LISTED, listed.text))
        if not found:
            return failed or Invalid("no partition was named")
        return tuple(space.key_at(places) for places in sorted(found))


_WINDOW: Final = "--from --to"
_LISTED: Final = "a list"
"""What is used is noted under the dimension it names, or under one of these, which are no names of dimensions."""


class _Listed(NamedTuple):
    """One partition as people write it, by dimension; the key alone stands under no name."""

    text: str
    values: dict[str, str]

    def value(self, axis: Axis, space: PartitionSpace) -> str:
        found = self.values.get("" if "" in self.values and len(space.axes) == 1 else axis.name)
        if found is None:
            names = ", ".join(f"{axis.name}=KEY" for axis in space.axes)
            raise Invalid(f"the partition {shown(self.text)} does not say which {axis.name} is meant; write {names}")
        return found


def _listed(text: str) -> _Listed:
    values: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        name, value = (name.strip(), value.strip()) if equals else ("", name.strip())
        if not value or name in values or (not name and "," in text):
            raise Invalid(f"{shown(text)} names no partition; write it as date=2026-01-01,region=eu")
        values[name] = value
    return _Listed(text, values)
