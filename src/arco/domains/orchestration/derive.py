"""What follows from the facts about a task or a run: pure functions from rows to rows, without any order in them.

- `derive_task`: a task's row from its plan, the edges into it, its newest attempt and its run.
- `Edge`, `edge_of`: what a task means to those that depend on it.
- `ready_row`, `ready_batch_row`, `retry_timer`, `claim_of`: rows of other tables that follow from a task's row.
- `derive_run`, `timeout_timer`, `active_run_of`: the same for runs.

A task that failed *by itself* ran out of tries; one whose next try its run prevented keeps `retry_not_before`.
"""

import msgspec

from arco.assets import GatingAction
from arco.core import SECOND
from arco.domains.orchestration.events import CancelKind, FailureCategory, FailurePolicy, Outcome, TaskFinished
from arco.domains.orchestration.ids import cloud_task_id, retry_timer_id, timeout_timer_id
from arco.domains.orchestration.retry import batch_limit, most_losses, retry_at
from arco.domains.orchestration.tables import (
    WORKSPACE,
    ActiveRunRow,
    AttemptRow,
    AttemptState,
    ClaimRow,
    PlanTaskRow,
    ReadyBatchRow,
    ReadyTaskRow,
    Resolution,
    RunRow,
    RunState,
    TaskRow,
    TaskState,
    TimerRow,
    TimerState,
    TimerType,
)
from arco.domains.orchestration.unknown import NO_ATTEMPT

__all__ = [
    "BLOCKING_GATES",
    "FINAL_GATES",
    "OPEN",
    "RESOLUTION_RANK",
    "Counts",
    "Edge",
    "Standing",
    "active_run_of",
    "attempt_state",
    "claim_of",
    "deadline_of",
    "derive_run",
    "derive_task",
    "edge_of",
    "failed_by_itself",
    "failure_order",
    "fired_timer",
    "ready_batch_row",
    "ready_key",
    "ready_row",
    "retry_timer",
    "timeout_timer",
]

# Plain text, as rows have it when they were read from a file. Attempts end in states of the same names.
PLANNED = TaskState.PLANNED.value
BLOCKED = TaskState.BLOCKED.value
READY = TaskState.READY.value
DISPATCHED = TaskState.DISPATCHED.value
RUNNING = TaskState.RUNNING.value
RETRY_WAIT = TaskState.RETRY_WAIT.value
SKIPPED = TaskState.SKIPPED.value
CANCELLED = TaskState.CANCELLED.value
FAILED = TaskState.FAILED.value
SUCCEEDED = TaskState.SUCCEEDED.value
REAPED = AttemptState.REAPED.value

FINAL_GATES = frozenset({GatingAction.FAIL_TASK.value, GatingAction.FAIL_RUN.value})
"""After these nothing is tried again."""
BLOCKING_GATES = FINAL_GATES | {GatingAction.BLOCK_DOWNSTREAM.value, GatingAction.QUARANTINE.value}
"""After these nothing that depends on the task begins."""

_OUTCOMES = {Outcome.SUCCEEDED: SUCCEEDED, Outcome.FAILED: FAILED, Outcome.CANCELLED: CANCELLED}


def attempt_state(event: TaskFinished) -> str:
    """How an attempt ended that its worker tells of. One whose process died was lost, whoever noticed it."""
    if event.failure is not None and event.failure.category is FailureCategory.WORKER_LOST:
        return REAPED
    return _OUTCOMES[event.outcome]


RESOLUTION_RANK = {resolution.value: rank for rank, resolution in enumerate(Resolution)}

_CLAIMABLE = frozenset({READY, DISPATCHED, RETRY_WAIT})
_MAX_PRIORITY = 10**9


class Edge(msgspec.Struct, frozen=True, gc=False):
    """What the task at its upstream end says of an edge."""

    resolution: str | None
    at: int | None
    attempt: int
    gate: str | None


OPEN = Edge(None, None, 0, None)
"""Nothing is decided yet."""

_RESOLUTIONS = {SUCCEEDED: "SUCCESS", FAILED: "FAILED", SKIPPED: "SKIPPED", CANCELLED: "CANCELLED"}


