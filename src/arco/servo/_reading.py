"""Reading runs, tasks and plans for people: what there is, where it stands, and why."""

from collections import Counter
from collections.abc import Iterable
from shlex import quote
from typing import Final, Literal

from arco.assets import partition_text
from arco.catalog import check_limit, decode_cursor, encode_cursor, position_of_view
from arco.core import NotFound, PartitionKey, format_time, shown
from arco.domains.execution import HELD, VERSION_STATUS, VersionStatus
from arco.domains.orchestration import (
    ATTEMPTS,
    CLAIMS,
    PLAN_TASKS,
    RUN_LIST,
    RUNS,
    TASKS,
    WORKSPACE,
    AttemptRow,
    ClaimRow,
    Hint,
    Input,
    Plan,
    PlanTaskRow,
    RunListRow,
    RunRow,
    RunState,
    Skip,
    Task,
    TaskRow,
    TaskState,
    attempt_key,
    missing_run,
)
from arco.servo._controllers import Watch
from arco.servo._estimates import estimate_plan, work_seconds
from arco.servo._protocol import Progress
from arco.servo._reasons import SkipKind, skip_kind
from arco.state import Replica, Snapshot
from arco.wire import (
    AttemptInfo,
    InputInfo,
    Page,
    PlanInfo,
    PlannedTaskInfo,
    PlannedUnitInfo,
    RunDetail,
    RunExplanation,
    RunProgress,
    RunSummary,
    SkipInfo,
    SkippedAssetInfo,
    TaskDetail,
    TaskHint,
    TaskProgress,
    TaskSummary,
    UnitProgress,
)

__all__ = [
    "cannot_run_info",
    "explain_run",
    "list_runs",
    "list_tasks",
    "plan_info",
    "run_detail",
    "run_progress",
    "task_detail",
]

View = Replica | Snapshot

MAX_LISTED: Final = 1_000
"""Tasks and skips of a plan that an answer lists."""

MAX_CANNOT_RUN: Final = 100
"""Skips that the answer to a trigger lists."""

MAX_SENTENCES: Final = 20

_KINDS: Final[dict[SkipKind, Literal["up_to_date", "external", "cannot_run"]]] = {
    SkipKind.UP_TO_DATE: "up_to_date",
    SkipKind.EXTERNAL: "external",
    SkipKind.CANNOT_RUN: "cannot_run",
}


async def list_runs(
    view: View, state: str | None = None, cursor: str | None = None, limit: int = 50
) -> Page[RunSummary]:
    """Runs, newest first; with `state` only those that stand so."""
    place = f"runs/{state or ''}"
    last = decode_cursor(place, cursor, 1)
    after, items = (None if last is None else last[0]), list[RunSummary]()
    check_limit(limit)
    while True:
        rows: list[RunListRow] = await view.page(RUN_LIST, WORKSPACE, after, limit)
        for row in rows:
            run: RunRow | None = await view.get(RUNS, row.run_id, row.run_id)
            if run is not None and (state is None or run.state == state):
                items.append(await _summary(view, run))
            after = row.order_key
            if len(items) == limit:
                break
        if len(items) == limit or len(rows) < limit:
            break
    more = bool(after) and len(items) == limit and bool(await view.page(RUN_LIST, WORKSPACE, after, 1))
    return Page[RunSummary](
        items=items,
        next_cursor=encode_cursor(place, (after or "",)) if more else None,
        position=str(position_of_view(view)),
    )


async def find_run(view: View, run_id: str) -> RunRow:
    row: RunRow | None = await view.get(RUNS, run_id, run_id)
    if row is None or row.created_at is None:
        raise await missing_run(view, run_id)
    return row


