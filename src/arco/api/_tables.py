"""What several routes of tables share: the answer to a write, drops and their warnings, registering files."""

import msgspec

from arco.api._writing import Writes
from arco.catalog import Found, View, downstream_of, inspect, name_of, resolve_table, table_info
from arco.core import (
    AssetId,
    NotFound,
    OutcomeUnknown,
    PartitionKey,
    PreconditionFailed,
    Superseded,
    Unavailable,
    derive_ulid,
    fingerprint,
    parse_path,
    parse_ulid,
    partition_id,
    ulid_time,
)
from arco.domains.catalog import (
    AddColumn,
    CreateTable,
    DropTable,
    Ref,
    RenameTable,
    TableRow,
    is_iceberg,
    path_of_table,
)
from arco.domains.catalog.resolve import known_table
from arco.domains.execution import MATERIALIZATION_COMPLETED, MATERIALIZATIONS, MaterializationCompleted
from arco.iceberg import IdempotencyKey, Lifecycle, Who
from arco.log import Receipt
from arco.runtime import Workspace
from arco.servo import check_no_asset
from arco.state import new_event
from arco.storage import Role
from arco.wire import ColumnSpec, TableRegister, TableWritten

__all__ = ["added_column", "change_table", "create_by", "drop_by", "drop_warnings", "register_files", "rename_by"]

MAX_NAMED = 10
"""How many readers of a dropped table a warning names."""


async def table_written(writes: Writes, receipt: Receipt, ref: Ref, known: str | None) -> TableWritten:
    """The table as the command left it: on a replay, as it was then. `ref` is what it is called after the command."""
    return TableWritten(
        operation_id=receipt.operation,
        position=receipt.last,
        replayed=receipt.replayed,
        table=await writes.left(receipt, known, lambda view, key: table_info(view, Ref(id=key) if key else ref)),
    )


async def id_of_table(writes: Writes, ref: Ref) -> str | None:
    """The id of the table a command is about to change; None if it does not exist, which the command will say."""
    try:
        found, _ = await writes.caller.workspace.logs["catalog"].read(
            lambda view: resolve_table(view, ref), strong=False
        )
    except NotFound:
        return None
    return found.id


async def change_table(writes: Writes, ref: Ref, command: msgspec.Struct, after: Ref | None = None) -> TableWritten:
    """Carry out a command on a table that exists; `after` is its new name, if that changes."""
    known = await id_of_table(writes, ref)
    return await table_written(writes, await writes.decide("catalog", command), after or ref, known)


async def create_by(writes: Writes, command: CreateTable) -> TableWritten:
    receipt = await writes.decide("catalog", command)
    return await table_written(writes, receipt, Ref(path=command.path), await writes.created_id(receipt, "table"))


def added_column(column: ColumnSpec) -> AddColumn:
    return AddColumn(column.name, column.type, column.nullable, column.description, column.pii_type, column.sensitivity)


async def drop_by(
    writes: Writes, lifecycle: Lifecycle, ref: Ref, *, if_exists: bool, expected_version: int | None
) -> Receipt:
    """Drop a table. One of Iceberg's is dropped by a pointer first, so that no commit lands on it afterwards."""
    command = DropTable(ref, if_exists, expected_version)
    asked = fingerprint({"drop": ref.id or list(ref.path), "if_exists": if_exists, "version": expected_version})
    key = IdempotencyKey(writes.key, asked) if writes.key else None
    caller = writes.caller
    who = Who(
        caller.actor,
        writes.operation,
        "admin",
        traceparent=caller.traceparent,
        correlation=caller.request_id,
        key=key,
    )
    receipt = await lifecycle.keys.find(who)
    if receipt is None:
        before = await writes.repeated("catalog", DropTable, asked)
        row = None if before else await _row_of(writes.caller.workspace, ref)
        if row is None or not is_iceberg(row.format):
            return await writes.decide("catalog", command, asked=asked)
        if expected_version is not None and row.version != expected_version:
            raise PreconditionFailed(
                f"the table {row.name} has version {row.version}, not {expected_version}: it changed since you looked; "
                "read it again",
                version=row.version,
            )
        await _check_no_asset(writes.caller.workspace, row)
        receipt = (await lifecycle.drop_id(row.table_id, who)).receipt
    await writes.settle("catalog", receipt)
    return receipt


async def rename_by(writes: Writes, ref: Ref, command: RenameTable) -> TableWritten:
    """Rename a table, if its name is not that of an asset."""
    row = await _row_of(writes.caller.workspace, ref)
    if row is not None and is_iceberg(row.format):
        await _check_no_asset(writes.caller.workspace, row)
    return await change_table(writes, ref, command, Ref(path=command.new_path))


