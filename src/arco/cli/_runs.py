"""Commands on runs: list, show, read what tasks printed, cancel, run again; and why a run is where it is."""

import sys
from enum import StrEnum
from shlex import quote
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from arco.cli._answers import document_of, facts, gather, list_out, page_size, written_out
from arco.cli._command import Session, asks, changes
from arco.cli._connect import connect
from arco.cli._options import AsOfOption, LimitOption, RunArgument, WatchOption
from arco.cli._output import dump, explained, grid, say, shown_size, shown_time, titled, visible
from arco.cli._plan import nothing_parts
from arco.cli._run import working
from arco.cli._run_text import (
    FINAL,
    attempts_grid,
    counts_text,
    failure_text,
    hint_lines,
    input_text,
    is_held_back,
    progress_text,
    run_facts,
    run_time,
    shown_partition,
    state_text,
    task_time,
)
from arco.cli._watch import follow_run, log_tail, started
from arco.client import AsyncClient
from arco.core import Invalid, NotFound, Refused
from arco.wire import (
    MaterializationInfo,
    RerunRequest,
    RunCancel,
    RunSummary,
    TaskDetail,
    TaskLogPage,
    TaskSummary,
)

__all__ = ["app", "explain", "find_run"]

app = typer.Typer(help="List, show, cancel and repeat runs, and read what tasks printed.", no_args_is_help=True)
explain = typer.Typer(help="Say why something is as it is.", no_args_is_help=True)

LAST = "last"
POLL_SECONDS = 0.5

TaskArgument = Annotated[
    str | None,
    typer.Argument(metavar="[TASK]", help="A task's key; quote it for its brackets.", show_default=False),
]


class RunState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class TaskState(StrEnum):
    BLOCKED = "BLOCKED"
    READY = "READY"
    RUNNING = "RUNNING"
    RETRY_WAIT = "RETRY_WAIT"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    SUCCEEDED = "SUCCEEDED"


async def find_run(client: AsyncClient, named: str) -> str:
    """The id of a run; `last` names the newest one."""
    if named != LAST:
        return named
    page = await client.list_runs(limit=1).page()
    if not page.items:
        raise NotFound("there is no run yet; `arco run SELECTION` starts one")
    return page.items[0].run_id


@asks(app, "list")
async def list_runs(
    session: Session,
    state: Annotated[
        RunState | None, typer.Option("--state", case_sensitive=False, help="Only runs that stand so.")
    ] = None,
    as_of: AsOfOption = None,
    limit: LimitOption = 20,
) -> None:
    """List runs, newest first."""
    async with connect(session) as client:
        pages = client.list_runs(state.value if state else None, limit=page_size(limit), as_of=as_of)
        items, more = await gather(pages, limit)
    headers = ["run", "state", "tasks", "began", "time", "selection", "by"]
    now = session.runtime.now()
    empty = "There are none; `arco run SELECTION` starts one." if state is None else f"No run is {state.value.lower()}."
    list_out(session, "runs", items, more, headers, lambda run: _row(run, now), empty)


def _row(run: RunSummary, now: int) -> list[object]:
    head = [run.run_id, state_text(run.state), counts_text(run)]
    return [*head, shown_time(run.created_at), run_time(run, now), run.selection, run.triggered_by]


@asks(app)
async def show(
    session: Session,
    run: RunArgument,
    task: TaskArgument = None,
    state: Annotated[
        TaskState | None, typer.Option("--state", case_sensitive=False, help="Only tasks that stand so.")
    ] = None,
    as_of: AsOfOption = None,
    limit: LimitOption = 100,
) -> None:
    """Show a run and its tasks, or one task with all its attempts."""
    if task is not None and state is not None:
        raise Invalid("--state chooses among the tasks of a run; leave it out beside a task")
    now = session.runtime.now()
    async with connect(session) as client:
        run_id = await find_run(client, run)
        if task is not None:
            detail = await client.get_run_task(run_id, task, as_of=as_of)
            log = await log_tail(client, run_id, detail) if detail.state == "FAILED" else ""
            session.output.emit(document_of(detail), *_task_parts(detail, log, now))
            return
        found = await client.get_run(run_id, as_of=as_of)
        pages = client.list_run_tasks(run_id, state.value if state else None, limit=page_size(limit), as_of=as_of)
        tasks, more = await gather(pages, limit)
    tasks.sort(key=lambda one: (one.stage, one.task_key))
    parts: list[RenderableType] = [titled(f"Run {found.run_id}", run_facts(found, now))]
    if tasks:
        rows = [_task_row(one, now) for one in tasks]
        headers = ["task", "state", "attempt", "time", "why"]
        parts.append(explained(session.output.people, headers, rows))
    elif state is not None:
        parts.append(say(f"No task is {state.value.lower().replace('_', ' ')}."))
    if more:
        parts.append(say(f"The first {len(tasks):,} tasks; --limit 0 shows all, --state chooses.", "dim"))
    if found.state == "FAILED":
        parts.append(say(f"arco explain run {found.run_id} says why.", "dim"))
    document = {**document_of(found), "tasks": [document_of(one) for one in tasks], "more": more}
    session.output.emit(document, *parts)


