"""Events of orchestration: facts that somebody decided or that happened. Readiness and outcomes are derived from them.

A finished task is one event: its state, its outputs, checks, observations and lineage can never disagree. It contains
facts of the other domains of the log as *parts*; each is folded by its own domain as if it had been told alone. So does
an attempt that was given up.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec

from arco.assets import GatingAction
from arco.domains.execution import (
    ASSET_OBSERVED,
    MATERIALIZATION_COMPLETED,
    MATERIALIZATION_FAILED,
    SCHEMA_RECORDED,
    AssetObserved,
    MaterializationCompleted,
    MaterializationFailed,
    SchemaRecorded,
)
from arco.domains.lineage import LINEAGE_RECORDED, LineageRecorded
from arco.domains.orchestration.plan import Plan
from arco.domains.quality import CHECK_EXECUTED, CheckExecuted
from arco.log import EventType, Instant, unchanged

__all__ = [
    "ATTEMPT_REAPED",
    "DISPATCH_ENQUEUED",
    "DISPATCH_REQUESTED",
    "EVENTS",
    "PLAN_CREATED",
    "RUN_CANCELLED",
    "RUN_TRIGGERED",
    "TASK_CLAIMED",
    "TASK_FINISHED",
    "AttemptReaped",
    "CancelKind",
    "DispatchEnqueued",
    "DispatchRequested",
    "FailureCategory",
    "FailurePolicy",
    "Hint",
    "Outcome",
    "PlanCreated",
    "RunCancelled",
    "RunTriggered",
    "TaskClaimed",
    "TaskFailure",
    "TaskFinished",
    "TaskLog",
]


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A payload, or a part of one."""


class FailurePolicy(StrEnum):
    FAIL_FAST = "fail_fast"
    """After the first task that failed for good nothing new begins."""
    CONTINUE = "continue"
    """Everything that does not depend on it goes on."""


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CancelKind(StrEnum):
    CANCELLED = "cancelled"
    """Somebody wanted it to end."""
    TIMED_OUT = "timed_out"
    """It took longer than it may."""


class FailureCategory(StrEnum):
    SCHEMA_VIOLATION = "schema_violation"
    DATA_QUALITY_FAILURE = "data_quality_failure"
    MISSING_DEPENDENCY = "missing_dependency"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    TIMEOUT = "timeout"
    STORAGE_ERROR = "storage_error"
    TRANSFORM_ERROR = "transform_error"
    CONFIGURATION_ERROR = "configuration_error"
    UPSTREAM_FAILURE = "upstream_failure"
    RATE_LIMITED = "rate_limited"
    WORKER_LOST = "worker_lost"


class Hint(Fact, frozen=True):
    """What to do about a failure."""

    action: str
    command: str = ""


class TaskFailure(Fact, frozen=True):
    category: FailureCategory
    error_type: str
    """The exception's class, such as `builtins.ValueError`."""
    message: str
    is_transient: bool = False
    """It may go away by itself."""
    retryable: bool = False
    """The asset's retries allow another attempt after this error."""
    traceback: str = ""
    hints: tuple[Hint, ...] = ()


class TaskLog(Fact, frozen=True):
    """What a task printed: kept in numbered chunks below the attempt's folder."""

    chunks: int
    byte_size: int
    truncated: bool = False


class RunTriggered(Fact, frozen=True):
    run_id: str
    plan_id: str
    """Fingerprint of the plan."""
    code_version: str
    deployment_id: str
    request_fingerprint: str
    selection: str
    task_count: int
    trigger: str = "manual"
    """`manual` or `rerun`."""
    rerun_of: str = ""
    run_key: str = ""
    mode: str = "standard"
    """`standard` or `force`."""
    failure_policy: FailurePolicy = FailurePolicy.CONTINUE
    max_parallelism: int = 0
    """Tasks of this run at once; 0 for as many as the workspace allows."""
    timeout_seconds: float | None = None
    priority: int = 0
    """Runs of a greater one go first."""
    tags: dict[str, str] = {}
    partitions: dict[str, str] = {}
    """What was asked for, by dimension."""
    window: str = ""
    """The range of time that was asked for, of dimensions that `partitions` does not name."""
    batch: int = 0
    """Tasks of a unit that run together; 1 for none, 0 for as many as the planner thinks best."""


