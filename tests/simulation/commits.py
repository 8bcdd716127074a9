"""The random world of Iceberg commits: servers on one store, clients with and without keys, readers and chaos.

Clients mark tables, one or several at once; some demand what the last mark must be. Requests with a key whose outcome
their client did not learn are sent again, by another server if need be. First everything goes wrong that the seed
draws. Then faults stop: whatever was sent arrives, every server that is alive has settled what it began, requests with
a key get an answer, a fresh server commits to every table, and the checkers judge the history.
"""

import gc
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from arco.core import Corrupt, OutcomeUnknown, Refused, Superseded, Unavailable
from arco.iceberg import Committed
from arco.storage import StoreFailed
from tests.iceberg.stage import Server, marking, marking_after, new_key
from tests.simulation.commits_checkers import check_commits
from tests.simulation.commits_history import Call, Commits, Marks, Read, Request
from tests.simulation.observe import watching
from tests.simulation.probe import Probe
from tests.simulation.scheduler import Process, Scheduler, SimFuture, SimRuntime, SimTask, Violation
from tests.simulation.store import Mix, SimDisk, SimStore
from tests.simulation.world import Result, check_tasks

__all__ = ["CommitWorld", "Node", "run_commits"]

HOURS = 3600.0

CONVERGENCE = 60.0
"""Seconds within which a commit must be through once faults are over."""


class DeafStore(SimStore):
    """A connection that sometimes breaks right after a commit was sent, so that nobody can say what became of it."""

    deaf = 0.0

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        commits = "/pointers/" in path or "/txns/" in path
        if commits and self._random.random() < self.deaf:
            self.disk.probe.fault("outage")
            if self._random.random() < 0.7:
                self._send(lambda: self.disk.put(path, data, only_if_absent), self._random.uniform(0.0, 30.0), None)
            self.outage_until = self.disk.scheduler.time + self._random.uniform(1.0, 60.0)
            self.unsettled.add(path)
            raise StoreFailed(f"the connection broke: {path}")
        await super().put(path, data, only_if_absent=only_if_absent)


@dataclass(eq=False)
class Node:
    """A server in a process."""

    process: Process
    runtime: SimRuntime
    store: DeafStore
    server: Server