async def run_detail(view: View, run_id: str) -> RunDetail:
    row = await find_run(view, run_id)
    summary = await _summary(view, row)
    return RunDetail(
        **summary.model_dump(),
        plan_id=row.plan_id,
        code_version=row.code_version,
        deployment_id=row.deployment_id,
        failure_policy=row.failure_policy,
        max_parallelism=row.max_parallelism,
        timeout_seconds=row.timeout_seconds,
        tags=row.tags,
        first_failure=row.first_failure,
        batch=row.batch,
    )


async def run_progress(view: View, run_id: str) -> RunProgress:
    """How the tasks of a run stand, counted by what makes them."""
    row = await find_run(view, run_id)
    tasks: list[TaskRow] = await view.rows(TASKS, run_id)
    states: dict[str, Counter[str]] = {}
    stages: dict[str, int] = {}
    held = Counter(task.unit for task in tasks if _is_held_back(task))
    for task in tasks:
        states.setdefault(task.unit, Counter())[task.state] += 1
        stages[task.unit] = min(task.stage, stages.get(task.unit, task.stage))
    return RunProgress(
        run_id=run_id,
        state=row.state,
        units=[
            UnitProgress(
                unit=unit,
                stage=stages[unit],
                task_count=found.total(),
                states=dict(sorted(found.items())),
                held_count=held[unit],
            )
            for unit, found in sorted(states.items(), key=lambda item: (stages[item[0]], item[0]))
        ],
        position=str(position_of_view(view)),
    )


def _is_held_back(task: TaskRow) -> bool:
    """Whether its checks held back what it made, whatever became of that since."""
    return task.state == TaskState.SUCCEEDED and task.gate is not None


async def _summary(view: View, row: RunRow) -> RunSummary:
    running = 0
    if not RunState(row.state).is_terminal:
        claims: list[ClaimRow] = await view.rows(CLAIMS, WORKSPACE)
        running = sum(claim.run_id == row.run_id for claim in claims)
    return RunSummary(
        run_id=row.run_id,
        state=row.state,
        selection=row.selection,
        trigger=row.trigger,
        rerun_of=row.rerun_of or None,
        run_key=row.run_key or None,
        mode=row.mode,
        priority=row.priority,
        task_count=row.task_count,
        skip_count=row.skip_count,
        succeeded_count=row.succeeded_count,
        failed_count=row.failed_count,
        skipped_count=row.skipped_count,
        cancelled_count=row.cancelled_count,
        running_count=running,
        triggered_by=row.triggered_by,
        created_at=format_time(row.created_at or 0),
        started_at=_time(row.started_at),
        ended_at=_time(row.ended_at),
        cancel_reason=row.cancel_reason,
    )


async def list_tasks(
    view: View,
    run_id: str,
    state: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
    watch: Watch | None = None,
) -> Page[TaskSummary]:
    """Tasks of a run in the order of their keys; with `state` only those that stand so.

    `watch` knows how far those have come that run.
    """
    await find_run(view, run_id)
    place = f"tasks/{run_id}/{state or ''}"
    last = decode_cursor(place, cursor, 1)
    after = None if last is None else (run_id, last[0])
    items: list[TaskSummary] = []
    check_limit(limit)
    while True:
        rows: list[TaskRow] = await view.page(TASKS, run_id, after, limit)
        for row in rows:
            if state is None or row.state == state:
                items.append(_task(row, watch))
            after = (run_id, row.task_key)
            if len(items) == limit:
                break
        if len(items) == limit or len(rows) < limit:
            break
    more = after is not None and len(items) == limit and bool(await view.page(TASKS, run_id, after, 1))
    return Page[TaskSummary](
        items=items,
        next_cursor=encode_cursor(place, (after[1],)) if more and after is not None else None,
        position=str(position_of_view(view)),
    )


async def find_task(view: View, run_id: str, task_key: str) -> TaskRow:
    await find_run(view, run_id)
    row: TaskRow | None = await view.get(TASKS, run_id, (run_id, task_key))
    if row is None:
        raise NotFound(f"the run {run_id} has no task {shown(task_key)}; `arco runs show {run_id}` lists its tasks")
    return row


