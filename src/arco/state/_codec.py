"""Rows to Arrow to Parquet and back. The only place that knows how a row class and a file correspond."""

import math
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import accumulate, chain, islice
from operator import itemgetter
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.core import Corrupt
from arco.state._fold import Rows, Versioned
from arco.state._table import Key, Kind, Table, bucket_of

__all__ = ["ROW_GROUP_ROWS", "from_arrow", "newest", "read_parquet", "sort_rows", "to_arrow", "to_parquet"]

ROW_GROUP_ROWS = 8_192
"""Rows of one row group; rows are sorted by bucket, so loading a bucket reads few groups (docs/measurements.md)."""

CACHED_ROWS = 2_000
"""Rows that are taken apart into columns at a time."""

Builder = Callable[[Sequence[Any]], pa.Array]
"""Makes an Arrow array of the values of a column."""

FEW_ROWS = 1_000
"""Below it a codec's start for every column costs more than anything else: snappy has none, and is hardly larger."""


def to_arrow(table: Table, groups: Iterable[tuple[str, Rows]]) -> pa.Table:
    """Rows (and tombstones) of a table, sorted by bucket, group and key."""
    rows: list[Any] = []
    positions: list[int] = []
    buckets: list[int] = []
    images = table.kind is Kind.IMAGE
    deleted: list[bool] = []
    for bucket, group, given in sorted(((bucket_of(group), group, rows) for group, rows in groups), key=_by_group):
        found = sorted(given.items(), key=_by_key)
        positions += [position for _, (position, _) in found]
        buckets += [bucket] * len(found)
        if images:
            deleted += [row is None for _, (_, row) in found]
            rows += [_tombstone(table, group, key) if row is None else row for key, (_, row) in found]
        else:
            rows += [row for _, (_, row) in found]
    builders = _builders(table)
    # Some rows at a time: their values are still in the cache when the next column is made of them. All parts are
    # alike, because the columns of a small one cost nearly as much as those of a large one.
    size = math.ceil(len(rows) / max(1, round(len(rows) / CACHED_ROWS))) or 1
    parts = [_columns(rows[start : start + size], builders) for start in range(0, len(rows), size)]
    if len(parts) == 1:
        arrays = parts[0]
    else:
        arrays = [pa.concat_arrays(column) for column in zip(*parts, strict=True)] or [build(()) for build in builders]
    arrays.append(pa.array(positions, pa.int64()))
    arrays.append(pa.array(buckets, pa.uint8()))
    if images:
        arrays.append(pa.array(deleted, pa.bool_()))
    return pa.Table.from_arrays(arrays, schema=table.schema)


_by_group, _by_key = itemgetter(0, 1), itemgetter(0)


def _columns(rows: Sequence[Any], builders: Sequence[Builder]) -> list[pa.Array]:
    try:
        values = list(map(msgspec.structs.astuple, rows))
    except TypeError:  # tombstones are tuples already
        values = [row if type(row) is tuple else msgspec.structs.astuple(row) for row in rows]
    return [build(column) for build, column in zip(builders, zip(*values, strict=True), strict=True)]


def _tombstone(table: Table, group: str, key: Key) -> tuple[Any, ...]:
    named = dict(zip(table.key, (key,) if isinstance(key, str) else key, strict=True))
    named[table.group] = group
    return tuple(named.get(column) for column in table.columns)


@lru_cache(maxsize=256)
def _builders(table: Table) -> tuple[Builder, ...]:
    """What makes the columns of a row class. Found out once: asking Arrow about types took longer than few rows."""
    return tuple(_builder(kind) for kind in table.schema.types[: len(table.columns)])


def _builder(kind: pa.DataType) -> Builder:
    """Makes Arrow of values. Nested ones are taken apart into columns: a dict per struct took four times as long."""
    if pa.types.is_timestamp(kind):
        return lambda values: pa.array(values, pa.int64()).view(kind)
    if pa.types.is_map(kind):
        return lambda values: pa.array([None if value is None else sorted(value.items()) for value in values], kind)
    if pa.types.is_list(kind):
        return partial(_list_array, kind, _builder(kind.value_type), pa.array([], kind.value_type))
    if pa.types.is_struct(kind):
        return partial(_struct_array, list(kind), [_builder(field.type) for field in kind])
    return partial(pa.array, type=kind)


def _list_array(kind: pa.DataType, build: Builder, nothing: pa.Array, values: Sequence[Any]) -> pa.Array:
    try:
        offsets: list[int | None] = list(accumulate(map(len, values), initial=0))
        items = list(chain.from_iterable(values))
    except TypeError:  # some of them are None, which is rare and takes longer
        ends = list(accumulate((0 if value is None else len(value) for value in values), initial=0))
        offsets = [None if value is None else end for value, end in zip(values, ends, strict=False)]
        offsets.append(ends[-1])
        items = [item for value in values if value is not None for item in value]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), build(items) if items else nothing, kind)


