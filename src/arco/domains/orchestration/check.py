"""Whether a plan can be carried out: every task can begin once what it depends on has succeeded, and what runs together
is of one kind."""

from collections.abc import Iterable

from arco.core import Invalid
from arco.domains.orchestration.plan import Plan, Task

__all__ = ["check_plan"]


def check_plan(plan: Plan) -> None:
    """`Invalid` says which task is wrong. Stages that rise along every edge leave no room for a cycle."""
    tasks: dict[str, Task] = {}
    writers: dict[tuple[str, str], str] = {}
    for task in plan.tasks:
        if not task.task_key or task.task_key in tasks:
            raise Invalid(f"the plan has the task key {task.task_key!r} twice or empty; keys are unique in a plan")
        tasks[task.task_key] = task
        if not task.outputs:
            raise Invalid(f"the task {task.task_key} of the plan writes nothing; give it an output or leave it out")
        if len({output.asset_id for output in task.outputs}) < len(task.outputs):
            raise Invalid(f"the task {task.task_key} of the plan writes an asset twice; a task writes one partition")
        for output in task.outputs:
            place = (output.asset_id, output.partition_id)
            if place in writers:
                raise Invalid(
                    f"the tasks {writers[place]} and {task.task_key} of the plan both write {output.asset_key} "
                    f"[{output.partition_key}]; only one task of a run may write a partition"
                )
            writers[place] = task.task_key
    for task in tasks.values():
        _check_upstream(task, tasks)
    _check_batches(plan)


def _check_upstream(task: Task, tasks: dict[str, Task]) -> None:
    if len(set(task.upstream)) < len(task.upstream):
        raise Invalid(f"the task {task.task_key} of the plan names a task it depends on twice")
    missing = [key for key in task.upstream if key not in tasks]
    if missing:
        raise Invalid(f"the task {task.task_key} depends on {_some(missing)}, which the plan does not have")
    early = [key for key in task.upstream if tasks[key].stage >= task.stage]
    if early:
        raise Invalid(
            f"the task {task.task_key} of stage {task.stage} depends on {_some(early)} of the same or a later stage; "
            "a task's stage is greater than those of all it depends on, so there can be no cycle"
        )


def _check_batches(plan: Plan) -> None:
    first: dict[str, Task] = {}
    for task in plan.tasks:
        if not task.batch:
            continue
        if ":" in task.batch:
            raise Invalid(f"the batch {task.batch!r} of the plan has a colon in its name; choose another name")
        other = first.setdefault(task.batch, task)
        if (other.unit, other.stage) != (task.unit, task.stage):
            raise Invalid(
                f"the tasks {other.task_key} and {task.task_key} of the plan are both in the batch {task.batch}; a "
                "batch has tasks of one unit and one stage"
            )


def _some(keys: Iterable[str]) -> str:
    first, *more = keys
    return f"{first} and {len(more)} more" if more else first
