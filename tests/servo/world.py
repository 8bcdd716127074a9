"""A workspace in memory with something deployed, and a worker that does nothing but say how it went."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from arco.assets import AssetDefinition, Dependency, Project
from arco.domains.catalog import AddColumn, CreateNamespace, CreateTable
from arco.domains.execution import MaterializationCompleted
from arco.domains.lineage import EdgeRecord, LineageRecorded
from arco.domains.orchestration import (
    RUNS,
    TASKS,
    FailureCategory,
    FinishTask,
    Outcome,
    RunRow,
    TaskFailure,
    TaskRow,
)
from arco.runtime import Workspace, init_workspace
from arco.servo import (
    Asked,
    Callback,
    Envelope,
    Progress,
    RunRequest,
    Servo,
    WorkerId,
    deploy,
    open_envelope,
    prepare_deploy,
)
from arco.servo._envelope import inputs_fingerprint
from arco.storage import MemoryStore, Scope, Store
from tests.doubles import FakeRuntime, run

__all__ = [
    "ASKED",
    "SCOPE",
    "SECRET",
    "WORKER",
    "World",
    "callback",
    "chain",
    "fan",
    "mark_personal",
    "project",
    "result_of",
    "run_world",
]

T = TypeVar("T")

SCOPE = Scope("acme", "prod")
SECRET = b"s" * 32
WORKER = WorkerId("w1", "s1")
ASKED = Asked("tester")


def callback(envelope: Envelope, progress: Progress | None = None) -> Callback:
    """What a worker says of an attempt that is alive."""
    return Callback(envelope.attempt_id, envelope.callback_token, progress)


def project(edges: Mapping[str, Iterable[str]], **fields: Any) -> Project:
    """Assets by key, each with the keys it is made of; `fields` are those of every definition."""
    return Project(
        tuple(
            msgspec.structs.replace(
                AssetDefinition(
                    key=key,
                    function="pipeline:make",
                    dependencies=tuple(Dependency(other, other.partition(".")[2]) for other in made_of),
                    code_version=f"v-{key}",
                ),
                **fields,
            )
            for key, made_of in sorted(edges.items())
        ),
        code_sha256="0" * 64,
    )


def chain(length: int) -> dict[str, list[str]]:
    return {f"n.a{i:04d}": [f"n.a{i - 1:04d}"] if i else [] for i in range(length)}


def fan(width: int) -> dict[str, list[str]]:
    """One, then many, then one that is made of all of them."""
    middle = [f"n.m{i:04d}" for i in range(width)]
    return {"n.first": [], **{key: ["n.first"] for key in middle}, "n.last": middle}


def result_of(
    envelope: Envelope,
    now: int,
    outcome: Outcome = Outcome.SUCCEEDED,
    *,
    retryable: bool = False,
    category: FailureCategory = FailureCategory.TRANSFORM_ERROR,
) -> FinishTask:
    """What a worker says at the end of an attempt."""
    common: dict[str, Any] = {
        "run_id": envelope.run_id,
        "task_key": envelope.task_key,
        "attempt": envelope.attempt,
        "attempt_id": envelope.attempt_id,
        "outcome": outcome,
        "started_at": envelope.issued_at,
        "finished_at": now,
    }
    if outcome is not Outcome.SUCCEEDED:
        failure = TaskFailure(category, "builtins.ValueError", "boom", retryable=retryable)
        return FinishTask(**common, failure=failure if outcome is Outcome.FAILED else None)
    read = [
        (given.asset_id, pin.partition_id, pin.materialization_id) for given in envelope.inputs for pin in given.pins
    ]
    outputs = tuple(
        MaterializationCompleted(
            materialization_id=place.materialization_id,
            asset_id=place.asset_id,
            asset_key=place.asset_key,
            partition_id=place.partition_id,
            partition_key=place.partition_key,
            run_id=envelope.run_id,
            task_id=envelope.task_id,
            files=(),
            row_count=0,
            byte_size=0,
            schema_hash="",
            started_at=envelope.issued_at,
            completed_at=now,
            code_version=definition.code_version,
            inputs_fingerprint=inputs_fingerprint(read),
        )
        for place, definition in zip(envelope.outputs, envelope.definitions, strict=True)
    )
    edges = tuple(
        EdgeRecord(given.asset_id, place.asset_id, given.parameter)
        for given in envelope.inputs
        for place in envelope.outputs
    )
    lineage = LineageRecorded(envelope.run_id, envelope.task_id, envelope.issued_at, now, edges) if edges else None
    return FinishTask(**common, outputs=outputs, lineage=lineage)


class World:
    def __init__(self, workspace: Workspace, runtime: FakeRuntime, store: Store) -> None:
        self.workspace = workspace
        self.runtime = runtime
        self.store = store
        self.servo = Servo(workspace, SECRET)

    async def deploy(self, given: Project) -> None:
        await deploy(self.workspace, await prepare_deploy(self.workspace, given), actor="tester")

    async def trigger(self, selection: str = "*", **fields: Any) -> str:
        request = RunRequest(selection=selection, at=self.runtime.now(), **fields)
        return (await self.servo.runs.trigger(request, ASKED)).run_id

    async def claim(self, slots: int = 1, wait: float = 0.0, worker: WorkerId = WORKER) -> list[Envelope]:
        return [self.opened(data) for data in await self.servo.work.claim(worker, slots, wait)]

    def opened(self, data: bytes) -> Envelope:
        scope, now = self.workspace.scope, self.runtime.now()
        return open_envelope(SECRET, data, tenant=scope.tenant, workspace=scope.workspace, now=now)

    async def finish(
        self, envelope: Envelope, outcome: Outcome = Outcome.SUCCEEDED, *, retryable: bool = False, slots: int = 0
    ) -> list[Envelope]:
        result = result_of(envelope, self.runtime.now(), outcome, retryable=retryable)
        done = await self.servo.work.finish([result], WORKER, slots)
        for error in done.refused.values():
            raise error
        return [self.opened(data) for data in done.envelopes]

    async def work_off(self) -> list[str]:
        """Do everything that is ready, one task at a time; the tasks in the order in which they ran."""
        done = []
        while claimed := await self.claim():
            done.append(claimed[0].task_key)
            await self.finish(claimed[0])
        return done

    async def run_row(self, run_id: str) -> RunRow:
        row: RunRow = await self.workspace.logs["activity"].replica.get(RUNS, run_id, run_id)
        return row

    async def states(self, run_id: str) -> dict[str, str]:
        rows: list[TaskRow] = await self.workspace.logs["activity"].replica.rows(TASKS, run_id)
        return {row.task_key: row.state for row in rows}


async def mark_personal(world: World, column: str) -> None:
    """Make the table of s.a, and mark a column of it as personal."""
    await world.workspace.decide("catalog", CreateNamespace(("s",)), actor="tester")
    columns = (AddColumn("id", "long"), AddColumn(column, "string", pii_type="NAME"))
    await world.workspace.decide("catalog", CreateTable(("s", "a"), columns=columns), actor="tester")


def run_world(work: Callable[[World], Awaitable[T]], *, deployed: Project | None = None) -> T:
    """What `work` returns in a fresh world, in no time."""

    async def go() -> T:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        await init_workspace(store, SCOPE, runtime)
        async with await Workspace.open(store, SCOPE, runtime) as workspace:
            world = World(workspace, runtime, store)
            if deployed is not None:
                await world.deploy(deployed)
            return await work(world)

    return run(go())
