"""A plan as people read it: what runs, unit by unit, from which inputs, and what is left out and why."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal

from arco.assets import partition_text
from arco.core import PartitionKey
from arco.domains.orchestration import Input, Plan, Skip, Task
from arco.servo._estimates import estimate_plan, work_seconds
from arco.servo._reasons import SkipKind, skip_kind
from arco.wire import InputInfo, PlanInfo, PlannedTaskInfo, PlannedUnitInfo, SkipInfo, SkippedAssetInfo

__all__ = ["cannot_run_info", "input_info", "plan_info"]

MAX_LISTED: Final = 1_000
"""Tasks and skips of a plan that an answer lists."""

MAX_CANNOT_RUN: Final = 100
"""Skips that the answer to a trigger lists."""

_KINDS: Final[dict[SkipKind, Literal["up_to_date", "external", "cannot_run"]]] = {
    SkipKind.UP_TO_DATE: "up_to_date",
    SkipKind.EXTERNAL: "external",
    SkipKind.CANNOT_RUN: "cannot_run",
}


def plan_info(plan: Plan, plan_id: str) -> PlanInfo:
    estimate = estimate_plan(plan)
    known = estimate.unknown_count < len(plan.tasks)
    units = _units(plan)
    return PlanInfo(
        plan_id=plan_id,
        code_version=plan.code_version,
        catalog_position=plan.catalog_position,
        activity_position=plan.activity_position,
        task_count=len(plan.tasks),
        stage_count=max((task.stage for task in plan.tasks), default=-1) + 1,
        estimated_seconds=estimate.shortest_seconds if known else None,
        work_seconds=estimate.work_seconds if known else None,
        unknown_count=estimate.unknown_count,
        batch_count=sum(unit.batch_count for unit in units),
        units=units,
        skipped=_skipped(plan),
        tasks=[
            PlannedTaskInfo(
                task_key=task.task_key,
                task_id=task.task_id,
                stage=task.stage,
                outputs=[output.asset_key for output in task.outputs],
                upstream=list(task.upstream),
                inputs=[input_info(given) for given in task.inputs],
                reason=task.reason,
                estimated_seconds=task.estimated_seconds,
                batch=task.batch or None,
            )
            for task in plan.tasks[:MAX_LISTED]
        ],
        skips=[_skip(skip) for skip in plan.skips[:MAX_LISTED]],
        truncated=max(len(plan.tasks), len(plan.skips)) > MAX_LISTED,
    )


def _units(plan: Plan) -> list[PlannedUnitInfo]:
    """What runs, by unit, in the order in which it begins."""
    reasons = {batching.unit: batching.reason for batching in plan.batching}
    found: dict[str, list[Task]] = {}
    for task in plan.tasks:
        found.setdefault(task.unit, []).append(task)
    return [_unit(unit, tasks, reasons.get(unit)) for unit, tasks in found.items()]


def _unit(unit: str, tasks: list[Task], reason: str | None) -> PlannedUnitInfo:
    batches = Counter(task.batch for task in tasks if task.batch)
    is_known = any(task.estimated_seconds is not None for task in tasks)
    return PlannedUnitInfo(
        unit=unit,
        outputs=[output.asset_key for output in tasks[0].outputs],
        stage=tasks[0].stage,
        task_count=len(tasks),
        first=min(task.task_key for task in tasks),
        last=max(task.task_key for task in tasks),
        estimated_seconds=work_seconds(tasks) if is_known else None,
        batch_count=len(batches),
        largest_batch=max(batches.values(), default=1),
        batching=reason,
    )


def _skipped(plan: Plan) -> list[SkippedAssetInfo]:
    found: dict[tuple[str, SkipKind], list[str]] = {}
    for skip in plan.skips:
        found.setdefault((skip.asset_key, skip_kind(skip)), []).append(skip.partition_key)
    return [
        SkippedAssetInfo(
            kind=_KINDS[kind], asset_key=asset, count=len(keys), first=_shown(min(keys)), last=_shown(max(keys))
        )
        for (asset, kind), keys in found.items()
    ]


def _shown(partition_key: str) -> str:
    return partition_text(PartitionKey.parse(partition_key))


def _skip(skip: Skip) -> SkipInfo:
    return SkipInfo(
        kind=_KINDS[skip_kind(skip)],
        asset_key=skip.asset_key,
        partition_key=skip.partition_key,
        reason=skip.reason,
    )


def cannot_run_info(skips: Iterable[Skip]) -> tuple[int, list[SkipInfo]]:
    """How much of what a plan leaves out cannot run, and the first of it."""
    found = [skip for skip in skips if skip_kind(skip) is SkipKind.CANNOT_RUN]
    return len(found), [_skip(skip) for skip in found[:MAX_CANNOT_RUN]]


def input_info(given: Input) -> InputInfo:
    pinned = sum(bool(pin.materialization_id) for pin in given.pins)
    open_ones = 0 if given.is_source else len(given.pins) - pinned
    return InputInfo(asset_key=given.asset_key, parameter=given.parameter, versions=pinned, from_run=open_ones)