def _task_row(task: TaskSummary, now: int) -> list[object]:
    """A task in a list. Why it was planned is told where it is shown alone; here, why it is not done."""
    why = (task.error or "").strip().split("\n")[0]
    if task.state == "RETRY_WAIT":
        why = f"again at {shown_time(task.retry_at)}: {why}"
    elif task.state in ("SKIPPED", "CANCELLED"):
        why = task.reason
    elif task.state == "RUNNING":
        why = progress_text(task) or why
    elif task.gate is not None and not why:
        why = f"its checks: {task.gate.replace('_', ' ')}"
    return [task.task_key, state_text(task.state), str(task.attempt or "-"), task_time(task, now), why or None]


def _task_parts(task: TaskDetail, log: str, now: int) -> list[RenderableType]:
    told = facts(
        [
            ("state", state_text(task.state)),
            ("stage", str(task.stage)),
            ("progress", progress_text(task)),
            ("Spark", task.progress.ui if task.progress else None),
            ("why", task.reason),
            ("writes", task.outputs),
            ("reads", "; ".join(input_text(given) for given in task.inputs)),
            ("waits for", task.upstream),
            ("is waited for by", task.downstream),
            ("again at", shown_time(task.retry_at)),
            ("checks", task.gate.replace("_", " ") if task.gate is not None else None),
        ]
    )
    parts: list[RenderableType] = [titled(task.task_key, told)]
    if is_held_back(task):
        parts.append(_held_hint(task))
    if task.attempts:
        parts.append(attempts_grid(task.attempts, now))
    if task.state == "FAILED":
        parts.append(failure_text(task, log))
    return parts


def _held_hint(task: TaskDetail) -> Text:
    """How to see which checks hold back what a task made, and what they found."""
    partition = shown_partition(task.partition_key)
    options = "".join(f" -p {quote(part)}" for part in partition.split(",") if part)
    commands = [f"arco quarantine show {key}{options}" for key in task.outputs]
    lines = [Text.assemble("  ", (visible(command), "bold cyan")) for command in commands]
    return Text("\n").join([say("Its checks held back what it made; which ones, and what they found:"), *lines])


@asks(app)
async def outputs(session: Session, run: RunArgument, as_of: AsOfOption = None) -> None:
    """Show exactly what a run wrote."""
    async with connect(session) as client:
        run_id = await find_run(client, run)
        found = await client.get_run_outputs(run_id, as_of=as_of)
    headers = ["table", "partition", "version", "status", "rows", "files", "size", "completed", "materialization"]
    if not found.materializations:
        session.output.emit(document_of(found), say(f"The run {run_id} wrote nothing that is known."))
        return
    more = say("There is more; `arco query` over system.materializations shows all.", "dim")
    table = grid(headers, [_output_row(made) for made in found.materializations])
    session.output.emit(document_of(found), *([table, more] if found.next_cursor else [table]))


def _output_row(made: MaterializationInfo) -> list[object]:
    size = [made.row_count, made.file_count, shown_size(made.byte_size)]
    head = [made.asset_key, shown_partition(made.partition_key) or None, made.version, made.status]
    return [*head, *size, shown_time(made.completed_at), made.id]


@asks(app)
async def logs(
    session: Session,
    run: RunArgument,
    task: TaskArgument = None,
    attempt: Annotated[int, typer.Option("--attempt", min=0, metavar="N", help="Which one; 0 for the newest.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task is over.")] = False,
) -> None:
    """Print what a task printed.

    Without a task: of the only one there is, or the one that failed first.
    """
    async with connect(session) as client:
        run_id = await find_run(client, run)
        named = task or await _task_of(client, run_id)
        if follow:
            await _follow(session, client, run_id, named, attempt)
            return
        page = await client.get_task_log(run_id, named, attempt=attempt)
        pages = [page]
        while not page.complete and page.text:
            page = await client.get_task_log(run_id, named, attempt=page.attempt, chunk=page.next_chunk)
            pages.append(page)
    if session.output.as_json:
        whole = pages[-1].model_copy(update={"text": "".join(found.text for found in pages)})
        session.output.emit(document_of(whole))
        return
    for page in pages:
        _print_log(page.text)
    _log_notes(session, pages[-1], named)


async def _task_of(client: AsyncClient, run_id: str) -> str:
    """The task that somebody means who names none."""
    run = await client.get_run(run_id)
    if run.first_failure:
        return run.first_failure
    page = await client.list_run_tasks(run_id, limit=2).page()
    if len(page.items) == 1:
        return page.items[0].task_key
    raise Invalid(f"the run {run_id} has {run.task_count:,} tasks; name one, `arco runs show {run_id}` lists them")


