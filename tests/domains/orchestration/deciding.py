"""What tests of commands share: trigger a run, claim what is ready, finish with the outputs that were planned."""

from typing import Any

import msgspec

from arco.domains.execution import MaterializationCompleted
from arco.domains.orchestration import (
    ClaimTasks,
    FailureCategory,
    FinishTask,
    Outcome,
    Plan,
    TaskClaimed,
    TaskFailure,
    TriggerRun,
    materialization_id,
    plan_fingerprint,
)
from tests.domains.decider import Decider

__all__ = ["FAILURE", "asked", "claim_all", "finished", "output", "trigger"]

FAILURE = TaskFailure(FailureCategory.TRANSFORM_ERROR, "builtins.ValueError", "no", retryable=True)


def asked(plan: Plan, **more: Any) -> TriggerRun:
    given = {"plan": plan, "request_fingerprint": "request", **more}
    return TriggerRun(
        plan_id=plan_fingerprint(plan),
        code_version="v1",
        deployment_id="d1",
        selection="*",
        task_count=len(plan.tasks),
        **given,
    )


async def trigger(decider: Decider, plan: Plan, **more: Any) -> str:
    """Begin a run; its id."""
    events = await decider.decide(asked(plan, **more))
    return events[0].subject


async def claim_all(
    decider: Decider, slots: int = 100, capacity: int = 100, worker: str = "w1", session: str = "s1"
) -> list[TaskClaimed]:
    events = await decider.decide(ClaimTasks(worker, session, slots, capacity))
    return [msgspec.json.decode(event.data, type=TaskClaimed) for event in events]


def output(claim: TaskClaimed, claimed_at: int, **more: Any) -> MaterializationCompleted:
    """What the attempt was to write."""
    asset = f"asset-{claim.task_key}"
    given = {
        "materialization_id": materialization_id(claimed_at, claim.attempt_id, asset),
        "asset_id": asset,
        "asset_key": claim.task_key,
        "partition_id": f"partition-{claim.task_key}",
        "partition_key": "",
        "run_id": claim.run_id,
        "task_id": f"task-{claim.task_key}",
        "files": (),
        "row_count": 1,
        "byte_size": 1,
        "schema_hash": "",
        "started_at": claimed_at,
        "completed_at": claimed_at,
        **more,
    }
    return MaterializationCompleted(**given)


def finished(claim: TaskClaimed, claimed_at: int, outcome: Outcome = Outcome.SUCCEEDED, **more: Any) -> FinishTask:
    given: dict[str, Any] = {"started_at": claimed_at, "finished_at": claimed_at + 5}
    if outcome is Outcome.SUCCEEDED:
        given["outputs"] = (output(claim, claimed_at),)
    elif outcome is Outcome.FAILED:
        given["failure"] = FAILURE
    given |= more
    return FinishTask(claim.run_id, claim.task_key, claim.attempt, claim.attempt_id, outcome, **given)
