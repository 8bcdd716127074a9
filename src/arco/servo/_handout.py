"""Handing out a claimed task: everything its worker needs, read from the state at the claim's position.

Versions that the planner pinned are looked up as they are. What a task of the same run wrote first is found through
that task's successful attempt: its materialization follows from the attempt, so nobody searches for the newest one.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from arco.assets import AssetDefinition, PartitionSpace, Project
from arco.core import HOUR, SECOND, LostObject, PartitionKey
from arco.domains.execution import MATERIALIZATIONS, PARTITIONS, Materialization, Partition, files_of
from arco.domains.orchestration import (
    ATTEMPTS,
    PLAN_TASKS,
    RUNS,
    TASKS,
    AttemptRow,
    ClaimRow,
    Input,
    Output,
    PlanTaskRow,
    RunRow,
    TaskRow,
    attempt_key,
    materialization_id,
)
from arco.servo._envelope import Envelope, InputPin, InputValue, OutputPlace, PinnedFile, data_location
from arco.servo._tokens import callback_token
from arco.state import Replica, Snapshot
from arco.storage import Scope

__all__ = ["make_envelope"]

LIFE: Final = 24 * HOUR
"""How long an attempt without a time-out may take before its worker cannot speak for it any more."""

PUBLISHED: Final = "published"

T = TypeVar("T")
View = Replica | Snapshot


async def make_envelope(
    view: View, claim: ClaimRow, project: Project, scope: Scope, secret: bytes, now: int
) -> Envelope:
    """The envelope of a claim. `project` is that of the run's code version."""
    run: RunRow = _there(await view.get(RUNS, claim.run_id, claim.run_id), f"run {claim.run_id}")
    key = (claim.run_id, claim.task_key)
    task: TaskRow = _there(await view.get(TASKS, claim.run_id, key), f"task {claim.task_key}")
    planned: PlanTaskRow = _there(await view.get(PLAN_TASKS, claim.run_id, key), f"plan of {claim.task_key}")
    made = {output.asset_key for output in planned.outputs}
    definitions = tuple(asset for asset in project.assets if asset.key in made)
    expires = now + (round(claim.timeout_seconds * SECOND) + HOUR if claim.timeout_seconds else LIFE)
    start, end = _window(definitions, task.partition_key, now)
    is_open = any(not pin.materialization_id for given in planned.inputs for pin in given.pins)
    written = await _written(view, claim.run_id, planned) if is_open else {}
    return Envelope(
        tenant=scope.tenant,
        workspace=scope.workspace,
        run_id=claim.run_id,
        task_key=claim.task_key,
        task_id=task.task_id,
        attempt=claim.attempt,
        attempt_id=claim.attempt_id,
        unit=task.unit,
        code_version=run.code_version,
        code_sha256=project.code_sha256,
        definitions=definitions,
        outputs=tuple([await _output(view, claim, output, run, definitions) for output in planned.outputs]),
        callback_token=callback_token(secret, scope.tenant, scope.workspace, claim.attempt_id, expires),
        issued_at=now,
        expires_at=expires,
        inputs=tuple([await _input(view, given, planned, written) for given in planned.inputs]),
        partition_key=task.partition_key,
        window_start=start,
        window_end=end,
        timeout_seconds=claim.timeout_seconds,
        heartbeat_seconds=claim.heartbeat_seconds,
        traceparent=run.traceparent,
        batch_id=claim.batch_id or "",
    )


def _there(row: T | None, what: str) -> T:
    if row is None:
        raise LostObject(f"the state has a claim but not the {what} it belongs to; run `arco rebuild`")
    return row


async def _output(
    view: View, claim: ClaimRow, output: Output, run: RunRow, definitions: tuple[AssetDefinition, ...]
) -> OutputPlace:
    made = materialization_id(claim.claimed_at, claim.attempt_id, output.asset_id)
    is_on_spark = any(asset.is_on_spark for asset in definitions if asset.key == output.asset_key)
    return OutputPlace(
        output.asset_id,
        output.asset_key,
        output.partition_id,
        output.partition_key,
        made,
        data_location(output.asset_id, output.partition_id, made, claim.batch_id or ""),
        previous=await _previous(view, output, run) if is_on_spark else None,
    )


async def _previous(view: View, output: Output, run: RunRow) -> InputPin | None:
    """The version that was current when the run was triggered: the same for every attempt, whoever writes meanwhile."""
    partition: Partition | None = await view.get(PARTITIONS, output.asset_id, output.partition_id)
    if partition is None or partition.current_materialization_id is None:
        return None
    row: Materialization | None = await view.get(
        MATERIALIZATIONS, output.asset_id, partition.current_materialization_id
    )
    began = run.created_at or 0
    if row is not None and row.completed_at > began:
        rows: list[Materialization] = await view.rows(MATERIALIZATIONS, output.asset_id)
        before = [one for one in rows if one.partition_id == output.partition_id and one.completed_at <= began]
        row = max((one for one in before if one.status == PUBLISHED), key=lambda one: one.version, default=None)
    if row is None:
        return None
    files = await _pinned(view, row)
    return InputPin(output.partition_id, output.partition_key, row.materialization_id, files, row.schema_hash)


async def _pinned(view: View, version: Materialization) -> tuple[PinnedFile, ...]:
    files = await files_of(view, version)
    return tuple(PinnedFile(file.path, file.row_count, file.size_bytes) for file in files)


def _window(definitions: tuple[AssetDefinition, ...], partition_key: str, now: int) -> tuple[int | None, int | None]:
    """Begin and end of the partition, if one of its dimensions is time."""
    if not partition_key or not definitions:
        return None, None
    space = PartitionSpace(definitions[0].partitions, now, {})
    return space.window(PartitionKey.parse(partition_key)) or (None, None)


async def _input(view: View, given: Input, planned: PlanTaskRow, written: Mapping[str, str]) -> InputValue:
    pins = []
    for pin in given.pins:
        version = pin.materialization_id or written.get(pin.partition_id, "")
        row: Materialization | None = await view.get(MATERIALIZATIONS, given.asset_id, version)
        if row is None:
            raise LostObject(
                f"the version {version or '?'} of {given.asset_key}, which {planned.task_key} reads, is not known any "
                "more; trigger the run again"
            )
        files = await _pinned(view, row)
        pins.append(InputPin(pin.partition_id, pin.partition_key, version, files, row.schema_hash))
    return InputValue(
        given.asset_id, given.asset_key, given.parameter, given.is_partitioned, given.mapping, tuple(pins)
    )


async def _written(view: View, run_id: str, planned: PlanTaskRow) -> dict[str, str]:
    """The version of each partition that the tasks before it wrote in this run."""
    found: dict[str, str] = {}
    for upstream in planned.upstream:
        before: PlanTaskRow = _there(await view.get(PLAN_TASKS, run_id, (run_id, upstream)), f"plan of {upstream}")
        task: TaskRow = _there(await view.get(TASKS, run_id, (run_id, upstream)), f"task {upstream}")
        key = (run_id, upstream, attempt_key(task.attempt))
        attempt: AttemptRow = _there(await view.get(ATTEMPTS, run_id, key), f"attempt {task.attempt} of {upstream}")
        for output in before.outputs:
            claimed_at = attempt.claimed_at or 0
            found[output.partition_id] = materialization_id(claimed_at, task.attempt_id, output.asset_id)
    return found
