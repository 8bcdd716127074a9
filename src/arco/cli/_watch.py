"""Watching a run until it ends: a table that moves on a terminal, a line for each change elsewhere; then how it ended.

The server is asked again and again, ever less often. A large run is shown by asset, and of its tasks only those are
asked for that matter.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from arco.cli._answers import document_of
from arco.cli._command import Session
from arco.cli._output import say, visible
from arco.cli._run_text import (
    FINAL,
    cannot_run_lines,
    counts_text,
    failure_text,
    held_text,
    is_held_back,
    job_lines,
    run_time,
    skip_lines,
    state_text,
    task_time,
    tasks_grid,
    unit_text,
    units_grid,
)
from arco.client import AsyncClient
from arco.core import SECOND, NotFound, parse_time
from arco.wire import RunDetail, RunTriggeredAnswer, TaskDetail, TaskSummary, UnitProgress

__all__ = ["EXIT_RUN_FAILED", "Seen", "follow_run", "frame", "log_tail", "run_ended", "started", "wants_watching"]

EXIT_RUN_FAILED: Final = 8

WHOLE: Final = 500
"""Tasks of a run up to which all of them are asked for."""

SAMPLE: Final = 50
"""Of a larger one, so many in each of the states that matter."""

FAILURES: Final = 3
"""Failures that are told in full."""

QUIET: Final = frozenset({"PLANNED", "BLOCKED", "READY", "DISPATCHED"})
"""States of tasks of which nothing is said yet."""

NOT_FAILED: Final = QUIET | {"RUNNING", "RETRY_WAIT", "SUCCEEDED", "SKIPPED", "CANCELLED"}
"""The same of a run that is shown by asset."""

STATE_WIDTH: Final = 10
SKIPS: Final = 10
HELD: Final = 5
"""Tasks that are named because their checks hold back what they made."""

LOG_CHUNKS: Final = 2
JOBS: Final = 4
"""Jobs of Spark that are shown."""

FRAME_LINES: Final = 7
"""Lines of a frame beside its tasks."""

WAIT_SECONDS: Final = 3.0
"""How long a task may be ready before somebody wonders whether there is a worker."""

# Pauses by the seconds that a run is watched already.
_PAUSES: Final = ((10.0, 0.2), (60.0, 0.5), (float("inf"), 1.0))
_RANK: Final = {"FAILED": 0, "RUNNING": 1, "RETRY_WAIT": 2, "SUCCEEDED": 3, "CANCELLED": 3, "SKIPPED": 3, "READY": 4}


@dataclass(frozen=True)
class Seen:
    """A run at one moment, with its tasks, or of a large one those that matter."""

    run: RunDetail
    tasks: Sequence[TaskSummary]
    units: Sequence[UnitProgress] = ()
    """How many tasks of each asset are where, if it is shown by asset."""


def wants_watching(session: Session, asked: bool | None) -> bool:
    """Whether to wait for a run: as asked for, else if there is somebody who looks."""
    return asked if asked is not None else session.output.people.is_terminal and not session.output.as_json


def started(session: Session, answer: RunTriggeredAnswer) -> None:
    """A run was triggered and nobody waits for it."""
    tasks = "1 task" if answer.task_count == 1 else f"{answer.task_count:,} tasks"
    head = f"The run {answer.run_id} was there already" if answer.replayed else f"Started the run {answer.run_id}"
    then = f"  arco runs show {answer.run_id} shows how it stands, arco dev works on it if nobody does"
    told = Text("\n").join([say(f"{head}: {tasks}.", "green"), say(then, "dim")])
    session.output.emit(document_of(answer), *_left_out(answer), told)


def _left_out(answer: RunTriggeredAnswer) -> list[RenderableType]:
    lines = cannot_run_lines(answer, SKIPS)
    return [Text("\n").join(lines)] if lines else []


async def follow_run(
    session: Session,
    client: AsyncClient,
    answer: RunTriggeredAnswer,
    *,
    waiting: str,
    goes_on: str,
    by_asset: bool = False,
) -> int | None:
    """Watch a run to its end and say how it ended. Returns the exit code of the command.

    `waiting` is said while tasks are ready and nobody takes them, `goes_on` of a run that is not watched to its end.
    With `by_asset` it has a line for each asset, as a large run always has.
    """
    output, run_id = session.output, answer.run_id
    look = partial(_look, session, client, run_id, by_asset)
    try:
        if output.as_json:
            last = await look(lambda seen: None)
        elif output.people.is_terminal:
            last = await _live(session, look, waiting)
        else:
            last = await _lines(session, look, run_id)
    except asyncio.CancelledError:
        output.note(
            f"the run {run_id} is not over: {goes_on}; `arco runs show {run_id}` shows it, "
            f"`arco runs cancel {run_id}` ends it"
        )
        raise
    return await run_ended(session, client, last, answer)


Look = Callable[[Callable[[Seen], None]], Awaitable[Seen]]
"""Looks at a run until it is over, and hands each look on. Returns the last one."""


async def _look(
    session: Session, client: AsyncClient, run_id: str, by_asset: bool, show: Callable[[Seen], None]
) -> Seen:
    began = session.runtime.boottime()
    while True:
        # The server that triggered it has seen it; asking the store each time would cost a request and tell nothing.
        run = await client.get_run(run_id, consistency="bounded")
        units: Sequence[UnitProgress] = ()
        if by_asset or run.task_count > WHOLE:
            units = (await client.get_run_progress(run_id, consistency="bounded")).units
        seen = Seen(run, await _tasks(client, run, is_whole=not units), units)
        show(seen)
        if run.state in FINAL:
            return seen
        watched = session.runtime.boottime() - began
        await session.runtime.sleep(next(pause for until, pause in _PAUSES if watched < until))


async def _tasks(client: AsyncClient, run: RunDetail, *, is_whole: bool) -> list[TaskSummary]:
    if is_whole:
        pages = client.list_run_tasks(run.run_id, limit=WHOLE, consistency="bounded")
        return sorted([task async for task in pages], key=lambda task: (task.stage, task.task_key))
    found: list[TaskSummary] = []
    for state in ("FAILED", "RUNNING", "RETRY_WAIT"):
        page = await client.list_run_tasks(run.run_id, state, limit=SAMPLE, consistency="bounded").page()
        found += page.items
    return sorted(found, key=lambda task: (task.stage, task.task_key))


async def _live(session: Session, look: Look, waiting: str) -> Seen:
    console, now = session.output.people, session.runtime.now
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        return await look(lambda seen: live.update(frame(seen, waiting, now(), console.height), refresh=True))


async def _lines(session: Session, look: Look, run_id: str) -> Seen:
    console, now = session.output.people, session.runtime.now
    console.print(say(f"run {run_id}"))
    told: dict[str, object] = {}
    tenths: dict[str, int] = {}  # apart: the task of an asset without partitions has the key of its unit
    pages: set[str] = set()

    def show(seen: Seen) -> None:
        for page in sorted({task.progress.ui for task in seen.tasks if task.progress and task.progress.ui} - pages):
            console.print(say(f"  Spark's own pages: {page}", "dim"))
            pages.add(page)
        for unit in seen.units:
            at = _tenth(unit)
            if tenths.get(unit.unit, 0) != at:
                console.print(say(f"  {unit.unit}: {unit_text(unit)}"))
            tenths[unit.unit] = at
        quiet = NOT_FAILED if seen.units else QUIET
        for task in seen.tasks:
            stands = (task.state, task.attempt)
            if told.get(task.task_key) != stands and task.state not in quiet:
                console.print(_line(task, now()))
            told[task.task_key] = stands

    return await look(show)


def _tenth(unit: UnitProgress) -> int:
    """How much of an asset is done, in tenths; the last one only if all of it is."""
    done = sum(count for state, count in unit.states.items() if state in FINAL)
    return done * 10 // unit.task_count if unit.task_count else 10


def _line(task: TaskSummary, now: int) -> Text:
    more = []
    if task.attempt > 1 or task.state == "RETRY_WAIT":
        more.append(f"attempt {task.attempt}")
    if task.state in FINAL and (took := task_time(task, now)):
        more.append(took)
    if task.state in ("FAILED", "RETRY_WAIT") and task.error:
        more.append(task.error.strip().split("\n")[0])
    if task.state in ("SKIPPED", "CANCELLED"):
        more.append(task.reason)
    if is_held_back(task):
        more.append("held back by its checks")
    told = f"  {', '.join(more)}" if more else ""
    state = state_text(task.state)
    state.pad_right(STATE_WIDTH - len(state))
    return Text.assemble("  ", state, "  ", visible(task.task_key), visible(told))


def frame(seen: Seen, waiting: str, now: int, height: int) -> RenderableType:
    """A run as it stands, on so many lines."""
    run = seen.run
    head = Text.assemble(
        (f"Run {visible(run.run_id)}  ", "bold"),
        state_text(run.state),
        (f"  {visible(run.selection)}  {run_time(run, now) or ''}", "dim"),
    )
    jobs = job_lines(seen.tasks)[:JOBS]
    room = max(height - FRAME_LINES - len(jobs), 1)
    parts: list[RenderableType] = [head, *(_unit_parts(seen, room) if seen.units else _task_parts(seen, room, now))]
    parts += jobs
    if _is_left_alone(seen, now):
        parts.append(say(waiting, "yellow"))
    return Group(*parts, _bar(run))


def _unit_parts(seen: Seen, room: int) -> list[RenderableType]:
    """A line for each asset; if there are too many, for those that are not done."""
    units = seen.units
    if len(units) > room:
        units = [unit for unit in units if _tenth(unit) < 10][:room] or units[-room:]
    parts: list[RenderableType] = [units_grid(units)]
    if hidden := len(seen.units) - len(units):
        parts.append(say(f"... and {hidden:,} more assets", "dim"))
    return parts


def _task_parts(seen: Seen, room: int, now: int) -> list[RenderableType]:
    shown = _chosen(seen.tasks, room)
    parts: list[RenderableType] = [tasks_grid(shown, now) if shown else Text("")]
    if hidden := seen.run.task_count - len(shown):
        states = Counter(task.state for task in seen.tasks) - Counter(task.state for task in shown)
        named = ", ".join(f"{count:,} {state.lower().replace('_', ' ')}" for state, count in sorted(states.items()))
        told = f": {named}" if states.total() == hidden else ""
        parts.append(say(f"... and {hidden:,} more{told}", "dim"))
    return parts


def _chosen(tasks: Sequence[TaskSummary], room: int) -> list[TaskSummary]:
    """The tasks that are worth the room, in the order of the plan: what failed, what runs, what ended last."""
    if len(tasks) <= room:
        return list(tasks)
    newest = sorted(tasks, key=lambda task: task.ended_at or "", reverse=True)
    kept = {task.task_key for task in sorted(newest, key=lambda task: _RANK.get(task.state, 5))[:room]}
    return [task for task in tasks if task.task_key in kept]


def _is_left_alone(seen: Seen, now: int) -> bool:
    """Whether tasks are ready and nobody has taken one for a while."""
    run = seen.run
    since = max(
        [parse_time(run.created_at), *(parse_time(task.ended_at) for task in seen.tasks if task.ended_at is not None)]
    )
    if run.state != "RUNNING" or run.running_count or (now - since) < WAIT_SECONDS * SECOND:
        return False
    return any(task.state == "READY" for task in seen.tasks) or any(unit.states.get("READY") for unit in seen.units)


def _bar(run: RunDetail) -> Table:
    done = run.succeeded_count + run.failed_count + run.skipped_count + run.cancelled_count
    style = "red" if run.failed_count else "green"
    bar = ProgressBar(max(run.task_count, 1), done or (1 if not run.task_count else 0), 40, complete_style=style)
    bar.finished_style = style
    line = Table.grid(padding=(0, 1))
    line.add_row(bar, Text(counts_text(run)))
    return line


async def run_ended(session: Session, client: AsyncClient, last: Seen, answer: RunTriggeredAnswer) -> int | None:
    """Say how a run ended: what failed and why, what followed from it, what is held back, what to do."""
    run, now = last.run, session.runtime.now()
    failed = await _failed(client, last)
    if session.output.as_json:
        left = {"cannot_run_count": answer.cannot_run_count, "cannot_run": document_of(answer)["cannot_run"]}
        session.output.emit({**document_of(run), "failures": [document_of(task) for task, _ in failed], **left})
        return None if run.state == "SUCCEEDED" else EXIT_RUN_FAILED
    style = "green" if run.state == "SUCCEEDED" else "bold red"
    took = f" after {run_time(run, now)}" if run.ended_at else ""
    why = f"; {run.cancel_reason}" if run.cancel_reason else ""
    end = say(f"The run {run.run_id} {_ended(run.state)}{took}: {counts_text(run)}{why}.", style)
    parts: list[RenderableType] = [failure_text(task, log) for task, log in failed]
    if run.failed_count > len(failed):
        more = f"{run.failed_count - len(failed):,} more failed"
        parts.append(say(f"{more}; `arco runs show {run.run_id} --state failed` lists them."))
    if skips := [task for task in last.tasks if task.state in ("SKIPPED", "CANCELLED")]:
        parts.append(Text("\n").join(skip_lines(skips, SKIPS)))
    parts += _left_out(answer)
    if held := held_text(last.tasks, last.units, HELD):
        parts.append(held)
    if run.state != "SUCCEEDED":
        again = f"arco runs rerun {run.run_id}"
        parts.append(Text.assemble(end, "\n", ("  What did not succeed runs again with ", "dim"), (again, "bold cyan")))
    else:
        parts.append(end)
    session.output.people.print()
    session.output.emit(None, *parts)
    return None if run.state == "SUCCEEDED" else EXIT_RUN_FAILED


def _ended(state: str) -> str:
    return "was cancelled" if state == "CANCELLED" else state.lower()


async def _failed(client: AsyncClient, last: Seen) -> list[tuple[TaskDetail, str]]:
    """The tasks that failed, the first one first, with the end of what they printed."""
    failed = [task for task in last.tasks if task.state == "FAILED"]
    failed.sort(key=lambda task: (task.task_key != last.run.first_failure, task.ended_at or "", task.task_key))
    found = []
    for task in failed[:FAILURES]:
        detail = await client.get_run_task(last.run.run_id, task.task_key)
        found.append((detail, await log_tail(client, last.run.run_id, detail)))
    return found


async def log_tail(client: AsyncClient, run_id: str, task: TaskDetail) -> str:
    """The end of what the newest attempt of a task printed."""
    if not task.attempts or not task.attempts[-1].log_chunks:
        return ""
    chunk = max(task.attempts[-1].log_chunks - LOG_CHUNKS, 0)
    text = ""
    try:
        while True:
            page = await client.get_task_log(run_id, task.task_key, attempt=task.attempts[-1].attempt, chunk=chunk)
            text += page.text
            if page.complete or page.next_chunk == chunk:
                return text
            chunk = page.next_chunk
    except NotFound:
        return text
