"""The planner: from a project, a state and a request to a plan. A pure function: no clock, no chance, no IO.

    select -> targets (units and their partitions) -> in topological order, for each task:
        inputs (edges inside the plan, pins outside) -> must it run? -> task, or skip with a reason
    -> which tasks of a unit run together

What is upstream of the selection is not added: it is pinned to its newest good version, or in a rerun to the one that
the repeated run read. In standard mode a partition
whose version was made by the same code of the same inputs is skipped, unless a task of the plan comes before it. What
cannot be compared always runs: assets without dependencies, and those made of something that is not pinned. In fill
mode it counts as up to date once there is a version of the same code.
"""

from collections.abc import Mapping

import msgspec

from arco.assets import AssetKind, Graph, Project, select
from arco.core import Invalid, PartitionKey, shown
from arco.domains.orchestration.plan import Batching, Output, Plan, Skip, Task, task_id_of, task_key_of
from arco.servo._batches import MayBatch, batches_of, batching_of, may_batch
from arco.servo._envelope import inputs_fingerprint
from arco.servo._estimates import estimated_seconds
from arco.servo._inputs import Needs, Planned, UnitInputs, World
from arco.servo._planning_state import PlanningState
from arco.servo._reasons import cannot_run, input_read_again, is_up_to_date, released_input, up_to_date
from arco.servo._replaced import is_incremental
from arco.servo._request import Mode, RunRequest, check_request, request_fingerprint
from arco.servo._targets import Spaces, Target, find_targets

__all__ = ["make_plan"]


def make_plan(
    project: Project,
    ids: Mapping[str, str],
    state: PlanningState,
    request: RunRequest,
    code_version: str,
    *,
    graph: Graph | None = None,
    may_batch: MayBatch = may_batch,
) -> Plan:
    """The plan of a request. `ids` are those of all assets by key; `code_version` is that of the project.

    Who plans the same project often gives its `graph` too. `may_batch` says of which assets tasks may run together.
    """
    check_request(request)
    graph = graph or Graph(project)
    order = graph.order()
    spaces = Spaces(request.at, state.dynamic)
    targets, skips = find_targets(graph, select(request.selection, project, graph), request, spaces)
    planner = _Planner(World(graph, ids, state, spaces), request, code_version, skips, may_batch)
    for stage in order:
        for unit in stage:
            if unit in targets:
                planner.add_unit(targets[unit])
    planner.check()
    return Plan(
        code_version=code_version,
        catalog_position=state.catalog_position,
        activity_position=state.activity_position,
        request=request_fingerprint(request),
        tasks=tuple(sorted(planner.tasks, key=lambda task: (task.stage, task.task_key))),
        skips=tuple(sorted(planner.skips, key=lambda skip: (skip.asset_key, skip.partition_key))),
        batching=tuple(sorted(planner.batching, key=lambda batching: batching.unit)),
    )


