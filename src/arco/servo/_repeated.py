"""What a rerun reads: the versions that the run it repeats read, as far as they are still good.

Those its plan pinned, and those its own tasks wrote for others that did not succeed. A version that was set aside or
has expired since is not read again: the newest good one takes its place, as in a run of its own.
"""

from arco.domains.execution import (
    MATERIALIZATIONS,
    PUBLISHED,
    VERSION_STATUS,
    Materialization,
    VersionStatus,
)
from arco.domains.orchestration import PLAN_TASKS, TASKS, PlanTaskRow, TaskRow, TaskState
from arco.servo._replaced import written_in
from arco.state import View

__all__ = ["Read", "is_good", "versions_read"]

Read = dict[str, dict[str, str]]
"""Versions by asset id and partition id."""


async def versions_read(view: View, run_id: str) -> Read:
    """What the tasks of a run read, and what they wrote; nothing if the run is not known any more."""
    planned: list[PlanTaskRow] = await view.rows(PLAN_TASKS, run_id)
    tasks: list[TaskRow] = await view.rows(TASKS, run_id)
    done = {task.task_key: task for task in tasks if task.state == TaskState.SUCCEEDED}
    found: Read = {}
    for row in planned:
        for given in row.inputs:
            for pin in given.pins:
                if pin.materialization_id:
                    found.setdefault(given.asset_id, {})[pin.partition_id] = pin.materialization_id
        task = done.get(row.task_key)
        for output, made in await written_in(view, task, row) if task is not None else ():
            found.setdefault(output.asset_id, {})[output.partition_id] = made
    return found


async def is_good(view: View, asset_id: str, materialization_id: str) -> bool:
    """Whether readers may still get a version."""
    row: Materialization | None = await view.get(MATERIALIZATIONS, asset_id, materialization_id)
    said: VersionStatus | None = await view.get(VERSION_STATUS, asset_id, materialization_id)
    return row is not None and (said.status if said is not None else row.status) == PUBLISHED
