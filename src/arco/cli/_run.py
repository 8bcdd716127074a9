"""`arco run`: plan what was selected, start it, and watch it. `arco backfill` does the same with many partitions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from arco.cli._answers import document_of
from arco.cli._command import Session, changes
from arco.cli._connect import connect, find_server
from arco.cli._open import slots_of
from arco.cli._options import BatchOption, PartitionsOption, SelectionArgument, TagsOption, WatchOption
from arco.cli._plan import ForceOption, plan_parts
from arco.cli._specs import parse_duration, parse_pairs, parse_partitions
from arco.cli._stack import END_SECONDS, running_stack
from arco.cli._watch import follow_run, started, wants_watching
from arco.client import AsyncClient
from arco.core import Refused
from arco.wire import PlanInfo, RunRequestBody, RunTriggeredAnswer

__all__ = ["DryRunOption", "Working", "app", "start_run", "working"]

app = typer.Typer()

NO_WORKER = "No worker takes them; `arco worker` or `arco dev` starts one."

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what it would do, as `arco plan`.")]


@changes(app)
async def run(
    session: Session,
    selection: SelectionArgument,
    partitions: PartitionsOption = None,
    force: ForceOption = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Begin nothing new once a task has failed.")] = False,
    max_parallelism: Annotated[
        int, typer.Option("--max-parallelism", min=0, metavar="N", help="Tasks at once; 0 for as many as there may be.")
    ] = 0,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="Cancel it after so long, such as 90s or 2h.")
    ] = None,
    priority: Annotated[
        int, typer.Option("--priority", metavar="N", help="Tasks of runs with a higher one come first.")
    ] = 0,
    tags: TagsOption = None,
    run_key: Annotated[
        str, typer.Option("--run-key", metavar="KEY", help="Stands for one run for ever: again, it finds that run.")
    ] = "",
    batch: BatchOption = 0,
    watch: WatchOption = None,
    dry_run: DryRunOption = False,
) -> int | None:
    """Run assets that are deployed, after all they wait for.

    What is up to date is left out, unless --force is given. If nobody serves the workspace, a server and a worker run
    until the run is over. Exits with 8 if the run is watched and does not succeed, with 3 if nothing of it can run.

    arco run +sales.daily --partition date=2026-01-01..2026-01-31
    """
    request = RunRequestBody(
        selection=selection,
        partitions=parse_partitions(partitions),
        mode="force" if force else "standard",
        failure_policy="fail_fast" if fail_fast else "continue",
        max_parallelism=max_parallelism,
        timeout_seconds=_seconds(timeout),
        priority=priority,
        tags=parse_pairs("--tag", tags),
        run_key=run_key,
        batch=batch,
    )
    return await start_run(session, request, watch, dry_run=dry_run)


async def start_run(
    session: Session, request: RunRequestBody, watch: bool | None, *, dry_run: bool, by_asset: bool = False
) -> int | None:
    """Start a run and watch it, or only show what it would do. Returns the exit code of the command.

    With `by_asset` it is shown with a line for each asset, however few tasks it has.
    """
    selection = request.selection
    if dry_run:
        async with connect(replace(session, writes=False)) as client:
            plan = await client.plan_run(request)
        session.output.emit(document_of(plan), *plan_parts(session.output.people, plan, selection))
        return None
    async with working(session, watch) as at:
        client = at.client
        request = request.model_copy(update={"record_empty": False})
        answer = await client.trigger_run(request, key=session.request_key, wait="durable")
        if not answer.task_count:
            return _nothing(session, answer, await client.plan_run(request), selection)
        if not at.is_watched:
            started(session, answer)
            return None
        return await follow_run(session, client, answer, waiting=at.waiting, goes_on=at.goes_on, by_asset=by_asset)


def _nothing(session: Session, answer: RunTriggeredAnswer, plan: PlanInfo, selection: str) -> int | None:
    """There was nothing to do, or nothing that can be done; the plan tells which."""
    document = {**document_of(answer), "skips": [document_of(skip) for skip in plan.skips]}
    session.output.emit(document, *plan_parts(session.output.people, plan, selection))
    cannot = any(skip.kind == "cannot_run" for skip in plan.skips)
    return Refused.exit_code if cannot else None


_ENDS_HERE = (
    f"the server and the worker of this command end with it, within {END_SECONDS:.0f} s, in which tasks may end that "
    "have begun, and the rest goes on with the next `arco run` or `arco dev`"
)


@dataclass(frozen=True)
class Working:
    """Who carries a run out."""

    client: AsyncClient
    is_watched: bool
    waiting: str
    """What is said while nobody takes a task."""
    goes_on: str
    """What is said of a run when the command is ended before it."""


@asynccontextmanager
async def working(session: Session, watch: bool | None) -> AsyncIterator[Working]:
    """Whoever serves the workspace.

    If nobody does, a server and a worker run in this command: then the run lasts no longer than it does, so it is
    waited for, unless that was declined.
    """
    settings = session.project.loaded.settings
    named = settings.url if not settings.embedded else None
    if watch is False or named or (not settings.embedded and await find_server(session)):
        async with connect(session) as client:
            yield Working(client, wants_watching(session, watch), NO_WORKER, "it goes on wherever a worker is")
    else:
        async with running_stack(session, slots=slots_of(session.project)) as stack:
            yield Working(stack.client, True, "The worker is starting.", _ENDS_HERE)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    return float(text) if text.isascii() and text.isdecimal() else float(parse_duration(text))