async def task_detail(view: View, run_id: str, task_key: str, watch: Watch | None = None) -> TaskDetail:
    row = await find_task(view, run_id, task_key)
    planned: PlanTaskRow | None = await view.get(PLAN_TASKS, run_id, (run_id, task_key))
    attempts = []
    for number in range(1, row.attempt + 1):
        attempt: AttemptRow | None = await view.get(ATTEMPTS, run_id, (run_id, task_key, attempt_key(number)))
        if attempt is not None:
            attempts.append(_attempt(number, attempt))
    return TaskDetail(
        **_task(row, watch).model_dump(),
        upstream=list(planned.upstream) if planned else [],
        downstream=list(planned.downstream) if planned else [],
        inputs=[_input(given) for given in planned.inputs] if planned else [],
        outputs=[output.asset_key for output in planned.outputs] if planned else [],
        attempts=attempts,
    )


def _task(row: TaskRow, watch: Watch | None) -> TaskSummary:
    is_running = watch is not None and row.state == TaskState.RUNNING
    progress = watch.progress(row.attempt_id) if watch is not None and is_running else None
    return TaskSummary(
        task_key=row.task_key,
        asset_key=row.asset_key,
        partition_key=row.partition_key,
        stage=row.stage,
        state=row.state,
        attempt=row.attempt,
        worker=row.worker or None,
        started_at=_time(row.started_at),
        ended_at=_time(row.ended_at),
        retry_at=_time(row.retry_not_before) if row.state == TaskState.RETRY_WAIT else None,
        error_category=row.error_category,
        error=row.error,
        hints=[TaskHint(action=hint.action, command=hint.command or None) for hint in row.hints],
        reason=row.reason,
        gate=row.gate,
        progress=_progress(progress) if progress is not None else None,
    )


def _progress(progress: Progress) -> TaskProgress:
    return TaskProgress(
        tasks_done=progress.tasks_done,
        tasks_total=progress.tasks_total,
        stage=progress.stage,
        rows_written=progress.rows_written,
        bytes_written=progress.bytes_written,
        ui=progress.ui or None,
        attempts=progress.attempts,
    )


def _attempt(number: int, row: AttemptRow) -> AttemptInfo:
    return AttemptInfo(
        attempt=number,
        attempt_id=row.attempt_id,
        state=row.state,
        worker=row.worker,
        claimed_at=_time(row.claimed_at),
        ended_at=_time(row.ended_at),
        error_category=row.error_category,
        error_type=row.error_type,
        error=row.error,
        traceback=row.traceback,
        materialization_ids=list(row.materialization_ids),
        log_chunks=row.log_chunks,
        log_bytes=row.log_bytes,
        log_truncated=row.log_truncated,
        batch_id=row.batch_id,
        batch_tasks=row.batch_tasks,
    )


def _input(given: Input) -> InputInfo:
    pinned = sum(bool(pin.materialization_id) for pin in given.pins)
    open_ones = 0 if given.is_source else len(given.pins) - pinned
    return InputInfo(asset_key=given.asset_key, parameter=given.parameter, versions=pinned, from_run=open_ones)


def _time(moment: int | None) -> str | None:
    return None if moment is None else format_time(moment)


