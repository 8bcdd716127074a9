"""Columns and schemas: list, alter, describe."""

from typing import Annotated

from fastapi import Path, Query
from msgspec import UNSET

from arco.api._reading import ReadsDep, TableRef
from arco.api._routing import router
from arco.api._tables import added_column, change_table
from arco.api._writing import IfMatch, WritesDep
from arco.catalog import ICEBERG_FORMATS, View, iceberg_columns, list_columns, parse_ref, resolve_table
from arco.domains.catalog import (
    TABLES,
    AddColumn,
    AlterColumn,
    AlterTable,
    ColumnShape,
    DescribeColumn,
    DropColumn,
    ReplaceSchema,
    TableRow,
)
from arco.wire import (
    ColumnAdd,
    ColumnChange,
    ColumnDrop,
    ColumnInfo,
    ColumnUpdate,
    Page,
    TableAlter,
    TableSchema,
    TableWritten,
)

__all__ = ["columns"]

columns = router("columns")

ColumnName = Annotated[str, Path(min_length=1, max_length=1024, description="The column's name.")]


def _change(change: ColumnChange) -> AddColumn | AlterColumn | DropColumn:
    if isinstance(change, ColumnAdd):
        return added_column(change)
    if isinstance(change, ColumnDrop):
        return DropColumn(change.column, change.if_exists)
    return AlterColumn(
        change.column,
        change.new_name if change.new_name is not None else UNSET,
        change.type if change.type is not None else UNSET,
        change.nullable if change.nullable is not None else UNSET,
    )


@columns.get("/tables/{table}/columns")
async def list_columns_route(
    reads: ReadsDep,
    table: TableRef,
    inactive: Annotated[bool, Query(description="Dropped ones too.")] = False,
) -> Page[ColumnInfo]:
    """List the columns of a table, in their order."""

    async def listed(view: View) -> tuple[TableRow, Page[ColumnInfo]]:
        found = await resolve_table(view, table)
        return await view.get(TABLES, found.id, found.id), await list_columns(view, table, inactive=inactive)

    row, page = await reads.catalog(listed)
    if row.format in ICEBERG_FORMATS:
        items = await reads.activity(lambda view: iceberg_columns(view, row.table_id))
        page = page.model_copy(update={"items": items})
    return page


@columns.post("/tables/{table}/alter")
async def alter_table(writes: WritesDep, table: TableRef, body: TableAlter, expected_version: IfMatch) -> TableWritten:
    """Add, alter, rename and drop columns: all of it or nothing, as one new schema version."""
    ref = parse_ref(table)
    command = AlterTable(ref, tuple(_change(change) for change in body.changes), body.side, expected_version)
    return await change_table(writes, ref, command)


@columns.put("/tables/{table}/schema")
async def replace_schema(
    writes: WritesDep, table: TableRef, body: TableSchema, expected_version: IfMatch
) -> TableWritten:
    """Set the whole schema as it was found elsewhere. Renames nobody declared are inferred and marked."""
    ref, wanted = parse_ref(table), tuple(ColumnShape(new.name, new.type, new.nullable) for new in body.columns)
    command = ReplaceSchema(ref, wanted, body.infer_renames, body.side, expected_version)
    return await change_table(writes, ref, command)


@columns.patch("/tables/{table}/columns/{column}")
async def describe_column(
    writes: WritesDep, table: TableRef, column: ColumnName, body: ColumnUpdate, expected_version: IfMatch
) -> TableWritten:
    """Say what a column means: description, kind of personal data, sensitivity. The schema stays as it is."""
    ref, given = parse_ref(table), body.model_fields_set
    command = DescribeColumn(
        table=ref,
        column=column,
        description=body.description if "description" in given else UNSET,
        pii_type=body.pii_type if "pii_type" in given else UNSET,
        sensitivity=body.sensitivity if "sensitivity" in given else UNSET,
        side=body.side,
        expected_version=expected_version,
    )
    return await change_table(writes, ref, command)
