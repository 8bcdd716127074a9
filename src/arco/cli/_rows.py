"""Rows of state, read with conditions: `column=value`. Those on the group and on prunable columns also save reading."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from arco.core import Invalid, parse_time
from arco.state import Snapshot, Table

__all__ = ["parse_conditions", "read_table"]


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
