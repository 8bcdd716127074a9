"""The decider of `FinishTask`: one event holds everything an attempt did, so everything in it must belong together.

Only the task's newest attempt can end, and only while it runs. The same result told again is no event; any other late
one is a conflict with the code `stale_attempt`.
"""

from collections.abc import Iterable, Mapping

import msgspec

from arco.assets import GatingAction
from arco.core import Conflict, Invalid
from arco.domains.execution import ASSET_SCHEMAS, AssetObserved, MaterializationCompleted, MaterializationFailed
from arco.domains.orchestration.commands import STALE_ATTEMPT, FinishTask
from arco.domains.orchestration.decide_claims import known_task
from arco.domains.orchestration.derive import BLOCKING_GATES, FINAL_GATES, RUNNING, attempt_state
from arco.domains.orchestration.events import TASK_FINISHED, Outcome
from arco.domains.orchestration.ids import attempt_key, materialization_id
from arco.domains.orchestration.tables import ATTEMPTS, PLAN_TASKS, AttemptRow, PlanTaskRow, TaskRow
from arco.domains.quality import CheckExecuted
from arco.log import NewEvent
from arco.state import Decision, View, new_event

__all__ = ["finish_task"]

_Part = MaterializationCompleted | MaterializationFailed | CheckExecuted


async def finish_task(command: FinishTask, view: View, decision: Decision) -> list[NewEvent]:
    run_id, task_key = command.run_id, command.task_key
    task = await known_task(view, run_id, task_key)
    number = attempt_key(command.attempt)
    attempt: AttemptRow | None = await view.get(ATTEMPTS, run_id, (run_id, task_key, number))
    plan: PlanTaskRow | None = await view.get(PLAN_TASKS, run_id, (run_id, task_key))
    is_newest = (task.attempt, task.attempt_id) == (command.attempt, command.attempt_id)
    if attempt is None or plan is None or not is_newest or task.state != RUNNING:
        if attempt is not None and _is_repeated(attempt, command):
            return []
        raise _stale(task, command)
    _check_outcome(command)
    _check_parts(command, task, plan, attempt.claimed_at or 0)
    return [new_event(TASK_FINISHED, await _with_new_schemas(command, view), subject=run_id)]


async def _with_new_schemas(command: FinishTask, view: View) -> FinishTask:
    """Without the columns that are known: nearly every version has those of the one before it."""
    schemas = [
        schema
        for schema in command.schemas
        if await view.get(ASSET_SCHEMAS, schema.asset_id, (schema.asset_id, schema.schema_hash)) is None
    ]
    return msgspec.structs.replace(command, schemas=tuple(schemas)) if command.schemas else command


def _stale(task: TaskRow, command: FinishTask) -> Conflict:
    return Conflict(
        f"attempt {command.attempt} ({command.attempt_id}) of the task {task.task_key} has ended or was given up; the "
        f"task is {task.state} at attempt {task.attempt}. Drop this result",
        code=STALE_ATTEMPT,
        attempt=task.attempt,
        attempt_id=task.attempt_id,
        state=task.state,
    )


def _is_repeated(attempt: AttemptRow, command: FinishTask) -> bool:
    """This very result ended this very attempt."""
    failure, log, gate = command.failure, command.log, command.gate.value
    told = (
        command.attempt_id,
        attempt_state(command),
        command.started_at,
        command.finished_at,
        tuple(output.materialization_id for output in command.outputs),
        gate if gate in BLOCKING_GATES else None,
        (failure.category.value, failure.error_type, failure.message, failure.traceback, failure.hints)
        if failure is not None
        else (None, None, None, None, ()),
        (log.chunks, log.byte_size, log.truncated) if log is not None else (None, None, False),
    )
    return told == (
        attempt.attempt_id,
        attempt.state,
        attempt.started_at,
        attempt.finished_at,
        attempt.materialization_ids,
        attempt.gate,
        (attempt.error_category, attempt.error_type, attempt.error, attempt.traceback, attempt.hints),
        (attempt.log_chunks, attempt.log_bytes, attempt.log_truncated),
    )


