"""What runs under way have pinned: versions that their tasks will read, whatever happens to them meanwhile.

A run keeps its inputs to the end. A version that one of them names must stay readable until the run is over.
"""

from collections.abc import AsyncIterator

from arco.domains.orchestration import ACTIVE_RUNS, PLAN_TASKS, WORKSPACE, ActiveRunRow, PlanTaskRow
from arco.state import View

__all__ = ["pinned_versions", "runs_that_read"]


async def pinned_versions(view: View) -> set[str]:
    """Ids of all versions that runs under way were planned to read."""
    return {name async for _, name in _pins(view)}


async def runs_that_read(view: View, materialization_id: str) -> list[str]:
    """Ids of the runs under way that were planned to read a version."""
    return sorted({run_id async for run_id, name in _pins(view) if name == materialization_id})


async def _pins(view: View) -> AsyncIterator[tuple[str, str]]:
    active: list[ActiveRunRow] = await view.rows(ACTIVE_RUNS, WORKSPACE)
    for run in active:
        tasks: list[PlanTaskRow] = await view.rows(PLAN_TASKS, run.run_id)
        for task in tasks:
            for given in task.inputs:
                for pin in given.pins:
                    if pin.materialization_id:
                        yield run.run_id, pin.materialization_id