class _Planner:
    """Takes units in topological order."""

    def __init__(
        self, world: World, request: RunRequest, code_version: str, skips: list[Skip], may_batch: MayBatch
    ) -> None:
        self.tasks: list[Task] = []
        self.batching: list[Batching] = []
        self.skips = skips
        self._world = world
        self._is_forced = request.mode is Mode.FORCE
        self._fills = request.mode is Mode.FILL
        self._is_rerun = bool(request.rerun_of)
        self._batch = request.batch
        self._may_batch = may_batch
        self._code_version = code_version
        self._only = set(request.only_tasks)
        self._unseen = set(request.only_tasks)
        self._failed: Invalid | None = None

    def add_unit(self, target: Target) -> None:
        """Plan or skip each partition of a unit."""
        inputs = UnitInputs(self._world, target.outputs)
        planned = self._world.planned[target.unit]
        ids = [self._world.asset_id(definition.key) for definition in target.outputs]
        tasks: list[Task] = []
        for key in target.keys:
            task_key = task_key_of(target.unit, self._world.text(key))
            self._unseen.discard(task_key)
            if self._only and task_key not in self._only:
                continue
            needs = self._needs(inputs, key)
            outputs = tuple(
                Output(asset_id, definition.key, self._world.partition_id(asset_id, key), key.canonical)
                for asset_id, definition in zip(ids, target.outputs, strict=True)
            )
            if isinstance(needs, str):
                self._skip(outputs, needs)
                continue
            reason = self._why_run(target, outputs, needs, is_root=inputs.is_root)
            if reason is None:
                self._skip(outputs, up_to_date(self._version_id(outputs[0])))
                continue
            planned[key.canonical] = Planned(task_key, needs.stage)
            tasks.append(self._task(target, task_key, key, outputs, needs, reason))
        self.tasks += self._batched(target, tasks)

    def _batched(self, target: Target, tasks: list[Task]) -> list[Task]:
        """The tasks of a unit, each with the batch it runs in."""
        if not self._may_batch(target.outputs[0]):
            return tasks
        state = self._world.state
        batching = batching_of(target.unit, target.outputs, tasks, self._batch, state)
        if batching is not None:
            self.batching.append(batching)
        batches = batches_of(tasks, self._batch, state)
        return [msgspec.structs.replace(task, batch=batches.get(task.task_key, "")) for task in tasks]

    def check(self) -> None:
        """Refuse a request that names what is not there, or of which nothing can ever run."""
        if self._unseen:
            unknown = min(self._unseen)
            raise Invalid(f"the selection has no task {shown(unknown)}; select its asset and its partition too")
        if self._failed is not None and not self.tasks and not any(is_up_to_date(skip) for skip in self.skips):
            raise self._failed

    def _needs(self, inputs: UnitInputs, key: PartitionKey) -> Needs | str:
        try:
            return inputs.needs(key)
        except Invalid as error:
            self._failed = self._failed or error
            return cannot_run(error.message)

    def _why_run(self, target: Target, outputs: tuple[Output, ...], needs: Needs, *, is_root: bool) -> str | None:
        """Why a task runs; None if it need not."""
        why = None
        if self._is_forced:
            why = f"forced{'' if self._is_rerun else _anew(target)}{self._released(needs)}{self._read_again(needs)}"
        why = why or self._why_stale(target, outputs, needs, is_root=is_root)
        return None if why is None else f"{target.reason}; {why}"

    def _why_stale(self, target: Target, outputs: tuple[Output, ...], needs: Needs, *, is_root: bool) -> str | None:
        state = self._world.state
        if needs.upstream:
            more = len(needs.upstream) - 1
            return f"{needs.upstream[0]} {f'and {more} more run' if more else 'runs'} before it"
        if target.outputs[0].kind is AssetKind.OBSERVABLE:
            return "what others make is looked at anew"
        fingerprint = ""
        for definition, output in zip(target.outputs, outputs, strict=True):
            version = state.versions.get(output.asset_id, {}).get(output.partition_id)
            if version is None:
                why = state.bad.get(output.asset_id, {}).get(output.partition_id, "no version exists yet")
                return f"{why}{self._released(needs)}"
            if version.code_version != definition.code_version:
                return f"its code changed since materialization {version.materialization_id}{_anew(target)}"
            if self._fills and all(source.is_source for source in needs.inputs):
                continue  # made of nothing, or of files of others alone
            if is_root:
                return "it has no dependencies, so it always runs"
            # What was read of files is part of a version's fingerprint, and a plan cannot know it.
            if needs.unknown and (not self._fills or any(source.is_source for source in needs.inputs)):
                return f"whether {needs.unknown} changed is not known, so it always runs"
            fingerprint = fingerprint or _fingerprint(needs)
            if version.inputs_fingerprint != fingerprint:
                return f"its inputs changed since materialization {version.materialization_id}{self._released(needs)}"
        return None

    def _released(self, needs: Needs) -> str:
        """What to add to a reason if the task reads a version that somebody released."""
        released = self._world.state.released
        for source in needs.inputs if released else ():
            for pin in source.pins:
                if pin.materialization_id in released:
                    partition = self._world.text(PartitionKey.parse(pin.partition_key))
                    return f"; {released_input(source.asset_key, partition)}"
        return ""

    def _read_again(self, needs: Needs) -> str:
        """What to add to the reason of a rerun whose inputs have other versions by now."""
        again = self._world.state.again
        others = [
            (source.asset_key, pin)
            for source in needs.inputs
            for pin in source.pins
            if pin.materialization_id and pin.partition_id in again.get(source.asset_id, {})
        ]
        if not others:
            return ""
        key, pin = others[0]
        partition = self._world.text(PartitionKey.parse(pin.partition_key))
        is_good = bool(again[self._world.asset_id(key)][pin.partition_id])
        return f"; {input_read_again(key, partition, is_good=is_good, more=len(others) - 1)}"

    def _version_id(self, output: Output) -> str:
        return self._world.state.versions[output.asset_id][output.partition_id].materialization_id

    def _skip(self, outputs: tuple[Output, ...], reason: str) -> None:
        self.skips += [Skip(output.asset_key, output.partition_key, reason) for output in outputs]

    def _task(
        self,
        target: Target,
        task_key: str,
        key: PartitionKey,
        outputs: tuple[Output, ...],
        needs: Needs,
        reason: str,
    ) -> Task:
        definition = target.outputs[0]
        return Task(
            task_key=task_key,
            task_id=task_id_of(target.unit, key.canonical, self._code_version),
            unit=target.unit,
            partition_key=key.canonical,
            outputs=outputs,
            upstream=needs.upstream,
            inputs=needs.inputs,
            stage=needs.stage,
            reason=reason,
            retries=definition.retries,
            timeout_seconds=definition.timeout_seconds,
            heartbeat_seconds=definition.heartbeat_seconds,
            estimated_seconds=estimated_seconds(self._world.state, outputs[0]),
        )


def _anew(target: Target) -> str:
    """What to add to a reason for which an incremental task reads everything."""
    return ", from scratch" if is_incremental(target.outputs) else ""


def _fingerprint(needs: Needs) -> str:
    return inputs_fingerprint(
        (source.asset_id, pin.partition_id, pin.materialization_id) for source in needs.inputs for pin in source.pins
    )
