"""Commands on published state: its tables, their rows now or in the past, what changed, which revisions are kept."""

from typing import Annotated, Any

import typer
from rich.console import RenderableType

from arco.catalog import Difference, compare, plain_rows
from arco.cli._command import Session, command
from arco.cli._open import Reader, definitions, reading
from arco.cli._options import LimitOption, LogArgument, LogName, LogOption
from arco.cli._output import cell, fitted, grid, say, shown_position, shown_size, titled
from arco.cli._points import HEAD, Point, parse_point, parse_revision, snapshot_at
from arco.cli._rows import parse_conditions, read_table
from arco.core import Invalid, NotFound, format_time, parse_time
from arco.log import number_of, parse_position
from arco.state import Definition, Snapshot, Table

__all__ = ["app"]

app = typer.Typer(help="Look at published state, now or in the past.", no_args_is_help=True)

TableArgument = Annotated[str, typer.Argument(help="The table; `arco state tables` lists them.", show_default=False)]


@command(app)
async def tables(session: Session, log: LogArgument = None) -> None:
    """List the tables of the newest revision and what they take."""
    rows, documents = [], []
    async with reading(session.project, session.runtime) as reader:
        for definition in definitions(log):
            snapshot = await snapshot_at(reader, definition, HEAD)
            at = _where(snapshot)
            for found in snapshot.summary():
                numbers = [found.rows, found.layers, found.files]
                head = [definition.log, found.name, found.kind.value]
                rows.append([*head, *numbers, shown_size(found.bytes), at["revision"], at["segment"]])
                counts = {"stored_rows": found.rows, "layers": found.layers, "files": found.files, "bytes": found.bytes}
                documents.append({"log": definition.log, "table": found.name, "kind": found.kind.value, **counts, **at})
    headers = ["log", "table", "kind", "stored rows", "layers", "files", "size", "revision", "through segment"]
    hint = "Stored rows count older images and deletions until a merge drops them."
    session.output.emit({"tables": documents}, grid(headers, rows), say(hint, "dim"))


def _where(snapshot: Snapshot) -> dict[str, Any]:
    """Which state this is: the revision it stands on and how much of the log it covers."""
    position = snapshot.position
    return {"revision": snapshot.manifest.number, "segment": number_of(position), "position": str(position)}