def edge_of(task: TaskRow | None) -> Edge:
    if task is None or task.ended_at is None:
        return OPEN
    resolution = "FAILED" if task.gate is not None and task.state == SUCCEEDED else _RESOLUTIONS[task.state]
    return Edge(resolution, task.ended_at, task.attempt, task.gate)


class Standing(msgspec.Struct, frozen=True, gc=False):
    """How the facts about a task stand, but for its plan and its run."""

    satisfied: int
    blocked_by: str | None
    blocker: TaskRow | None
    """The row of the task that blocks it."""
    ready_at: int | None
    newest: AttemptRow | None
    attempt: int
    failures: int
    losses: int
    dispatched: bool = False
    """A queue outside holds its next attempt."""


class _Outcome(msgspec.Struct, frozen=True, gc=False):
    state: str
    ended_at: int | None
    reason: str
    retry_not_before: int | None = None


_PLANNED = _Outcome(PLANNED, None, "")


def derive_task(run: RunRow, plan: PlanTaskRow | None, base: TaskRow, standing: Standing) -> TaskRow:
    """The row of a task. Of `base` only what never changes is taken."""
    newest, blocker = standing.newest, standing.blocker
    if plan is None:
        outcome = _PLANNED
    elif newest is None:
        outcome = _not_begun(run, plan, standing)
    else:
        outcome = _begun(run, plan, newest, standing, most_losses(base.batch_size))
    at = newest if newest is not None else NO_ATTEMPT
    updated_at = plan.planned_at if plan is not None else 0
    for time in (standing.ready_at, at.claimed_at, at.ended_at, outcome.ended_at):
        if time is not None and time > updated_at:
            updated_at = time
    return TaskRow(
        base.run_id,
        base.task_key,
        base.task_id,
        base.unit,
        base.asset_key,
        base.partition_key,
        base.stage,
        outcome.state,
        standing.attempt,
        at.attempt_id,
        at.worker,
        at.session,
        base.deps_total,
        standing.satisfied,
        standing.blocked_by,
        blocker.task_key if blocker is not None else None,
        standing.failures,
        standing.losses,
        base.max_failures,
        base.heartbeat_seconds,
        base.timeout_seconds,
        outcome.retry_not_before,
        standing.ready_at,
        at.claimed_at,
        outcome.ended_at,
        at.error_category,
        at.error_type,
        at.error,
        at.hints,
        outcome.reason,
        at.gate,
        updated_at,
        base.batch,
        base.batch_size,
        at.batch_id,
        at.batch_tasks,
    )


def _not_begun(run: RunRow, plan: PlanTaskRow, standing: Standing) -> _Outcome:
    if run.cancelled_at is not None:
        return _Outcome(CANCELLED, run.cancelled_at, _why_cancelled(run))
    if standing.blocked_by is not None:
        blocker = standing.blocker
        ended_at = blocker.ended_at if blocker is not None else None
        state = CANCELLED if standing.blocked_by == "CANCELLED" else SKIPPED
        return _Outcome(state, ended_at, _why_blocked(blocker))
    if run.stopped_at is not None:
        return _Outcome(SKIPPED, run.stopped_at, _why_stopped(run))
    if standing.ready_at is None:
        return _Outcome(BLOCKED, None, plan.reason)
    return _Outcome(DISPATCHED if standing.dispatched else READY, None, plan.reason)


def _begun(run: RunRow, plan: PlanTaskRow, newest: AttemptRow, standing: Standing, losses: int) -> _Outcome:
    state, ended_at = newest.state, newest.ended_at
    if ended_at is None:
        return _Outcome(RUNNING, None, plan.reason)
    if state in (SUCCEEDED, CANCELLED):
        return _Outcome(state, ended_at, plan.reason)
    if state == REAPED:
        is_final = standing.losses >= losses
    else:
        is_final = not newest.retryable or standing.failures > plan.retry_count
    if is_final:
        return _Outcome(FAILED, ended_at, plan.reason)
    due = retry_at(plan, standing.attempt, ended_at)
    cancelled_at, stopped_at = run.cancelled_at, run.stopped_at
    if stopped_at is not None and (cancelled_at is None or stopped_at < cancelled_at):
        return _Outcome(FAILED, max(ended_at, stopped_at), f"not tried again: {_why_stopped(run)}", due)
    if cancelled_at is not None:
        return _Outcome(CANCELLED, max(ended_at, cancelled_at), _why_cancelled(run), due)
    return _Outcome(DISPATCHED if standing.dispatched else RETRY_WAIT, None, plan.reason, due)


