"""Partition spaces: which partitions an asset has at a moment, in which order, and how people write them.

- *Axis*: the values of one dimension, in order.
- `PartitionSpace`: the product of its axes, row by row, dimensions sorted by name. An asset without partitions has a
  space with one key, the empty one.

Spaces of equal dimensions at one moment share their axes and keys, so that thousands of assets cost what one does.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from difflib import get_close_matches
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from arco.assets._definition import Dimension, StaticPartitions, TimePartitions
from arco.assets._windows import MAX_PARTITIONS, Windows, local_time, window_of, windows_at
from arco.core import Invalid, PartitionKey, Scalar, check_name, shown

__all__ = ["Axis", "PartitionSpace", "check_partition_value", "partition_text", "time_value"]

_EMPTY = PartitionKey.empty()
_VALUE_MAX = 256
_SHOWN_KEYS = 3
_KEPT = 4096
_VALUE = re.compile(r"(?!\s)(?!\*\Z)[^,=\x00-\x1f\x7f]+(?<!\s)")
_NO_WINDOWS = Windows((), ())

K = TypeVar("K")
V = TypeVar("V")


class Axis:
    """The values of one dimension that exist at a moment."""

    __slots__ = ("definition", "index", "keys", "name", "values", "windows")

    def __init__(self, dimension: Dimension, keys: Sequence[PartitionKey], windows: Windows) -> None:
        self.name = dimension.name
        self.definition = dimension.partitions
        self.windows = windows
        self.keys = tuple(keys)
        """Each value as a key of this dimension alone; its text is a part of the texts of larger keys."""
        self.values = tuple([key.dimensions[0][1] for key in keys])
        self.index = {key.canonical: place for place, key in enumerate(keys)}

    def __len__(self) -> int:
        return len(self.values)

    def place(self, text: str) -> int:
        """The place of a value as people write it."""
        place = self.index.get(self._part(text))
        if place is None:
            raise self._outside(text)
        return place

    def places(self, text: str) -> Iterable[int]:
        """The places that a value, a range `a..b`, a list `a,b` or `*` names."""
        if text == "*":
            return range(len(self))
        if "," in text:
            return sorted({place for part in text.split(",") for place in self.places(part.strip())})
        if ".." in text:
            return self._range(text)
        return (self.place(text),)

    def _part(self, text: str) -> str:
        return PartitionKey({self.name: self._value(text)}).canonical

    def _value(self, text: str) -> Scalar:
        return time_value(self.definition, self.name, text) if isinstance(self.definition, TimePartitions) else text

    def _range(self, text: str) -> range:
        low, _, high = text.partition("..")
        if isinstance(self.definition, TimePartitions):
            # The ends of a range of time need not be windows themselves; the values are in order.
            values: Sequence[Any] = self.values
            first = bisect_left(values, self._value(low)) if low else 0
            after = bisect_right(values, self._value(high)) if high else len(values)
        else:
            first = self.place(low) if low else 0
            after = self.place(high) + 1 if high else len(self)
        if first >= after:
            it_has = f"it has {self.described()}"
            if low and high and self._is_after(low, high):
                it_has = "its FROM (--from) is after its TO (--to), so exchange them"
            raise Invalid(f"partition outside the range: {self.name} has nothing in {shown(text)}; {it_has}")
        return range(first, after)

    def _is_after(self, one: str, other: str) -> bool:
        if isinstance(self.definition, TimePartitions):
            return time_value(self.definition, self.name, one) > time_value(self.definition, self.name, other)
        return self.place(one) > self.place(other)

    def _outside(self, text: str) -> Invalid:
        near = ""
        if isinstance(self.definition, TimePartitions):
            values: Sequence[Any] = self.values
            place = bisect_left(values, self._value(text))
            if around := values[max(place - 1, 0) : place + 1]:
                near = f"; nearest: {', '.join(_text(value) for value in around)}"
        elif close := get_close_matches(text, [str(value) for value in self.values], _SHOWN_KEYS):
            near = f"; nearest: {', '.join(close)}"
        return Invalid(
            f"partition outside the range: {self.name}={text} does not exist; it has {self.described()}{near}",
            dimension=self.name,
            value=text,
        )

    def described(self) -> str:
        """What exists, in few words."""
        if not self.values:
            is_time = isinstance(self.definition, TimePartitions)
            return "no window that has ended" if is_time else "no keys yet"
        texts = [_text(value) for value in (*self.values[:_SHOWN_KEYS], self.values[-1])]
        if isinstance(self.definition, TimePartitions):
            return f"{texts[0]} to {texts[-1]} (windows that have ended)"
        if len(self) <= _SHOWN_KEYS:
            return ", ".join(texts[:-1])
        return f"{len(self)} keys: {', '.join(texts[:-1])}, ... {texts[-1]}"


class PartitionSpace:
    """The partitions an asset has at a moment (microseconds since 1970).

    `dynamic` has the keys of dynamic partitions by their definition's name; a name that is missing has none.
    """

    __slots__ = ("_keys", "axes", "dimensions")

    def __init__(
        self, dimensions: Sequence[Dimension], at: int, dynamic: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.dimensions = tuple(sorted(dimensions, key=lambda dimension: dimension.name))
        self.axes = tuple(_axis(dimension, at, dynamic or {}) for dimension in self.dimensions)
        self._keys: tuple[PartitionKey, ...] | None = None
        if self.count() > MAX_PARTITIONS:
            raise Invalid(
                f"{self.count():,} partitions are more than the {MAX_PARTITIONS:,} an asset may have; "
                "use fewer dimensions or longer windows"
            )

    def keys(self) -> tuple[PartitionKey, ...]:
        if self._keys is None:
            self._keys = self._product()
        return self._keys

    def _product(self) -> tuple[PartitionKey, ...]:
        if not self.axes:
            return (_EMPTY,)
        if len(self.axes) == 1:
            return self.axes[0].keys
        kept = _products.get(self.dimensions)
        # Axes are shared while they are the newest, so the same axes are the same objects.
        if kept is not None and kept[0] == self.axes:
            return kept[1]
        keys = tuple(_joined(keys) for keys in product(*(axis.keys for axis in self.axes)))
        _keep(_products, self.dimensions, (self.axes, keys))
        return keys

    def count(self) -> int:
        return prod(len(axis) for axis in self.axes)

    def contains(self, key: PartitionKey) -> bool:
        if len(self.axes) == 1:
            return key.canonical in self.axes[0].index
        return self.places(key) is not None

    def places(self, key: PartitionKey) -> tuple[int, ...] | None:
        """Where a key stands on each axis; None if it does not exist here."""
        parts = key.canonical.split(",") if key.canonical else []
        if len(parts) != len(self.axes):
            return None
        places = [axis.index.get(part) for axis, part in zip(self.axes, parts, strict=True)]
        return None if None in places else tuple(place for place in places if place is not None)

    def key_at(self, places: Iterable[int]) -> PartitionKey:
        """The key at places of the axes."""
        flat = 0
        for axis, place in zip(self.axes, places, strict=True):
            flat = flat * len(axis) + place
        return self.keys()[flat]

    def parse(self, values: Mapping[str, str]) -> PartitionKey:
        """The key that people's values name: `{"date": "2025-01-01", "region": "eu"}`."""
        self._check_names(values)
        return self.key_at([axis.place(values[axis.name]) for axis in self.axes])

    def select(self, values: Mapping[str, str]) -> list[PartitionKey]:
        """The keys that people's values name, in order.

        A value is a key, a range `a..b` with both ends (one may be left out), a list `a,b`, or `*`.
        """
        self._check_names(values)
        return [self.key_at(places) for places in product(*(axis.places(values[axis.name]) for axis in self.axes))]

    def text(self, key: PartitionKey) -> str:
        return partition_text(key)

    def window(self, key: PartitionKey) -> tuple[int, int] | None:
        """Begin and end of the key's time window, or None without a time dimension. With several, the first one's."""
        for dimension, (_, value) in zip(self.dimensions, key.dimensions, strict=True):
            if isinstance(dimension.partitions, TimePartitions) and isinstance(value, date):
                return window_of(dimension.partitions, value)
        return None

    def _check_names(self, values: Mapping[str, str]) -> None:
        names = [axis.name for axis in self.axes]
        for name in values:
            if name not in names:
                has = f"its dimensions are {', '.join(names)}" if names else "it has no partitions"
                raise Invalid(f"there is no partition dimension {shown(name)}; {has}", dimension=name)
        missing = [name for name in names if name not in values]
        if missing:
            raise Invalid(
                f"the partition dimension{'s' if len(missing) > 1 else ''} {', '.join(missing)} must be given: "
                f"write {missing[0]}=KEY, {missing[0]}=FROM..TO or {missing[0]}=* for all",
                missing=missing,
            )


