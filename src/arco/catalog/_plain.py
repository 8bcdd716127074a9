"""Arrow rows as plain values, for people and for JSON.

Times become RFC 3339 text, maps become objects, bytes hexadecimal text, and `_position` becomes text, because browsers
lose integers above 2^53.
"""

from typing import Any

import pyarrow as pa

from arco.core import Invalid, format_time

__all__ = ["Row", "plain_rows"]

Row = dict[str, Any]

_POSITION = "_position"


def plain_rows(data: pa.Table) -> list[Row]:
    """Rows of JSON values."""
    columns = {name: _plain_column(data.column(name)) for name in data.column_names}
    if _POSITION in columns:
        columns[_POSITION] = [str(position) for position in columns[_POSITION]]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _plain_column(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return [_time(micros) for micros in column.cast(pa.int64()).to_pylist()]
    return [_plain(value, column.type) for value in column.to_pylist()]


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _plain(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    return value.hex() if isinstance(value, bytes) else value


def _time(micros: int | None) -> str | None:
    if micros is None:
        return None
    try:
        return format_time(micros)
    except Invalid:
        return f"{micros} µs"  # a time no calendar has: shown as it is stored
