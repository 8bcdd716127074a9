"""Commands on tables: create, register, show and change them, what they have been."""

from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from arco.cli._answers import confirm, document_of, gather, list_out, page_size, written_out
from arco.cli._command import Session, asks, changes
from arco.cli._connect import connect
from arco.cli._namespace import HISTORY_HEADERS, history_row, walk_namespaces
from arco.cli._options import (
    AsOfOption,
    DescriptionOption,
    IfExistsOption,
    IfNotExistsOption,
    LimitOption,
    OwnersOption,
    PropertiesOption,
    RemovePropertiesOption,
    TableArgument,
    TagsOption,
    YesOption,
)
from arco.cli._output import say, shown_time, titled
from arco.cli._specs import changed, parse_columns, parse_pairs, parse_rename, parse_retype
from arco.cli._table_text import COMMIT_HEADERS, column_text, columns_grid, commit_row, table_facts, version_row
from arco.client import AsyncClient
from arco.core import Invalid
from arco.wire import (
    ColumnAdd,
    ColumnAlter,
    ColumnChange,
    ColumnDrop,
    ColumnShape,
    TableAlter,
    TableCreate,
    TableInfo,
    TableRegister,
    TableRename,
    TableSchema,
    TableSummary,
    TableUpdate,
)

__all__ = ["app"]

app = typer.Typer(help="Create, list, show and change tables.", no_args_is_help=True)

ColumnsOption = Annotated[
    list[str] | None,
    typer.Option("--column", "-c", metavar="NAME:TYPE[:notnull]", help="A column, such as id:bigint. Repeatable."),
]
LocationOption = Annotated[str | None, typer.Option("--location", metavar="PATH", help="Where its data lies.")]


class TableFormat(StrEnum):
    PARQUET = "PARQUET"
    DELTA = "DELTA"
    ICEBERG = "ICEBERG"
    CSV = "CSV"
    JSON = "JSON"


class FileFormat(StrEnum):
    PARQUET = "PARQUET"
    CSV = "CSV"
    JSON = "JSON"


class Clearable(StrEnum):
    DESCRIPTION = "description"
    OWNERS = "owners"
    TAGS = "tags"
    LOCATION = "location"


@changes(app)
async def create(
    session: Session,
    name: TableArgument,
    columns: ColumnsOption = None,
    format_: Annotated[TableFormat, typer.Option("--format", case_sensitive=False)] = TableFormat.PARQUET,
    location: LocationOption = None,
    description: DescriptionOption = None,
    owners: OwnersOption = None,
    tags: TagsOption = None,
    properties: PropertiesOption = None,
    if_not_exists: IfNotExistsOption = False,
) -> None:
    """Create a table in a namespace that exists.

    arco table create sales.orders -c id:bigint:notnull -c "price:decimal(10,2)" -c "tags:map<string,string>"
    """
    request = TableCreate(
        name=name,
        columns=parse_columns(columns or []),
        format=format_.value,
        location=location,
        description=description,
        owners=owners or [],
        tags=parse_pairs("--tag", tags),
        properties=parse_pairs("--property", properties),
        if_not_exists=if_not_exists,
    )
    async with connect(session) as client:
        written = await client.create_table(request, key=session.request_key)
    written_out(session, written, f"The table {written.table.name} is there.", *_identity(written.table))


@changes(app)
async def register(
    session: Session,
    name: TableArgument,
    location: Annotated[
        str, typer.Argument(metavar="PATH", help="A folder or file below the workspace's data/.", show_default=False)
    ],
    format_: Annotated[FileFormat, typer.Option("--format", case_sensitive=False)] = FileFormat.PARQUET,
    description: DescriptionOption = None,
    owners: OwnersOption = None,
    tags: TagsOption = None,
    properties: PropertiesOption = None,
) -> None:
    """Make a table of files that are in the store already.

    Columns and row counts are read from the files.
    """
    request = TableRegister(
        name=name,
        location=location,
        format=format_.value,
        description=description,
        owners=owners or [],
        tags=parse_pairs("--tag", tags),
        properties=parse_pairs("--property", properties),
    )
    async with connect(session) as client:
        written = await client.register_table(request, key=session.request_key)
    columns = ", ".join(f"{column.name} {column.type}" for column in written.table.columns)
    written_out(session, written, f"Registered {written.table.name} ({columns}).", *_identity(written.table))


def _identity(table: TableInfo) -> tuple[str, str]:
    return f"id {table.id}", f"schema version {table.schema_version}"


