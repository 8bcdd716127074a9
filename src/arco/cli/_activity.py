"""Commands on what happened: facts of other producers, audit, operations, differences."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import RenderableType

from arco.cli._answers import document_of, facts, gather, list_out, page_size, placed
from arco.cli._command import Session, asks, changes
from arco.cli._connect import connect
from arco.cli._options import AsOfOption, LimitOption, LogName, LogOption
from arco.cli._output import cell, grid, say, shown_time, titled
from arco.core import Invalid
from arco.wire import AuditEntry, DiffChange, DiffTable, EventBatch, EventIn, EventsWritten

__all__ = ["events", "single"]

events = typer.Typer(help="Record facts of other producers.", no_args_is_help=True)
single = typer.Typer()

BATCH_EVENTS = 1000
BATCH_BYTES = 4 << 20
BRIEF = 120
DERIVED = frozenset({"name_changes", "names"})
"""Tables that follow from the others that are shown."""


@changes(events)
async def post(
    session: Session,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Events, one JSON object a line; - is standard input.", show_default=False),
    ],
) -> int | None:
    """Record materializations, observations, check results and lineage.

    A line is {"type": "...", "data": {...}}, with "id", "time", "source" and "subject" if they are known. Refused
    events are named, the others are recorded; exits with 2 if any was refused.
    """
    batches = list(_batches(_lines(file)))
    if not batches:
        raise Invalid(f"{file} has no events; write one JSON object a line")
    answers: list[tuple[int, EventsWritten]] = []
    offset = 0
    async with connect(session) as client:
        with session.output.progress("recording") as progress:
            for number, batch in enumerate(batches):
                written = await client.post_events(EventBatch(events=batch), key=_key(session, number, len(batches)))
                answers.append((offset, written))
                offset += len(batch)
                progress(number + 1, len(batches))
    return _report(session, answers)


def _lines(file: str) -> Iterator[tuple[int, str]]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise Invalid(f"cannot read {file}: {error.strerror or error}; check its path and rights") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"{file} is not text in UTF-8: {error.reason} at byte {error.start}") from error
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _batches(lines: Iterator[tuple[int, str]]) -> Iterator[list[EventIn]]:
    """Events in groups that one request can carry. Everything is read before anything is sent."""
    batch: list[EventIn] = []
    size = 0
    for number, line in lines:
        if batch and (len(batch) == BATCH_EVENTS or size + len(line) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(_event(number, line))
        size += len(line)
    if batch:
        yield batch


def _event(number: int, line: str) -> EventIn:
    try:
        return EventIn.model_validate(json.loads(line))
    except (json.JSONDecodeError, RecursionError) as error:
        raise Invalid(f"line {number} is not JSON: {error}") from None
    except ValidationError as error:
        found = error.errors(include_input=False)[0]
        where = ".".join(map(str, found["loc"])) or "it"
        raise Invalid(f"line {number} is not an event: {where}: {found['msg']}") from None


def _key(session: Session, number: int, count: int) -> str | None:
    """The request key of a batch. Several need one each, and the same ones when the command is repeated."""
    given = session.request_key
    if given is None or count == 1:
        return given
    return f"{given}{'.' if ':' in given else ':'}{number}"


def _report(session: Session, answers: list[tuple[int, EventsWritten]]) -> int | None:
    recorded = sum(written.recorded for _, written in answers)
    refused = [
        {"event": offset + result.index + 1, "detail": result.detail}
        for offset, written in answers
        for result in written.results
        if result.status == "refused"
    ]
    operations = [written.operation_id for _, written in answers if written.operation_id]
    position = next((written.position for _, written in reversed(answers) if written.position), None)
    replayed = all(written.replayed for _, written in answers)
    parts: list[RenderableType] = [
        say(f"{recorded:,} recorded{' before, under this request key' if replayed else ''}.", "green"),
        say(f"  position {placed(position)} · operation {', '.join(operations)}", "dim") if operations else say(""),
    ]
    if refused:
        parts += [
            say(f"{len(refused):,} refused:", "red"),
            grid(["event", "why"], [list(row.values()) for row in refused]),
        ]
    document = {"recorded": recorded, "refused": refused, "replayed": replayed, "operations": operations}
    session.output.emit({**document, "position": position}, *parts)
    return Invalid.exit_code if refused else None


@asks(single)
async def audit(session: Session, log: LogOption = None, as_of: AsOfOption = None, limit: LimitOption = 50) -> None:
    """Show who did what, newest first.

    --json has the rows before and after each change.
    """
    async with connect(session) as client:
        pages = client.list_audit(log.value if log else None, limit=page_size(limit), as_of=as_of)
        items, more = await gather(pages, limit)
    headers = ["time", "actor", "action", "resource", "operation"]
    list_out(session, "audit", items, more, headers, _audit_row, "Nobody has done anything yet.")


def _audit_row(found: AuditEntry) -> list[object]:
    resource = f"{found.resource_type} {found.resource}"
    return [shown_time(found.recorded_at), found.actor, found.action, resource, found.operation_id]


@asks(single)
async def operation(
    session: Session,
    operation_id: Annotated[str, typer.Argument(metavar="ID", help="The operation's id.", show_default=False)],
) -> None:
    """Show what became of a write.

    `done`: it was carried out. `unknown`: the log has no trace of it.
    """
    async with connect(session) as client:
        found = await client.get_operation(operation_id)
    lines = facts(
        [
            ("command", found.command),
            ("actor", found.actor),
            ("received", shown_time(found.received_at)),
            ("log", found.log),
            ("positions", f"{placed(found.first_position)} to {placed(found.last_position)}" if found.log else None),
            ("published", found.published if found.log else None),
        ]
    )
    if found.status == "done":
        session.output.emit(document_of(found), say(f"{found.operation_id}: done", "green"), lines)
        return
    unknown = "The log has no trace of it. If its request is still under way it may yet be carried out."
    session.output.emit(document_of(found), say(f"{found.operation_id}: unknown", "yellow"), say(unknown))


@asks(single)
async def diff(
    session: Session,
    before: Annotated[
        str, typer.Option("--from", metavar="POINT", help="A time, a position or run:ID.", show_default=False)
    ],
    after: Annotated[str | None, typer.Option("--to", metavar="POINT", help="The present if left out.")] = None,
    table: Annotated[str | None, typer.Option("--table", metavar="NAME", help="Only this table of state.")] = None,
    log: Annotated[LogName, typer.Option("--log", help="Of which log.")] = LogName.CATALOG,
    every: Annotated[bool, typer.Option("--all", help="Show tables that follow from others, too.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Changes shown for each table.")] = 50,
) -> None:
    """Show what changed in the catalog between two points, row by row.

    Unlike `arco state diff` it asks a server, sees what is not published yet, and knows runs.
    """
    async with connect(session) as client:
        found = await client.diff_states(before, after, log=log.value, table=table, limit=limit)
    hidden = [] if every or table else [changed for changed in found.tables if changed.table in DERIVED]
    parts = [part for changed in found.tables if changed not in hidden for part in _difference(log.value, changed)]
    at = f"{placed(found.from_position)} and {placed(found.to_position)}"
    if not parts:
        parts.append(say(f"Nothing changed in {log} between {at}."))
    if hidden:
        names = ", ".join(changed.table for changed in hidden)
        parts.append(say(f"What follows from this in {names} is left out; --all shows it.", "dim"))
    session.output.emit(document_of(found), *parts)


def _difference(log: str, found: DiffTable) -> list[RenderableType]:
    counts = f"{found.added:,} added, {found.removed:,} removed, {found.changed:,} changed"
    body = grid(["", ""], [_change(change) for change in found.changes])
    body.show_header = False
    parts: list[RenderableType] = [titled(f"{log}.{found.table}: {counts}", body)]
    if found.truncated:
        parts.append(say(f"The first {len(found.changes):,}; --limit shows more.", "dim"))
    return parts


def _change(change: DiffChange) -> list[object]:
    sign, style = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}[change.change]
    before, after = change.before or {}, change.after or {}
    if change.change == "changed":
        values = {name: f"{_brief(before.get(name))} -> {_brief(after.get(name))}" for name in {**before, **after}}
        told: dict[str, Any] = {**change.key, **values}
    else:
        row = {name: value for name, value in (before or after).items() if value not in (None, "", [], {})}
        told = {**change.key, **{name: _brief(value) for name, value in row.items()}}
    return [say(sign, style), say("  ".join(f"{name}={value}" for name, value in told.items()), style)]


def _brief(value: object) -> str:
    text = str(value) if type(value) is int else cell(value).plain
    return text if len(text) <= BRIEF else f"{text[:BRIEF]}..."
