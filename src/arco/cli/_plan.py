"""`arco plan`: what a run would do now, and why. And what `arco run` has in common with it: what to run."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from arco.cli._answers import document_of
from arco.cli._command import Session, asks
from arco.cli._connect import connect
from arco.cli._options import BatchOption, PartitionsOption, SelectionArgument
from arco.cli._output import explained, say, titled
from arco.cli._run_text import shown_partition, shown_reason, shown_seconds
from arco.cli._specs import parse_partitions
from arco.wire import (
    PlanInfo,
    PlannedTaskInfo,
    PlannedUnitInfo,
    RunRequestBody,
    RunTriggeredAnswer,
    SkipInfo,
    SkippedAssetInfo,
)

__all__ = ["ForceOption", "app", "nothing_parts", "plan_parts"]

app = typer.Typer()

TOGETHER = 4
"""Partitions of one unit, with the same reason, from which on they share a line."""

NOTHING = "Nothing to run."

_PARTITION = re.compile(r"\[[^\]]*\]")

ForceOption = Annotated[
    bool, typer.Option("--force", help="Run what is up to date as well, and incremental assets from scratch.")
]
FullOption = Annotated[bool, typer.Option("--full", help="A line for each partition.")]


@asks(app)
async def plan(
    session: Session,
    selection: SelectionArgument,
    partitions: PartitionsOption = None,
    force: ForceOption = False,
    batch: BatchOption = 0,
    full: FullOption = False,
) -> None:
    """Show what a run would do now, and why. Nothing is started.

    arco plan +sales.daily --partition date=2026-01-01..2026-01-31
    """
    request = RunRequestBody(
        selection=selection,
        partitions=parse_partitions(partitions),
        mode="force" if force else "standard",
        batch=batch,
    )
    async with connect(session) as client:
        found = await client.plan_run(request)
    session.output.emit(document_of(found), *plan_parts(session.output.people, found, selection, full=full))


def plan_parts(console: Console, plan: PlanInfo, selection: str, *, full: bool = False) -> list[RenderableType]:
    """A plan as people read it: what runs by stage, what runs together, what does not run, how long it may take."""
    parts: list[RenderableType] = [_head(plan)]
    is_summed = plan.truncated and bool(plan.units) and not full
    if plan.tasks:
        rows = list(_unit_rows(plan.units) if is_summed else _task_rows(plan.tasks, selection, full))
        headers = ["stage", "task", "estimate"] if is_summed else ["stage", "task", "estimate", "why"]
        parts.append(explained(console, headers, rows))
    if batches := [unit for unit in plan.units if unit.batching is not None]:
        rows = [[unit.unit, _batches(unit), unit.batching] for unit in batches]
        parts.append(titled("Run together", explained(console, ["asset", "jobs", "why"], rows)))
    if plan.skips:
        rows = list(_skipped_rows(plan.skipped) if is_summed else _skip_rows(plan.skips, full))
        parts.append(titled("Not run", explained(console, ["asset", "partition", "why"], rows)))
    if plan.truncated and not is_summed:
        parts.append(say(f"Only the first {max(len(plan.tasks), len(plan.skips)):,} of each are listed.", "yellow"))
    return parts


def nothing_parts(console: Console, answer: RunTriggeredAnswer) -> list[RenderableType]:
    """That nothing of what was asked for can run, and why."""
    parts: list[RenderableType] = [say(NOTHING, "bold")]
    if answer.cannot_run:
        rows = list(_skip_rows(answer.cannot_run, full=True))
        parts.append(titled("Not run", explained(console, ["asset", "partition", "why"], rows)))
    if more := answer.cannot_run_count - len(answer.cannot_run):
        parts.append(say(f"... and {more:,} more", "dim"))
    return parts


def _head(plan: PlanInfo) -> Text:
    if not plan.task_count:
        head = NOTHING
    else:
        tasks = "1 task" if plan.task_count == 1 else f"{plan.task_count:,} tasks"
        stages = "1 stage" if plan.stage_count == 1 else f"{plan.stage_count:,} stages"
        about = f", at least {shown_seconds(plan.estimated_seconds)}" if plan.estimated_seconds is not None else ""
        if plan.work_seconds is not None and plan.work_seconds != plan.estimated_seconds:
            about += f" and {shown_seconds(plan.work_seconds)} of work"
        if about and plan.unknown_count:
            about += f" ({plan.unknown_count:,} never ran before)"
        jobs = f", {plan.batch_count:,} of its jobs with several tasks" if plan.batch_count else ""
        head = f"{tasks} in {stages}{about}{jobs}."
    return Text.assemble((head, "bold"), "\n", (f"  {plan.plan_id} · {plan.code_version}", "dim"))


def _unit_rows(units: Iterable[PlannedUnitInfo]) -> Iterator[list[object]]:
    """A row for each unit, of a plan whose tasks are too many to be listed."""
    for unit in units:
        estimate = shown_seconds(unit.estimated_seconds) if unit.estimated_seconds is not None else None
        several = unit.task_count > 1
        name = _together([unit.first, unit.last], unit.task_count) if several else unit.first
        yield [str(unit.stage), name, estimate]


def _batches(unit: PlannedUnitInfo) -> str:
    """`1,000 tasks in 20 batches of up to 50`."""
    if not unit.batch_count:
        return f"{unit.task_count:,} tasks, each alone"
    batches = "1 batch" if unit.batch_count == 1 else f"{unit.batch_count:,} batches"
    of = f"of {unit.largest_batch:,}" if unit.batch_count == 1 else f"of up to {unit.largest_batch:,}"
    return f"{unit.task_count:,} tasks in {batches} {of}"


def _skipped_rows(skipped: Iterable[SkippedAssetInfo]) -> Iterator[list[object]]:
    for one in skipped:
        partitions = f"{_range(one.first, one.last)} x {one.count:,}" if one.count > 1 else one.first or None
        yield [one.asset_key, partitions, one.kind.replace("_", " ")]


def _task_rows(tasks: Iterable[PlannedTaskInfo], selection: str, full: bool) -> Iterator[list[object]]:
    """A row for each task, or for the partitions of a unit that are in the plan for the same reason."""
    for (stage, _, why), found in groupby(tasks, lambda task: _place(task, selection)):
        group = list(found)
        if full or len(group) < TOGETHER:
            for task in group:
                reason = shown_reason(task.reason, selection)
                yield [str(stage), task.task_key, _estimate([task]), reason]
        else:
            yield [str(stage), _together([task.task_key for task in group], len(group)), _estimate(group), why]


def _place(task: PlannedTaskInfo, selection: str) -> tuple[int, str, str]:
    """Stage, unit, and the reason without the partitions it names: those differ where nothing else does."""
    reason = shown_reason(task.reason, selection)
    return task.stage, task.task_key.partition("[")[0], _PARTITION.sub("[...]", reason)


def _estimate(tasks: Sequence[PlannedTaskInfo]) -> str | None:
    known = [task.estimated_seconds for task in tasks if task.estimated_seconds is not None]
    return shown_seconds(sum(known)) if known else None


def _together(keys: Sequence[str], count: int) -> str:
    """`sales.daily[date=2026-01-01..2026-12-31] x 365`."""
    unit, _, first = keys[0].removesuffix("]").partition("[")
    return f"{unit}[{_range(first, keys[-1].removesuffix(']').partition('[')[2])}] x {count:,}"


def _range(first: str, last: str) -> str:
    """From one partition to another, as `--partition` takes it if there is one dimension."""
    return f"{first}..{last.partition('=')[2]}" if first.count("=") == 1 else f"{first} .. {last}"


def _skip_rows(skips: Iterable[SkipInfo], full: bool) -> Iterator[list[object]]:
    """What is not run. Reasons name single versions, so it is their kind that tells what belongs together."""
    for (asset, kind), found in groupby(skips, lambda skip: (skip.asset_key, skip.kind)):
        group = list(found)
        texts = [shown_partition(skip.partition_key) for skip in group]
        if full or len(group) < TOGETHER or kind == "cannot_run":
            yield from ([asset, text or None, skip.reason] for text, skip in zip(texts, group, strict=True))
        else:
            yield [asset, f"{_range(texts[0], texts[-1])} x {len(group):,}", kind.replace("_", " ")]