def _why_cancelled(run: RunRow) -> str:
    what = "the run took longer than it may" if run.cancel_kind == CancelKind.TIMED_OUT else "the run was cancelled"
    return f"{what}: {run.cancel_reason}" if run.cancel_reason else what


def _why_stopped(run: RunRow) -> str:
    return f"the run stopped because {run.first_failure} failed"


def _why_blocked(blocker: TaskRow | None) -> str:
    if blocker is None:
        return ""
    if blocker.state == SUCCEEDED:
        return f"blocked by checks of {blocker.task_key}"
    was = "failed" if blocker.state == FAILED else f"was {blocker.state.lower()}"
    return f"{blocker.task_key} {was}"


def failed_by_itself(task: TaskRow | None) -> bool:
    return task is not None and task.state == FAILED and task.retry_not_before is None


def failure_order(task: TaskRow) -> tuple[bool, int, str]:
    """Sorts tasks that failed by themselves: the first one is what ends the run."""
    return task.gate != GatingAction.FAIL_RUN, task.ended_at or 0, task.task_key


def ready_key(task: TaskRow | None) -> str | None:
    """The place of a task in the order of what may begin; None if it may not."""
    if task is None or task.state not in _CLAIMABLE:
        return None
    not_before = task.retry_not_before if task.retry_not_before is not None else task.ready_at or 0
    return f"{not_before:020d}:{task.stage:06d}:{task.task_key}"


def ready_row(task: TaskRow) -> ReadyTaskRow | None:
    """What may begin, and when; a queue outside may hold it meanwhile."""
    order = ready_key(task)
    if order is None:
        return None
    not_before = task.retry_not_before if task.retry_not_before is not None else task.ready_at or 0
    ready_at = task.ready_at if task.ready_at is not None else not_before
    limit = batch_limit(task.batch_size, task.losses) if task.batch is not None else 1
    together = (f"{task.batch}:{task.losses:03d}", limit) if limit > 1 else (None, None)
    return ReadyTaskRow(task.run_id, order, task.task_key, task.attempt + 1, not_before, ready_at, *together)


def ready_batch_row(ready: ReadyTaskRow | None) -> ReadyBatchRow | None:
    """The same among those that it may be claimed with."""
    if ready is None or ready.batch_key is None:
        return None
    order = f"{ready.batch_key}:{ready.not_before:020d}:{ready.task_key}"
    return ReadyBatchRow(ready.run_id, order, ready.task_key, ready.attempt, ready.not_before)


def retry_timer(task: TaskRow | None) -> TimerRow | None:
    """The wait for the next attempt after the newest one."""
    if task is None or task.retry_not_before is None:
        return None
    state = TimerState.SCHEDULED if task.ended_at is None else TimerState.CANCELLED
    return _retry_timer(task.run_id, task.task_key, task.attempt, task.retry_not_before, state)


def fired_timer(plan: PlanTaskRow, attempt: int, row: AttemptRow) -> TimerRow | None:
    """The wait after an attempt that a later one followed."""
    if row.ended_at is None or row.state not in (FAILED, REAPED):
        return None
    fire_at = retry_at(plan, attempt, row.ended_at)
    return _retry_timer(plan.run_id, plan.task_key, attempt, fire_at, TimerState.FIRED)


def _retry_timer(run_id: str, task_key: str, attempt: int, fire_at: int, state: TimerState) -> TimerRow:
    timer_id = retry_timer_id(run_id, task_key, attempt, fire_at)
    return TimerRow(
        run_id,
        timer_id,
        cloud_task_id("t", timer_id),
        TimerType.RETRY.value,
        task_key,
        attempt,
        fire_at,
        state.value,
    )


