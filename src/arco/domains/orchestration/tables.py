"""Tables of orchestration. All but the last four live in the group of their run, so that one fold sees
everything that a fact can change.

- `runs`, `tasks`, `dep_satisfaction` (images): how a run, its tasks and the edges between them stand.
- `plan_tasks` (facts): what was planned; it never changes, so that the images stay small.
- `attempts` (images): one row per attempt: claimed, then ended.
- `timers` (images): deadlines that follow from facts: the next attempt of a task, the end of a run's time.
- `dispatch_outbox` (images): tasks on their way into a queue outside; empty with the embedded queue.
- `ready_tasks` (images): what may begin, in the order in which it should. A row goes when the task is claimed.
- `ready_batches` (images): of the same tasks those that may be claimed together with others, batch by batch.
- `run_keys` (facts): which run a caller's key stands for.
- `run_list` (images): all runs, newest first.
- `active_runs`, `claims` (images): the few rows of the whole workspace a dispatcher needs; rows go when they end.

A run expires with all its rows at once. Only runs that have ended do: see `holds` of the domain.
"""

from enum import StrEnum

import msgspec

from arco.domains.orchestration.events import Hint
from arco.domains.orchestration.plan import Input, Output
from arco.state import Kind, Table, Time

__all__ = [
    "ACTIVE_RUNS",
    "ATTEMPTS",
    "CLAIMS",
    "DEP_SATISFACTION",
    "DISPATCH_OUTBOX",
    "PLAN_TASKS",
    "READY_BATCHES",
    "READY_TASKS",
    "RUNS",
    "RUN_KEYS",
    "RUN_LIST",
    "TASKS",
    "TIMERS",
    "WORKSPACE",
    "ActiveRunRow",
    "AttemptRow",
    "AttemptState",
    "ClaimRow",
    "DepSatisfactionRow",
    "DispatchRow",
    "PlanTaskRow",
    "ReadyBatchRow",
    "ReadyTaskRow",
    "Resolution",
    "RunKeyRow",
    "RunListRow",
    "RunRow",
    "RunState",
    "TaskRow",
    "TaskState",
    "TimerRow",
    "TimerState",
    "TimerType",
]

WORKSPACE = "workspace"
"""The group of what concerns the whole workspace."""


class TaskState(StrEnum):
    PLANNED = "PLANNED"
    """Facts of it arrived before its plan."""
    BLOCKED = "BLOCKED"
    READY = "READY"
    DISPATCHED = "DISPATCHED"
    RUNNING = "RUNNING"
    RETRY_WAIT = "RETRY_WAIT"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    SUCCEEDED = "SUCCEEDED"

    @property
    def rank(self) -> int:
        """Greater is nearer to the end; ends differ by how much they say."""
        return _RANKS[self]

    @property
    def is_terminal(self) -> bool:
        return self.rank >= 10


_RANKS = {
    TaskState.PLANNED: 0,
    TaskState.BLOCKED: 1,
    TaskState.READY: 2,
    TaskState.DISPATCHED: 3,
    TaskState.RUNNING: 4,
    TaskState.RETRY_WAIT: 5,
    TaskState.SKIPPED: 10,
    TaskState.CANCELLED: 11,
    TaskState.FAILED: 12,
    TaskState.SUCCEEDED: 13,
}


