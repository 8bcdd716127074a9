"""Tables: what state consists of, declared by a row class.

- A table of *facts* has one row per key that never changes; it shrinks only by retention on its time column.
- A table of *images* keeps the newest full row per key; a deleted row is a tombstone until the oldest layer is merged.
- Rows *expire* by a time that never changes: that of a fact, or the one that an id of an image begins with. Tables may
  expire together, as all those of a run do.

Rows live in *groups* (the unit a fold sees) and groups in 256 *buckets* (the unit that is loaded and pruned): the
bucket is the first byte of sha256 of the group's key. The Arrow schema follows from the row class: its fields, then
`_position`, `_bucket` and, for images, `_deleted`.
"""

import hashlib
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from operator import attrgetter, itemgetter
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from arco.core import Invalid, Ulid, least_ulid, parse_ulid, ulid_time

__all__ = ["BUCKETS", "Key", "Kind", "Table", "Time", "bucket_of"]

BUCKETS = 256

Time = Annotated[int, "time"]
"""A column of microseconds since 1970; a timestamp in Arrow and Parquet."""

Key = str | tuple[str, ...]


class Kind(StrEnum):
    FACT = "fact"
    IMAGE = "image"


@lru_cache(maxsize=65_536)
def bucket_of(group: str) -> int:
    return hashlib.sha256(group.encode()).digest()[0]


@dataclass(frozen=True, eq=False)
class Table:
    name: str
    row: type[msgspec.Struct]
    kind: Kind
    key: tuple[str, ...]
    """Columns that identify a row; all of them text."""
    group: str
    """The column whose value is the group's key. It never changes for a row."""
    time: str | None = None
    """The column by which retention expires rows: a time that never changes, or text that begins with one, a ULID.
    Images change, so only an id says how old they are."""
    expires_with: str | None = None
    """The table whose retention takes these rows too; None if it has one of its own."""
    prune: tuple[str, ...] = ()
    """Columns whose least and greatest value stand in the manifest. For images only columns that never change."""
    private: bool = False
    """Kept in objects of its own that are never signed."""
    audited: bool = False
    """Its rows before and after an audited event stand in the audit."""

    def __post_init__(self) -> None:
        fields = set(self.row.__struct_fields__)
        named = {*self.key, self.group, *self.prune, *([self.time] if self.time else [])}
        if not named <= fields:
            raise Invalid(f"table {self.name} names columns its row class lacks: {sorted(named - fields)}")
        if self.kind is Kind.IMAGE and self.time and not self.expires_by_id:
            raise Invalid(f"table {self.name} holds images; only facts expire by a time column")
        if self.expires_with and not self.time:
            raise Invalid(f"table {self.name} has no column that says when it expires with {self.expires_with}")
        if self.audited and self.private:
            raise Invalid(f"table {self.name} is private, so the audit must not show its rows")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.row.__struct_fields__

    @cached_property
    def is_fact(self) -> bool:
        return self.kind is Kind.FACT

    @cached_property
    def key_of(self) -> Callable[[Any], Key]:
        return attrgetter(*self.key)

    @cached_property
    def group_of(self) -> Callable[[Any], str]:
        return attrgetter(self.group)

    @cached_property
    def time_of(self) -> Callable[[Any], Any] | None:
        return attrgetter(self.time) if self.time else None

    @cached_property
    def expires_by_id(self) -> bool:
        return self.time is not None and self.hints[self.time] is str

    @cached_property
    def is_told_by_tombstones(self) -> bool:
        """Whether a deleted row still says when it expires."""
        return self.time in (*self.key, self.group)

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """Columns whose least and greatest value stand in the manifest: those that prune, and what expires by."""
        return tuple(dict.fromkeys((*self.prune, *([self.time] if self.time else []))))

    def limit(self, cutoff: int) -> Any:
        """The least value that a column rows expire by has after retention reached a time."""
        return _least_id(cutoff) if self.expires_by_id else cutoff

    def is_expired(self, row: Any, cutoff: int | None) -> bool:
        """Whether retention that reached this time took the row."""
        return bool(cutoff is not None and self.time_of is not None and self.time_of(row) < self.limit(cutoff))

    def time_in(self, value: Any) -> int | None:
        """The time that a value of the column rows expire by stands for; None for text that is no ULID."""
        if not self.expires_by_id:
            return int(value)
        try:
            return ulid_time(parse_ulid(value))
        except Invalid:
            return None

    @cached_property
    def order_of(self) -> Callable[[Key], Any] | None:
        """Sorts keys of one group as they sort themselves, without comparing what is the same in all of them."""
        differing = [index for index, name in enumerate(self.key) if name != self.group]
        return itemgetter(*differing) if 0 < len(differing) < len(self.key) else None

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The types of the columns as the row class has them."""
        return typing.get_type_hints(self.row)

    @cached_property
    def schema(self) -> pa.Schema:
        """The stored columns. Only keys and the group are never null: a tombstone has nothing else."""
        hints = typing.get_type_hints(self.row, include_extras=True)
        fixed = {*self.key, self.group}
        fields = [pa.field(name, _arrow_type(hints[name]), nullable=name not in fixed) for name in self.columns]
        fields += [
            pa.field("_position", pa.int64(), nullable=False),
            pa.field("_bucket", pa.uint8(), nullable=False),
        ]
        if self.kind is Kind.IMAGE:
            fields.append(pa.field("_deleted", pa.bool_(), nullable=False))
        return pa.schema(fields)


@lru_cache(maxsize=64)
def _least_id(cutoff: int) -> Ulid:
    return least_ulid(cutoff)


def _arrow_type(hint: Any) -> pa.DataType:
    """The Arrow type of a row class's annotation."""
    if hint == Time:
        return pa.timestamp("us", tz="UTC")
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        inner = [arg for arg in args if arg is not type(None)]
        if len(inner) == 1:
            return _arrow_type(inner[0])
    elif origin is Annotated:
        return _arrow_type(args[0])
    elif origin is dict:
        return pa.map_(_arrow_type(args[0]), _arrow_type(args[1]))
    elif origin in (list, tuple):
        return pa.list_(_arrow_type(args[0]))
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint, include_extras=True)
        return pa.struct([pa.field(name, _arrow_type(hints[name])) for name in hint.__struct_fields__])
    else:
        simple = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), bytes: pa.binary()}
        base = hint.__mro__[-2] if isinstance(hint, type) and issubclass(hint, StrEnum) else hint
        found = simple.get(str if isinstance(hint, type) and issubclass(hint, str) else base)
        if found is not None:
            return found
    raise Invalid(f"a row class cannot have a column of type {hint!r}")
