"""Estimates: how long tasks will take, from how long they took.

Every task is timed from the begin of its batch, so a batch takes as long as the longest of its tasks, and no more.
"""

import msgspec

from arco.domains.orchestration.plan import Output, Plan
from arco.servo._planning_state import PlanningState

__all__ = ["Estimate", "estimate_plan", "estimated_seconds"]


def estimated_seconds(state: PlanningState, output: Output) -> float | None:
    """What the same partition took last, else what is usual for the asset; None if it never ran."""
    version = state.versions.get(output.asset_id, {}).get(output.partition_id)
    if version is not None and version.seconds is not None:
        return version.seconds
    return state.usual_seconds.get(output.asset_id)


class Estimate(msgspec.Struct, frozen=True):
    """What a plan will cost, as far as history tells."""

    work_seconds: float
    """All tasks and batches one after the other."""
    shortest_seconds: float
    """All at once, as far as they do not wait for each other."""
    unknown_count: int
    """Tasks that never ran; they count as nothing above."""


def estimate_plan(plan: Plan) -> Estimate:
    ends: dict[str, float] = {}
    work: dict[str, float] = {}
    """Of each batch, and of each task that is alone."""
    for task in plan.tasks:
        begin = max((ends[upstream] for upstream in task.upstream), default=0.0)
        seconds = task.estimated_seconds or 0.0
        ends[task.task_key] = begin + seconds
        what = task.batch or task.task_key
        work[what] = max(work.get(what, 0.0), seconds)
    return Estimate(
        work_seconds=round(sum(work.values()), 3),
        shortest_seconds=round(max(ends.values(), default=0.0), 3),
        unknown_count=sum(task.estimated_seconds is None for task in plan.tasks),
    )