@dataclass
class CommitWorld:
    seed: int
    probe: Probe
    verbose: Callable[[str], None] | None = None
    history: Commits = field(default_factory=Commits)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.seed)
        self.scheduler.verbose = self.verbose
        self.random = self.scheduler.child("world")
        self.disk = SimDisk(self.scheduler, self.probe)
        self.disk.on_create = self._on_create
        self.mix = Mix.draw(self.scheduler.child("faults"))
        self.names = [f"s{index}" for index in range(self.random.choice((1, 2, 2, 3)))]
        self.tables = [f"T{index}" for index in range(self.random.choice((1, 2, 2, 3)))]
        self.pace = self.random.choice((0.05, 0.3, 2.0))
        self.keyed = self.random.choice((0.0, 0.6, 1.0, 1.0))
        self.several = self.random.choice((0.0, 0.4, 0.8)) if len(self.tables) > 1 else 0.0
        self.impatient = self.random.choice((0.0, 0.1, 0.3))
        self.deaf = self.random.choice((0.0, 0.0, 0.1))
        self.slow = self.random.choice((0.0, 0.0, 0.7, 1.5))
        """Seconds more that every write takes, so that transactions outlast the patience of others."""
        self.work = self.random.randrange(10, 40)
        self.nodes: list[Node] = []
        self.births = 0
        self.over = False
        self.marks = 0

    async def run(self) -> None:
        first = self.boot("first", Mix())
        for table in self.tables:
            await first.runtime.spawn(first.server.create(table), f"create {table}")
        first.process.crash()
        for name in self.names:
            self._live(name)
        for index in range(3 * len(self.names)):
            self.scheduler.spawn(self._client(), f"client {index}")
        await self._chaos()
        await self._heal()

    def _on_create(self, path: str, data: bytes) -> None:
        self.history.on_create(path, data)
        if "/keys/" in path and not path.endswith("/00000000000000000001"):
            self.probe.path("key taken over")
        elif "/txns/" in path:
            self.probe.path("transaction committed" if b'"committed"' in data else "transaction aborted")

    # Processes

    def boot(self, name: str, mix: Mix) -> Node:
        self.births += 1
        process = Process(self.scheduler, name, self.births)
        runtime = SimRuntime(process)
        store = DeafStore(self.disk, process, mix)
        if mix is self.mix:
            store.deaf = self.deaf
            store.delays["create"] = self.slow
        node = Node(process, runtime, store, Server(store, runtime))
        self.nodes.append(node)
        process.on_crash.append(lambda: self.nodes.remove(node))
        return node

    def _live(self, name: str) -> None:
        node = self.boot(name, self.mix)
        node.process.on_crash.append(lambda: self._reborn(name))
        node.runtime.spawn(self._reader(node), f"reader of {name}")

    def _reborn(self, name: str) -> None:
        delay = self.random.choice((0.5, 5.0, 60.0))
        self.scheduler.after(delay, lambda: None if self.over else self._live(name))

    # Clients

    async def _client(self) -> None:
        while self.work > 0 and not self.over:
            await self.scheduler.sleep(self.random.expovariate(1.0 / self.pace))
            if not self.nodes:
                continue
            self.work -= 1
            awake = [node for node in self.nodes if not node.process.stalled]
            node = self.random.choice(awake if awake and self.random.random() < 0.9 else self.nodes)
            again = [each for each in self.history.requests if self._is_open(each)]
            request = self.random.choice(again) if again and self.random.random() < 0.7 else await self._draw(node)
            await self.send(node, request, 90.0 if self.random.random() > self.impatient else self.random.uniform(0, 3))

    @staticmethod
    def _is_open(request: Request) -> bool:
        """Whether its client would send it again: it has a key, and the last time brought no outcome."""
        return request.key is not None and not request.is_settled and request.calls[-1].returned is not None

    async def _draw(self, node: Node) -> Request:
        self.marks += 1
        mark = f"m{self.marks}"
        if self.random.random() < 0.06:
            kind = "drop" if self.random.random() < 0.5 else "make"
            return self._request(kind, (self.random.choice(self.tables),), mark)
        count = self.random.randint(2, len(self.tables)) if self.random.random() < self.several else 1
        tables = tuple(self.random.sample(self.tables, count))
        expected: str | bool | None = True
        if self.random.random() < 0.4:
            task = node.runtime.spawn(self.read(node, tables[0]), "look")
            task.retrieved = True
            await self._over(node, task, 30.0)
            seen = task.ended._value
            expected = seen[-1] if seen else None
        request = self._request("mark", tables, mark, expected)
        if self.random.random() < self.keyed:
            request.key = new_key(node.runtime, mark)
        return request

    def _request(self, kind: str, tables: tuple[str, ...], mark: str, expected: str | bool | None = True) -> Request:
        request = Request(kind, tables, mark, expected)
        self.history.requests.append(request)
        return request

    async def send(self, node: Node, request: Request, patience: float) -> None:
        """Send a request and note the answer. A client that does not get one in time goes away."""
        call = Call(self.history.tick())
        request.calls.append(call)
        self.probe.operations[f"{request.kind} requests"] += 1
        self.scheduler.note(node.process.name, request.kind, request.mark, *request.tables)
        task = node.runtime.spawn(self._ask(node, request), request.mark)
        task.retrieved = True
        await self._over(node, task, patience)
        if node.process.alive and task.done():
            self._hear(call, task)
        elif node.process.alive:
            self.probe.fault("request cancelled")
            task.cancel()
        call.returned = self.history.tick()
        self.scheduler.note(node.process.name, request.mark, call.answer, call.reason)

    async def _over(self, node: Node, task: SimTask, patience: float) -> None:
        """Until the task has ended, its process is dead, or patience is over."""
        first = SimFuture()
        task.ended.when_done(lambda: first.set(None))
        node.process.on_crash.append(lambda: first.set(None))
        self.scheduler.after(patience, lambda: first.set(None))
        if node.process.alive:
            await first

    def _hear(self, call: Call, task: SimTask) -> None:
        error = task.ended._error
        if error is None:
            call.answer = task.ended._value
            if call.answer == "replayed":
                self.probe.path("replayed by key")
            return
        call.reason = str(error)
        if isinstance(error, OutcomeUnknown):
            self.probe.path("answered unknown")
            call.answer = "unknown"
        elif isinstance(error, Unavailable):
            call.answer = "unavailable"
        elif isinstance(error, Refused):
            call.answer = "refused"
        else:
            raise error

    async def _ask(self, node: Node, request: Request) -> str:
        server, who = node.server, node.server.who(request.key)
        if request.kind == "drop":
            await server.committer.drop(request.tables[0], who)
            return "acknowledged"
        if request.kind == "make":
            await server.create(request.tables[0])
            return "acknowledged"
        edits = [
            (table, marking(request.mark) if index or isinstance(request.expected, bool) else self._demanding(request))
            for index, table in enumerate(request.tables)
        ]
        if len(edits) > 1:
            done: tuple[Committed, ...] = await server.transactions.commit(edits, who)
            return "acknowledged" if done else "replayed"
        committed = await server.committer.commit(*edits[0], who)
        return "replayed" if committed.replayed else "acknowledged"

    @staticmethod
    def _demanding(request: Request) -> Any:
        assert not isinstance(request.expected, bool)
        return marking_after(request.mark, request.expected)

    # Readers

    async def _reader(self, node: Node) -> None:
        while not self.over:
            await node.runtime.sleep(self.random.choice((0.05, 1.0, 10.0)))
            for table in self.random.sample(self.tables, len(self.tables)):
                await self.read(node, table)

    async def read(self, node: Node, table: str) -> Marks:
        invoked = self.history.tick()
        try:
            found = await node.server.marks(table)
        except Unavailable:
            return None
        marks = None if found is None else tuple(found)
        self.probe.operations["reads"] += 1
        self.history.reads.append(Read(table, invoked, self.history.tick(), marks))
        return marks

    # What goes wrong from outside

    async def _chaos(self) -> None:
        calm = self.random.choice((1.0, 5.0, 30.0))
        while self.work > 0:
            await self.scheduler.sleep(self.random.expovariate(1.0 / calm))
            if not self.nodes:
                continue
            node = self.random.choice(self.nodes)
            fault = self.random.choice(("crash", "stalled", "stalled", "suspended", "clock jump", "outage"))
            self.probe.fault(fault)
            if fault == "crash":
                node.process.crash()
            elif fault == "stalled":
                node.process.stall(self.random.uniform(0.5, 10.0))
            elif fault == "suspended":
                node.process.stall(self.random.uniform(0.3, 3.0) * HOURS)
            elif fault == "clock jump":
                node.process.skew += int(self.random.uniform(-200e6, 200e6))
            else:
                node.store.outage_until = self.scheduler.time + self.random.uniform(5.0, 90.0)

    # Everything works again

    async def _heal(self) -> None:
        self.over = True
        self.scheduler.note("heal")
        self.mix.rates.clear()
        for node in self.nodes:
            node.store.outage_until = 0.0
            node.store.delays.clear()
            node.store.deaf = 0.0
            node.process.wake()
        await self.scheduler.sleep(3 * HOURS)  # what is delayed arrives
        for node in self.nodes:
            if node.server.committer.turns._queues:
                raise Violation("progress", f"{node.process.name} never settled {node.server.committer.turns._queues}")
        fresh = self.boot("fresh", Mix())
        await self._finish(fresh)

    async def _finish(self, node: Node) -> None:
        for request in self.history.requests:
            if request.key is not None and not request.is_settled:
                await self._promptly(node, request)
        for table in self.tables:
            await self._promptly(node, self._request("make", (table,), "alive"))
            self.marks += 1
            request = self._request("mark", (table,), f"m{self.marks}")
            await self._promptly(node, request)
        if len(self.tables) > 1:
            await self._promptly(node, self._request("mark", tuple(self.tables), "last"))
        for table in self.tables:
            await self.read(node, table)

    async def _promptly(self, node: Node, request: Request) -> None:
        began = self.scheduler.time
        await self.send(node, request, 90.0)
        if not request.is_settled or self.scheduler.time - began > CONVERGENCE:
            seconds = self.scheduler.time - began
            raise Violation("progress", f"{request.mark} is {request.calls[-1]} after {seconds:.0f} s")


