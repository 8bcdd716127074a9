"""Digests of tables: equal rows give equal digests, whatever files, runner or order they came from."""

import hashlib

import msgspec
import pyarrow as pa

from arco.state._table import Table

__all__ = ["digest_rows"]


def digest_rows(table: Table, data: pa.Table) -> str:
    """sha256 over the rows in key order, positions included."""
    by = [(name, "ascending") for name in dict.fromkeys([table.group, *table.key])]
    data = data.sort_by(by) if data.num_rows else data
    names = [name for name in (*table.columns, "_position") if name in data.column_names]
    columns = []
    for name in names:
        column = data.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        columns.append(column.to_pylist())
    found = hashlib.sha256()
    for row in zip(*columns, strict=True):
        found.update(msgspec.json.encode(row))
        found.update(b"\n")
    return found.hexdigest()
