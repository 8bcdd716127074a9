"""How many requests each operation makes: measured here, written in docs/requests.md, compared by test_requests.py.

`python -m tests.runtime.requests` prints the table.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
from fastapi import Response

from arco.api import Door, Host, HttpPeers, ServeOptions, ServiceIdentity
from arco.api._caller import Caller
from arco.api._reading import Reads
from arco.api._server import make_host
from arco.api._uses import uses_of
from arco.api._writing import Writes
from arco.api.routes._columns import alter_table
from arco.api.routes._events import post_events
from arco.api.routes._lineage import get_lineage
from arco.api.routes._tables import create_table, drop_table, get_table, list_tables_route, rename_table
from arco.assets import Dimension, Engine, StaticPartitions
from arco.backup import CollectionLoop
from arco.catalog import NOW
from arco.core import DAY, Conflict, new_ulid
from arco.domains.access import UserRole
from arco.domains.catalog import NAMESPACES, TABLES, CreateNamespace
from arco.domains.execution import PARTITIONS
from arco.domains.orchestration import ReapAttempts
from arco.iceberg import open_lifecycle
from arco.log import Ledger, NewEvent
from arco.runtime import DEFINITIONS, Workspace, init_workspace
from arco.servo import Asked, Envelope, Mode, RunRequest, Servo, deploy, open_envelope, prepare_deploy
from arco.state import Cadence, Collector, PackSize, Revisions, new_event, open_ledger
from arco.state._definition import Definition
from arco.storage import MemoryStore, Role, Scope, Store
from arco.wire import ColumnAdd, ColumnSpec, EventBatch, EventIn, TableAlter, TableCreate, TableInfo, TableRename
from tests.doubles import FakeRuntime
from tests.runtime.world import SCOPE, Counted, made, run
from tests.servo.world import SECRET, WORKER, callback, chain, fan, project, result_of
from tests.state.toy import SET, NoteSet, toy

__all__ = ["COLUMNS", "MEASURES", "measure_all", "render"]

COLUMNS = ("create", "get", "range", "head", "list", "delete")
"""Hints are plain overwrites, at most one a second for each log and kind; they are left out here."""

OTHER, NOBODY = Scope("acme", "other"), Scope("acme", "nobody")

T = TypeVar("T")
Made = Callable[[FakeRuntime], Store]
Measure = Callable[[FakeRuntime, Store], Awaitable[dict[str, "Counts"]]]
Counts = dict[str, int]


class Bench:
    """One open workspace that publishes only when told to."""

    def __init__(self, runtime: FakeRuntime, store: Counted, workspace: Workspace) -> None:
        self.runtime = runtime
        self.store = store
        self.workspace = workspace

    async def count(self, work: Callable[[], Awaitable[object]]) -> Counts:
        await self.runtime.sleep(2)  # let hints of earlier work go out first
        before = self.store.requests.copy()
        await work()
        await asyncio.sleep(0)
        return {name: self.store.requests[name] - before[name] for name in COLUMNS}

    async def record(self, *events: NewEvent) -> int:
        return (await self.workspace.record("activity", events, actor="w")).position

    async def create(self, *path: str) -> int:
        command = CreateNamespace(path)
        return (await self.workspace.decide("catalog", command, actor="me")).position

    async def publish(self, log: str = "activity") -> None:
        await self.workspace.logs[log].compactor.publish()

    async def reopen(self, *, test_store: bool = False, compact: bool = False) -> Workspace:
        return await Workspace.open(self.store, SCOPE, self.runtime, test_store=test_store, compact=compact)


@asynccontextmanager
async def bench(
    runtime: FakeRuntime,
    base: Store,
    *,
    compact: bool = False,
    definitions: tuple[Definition, ...] = DEFINITIONS,
    cadence: Cadence | None = None,
) -> AsyncIterator[Bench]:
    store = Counted(base, runtime)
    await init_workspace(store, SCOPE, runtime)
    workspace = await Workspace.open(store, SCOPE, runtime, compact=compact, definitions=definitions, cadence=cadence)
    async with workspace:
        yield Bench(runtime, store, workspace)


async def record(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base) as b:
        first = await b.count(lambda: b.record(made(runtime, "m0")))
        one = await b.count(lambda: b.record(made(runtime, "m1")))
        group = await b.count(lambda: asyncio.gather(*(b.record(made(runtime, f"g{n}")) for n in range(16))))
        return {
            "first record of a process (it becomes the owner)": first,
            "record": one,
            "16 records at once": group,
        }


async def decide(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async def refused(work: Awaitable[object]) -> None:
        try:
            await work
        except Conflict:
            return
        raise AssertionError("not refused")

    async with bench(runtime, base) as b:
        await b.create("a")
        granted = await b.count(lambda: b.create("b"))
        no = await b.count(lambda: refused(b.create("a")))
        key = new_ulid(runtime, runtime)
        command = CreateNamespace(("c",))
        await b.workspace.decide("catalog", command, actor="me", key=key)
        again = await b.count(lambda: b.workspace.decide("catalog", command, actor="me", key=key))
        return {"decide": granted, "decide, refused": no, "decide, repeated under its request key": again}


async def publish(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base) as b:
        await b.record(made(runtime, "m0"))
        await b.publish()
        await b.record(made(runtime, "m1"))
        something = await b.count(b.publish)
        nothing = await b.count(b.publish)
        return {"publish": something, "publish, nothing new": nothing}


async def publish_private(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base, definitions=(toy(),)) as b:
        await b.record(new_event(SET, NoteSet("a", "x", "hush")))
        return {"publish with a private table": await b.count(b.publish)}


async def ddl(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async def whole(b: Bench, name: str) -> None:
        await b.workspace.published("catalog", await b.create(name))

    found = {}
    async with bench(runtime, base, compact=True) as b:
        for existing, name in ((10, "10"), (1000, "1,000")):
            rows = (await b.workspace.logs["catalog"].replica.scan(NAMESPACES)).num_rows
            await asyncio.gather(*(b.create(f"n{number}") for number in range(rows, existing)))
            await b.workspace.logs["catalog"].compactor.compact()
            found[f"DDL and its publish, {name} namespaces exist"] = await b.count(partial(whole, b, f"x{existing}"))
    return found


class Routes:
    """The routes of the API as one caller uses them, without HTTP around them: that makes no requests to the store."""

    def __init__(self, b: Bench) -> None:
        self._caller = Caller(b.workspace, "me", UserRole.OWNER, "r1", "", "me")
        self._host = Host(b.runtime, {SCOPE: b.workspace}, SCOPE, Door.LOCAL)
        self._runtime = b.runtime

    @property
    def writes(self) -> Writes:
        return Writes(self._caller, "", published=True, operation=new_ulid(self._runtime, self._runtime))

    def reads(self, *, strong: bool) -> Reads:
        return Reads(self._host, self._caller, NOW, strong, 0, Response())

    async def create(self, name: str) -> TableInfo:
        columns = [ColumnSpec(name=f"c{number}", type="long") for number in range(20)]
        return (await create_table(self.writes, TableCreate(name=f"sales.{name}", columns=columns))).table

    async def alter(self, table: str) -> None:
        await alter_table(self.writes, table, TableAlter(changes=[ColumnAdd(name="added", type="long")]), None)

    async def refused(self, name: str) -> None:
        with suppress(Conflict):
            await self.create(name)
            raise AssertionError("not refused")

    async def post(self, events: list[EventIn]) -> None:
        writes = replace(self.writes, published=False)  # as the route does unless it is asked to wait
        assert (await post_events(writes, EventBatch(events=events))).recorded == len(events)


async def catalog(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    """Tables, written and read. Every write is answered when it is published."""
    # No merge runs beside a write: they have a row of their own.
    async with bench(runtime, base, compact=True, cadence=Cadence(fan_in=1_000)) as b:
        routes, opened = Routes(b), b.workspace.logs["catalog"]

        async def count(work: Callable[[], Awaitable[object]]) -> Counts:
            await b.workspace.logs["activity"].current()
            return await b.count(work)

        await b.create("sales")
        found = {}
        for existing, name in ((10, "10"), (1000, "1,000")):
            rows = (await opened.replica.scan(TABLES)).num_rows
            await asyncio.gather(*(routes.create(f"t{number}") for number in range(rows, existing)))
            create = partial(routes.create, f"x{existing}")
            found[f"create a table of 20 columns, {name} tables exist"] = await count(create)
        lifecycle = open_lifecycle(b.workspace)
        rename = partial(rename_table, routes.writes, "sales.t1", TableRename(new_name="sales.y"), None)
        found |= {
            "create a table, refused because of its name": await count(lambda: routes.refused("t1")),
            "alter a table": await count(lambda: routes.alter("sales.t1")),
            "rename a table": await count(rename),
            "drop a table": await count(lambda: drop_table(lifecycle, routes.writes, "sales.t2", None)),
        }
        for name, strong in (("strong", True), ("bounded", False)):
            reads = routes.reads(strong=strong)
            found[f"show a table, {name}"] = await count(partial(get_table, reads, "sales.t3"))
            found[f"a page of 100 of 1,000 tables, {name}"] = await count(partial(list_tables_route, reads, "sales"))
    return found


async def events(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base) as b:
        routes = Routes(b)
        await b.record(made(runtime, "m0"))
        facts = [_edge(runtime, new_ulid(runtime, runtime), new_ulid(runtime, runtime)) for _ in range(100)]
        return {"POST /events with 100 facts": await b.count(lambda: routes.post(facts))}


async def lineage(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base, compact=True) as b:
        routes, found = Routes(b), {}
        await b.create("sales")
        ids = [(await routes.create(f"t{number}")).id for number in range(10)]
        await routes.post([_edge(runtime, source, target) for source, target in pairwise(ids)])
        for name, strong in (("strong", True), ("bounded", False)):
            walk = partial(get_lineage, routes.reads(strong=strong), "sales.t5", "both", 5)
            await walk()
            for log in b.workspace.logs.values():
                await log.current()
            found[f"lineage up and down of 5 hops, {name}"] = await b.count(walk)
        return found


def _edge(runtime: FakeRuntime, source: str, target: str) -> EventIn:
    times = {"started_at": runtime.now(), "completed_at": runtime.now()}
    edges = [{"source_id": source, "target_id": target}]
    return EventIn(type="LineageRecorded", data={"run_id": "r1", "task_id": target, **times, "edges": edges})


class Servos:
    """A deployed project, and one worker of it."""

    def __init__(self, b: Bench) -> None:
        self.servo = Servo(b.workspace, SECRET)
        self._b = b

    async def deploy(self, edges: Mapping[str, Iterable[str]], **fields: Any) -> None:
        plan = await prepare_deploy(self._b.workspace, project(dict(edges), **fields))
        await deploy(self._b.workspace, plan, actor="me")

    @property
    def _all(self) -> RunRequest:
        return RunRequest("*", mode=Mode.FORCE, at=self._b.runtime.now())

    async def plan(self) -> None:
        await self.servo.runs.plan(self._all)

    async def trigger(self, **partitions: str) -> None:
        await self.servo.runs.trigger(msgspec.structs.replace(self._all, partitions=partitions), Asked("me"))

    async def claim(self, slots: int = 1, wait: float = 0.0) -> list[Envelope]:
        return [self._opened(data) for data in await self.servo.work.claim(WORKER, slots, wait)]

    async def finish(self, envelope: Envelope, slots: int = 0) -> list[Envelope]:
        result = result_of(envelope, self._b.runtime.now())
        done = await self.servo.work.finish([result], WORKER, slots)
        return [self._opened(data) for data in done.envelopes]

    async def finish_batch(self, envelopes: list[Envelope]) -> None:
        now = self._b.runtime.now()
        done = await self.servo.work.finish([result_of(envelope, now) for envelope in envelopes], WORKER)
        assert done.refused == {}

    async def idle(self) -> None:
        for _ in range(30):
            assert await self.claim(wait=20.0) == []

    def _opened(self, data: bytes) -> Envelope:
        tenant, workspace, now = SCOPE.tenant, SCOPE.workspace, self._b.runtime.now()
        return open_envelope(SECRET, data, tenant=tenant, workspace=workspace, now=now)


async def orchestration(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    """Deploys, runs and workers where the logs are owned."""
    found: dict[str, Counts] = {}
    async with bench(runtime, base) as b:
        servos = Servos(b)
        await b.record(made(runtime, "m0"))
        await b.create("sales")

        async def count(name: str, work: Callable[[], Awaitable[T]]) -> T:
            for log in b.workspace.logs.values():
                await log.current()
            done: list[T] = []

            async def noted() -> None:
                done.append(await work())

            found[name] = await b.count(noted)
            return done[0]

        await count("deploy 3 assets", partial(servos.deploy, chain(3)))
        await count("plan and trigger a run, after a deploy", servos.trigger)
        await count("plan and trigger a run", servos.trigger)
        await count("first claim of a process", servos.claim)
        (first,) = await count("claim a task", servos.claim)
        await count("a sign of life, where the log is owned", partial(servos.servo.work.beat_here, [callback(first)]))
        (second,) = await count(
            "the result of a task, and the next one claimed with it", partial(servos.finish, first, 1)
        )
        await count("the result of a task", partial(servos.finish, second))
        await _work_off(servos)
        await count("claim, and nothing is ready", servos.claim)
        await count("a worker waits ten minutes for a task, asking anew every twenty seconds", servos.idle)
        await servos.deploy(fan(400))
        await servos.plan()  # which loads the project
        await count("plan and trigger a run whose plan is a blob", servos.trigger)
        await _work_off(servos, 1)
        claimed = await count("claim 50 tasks", partial(servos.claim, 50))
        gathered = await count(
            "the results of 50 tasks at once, each with the next one",
            lambda: asyncio.gather(*(servos.finish(envelope, 1) for envelope in claimed)),
        )
        assert sum(map(len, gathered)) == 50
        await _work_off(servos)
        many = Dimension("k", StaticPartitions(tuple(f"k{number:02d}" for number in range(50))))
        await servos.deploy({"n.jobs": []}, partitions=(many,), engine=Engine.SPARK)
        await servos.trigger(k="*")
        batch = await count("claim a batch of 50 tasks", servos.claim)
        assert len({envelope.batch_id for envelope in batch}) == 1
        alive = [callback(envelope) for envelope in batch]
        await count("signs of life of a batch", partial(servos.servo.work.beat_here, alive))
        await count("the results of a batch of 50 tasks", partial(servos.finish_batch, batch))
        await servos.trigger(k="*")
        batch = await servos.claim()
        lost = ReapAttempts(tuple(envelope.attempt_id for envelope in batch), "its driver died")
        await count("a batch of 50 tasks is lost", partial(b.workspace.decide, "activity", lost, actor="servo"))
    return found


async def _work_off(servos: Servos, most: int = 1_000) -> None:
    for _ in range(most):
        claimed = await servos.claim()
        if not claimed:
            return
        await servos.finish(claimed[0])


async def reading(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async def row(workspace: Workspace) -> None:
        snapshot = await workspace.logs["activity"].snapshot()
        assert await snapshot.get(PARTITIONS, "a7", "p1") is not None

    async with bench(runtime, base) as b:
        for number in range(40):
            await b.record(made(runtime, f"m{number}", asset=f"a{number}"))
            await b.publish()
            await runtime.sleep(2)
        await b.workspace.logs["activity"].compactor.compact()
        await runtime.sleep(2)
        tested = await b.count(lambda: _close(b.reopen(test_store=True)))
        cold = await b.count(lambda: _close(b.reopen()))
        workspace = await b.reopen()
        first = await b.count(lambda: row(workspace))
        again = await b.count(lambda: row(workspace))
        log = workspace.logs["activity"]
        strong = await b.count(log.snapshot)
        stale = await b.count(lambda: log.snapshot(strong=False))
        older = await b.count(lambda: log.snapshot(revision=3))
        exact = await b.count(lambda: log.snapshot(position=3 << 20))
        await workspace.close()
        return {
            "open a workspace, self-test included": tested,
            "open a workspace (cold), without self-test": cold,
            "first row read after opening, strong": first,
            "the same row again, strong": again,
            "look whether a newer revision exists (strong read of what is loaded)": strong,
            "bounded-stale read of what is loaded": stale,
            "state at a retained revision": older,
            "state at a position in the segment after a retained revision": exact,
        }


async def _close(opening: Awaitable[Workspace]) -> None:
    await (await opening).close()


async def idle(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base, compact=True) as b:
        await b.workspace.published("activity", await b.record(made(runtime, "m0")))
        await runtime.sleep(3601)
        return {"an idle hour of an open workspace (two logs)": await b.count(lambda: runtime.sleep(3600))}


async def many(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    """One of many workspaces of a server, which opens it for the first request and closes it when nobody asks."""
    options = ServeOptions("memory://store", (SCOPE,), all_workspaces=True, require_keys=True)
    async with bench(runtime, base, compact=True) as b:
        await b.workspace.published("activity", await b.record(made(runtime, "m0")))
        await b.create("sales")
    await init_workspace(b.store, OTHER, runtime)
    identity = ServiceIdentity(SECRET, "test", runtime)
    host = make_host(b.store, runtime, options, "http://127.0.0.1:1", SECRET, HttpPeers(identity, runtime))
    assert host.served is not None

    async def ask(scope: Scope, expected: bool = True) -> None:
        request: dict[str, object] = {}
        assert (await host.find(scope, request) is not None) is expected
        uses_of(request).accept()
        uses_of(request).release()
        await runtime.sleep(1)  # less than until a new process looks at pointers

    await ask(OTHER)  # the first of a process tests the store
    found = {
        "a workspace that does not exist, of many": await b.count(lambda: ask(NOBODY, expected=False)),
        "the same name again, within half a minute": await b.count(lambda: ask(NOBODY, expected=False)),
        "open one of many workspaces": await b.count(lambda: ask(SCOPE)),
        "ask for it again": await b.count(lambda: ask(SCOPE)),
    }
    await runtime.sleep(30)  # the first look for commits that nobody told of
    await runtime.sleep(options.idle_seconds - 60)
    assert SCOPE in host.workspaces
    found["close it when nobody asks"] = await b.count(lambda: runtime.sleep(60))
    assert not host.workspaces
    found["a day of a server of many workspaces that nobody asks"] = await b.count(lambda: runtime.sleep(86_400))
    found["open it again"] = await b.count(lambda: ask(SCOPE))
    await host.served.close()
    return found


async def merging(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base) as b:
        for number in range(7):
            await b.record(made(runtime, f"m{number}"))
            await b.publish()
        await b.record(made(runtime, "m7"))
        merged = await b.count(b.workspace.logs["activity"].compactor.compact)
        return {"compact: publish the 8th delta, merge 8 deltas of 2 tables, adopt both": merged}


async def collecting(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base) as b:
        log = b.workspace.logs["activity"]
        for number in range(6):
            await b.record(made(runtime, f"m{number}"))
            await b.publish()
            await runtime.sleep(2)
        collector = Collector(b.workspace.handle(Role.COLLECTOR), log.place, runtime)
        nothing = await b.count(collector.collect)
        await runtime.sleep(40 * 24 * 3600)
        await b.record(made(runtime, "late"))
        await b.publish()
        collector = Collector(b.workspace.handle(Role.COLLECTOR), log.place, runtime)
        return {
            "collect, 5 older revisions retained, nothing to delete": nothing,
            "collect, 6 older revisions expired": await b.count(collector.collect),
        }


async def collecting_all(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base) as b:
        for number in range(3):
            await b.record(made(runtime, f"m{number}"))
            await b.create(f"n{number}")
            await b.publish()
            await b.publish("catalog")
            await runtime.sleep(2)
        loop = CollectionLoop(b.workspace, b.store, DAY)
        name = "collect a workspace of 2 logs as a server does, 2 older revisions retained of each, nothing to delete"
        return {name: await b.count(loop.collect)}


async def packing(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    cadence = Cadence(packs=PackSize(segments=32, keep=8))
    async with bench(runtime, base, cadence=cadence) as b:
        log = b.workspace.logs["activity"]
        for number in range(40):
            await b.record(made(runtime, f"m{number}"))
        packed = await b.count(log.compactor.compact)
        again = await b.count(log.compactor.compact)
        await runtime.sleep(40 * 24 * 3600)
        await b.record(made(runtime, "late"))
        await b.publish()
        collector = Collector(b.workspace.handle(Role.COLLECTOR), log.place, runtime)
        dropped = await b.count(collector.collect)
        reader = b.workspace.handle(Role.READER)

        def ledger() -> Ledger:
            revisions = Revisions(reader, log.place, runtime)
            return open_ledger(reader, revisions, log.compactor.head.manifest.packs)

        async def all_of() -> None:
            assert len([found async for found in ledger().known(1, 41)]) == 41

        return {
            "compact: publish, pack 32 of 40 segments, adopt the pack": packed,
            "compact, nothing new and nothing to pack": again,
            "collect, 32 segments that are in a pack, 2 manifests and a result": dropped,
            "read 32 packed segments and the 9 loose ones after them": await b.count(all_of),
            "read one packed segment": await b.count(lambda: ledger().read(7)),
        }


MEASURES = (
    record,
    decide,
    publish,
    publish_private,
    ddl,
    catalog,
    events,
    lineage,
    orchestration,
    reading,
    idle,
    many,
    merging,
    collecting,
    collecting_all,
    packing,
)


IN_MEMORY = (many,)
"""What does things beside a request. On disk they are done by threads, for which the virtual clock does not wait."""


def measure_all(store: Made, measures: Iterable[Measure] = MEASURES) -> dict[str, Counts]:
    """Every row of the table, each measure on a fresh store."""
    found: dict[str, Counts] = {}
    for measure in measures:
        found |= run(lambda runtime, measure=measure: measure(runtime, store(runtime)))  # type: ignore[misc]
    return found


def render(found: dict[str, Counts]) -> str:
    lines = [f"| operation | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    lines += [f"| {name} | {' | '.join(str(counts[c] or '') for c in COLUMNS)} |" for name, counts in found.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(render(measure_all(MemoryStore)))
