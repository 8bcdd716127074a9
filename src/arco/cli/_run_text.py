"""Runs, tasks and failures as people read them. Nothing here asks anybody."""

import re
from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from arco.assets import partition_text
from arco.cli._answers import facts
from arco.cli._output import grid, say, shown_size, shown_time, visible
from arco.core import SECOND, Invalid, PartitionKey, parse_time
from arco.wire import (
    AttemptInfo,
    InputInfo,
    RunDetail,
    RunSummary,
    RunTriggeredAnswer,
    SkipInfo,
    TaskDetail,
    TaskHint,
    TaskSummary,
    UnitProgress,
)

__all__ = [
    "FINAL",
    "attempts_grid",
    "cannot_run_lines",
    "counts_text",
    "failure_text",
    "held_text",
    "hint_lines",
    "input_text",
    "is_held_back",
    "progress_text",
    "run_facts",
    "run_time",
    "shown_partition",
    "shown_reason",
    "shown_seconds",
    "skip_lines",
    "state_text",
    "task_time",
    "tasks_grid",
    "unit_text",
    "units_grid",
]

FINAL = frozenset({"SUCCEEDED", "FAILED", "SKIPPED", "CANCELLED"})

TAIL_LINES = 20
"""Lines of a log or a traceback that are shown with a failure."""

_PLACE = re.compile(r'\s*File "(?P<path>[^"]*)", line \d+')
_ARCO = re.compile(r"/arco/(?:assets|catalog|core|domains|runtime|sdk|servo|spark|state|storage|worker)/")
_LIBRARY = re.compile(r"/(?:site-packages|dist-packages|lib/python3[^/]*)/|^<")

_STYLES = {
    "SUCCEEDED": "green",
    "FAILED": "bold red",
    "SKIPPED": "magenta",
    "CANCELLED": "magenta",
    "CANCELLING": "magenta",
    "RUNNING": "cyan",
    "RETRY_WAIT": "yellow",
}


def state_text(state: str) -> Text:
    return Text(visible(state.lower().replace("_", " ")), _STYLES.get(state, "dim"))