def partition_text(key: PartitionKey) -> str:
    """The key as people write it: `date=2025-01-01,region=eu`; empty for an asset without partitions."""
    return ",".join(f"{name}={_text(value)}" for name, value in key.dimensions)


def check_partition_value(text: str) -> str:
    """The text, if it may be a key of static or dynamic partitions: whatever stands for itself in a selection."""
    if len(text) > _VALUE_MAX:
        raise Invalid(f"the partition key {shown(text)} is longer than {_VALUE_MAX} characters; shorten it")
    if _VALUE.fullmatch(text) is None or ".." in text or not text.isprintable():
        raise Invalid(
            f"{shown(text)} cannot be a partition key; it must not be empty or *, contain a comma, =, .. or what "
            "nobody can see, nor begin or end with a space"
        )
    return text


_axes: dict[Dimension, tuple[object, Axis]] = {}
_products: dict[tuple[Dimension, ...], tuple[tuple[Axis, ...], tuple[PartitionKey, ...]]] = {}
"""The newest axis of each dimension and the newest keys of each combination. Older ones are not kept, so that what is
remembered does not grow with time."""


def _axis(dimension: Dimension, at: int, dynamic: Mapping[str, Sequence[str]]) -> Axis:
    definition = dimension.partitions
    windows = _NO_WINDOWS
    source: object
    if isinstance(definition, TimePartitions):
        source = windows = windows_at(definition, at)
    elif isinstance(definition, StaticPartitions):
        source = definition.keys
    else:
        source = tuple(dynamic.get(definition.name, ()))
    kept = _axes.get(dimension)
    if kept is not None and (kept[0] is source or (not windows.begins and kept[0] == source)):
        return kept[1]
    check_name("partition dimension", dimension.name)
    if isinstance(definition, TimePartitions):
        zone = "UTC" if definition.values == "time" else definition.timezone
        keys = [_time_key(dimension.name, zone, definition.values, begin) for begin in windows.begins]
    else:
        assert isinstance(source, tuple)
        keys = [PartitionKey({dimension.name: check_partition_value(value)}) for value in source]
    axis = Axis(dimension, keys, windows)
    if len(axis.index) < len(keys):
        raise Invalid(f"the partition dimension {dimension.name} has a key twice; every key must be unique")
    _keep(_axes, dimension, (source, axis))
    return axis