@asks(app, "list")
async def list_(
    session: Session,
    namespace: Annotated[
        str | None, typer.Argument(metavar="[NAMESPACE]", help="Only those of this one.", show_default=False)
    ] = None,
    as_of: AsOfOption = None,
    limit: LimitOption = 100,
) -> None:
    """List the tables of a namespace, or of all."""
    async with connect(session) as client:
        if namespace is not None:
            pages = client.list_tables(namespace, limit=page_size(limit), as_of=as_of)
            items, more = await gather(pages, limit)
        else:
            items, more = await _everywhere(client, as_of, limit)
    headers = ["table", "format", "description", "updated", "id"]
    list_out(session, "tables", items, more, headers, _summary_row, "There are none; `arco table create` makes one.")


async def _everywhere(client: AsyncClient, as_of: str | None, limit: int) -> tuple[list[TableSummary], bool]:
    items: list[TableSummary] = []
    async for namespace in walk_namespaces(client, as_of=as_of):
        async for table in client.list_tables(f"id:{namespace.id}", limit=page_size(limit), as_of=as_of):
            if limit and len(items) == limit:
                return items, True
            items.append(table)
    return items, False


def _summary_row(found: TableSummary) -> list[object]:
    return [found.name, found.format, found.description, shown_time(found.updated_at), found.id]


@asks(app)
async def show(session: Session, name: TableArgument, as_of: AsOfOption = None) -> None:
    """Show a table and its columns. A name it had before finds it too."""
    async with connect(session) as client:
        found = await client.get_table(name, as_of=as_of)
    columns: RenderableType = columns_grid(found.columns) if found.columns else say("It has no columns.", "dim")
    session.output.emit(document_of(found), titled(found.name, table_facts(found)), columns)


@changes(app)
async def update(
    session: Session,
    name: TableArgument,
    description: DescriptionOption = None,
    owners: Annotated[
        list[str] | None, typer.Option("--owner", metavar="NAME", help="The owners from now on. Repeatable.")
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="The tags from now on. Repeatable.")
    ] = None,
    location: LocationOption = None,
    properties: PropertiesOption = None,
    remove_properties: RemovePropertiesOption = None,
    clear: Annotated[list[Clearable] | None, typer.Option("--clear", help="Take this away. Repeatable.")] = None,
) -> None:
    """Change what is said of a table.

    What is not named stays as it is.
    """
    given: dict[str, Any] = {
        "description": description,
        "owners": owners or None,
        "tags": parse_pairs("--tag", tags) or None,
        "location": location,
        "set_properties": parse_pairs("--property", properties) or None,
        "remove_properties": remove_properties or None,
    }
    request = TableUpdate(**changed(given, clear))
    async with connect(session) as client:
        written = await client.update_table(name, request, key=session.request_key)
    written_out(session, written, f"Changed {written.table.name}.", f"version {written.table.version}")


