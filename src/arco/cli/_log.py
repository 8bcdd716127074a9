"""Commands on a log: its newest events, all of its events, its chain. They read segments and need no state."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from arco.cli._command import Session, command
from arco.cli._open import Reader, definitions, reading
from arco.cli._options import LogArgument, LogName
from arco.cli._output import dump, error_document, fits, grid, say, shown_position, shown_size, shown_time
from arco.core import Corrupt, Invalid, NotFound, format_time
from arco.log import (
    Event,
    Ledger,
    Link,
    Segment,
    Unknown,
    check_link,
    decode_segment,
    link_of,
    number_of,
    parse_position,
    position_of,
    read_log,
)
from arco.state import verify_chain
from arco.storage import Tail

__all__ = ["app"]

app = typer.Typer(help="Look at the events of a log and check its chain.", no_args_is_help=True)

POLL_SECONDS = 1.0
BACK = 8
"""Segments that are read at once on the way back."""
LEAST = {"actor", "operation"}
HEADERS = ["log", "position", "time", "type", "actor", "subject", "operation"]


@dataclass(frozen=True)
class Located:
    """An event and where it stands."""

    log: str
    position: int
    received: int
    event: Event

    def document(self) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.event))
        place = {"log": self.log, "position": str(self.position), "received": format_time(self.received)}
        return {**place, **fields}

    def row(self) -> list[object]:
        event = self.event
        return [
            self.log,
            shown_position(self.position),
            shown_time(event.time),
            event.type if event.version == 1 else f"{event.type} v{event.version}",
            event.actor,
            event.subject or None,
            event.operation,
        ]


def _events_of(log: str, segment: Segment) -> list[Located]:
    header = segment.header
    return [
        Located(log, position_of(header.number, index), header.received, event)
        for index, event in enumerate(segment.events)
    ]


@dataclass
class _Cursor:
    """The end of a log as somebody has seen it; `advance` sees further."""

    log: str
    ledger: Ledger
    tail: Tail
    link: Link

    async def advance(self) -> list[Located]:
        """The events that came since, checked against the chain."""
        new: list[Located] = []
        async for found in read_log(self.ledger, self.tail, self.link):
            if isinstance(found, Tail):
                self.tail = found
            else:
                segment, self.link, _ = found
                new += _events_of(self.log, segment)
        return new


async def _newest(reader: Reader, log: str, count: int) -> tuple[list[Located], _Cursor]:
    """The last events of a log, read backwards, each segment checked against the one after it."""
    ledger = reader.ledger(log)
    tail = await reader.tail(log)
    events: list[Located] = []
    cursor = _Cursor(log, ledger, tail, await ledger.link_at(tail.number))
    expected, last = cursor.link.sha256, tail.number
    while last and len(events) < count:
        first = max(last - BACK + 1, 1)
        for number, data, path in reversed([found async for found in ledger.known(first, last)]):
            segment = decode_segment(data, path)
            check_link(segment, ledger.place, Link(number - 1, segment.header.previous), path)
            if link_of(segment, data).sha256 != expected:
                raise Corrupt(f"{path} is not what its successor continues; run `arco log verify`", path=path)
            expected = segment.header.previous
            events = _events_of(log, segment) + events
        last = first - 1
    return events[-count:] if count else [], cursor


@command(app)
async def tail(
    session: Session,
    log: LogArgument = None,
    count: Annotated[int, typer.Option("-n", "--count", min=0, max=100_000, help="How many events.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as events arrive, until Ctrl-C.")] = False,
) -> None:
    """Show the newest events.

    With --follow and --json each event is one line of JSON.
    """
    async with reading(session.project, session.runtime) as reader:
        events: list[Located] = []
        cursors = []
        for definition in definitions(log):
            found, cursor = await _newest(reader, definition.log, count)
            events += found
            cursors.append(cursor)
        events = _merged(events)[-count:] if count else []
        if not follow:
            document = {"events": [event.document() for event in events]}
            empty = "The log is empty." if log else "Both logs are empty."
            session.output.emit(document, _table(session.output.people, events) if events or not count else say(empty))
            return
        _print_followed(session, events, header=True)
        while True:
            await session.runtime.sleep(POLL_SECONDS)
            _print_followed(session, _merged([event for cursor in cursors for event in await cursor.advance()]))


def _merged(events: list[Located]) -> list[Located]:
    """Events of both logs by the time they were received; within a log that is the order of positions."""
    return sorted(events, key=lambda event: (event.received, event.log, event.position))


def _table(console: Console, events: list[Located]) -> Table:
    """The events; on a narrow terminal without what says least."""
    rows = [event.row() for event in events]
    headers = list(HEADERS)
    while True:
        kept = [HEADERS.index(header) for header in headers]
        table = grid(headers, ([row[index] for index in kept] for row in rows))
        if fits(console, table) or not LEAST & set(headers):
            return table
        headers.remove(next(header for header in reversed(headers) if header in LEAST))


def _print_followed(session: Session, events: list[Located], *, header: bool = False) -> None:
    output = session.output
    if output.as_json:
        for event in events:
            output.line(dump(event.document()))
    elif events or header:
        table = _table(output.people, events)
        table.show_header = header
        for column, width in zip(table.columns, (8, 10, 24, 24), strict=False):
            column.min_width = width  # so that what comes later stands below what came before
        output.people.print(table)


@command(app)
async def cat(
    session: Session,
    log: Annotated[LogName, typer.Argument(help="The log.", show_default=False)],
    first: Annotated[str | None, typer.Option("--from", metavar="POSITION", help="From here on, such as 12:0.")] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="POSITION", help="Up to here, included.")] = None,
    kind: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only events of this type.")] = None,
) -> None:
    """Print whole events, one line of JSON each.

    The same with and without --json. The chain is checked on the way.
    """
    low = parse_position(first) if first is not None else 0
    high = parse_position(last) if last is not None else None
    if high is not None and high < low:
        raise Invalid(f"--to {last} lies before --from {first}; swap them")
    printed = 0
    async with reading(session.project, session.runtime) as reader:
        async for segment in _segments(reader, log, low, high):
            for event in _events_of(log, segment):
                inside = low <= event.position and (high is None or event.position <= high)
                if inside and kind in (None, event.event.type):
                    session.output.line(dump(event.document()))
                    printed += 1
    if kind is not None and not printed:
        known = sorted(event.name for known in definitions(log) for domain in known.domains for event in domain.events)
        session.output.note(f"no event of the type {kind!r} there; this program knows {', '.join(known)}")


async def _segments(reader: Reader, log: str, low: int, high: int | None) -> AsyncIterator[Segment]:
    """The segments that hold positions from `low` to `high`."""
    ledger = reader.ledger(log)
    start = max(number_of(low), 1)
    newest = await reader.tail(log)
    if start > max(newest.number, 1):
        raise NotFound(f"the log {log} ends at segment {newest.number}; there is nothing at {shown_position(low)}")
    link = await ledger.link_at(start - 1)
    through = None if high is None else min(number_of(high), newest.number)
    known = newest.number if through is None else through
    async for found in read_log(ledger, Tail(start - 1, Unknown), link, through=through, at_least=known):
        if not isinstance(found, Tail):
            yield found[0]


@command(app)
async def verify(session: Session, log: LogArgument = None) -> int | None:
    """Read every segment, loose or packed, and check the chain of hashes.

    Exits with 7 if a link does not hold.
    """
    rows: list[list[object]] = []
    documents: list[dict[str, Any]] = []
    broken: list[Corrupt] = []
    async with reading(session.project, session.runtime) as reader:
        for definition in definitions(log):
            name = definition.log
            try:
                with session.output.progress(f"reading {name}") as progress:
                    ledger = reader.ledger(name)
                    with contextlib.suppress(Corrupt):  # a damaged manifest: who needs its packs asks once more
                        await ledger.renew()
                    chain = await verify_chain(ledger, progress, known=(await reader.tail(name)).number)
            except Corrupt as error:
                broken.append(error)
                rows.append([name, None, None, None, None, None, say("broken", "bold red")])
                documents.append({"log": name, "ok": False, "error": error_document(error)})
                continue
            sha256 = chain.link.sha256 or None
            packed, holds = ledger.packed, say("every link holds", "green")
            rows.append([name, chain.segments, packed, chain.events, shown_size(chain.bytes), sha256, holds])
            counts = {"segments": chain.segments, "packed_segments": packed}
            counts |= {"events": chain.events, "bytes": chain.bytes}
            documents.append({"log": name, "ok": True, **counts, "sha256": sha256})
    headers = ["log", "segments", "in packs", "events", "size", "sha256 of the last segment", "chain"]
    session.output.emit({"logs": documents}, grid(headers, rows), *[say(error.message, "red") for error in broken])
    return Corrupt.exit_code if broken else None