def shown_seconds(seconds: float) -> str:
    """A duration with as much of it as matters: `0.42 s`, `12.3 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def shown_partition(partition_key: str) -> str:
    """The canonical text of a partition key as people write it."""
    try:
        return partition_text(PartitionKey.parse(partition_key))
    except Invalid:
        return partition_key


def shown_reason(reason: str, selection: str) -> str:
    """Why a task is in a plan, without what holds for every one of them."""
    return reason.removeprefix(f"selected by `{selection}`; ")


def _between(start: str | None, end: str | None, now: int) -> str | None:
    if start is None:
        return None
    until = now if end is None else parse_time(end)
    return shown_seconds(max(until - parse_time(start), 0) / SECOND)


def run_time(run: RunSummary, now: int) -> str | None:
    """How long it took, or takes already."""
    return _between(run.created_at, run.ended_at, now)


def task_time(task: TaskSummary, now: int) -> str | None:
    """How long its newest attempt took, or takes already."""
    return _between(task.started_at, task.ended_at, now) if task.state != "RETRY_WAIT" else None


def counts_text(run: RunSummary) -> str:
    """`3 of 5 succeeded, 1 failed, 1 skipped`."""
    rest = (
        (run.failed_count, "failed"),
        (run.skipped_count, "skipped"),
        (run.cancelled_count, "cancelled"),
        (run.running_count, "running"),
    )
    told = [f"{count:,} {word}" for count, word in rest if count]
    return ", ".join([f"{run.succeeded_count:,} of {run.task_count:,} succeeded", *told])


def run_facts(run: RunDetail, now: int) -> Text:
    limits = [f"at most {run.max_parallelism:,} at once"] if run.max_parallelism else []
    limits += [f"at most {shown_seconds(run.timeout_seconds)}"] if run.timeout_seconds else []
    limits += [f"priority {run.priority}"] if run.priority else []
    limits += ["fail fast"] if run.failure_policy == "fail_fast" else []
    limits += [f"{run.batch:,} partitions a job"] if run.batch else []
    return facts(
        [
            ("state", state_text(run.state)),
            ("tasks", counts_text(run)),
            ("selection", run.selection),
            ("mode", run.mode if run.mode != "standard" else None),
            ("limits", limits),
            ("cancelled", run.cancel_reason),
            ("first failure", run.first_failure),
            ("triggered", f"{shown_time(run.created_at)} by {run.triggered_by}"),
            ("ended", shown_time(run.ended_at)),
            ("time", run_time(run, now)),
            ("run again of", run.rerun_of),
            ("run key", run.run_key),
            ("tags", run.tags),
            ("deployment", run.deployment_id),
            ("code", run.code_version),
            ("plan", run.plan_id),
        ]
    )


def progress_text(task: TaskSummary) -> str | None:
    """`3 of 8 tasks, 1,200 rows, 1.2 MB`: how far a running task has come, if that is known."""
    found = task.progress
    if found is None:
        return None
    told = [f"{found.tasks_done:,} of {found.tasks_total:,} tasks"] if found.tasks_total else []
    told += [f"{found.rows_written:,} rows"] if found.rows_written else []
    told += [shown_size(found.bytes_written)] if found.bytes_written else []
    together = f"{found.attempts:,} partitions together: " if found.attempts > 1 else ""
    return f"{together}{', '.join(told)}" if told else None


def job_lines(tasks: Iterable[TaskSummary]) -> list[Text]:
    """What Spark does now, a line for each of its jobs: whose it is, how far it is, and where its pages are."""
    jobs = {(task.worker, task.asset_key, task.progress): task for task in tasks if task.progress is not None}
    lines = []
    for task in jobs.values():
        assert task.progress is not None
        told = [text for text in (progress_text(task), task.progress.ui) if text]
        if told:
            lines.append(say(f"Spark  {task.asset_key}  {'  '.join(told)}", "dim"))
    return lines


def tasks_grid(tasks: Sequence[TaskSummary], now: int) -> Table:
    rows = [
        [task.task_key, state_text(task.state), str(task.attempt or "-"), task_time(task, now), task.worker]
        for task in tasks
    ]
    headers = ["task", "state", "attempt", "time", "worker"]
    progress = [progress_text(task) for task in tasks]
    if any(progress):
        headers.append("progress")
        rows = [[*row, told] for row, told in zip(rows, progress, strict=True)]
    return grid(headers, rows)


RUNNING_STATES = ("RUNNING",)
WAITING_STATES = ("PLANNED", "BLOCKED", "READY", "DISPATCHED", "RETRY_WAIT")


def _count(unit: UnitProgress, *states: str) -> int:
    return sum(unit.states.get(state, 0) for state in states)


def units_grid(units: Iterable[UnitProgress]) -> Table:
    """A row for each asset: how many of its partitions are where."""

    def told(count: int, style: str) -> Text | None:
        return Text(f"{count:,}", style) if count else None

    return grid(
        ["asset", "succeeded", "of", "running", "waiting", "failed", "skipped"],
        [
            [
                unit.unit,
                told(_count(unit, "SUCCEEDED"), "green"),
                f"{unit.task_count:,}",
                told(_count(unit, *RUNNING_STATES), "cyan"),
                told(_count(unit, *WAITING_STATES), "dim"),
                told(_count(unit, "FAILED"), "bold red"),
                told(_count(unit, "SKIPPED", "CANCELLED"), "magenta"),
            ]
            for unit in units
        ],
    )


def unit_text(unit: UnitProgress) -> str:
    """`500 of 1,000 succeeded, 2 of them held back, 5 failed, 50 running`."""
    rest = (
        (unit.held_count, "of them held back"),
        (_count(unit, "FAILED"), "failed"),
        (_count(unit, "SKIPPED", "CANCELLED"), "skipped"),
        (_count(unit, *RUNNING_STATES), "running"),
    )
    told = [f"{count:,} {word}" for count, word in rest if count]
    return ", ".join([f"{_count(unit, 'SUCCEEDED'):,} of {unit.task_count:,} succeeded", *told])


def attempts_grid(attempts: Iterable[AttemptInfo], now: int) -> Table:
    return grid(
        ["attempt", "state", "began", "time", "worker", "what went wrong"],
        [
            [
                one.attempt,
                state_text(one.state),
                shown_time(one.claimed_at),
                _between(one.claimed_at, one.ended_at, now),
                one.worker,
                _error_line(one.error_type, one.error),
            ]
            for one in attempts
        ],
    )


def input_text(given: InputInfo) -> str:
    """`sales.orders: 3 versions`, or which of them this run writes first."""
    if not given.parameter:
        return f"{given.asset_key}: only comes earlier"
    told = [f"{given.versions:,} {'version' if given.versions == 1 else 'versions'}"] if given.versions else []
    told += [f"{given.from_run:,} of this run"] if given.from_run else []
    return f"{given.asset_key}: {' and '.join(told) or 'nothing'}"


def _error_line(kind: str | None, error: str | None) -> str | None:
    if error is None:
        return kind
    line = error.strip().splitlines()[0] if error.strip() else ""
    name = (kind or "").rpartition(".")[2]
    if name == "PythonException":
        return line  # Spark's word for whatever a function raised, which the line itself names
    return f"{name}: {line}" if name and not line.startswith(name) else line


def failure_text(task: TaskDetail, log: str) -> RenderableType:
    """What went wrong in a task, the end of what it printed, and what to do."""
    last = task.attempts[-1] if task.attempts else None
    category = f" ({visible(task.error_category).lower().replace('_', ' ')})" if task.error_category else ""
    lines = [
        Text.assemble(
            (visible(task.task_key), "bold red"), (f" {task.state.lower()} in attempt {task.attempt}{category}", "red")
        ),
        *_indented([_error_line(last.error_type if last else None, task.error) or "no reason is known"], ""),
    ]
    rest = (task.error or "").strip().splitlines()[1:]
    lines += _indented(rest[:TAIL_LINES], "")
    if last is not None and last.traceback and (frames := _frames(last.traceback, last.error_type or "")):
        lines += _section("Where it arose", frames)
    if log.strip():
        lines += _section("The last it printed", _tail(log))
    if task.hints:
        lines += [Text("  What to do", "dim"), *(Text.assemble("    ", line) for line in hint_lines(task.hints))]
    return Text("\n").join(lines)


def hint_lines(hints: Sequence[TaskHint]) -> list[Text]:
    return [
        Text.assemble(visible(hint.action), ("  " if hint.command else ""), (visible(hint.command or ""), "bold cyan"))
        for hint in hints
    ]


def _section(title: str, lines: list[str]) -> list[Text]:
    return [Text(f"  {title}", "dim"), *_indented(lines, "  ", "dim")]


def _frames(traceback: str, error_type: str) -> list[str]:
    """The places a traceback names. How it begins says nothing, and how it ends was said before."""
    lines = [line.removeprefix("  ") for line in traceback.rstrip().split("\n") if line.startswith((" ", "\t", "..."))]
    if error_type.startswith("arco."):
        lines = _of_authors(lines)
    return _tail("\n".join(lines)) if lines else []


def _of_authors(lines: list[str]) -> list[str]:
    """Of the places of an error of ours those outside of Arco; none if no author of an asset has a part in it."""
    kept, is_kept, is_authors = list[str](), True, False
    for line in lines:
        place = _PLACE.match(line)
        if place is not None:
            is_kept = _ARCO.search(place["path"]) is None
            is_authors |= is_kept and _LIBRARY.search(place["path"]) is None
        if is_kept:
            kept.append(line)
    return kept if is_authors else []


def _tail(text: str) -> list[str]:
    lines = text.rstrip().split("\n")
    cut = [f"... {len(lines) - TAIL_LINES:,} lines before"] if len(lines) > TAIL_LINES else []
    return [*cut, *lines[-TAIL_LINES:]]


def _indented(lines: Iterable[str], more: str, style: str = "") -> list[Text]:
    return [Text.assemble(f"  {more}", (visible(line.expandtabs(4).rstrip("\r")), style)) for line in lines]


def cannot_run_lines(answer: RunTriggeredAnswer, listed: int) -> list[Text]:
    """What was asked for and is no part of a run, because something has to be done first."""
    lines = [say(f"{_skip_name(skip)} {skip.reason}", "magenta") for skip in answer.cannot_run[:listed]]
    if answer.cannot_run_count > len(lines):
        lines.append(say(f"... and {answer.cannot_run_count - len(lines):,} more cannot run", "magenta"))
    return lines


def is_held_back(task: TaskSummary) -> bool:
    """Whether it succeeded and its checks held back what it made."""
    return task.state == "SUCCEEDED" and task.gate is not None


def held_text(tasks: Iterable[TaskSummary], units: Iterable[UnitProgress], listed: int) -> Text | None:
    """What succeeded and is held back by its checks: by task, or by asset if the run is shown so."""
    counts = {unit.unit: unit.held_count for unit in units if unit.held_count}
    names = [f"{unit} ({count:,})" for unit, count in counts.items()]
    names = names or [task.task_key for task in tasks if is_held_back(task)]
    if not names:
        return None
    count = sum(counts.values()) or len(names)
    more = f" and {len(names) - listed:,} more" if len(names) > listed else ""
    held = "is held back by its checks" if count == 1 else "are held back by their checks"
    head = f"{count:,} of those that succeeded {held}: "
    return say(f"{head}{', '.join(names[:listed])}{more}; `arco quarantine list` lists what is held back.", "yellow")


def _skip_name(skip: SkipInfo) -> str:
    partition = shown_partition(skip.partition_key)
    return f"{skip.asset_key}[{partition}]" if partition else skip.asset_key


def skip_lines(tasks: Sequence[TaskSummary], listed: int) -> list[Text]:
    """Why tasks did not run."""
    lines = [say(f"{task.task_key} {task.state.lower()}: {task.reason}", "magenta") for task in tasks[:listed]]
    if len(tasks) > listed:
        lines.append(say(f"... and {len(tasks) - listed:,} more", "magenta"))
    return lines
