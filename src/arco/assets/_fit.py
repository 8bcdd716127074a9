"""Whether partitions make sense by themselves, and mappings between two assets."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from arco.assets._definition import (
    AssetDefinition,
    Custom,
    Dependency,
    Dimension,
    DynamicPartitions,
    Identity,
    Offset,
    PartitionsDefinition,
    StaticPartitions,
    TimePartitions,
    Window,
)
from arco.assets._lookup import ONLY_DIMENSION
from arco.assets._partitions import check_partition_value, time_value
from arco.assets._windows import MAX_PARTITIONS, check_windows
from arco.core import Invalid, check_name, shown

__all__ = ["mapping_faults", "partition_faults"]

_SHOWN = 3

Fault = tuple[str, str]


def partition_faults(asset: AssetDefinition) -> Iterator[Fault]:
    """What is wrong with an asset's partitions."""
    yield from _faults(asset.partitions)


@lru_cache(4096)
def _faults(dimensions: tuple[Dimension, ...]) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    names = [dimension.name for dimension in dimensions]
    if len(set(names)) < len(names):
        faults.append(("two of its partition dimensions have one name", "give each its own name"))
    elif names != sorted(names):
        faults.append(("its partition dimensions are not sorted by name", "sort them"))
    count = 1
    for dimension in dimensions:
        try:
            check_name("partition dimension", dimension.name)
            count *= _check(dimension.partitions)
        except Invalid as error:
            message, _, cure = error.message.partition("; ")
            faults.append((f"partition dimension {dimension.name}: {message}", cure))
    if count > MAX_PARTITIONS:
        cure = f"use fewer keys; an asset may have {MAX_PARTITIONS:,}"
        faults.append((f"its static partitions alone make {count:,}", cure))
    return tuple(faults)


def _check(partitions: PartitionsDefinition) -> int:
    """How many keys it has for certain; a fault is raised."""
    if isinstance(partitions, TimePartitions):
        check_windows(partitions)
    elif isinstance(partitions, DynamicPartitions):
        check_name("name of dynamic partitions", partitions.name)
    else:
        if not partitions.keys:
            raise Invalid("it has no keys; name at least one")
        for key in partitions.keys:
            check_partition_value(key)
        for key, count in Counter(partitions.keys).items():
            if count > 1:
                raise Invalid(f"the key {shown(key)} is there twice; remove one")
        return len(partitions.keys)
    return 1


def mapping_faults(asset: AssetDefinition, dependency: Dependency, upstream: AssetDefinition) -> Iterator[Fault]:
    """What is wrong with the mappings of a dependency, seen from both sides' definitions."""
    own = {dimension.name: dimension.partitions for dimension in asset.partitions}
    theirs = {dimension.name: dimension.partitions for dimension in upstream.partitions}
    if ONLY_DIMENSION in dependency.mappings and theirs:
        yield (
            f"the mapping of {upstream.key} is for one dimension; it has {', '.join(theirs)}",
            "name it: {'date': ...}",
        )
    for name in sorted(dependency.mappings.keys() - theirs.keys() - ({ONLY_DIMENSION} if theirs else set())):
        has = f"its dimensions are {', '.join(theirs)}" if theirs else "it has no partitions"
        yield (
            f"the mapping of {upstream.key} names the dimension {shown(name)}; {has}",
            "correct the name, or remove it",
        )
    for name, partitions in theirs.items():
        mapping = dependency.mappings.get(name, Identity() if name in own else None)
        what = f"the mapping of dimension {name} of {upstream.key}"
        if isinstance(mapping, Custom):
            yield from _custom_faults(what, mapping, name, own, partitions)
        elif isinstance(mapping, Identity | Offset | Window):
            if name not in own:
                cure = "map it with all_partitions(), latest() or custom()"
                yield f"{what} looks for the asset's own {name}, which it does not have", cure
            else:
                yield from _same_kind_faults(what, mapping, own[name], partitions)
        if isinstance(mapping, Window) and mapping.start > mapping.end:
            yield (
                f"{what} is a window from {mapping.start} to {mapping.end}",
                "the first number must be the smaller one",
            )


def _same_kind_faults(
    what: str, mapping: Identity | Offset | Window, own: PartitionsDefinition, theirs: PartitionsDefinition
) -> Iterator[Fault]:
    if isinstance(own, TimePartitions) != isinstance(theirs, TimePartitions):
        cure = "map it with custom(), all_partitions() or latest()"
        yield f"{what} compares time windows with keys, which are never the same", cure
    elif isinstance(own, StaticPartitions) and isinstance(theirs, StaticPartitions) and isinstance(mapping, Identity):
        if missing := [key for key in own.keys if key not in set(theirs.keys)]:
            cure = "add them there, or map with custom()"
            yield f"{what} selects nothing for {_few(missing)}: it has no such keys", cure
    elif (
        isinstance(own, TimePartitions)
        and isinstance(theirs, TimePartitions)
        and ((theirs.end and theirs.end <= own.start) or (own.end and own.end <= theirs.start))
        and isinstance(mapping, Identity)
    ):
        yield f"{what} selects nothing: the two ranges of time do not meet", "correct start or end, or use latest()"


def _custom_faults(
    what: str, mapping: Custom, name: str, own: dict[str, PartitionsDefinition], theirs: PartitionsDefinition
) -> Iterator[Fault]:
    source = own.get(name) or (next(iter(own.values())) if len(own) == 1 else None)
    if source is None:
        cure = f"give the asset a dimension {name}, or exactly one dimension"
        yield f"{what} is custom, and it is not clear which dimension of the asset it is for", cure
    elif isinstance(source, StaticPartitions):
        if missing := [key for key in source.keys if not mapping.keys.get(key)]:
            yield f"{what} selects nothing for {_few(missing)}", "name at least one key for each"
        if unknown := sorted(mapping.keys.keys() - set(source.keys)):
            yield f"{what} is for {_few(unknown)}, which the asset does not have", "remove them"
    selected = {key for keys in mapping.keys.values() for key in keys}
    if isinstance(theirs, TimePartitions):
        if wrong := sorted(key for key in selected if not _is_time(theirs, key)):
            yield f"{what} selects {_few(wrong)}, which is no time", "write times as it has them, such as 2025-01-01"
    elif isinstance(theirs, StaticPartitions) and (unknown := sorted(selected - set(theirs.keys))):
        yield f"{what} selects {_few(unknown)}, which it does not have", "correct the keys"


def _is_time(partitions: TimePartitions, text: str) -> bool:
    try:
        time_value(partitions, "", text)
    except Invalid:
        return False
    return True


def _few(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + more