@command(app)
async def show(
    session: Session,
    table: TableArgument,
    log: LogOption = None,
    revision: Annotated[str | None, typer.Option("--revision", metavar="N", help="At this revision.")] = None,
    position: Annotated[
        str | None, typer.Option("--position", metavar="POSITION", help="After this event, such as 12:0.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="TIME", help="As of then: 2026-11-15T20:45:00Z.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="COLUMN=VALUE", help="Only such rows. Repeatable.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="Only these columns, in this order.")
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """Show the rows of a table, now or in the past.

    The newest revision, unless one of --revision, --position and --as-of names another state.
    """
    if sum(given is not None for given in (revision, position, as_of)) > 1:
        raise Invalid("--revision, --position and --as-of each name a state; give one of them")
    point = Point(
        parse_revision(revision) if revision is not None else None,
        parse_position(position) if position is not None else None,
        parse_time(as_of) if as_of is not None else None,
    )
    definition = _log_of(table, log)
    wanted = definition.tables[table]
    conditions = parse_conditions(wanted, where or [])
    names = _chosen(wanted, columns)
    async with reading(session.project, session.runtime) as reader:
        snapshot = await snapshot_at(reader, definition, point)
        data = await read_table(snapshot, wanted, conditions)
    data = data.sort_by([(name, "ascending") for name in wanted.key]).select(names)
    rows = plain_rows(data.slice(0, limit) if limit else data)
    document = {"table": table, "log": definition.log, **_where(snapshot), "total": data.num_rows, "rows": rows}
    values = [[_shown(name, row[name]) for name in names] for row in rows]
    session.output.emit(
        document, fitted(session.output.people, names, values), _footer(snapshot, data.num_rows, len(rows))
    )


def _shown(column: str, value: Any) -> Any:
    return shown_position(int(value)) if column == "_position" else value


def _log_of(table: str, log: LogName | None) -> Definition:
    """The log a table is folded from."""
    found = [known for known in definitions(log) if table in _public(known)]
    if not found:
        names = ", ".join(sorted({name for known in definitions(log) for name in _public(known)}))
        raise NotFound(f"there is no table {table[:80]!r}{f' in the log {log}' if log else ''}; there are {names}")
    if len(found) > 1:
        raise Invalid(f"each log has a table {table}; add --log {' or --log '.join(known.log for known in found)}")
    return found[0]


def _public(definition: Definition) -> list[str]:
    """Tables whose rows may be shown."""
    return sorted(name for name, table in definition.tables.items() if not table.private)


def _chosen(table: Table, columns: str | None) -> list[str]:
    every = [*table.columns, "_position"]
    if columns is None:
        return every
    chosen = [name.strip() for name in columns.split(",")]
    for name in chosen:
        if chosen.count(name) > 1:
            raise Invalid(f"--columns names {name[:80]!r} twice; name each column once")
        if name not in every:
            raise Invalid(f"{table.name} has no column {name[:80]!r}; it has {', '.join(every)}")
    return chosen


def _footer(snapshot: Snapshot, total: int, shown: int) -> RenderableType:
    at = _where(snapshot)
    rows = f"{total:,} rows" if shown == total else f"{shown:,} of {total:,} rows (--limit 0 for all)"
    return say(f"{rows} · revision {at['revision']} · through segment {at['segment']}", "dim")


@command(app)
async def diff(
    session: Session,
    before: Annotated[str, typer.Option("--from", metavar="POINT", help="A revision, a position or a time.")],
    table: Annotated[str | None, typer.Argument(help="Only this table.", show_default=False)] = None,
    after: Annotated[str | None, typer.Option("--to", metavar="POINT", help="The newest revision if left out.")] = None,
    log: LogOption = None,
    limit: LimitOption = 50,
) -> None:
    """Show what changed between two points.

    A point is a revision (7), a position (12:0) or a time (2026-11-15T20:45:00Z). Revision 0 is before everything.
    """
    points = parse_point(before), parse_point(after) if after is not None else HEAD
    if table is not None:
        chosen = [_log_of(table, log)]
    elif log is None and any(point.of_one_log for point in points):
        raise Invalid("each log counts its own revisions and positions; add --log catalog or --log activity")
    else:
        chosen = definitions(log)
    documents: list[dict[str, Any]] = []
    parts: list[RenderableType] = []
    async with reading(session.project, session.runtime) as reader:
        for definition in chosen:
            old, new = [await snapshot_at(reader, definition, point) for point in points]
            ends = {"from": _where(old), "to": _where(new)}
            for name in [table] if table else _public(definition):
                wanted = definition.tables[name]
                found = compare(wanted, await old.scan(wanted), await new.scan(wanted))
                if table or not found.empty:
                    documents.append({"log": definition.log, **ends, **_difference_document(found)})
                    parts += _difference_parts(definition.log, found, limit)
    nothing = [say(f"Nothing changed between {points[0]} and {points[1]}.")]
    session.output.emit({"tables": documents}, *(parts or nothing))


def _difference_document(found: Difference) -> dict[str, Any]:
    changed = [
        {"key": row.key, "columns": {name: {"from": old, "to": new} for name, (old, new) in row.columns.items()}}
        for row in found.changed
    ]
    return {"table": found.table, "added": found.added, "removed": found.removed, "changed": changed}


def _difference_parts(log: str, found: Difference, limit: int) -> list[RenderableType]:
    counts = f"{found.added_count:,} added, {found.removed_count:,} removed, {found.changed_count:,} changed"
    rows: list[list[object]] = []
    for sign, style, whole in (("+", "green", found.added), ("-", "red", found.removed)):
        rows += [[say(sign, style), _pairs({name: row[name] for name in list(row)[:-1]}, style)] for row in whole]
    for row in found.changed:
        steps = {name: f"{_brief(old)} -> {_brief(new)}" for name, (old, new) in row.columns.items()}
        rows.append([say("~", "yellow"), _pairs({**row.key, **steps}, "yellow")])
    kept = rows[:limit] if limit else rows
    table = grid(["", ""], kept)
    table.show_header = False
    parts: list[RenderableType] = [titled(f"{log}.{found.table}: {counts}", table if rows else None)]
    if len(kept) < len(rows):
        parts.append(say(f"{len(kept):,} of {len(rows):,} rows (--limit 0 for all)", "dim"))
    return parts


def _pairs(values: dict[str, Any], style: str) -> Any:
    return say("  ".join(f"{name}={_brief(value)}" for name, value in values.items() if value is not None), style)


def _brief(value: object) -> str:
    return str(value) if type(value) is int else cell(value).plain


@command(app)
async def history(session: Session, log: LogArgument = None, limit: LimitOption = 50) -> None:
    """List the retained revisions, newest first.

    Kept are all of the last hour, one a minute for a day, one an hour for 30 days, and pinned ones.
    """
    documents: list[dict[str, Any]] = []
    parts: list[RenderableType] = []
    async with reading(session.project, session.runtime) as reader:
        for definition in definitions(log):
            found = await _revisions_of(reader, definition.log)
            kept = found[:limit] if limit else found
            documents += kept
            counted = f"{len(kept):,} of {len(found):,}" if len(kept) < len(found) else f"{len(found):,}"
            rows = [
                [str(entry["revision"]), entry["published_at"], entry["segment"], ", ".join(entry["pins"]) or None]
                for entry in kept
            ]
            table = grid(["revision", "published", "through segment", "pins"], rows) if rows else None
            parts.append(titled(f"{definition.log}: {counted} revisions", table))
    session.output.emit({"revisions": documents}, *parts)


async def _revisions_of(reader: Reader, log: str) -> list[dict[str, Any]]:
    """The head and every retained revision below it, newest first."""
    revisions = reader.revisions(log)
    head = (await revisions.head()).manifest
    found = [(entry.revision, entry.published_at, entry.watermark) for entry in await revisions.history(head)]
    if head.number:
        found.append((head.number, head.published_at, head.watermark))
    return [
        {
            "log": log,
            "revision": number,
            "published_at": format_time(published_at),
            "segment": number_of(int(watermark)),
            "position": watermark,
            "pins": [
                f"{pin.pin_id} until {format_time(pin.expires_at)}" for pin in head.pins if pin.revision == number
            ],
        }
        for number, published_at, watermark in reversed(found)
    ]
