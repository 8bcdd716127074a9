"""`arco query`: SQL over `system.*` and the data of tables, now or in the past."""

import csv
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from arco.cli._answers import document_of, placed
from arco.cli._command import Session, asks
from arco.cli._connect import connect
from arco.cli._options import AsOfOption
from arco.cli._output import dump, fitted, say, shown_size, visible
from arco.core import Invalid
from arco.wire import QueryRequest, QueryResultInfo

__all__ = ["app"]

app = typer.Typer()


class ResultFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


@asks(app)
async def query(
    session: Session,
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="What to ask; - reads it from standard input.", show_default=False)
    ],
    as_of: AsOfOption = None,
    max_rows: Annotated[
        int | None, typer.Option("--max-rows", min=1, help="Rows at most; the workspace's query.max_rows if left out.")
    ] = None,
    format_: Annotated[
        ResultFormat, typer.Option("--format", help="table for people; csv; json: an object a row, one a line.")
    ] = ResultFormat.TABLE,
) -> None:
    """Ask with SQL: the catalog as system.*, and the data of tables by their names.

    arco query "select full_name, updated_at from system.tables order by 1"
    """
    if session.output.as_json and format_ is not ResultFormat.TABLE:
        raise Invalid("--json prints one document and --format its rows; give one of them")
    text = sys.stdin.read() if sql == "-" else sql
    if not text.strip():
        raise Invalid("there is no SQL to run; write it as an argument, or - to read it from standard input")
    async with connect(session) as client:
        found = await client.run_query(QueryRequest(sql=text, as_of=as_of, max_rows=max_rows))
    if format_ is ResultFormat.CSV:
        _print_csv(found)
    elif format_ is ResultFormat.JSON:
        names = [column.name for column in found.columns]
        for row in found.rows:
            session.output.line(dump(dict(zip(names, row, strict=True))))
    else:
        session.output.emit(document_of(found), *_shown(session, found))
    if found.truncated and not session.output.as_json:
        limits = "the workspace's query.max_rows or query.max_bytes (`arco settings`)"
        limit = "--max-rows" if found.row_count == max_rows else limits
        session.output.warn(
            f"these are only the first {found.row_count:,} rows; add a limit or a condition, or raise {limit}"
        )


def _shown(session: Session, found: QueryResultInfo) -> list[RenderableType]:
    told = [
        f"{found.row_count:,} {'row' if found.row_count == 1 else 'rows'}",
        f"{found.elapsed_ms:,.0f} ms",
        f"{shown_size(found.bytes_read)} read",
        *(f"{log} at {placed(position)}" for log, position in found.positions.items()),
    ]
    footer = say(" · ".join(told), "dim")
    headers = [visible(column.name) for column in found.columns]
    return [fitted(session.output.people, headers, found.rows), footer] if found.columns else [footer]


def _print_csv(found: QueryResultInfo) -> None:
    """Exact, unless a terminal would act on it."""
    shown = visible if sys.stdout.isatty() else str
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([shown(column.name) for column in found.columns])
    writer.writerows([shown(_csv_value(value)) for value in row] for row in found.rows)


def _csv_value(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case list() | dict():
            return dump(value)
        case _:
            return str(value)
