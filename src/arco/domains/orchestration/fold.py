"""The fold of orchestration: which facts there are, and which rows each of them adds to or changes.

Facts about a run may come in any order and more than once. What is known of an attempt is known of its greatest id;
the first claim and the first end of it count. The first of several cancels counts. Then `RunFold` derives the rest.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from arco.assets import GatingAction
from arco.core import Invalid
from arco.domains.orchestration.check import check_plan
from arco.domains.orchestration.decide_claims import active_runs
from arco.domains.orchestration.deciders import COMMANDS
from arco.domains.orchestration.derive import (
    BLOCKING_GATES,
    FINAL_GATES,
    RUNNING,
    active_run_of,
    attempt_state,
    claim_of,
)
from arco.domains.orchestration.events import (
    EVENTS,
    RUN_TRIGGERED,
    AttemptReaped,
    DispatchEnqueued,
    DispatchRequested,
    FailureCategory,
    PlanCreated,
    RunCancelled,
    RunTriggered,
    TaskClaimed,
    TaskFinished,
)
from arco.domains.orchestration.fold_run import RunFold
from arco.domains.orchestration.ids import MAX_ATTEMPT, attempt_key, cloud_task_id, newest_first
from arco.domains.orchestration.plan import Plan, Task
from arco.domains.orchestration.tables import (
    ACTIVE_RUNS,
    ATTEMPTS,
    CLAIMS,
    DEP_SATISFACTION,
    DISPATCH_OUTBOX,
    PLAN_TASKS,
    READY_BATCHES,
    READY_TASKS,
    RUN_KEYS,
    RUN_LIST,
    RUNS,
    TASKS,
    TIMERS,
    WORKSPACE,
    AttemptRow,
    AttemptState,
    DispatchRow,
    PlanTaskRow,
    RunKeyRow,
    RunListRow,
    RunRow,
    TaskRow,
)
from arco.domains.orchestration.unknown import NO_ATTEMPT, unknown_task
from arco.state import ByField, Change, Domain, Group, Hold, Input, Reject, Stage, View

__all__ = ["ORCHESTRATION"]


def _fold_run(group: Group, item: Input) -> None:
    fold = RunFold(group)
    _FACTS[type(item.payload)](fold, item, item.payload)
    fold.settle()


# Runs and plans


def _triggered(fold: RunFold, item: Input, event: RunTriggered) -> None:
    run = fold.run
    if run.created_at is not None:
        if item.received >= run.created_at:
            return
        fold.is_late = True
    is_planned = run.planned_at is not None
    fold.run = msgspec.structs.replace(
        run,
        plan_id=run.plan_id if is_planned else event.plan_id,
        code_version=event.code_version,
        deployment_id=event.deployment_id,
        run_key=event.run_key,
        request_fingerprint=event.request_fingerprint,
        selection=event.selection,
        trigger=event.trigger,
        rerun_of=event.rerun_of,
        mode=event.mode,
        failure_policy=event.failure_policy.value,
        max_parallelism=event.max_parallelism,
        timeout_seconds=event.timeout_seconds,
        priority=event.priority,
        tags=event.tags,
        partitions=event.partitions,
        traceparent=item.event.traceparent,
        triggered_by=item.event.actor,
        task_count=run.task_count if is_planned else event.task_count,
        created_at=item.received,
        window=event.window or None,
        batch=event.batch or None,
    )


def _cancelled(fold: RunFold, item: Input, event: RunCancelled) -> None:
    run = fold.run
    known = (run.cancelled_at, run.cancel_kind or "", run.cancel_reason or "")
    if known[0] is not None:
        if (item.received, event.kind.value, event.reason) >= known:
            return
        fold.is_late = True
    fold.run = msgspec.structs.replace(
        run, cancelled_at=item.received, cancel_kind=event.kind.value, cancel_reason=event.reason or None
    )


def _planned(fold: RunFold, item: Input, event: PlanCreated) -> None:
    run = fold.run
    if run.planned_at is not None:
        if run.plan_id != event.plan_id:
            raise Reject(f"the run {run.run_id} has the plan {run.plan_id} already, not {event.plan_id}")
        return
    plan: Plan | None = event.plan or item.attached
    if plan is None:
        raise Reject(f"the event that gives the run {run.run_id} its plan neither holds it nor has it attached")
    try:
        check_plan(plan)
    except Invalid as error:
        raise Reject(error.message) from None
    fold.run = msgspec.structs.replace(
        run,
        plan_id=event.plan_id,
        task_count=len(plan.tasks),
        skip_count=len(plan.skips),
        planned_at=item.received,
    )
    downstream: dict[str, list[str]] = {}
    for task in plan.tasks:
        for key in task.upstream:
            downstream.setdefault(key, []).append(task.task_key)
    sizes = Counter(task.batch for task in plan.tasks)
    for task in plan.tasks:
        below = tuple(sorted(downstream.get(task.task_key, ())))
        batch = task.batch if task.batch and sizes[task.batch] > 1 else None
        row = _task_row(run.run_id, task, batch, sizes[task.batch])
        fold.add_task(row, _plan_row(run.run_id, task, batch, below, item.received))


def _task_row(run_id: str, task: Task, batch: str | None, batch_size: int) -> TaskRow:
    return msgspec.structs.replace(
        unknown_task(run_id, task.task_key),
        task_id=task.task_id,
        unit=task.unit,
        asset_key=task.outputs[0].asset_key,
        partition_key=task.partition_key,
        stage=task.stage,
        deps_total=len(task.upstream),
        max_failures=task.retries.count + 1,
        heartbeat_seconds=task.heartbeat_seconds,
        timeout_seconds=task.timeout_seconds,
        batch=batch,
        batch_size=batch_size if batch is not None else None,
    )


def _plan_row(run_id: str, task: Task, batch: str | None, downstream: tuple[str, ...], planned_at: int) -> PlanTaskRow:
    retries = task.retries
    return PlanTaskRow(
        run_id,
        task.task_key,
        task.outputs,
        task.inputs,
        task.upstream,
        downstream,
        task.reason,
        retries.count,
        retries.delay_seconds,
        retries.backoff.value,
        retries.max_delay_seconds,
        retries.jitter,
        task.estimated_seconds,
        planned_at,
        batch,
    )


# Attempts

_AttemptFact = TaskClaimed | TaskFinished | AttemptReaped


def _known_attempt(fold: RunFold, event: _AttemptFact) -> AttemptRow | None:
    if not 1 <= event.attempt <= MAX_ATTEMPT:
        raise Reject(f"attempts are numbered from 1 to {MAX_ATTEMPT}, not {event.attempt}")
    return fold.attempt(event.task_key, event.attempt)


def _same_attempt(row: AttemptRow | None, event: _AttemptFact) -> AttemptRow | None:
    """What is known of the very attempt; nothing if another one had its number."""
    return row if row is not None and row.attempt_id == event.attempt_id else None


def _claimed(fold: RunFold, item: Input, event: TaskClaimed) -> None:
    run, received = fold.run, item.received
    if run.started_at is None or received < run.started_at:
        fold.is_late = run.started_at is not None
        fold.run = msgspec.structs.replace(run, started_at=received)
    before = _known_attempt(fold, event)
    if before is not None and before.attempt_id > event.attempt_id:
        return
    known = _same_attempt(before, event)
    if known is None:
        after = _begun(event)
    elif known.claimed_at is None or received < known.claimed_at:
        after = known
    else:
        return
    after = msgspec.structs.replace(
        after,
        worker=event.worker,
        session=event.session,
        claimed_at=received,
        batch_id=event.batch_id or None,
        batch_tasks=event.batch_tasks if event.batch_id else None,
    )
    fold.change_attempt(event.attempt, before, after)


def _begun(event: _AttemptFact) -> AttemptRow:
    return msgspec.structs.replace(
        NO_ATTEMPT,
        run_id=event.run_id,
        task_key=event.task_key,
        attempt_key=attempt_key(event.attempt),
        attempt_id=event.attempt_id,
    )


_GATES = {gate: gate.value for gate in GatingAction if gate.value in BLOCKING_GATES}


def _finished(fold: RunFold, item: Input, event: TaskFinished) -> None:
    before = _known_attempt(fold, event)
    state = attempt_state(event)
    if not _is_first_end(before, event, item.received, state):
        return
    known = _same_attempt(before, event)
    failure, log, gate = event.failure, event.log, _GATES.get(event.gate)
    after = AttemptRow(
        event.run_id,
        event.task_key,
        attempt_key(event.attempt),
        event.attempt_id,
        state,
        known.worker if known is not None else "",
        known.session if known is not None else "",
        known.claimed_at if known is not None else None,
        item.received,
        event.started_at,
        event.finished_at,
        failure.category.value if failure is not None else None,
        failure.error_type if failure is not None else None,
        failure.message if failure is not None else None,
        failure.traceback if failure is not None else None,
        failure.hints if failure is not None else (),
        failure is not None and failure.retryable and gate not in FINAL_GATES,
        gate,
        tuple([output.materialization_id for output in event.outputs]),
        log.chunks if log is not None else None,
        log.byte_size if log is not None else None,
        log is not None and log.truncated,
        known.batch_id if known is not None else None,
        known.batch_tasks if known is not None else None,
    )
    fold.change_attempt(event.attempt, before, after)


def _reaped(fold: RunFold, item: Input, event: AttemptReaped) -> None:
    before = _known_attempt(fold, event)
    state = AttemptState.REAPED.value
    if not _is_first_end(before, event, item.received, state):
        return
    known = _same_attempt(before, event)
    after = _begun(event)
    if known is not None:
        after = msgspec.structs.replace(
            after,
            worker=known.worker,
            session=known.session,
            claimed_at=known.claimed_at,
            batch_id=known.batch_id,
            batch_tasks=known.batch_tasks,
        )
    after = msgspec.structs.replace(
        after,
        state=state,
        ended_at=item.received,
        error_category=FailureCategory.WORKER_LOST.value,
        error=event.reason,
        retryable=True,
    )
    fold.change_attempt(event.attempt, before, after)


def _is_first_end(before: AttemptRow | None, event: TaskFinished | AttemptReaped, at: int, state: str) -> bool:
    if before is None or before.attempt_id < event.attempt_id:
        return True
    if before.attempt_id > event.attempt_id:
        return False
    return before.ended_at is None or (at, state) < (before.ended_at, before.state)


# Dispatches


def _dispatched(fold: RunFold, item: Input, event: DispatchRequested | DispatchEnqueued) -> None:
    received, before = item.received, fold.dispatch(event.task_key, event.attempt)
    created_at, queue, enqueued_at = received, "", None
    if before is not None:
        created_at, queue, enqueued_at = min(received, before.created_at), before.queue, before.enqueued_at
    if isinstance(event, DispatchRequested):
        queue = event.queue
    elif enqueued_at is None or received < enqueued_at:
        enqueued_at = received
    if fold.attempt(event.task_key, event.attempt) is not None:
        status = "ACKED"
    else:
        status = "PENDING" if enqueued_at is None else "CREATED"
    after = DispatchRow(
        event.run_id,
        event.dispatch_id,
        cloud_task_id("d", event.dispatch_id),
        event.task_key,
        event.attempt,
        queue,
        status,
        created_at,
        enqueued_at,
    )
    if after != before:
        fold.change_dispatch(after)


_FACTS: dict[type[Any], Callable[[RunFold, Input, Any], None]] = {
    RunTriggered: _triggered,
    PlanCreated: _planned,
    TaskClaimed: _claimed,
    TaskFinished: _finished,
    AttemptReaped: _reaped,
    RunCancelled: _cancelled,
    DispatchRequested: _dispatched,
    DispatchEnqueued: _dispatched,
}


# Run keys, and what concerns the whole workspace


def _key_of(item: Input) -> tuple[str, ...]:
    return (item.payload.run_key,) if item.payload.run_key else ()


def _fold_key(group: Group, item: Input) -> None:
    event: RunTriggered = item.payload
    if group.get(RUN_KEYS, event.run_key) is None:
        group.put(RUN_KEYS, RunKeyRow(event.run_key, event.run_id, event.request_fingerprint, item.received))


def _workspace_of(item: Input) -> tuple[str, ...]:
    return (WORKSPACE,)


def _fold_workspace(group: Group, item: Input) -> None:
    change: Change = item.payload
    if change.table == RUNS.name:
        _fold_active(group, change.before, change.after)
    else:
        _fold_claim(group, change.before, change.after)


def _fold_claim(group: Group, before: TaskRow | None, after: TaskRow) -> None:
    if after.state != RUNNING and (before is None or before.state != RUNNING):
        return
    old, new = claim_of(before), claim_of(after)
    if old is not None and (new is None or new.attempt_id != old.attempt_id):
        group.delete(CLAIMS, old.attempt_id)
    if new is not None and new != old:
        group.put(CLAIMS, new)


def _fold_active(group: Group, before: RunRow | None, after: RunRow) -> None:
    if before is not None and (before.state, before.created_at, before.cancelled_at) == (
        after.state,
        after.created_at,
        after.cancelled_at,
    ):
        return
    old, new = active_run_of(before), active_run_of(after)
    if old is not None and (new is None or new.order_key != old.order_key):
        group.delete(ACTIVE_RUNS, old.order_key)
    if new is not None and new != old:
        group.put(ACTIVE_RUNS, new)


async def _oldest_active(view: View) -> Hold | None:
    """Runs that have not ended stay, and so do all that are younger than the oldest of them."""
    oldest = min([run.run_id async for run in active_runs(view)], default="")
    since = RUNS.time_in(oldest)
    return None if since is None else Hold(since, f"the run {oldest} has not ended")


def _fold_list(group: Group, item: Input) -> None:
    run_id = item.payload.run_id
    order_key = newest_first(run_id)
    if group.get(RUN_LIST, order_key) is None:
        group.put(RUN_LIST, RunListRow(WORKSPACE, order_key, run_id))


ORCHESTRATION = Domain(
    name="orchestration",
    log="activity",
    version=2,
    events=EVENTS,
    stages=(
        Stage(
            "runs",
            (RUNS, TASKS, PLAN_TASKS, DEP_SATISFACTION, ATTEMPTS, TIMERS, DISPATCH_OUTBOX, READY_TASKS, READY_BATCHES),
            ByField("run_id"),
            _fold_run,
            events=tuple(kind.name for kind in EVENTS),
        ),
        Stage("run_keys", (RUN_KEYS,), _key_of, _fold_key, events=(RUN_TRIGGERED.name,)),
        Stage("run_list", (RUN_LIST,), lambda item: (WORKSPACE,), _fold_list, events=(RUN_TRIGGERED.name,)),
        Stage("workspace", (ACTIVE_RUNS, CLAIMS), _workspace_of, _fold_workspace, changes=(RUNS, TASKS)),
    ),
    commands=COMMANDS,
    holds={RUNS.name: _oldest_active},
)