class PlanCreated(Fact, frozen=True):
    """The plan of a run: here, or as the event's attachment if it is large."""

    run_id: str
    plan_id: str
    plan: Plan | None = None


class TaskClaimed(Fact, frozen=True):
    """A worker has a task to itself from now on, until this attempt ends by exactly one other event."""

    run_id: str
    task_key: str
    attempt: int
    attempt_id: str
    worker: str
    session: str
    """Of this life of the worker: what its earlier lives claimed is lost."""
    batch_id: str = ""
    """What was claimed together has the same one: the id of its first attempt. Empty for one that was claimed alone."""
    batch_tasks: int = 1
    """How many were."""


class TaskFinished(Fact, frozen=True):
    run_id: str
    task_key: str
    attempt: int
    attempt_id: str
    outcome: Outcome
    started_at: Instant
    finished_at: Instant
    failure: TaskFailure | None = None
    outputs: tuple[MaterializationCompleted, ...] = ()
    failed: tuple[MaterializationFailed, ...] = ()
    observations: tuple[AssetObserved, ...] = ()
    schemas: tuple[SchemaRecorded, ...] = ()
    """Columns of outputs that no version before them had."""
    checks: tuple[CheckExecuted, ...] = ()
    lineage: LineageRecorded | None = None
    gate: GatingAction = GatingAction.CONTINUE
    """The worst that the checks' gating asked for."""
    log: TaskLog | None = None


class AttemptReaped(Fact, frozen=True):
    """An attempt of which nothing will be heard any more: its worker or its process is gone, or ignored the end."""

    run_id: str
    task_key: str
    attempt: int
    attempt_id: str
    reason: str
    failed: tuple[MaterializationFailed, ...] = ()
    """What it was to write, as for an attempt that says itself that it failed."""


class RunCancelled(Fact, frozen=True):
    run_id: str
    kind: CancelKind = CancelKind.CANCELLED
    reason: str = ""


class DispatchRequested(Fact, frozen=True):
    """An intent: this task shall go into a queue outside. Not used by the embedded queue."""

    run_id: str
    task_key: str
    attempt: int
    dispatch_id: str
    cloud_task_id: str
    queue: str


class DispatchEnqueued(Fact, frozen=True):
    """An acknowledgement: the queue has taken it."""

    run_id: str
    task_key: str
    attempt: int
    dispatch_id: str


def _failed(event: TaskFinished | AttemptReaped) -> Iterator[tuple[str, Any]]:
    yield from ((MATERIALIZATION_FAILED.name, part) for part in event.failed)


def _parts(event: TaskFinished) -> Iterator[tuple[str, Any]]:
    yield from ((MATERIALIZATION_COMPLETED.name, part) for part in event.outputs)
    yield from _failed(event)
    yield from ((ASSET_OBSERVED.name, part) for part in event.observations)
    yield from ((SCHEMA_RECORDED.name, part) for part in event.schemas)
    yield from ((CHECK_EXECUTED.name, part) for part in event.checks)
    if event.lineage is not None:
        yield LINEAGE_RECORDED.name, event.lineage


RUN_TRIGGERED = EventType("RunTriggered", RunTriggered, 2, {1: unchanged}, audit=("TriggerRun", "run"))
PLAN_CREATED = EventType("PlanCreated", PlanCreated, 2, {1: unchanged}, attachment=Plan)
TASK_CLAIMED = EventType("TaskClaimed", TaskClaimed, 2, {1: unchanged})
TASK_FINISHED = EventType(
    "TaskFinished", TaskFinished, 3, {1: unchanged, 2: unchanged}, time=lambda event: event.finished_at, parts=_parts
)
ATTEMPT_REAPED = EventType("AttemptReaped", AttemptReaped, 2, {1: unchanged}, parts=_failed)
RUN_CANCELLED = EventType("RunCancelled", RunCancelled, audit=("CancelRun", "run"))
DISPATCH_REQUESTED = EventType("DispatchRequested", DispatchRequested)
DISPATCH_ENQUEUED = EventType("DispatchEnqueued", DispatchEnqueued)

EVENTS = (
    RUN_TRIGGERED,
    PLAN_CREATED,
    TASK_CLAIMED,
    TASK_FINISHED,
    ATTEMPT_REAPED,
    RUN_CANCELLED,
    DISPATCH_REQUESTED,
    DISPATCH_ENQUEUED,
)