@changes(app)
async def alter(
    session: Session,
    name: TableArgument,
    drops: Annotated[list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Drop a column.")] = None,
    renames: Annotated[list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="Rename a column.")] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="COLUMN:TYPE", help="Widen the type of a column.")
    ] = None,
    nullable: Annotated[
        list[str] | None, typer.Option("--nullable", metavar="COLUMN", help="Let a column be null.")
    ] = None,
    adds: Annotated[
        list[str] | None, typer.Option("--add", metavar="NAME:TYPE[:notnull]", help="Add a column.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Change several columns at once, as one new schema version.

    All options are repeatable. Whatever their order here, columns are dropped, then renamed, then given their types,
    then added.
    """
    steps: list[ColumnChange] = [ColumnDrop(column=column) for column in drops or []]
    steps += [ColumnAlter(column=old, new_name=new) for old, new in map(parse_rename, renames or [])]
    steps += [ColumnAlter(column=column, type=kind) for column, kind in map(parse_retype, types or [])]
    steps += [ColumnAlter(column=column, nullable=True) for column in nullable or []]
    steps += [ColumnAdd(**column.model_dump()) for column in parse_columns(adds or [])]
    if not steps:
        raise Invalid("there is nothing to change; give at least one of --drop, --rename, --type, --nullable, --add")
    if drops:
        confirm(session, f"Drop {', '.join(drops)} of {name}?", yes)
    async with connect(session) as client:
        written = await client.alter_table(name, TableAlter(changes=steps), key=session.request_key)
    written_out(session, written, f"Altered {written.table.name}.", f"schema version {written.table.schema_version}")


@changes(app, "replace-schema")
async def replace_schema(
    session: Session,
    name: TableArgument,
    columns: ColumnsOption = None,
    infer_renames: Annotated[
        bool, typer.Option(help="Take a column that is new where one is gone, of the same type, for a rename.")
    ] = True,
    yes: YesOption = False,
) -> None:
    """Set all columns of a table at once, as they were found elsewhere.

    Columns are matched by name; those that are not named are dropped.
    """
    wanted = parse_columns(columns or [])
    if not wanted:
        raise Invalid("a schema needs columns; name each with --column")
    confirm(session, f"Replace the columns of {name}?", yes)
    shapes = [ColumnShape(name=new.name, type=new.type, nullable=new.nullable) for new in wanted]
    request = TableSchema(columns=shapes, infer_renames=infer_renames)
    async with connect(session) as client:
        written = await client.replace_schema(name, request, key=session.request_key)
    written_out(session, written, f"{written.table.name} has a new schema.", *_identity(written.table))


@changes(app)
async def rename(
    session: Session,
    name: TableArgument,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="Its new path.", show_default=False)],
) -> None:
    """Rename a table or move it to another namespace.

    It keeps its id, and the old name goes on finding it.
    """
    async with connect(session) as client:
        written = await client.rename_table(name, TableRename(new_name=new_name), key=session.request_key)
    written_out(session, written, f"{name} is {written.table.name} now.", f"version {written.table.version}")


@changes(app)
async def drop(
    session: Session, name: TableArgument, if_exists: IfExistsOption = False, yes: YesOption = False
) -> None:
    """Drop a table.

    What is made of it is named in a warning. The past can still be read with --as-of.
    """
    confirm(session, f"Drop the table {name}?", yes)
    async with connect(session) as client:
        written = await client.drop_table(name, if_exists=if_exists, key=session.request_key)
    written_out(session, written, f"The table {name} is gone.")


@asks(app)
async def history(session: Session, name: TableArgument, as_of: AsOfOption = None, limit: LimitOption = 100) -> None:
    """List the names a table has had.

    Of a dropped table too, if it is named by id: and its id.
    """
    async with connect(session) as client:
        items, more = await gather(client.get_table_history(name, as_of=as_of), limit)
    list_out(session, "history", items, more, HISTORY_HEADERS, history_row, "It has none.")


@asks(app)
async def commits(session: Session, name: TableArgument, as_of: AsOfOption = None, limit: LimitOption = 100) -> None:
    """List the commits of an Iceberg table, newest first: who wrote what, and what is known of where it came from."""
    async with connect(session) as client:
        items, more = await gather(client.list_table_commits(name, limit=page_size(limit), as_of=as_of), limit)
    list_out(session, "commits", items, more, COMMIT_HEADERS, commit_row, "None; only Iceberg tables have commits.")


@asks(app)
async def versions(session: Session, name: TableArgument, as_of: AsOfOption = None, limit: LimitOption = 100) -> None:
    """List the schemas a table has had."""
    async with connect(session) as client:
        items, more = await gather(client.list_schema_versions(name, as_of=as_of), limit)
    headers = ["version", "registered", "by", "hash", "columns"]
    list_out(session, "versions", items, more, headers, version_row, "It has none.")


@asks(app)
async def diff(
    session: Session,
    name: TableArgument,
    before: Annotated[
        int, typer.Option("--from", metavar="VERSION", min=1, help="A schema version.", show_default=False)
    ],
    after: Annotated[
        int | None, typer.Option("--to", metavar="VERSION", min=1, help="Another one; the newest if left out.")
    ] = None,
    as_of: AsOfOption = None,
) -> None:
    """Show what is different between two schema versions of a table."""
    async with connect(session) as client:
        newest = after or (await client.get_table(name, as_of=as_of)).schema_version
        found = await client.diff_schema_versions(name, before, newest, as_of=as_of)
    lines = [say(f"+ {column_text(column)}", "green") for column in found.added]
    lines += [say(f"- {column_text(column)}", "red") for column in found.removed]
    moved = {(old.id, new.id): (old, new) for old, new in (*found.renamed, *found.retyped)}
    lines += [say(f"~ {column_text(old)} -> {column_text(new)}", "yellow") for old, new in moved.values()]
    nothing = say(f"Versions {found.from_version} and {found.to_version} have the same columns.")
    session.output.emit(document_of(found), Text("\n").join(lines) if lines else nothing)