def _check_outcome(command: FinishTask) -> None:
    """Outcome, failure, gate and outputs say the same."""
    is_success = command.outcome is Outcome.SUCCEEDED
    gate = command.gate.value
    if command.finished_at < command.started_at:
        raise Invalid("the task finished before it started; `started_at` and `finished_at` are mixed up")
    if (command.outcome is Outcome.FAILED) != (command.failure is not None):
        raise Invalid("a failed task has a failure that says why, and no other one has")
    if is_success and command.failed:
        raise Invalid("a task that succeeded has no failed outputs")
    if not is_success and any(output.status == "published" for output in command.outputs):
        raise Invalid("a task that did not succeed publishes nothing; report its outputs as quarantined or not at all")
    if gate in FINAL_GATES and command.outcome is not Outcome.FAILED:
        raise Invalid(f"checks that ask for {gate} make the task fail; report it as failed")
    if gate in BLOCKING_GATES - FINAL_GATES and not is_success:
        raise Invalid(f"checks that ask for {gate} do not make the task fail; only one that succeeded has this gate")
    if command.gate is GatingAction.QUARANTINE and all(output.status == "published" for output in command.outputs):
        raise Invalid("checks that ask for quarantine leave at least one output quarantined")


def _check_parts(command: FinishTask, task: TaskRow, plan: PlanTaskRow, claimed_at: int) -> None:
    """Every fact in the event is about this attempt and what it was planned to write."""
    planned = {(output.asset_id, output.partition_id) for output in plan.outputs}
    read = {(given.asset_id, pin.partition_id) for given in plan.inputs if given.is_source for pin in given.pins}
    written = {(part.asset_id, part.materialization_id, part.schema_hash) for part in command.outputs}
    for schema in command.schemas:
        if (schema.asset_id, schema.materialization_id, schema.schema_hash) not in written:
            raise Invalid(f"the columns of {schema.asset_id} are not those of a version that this task has written")
    versions = {asset_id: materialization_id(claimed_at, command.attempt_id, asset_id) for asset_id, _ in planned}
    parts: list[_Part] = [*command.outputs, *command.failed, *command.checks]
    _check_same("run_id", command.run_id, [part.run_id for part in (*parts, *command.observations)])
    _check_same("task_id", task.task_id, [part.task_id for part in parts])
    seen = [part for part in command.observations if (part.asset_id, part.partition_id) not in read]
    done: list[_Part | AssetObserved] = [*command.outputs, *seen]
    for part in (*parts, *seen):
        if (part.asset_id, part.partition_id) not in planned:
            raise Invalid(
                f"the task {task.task_key} was not planned to write the partition {part.partition_id} of "
                f"{part.asset_id}; report only its own outputs"
            )
    told = {(part.asset_id, part.partition_id) for part in done}
    if len(told) < len(done):
        raise Invalid(f"the task {task.task_key} reports an output twice; report each once")
    if command.outcome is Outcome.SUCCEEDED and told != planned:
        names = ", ".join(sorted(asset_id for asset_id, _ in planned - told))
        raise Invalid(f"the task {task.task_key} succeeded without its output of {names}; report every output")
    _check_versions(command, task, versions)


def _check_versions(command: FinishTask, task: TaskRow, versions: Mapping[str, str]) -> None:
    """What was written is what this attempt was to write."""
    found = [(part.asset_id, part.materialization_id) for part in command.outputs]
    found += [(part.asset_id, part.materialization_id) for part in command.checks]
    lineage = command.lineage
    if lineage is not None:
        _check_same("run_id", command.run_id, [lineage.run_id])
        _check_same("task_id", task.task_id, [lineage.task_id])
        for edge in lineage.edges:
            if edge.target_id not in versions:
                raise Invalid(f"the lineage names {edge.target_id} as a target, which this task does not write")
            found.append((edge.target_id, edge.target_materialization or versions[edge.target_id]))
    for asset_id, version in found:
        if version != versions[asset_id]:
            raise Invalid(
                f"the version of {asset_id} that attempt {command.attempt_id} writes is {versions[asset_id]}, not "
                f"{version}; it follows from the claim"
            )


def _check_same(name: str, expected: str, found: Iterable[str]) -> None:
    other = next((value for value in found if value != expected), None)
    if other is not None:
        raise Invalid(f"a part of the result has the {name} {other!r}, but the task's is {expected!r}")
