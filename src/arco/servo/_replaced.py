"""What a task goes on from: the version that it replaces, and what that one was made of.

An incremental task reads only versions that the one it replaces was not made of. What that was stands in the plan of
the run that made it, so nothing is stored for this. The two belong together: whoever gets all of an input gets no
previous version beside it. That is so whenever the one that is replaced cannot be gone on from:

    there is none                              the first time
    it was made by other code                  what it holds would not be what this code makes
    the run was asked for with `--force`       also a rerun of such a run
    its outputs are not of one task            one of them was held back, or made anew
    the plan that made it is not known         somebody else recorded it, or its facts have expired

A rerun goes on from what the run it repeats went on from, as every attempt of a run does. If none of that is good any
more it goes on from what is current.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from arco.assets import AssetDefinition
from arco.core import LostObject
from arco.domains.execution import (
    MATERIALIZATIONS,
    PARTITIONS,
    PUBLISHED,
    VERSION_STATUS,
    Materialization,
    Partition,
    VersionStatus,
)
from arco.domains.orchestration import (
    ATTEMPTS,
    PLAN_TASKS,
    RUNS,
    TASKS,
    AttemptRow,
    Output,
    PlanTaskRow,
    RunRow,
    TaskRow,
    attempt_key,
    materialization_id,
)
from arco.servo._request import Mode
from arco.state import View

__all__ = ["Base", "base_of", "is_incremental", "planned_versions", "there", "written_by", "written_in"]

MAX_RERUNS: Final = 100
"""Runs that repeat each other, as far as they are followed."""

T = TypeVar("T")


class Base(NamedTuple):
    """What a task goes on from."""

    replaced: Mapping[str, Materialization] = {}
    """The versions that it replaces, by asset id."""
    versions: frozenset[tuple[str, str]] = frozenset()
    """What they were made of: ids of assets and of their versions. Empty unless the task is incremental."""


async def base_of(view: View, run: RunRow, planned: PlanTaskRow, definitions: Sequence[AssetDefinition]) -> Base:
    """What the task of a run goes on from. Only tasks on Spark are told."""
    outputs = [output for output in planned.outputs if _is_on_spark(output, definitions)]
    first = await _first(view, run)
    if not is_incremental(definitions):
        return Base(await _replaced(view, outputs, first))
    if first.mode == Mode.FORCE:
        return Base()
    found = await _replaced(view, outputs, first)
    codes = {asset.key: asset.code_version for asset in definitions}
    if len(found) < len(outputs) or any(found[one.asset_id].code_version != codes[one.asset_key] for one in outputs):
        return Base()
    makers = {(row.run_id, row.task_id) for row in found.values()}
    made = await _plan_of(view, found[outputs[0].asset_id].run_id, planned) if len(makers) == 1 else None
    versions = await planned_versions(view, made) if made is not None else None
    return Base() if versions is None else Base(found, versions)


def is_incremental(definitions: Sequence[AssetDefinition]) -> bool:
    return any(dependency.incremental for asset in definitions for dependency in asset.dependencies)


def _is_on_spark(output: Output, definitions: Sequence[AssetDefinition]) -> bool:
    return any(asset.is_on_spark for asset in definitions if asset.key == output.asset_key)


async def _first(view: View, run: RunRow) -> RunRow:
    """The run that was asked for, of those that repeat it one after the other."""
    for _ in range(MAX_RERUNS):
        before: RunRow | None = await view.get(RUNS, run.rerun_of, run.rerun_of) if run.rerun_of else None
        if before is None:
            break
        run = before
    return run


async def _replaced(view: View, outputs: Sequence[Output], run: RunRow) -> dict[str, Materialization]:
    """The versions that were current when the run was triggered: the same for all attempts, whoever writes then."""
    found = {}
    for output in outputs:
        row = await _current(view, output, run.created_at or 0)
        if row is not None:
            found[output.asset_id] = row
    return found


async def _current(view: View, output: Output, began: int) -> Materialization | None:
    partition: Partition | None = await view.get(PARTITIONS, output.asset_id, output.partition_id)
    if partition is None or partition.current_materialization_id is None:
        return None
    row: Materialization | None = await view.get(
        MATERIALIZATIONS, output.asset_id, partition.current_materialization_id
    )
    if row is not None and row.completed_at > began:
        rows: list[Materialization] = await view.rows(MATERIALIZATIONS, output.asset_id)
        before = [one for one in rows if one.partition_id == output.partition_id and one.completed_at <= began]
        standing: list[VersionStatus] = await view.rows(VERSION_STATUS, output.asset_id)
        now = {one.materialization_id: one.status for one in standing}
        good = (one for one in before if now.get(one.materialization_id, one.status) == PUBLISHED)
        row = max(good, key=lambda one: one.version, default=row if before else None)
    return row


async def _plan_of(view: View, run_id: str, planned: PlanTaskRow) -> PlanTaskRow | None:
    """The task of an earlier run that made the same partitions; its key may have been another one."""
    wanted = {(output.asset_id, output.partition_id) for output in planned.outputs}

    def makes(row: PlanTaskRow) -> bool:
        return wanted <= {(output.asset_id, output.partition_id) for output in row.outputs}

    row: PlanTaskRow | None = await view.get(PLAN_TASKS, run_id, (run_id, planned.task_key))
    if row is not None and makes(row):
        return row
    rows: list[PlanTaskRow] = await view.rows(PLAN_TASKS, run_id)
    return next((row for row in rows if makes(row)), None)


async def planned_versions(view: View, made: PlanTaskRow) -> frozenset[tuple[str, str]] | None:
    """What a task of an earlier run was made of: ids of assets and of their versions; None if that is not known."""
    is_open = any(not pin.materialization_id for one in made.inputs if not one.is_source for pin in one.pins)
    try:
        written = await written_by(view, made) if is_open else {}
    except LostObject:
        return None
    return frozenset(
        (given.asset_id, pin.materialization_id or written.get(pin.partition_id, ""))
        for given in made.inputs
        for pin in given.pins
    )


async def written_by(view: View, planned: PlanTaskRow) -> dict[str, str]:
    """The version of each partition that the tasks before one wrote in its run."""
    run_id = planned.run_id
    found: dict[str, str] = {}
    for upstream in planned.upstream:
        before: PlanTaskRow = there(await view.get(PLAN_TASKS, run_id, (run_id, upstream)), f"plan of {upstream}")
        task: TaskRow = there(await view.get(TASKS, run_id, (run_id, upstream)), f"task {upstream}")
        found |= {output.partition_id: made for output, made in await written_in(view, task, before)}
    return found


async def written_in(view: View, task: TaskRow, planned: PlanTaskRow) -> list[tuple[Output, str]]:
    """The outputs of a task with the versions that its newest attempt wrote."""
    key = (task.run_id, task.task_key, attempt_key(task.attempt))
    row: AttemptRow = there(await view.get(ATTEMPTS, task.run_id, key), f"attempt {task.attempt} of {task.task_key}")
    claimed_at = row.claimed_at or 0
    return [(one, materialization_id(claimed_at, task.attempt_id, one.asset_id)) for one in planned.outputs]


def there(row: T | None, what: str) -> T:
    if row is None:
        raise LostObject(f"the state has a claim but not the {what} it belongs to; run `arco rebuild`")
    return row
