"""Estimates: how long tasks will take, from how long they took.

Every task is timed from the begin of its batch, so a batch takes as long as the longest of its tasks, and no more.
"""

from collections.abc import Iterable

import msgspec

from arco.domains.orchestration.plan import Output, Plan, Task
from arco.servo._planning_state import PlanningState

__all__ = ["Estimate", "estimate_plan", "estimated_seconds", "work_seconds"]


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


def work_seconds(tasks: Iterable[Task]) -> float:
    """Tasks and batches one after the other."""
    found: dict[str, float] = {}
    for task in tasks:
        what = task.batch or task.task_key
        found[what] = max(found.get(what, 0.0), task.estimated_seconds or 0.0)
    return round(sum(found.values()), 3)


def estimate_plan(plan: Plan) -> Estimate:
    ends: dict[str, float] = {}
    for task in plan.tasks:
        begin = max((ends[upstream] for upstream in task.upstream), default=0.0)
        ends[task.task_key] = begin + (task.estimated_seconds or 0.0)
    return Estimate(
        work_seconds=work_seconds(plan.tasks),
        shortest_seconds=round(max(ends.values(), default=0.0), 3),
        unknown_count=sum(task.estimated_seconds is None for task in plan.tasks),
    )