async def _follow(session: Session, client: AsyncClient, run_id: str, task: str, attempt: int) -> None:
    """Print what comes, of one attempt or of each until the task is over."""
    current = attempt or 1
    while True:
        detail = await client.get_run_task(run_id, task)
        newest = detail.attempts[-1].attempt if detail.attempts else 0
        if newest >= current:
            if current > 1 and not attempt:
                session.output.note(f"attempt {current}")
            await _follow_attempt(session, client, run_id, task, current)
            if attempt:
                return
            current += 1
        elif detail.state in FINAL:
            return
        else:
            await session.runtime.sleep(POLL_SECONDS)


async def _follow_attempt(session: Session, client: AsyncClient, run_id: str, task: str, attempt: int) -> None:
    chunk = 0
    while True:
        page = await client.get_task_log(run_id, task, attempt=attempt, chunk=chunk)
        if session.output.as_json:
            if page.text or page.complete:
                session.output.line(dump(document_of(page)))
        else:
            _print_log(page.text)
        if page.complete:
            return
        if page.next_chunk == chunk:
            await session.runtime.sleep(POLL_SECONDS)
        chunk = page.next_chunk


def _print_log(text: str) -> None:
    """Exact, unless a terminal would act on it."""
    if sys.stdout.isatty():
        text = "\n".join(visible(line.expandtabs(8).rstrip("\r")) for line in text.split("\n"))
    sys.stdout.write(text)
    sys.stdout.flush()


def _log_notes(session: Session, page: TaskLogPage, task: str) -> None:
    if not page.text and not page.next_chunk:
        session.output.note(f"{task} printed nothing in attempt {page.attempt}")
    if page.truncated:
        session.output.note("it printed more than is kept: its middle is left out")
    if not page.complete:
        session.output.note("it still runs; --follow goes on")


@changes(app)
async def cancel(
    session: Session,
    run: RunArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for those who look later.")] = "",
) -> None:
    """Cancel a run: nothing new begins, and what runs is told to stop."""
    async with connect(session) as client:
        run_id = await find_run(client, run)
        written = await client.cancel_run(run_id, RunCancel(reason=reason), key=session.request_key)
        found = await client.get_run(run_id)
    done = f"Cancelled the run {run_id}."
    if found.running_count:
        done = f"Cancelled the run {run_id}; {found.running_count:,} tasks are told to stop."
    written_out(session, written, done)


@changes(app)
async def rerun(
    session: Session,
    run: RunArgument,
    from_failure: Annotated[
        bool, typer.Option("--from-failure/--all", help="Only what did not succeed, or everything it planned.")
    ] = True,
    watch: WatchOption = None,
) -> int | None:
    """Run again what a run did not finish, or all of it: with the code of now, on the inputs of then.

    An input that was set aside or has expired meanwhile is read in its newest good version. For the newest of all
    inputs use `arco run` or `arco backfill`. What cannot run is named with what has to be done first. Exits like
    `arco run`.
    """
    async with working(session, watch) as at:
        client = at.client
        run_id = await find_run(client, run)
        request = RerunRequest(from_failure=from_failure, record_empty=False)
        answer = await client.rerun(run_id, request, key=session.request_key, wait="durable")
        if not answer.task_count:
            session.output.emit(document_of(answer), *nothing_parts(session.output.people, answer))
            return Refused.exit_code
        if not at.is_watched:
            started(session, answer)
            return None
        return await follow_run(session, client, answer, waiting=at.waiting, goes_on=at.goes_on)


@asks(explain, "run")
async def explain_run(session: Session, run: RunArgument, as_of: AsOfOption = None) -> None:
    """Say why a run is where it is: what went wrong first, what followed, what it waits for."""
    async with connect(session) as client:
        found = await client.explain_run(await find_run(client, run), as_of=as_of)
    parts: list[RenderableType] = [Text.assemble((f"Run {visible(found.run_id)}  ", "bold"), visible(found.summary))]
    if found.causes:
        parts.append(_listed("What happened", found.causes))
    if found.waiting:
        parts.append(_listed("What it waits for", found.waiting))
    if found.hints:
        lines = [Text.assemble("  ", line) for line in hint_lines(found.hints)]
        parts.append(Text("\n").join([Text("What to do", "bold"), *lines]))
    session.output.emit(document_of(found), *parts)


def _listed(title: str, sentences: list[str]) -> Text:
    """A line for each; of an error that has several, the first one says what it is."""
    lines = [sentence.strip().partition("\n")[0] for sentence in sentences]
    return Text("\n").join([Text(title, "bold"), *(Text(f"  {visible(line)}") for line in lines)])
