"""`arco cost`: what a workspace costs at its store, from what it does; and what many would cost, from a model."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from arco.cli._command import Session, command
from arco.cli._connect import connect, find_server
from arco.cli._open import definitions, reading
from arco.cli._output import grid, say, shown_size
from arco.cli._specs import parse_pairs
from arco.core import SECOND, Invalid, format_time, parse_time
from arco.cost import (
    Bill,
    Counted,
    Estimate,
    Prices,
    Share,
    Usage,
    bill,
    by_class,
    load_prices,
    measure_usage,
    model,
    parse_model,
    price_counts,
    prices_named,
    requests_a_day,
)
from arco.storage import Operation
from arco.wire import RequestCountsInfo

__all__ = ["app"]

app = typer.Typer()

_SCHEMES = {"s3": "s3", "az": "azure", "gs": "gcs"}
USUAL = "s3"
"""The prices for a store that nobody bills, such as a disk: what the same would cost there."""

Requests = Mapping[str, Mapping[Operation, float]]


@command(app)
async def cost(
    session: Session,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=NUMBER...", help="Of the model: tenants=10000 events_per_day=1e9."),
    ] = None,
    of_model: Annotated[bool, typer.Option("--model", help="Ask the model instead of a workspace.")] = False,
    prices: Annotated[
        str | None,
        typer.Option(
            "--prices",
            metavar="NAME",
            help="s3, gcs, azure, r2, or one of --price-file; those of the store if left out, s3 on disk.",
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--price",
            metavar="NAME=DOLLARS",
            help="write, read, list, delete (1,000 requests) or gb_month, such as write=0.004. Repeatable.",
        ),
    ] = None,
    price_file: Annotated[
        Path | None, typer.Option("--price-file", metavar="FILE", help="Price tables as JSON.")
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=30, help="Look back so many days.")] = 7,
    listing: Annotated[
        bool, typer.Option("--sizes/--no-sizes", help="List what is stored: one request for a thousand objects.")
    ] = True,
) -> None:
    """Show what the workspace costs at its store, and why.

    What is written and stored is measured, the rest calculated from it; docs/cost.md says how. What a server on this
    machine has counted of its own requests stands beside it, at the same prices.

    With --model no workspace is opened: arco cost --model tenants=10000 events_per_day=1e9
    """
    asked = _prices(session, prices, price, price_file, in_model=of_model)
    if of_model:
        _show_model(session, values or [], asked)
        return
    if values:
        raise Invalid(f"{values[0][:80]!r} is for the model; add --model, or leave it out")
    usage, made = await _look(session, days, listing)
    counted = await _counted(session)
    _show_usage(session, usage, made, counted, asked)


def _prices(
    session: Session, name: str | None, changes: list[str] | None, file: Path | None, *, in_model: bool
) -> Prices:
    scheme = USUAL if in_model else session.project.store.partition("://")[0]
    numbers = {}
    for one, text in parse_pairs("--price", changes or []).items():
        try:
            numbers[one] = float(text)
        except ValueError:
            raise Invalid(f"the price {one} is a number, not {text[:80]!r}") from None
    return prices_named(load_prices(file), name or _SCHEMES.get(scheme, USUAL), numbers)


async def _look(session: Session, days: int, listing: bool) -> tuple[Usage, int]:
    """What the workspace tells, and how many requests it took to ask."""
    if session.project.loaded.settings.url and not session.project.loaded.settings.embedded:
        raise Invalid(
            "this looks into the store itself; leave out the server, or add --url embedded, and name the store"
        )
    async with reading(session.project, session.runtime) as reader:
        places = [reader.place(definition.log) for definition in definitions(None)]
        with session.output.progress("looking at the store"):
            usage = await measure_usage(
                reader.handle(), places, reader.incarnation, session.runtime, days=days, listing=listing
            )
        return usage, reader.counts.count()


async def _counted(session: Session) -> RequestCountsInfo | None:
    """What the server on this machine has counted, if one serves the workspace and lets us know."""
    if await find_server(session) is None:
        return None
    async with connect(session) as client:
        return await client.list_requests()


def _show_usage(session: Session, usage: Usage, made: int, told: RequestCountsInfo | None, prices: Prices) -> None:
    requests = requests_a_day(usage)
    found = bill(requests, {folder: stored.bytes for folder, stored in usage.stored.items()}, prices)
    calculated = by_class(_together(requests), prices)
    counted = None if told is None else _priced(told, session.runtime.now(), prices)
    billed = session.project.store.partition("://")[0] in _SCHEMES
    document = {
        "workspace": session.project.scope.root,
        "store": session.project.store,
        "measured": {
            "days": [
                {
                    "days_ago": day.days_ago,
                    "segments": day.segments,
                    "revisions": day.revisions,
                    "events": round(day.events),
                }
                for day in usage.days
            ],
            "sampled_segments": usage.sampled,
            "stored": {name: {"objects": one.objects, "bytes": one.bytes} for name, one in usage.stored.items()},
            "retained_revisions": usage.revisions,
            "layers": usage.layers,
        },
        "counted": _counted_document(told, counted),
        "calculated": {**_bill_document(requests, found), "classes": [_share_document(one) for one in calculated]},
        "asked": made,
    }
    parts: list[RenderableType] = [
        grid(
            ["last 24 h", "events", "segments", "revisions"],
            [[_ago(day.days_ago), round(day.events), day.segments, day.revisions] for day in usage.days],
        )
    ]
    if usage.stored:
        rows = [[folder, int(one.objects), shown_size(int(one.bytes))] for folder, one in usage.stored.items()]
        parts.append(grid(["stored", "objects", "size"], rows))
    if told is not None:
        parts.append(say(f"Counted by the server since {told.since}:"))
        parts.append(grid(["role", "operation", "requests"], [[c.role, c.operation, c.count] for c in told.requests]))
    parts += [_bill_table(found), _total(found, billed)]
    if told is not None and counted is not None:
        parts += [_side_by_side(calculated, counted), _as_counted(told.since, counted)]
    parts.append(_honest(usage, made))
    session.output.emit(document, *parts)


def _together(requests: Requests) -> Counter[Operation]:
    total: Counter[Operation] = Counter()
    for counts in requests.values():
        total.update(counts)
    return total


def _priced(told: RequestCountsInfo, now: int, prices: Prices) -> Counted:
    """Operations that only a newer server knows are shown, and have no price."""
    known: Counter[Operation] = Counter()
    for one in told.requests:
        if one.operation in set(Operation):
            known[Operation(one.operation)] += one.count
    return price_counts(known, (now - parse_time(told.since)) / SECOND, prices)


def _ago(days: int) -> str:
    return "now" if days == 0 else f"{days} d before"


def _counted_document(told: RequestCountsInfo | None, counted: Counted | None) -> dict[str, Any] | None:
    if told is None or counted is None:
        return None
    a_day = counted.a_day
    return {
        "since": told.since,
        "seconds": counted.seconds,
        "requests": [{"role": one.role, "operation": one.operation, "count": one.count} for one in told.requests],
        "total": counted.requests,
        "dollars": counted.dollars,
        "classes": [
            {"class": one.kind.value, "requests": one.requests, "dollars": one.dollars} for one in counted.shares
        ],
        "a_day": None if a_day is None else [_share_document(one) for one in a_day],
        "dollars_a_day": None if a_day is None else sum(one.dollars for one in a_day),
    }


def _share_document(share: Share) -> dict[str, Any]:
    """Of a day."""
    return {
        "class": share.kind.value,
        "requests_a_day": round(share.requests, 3),
        "dollars_a_day": share.dollars,
    }


def _bill_document(requests: Requests, found: Bill) -> dict[str, Any]:
    per_day = {what: {op.value: round(number, 3) for op, number in counts.items()} for what, counts in requests.items()}
    return {
        "prices": {name: getattr(found.prices, name) for name in found.prices.__struct_fields__},
        "requests_a_day": per_day,
        "lines": [
            {
                "what": line.what,
                "unit": line.unit,
                "per_day": round(line.per_day, 3),
                "dollars_a_day": line.dollars_a_day,
                "dollars_a_month": line.dollars_a_month,
            }
            for line in found.lines
        ],
        "dollars_a_day": found.dollars_a_day,
        "dollars_a_month": found.dollars_a_month,
    }


def _bill_table(found: Bill) -> RenderableType:
    rows = []
    for line in found.lines:
        amount = shown_size(int(line.per_day)) if line.unit == "bytes" else f"{line.per_day:,.1f}"
        rows.append([line.what, amount, _dollars(line.dollars_a_day), _dollars(line.dollars_a_month)])
    return grid(["what", "a day", "$ a day", "$ a month"], rows)


def _dollars(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.6f}"


def _total(found: Bill, billed: bool) -> Text:
    prices = found.prices
    if_there = "" if billed else "if it lay there: "
    return say(
        f"{if_there}${_dollars(found.dollars_a_month)} a month at {prices.store} ({prices.region}, prices of "
        f"{prices.dated})",
        "bold",
    )


def _side_by_side(calculated: tuple[Share, ...], counted: Counted) -> RenderableType:
    """By class: what is calculated of a day, and what was counted."""
    shares, pace = (counted.shares, "so far") if counted.a_day is None else (counted.a_day, "a day")
    rows = [[one.kind.value, *_amounts(one), *_amounts(other)] for one, other in zip(calculated, shares, strict=True)]
    return grid(["requests", "calculated a day", "$ a day", f"counted {pace}", f"$ {pace}"], rows)


def _amounts(share: Share) -> tuple[str, str]:
    return f"{share.requests:,.1f}", _dollars(share.dollars)


def _as_counted(since: str, counted: Counted) -> Text:
    a_day = counted.a_day
    begin = f"As this server counted since {since}: {counted.requests:,.0f} requests, $"
    if a_day is None:
        so_far = _dollars(counted.dollars)
        return say(f"{begin}{so_far} so far at these prices; an hour at the least tells what a day costs", "bold")
    return say(f"{begin}{_dollars(sum(one.dollars for one in a_day))} a day at these prices", "bold")


def _honest(usage: Usage, made: int) -> Text:
    return say(
        f"Measured: segments and revisions, objects and sizes; events from {usage.sampled} segments that were read. "
        "Calculated: merges and hints. Not in the calculation: reads of servers and commands, looks at the tail and "
        "the floor, collection, packing, backups, blobs, private tables, Iceberg tables, what assets, engines and "
        "browsers read and write, and traffic out of the region. A server counts what it asks for itself: nothing of "
        f"other processes, nor of the store that backups go to. To ask took {made} requests.",
        "dim",
    )


def _show_model(session: Session, values: list[str], prices: Prices) -> None:
    load, scale = parse_model(values)
    found = model(load, scale)
    stored = {folder: one.bytes for folder, one in found.stored.items()}
    total = bill(found.requests, stored, prices, scale.workspaces)
    document = {
        "load": {name: getattr(load, name) for name in load.__dataclass_fields__},
        "scale": {name: getattr(scale, name) for name in scale.__dataclass_fields__},
        "workspace": _estimate_document(found),
        "calculated": _bill_document(found.requests, total),
        "as_of": format_time(session.runtime.now()),
    }
    workspaces = f"{scale.workspaces:,.0f} workspaces" if scale.workspaces != 1 else "a workspace"
    rows = [
        ["events", f"{found.events:,.0f}", f"{found.events * scale.workspaces:,.0f}"],
        ["segments", f"{found.segments:,.0f}", f"{found.segments * scale.workspaces:,.0f}"],
        ["publishes", f"{found.publishes:,.0f}", f"{found.publishes * scale.workspaces:,.0f}"],
        ["merges", f"{found.merges:,.0f}", f"{found.merges * scale.workspaces:,.0f}"],
    ]
    sizes = [
        [folder, f"{one.objects:,.0f}", shown_size(int(one.bytes)), shown_size(int(one.bytes * scale.workspaces))]
        for folder, one in found.stored.items()
    ]
    per_event = total.dollars_a_day / max(found.events * scale.workspaces, 1e-9) * 1e6
    session.output.emit(
        document,
        grid(["a day", "of one workspace", f"of {workspaces}"], rows),
        grid([f"stored after {scale.days:g} days", "objects", "size of one workspace", f"of {workspaces}"], sizes),
        _bill_table(total),
        say(
            f"${_dollars(total.dollars_a_month)} a month for {workspaces} at {prices.store} ({prices.region}, prices "
            f"of {prices.dated}); ${_dollars(per_event)} a million events",
            "bold",
        ),
        say("A model, compared with counts of simulated days; a closed workspace makes no request.", "dim"),
    )


def _estimate_document(found: Estimate) -> dict[str, Any]:
    return {
        "events": found.events,
        "segments": found.segments,
        "publishes": found.publishes,
        "merges": found.merges,
        "bytes_written_a_day": dict(found.written),
        "stored": {name: {"objects": one.objects, "bytes": one.bytes} for name, one in found.stored.items()},
    }
