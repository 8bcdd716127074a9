"""Mappings: which partitions of a dependency a partition needs.

Each dimension of the dependency is mapped for itself; what is selected is the product. A mapping works on places of
the dependency's axis. The *anchor* of a key is the range of places it stands for there: its own place if the axis has
the same key, and for time windows those that overlap. `Window` and `Offset` count from the anchor.
"""

from collections.abc import Iterable, Mapping
from itertools import product

from arco.assets._definition import (
    All,
    Custom,
    Dependency,
    Identity,
    Latest,
    Offset,
    TimePartitions,
    Window,
)
from arco.assets._definition import Mapping as PartitionMapping
from arco.assets._partitions import Axis, PartitionSpace, partition_text
from arco.assets._windows import span_of
from arco.core import Invalid, PartitionKey

__all__ = ["mapping_text", "upstream_keys"]

_EMPTY = PartitionKey.empty()
_IDENTITY = Identity()
_ALL = All()


def upstream_keys(
    dependency: Dependency, space: PartitionSpace, upstream: PartitionSpace, key: PartitionKey
) -> tuple[PartitionKey, ...]:
    """The dependency's partitions that `key` of `space` needs, in the dependency's order.

    A `Window` may reach beyond what exists and then has fewer. Any other mapping that selects nothing is refused.
    """
    if not dependency.mappings and space.axes == upstream.axes:
        if not upstream.contains(key):
            raise _no_key(dependency, key)
        return (key,)
    if not upstream.axes:
        return (_EMPTY,)
    places = space.places(key)
    if places is None:
        raise _no_key(dependency, key)
    own = {axis.name: (axis, place) for axis, place in zip(space.axes, places, strict=True)}
    chosen = [_select(dependency, axis, own, key) for axis in upstream.axes]
    if len(chosen) == 1 and isinstance(chosen[0], range):
        return upstream.keys()[chosen[0].start : chosen[0].stop]
    if all(
        isinstance(part, range) and len(part) == len(axis) for part, axis in zip(chosen, upstream.axes, strict=True)
    ):
        return upstream.keys()
    return tuple(upstream.key_at(part) for part in product(*chosen))


def mapping_text(dependency: Dependency) -> str:
    """The mappings as people read them: `date: offset(-1), region: all`; empty if nothing is said."""
    return ", ".join(f"{name}: {_described(mapping)}" for name, mapping in sorted(dependency.mappings.items()))


def _select(
    dependency: Dependency, axis: Axis, own: Mapping[str, tuple[Axis, int]], key: PartitionKey
) -> Iterable[int]:
    """Places on one axis of the dependency."""
    mapping = dependency.mappings.get(axis.name, _IDENTITY if axis.name in own else _ALL)
    if isinstance(mapping, All):
        chosen: Iterable[int] = range(len(axis))
    elif isinstance(mapping, Latest):
        chosen = range(max(len(axis) - 1, 0), len(axis))
    elif isinstance(mapping, Custom):
        chosen = _custom(mapping, axis, own)
    else:
        mine = own.get(axis.name)
        if mine is None:
            raise Invalid(
                f"the dependency {dependency.key} maps its dimension {axis.name} by {_described(mapping)}, but the "
                f"asset has no such dimension; map it with all_partitions(), latest() or custom()"
            )
        chosen = _near(mapping, *mine, axis)
    if not chosen and not isinstance(mapping, Window):
        raise _nothing(dependency, mapping, axis, key)
    return chosen


def _near(mapping: Identity | Offset | Window, own: Axis, place: int, axis: Axis) -> range:
    anchor = _anchor(own, place, axis)
    if anchor is None:
        return range(0)
    first, after = anchor
    if isinstance(mapping, Offset):
        if first == after:
            # Between two places, each neighbour is one away.
            first, after = (first, after + 1) if mapping.by < 0 else (first - 1, after)
        first, after = (first + mapping.by, after + mapping.by) if mapping.by or anchor[0] < anchor[1] else (0, 0)
    elif isinstance(mapping, Window):
        start = (first if mapping.start <= 0 else after - 1) + mapping.start
        end = (first if mapping.end < 0 else after - 1) + mapping.end
        first, after = start, end + 1
    first = max(first, 0)
    return range(first, max(min(after, len(axis)), first))


def _anchor(own: Axis, place: int, axis: Axis) -> tuple[int, int] | None:
    """The range of places a key stands for; None if it has no place in the dependency's order."""
    found = axis.index.get(own.keys[place].canonical)
    mine, theirs = own.definition, axis.definition
    if not (isinstance(mine, TimePartitions) and isinstance(theirs, TimePartitions)):
        return None if found is None else (found, found + 1)
    if found is not None and (mine.cron, mine.timezone) == (theirs.cron, theirs.timezone):
        return found, found + 1
    return span_of(theirs, axis.windows, own.windows.begins[place], own.windows.ends[place])


def _custom(mapping: Custom, axis: Axis, own: Mapping[str, tuple[Axis, int]]) -> Iterable[int]:
    if axis.name in own:
        mine, place = own[axis.name]
    elif len(own) == 1:
        mine, place = next(iter(own.values()))
    else:
        raise Invalid(
            f"a custom mapping of dimension {axis.name} cannot tell which of the asset's dimensions it is for; "
            f"it needs one of the same name, or exactly one"
        )
    value = partition_text(mine.keys[place]).partition("=")[2]
    return sorted({axis.place(text) for text in mapping.keys.get(value, ())})


def _described(mapping: PartitionMapping) -> str:
    if isinstance(mapping, Offset):
        return f"offset({mapping.by})"
    if isinstance(mapping, Window):
        return f"window({mapping.start}, {mapping.end})"
    return type(mapping).__name__.lower()


def _nothing(dependency: Dependency, mapping: PartitionMapping, axis: Axis, key: PartitionKey) -> Invalid:
    text = partition_text(key)
    if isinstance(mapping, Custom) and len(axis):
        cure = "add this key to the custom mapping"
    else:
        cure = (
            f"it has {axis.described()}; choose another partition, widen its range, or map the dimension "
            f"with window(), latest() or all_partitions()"
        )
    return Invalid(
        f"mapping selects nothing: partition {text} needs {axis.name} of {dependency.key} by {_described(mapping)}, "
        f"and no such partition exists; {cure}",
        dependency=dependency.key,
        partition=text,
        dimension=axis.name,
    )


def _no_key(dependency: Dependency, key: PartitionKey) -> Invalid:
    return Invalid(
        f"partition outside the range: {partition_text(key) or 'the whole asset'} does not exist where the dependency "
        f"{dependency.key} is looked up; choose an existing partition",
        dependency=dependency.key,
        partition=partition_text(key),
    )
