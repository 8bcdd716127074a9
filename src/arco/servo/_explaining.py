"""Why a run is where it is: what failed first, what followed from it, what it waits for, and what to do."""

from shlex import quote
from typing import Final

from arco.assets import partition_text
from arco.core import PartitionKey, time_text
from arco.domains.execution import HELD, VERSION_STATUS, VersionStatus
from arco.domains.orchestration import (
    ATTEMPTS,
    PLAN_TASKS,
    TASKS,
    AttemptRow,
    Hint,
    PlanTaskRow,
    RunRow,
    TaskRow,
    TaskState,
    attempt_key,
)
from arco.servo._reading import View, find_run, is_held_back
from arco.wire import RunExplanation, TaskHint

__all__ = ["explain_run"]

MAX_SENTENCES: Final = 20


async def explain_run(view: View, run_id: str) -> RunExplanation:
    run = await find_run(view, run_id)
    tasks: list[TaskRow] = await view.rows(TASKS, run_id)
    failed = [task for task in tasks if task.state == TaskState.FAILED]
    failed.sort(key=lambda task: (task.task_key != run.first_failure, task.ended_at or 0, task.task_key))
    causes = [
        f"{task.task_key} failed in attempt {task.attempt} ({task.error_category or 'unknown'}): {task.error or '?'}"
        for task in failed[:MAX_SENTENCES]
    ]
    held, held_hints = await _held_back(view, run_id, tasks)
    causes += held
    skipped = [task for task in tasks if task.state in (TaskState.SKIPPED, TaskState.CANCELLED)]
    causes += [f"{task.task_key} was {task.state.lower()}: {task.reason}" for task in skipped[:MAX_SENTENCES]]
    if len(failed) + len(skipped) > 2 * MAX_SENTENCES:
        causes.append(f"... and more: {len(failed)} failed, {len(skipped)} were skipped or cancelled in all")
    hints = {(hint.action, hint.command): hint for task in failed for hint in task.hints}
    hints |= {(hint.action, hint.command or ""): hint for hint in held_hints}
    return RunExplanation(
        run_id=run_id,
        state=run.state,
        summary=_summary(run),
        causes=causes,
        waiting=_waiting(tasks),
        hints=[TaskHint(action=hint.action, command=hint.command or None) for hint in hints.values()],
    )


async def _held_back(view: View, run_id: str, tasks: list[TaskRow]) -> tuple[list[str], list[Hint]]:
    """What tasks did that succeeded and whose checks hold their versions back, and what to do about it."""
    gated = [task for task in tasks if is_held_back(task)]
    causes, hints, is_released = list[str](), list[Hint](), False
    for task in gated[:MAX_SENTENCES]:
        held = await _held_outputs(view, run_id, task)
        if not held:
            is_released = True
            causes.append(f"{task.task_key} succeeded; its checks held its version back, and it was released since")
            continue
        causes.append(f"{task.task_key} succeeded, but its checks hold its version back ({', '.join(held.values())})")
        partition = partition_text(PartitionKey.parse(task.partition_key))
        options = "".join(f" -p {quote(part)}" for part in partition.split(",") if part)
        action = (
            "Look at what its checks found; release it if it is right after all, "
            "else correct its code or what it is made of, and run it again"
        )
        hints += [Hint(action, f"arco quarantine show {key}{options}") for key in held]
    if is_released:
        hints.append(Hint("Run what was skipped because of what is released by now", f"arco runs rerun {run_id}"))
    return causes, hints


async def _held_outputs(view: View, run_id: str, task: TaskRow) -> dict[str, str]:
    """How the versions stand that a task made and that are held back, by asset."""
    planned: PlanTaskRow | None = await view.get(PLAN_TASKS, run_id, (run_id, task.task_key))
    key = (run_id, task.task_key, attempt_key(task.attempt))
    attempt: AttemptRow | None = await view.get(ATTEMPTS, run_id, key)
    found: dict[str, str] = {}
    if planned is None or attempt is None:
        return found
    for output in planned.outputs:
        for name in attempt.materialization_ids:
            row: VersionStatus | None = await view.get(VERSION_STATUS, output.asset_id, name)
            if row is not None and row.status in HELD:
                found[output.asset_key] = row.status
    return found


def _summary(run: RunRow) -> str:
    done = f"{run.succeeded_count} of {run.task_count} tasks succeeded"
    rest = [
        f"{count} {word}"
        for count, word in (
            (run.failed_count, "failed"),
            (run.skipped_count, "skipped"),
            (run.cancelled_count, "cancelled"),
        )
        if count
    ]
    why = f"; {run.cancel_reason}" if run.cancel_reason else ""
    return f"{run.state}: {', '.join([done, *rest])}{why}"


def _waiting(tasks: list[TaskRow]) -> list[str]:
    found = []
    for task in tasks:
        if task.state == TaskState.RUNNING:
            found.append(
                f"{task.task_key} runs on {task.worker} since {time_text(task.started_at)}, attempt {task.attempt}"
            )
        elif task.state == TaskState.RETRY_WAIT:
            found.append(f"{task.task_key} is tried again at {time_text(task.retry_not_before)}: {task.error or ''}")
        elif task.state == TaskState.READY:
            found.append(f"{task.task_key} is ready and waits for a worker since {time_text(task.ready_at)}")
    more = [f"... and {len(found) - MAX_SENTENCES} more"] if len(found) > MAX_SENTENCES else []
    return found[:MAX_SENTENCES] + more