class RunState(StrEnum):
    PENDING = "PENDING"
    """Facts of it arrived before its plan."""
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    """Nothing new begins; attempts that were claimed have not ended yet."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        return self in (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)


class AttemptState(StrEnum):
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    REAPED = "REAPED"


class Resolution(StrEnum):
    """What became of the upstream end of an edge. Declared in the order in which a later one wins."""

    SUCCESS = "SUCCESS"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class TimerType(StrEnum):
    RETRY = "RETRY"
    RUN_TIMEOUT = "RUN_TIMEOUT"


class TimerState(StrEnum):
    SCHEDULED = "SCHEDULED"
    FIRED = "FIRED"
    CANCELLED = "CANCELLED"


class RunRow(msgspec.Struct, frozen=True, gc=False):
    run_id: str
    state: str
    plan_id: str
    code_version: str
    deployment_id: str
    run_key: str
    request_fingerprint: str
    selection: str
    trigger: str
    rerun_of: str
    mode: str
    failure_policy: str
    max_parallelism: int
    timeout_seconds: float | None
    priority: int
    tags: dict[str, str]
    partitions: dict[str, str]
    traceparent: str
    """The trace it was triggered in; what its tasks do belongs to the same."""
    triggered_by: str
    task_count: int
    skip_count: int
    """What was asked for and is not in the plan: up to date, or it cannot run."""
    succeeded_count: int
    failed_count: int
    skipped_count: int
    cancelled_count: int
    cancel_kind: str | None
    cancel_reason: str | None
    first_failure: str | None
    """The task that failed for good before all others, or the first one whose checks failed the run."""
    created_at: Time | None
    """When it was triggered; None as long as only later facts are known."""
    planned_at: Time | None
    """When its plan was recorded; None as long as that is not known."""
    cancelled_at: Time | None
    """When it was first cancelled."""
    stopped_at: Time | None
    """When `first_failure` kept everything else from beginning; None if it did not."""
    started_at: Time | None
    """When its first task was claimed."""
    ended_at: Time | None
    updated_at: Time
    window: str | None
    """The range of time that was asked for, if any."""
    batch: int | None
    """Tasks of a unit that run together, as it was asked for; None if the planner chose."""


class TaskRow(msgspec.Struct, frozen=True, gc=False):
    run_id: str
    task_key: str
    task_id: str
    unit: str
    asset_key: str
    """The key of its first output."""
    partition_key: str
    stage: int
    state: str
    attempt: int
    """The newest attempt, 1 for the first; 0 before it."""
    attempt_id: str
    worker: str
    session: str
    deps_total: int
    deps_satisfied_count: int
    """Derived: edges into it whose resolution is SUCCESS."""
    blocked_by: str | None
    """The worst resolution of an edge into it other than SUCCESS."""
    blocked_on: str | None
    """The task at the other end of that edge; of several the one with the least key."""
    failures: int
    """Attempts that failed by themselves."""
    losses: int
    """Attempts that were reaped."""
    max_failures: int
    """Failures after which it has failed for good."""
    heartbeat_seconds: float
    timeout_seconds: float | None
    retry_not_before: Time | None
    """When its next attempt may begin, or could have begun if the run had not ended it."""
    ready_at: Time | None
    """When all it depends on had succeeded."""
    started_at: Time | None
    """When its newest attempt was claimed."""
    ended_at: Time | None
    error_category: str | None
    error_type: str | None
    error: str | None
    hints: tuple[Hint, ...]
    reason: str
    """Why it is in the plan; once it is skipped or cancelled, why that is."""
    gate: str | None
    """What its checks did to those that depend on it, if anything."""
    updated_at: Time
    batch: str | None
    """Tasks of the run with the same one may run together; None if it runs alone."""
    batch_size: int | None
    """How many the plan has of them."""
    batch_id: str | None
    """What its newest attempt was claimed together with; None if alone."""
    batch_tasks: int | None
    """How many attempts that were."""


class PlanTaskRow(msgspec.Struct, frozen=True, gc=False):
    run_id: str
    task_key: str
    outputs: tuple[Output, ...]
    inputs: tuple[Input, ...]
    upstream: tuple[str, ...]
    downstream: tuple[str, ...]
    reason: str
    """Why it is in the plan."""
    retry_count: int
    retry_delay_seconds: float
    retry_backoff: str
    retry_max_delay_seconds: float
    retry_jitter: float
    estimated_seconds: float | None
    planned_at: Time
    batch: str | None
    """Tasks of the run with the same one may run together; None if it runs alone."""


class DepSatisfactionRow(msgspec.Struct, frozen=True, gc=False):
    run_id: str
    upstream_task_key: str
    downstream_task_key: str
    satisfied: bool
    resolution: str | None
    satisfied_at: Time | None
    satisfying_attempt: int | None


class AttemptRow(msgspec.Struct, frozen=True, gc=False):
    run_id: str
    task_key: str
    attempt_key: str
    """The attempt's number in six digits, so that rows are in order."""
    attempt_id: str
    state: str
    worker: str
    session: str
    claimed_at: Time | None
    ended_at: Time | None
    """When its end was recorded."""
    started_at: Time | None
    finished_at: Time | None
    """Both as the worker's clock told; None if it was reaped."""
    error_category: str | None
    error_type: str | None
    error: str | None
    traceback: str | None
    hints: tuple[Hint, ...]
    retryable: bool
    gate: str | None
    """What its checks asked for, if it was more than a warning."""
    materialization_ids: tuple[str, ...]
    log_chunks: int | None
    log_bytes: int | None
    log_truncated: bool
    batch_id: str | None
    """Attempts with the same one were claimed together, run in one driver and share a log; None if alone."""
    batch_tasks: int | None
    """How many they were."""


