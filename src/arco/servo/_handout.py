"""Handing out a claimed task: everything its worker needs, read from the state at the claim's position.

Versions that the planner pinned are looked up as they are. What a task of the same run wrote first is found through
that task's successful attempt: its materialization follows from the attempt, so nobody searches for the newest one.
An incremental input has all its versions too, and those that need not be read again are marked (`_replaced`).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from arco.assets import AssetDefinition, PartitionSpace, Project
from arco.core import HOUR, SECOND, LostObject, PartitionKey
from arco.domains.execution import MATERIALIZATIONS, Materialization, files_of
from arco.domains.orchestration import (
    PLAN_TASKS,
    RUNS,
    TASKS,
    ClaimRow,
    Input,
    Output,
    Pin,
    PlanTaskRow,
    RunRow,
    TaskRow,
    materialization_id,
)
from arco.servo._envelope import Envelope, InputPin, InputValue, OutputPlace, PinnedFile, data_location
from arco.servo._replaced import Base, base_of, there, written_by
from arco.servo._tokens import callback_token
from arco.state import View
from arco.storage import Scope

__all__ = ["make_envelope"]

LIFE: Final = 24 * HOUR
"""How long an attempt without a time-out may take before its worker cannot speak for it any more."""


async def make_envelope(
    view: View, claim: ClaimRow, project: Project, scope: Scope, secret: bytes, now: int
) -> Envelope:
    """The envelope of a claim. `project` is that of the run's code version."""
    run: RunRow = there(await view.get(RUNS, claim.run_id, claim.run_id), f"run {claim.run_id}")
    key = (claim.run_id, claim.task_key)
    task: TaskRow = there(await view.get(TASKS, claim.run_id, key), f"task {claim.task_key}")
    planned: PlanTaskRow = there(await view.get(PLAN_TASKS, claim.run_id, key), f"plan of {claim.task_key}")
    made = {output.asset_key for output in planned.outputs}
    definitions = tuple(asset for asset in project.assets if asset.key in made)
    expires = now + (round(claim.timeout_seconds * SECOND) + HOUR if claim.timeout_seconds else LIFE)
    start, end = _window(definitions, task.partition_key, now)
    assets = {asset.key: asset for asset in project.assets}
    is_open = any(not pin.materialization_id for one in planned.inputs if not one.is_source for pin in one.pins)
    written = await written_by(view, planned) if is_open else {}
    base = await base_of(view, run, planned, definitions)
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
        outputs=tuple([await _output(view, claim, output, base) for output in planned.outputs]),
        callback_token=callback_token(secret, scope.tenant, scope.workspace, claim.attempt_id, expires),
        issued_at=now,
        expires_at=expires,
        inputs=tuple(
            [
                _source(given, assets[given.asset_key])
                if given.is_source
                else await _input(
                    view,
                    given,
                    planned,
                    written,
                    base.versions if _is_incremental(definitions, given) else frozenset(),
                )
                for given in planned.inputs
            ]
        ),
        partition_key=task.partition_key,
        window_start=start,
        window_end=end,
        timeout_seconds=claim.timeout_seconds,
        heartbeat_seconds=claim.heartbeat_seconds,
        traceparent=run.traceparent,
        batch_id=claim.batch_id or "",
    )


async def _output(view: View, claim: ClaimRow, output: Output, base: Base) -> OutputPlace:
    made = materialization_id(claim.claimed_at, claim.attempt_id, output.asset_id)
    before = base.replaced.get(output.asset_id)
    return OutputPlace(
        output.asset_id,
        output.asset_key,
        output.partition_id,
        output.partition_key,
        made,
        data_location(output.asset_id, output.partition_id, made, claim.batch_id or ""),
        previous=None if before is None else await _pin(view, Pin(output.partition_id, output.partition_key), before),
    )


async def _pin(view: View, pin: Pin, row: Materialization) -> InputPin:
    files = tuple(PinnedFile(file.path, file.row_count, file.size_bytes) for file in await files_of(view, row))
    return InputPin(pin.partition_id, pin.partition_key, row.materialization_id, files, row.schema_hash)


def _window(definitions: tuple[AssetDefinition, ...], partition_key: str, now: int) -> tuple[int | None, int | None]:
    """Begin and end of the partition, if one of its dimensions is time."""
    if not partition_key or not definitions:
        return None, None
    space = PartitionSpace(definitions[0].partitions, now, {})
    return space.window(PartitionKey.parse(partition_key)) or (None, None)


async def _input(
    view: View, given: Input, planned: PlanTaskRow, written: Mapping[str, str], seen: frozenset[tuple[str, str]]
) -> InputValue:
    """What a dependency hands over. `seen` are versions of it that are not read, only stood for."""
    pins: list[InputPin] = []
    shown: set[str] = set()
    for pin in given.pins:
        version = pin.materialization_id or written.get(pin.partition_id, "")
        row: Materialization | None = await view.get(MATERIALIZATIONS, given.asset_id, version)
        if row is None:
            raise LostObject(
                f"the version {version or '?'} of {given.asset_key}, which {planned.task_key} reads, is not known any "
                "more; trigger the run again"
            )
        found = await _pin(view, pin, row)
        if (given.asset_id, version) in seen:
            # One of those with the same columns shows them; the files of the others are nobody's business.
            files = found.files[:1] if found.schema_hash not in shown else ()
            shown |= {found.schema_hash} if files else set()
            found = msgspec.structs.replace(found, files=files, seen=True)
        pins.append(found)
    return InputValue(
        given.asset_id, given.asset_key, given.parameter, given.is_partitioned, given.mapping, tuple(pins)
    )


def _source(given: Input, asset: AssetDefinition) -> InputValue:
    """Files of others: who reads them finds out which there are."""
    return InputValue(
        given.asset_id,
        given.asset_key,
        given.parameter,
        given.is_partitioned,
        given.mapping,
        tuple(InputPin(pin.partition_id, pin.partition_key, "") for pin in given.pins),
        asset.source,
        asset.schema,
    )


def _is_incremental(definitions: tuple[AssetDefinition, ...], given: Input) -> bool:
    return any(
        dependency.incremental and (dependency.parameter, dependency.key) == (given.parameter, given.asset_key)
        for asset in definitions
        for dependency in asset.dependencies
    )
