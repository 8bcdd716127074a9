"""Reading runs and tasks for people: what there is, and where it stands. Why it stands so: `arco.servo._explaining`."""

from collections import Counter

from arco.catalog import check_limit, decode_cursor, encode_cursor, position_of_view
from arco.core import NotFound, format_time, shown, time_text
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
    PlanTaskRow,
    RunListRow,
    RunRow,
    RunState,
    TaskRow,
    TaskState,
    attempt_key,
    missing_run,
)
from arco.servo._controllers import Watch
from arco.servo._plan_info import input_info
from arco.servo._protocol import Progress
from arco.state import Replica, Snapshot
from arco.wire import (
    AttemptInfo,
    Page,
    RunDetail,
    RunProgress,
    RunSummary,
    TaskDetail,
    TaskHint,
    TaskProgress,
    TaskSummary,
    UnitProgress,
)

__all__ = [
    "find_run",
    "is_held_back",
    "list_runs",
    "list_tasks",
    "run_detail",
    "run_progress",
    "task_detail",
]

View = Replica | Snapshot


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
    held = Counter(task.unit for task in tasks if is_held_back(task))
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


def is_held_back(task: TaskRow) -> bool:
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
        started_at=time_text(row.started_at),
        ended_at=time_text(row.ended_at),
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
        inputs=[input_info(given) for given in planned.inputs] if planned else [],
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
        started_at=time_text(row.started_at),
        ended_at=time_text(row.ended_at),
        retry_at=time_text(row.retry_not_before) if row.state == TaskState.RETRY_WAIT else None,
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
        claimed_at=time_text(row.claimed_at),
        ended_at=time_text(row.ended_at),
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