@lru_cache(1 << 17)
def _time_key(name: str, zone: str, values: str, begin: int) -> PartitionKey:
    """The key of a window. Windows of different definitions that begin at the same time share it."""
    moment = local_time(begin, UTC if zone == "UTC" else ZoneInfo(zone))
    return PartitionKey({name: moment if values == "time" else moment.date()})


def _joined(keys: tuple[PartitionKey, ...]) -> PartitionKey:
    """The key with the dimensions of all, which were checked when each was made and are in order."""
    joined = object.__new__(PartitionKey)
    object.__setattr__(joined, "dimensions", tuple(key.dimensions[0] for key in keys))
    object.__setattr__(joined, "canonical", ",".join([key.canonical for key in keys]))
    return joined


def _keep(cache: dict[K, V], key: K, value: V) -> None:
    if len(cache) >= _KEPT:
        cache.clear()
    cache[key] = value


def time_value(partitions: TimePartitions, name: str, text: str) -> date | datetime:
    """A value of a dimension of time, as people write it."""
    return _day(name, text) if partitions.values == "date" else _moment(partitions, name, text)


def _moment(partitions: TimePartitions, name: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{shown(text)} of {name} is no time; write it as 2025-01-01T06:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC if partitions.timezone == "UTC" else ZoneInfo(partitions.timezone))
    return moment.astimezone(UTC)


def _day(name: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{shown(text)} of {name} is no date; write it as 2025-01-01") from None


def _text(value: Scalar) -> str:
    if isinstance(value, datetime):
        precision = "microseconds" if value.microsecond else "seconds" if value.second else "minutes"
        return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision)}Z"
    if isinstance(value, date):
        return value.isoformat()
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
