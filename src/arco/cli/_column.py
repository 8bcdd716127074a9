"""Commands on the columns of a table. A change is a new schema version; a column keeps its id under every name."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from arco.cli._answers import confirm, document_of, gather, written_out
from arco.cli._command import Session, asks, changes
from arco.cli._connect import connect
from arco.cli._options import AsOfOption, DescriptionOption, IfExistsOption, TableArgument, YesOption
from arco.cli._output import say
from arco.cli._specs import changed, parse_columns
from arco.cli._table_text import columns_grid
from arco.core import Invalid
from arco.wire import ColumnAdd, ColumnAlter, ColumnChange, ColumnDrop, ColumnUpdate, TableAlter

__all__ = ["app"]

app = typer.Typer(help="Add, change, describe and drop columns.", no_args_is_help=True)

ColumnArgument = Annotated[str, typer.Argument(metavar="COLUMN", help="Its name.", show_default=False)]


class Sensitivity(StrEnum):
    PUBLIC = "PUBLIC"
    INTERNAL = "INTERNAL"
    CONFIDENTIAL = "CONFIDENTIAL"
    RESTRICTED = "RESTRICTED"


class Clearable(StrEnum):
    DESCRIPTION = "description"
    PII_TYPE = "pii_type"
    SENSITIVITY = "sensitivity"


@asks(app, "list")
async def list_(
    session: Session,
    table: TableArgument,
    inactive: Annotated[bool, typer.Option("--inactive", help="Those that were dropped, too.")] = False,
    as_of: AsOfOption = None,
) -> None:
    """List the columns of a table."""
    async with connect(session) as client:
        items, _ = await gather(client.list_columns(table, inactive=inactive, as_of=as_of), 0)
    document = {"columns": [document_of(item) for item in items], "more": False}
    session.output.emit(document, columns_grid(items) if items else say(f"{table} has no columns."))


async def _alter(session: Session, table: str, steps: list[ColumnChange], done: str) -> None:
    async with connect(session) as client:
        written = await client.alter_table(table, TableAlter(changes=steps), key=session.request_key)
    written_out(session, written, f"{done}.", f"schema version {written.table.schema_version}")


@changes(app)
async def add(
    session: Session,
    table: TableArgument,
    columns: Annotated[
        list[str], typer.Argument(metavar="NAME:TYPE[:notnull]...", help="Such as id:bigint.", show_default=False)
    ],
    description: DescriptionOption = None,
    pii: Annotated[str | None, typer.Option("--pii", metavar="KIND", help="It holds such data, as email.")] = None,
    sensitivity: Annotated[Sensitivity | None, typer.Option("--sensitivity", case_sensitive=False)] = None,
) -> None:
    """Add columns to a table."""
    specs = parse_columns(columns)
    said: dict[str, Any] = {
        "description": description,
        "pii_type": pii,
        "sensitivity": sensitivity.value if sensitivity else None,
    }
    if len(specs) > 1 and any(said.values()):
        raise Invalid("--description, --pii and --sensitivity are said of one column; add one at a time")
    steps: list[ColumnChange] = [ColumnAdd(**{**spec.model_dump(), **said}) for spec in specs]
    await _alter(session, table, steps, f"Added {', '.join(spec.name for spec in specs)} to {table}")


@changes(app)
async def rename(
    session: Session,
    table: TableArgument,
    column: ColumnArgument,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.", show_default=False)],
) -> None:
    """Rename a column. It keeps its id."""
    await _alter(
        session, table, [ColumnAlter(column=column, new_name=new_name)], f"{column} of {table} is {new_name} now"
    )


@changes(app)
async def alter(
    session: Session,
    table: TableArgument,
    column: ColumnArgument,
    type_: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="A wider type, such as bigint.")] = None,
    nullable: Annotated[bool, typer.Option("--nullable", help="Let it be null.")] = False,
) -> None:
    """Widen the type of a column, or let it be null."""
    if type_ is None and not nullable:
        raise Invalid("there is nothing to change; give --type, --nullable or both")
    step = ColumnAlter(column=column, type=type_, nullable=True if nullable else None)
    await _alter(session, table, [step], f"Altered {column} of {table}")


@changes(app)
async def drop(
    session: Session,
    table: TableArgument,
    column: ColumnArgument,
    if_exists: IfExistsOption = False,
    yes: YesOption = False,
) -> None:
    """Drop a column. It stays as an inactive one, so that lineage can name it."""
    confirm(session, f"Drop the column {column} of {table}?", yes)
    step = ColumnDrop(column=column, if_exists=if_exists)
    await _alter(session, table, [step], f"The column {column} of {table} is gone")


@changes(app)
async def describe(
    session: Session,
    table: TableArgument,
    column: ColumnArgument,
    description: DescriptionOption = None,
    pii: Annotated[str | None, typer.Option("--pii", metavar="KIND", help="It holds such data, as email.")] = None,
    sensitivity: Annotated[Sensitivity | None, typer.Option("--sensitivity", case_sensitive=False)] = None,
    clear: Annotated[list[Clearable] | None, typer.Option("--clear", help="Take this away. Repeatable.")] = None,
) -> None:
    """Say what a column is, and whether it holds something to protect.

    What is not named stays as it is.
    """
    given: dict[str, Any] = {
        "description": description,
        "pii_type": pii,
        "sensitivity": sensitivity.value if sensitivity else None,
    }
    request = ColumnUpdate(**changed(given, clear))
    async with connect(session) as client:
        written = await client.describe_column(table, column, request, key=session.request_key)
    written_out(session, written, f"Described {column} of {written.table.name}.", f"version {written.table.version}")