def plan_info(plan: Plan, plan_id: str) -> PlanInfo:
    """A plan as people read it."""
    estimate = estimate_plan(plan)
    known = estimate.unknown_count < len(plan.tasks)
    units = _units(plan)
    return PlanInfo(
        plan_id=plan_id,
        code_version=plan.code_version,
        catalog_position=plan.catalog_position,
        activity_position=plan.activity_position,
        task_count=len(plan.tasks),
        stage_count=max((task.stage for task in plan.tasks), default=-1) + 1,
        estimated_seconds=estimate.shortest_seconds if known else None,
        work_seconds=estimate.work_seconds if known else None,
        unknown_count=estimate.unknown_count,
        batch_count=sum(unit.batch_count for unit in units),
        units=units,
        skipped=_skipped(plan),
        tasks=[
            PlannedTaskInfo(
                task_key=task.task_key,
                task_id=task.task_id,
                stage=task.stage,
                outputs=[output.asset_key for output in task.outputs],
                upstream=list(task.upstream),
                inputs=[_input(given) for given in task.inputs],
                reason=task.reason,
                estimated_seconds=task.estimated_seconds,
                batch=task.batch or None,
            )
            for task in plan.tasks[:MAX_LISTED]
        ],
        skips=[_skip(skip) for skip in plan.skips[:MAX_LISTED]],
        truncated=max(len(plan.tasks), len(plan.skips)) > MAX_LISTED,
    )


def _units(plan: Plan) -> list[PlannedUnitInfo]:
    """What runs, by unit, in the order in which it begins."""
    reasons = {batching.unit: batching.reason for batching in plan.batching}
    found: dict[str, list[Task]] = {}
    for task in plan.tasks:
        found.setdefault(task.unit, []).append(task)
    return [_unit(unit, tasks, reasons.get(unit)) for unit, tasks in found.items()]


def _unit(unit: str, tasks: list[Task], reason: str | None) -> PlannedUnitInfo:
    batches = Counter(task.batch for task in tasks if task.batch)
    is_known = any(task.estimated_seconds is not None for task in tasks)
    return PlannedUnitInfo(
        unit=unit,
        outputs=[output.asset_key for output in tasks[0].outputs],
        stage=tasks[0].stage,
        task_count=len(tasks),
        first=min(task.task_key for task in tasks),
        last=max(task.task_key for task in tasks),
        estimated_seconds=work_seconds(tasks) if is_known else None,
        batch_count=len(batches),
        largest_batch=max(batches.values(), default=1),
        batching=reason,
    )


def _skipped(plan: Plan) -> list[SkippedAssetInfo]:
    found: dict[tuple[str, SkipKind], list[str]] = {}
    for skip in plan.skips:
        found.setdefault((skip.asset_key, skip_kind(skip)), []).append(skip.partition_key)
    return [
        SkippedAssetInfo(
            kind=_KINDS[kind], asset_key=asset, count=len(keys), first=_shown(min(keys)), last=_shown(max(keys))
        )
        for (asset, kind), keys in found.items()
    ]


def _shown(partition_key: str) -> str:
    return partition_text(PartitionKey.parse(partition_key))


def _skip(skip: Skip) -> SkipInfo:
    return SkipInfo(
        kind=_KINDS[skip_kind(skip)],
        asset_key=skip.asset_key,
        partition_key=skip.partition_key,
        reason=skip.reason,
    )


def cannot_run_info(skips: Iterable[Skip]) -> tuple[int, list[SkipInfo]]:
    """How much of what a plan leaves out cannot run, and the first of it."""
    found = [skip for skip in skips if skip_kind(skip) is SkipKind.CANNOT_RUN]
    return len(found), [_skip(skip) for skip in found[:MAX_CANNOT_RUN]]


async def explain_run(view: View, run_id: str) -> RunExplanation:
    """Why a run is where it is: what failed first, what followed from it, what it waits for."""
    run = await find_run(view, run_id)
    tasks: list[TaskRow] = await view.rows(TASKS, run_id)
    failed = [task for task in tasks if task.state == TaskState.FAILED]
    failed.sort(key=lambda task: (task.task_key != run.first_failure, task.ended_at or 0, task.task_key))
    causes = [
        f"{task.task_key} failed in attempt {task.attempt} ({task.error_category or 'unknown'}): {task.error or '?'}"
        for task in failed[:MAX_SENTENCES]
    ]
    held, held_hints = await _held_back(view, run_id, tasks)
    causes += held
    skipped = [task for task in tasks if task.state in (TaskState.SKIPPED, TaskState.CANCELLED)]
    causes += [f"{task.task_key} was {task.state.lower()}: {task.reason}" for task in skipped[:MAX_SENTENCES]]
    if len(failed) + len(skipped) > 2 * MAX_SENTENCES:
        causes.append(f"... and more: {len(failed)} failed, {len(skipped)} were skipped or cancelled in all")
    hints = {(hint.action, hint.command): hint for task in failed for hint in task.hints}
    hints |= {(hint.action, hint.command or ""): hint for hint in held_hints}
    return RunExplanation(
        run_id=run_id,
        state=run.state,
        summary=_summary_text(run),
        causes=causes,
        waiting=_waiting(tasks),
        hints=[TaskHint(action=hint.action, command=hint.command or None) for hint in hints.values()],
    )


