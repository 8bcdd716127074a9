"""Tables: list, create, register, show, update, rename, drop; their history, schemas, contract, SLA and checks."""

from typing import Annotated, Any

from fastapi import Depends, Query, Request
from msgspec import UNSET

from arco.api._reading import MAX_REF, CallerDep, Cursor, IfNoneMatch, Limit, ReadsDep, TableRef, answer_one, host_of
from arco.api._routing import router
from arco.api._tables import added_column, change_table, create_by, drop_by, drop_warnings, register_files, rename_by
from arco.api._writing import IfExists, IfMatch, WritesDep
from arco.catalog import (
    ICEBERG_FORMATS,
    check_results,
    list_tables,
    parse_ref,
    resolve_table,
    schema_diff,
    schema_versions,
    table_commits,
    table_history,
    table_info,
    with_iceberg,
)
from arco.core import parse_path
from arco.domains.catalog import (
    CreateTable,
    DropContract,
    DropSla,
    RenameTable,
    SetContract,
    SetSla,
    UpdateTable,
)
from arco.iceberg import Lifecycle
from arco.wire import (
    CheckResultInfo,
    ContractSpec,
    HistoryEntry,
    Page,
    SchemaDiff,
    SchemaVersionInfo,
    SlaSpec,
    TableCommitInfo,
    TableCreate,
    TableInfo,
    TableRegister,
    TableRename,
    TableSummary,
    TableUpdate,
    TableWritten,
    Written,
)

__all__ = ["tables"]

tables = router("tables")


async def _lifecycle(request: Request, caller: CallerDep) -> Lifecycle:
    return host_of(request).warehouse_of(caller.scope).lifecycle


LifecycleDep = Annotated[Lifecycle, Depends(_lifecycle)]


@tables.get("/tables")
async def list_tables_route(
    reads: ReadsDep,
    namespace: Annotated[
        str, Query(min_length=1, max_length=MAX_REF, description="The namespace whose tables to list.")
    ],
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Page[TableSummary]:
    """List the tables of a namespace, in order of name."""
    return await reads.catalog(lambda view: list_tables(view, namespace, cursor, limit))


@tables.post("/tables", status_code=201)
async def create_table(writes: WritesDep, body: TableCreate) -> TableWritten:
    """Create a table in a namespace that exists."""
    path = parse_path(body.name)
    command = CreateTable(
        path=path,
        format=body.format,
        location=body.location,
        columns=tuple(added_column(column) for column in body.columns),
        description=body.description,
        owners=tuple(body.owners),
        tags=body.tags,
        properties=body.properties,
        side=body.side,
        if_not_exists=body.if_not_exists,
    )
    return await create_by(writes, command)


@tables.post("/tables/register", status_code=201)
async def register_table(writes: WritesDep, body: TableRegister) -> TableWritten:
    """Create a table for files that are in the store already. Its columns are read from them."""
    return await register_files(writes, body)


@tables.get("/tables/{table}", response_model=TableInfo)
async def get_table(reads: ReadsDep, table: TableRef, if_none_match: IfNoneMatch = None) -> Any:
    """Show a table, by its path or as `id:` and its id. A name it had before finds it too."""
    info = await reads.catalog(lambda view: table_info(view, table))
    if info.format in ICEBERG_FORMATS:
        info = await reads.activity(lambda view: with_iceberg(view, info))
    return answer_one(reads, info, info.version, if_none_match)


@tables.patch("/tables/{table}")
async def update_table(
    writes: WritesDep, table: TableRef, body: TableUpdate, expected_version: IfMatch
) -> TableWritten:
    """Change what code or people say of a table: description, owners, tags, properties, location."""
    ref, given = parse_ref(table), body.model_fields_set
    command = UpdateTable(
        table=ref,
        description=body.description if "description" in given else UNSET,
        owners=tuple(body.owners or ()) if "owners" in given else UNSET,
        tags=body.tags or {} if "tags" in given else UNSET,
        location=body.location if "location" in given else UNSET,
        set_properties=body.set_properties,
        remove_properties=tuple(body.remove_properties),
        side=body.side,
        expected_version=expected_version,
    )
    return await change_table(writes, ref, command)


@tables.post("/tables/{table}/rename")
async def rename_table(
    writes: WritesDep, table: TableRef, body: TableRename, expected_version: IfMatch
) -> TableWritten:
    """Rename a table or move it to another namespace. Its id stays, and the old name goes on finding it."""
    ref, new_path = parse_ref(table), parse_path(body.new_name)
    return await rename_by(writes, ref, RenameTable(ref, new_path, expected_version))


@tables.delete("/tables/{table}")
async def drop_table(
    lifecycle: LifecycleDep, writes: WritesDep, table: TableRef, expected_version: IfMatch, if_exists: IfExists = False
) -> Written:
    """Drop a table. What reads it is named in the warnings: lineage is in another log, so it cannot refuse."""
    ref = parse_ref(table)
    warnings = await drop_warnings(writes.caller.workspace, ref)
    receipt = await drop_by(writes, lifecycle, ref, if_exists=if_exists, expected_version=expected_version)
    if receipt.replayed:
        warnings = await drop_warnings(writes.caller.workspace, ref, before=int(receipt.first))
    return Written(operation_id=receipt.operation, position=receipt.last, replayed=receipt.replayed, warnings=warnings)


@tables.get("/tables/{table}/history")
async def get_table_history(reads: ReadsDep, table: TableRef) -> Page[HistoryEntry]:
    """What a table has been called."""
    return await reads.catalog(lambda view: table_history(view, table))


@tables.get("/tables/{table}/commits")
async def list_table_commits(
    reads: ReadsDep, table: TableRef, cursor: Cursor = None, limit: Limit = 100
) -> Page[TableCommitInfo]:
    """List the commits of an Iceberg table or view, newest first. Other tables have none."""
    found = await reads.catalog(lambda view: resolve_table(view, table))
    return await reads.activity(lambda view: table_commits(view, found.id, cursor, limit))


@tables.get("/tables/{table}/versions")
async def list_schema_versions(
    reads: ReadsDep,
    table: TableRef,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=100, description="Items of a page; each has all its columns.")] = 20,
) -> Page[SchemaVersionInfo]:
    """List the schemas a table has had, oldest first."""
    return await reads.catalog(lambda view: schema_versions(view, table, cursor, limit))