def _struct_array(fields: list[pa.Field], builders: list[Builder], values: Sequence[Any]) -> pa.Array:
    missing = None
    try:
        rows = list(map(msgspec.structs.astuple, values))
    except TypeError:  # as above
        nothing = (None,) * len(fields)
        rows = [nothing if value is None else msgspec.structs.astuple(value) for value in values]
        missing = pa.array([value is None for value in values], pa.bool_())
    columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(fields)
    arrays = [build(column) for build, column in zip(builders, columns, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=missing)


def from_arrow(table: Table, data: pa.Table) -> Iterable[tuple[str, Key, Versioned]]:
    """(group, key, row with position) of each stored row; the row is None for a tombstone."""
    hints, stored = table.hints, set(data.column_names)
    columns = [
        _values(data.column(name).combine_chunks(), hints[name])
        if name in stored
        else [None] * data.num_rows  # a column added after the file was written
        for name in table.columns
    ]
    deleted = data.column("_deleted").to_pylist() if table.kind is Kind.IMAGE else [False] * data.num_rows
    group_index = table.columns.index(table.group)
    key_of = itemgetter(*(table.columns.index(name) for name in table.key))
    for values, position, gone in zip(
        zip(*columns, strict=True), data.column("_position").to_pylist(), deleted, strict=True
    ):
        yield values[group_index], key_of(values), (position, None if gone else table.row(*values))


def _values(array: pa.Array, hint: Any) -> list[Any]:
    """The inverse of `_builder`: Python values as the row class has them."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_map(kind):
        return [None if value is None else dict(value) for value in array.to_pylist()]
    elif pa.types.is_list(kind):
        make, (item, *_) = typing.get_origin(_given(hint)), typing.get_args(_given(hint))
        items = iter(_values(array.flatten(), item))
        sizes = array.value_lengths().to_pylist()
        return [None if size is None else make(islice(items, size)) for size in sizes]
    elif pa.types.is_struct(kind):
        row = _given(hint)
        hints = typing.get_type_hints(row)
        columns = [_values(column, hints[field.name]) for column, field in zip(array.flatten(), kind, strict=True)]
        valid = array.is_valid().to_pylist()
        return [row(*values) if here else None for values, here in zip(zip(*columns, strict=True), valid, strict=True)]
    return cast("list[Any]", array.to_pylist())


def _given(hint: Any) -> Any:
    """`X` of `X | None`."""
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    return options[0] if typing.get_origin(hint) in (types.UnionType, typing.Union) else hint


def to_parquet(table: Table, data: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    large = data.num_rows >= FEW_ROWS
    indexed = [*dict.fromkeys(["_bucket", "_position", table.group, *table.key, *table.prune])]
    pq.write_table(
        data,
        sink,
        compression="zstd" if large else "snappy",
        compression_level=1 if large else None,
        row_group_size=ROW_GROUP_ROWS,
        write_statistics=indexed,
        use_dictionary=[name for name in table.columns if name not in table.key and _is_text(table, name)],
        write_page_checksum=True,
        store_schema=False,
    )
    return bytes(sink.getvalue())


def _is_text(table: Table, name: str) -> bool:
    return bool(pa.types.is_string(table.schema.field(name).type))


def read_parquet(table: Table, data: bytes, path: str) -> pa.Table:
    """All rows of a file or slice; columns added later come as nulls."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        found = file.read(use_threads=file.metadata.num_rows >= FEW_ROWS)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"{path} is not readable Parquet ({error}); run `arco doctor`", path=path) from error
    return conform(table, found)


def conform(table: Table, data: pa.Table) -> pa.Table:
    """The data with exactly the table's columns: later ones added as nulls, types as declared."""
    schema = table.schema
    if data.schema.equals(schema):
        return data
    arrays = [
        data.column(field.name).cast(field.type)
        if field.name in data.column_names
        else pa.nulls(data.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def sort_rows(table: Table, data: pa.Table) -> pa.Table:
    """Bucket, group and key order, the newest row of a key first."""
    by = [("_bucket", "ascending"), *((name, "ascending") for name in dict.fromkeys([table.group, *table.key]))]
    return data.sort_by([*by, ("_position", "descending")])


def newest(table: Table, data: pa.Table) -> pa.Table:
    """Sorted rows of images with only the newest row (or tombstone) of each key."""
    if data.num_rows < 2:
        return data
    same = None
    for name in dict.fromkeys([table.group, *table.key]):
        column = data.column(name).combine_chunks()
        equal = pc.equal(column.slice(1), column.slice(0, len(column) - 1))
        same = equal if same is None else pc.and_(same, equal)
    return data.filter(pa.concat_arrays([pa.array([True]), pc.invert(same)]))