async def _check_no_asset(workspace: Workspace, row: TableRow) -> None:
    async def check(view: View) -> None:
        await check_no_asset(view, await path_of_table(view, row))

    await workspace.logs["catalog"].read(check)


async def _row_of(workspace: Workspace, ref: Ref) -> TableRow | None:
    """The table a command is about, as this process knows it; None if there is none.

    That is good enough: the log's owner refuses to drop an Iceberg table that was taken for another one.
    """
    try:
        (row, _), _ = await workspace.logs["catalog"].read(lambda view: known_table(view, ref), strong=False)
    except NotFound:
        return None
    return row


async def drop_warnings(workspace: Workspace, ref: Ref, before: int | None = None) -> list[str]:
    """Who reads a table, by lineage. It may change while the drop is on its way, so it warns and never refuses.

    Of a table that was dropped already, the state before a position still knows the name.
    """
    catalog, activity = workspace.logs["catalog"], workspace.logs["activity"]
    try:
        if before is None:
            found, _ = await catalog.read(lambda view: resolve_table(view, ref), strong=False)
        else:
            found = await resolve_table(await catalog.snapshot(position=before - 1), ref)
    except NotFound:
        return []
    readers, _ = await activity.read(lambda view: downstream_of(view, found.id), strong=False)

    async def named(view: View) -> list[str]:
        found = [(reader, *await name_of(view, reader)) for reader in readers]
        return [name or reader for reader, name, exists in found if exists or name is None]

    names, _ = await catalog.read(named, strong=False)
    if not names:
        return []
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return [f"{', '.join(names[:MAX_NAMED])}{more} read this table, as lineage shows; they were not changed"]


async def register_files(writes: Writes, body: TableRegister) -> TableWritten:
    """Look at the files, create the table, then record the files as its first materialization.

    The two logs cannot be written at once. The table comes first; its first version has an id that follows from the
    table's, so that repeating the request completes what a crash interrupted, and records nothing twice. A repetition
    of what was completed does not look at the files, which may have changed since.
    """
    workspace = writes.caller.workspace
    asked, path = fingerprint(body.model_dump(mode="json")), parse_path(body.name)
    if before := await writes.repeated("catalog", CreateTable, asked):
        receipt, _ = before
        written = await table_written(writes, receipt, Ref(path=path), await writes.created_id(receipt, "table"))
        if await _has_first_version(workspace, written.table.id):
            await writes.settle("catalog", receipt)
            return written
    found = await inspect(workspace.handle(Role.READER), body.location, body.format, workspace.runtime)
    command = CreateTable(
        path=path,
        format=body.format,
        location=found.location,
        columns=tuple(AddColumn(column.name, column.data_type, column.is_nullable) for column in found.columns),
        description=body.description,
        owners=tuple(body.owners),
        tags=body.tags,
        properties=body.properties,
    )
    receipt = await writes.append("catalog", command, asked=asked)
    written = await table_written(writes, receipt, Ref(path=path), await writes.created_id(receipt, "table"))
    await _record_files(writes, receipt, written, found)
    await writes.settle("catalog", receipt)
    return written


async def _record_files(writes: Writes, receipt: Receipt, written: TableWritten, found: Found) -> None:
    workspace, name = writes.caller.workspace, written.table.name
    event = _first_version(workspace, written.table.id, name, found)
    try:
        await workspace.record(
            "activity", [new_event(MATERIALIZATION_COMPLETED, event, subject=name)], actor=writes.caller.actor
        )
    except (Unavailable, Superseded) as error:
        raise OutcomeUnknown(
            f"the table {name} was created, but it is not known whether its files were recorded: {error.message}; "
            "send the same request with the same key again",
            operation=receipt.operation,
        ) from error


def _first_version_id(table_id: str) -> str:
    return derive_ulid(ulid_time(parse_ulid(table_id)), f"{table_id}:register")


async def _has_first_version(workspace: Workspace, table_id: str) -> bool:
    known = _first_version_id(table_id)
    row, _ = await workspace.logs["activity"].read(lambda view: view.get(MATERIALIZATIONS, table_id, known))
    return row is not None


def _first_version(workspace: Workspace, table_id: str, name: str, found: Found) -> MaterializationCompleted:
    now = workspace.runtime.now()
    partition = partition_id(AssetId(parse_ulid(table_id)), PartitionKey.empty())
    return MaterializationCompleted(
        materialization_id=_first_version_id(table_id),
        asset_id=table_id,
        asset_key=name,
        partition_id=partition,
        partition_key="",
        run_id="",
        task_id="register",
        files=found.files,
        row_count=found.row_count,
        byte_size=found.byte_size,
        schema_hash=found.schema_hash,
        started_at=now,
        completed_at=now,
        schema_version=1,
    )