async def _held_back(view: View, run_id: str, tasks: list[TaskRow]) -> tuple[list[str], list[Hint]]:
    """What tasks did that succeeded and whose checks hold their versions back, and what to do about it."""
    gated = [task for task in tasks if _is_held_back(task)]
    causes, hints, is_released = list[str](), list[Hint](), False
    for task in gated[:MAX_SENTENCES]:
        held = await _held_outputs(view, run_id, task)
        if not held:
            is_released = True
            causes.append(f"{task.task_key} succeeded; its checks held its version back, and it was released since")
            continue
        causes.append(f"{task.task_key} succeeded, but its checks hold its version back ({', '.join(held.values())})")
        partition = partition_text(PartitionKey.parse(task.partition_key))
        options = "".join(f" -p {quote(part)}" for part in partition.split(",") if part)
        action = "Look at what its checks found; release it if it is right after all"
        hints += [Hint(action, f"arco quarantine show {key}{options}") for key in held]
    if is_released:
        hints.append(Hint("Run what was skipped because of what is released by now", f"arco runs rerun {run_id}"))
    return causes, hints


async def _held_outputs(view: View, run_id: str, task: TaskRow) -> dict[str, str]:
    """How the versions stand that a task made and that are held back, by asset."""
    planned: PlanTaskRow | None = await view.get(PLAN_TASKS, run_id, (run_id, task.task_key))
    key = (run_id, task.task_key, attempt_key(task.attempt))
    attempt: AttemptRow | None = await view.get(ATTEMPTS, run_id, key)
    found: dict[str, str] = {}
    if planned is None or attempt is None:
        return found
    for output in planned.outputs:
        for name in attempt.materialization_ids:
            row: VersionStatus | None = await view.get(VERSION_STATUS, output.asset_id, name)
            if row is not None and row.status in HELD:
                found[output.asset_key] = row.status
    return found


def _summary_text(run: RunRow) -> str:
    done = f"{run.succeeded_count} of {run.task_count} tasks succeeded"
    rest = [
        f"{count} {word}"
        for count, word in (
            (run.failed_count, "failed"),
            (run.skipped_count, "skipped"),
            (run.cancelled_count, "cancelled"),
        )
        if count
    ]
    why = f"; {run.cancel_reason}" if run.cancel_reason else ""
    return f"{run.state}: {', '.join([done, *rest])}{why}"


def _waiting(tasks: list[TaskRow]) -> list[str]:
    found = []
    for task in tasks:
        if task.state == TaskState.RUNNING:
            found.append(
                f"{task.task_key} runs on {task.worker} since {_time(task.started_at)}, attempt {task.attempt}"
            )
        elif task.state == TaskState.RETRY_WAIT:
            found.append(f"{task.task_key} is tried again at {_time(task.retry_not_before)}: {task.error or ''}")
        elif task.state == TaskState.READY:
            found.append(f"{task.task_key} is ready and waits for a worker since {_time(task.ready_at)}")
    more = [f"... and {len(found) - MAX_SENTENCES} more"] if len(found) > MAX_SENTENCES else []
    return found[:MAX_SENTENCES] + more