class TimerRow(msgspec.Struct, frozen=True, gc=False):
    run_id: str
    timer_id: str
    cloud_task_id: str
    timer_type: str
    task_key: str | None
    attempt: int | None
    fire_at: Time
    state: str


class DispatchRow(msgspec.Struct, frozen=True, gc=False):
    run_id: str
    dispatch_id: str
    cloud_task_id: str
    task_key: str
    attempt: int
    queue: str
    status: str
    """`PENDING` when requested, `CREATED` when the queue took it, `ACKED` when the attempt was claimed."""
    created_at: Time
    enqueued_at: Time | None


class ReadyTaskRow(msgspec.Struct, frozen=True, gc=False):
    run_id: str
    order_key: str
    """Sorts by when it may begin, then by stage, then by task."""
    task_key: str
    attempt: int
    """The number its next attempt will have."""
    not_before: Time
    ready_at: Time
    batch_key: str | None
    """Those with the same one may be claimed together: of one batch, and lost equally often. None if it is alone."""
    batch_limit: int | None
    """How many of them at once."""


class ReadyBatchRow(msgspec.Struct, frozen=True, gc=False):
    run_id: str
    order_key: str
    """The batch key, then by when it may begin, then by task."""
    task_key: str
    attempt: int
    not_before: Time


class RunKeyRow(msgspec.Struct, frozen=True, gc=False):
    run_key: str
    run_id: str
    request_fingerprint: str
    created_at: Time


class RunListRow(msgspec.Struct, frozen=True, gc=False):
    workspace: str
    order_key: str
    """Sorts the newest run first."""
    run_id: str


class ActiveRunRow(msgspec.Struct, frozen=True, gc=False):
    workspace: str
    order_key: str
    """Sorts by priority, greatest first, then by when it was triggered."""
    run_id: str
    max_parallelism: int
    state: str
    deadline: Time | None
    created_at: Time


class ClaimRow(msgspec.Struct, frozen=True, gc=False):
    workspace: str
    attempt_id: str
    run_id: str
    task_key: str
    attempt: int
    worker: str
    session: str
    claimed_at: Time
    heartbeat_seconds: float
    timeout_seconds: float | None
    """How long it may take together with all it was claimed with: the time of one task for each of them."""
    batch_id: str | None
    """Claims with the same one are one slot; None if it is one by itself."""

    @property
    def slot(self) -> str:
        """What it occupies: the same for all claims of a batch."""
        return self.batch_id or self.attempt_id


def _of_run(
    name: str, row: type[msgspec.Struct], key: tuple[str, ...], group: str = "run_id", kind: Kind = Kind.IMAGE
) -> Table:
    """A table of what is known of runs: it expires with them, by the time that the id of a run begins with."""
    return Table(name, row, kind, key, group, time="run_id", expires_with="runs")


RUNS = Table("runs", RunRow, Kind.IMAGE, ("run_id",), "run_id", time="run_id")
TASKS = _of_run("tasks", TaskRow, ("run_id", "task_key"))
PLAN_TASKS = _of_run("plan_tasks", PlanTaskRow, ("run_id", "task_key"), kind=Kind.FACT)
DEP_SATISFACTION = _of_run(
    "dep_satisfaction", DepSatisfactionRow, ("run_id", "upstream_task_key", "downstream_task_key")
)
ATTEMPTS = _of_run("attempts", AttemptRow, ("run_id", "task_key", "attempt_key"))
TIMERS = _of_run("timers", TimerRow, ("run_id", "timer_id"))
DISPATCH_OUTBOX = _of_run("dispatch_outbox", DispatchRow, ("run_id", "dispatch_id"))
READY_TASKS = _of_run("ready_tasks", ReadyTaskRow, ("run_id", "order_key"))
READY_BATCHES = _of_run("ready_batches", ReadyBatchRow, ("run_id", "order_key"))
RUN_KEYS = _of_run("run_keys", RunKeyRow, ("run_key",), "run_key", Kind.FACT)
RUN_LIST = _of_run("run_list", RunListRow, ("order_key",), "workspace")
ACTIVE_RUNS = _of_run("active_runs", ActiveRunRow, ("order_key",), "workspace")
CLAIMS = _of_run("claims", ClaimRow, ("attempt_id",), "workspace")
