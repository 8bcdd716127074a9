"""Rows to Arrow to Parquet and back. The only place that knows how a row class and a file correspond."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.core import Corrupt
from arco.state._fold import Rows, Versioned
from arco.state._table import Key, Kind, Table, bucket_of

__all__ = ["ROW_GROUP_ROWS", "from_arrow", "newest", "read_parquet", "sort_rows", "to_arrow", "to_parquet"]

ROW_GROUP_ROWS = 16_384
"""Rows of one row group; rows are sorted by bucket, so loading a bucket reads few groups (docs/measurements.md)."""


def to_arrow(table: Table, groups: Iterable[tuple[str, Rows]]) -> pa.Table:
    """Rows (and tombstones) of a table, sorted by bucket, group and key."""
    rows: list[tuple[int, str, Key, Versioned]] = [
        (bucket_of(group), group, key, versioned) for group, found in groups for key, versioned in found.items()
    ]
    rows.sort(key=lambda row: row[:3])
    columns: list[list[Any]] = [[] for _ in table.columns]
    for _, group, key, (_, row) in rows:
        values = msgspec.structs.astuple(row) if row is not None else _tombstone(table, group, key)
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    schema = table.schema
    arrays = [_array(values, field.type) for values, field in zip(columns, schema, strict=False)]
    arrays.append(pa.array([versioned[0] for _, _, _, versioned in rows], pa.int64()))
    arrays.append(pa.array([bucket for bucket, _, _, _ in rows], pa.uint8()))
    if table.kind is Kind.IMAGE:
        arrays.append(pa.array([versioned[1] is None for _, _, _, versioned in rows], pa.bool_()))
    return pa.Table.from_arrays(arrays, schema=schema)


def _tombstone(table: Table, group: str, key: Key) -> list[Any]:
    named = dict(zip(table.key, (key,) if isinstance(key, str) else key, strict=True))
    named[table.group] = group
    return [named.get(column) for column in table.columns]


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_map(kind):
        return pa.array([None if value is None else sorted(value.items()) for value in values], kind)
    if pa.types.is_nested(kind):
        return pa.array([_plain(value) for value in values], kind)
    return pa.array(values, kind)


def _plain(value: Any) -> Any:
    """Nested structs as dicts with every field, defaults included."""
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def from_arrow(table: Table, data: pa.Table) -> Iterable[tuple[str, Key, Versioned]]:
    """(group, key, row with position) of each stored row; the row is None for a tombstone."""
    columns = []
    hints = {field.name: field.type for field in msgspec.structs.fields(table.row)}
    for name in table.columns:
        if name not in data.column_names:  # a column added after the file was written
            columns.append([None] * data.num_rows)
            continue
        column = data.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        values = column.to_pylist()
        if pa.types.is_map(column.type):
            values = [None if value is None else dict(value) for value in values]
        elif pa.types.is_nested(column.type):
            values = [None if value is None else msgspec.convert(value, hints[name]) for value in values]
        columns.append(values)
    deleted = data.column("_deleted").to_pylist() if table.kind is Kind.IMAGE else [False] * data.num_rows
    group_index = table.columns.index(table.group)
    key_indexes = [table.columns.index(name) for name in table.key]
    for values, position, gone in zip(
        zip(*columns, strict=True), data.column("_position").to_pylist(), deleted, strict=True
    ):
        key = values[key_indexes[0]] if len(key_indexes) == 1 else tuple(values[i] for i in key_indexes)
        yield values[group_index], key, (position, None if gone else table.row(*values))


def to_parquet(table: Table, data: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    indexed = [*dict.fromkeys(["_bucket", "_position", table.group, *table.key, *table.prune])]
    pq.write_table(
        data,
        sink,
        compression="zstd",
        compression_level=1,
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
        found = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read()
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"{path} is not readable Parquet ({error}); run `arco doctor`", path=path) from error
    return conform(table, found)


def conform(table: Table, data: pa.Table) -> pa.Table:
    """The data with exactly the table's columns: later ones added as nulls, types as declared."""
    schema = table.schema
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
