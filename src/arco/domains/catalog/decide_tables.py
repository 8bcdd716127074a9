"""Deciders of tables as a whole: create, update, rename or move, drop. Columns are in `decide_columns`.

An Iceberg table or view is here a name and what people say of it. Its schema and its place are in its metadata, and
whether it lives is in its pointers: it is created and dropped by `arco.iceberg`, which writes those first.
"""

import msgspec
from msgspec import UNSET

from arco.core import Conflict, Invalid, NotFound, Refused, format_path, parse_ulid
from arco.domains.catalog.checks import (
    changed_pairs,
    check_description,
    check_format,
    check_location,
    check_owners,
    check_pairs,
    check_side,
    check_table_path,
    is_iceberg,
)
from arco.domains.catalog.commands import CreateTable, DropTable, RenameTable, UpdateTable
from arco.domains.catalog.decide_namespaces import check_version
from arco.domains.catalog.events import (
    TABLE_CREATED,
    TABLE_DROPPED,
    TABLE_RENAMED,
    TABLE_UPDATED,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableUpdated,
)
from arco.domains.catalog.resolve import TABLE, find_object_id, known_namespace_id, known_table
from arco.domains.catalog.schema import Schema
from arco.domains.catalog.tables import NAME_CHANGES, Declared
from arco.log import NewEvent
from arco.state import Decision, View, new_event

__all__ = ["create_table", "drop_table", "rename_table", "update_table"]


async def create_table(command: CreateTable, view: View, decision: Decision) -> list[NewEvent]:
    path, side = check_table_path(command.path), check_side(command.side)
    declared = Declared(
        check_description(command.description), check_owners(command.owners), check_pairs("tag", command.tags)
    )
    format = check_format(command.format)
    _check_created_by(command, format)
    schema = Schema((), format_path(path))
    for index, column in enumerate(command.columns):
        schema.add(column, decision.new_id(f"column:{index}"), side)
    event = TableCreated(
        table_id=decision.new_id("table") if command.table_id is UNSET else parse_ulid(command.table_id),
        namespace_id=await known_namespace_id(view, path[:-1]),
        name=path[-1],
        format=format,
        location=check_location(command.location),
        columns=schema.added(),
        properties=check_pairs("property", command.properties),
        code=declared if side == "code" else Declared(),
        ui=declared if side == "ui" else Declared(),
    )
    if await find_object_id(view, event.namespace_id, TABLE, path[-1]) is not None:
        if command.if_not_exists:
            return []
        raise Conflict(f"the table {format_path(path)} exists already; choose another name, or use if_not_exists")
    if command.table_id is not UNSET and await view.rows(NAME_CHANGES, event.table_id):
        raise Conflict(f"the id {event.table_id} is or was that of another table; use a new one")
    return [new_event(TABLE_CREATED, event, subject=format_path(path))]


def _check_created_by(command: CreateTable, format: str) -> None:
    if not is_iceberg(format):
        if command.table_id is not UNSET:
            raise Invalid(f"the id of a table of format {format} is not chosen by who creates it; leave it out")
        return
    if command.table_id is UNSET:
        raise Invalid(
            f"a table of format {format} is created where its metadata is written: by an engine that is "
            "connected to /iceberg"
        )
    if command.columns or command.location is not None:
        raise Invalid(f"columns and location of a table of format {format} are in its metadata; leave them out")


async def update_table(command: UpdateTable, view: View, decision: Decision) -> list[NewEvent]:
    row, path = await known_table(view, command.table)
    check_version(TABLE, path, row.version, command.expected_version)
    if is_iceberg(row.format) and command.location is not UNSET:
        raise Refused(
            f"the location of the Iceberg table {format_path(path)} is in its metadata; change it with an engine that "
            "is connected to /iceberg"
        )
    side = check_side(command.side)
    declared: Declared = getattr(row, side)
    if command.description is not UNSET:
        declared = msgspec.structs.replace(declared, description=check_description(command.description))
    if command.owners is not UNSET:
        declared = msgspec.structs.replace(declared, owners=check_owners(command.owners))
    if command.tags is not UNSET:
        declared = msgspec.structs.replace(declared, tags=check_pairs("tag", command.tags))
    event = TableUpdated(
        table_id=row.table_id,
        location=row.location if command.location is UNSET else check_location(command.location),
        properties=changed_pairs("property", row.properties, command.set_properties, command.remove_properties),
        code=declared if side == "code" else row.code,
        ui=declared if side == "ui" else row.ui,
    )
    if event == TableUpdated(row.table_id, row.location, row.properties, row.code, row.ui):
        return []
    return [new_event(TABLE_UPDATED, event, subject=format_path(path))]


async def rename_table(command: RenameTable, view: View, decision: Decision) -> list[NewEvent]:
    row, path = await known_table(view, command.table)
    check_version(TABLE, path, row.version, command.expected_version)
    new_path = check_table_path(command.new_path)
    if new_path == path:
        return []
    namespace_id = await known_namespace_id(view, new_path[:-1])
    if await find_object_id(view, namespace_id, TABLE, new_path[-1]) is not None:
        raise Conflict(f"the table {format_path(new_path)} exists already; choose another name")
    event = TableRenamed(row.table_id, namespace_id, new_path[-1])
    return [new_event(TABLE_RENAMED, event, subject=format_path(new_path))]


async def drop_table(command: DropTable, view: View, decision: Decision) -> list[NewEvent]:
    try:
        row, path = await known_table(view, command.table)
    except NotFound:
        if command.if_exists:
            return []
        raise
    check_version(TABLE, path, row.version, command.expected_version)
    event = new_event(TABLE_DROPPED, TableDropped(row.table_id), subject=format_path(path))
    if not is_iceberg(row.format):
        if command.fence is not UNSET:
            raise Invalid(
                f"the table {format_path(path)} is no Iceberg table, so nothing fences it; leave the fence out"
            )
        return [event]
    if command.fence is UNSET:
        raise Refused(
            f"the Iceberg table {format_path(path)} is dropped through its pointers, so that no commit lands on it "
            "afterwards; drop it by its name, through /api/v1 or /iceberg"
        )
    return [msgspec.structs.replace(event, causation=command.fence)]
