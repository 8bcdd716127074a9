"""Rows of state as plain values: read with conditions, written for people and for JSON, compared by key.

Times become RFC 3339 text, maps become objects, and `_position` becomes text, because browsers lose integers above
2^53. Conditions are `column=value`; those on the group and on prunable columns also save reading.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from arco.core import Invalid, format_time, parse_time
from arco.state import Snapshot, Table

__all__ = ["Changed", "Difference", "compare", "parse_conditions", "plain_rows", "read_table"]

Row = dict[str, Any]
POSITION = "_position"


@dataclass(frozen=True)
class Changed:
    key: Row
    columns: dict[str, tuple[Any, Any]]
    """Name -> value before, value after."""


@dataclass(frozen=True)
class Difference:
    table: str
    added: list[Row]
    removed: list[Row]
    changed: list[Changed]

    @property
    def empty(self) -> bool:
        return not (self.added or self.removed or self.changed)


def parse_conditions(table: Table, given: Iterable[str]) -> dict[str, Any]:
    """Column -> wanted value, in the column's own type."""
    wanted: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise Invalid(f"{text[:80]!r} is not a condition; write column=value")
        if name not in table.columns:
            raise Invalid(f"{table.name} has no column {name[:80]!r}; it has {', '.join(table.columns)}")
        if name in wanted:
            raise Invalid(f"--where names the column {name} twice; no row could satisfy both")
        wanted[name] = _value(name, table.schema.field(name).type, value)
    return wanted


def _value(name: str, kind: pa.DataType, text: str) -> Any:
    try:
        if pa.types.is_string(kind):
            return text
        if pa.types.is_timestamp(kind):
            return parse_time(text)
        if pa.types.is_boolean(kind):
            return {"true": True, "false": False}[text]
        if pa.types.is_integer(kind):
            return pa.scalar(int(text), kind).as_py()
        if pa.types.is_floating(kind):
            return float(text)
    except (ValueError, KeyError, OverflowError, pa.ArrowException):
        raise Invalid(f"{text[:80]!r} is no value of the column {name}, which holds {kind}") from None
    raise Invalid(f"the column {name} holds {kind} and cannot be compared; choose a column of single values")


async def read_table(snapshot: Snapshot, table: Table, wanted: Mapping[str, Any]) -> pa.Table:
    """The rows that satisfy every condition, in the order of the state."""
    groups = [wanted[table.group]] if table.group in wanted else None
    between = {name: (value, value) for name, value in wanted.items() if name in table.prune}
    data = await snapshot.scan(table, groups=groups, between=between)
    for name, value in wanted.items():
        if name != table.group and name not in between:
            column = data.column(name)
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.int64())
            data = data.filter(pc.equal(column, pa.scalar(value, column.type)))
    return data


def plain_rows(data: pa.Table) -> list[Row]:
    """Rows of JSON values."""
    columns = {name: _plain_column(data.column(name)) for name in data.column_names}
    if POSITION in columns:
        columns[POSITION] = [str(position) for position in columns[POSITION]]
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
    except OverflowError:
        return f"{micros} µs"  # a time no calendar has: shown as it is stored


def compare(table: Table, before: pa.Table, after: pa.Table) -> Difference:
    """What became of each row between two states, by key. A row's position alone is no change."""
    old, new = _by_key(table, before), _by_key(table, after)
    changed = []
    for key, row in new.items():
        was = old.get(key)
        if was is not None:
            columns = {name: (was[name], row[name]) for name in table.columns if was[name] != row[name]}
            if columns:
                changed.append(Changed(dict(zip(table.key, key, strict=True)), columns))
    return Difference(
        table.name,
        [row for key, row in new.items() if key not in old],
        [row for key, row in old.items() if key not in new],
        changed,
    )


def _by_key(table: Table, data: pa.Table) -> dict[tuple[str, ...], Row]:
    return {tuple(row[name] for name in table.key): row for row in plain_rows(data)}
