"""Planning with effects: reads what a plan depends on, in the order that makes it one state, and calls the planner.

A plan binds a pair of positions, activity read first: whatever activity mentions exists in a catalog read after it.
Which assets to read there follows from the catalog, so that is read twice; if a deploy came in between, all over again.
"""

from collections import OrderedDict
from functools import partial
from typing import Final

import msgspec

from arco.assets import DynamicPartitions, Graph, Project, select
from arco.core import Refused, Unavailable
from arco.domains.deployments import (
    CURRENT_DEPLOYMENT,
    WORKSPACE,
    CurrentDeployment,
    read_asset_ids,
    read_dynamic_partitions,
)
from arco.domains.orchestration.plan import Plan
from arco.runtime import Workspace
from arco.servo._batches import MayBatch, may_batch
from arco.servo._deploy import load_project
from arco.servo._needed import Needed, find_needed
from arco.servo._planner import make_plan
from arco.servo._planning_state import PlanningState, read_planning_state
from arco.servo._request import RunRequest, check_request
from arco.state import View

__all__ = ["LoadedProject", "PlannedRun", "Projects", "plan_run"]

TRIES: Final = 8
KEPT: Final = 8


class LoadedProject(msgspec.Struct, frozen=True):
    """A project with what is always needed of it."""

    project: Project
    graph: Graph
    dynamic: tuple[str, ...]
    """Names of its sets of dynamic partitions."""


class PlannedRun(msgspec.Struct, frozen=True):
    plan: Plan
    project: Project
    ids: dict[str, str]
    deployment: CurrentDeployment


class Projects:
    """The projects last used, by their blob. They never change."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, LoadedProject] = OrderedDict()

    async def get(self, workspace: Workspace, manifest: str) -> LoadedProject:
        found = self._kept.get(manifest)
        if found is None:
            project = await load_project(workspace, manifest)
            found = self._kept[manifest] = LoadedProject(project, Graph(project), _dynamic_names(project))
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(manifest)
        return found


class _Catalog(msgspec.Struct, frozen=True):
    """What a plan needs of the catalog."""

    deployment: CurrentDeployment
    ids: dict[str, str]
    dynamic: dict[str, tuple[str, ...]]


async def plan_run(
    workspace: Workspace, request: RunRequest, projects: Projects, may_batch: MayBatch = may_batch
) -> PlannedRun:
    """The plan of a request against what is deployed and what is known now. Nothing is written."""
    check_request(request)
    for _ in range(TRIES):
        before, loaded, _ = await _read_catalog(workspace, projects)
        selected = select(request.selection, loaded.project, loaded.graph)
        needed = find_needed(loaded.graph, selected, before.ids, request, before.dynamic)
        state, activity_position = await _read_activity(workspace, needed, request.rerun_of)
        known, loaded, catalog_position = await _read_catalog(workspace, projects)
        if known == before:
            state = msgspec.structs.replace(
                state,
                activity_position=str(activity_position),
                catalog_position=str(catalog_position),
                dynamic=known.dynamic,
            )
            plan = await workspace.runtime.offload(partial(_plan, loaded, known, state, request, may_batch))
            return PlannedRun(plan, loaded.project, known.ids, known.deployment)
    raise Unavailable("deploys kept coming in while the run was planned; try again")


async def _read_catalog(workspace: Workspace, projects: Projects) -> tuple[_Catalog, LoadedProject, int]:
    """What is deployed, with its project. A project that is not in memory is loaded between two looks."""
    log = workspace.logs["catalog"]
    current, _ = await log.read(_read_current)
    while True:
        loaded = await projects.get(workspace, current.manifest)
        found, position = await log.read(partial(_read, dynamic=loaded.dynamic), strong=False)
        if found.deployment.manifest == current.manifest:
            return found, loaded, position
        current = found.deployment


async def _read_current(view: View) -> CurrentDeployment:
    current: CurrentDeployment | None = await view.get(CURRENT_DEPLOYMENT, WORKSPACE, WORKSPACE)
    if current is None:
        raise Refused("nothing is deployed in this workspace; run `arco deploy` first")
    return current


async def _read(view: View, dynamic: tuple[str, ...]) -> _Catalog:
    current = await _read_current(view)
    return _Catalog(current, await read_asset_ids(view), await read_dynamic_partitions(view, dynamic))


async def _read_activity(workspace: Workspace, needed: Needed, rerun_of: str) -> tuple[PlanningState, int]:
    read = partial(read_planning_state, partitions=needed.partitions, made=needed.made, rerun_of=rerun_of)
    return await workspace.logs["activity"].read(read)


def _plan(
    loaded: LoadedProject, known: _Catalog, state: PlanningState, request: RunRequest, may_batch: MayBatch
) -> Plan:
    version = known.deployment.code_version
    return make_plan(loaded.project, known.ids, state, request, version, graph=loaded.graph, may_batch=may_batch)


def _dynamic_names(project: Project) -> tuple[str, ...]:
    return tuple(
        sorted(
            {
                dimension.partitions.name
                for asset in project.assets
                for dimension in asset.partitions
                if isinstance(dimension.partitions, DynamicPartitions)
            }
        )
    )
