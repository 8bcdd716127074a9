"""Deciders of columns: alter a schema, replace it, describe a column."""

from collections.abc import Iterable

from msgspec import UNSET

from arco.core import Invalid, Refused, format_path
from arco.domains.catalog.checks import check_description, check_pii_type, check_sensitivity, check_side, is_iceberg
from arco.domains.catalog.commands import (
    AddColumn,
    AlterColumn,
    AlterTable,
    ColumnShape,
    DescribeColumn,
    DropColumn,
    ReplaceSchema,
)
from arco.domains.catalog.decide_namespaces import check_version
from arco.domains.catalog.events import COLUMN_DESCRIBED, SCHEMA_CHANGED, ColumnDescribed
from arco.domains.catalog.resolve import TABLE, known_table
from arco.domains.catalog.schema import Schema, check_contract, find_column
from arco.domains.catalog.tables import COLUMNS, CONTRACTS, Column, TableRow
from arco.domains.catalog.types import parse_type
from arco.log import NewEvent
from arco.state import Decision, View, new_event

__all__ = ["alter_table", "describe_column", "replace_schema"]

Change = AddColumn | AlterColumn | DropColumn


async def alter_table(command: AlterTable, view: View, decision: Decision) -> list[NewEvent]:
    row, path = await known_table(view, command.table)
    _check_own_schema(row, path)
    check_version(TABLE, path, row.version, command.expected_version)
    columns: list[Column] = await view.rows(COLUMNS, row.table_id)
    return await _carry_out(command.changes, row, path, columns, check_side(command.side), view, decision)


async def replace_schema(command: ReplaceSchema, view: View, decision: Decision) -> list[NewEvent]:
    row, path = await known_table(view, command.table)
    _check_own_schema(row, path)
    check_version(TABLE, path, row.version, command.expected_version)
    columns: list[Column] = await view.rows(COLUMNS, row.table_id)
    changes = _changes_to(columns, command.columns, infer=command.infer_renames)
    return await _carry_out(changes, row, path, columns, check_side(command.side), view, decision)


def _check_own_schema(row: TableRow, path: tuple[str, ...]) -> None:
    if is_iceberg(row.format):
        raise Refused(
            f"the columns of the Iceberg table {format_path(path)} are in its metadata; change them with an engine "
            "that is connected to /iceberg"
        )


def _changes_to(known: Iterable[Column], wanted: tuple[ColumnShape, ...], *, infer: bool) -> list[Change]:
    """The changes that lead from the active columns to those wanted: first what goes, then what stays, then the new."""
    before = sorted((c for c in known if c.status == "active"), key=lambda column: column.ordinal_position)
    names, wanted_names = {column.name for column in before}, {column.name for column in wanted}
    if len(wanted_names) < len(wanted):
        raise Invalid("the schema names a column twice; each column has a name of its own")
    drops: list[Change] = []
    alters: list[Change] = []
    renamed: set[str] = set()
    for index, column in enumerate(before):
        if column.name in wanted_names:
            continue
        there = wanted[index] if index < len(wanted) else None
        if infer and there and there.name not in names and parse_type(there.data_type) == column.data_type:
            alters.append(AlterColumn(column.column_id, there.name, is_nullable=there.is_nullable, inferred=True))
            renamed.add(there.name)
        else:
            drops.append(DropColumn(column.column_id))
    alters += [
        AlterColumn(found.name, data_type=found.data_type, is_nullable=found.is_nullable)
        for found in wanted
        if found.name in names
    ]
    adds = [
        AddColumn(new.name, new.data_type, new.is_nullable)
        for new in wanted
        if new.name not in names and new.name not in renamed
    ]
    return [*drops, *alters, *adds]


async def _carry_out(
    changes: Iterable[Change],
    row: TableRow,
    path: tuple[str, ...],
    columns: list[Column],
    side: str,
    view: View,
    decision: Decision,
) -> list[NewEvent]:
    text = format_path(path)
    schema = Schema(columns, text)
    for index, change in enumerate(changes):
        if isinstance(change, AddColumn):
            schema.add(change, decision.new_id(f"column:{index}"), side)
        elif isinstance(change, AlterColumn):
            schema.alter(change)
        else:
            schema.drop(change)
    event = schema.change(row.table_id)
    if event is None:
        return []
    check_contract(await view.get(CONTRACTS, row.table_id, row.table_id), columns, event, text)
    return [new_event(SCHEMA_CHANGED, event, subject=text)]


async def describe_column(command: DescribeColumn, view: View, decision: Decision) -> list[NewEvent]:
    row, path = await known_table(view, command.table)
    _check_own_schema(row, path)
    check_version(TABLE, path, row.version, command.expected_version)
    side = check_side(command.side)
    column = find_column(await view.rows(COLUMNS, row.table_id), command.column, format_path(path))
    descriptions = {"code": column.code_description, "ui": column.ui_description}
    if command.description is not UNSET:
        descriptions[side] = check_description(command.description)
    event = ColumnDescribed(
        table_id=row.table_id,
        column_id=column.column_id,
        code_description=descriptions["code"],
        ui_description=descriptions["ui"],
        pii_type=column.pii_type if command.pii_type is UNSET else check_pii_type(command.pii_type),
        sensitivity=column.sensitivity if command.sensitivity is UNSET else check_sensitivity(command.sensitivity),
    )
    before = (column.code_description, column.ui_description, column.pii_type, column.sensitivity)
    if (event.code_description, event.ui_description, event.pii_type, event.sensitivity) == before:
        return []
    return [new_event(COLUMN_DESCRIBED, event, subject=format_path((*path, column.name)))]