@tables.get("/tables/{table}/versions/diff")
async def diff_schema_versions(
    reads: ReadsDep,
    table: TableRef,
    from_version: Annotated[int, Query(alias="from", ge=1, le=1 << 31, description="The earlier version.")],
    to_version: Annotated[int, Query(alias="to", ge=1, le=1 << 31, description="The later version.")],
) -> SchemaDiff:
    """What is different in the second of two schema versions."""
    return await reads.catalog(lambda view: schema_diff(view, table, from_version, to_version))


@tables.put("/tables/{table}/contract")
async def set_contract(writes: WritesDep, table: TableRef, body: ContractSpec) -> TableWritten:
    """Set the contract of a table. An active one is enforced when its schema is altered."""
    ref = parse_ref(table)
    command = SetContract(ref, body.compatibility, body.status, body.description, body.terms)
    return await change_table(writes, ref, command)


@tables.delete("/tables/{table}/contract")
async def drop_contract(writes: WritesDep, table: TableRef) -> TableWritten:
    """Remove the contract of a table."""
    ref = parse_ref(table)
    return await change_table(writes, ref, DropContract(ref))


@tables.put("/tables/{table}/sla")
async def set_sla(writes: WritesDep, table: TableRef, body: SlaSpec) -> TableWritten:
    """Set what is promised of a table: how fresh it is, how available."""
    ref = parse_ref(table)
    command = SetSla(ref, body.freshness_seconds, body.availability_percent, body.description)
    return await change_table(writes, ref, command)


@tables.delete("/tables/{table}/sla")
async def drop_sla(writes: WritesDep, table: TableRef) -> TableWritten:
    """Remove the SLA of a table."""
    ref = parse_ref(table)
    return await change_table(writes, ref, DropSla(ref))


@tables.get("/tables/{table}/checks")
async def list_check_results(
    reads: ReadsDep, table: TableRef, cursor: Cursor = None, limit: Limit = 100
) -> Page[CheckResultInfo]:
    """Results of the checks of a table, newest first."""
    found = await reads.catalog(lambda view: resolve_table(view, table))
    return await reads.activity(lambda view: check_results(view, found.id, cursor, limit))
