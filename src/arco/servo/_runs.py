"""`Runs`: from a request to a plan to a run. Every trigger goes this way, so that no two of them can disagree.

    request -> plan_run -> TriggerRun, decided by the owner of the log

A plan too large for an event is stored as a blob first.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from arco.assets import partition_text
from arco.core import PartitionKey, Refused, derive_ulid, fingerprint
from arco.domains.deployments import CurrentDeployment
from arco.domains.orchestration import (
    RUN_KEYS,
    RUNS,
    TASKS,
    CancelRun,
    FailurePolicy,
    Plan,
    RunKeyRow,
    RunRow,
    RunState,
    Skip,
    TaskRow,
    TaskState,
    TriggerRun,
    check_plan,
    missing_run,
    plan_fingerprint,
)
from arco.log import Blobs, Receipt
from arco.runtime import Workspace
from arco.servo._batches import MayBatch, may_batch
from arco.servo._planning import Projects, plan_run
from arco.servo._request import Mode, RunRequest, request_fingerprint
from arco.state import OPERATIONS, Replica, Snapshot
from arco.storage import Role

__all__ = ["Asked", "Planned", "Runs", "Triggered", "trigger_fingerprint"]

INLINE_BYTES: Final = 256 << 10
"""A plan up to this size stands in its event."""


@dataclass(frozen=True)
class Asked:
    """Who asks, and the identity of the request."""

    actor: str
    key: str = ""
    operation: str = ""
    correlation: str = ""
    traceparent: str = ""


@dataclass(frozen=True)
class Planned:
    plan: Plan
    plan_id: str
    deployment: CurrentDeployment
    request: RunRequest


@dataclass(frozen=True)
class Triggered:
    run_id: str
    receipt: Receipt
    is_new: bool
    """False if the run key or the request key stood for this run already."""
    skips: tuple[Skip, ...] = ()
    """What its plan leaves out, if it was planned now."""


class Runs:
    def __init__(self, workspace: Workspace, projects: Projects, may_batch: MayBatch = may_batch) -> None:
        self._workspace = workspace
        self._projects = projects
        self._may_batch = may_batch

    async def plan(self, request: RunRequest) -> Planned:
        """What a run of this request would do now."""
        found = await plan_run(self._workspace, request, self._projects, self._may_batch)
        return Planned(found.plan, plan_fingerprint(found.plan), found.deployment, request)

    async def trigger(self, request: RunRequest, asked: Asked) -> Triggered:
        """Plan a request and start it. A run key that stands for a run already gives that run, whatever is deployed."""
        known = await self._known(request) if request.run_key else None
        if known is not None:
            return await self._decide(request, _again(request, known), asked)
        return await self.start(await self.plan(request), asked)

    async def start(self, planned: Planned, asked: Asked) -> Triggered:
        """Start what was planned."""
        done = await self._decide(planned.request, await self._command(planned), asked)
        return replace(done, skips=planned.plan.skips) if done.is_new else done

    async def _decide(self, request: RunRequest, command: TriggerRun, asked: Asked) -> Triggered:
        receipt = await self._workspace.decide(
            "activity",
            command,
            actor=asked.actor,
            key=asked.key,
            operation=asked.operation,
            correlation=asked.correlation,
            traceparent=asked.traceparent,
            asked=trigger_fingerprint(request),
        )
        return await self.found(request, receipt)

    async def _known(self, request: RunRequest) -> RunRow | None:
        """The run that the run key stands for, if there is one."""

        async def find(view: Replica | Snapshot) -> RunRow | None:
            key: RunKeyRow | None = await view.get(RUN_KEYS, request.run_key, request.run_key)
            row: RunRow | None = None if key is None else await view.get(RUNS, key.run_id, key.run_id)
            return row

        row, _ = await self._workspace.logs["activity"].read(find)
        return row

    async def _command(self, planned: Planned) -> TriggerRun:
        request, plan = planned.request, planned.plan
        check_plan(plan)  # whoever decides cannot look into a blob
        encoded = msgspec.json.encode(plan)
        inline = len(encoded) <= INLINE_BYTES
        return TriggerRun(
            plan_id=planned.plan_id,
            code_version=plan.code_version,
            deployment_id=planned.deployment.deployment_id,
            request_fingerprint=request_fingerprint(request),
            selection=request.selection,
            task_count=len(plan.tasks),
            plan=plan if inline else None,
            plan_blob="" if inline else await Blobs(self._workspace.handle(Role.OWNER)).put(encoded),
            trigger="rerun" if request.rerun_of else "manual",
            rerun_of=request.rerun_of,
            run_key=request.run_key,
            mode=request.mode,
            failure_policy=request.failure_policy,
            max_parallelism=request.max_parallelism,
            timeout_seconds=request.timeout_seconds,
            priority=request.priority,
            tags=request.tags,
            partitions=request.partitions,
            window=request.window,
            batch=request.batch,
        )

    async def found(self, request: RunRequest, receipt: Receipt) -> Triggered:
        """The run that a trigger made, or found under its run key."""

        async def find(view: Replica | Snapshot) -> tuple[str, bool]:
            operation = await view.get(OPERATIONS, receipt.operation, receipt.operation)
            made = "" if operation is None else derive_ulid(operation.received_at, f"{receipt.operation}:run")
            run_key = request.run_key
            key: RunKeyRow | None = await view.get(RUN_KEYS, run_key, run_key) if run_key else None
            run_id = made if key is None else key.run_id
            return run_id, run_id == made and not receipt.replayed

        (run_id, is_new), _ = await self._workspace.logs["activity"].read(
            find, strong=False, min_position=receipt.position
        )
        return Triggered(run_id, receipt, is_new)

    async def cancel(self, run_id: str, reason: str, asked: Asked) -> Receipt:
        """Nothing new begins; what runs is told to stop. Twice is once; `Conflict` if the run is over."""
        return await self._workspace.decide(
            "activity",
            CancelRun(run_id, reason=reason or f"cancelled by {asked.actor}"),
            actor=asked.actor,
            key=asked.key,
            operation=asked.operation,
            correlation=asked.correlation,
            traceparent=asked.traceparent,
        )

    async def request_again(self, run_id: str, *, from_failure: bool, at: int) -> RunRequest:
        """The request of a run once more: its tasks, or only those that did not succeed.

        Planned, it is what is deployed then, on the versions that the run read.
        """

        async def find(view: Replica | Snapshot) -> tuple[RunRow, list[TaskRow]]:
            row: RunRow | None = await view.get(RUNS, run_id, run_id)
            if row is None:
                raise await missing_run(view, run_id)
            return row, await view.rows(TASKS, run_id)

        (run, tasks), _ = await self._workspace.logs["activity"].read(find)
        if not RunState(run.state).is_terminal:
            raise Refused(f"the run {run_id} is {run.state}; wait until it ends, or cancel it first")
        if not tasks:
            raise Refused(f"the run {run_id} had nothing to do, so there is nothing to run again; trigger a new one")
        wanted = tuple(sorted(task.task_key for task in tasks if not from_failure or task.state != TaskState.SUCCEEDED))
        if not wanted:
            raise Refused(f"all tasks of the run {run_id} succeeded; to run them again add --all")
        return RunRequest(
            selection=run.selection,
            partitions=run.partitions,
            window=run.window or "",
            partition_keys=() if run.partitions or run.window else _keys_of(tasks),
            mode=Mode.FORCE,
            failure_policy=FailurePolicy(run.failure_policy),
            max_parallelism=run.max_parallelism,
            timeout_seconds=run.timeout_seconds,
            priority=run.priority,
            tags=run.tags,
            at=at,
            rerun_of=run_id,
            only_tasks=wanted,
            batch=run.batch or 0,
        )


def _keys_of(tasks: Iterable[TaskRow]) -> tuple[str, ...]:
    """The partitions of tasks that were named one by one."""
    keys = {task.partition_key for task in tasks if task.partition_key}
    return tuple(partition_text(PartitionKey.parse(key)) for key in sorted(keys))


def trigger_fingerprint(request: RunRequest) -> str:
    """What is asked, for the request key: unlike the request's own fingerprint it has the run key in it."""
    return fingerprint([request_fingerprint(request), request.run_key])


def _again(request: RunRequest, known: RunRow) -> TriggerRun:
    """A trigger that needs no plan because its run key stands for a run. The owner of the log compares the requests."""
    return TriggerRun(
        plan_id=known.plan_id,
        code_version=known.code_version,
        deployment_id=known.deployment_id,
        request_fingerprint=request_fingerprint(request),
        selection=request.selection,
        task_count=known.task_count,
        run_key=request.run_key,
    )