def claim_of(task: TaskRow | None) -> ClaimRow | None:
    if task is None or task.state != RUNNING or task.started_at is None:
        return None
    return ClaimRow(
        WORKSPACE,
        task.attempt_id,
        task.run_id,
        task.task_key,
        task.attempt,
        task.worker,
        task.session,
        task.started_at,
        task.heartbeat_seconds,
        None if task.timeout_seconds is None else task.timeout_seconds * (task.batch_tasks or 1),
        task.batch_id,
    )


class Counts(msgspec.Struct, frozen=True, gc=False):
    """Tasks of a run by how they ended."""

    succeeded: int
    failed: int
    skipped: int
    cancelled: int

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed + self.skipped + self.cancelled


def derive_run(run: RunRow, counts: Counts, first: TaskRow | None, updated_at: int) -> RunRow:
    """The row of a run from its facts and tasks; `first` is the failure that comes before all others."""
    state = _run_state(run, counts)
    is_stopped = first is not None and (
        run.failure_policy == FailurePolicy.FAIL_FAST or first.gate == GatingAction.FAIL_RUN
    )
    return msgspec.structs.replace(
        run,
        state=state,
        succeeded_count=counts.succeeded,
        failed_count=counts.failed,
        skipped_count=counts.skipped,
        cancelled_count=counts.cancelled,
        first_failure=first.task_key if first is not None else None,
        stopped_at=first.ended_at if first is not None and is_stopped else None,
        ended_at=updated_at if state in _RUN_ENDED else None,
        updated_at=updated_at,
    )


_RUN_PENDING = RunState.PENDING.value
_RUN_RUNNING = RunState.RUNNING.value
_RUN_CANCELLING = RunState.CANCELLING.value
_RUN_SUCCEEDED = RunState.SUCCEEDED.value
_RUN_FAILED = RunState.FAILED.value
_RUN_CANCELLED = RunState.CANCELLED.value
_RUN_ENDED = frozenset({_RUN_SUCCEEDED, _RUN_FAILED, _RUN_CANCELLED})


def _run_state(run: RunRow, counts: Counts) -> str:
    if run.created_at is None or run.planned_at is None:
        return _RUN_PENDING
    if counts.ended < run.task_count:
        return _RUN_RUNNING if run.cancelled_at is None else _RUN_CANCELLING
    if counts.failed or run.cancel_kind == CancelKind.TIMED_OUT:
        return _RUN_FAILED
    if run.cancelled_at is not None:
        return _RUN_CANCELLED
    if counts.skipped:
        return _RUN_FAILED
    return _RUN_CANCELLED if counts.cancelled else _RUN_SUCCEEDED


def deadline_of(run: RunRow) -> int | None:
    if run.timeout_seconds is None or run.created_at is None:
        return None
    return run.created_at + round(run.timeout_seconds * SECOND)


def timeout_timer(run: RunRow | None) -> TimerRow | None:
    deadline = deadline_of(run) if run is not None else None
    if run is None or deadline is None:
        return None
    if run.cancel_kind == CancelKind.TIMED_OUT:
        state = TimerState.FIRED
    else:
        state = TimerState.SCHEDULED if run.ended_at is None else TimerState.CANCELLED
    timer_id = timeout_timer_id(run.run_id, deadline)
    return TimerRow(
        run.run_id,
        timer_id,
        cloud_task_id("t", timer_id),
        TimerType.RUN_TIMEOUT.value,
        None,
        None,
        deadline,
        state.value,
    )


def active_run_of(run: RunRow | None) -> ActiveRunRow | None:
    if run is None or run.created_at is None or run.ended_at is not None:
        return None
    order = f"{_MAX_PRIORITY - run.priority:010d}:{run.created_at:020d}:{run.run_id}"
    deadline = deadline_of(run) if run.cancelled_at is None else None
    return ActiveRunRow(WORKSPACE, order, run.run_id, run.max_parallelism, run.state, deadline, run.created_at)