def run_commits(seed: int, verbose: Callable[[str], None] | None = None, *, judge: bool = True) -> Result:
    """One run of the world of commits."""
    gc.disable()  # dropped coroutines are closed when we say so, and not at random
    try:
        probe = Probe()
        with watching(probe):
            world = CommitWorld(seed, probe, verbose)
            return _judged(world, world.run(), judge)
    finally:
        gc.enable()
        gc.collect()


def _judged(world: CommitWorld, play: Coroutine[Any, Any, None], judge: bool) -> Result:
    seed, scheduler, probe = world.seed, world.scheduler, world.probe
    try:
        main = scheduler.spawn(play, "world")
        scheduler.run(main, max_steps=400_000, max_seconds=60 * 24 * HOURS)
        scheduler.note("end", scheduler.steps, sorted(probe.paths.items()))
        if judge:
            check_tasks(scheduler)
            check_commits(world.history, world.probe)
    except Violation as violation:
        return Result(seed, scheduler.digest(), probe, str(violation), violation.checker)
    except (Corrupt, Superseded) as error:
        return Result(seed, scheduler.digest(), probe, f"corrupt: {error}", "nothing is corrupt")
    except Exception as error:  # noqa: BLE001 - whatever reaches the world was not expected there
        return Result(seed, scheduler.digest(), probe, f"unexpected: {error!r}", "errors have their place")
    finally:
        scheduler.close()
    return Result(seed, scheduler.digest(), probe, steps=scheduler.steps)
