"""Commands of orchestration: what somebody wants of runs and tasks. Each is decided by the function of `deciders`."""

from typing import Annotated

import msgspec

from arco.domains.orchestration.events import CancelKind, FailurePolicy, TaskFinished
from arco.domains.orchestration.plan import Plan

__all__ = [
    "MAX_PRIORITY",
    "STALE_ATTEMPT",
    "CancelRun",
    "ClaimTasks",
    "ConfirmDispatch",
    "FinishTask",
    "ReapAttempts",
    "ReapWorker",
    "RequestDispatch",
    "TriggerRun",
]

MAX_PRIORITY = 1_000_000

STALE_ATTEMPT = "stale_attempt"
"""What the details of a `Conflict` say of an attempt that is over, or was never claimed."""

Id = Annotated[str, msgspec.Meta(min_length=1)]
Some = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Priority = Annotated[int, msgspec.Meta(ge=-MAX_PRIORITY, le=MAX_PRIORITY)]


class _Command(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What somebody wants."""


class TriggerRun(_Command, frozen=True):
    """Begin a run of a plan. Its id is `decision.new_id("run")`.

    A `run_key` stands for one run: with the same request it is the run that exists, with another it is a conflict.
    """

    plan_id: Id
    code_version: str
    deployment_id: str
    request_fingerprint: str
    selection: str
    task_count: Count
    plan: Plan | None = None
    """The plan itself, or None if it is the blob `plan_blob`."""
    plan_blob: str = ""
    """sha256 of a blob that holds the plan as JSON, for one that is too large for an event."""
    trigger: str = "manual"
    rerun_of: str = ""
    run_key: str = ""
    mode: str = "standard"
    failure_policy: FailurePolicy = FailurePolicy.CONTINUE
    max_parallelism: Count = 0
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    priority: Priority = 0
    tags: dict[str, str] = {}
    partitions: dict[str, str] = {}
    window: str = ""
    batch: Count = 0


class ClaimTasks(_Command, frozen=True):
    """A worker takes what may begin now: as many tasks and batches as it has free slots for, at most."""

    worker: Id
    session: Id
    slots: Annotated[int, msgspec.Meta(ge=1, le=1_000)]
    capacity: Some
    """Tasks and batches that may run at once in the whole workspace."""


class FinishTask(TaskFinished, frozen=True):
    """An attempt ended and this is what came of it. Valid only as long as the attempt runs, and once."""


class ReapAttempts(_Command, frozen=True):
    """Give up attempts of which nothing is heard any more: those of a batch together, so that they go on together."""

    attempt_ids: Annotated[tuple[Id, ...], msgspec.Meta(min_length=1)]
    reason: Id
    began: bool = True
    """False if no worker was ever told of them: then what they were to write has not failed."""


class ReapWorker(_Command, frozen=True):
    """A worker begins a new life: what its earlier ones claimed is lost."""

    worker: Id
    session: Id


class CancelRun(_Command, frozen=True):
    """Nothing new of the run begins; what runs is told to end."""

    run_id: Id
    kind: CancelKind = CancelKind.CANCELLED
    reason: str = ""


class RequestDispatch(_Command, frozen=True):
    """Note that the next attempt of a task goes into a queue outside, before it does."""

    run_id: Id
    task_key: Id
    attempt: Some
    queue: Id


class ConfirmDispatch(_Command, frozen=True):
    """Note that the queue has taken it."""

    run_id: Id
    dispatch_id: Id
