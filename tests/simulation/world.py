"""The random world: processes, clients, readers, collectors, rebuilds and chaos on one workspace, all from one seed.

A run has two phases. First everything goes wrong that its seed draws. Then faults stop, and everything must converge:
every process that is alive works again, a fresh one opens the workspace, all of the log is published, and every checker
is satisfied.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from arco.core import ArcoError, Corrupt, Outdated, Superseded, Unavailable
from arco.state import Cadence, PackSize, ReleasePin
from arco.storage import StoreFailed
from tests.simulation.checkers import check_deletion, check_everything
from tests.simulation.clients import Ask, Asking, History, Reading
from tests.simulation.node import DEFINITIONS, OLD_DEFINITIONS, Cluster, Node
from tests.simulation.observe import Sight, watching
from tests.simulation.probe import Probe
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.scheduler import Scheduler, Violation
from tests.simulation.stage import run_scenario
from tests.simulation.store import Mix

__all__ = ["Result", "World", "check_tasks", "run_seed"]

HOURS = 3600.0

CONVERGENCE = 300.0
"""Seconds within which a process must carry out a command on each log and publish everything, once faults are over."""
MESSAGES = ("message lost", "answer lost", "message delayed", "message duplicated")


@dataclass
class Result:
    seed: int
    trace: str
    probe: Probe
    violation: str = ""
    checker: str = ""
    steps: int = 0


def _draw_packs(random: Random) -> PackSize:
    """Small ones, so that much is packed; in some worlds by bytes."""
    return PackSize(
        bytes=random.choice((900, 3_000, 1 << 20)),
        segments=random.choice((2, 3, 5)),
        keep=random.choice((1, 1, 3)),
        fan=random.choice((2, 3)),
    )


@dataclass
class World:
    seed: int
    sight: Sight
    verbose: Callable[[str], None] | None = None
    pending: list[Ask] = field(default_factory=list)
    """Requests whose outcome somebody may still want to know."""

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.seed)
        self.scheduler.verbose = self.verbose
        self.random = self.scheduler.child("world")
        random = self.random
        self.hours = random.random() < 0.4
        """A run over many hours, in which processes sleep while others work and collect; else a short storm."""
        self.pace = 3.0 if self.hours else random.choice((0.3, 1.0))
        cadence = Cadence(
            interval=2.0 if self.hours else random.choice((2.0, 5.0, 15.0)),
            fan_in=random.choice((2, 3, 4)),
            max_rows=random.choice((5, 2_000)),
            packs=_draw_packs(self.scheduler.child("packs")),
        )
        self.cluster = Cluster(self.scheduler, Mix.draw(self.scheduler.child("faults")), cadence, self.sight.probe)
        self.cluster.disk.on_delete = lambda path: check_deletion(self.cluster, path)
        level = random.choice((0.0, 0.03, 0.1))
        self.cluster.network.rates = {kind: level for kind in MESSAGES if random.random() < 0.5}
        self.history = History()
        self.asking = Asking(self.cluster, self.history, self.scheduler.child("clients"))
        self.reading = Reading(self.cluster, self.history, self.scheduler.child("readers"))
        self.names = [f"p{index}" for index in range(random.choice((2, 2, 3)))]
        self.old = random.choice(self.names) if random.random() < 0.25 else ""
        """A process that stays one release behind."""
        self.work = random.randrange(15, 45)
        """Requests that are still to be made, by whoever is awake."""
        self.over = False
        self.quiet_until = 0.0

    async def run(self) -> None:
        await self.cluster.init()
        for name in self.names:
            self._start(name)
        await self._chaos()
        await self._heal()

    # Life of a process

    def _start(self, name: str) -> None:
        self.scheduler.spawn(self._live(name), f"life of {name}")

    async def _live(self, name: str) -> None:
        definitions = OLD_DEFINITIONS if name == self.old else DEFINITIONS
        node = await self.cluster.boot(name, definitions=definitions)
        if node is None:
            self.scheduler.after(1.0, lambda: self._start(name))
            return
        node.process.on_crash.append(lambda: self._reborn(name))
        for index in range(2):
            node.spawn(self._client(node), f"client {index} of {node.name}")
        node.spawn(self._reader(node), f"reader of {node.name}")

    def _reborn(self, name: str) -> None:
        if not self.over:
            delay = self.random.choice((0.5, 10.0, 2 * HOURS))
            self.scheduler.after(delay, lambda: None if self.over else self._start(name))

    async def _client(self, node: Node) -> None:
        random = self.asking.random
        while self.work > 0 and not self.over:
            self.work -= 1
            pause = random.uniform(60.0, 2 * HOURS) if random.random() < 0.02 else random.expovariate(1.0 / self.pace)
            await node.runtime.sleep(pause)
            while self.quiet_until > self.scheduler.time:
                await node.runtime.sleep(self.quiet_until - self.scheduler.time + random.random())
            again = [ask for ask in self.pending if ask.answer in ("unknown", "pending", "unavailable")]
            ask = random.choice(again) if again and random.random() < 0.5 else self.asking.draw(node)
            if ask not in self.pending:
                self.pending.append(ask)
            else:
                self.pending.remove(ask)  # tried once more, then left alone
            await self.asking.perform(node, ask)

    async def _reader(self, node: Node) -> None:
        while not self.over:
            await node.runtime.sleep(self.reading.random.choice((1.0, 20.0, HOURS)))
            if self.over:
                return
            await self.reading.perform(node)

    # What goes wrong from outside

    async def _chaos(self) -> None:
        calm = 15.0 if self.hours else self.random.choice((1.5, 6.0, 30.0))
        while self.work > 0:
            await self.scheduler.sleep(self.random.expovariate(1.0 / calm))
            nodes = self.cluster.alive()
            if not nodes:
                continue
            node = self.random.choice(nodes)
            actions = (
                self._crash,
                self._stall,
                self._suspend,
                self._jump,
                self._collect,
                self._rebuild,
                self._quiet,
                self._outage,
            )
            weights = (1, 1, 1, 1, 3, 1, 6, 1) if self.hours else (2, 3, 1, 1, 3, 1, 1, 1)
            action = self.random.choices(actions, weights)[0]
            action(node)

    def _crash(self, node: Node) -> None:
        self.sight.probe.fault("crash")
        node.process.crash()

    def _stall(self, node: Node) -> None:
        self.sight.probe.fault("stalled")
        node.process.stall(self.random.uniform(0.5, 30.0))

    def _suspend(self, node: Node) -> None:
        self.sight.probe.fault("suspended")
        node.process.stall(self.random.uniform(0.3, 8.0) * HOURS)

    def _jump(self, node: Node) -> None:
        self.sight.probe.fault("clock jump")
        reach = self.random.choice((200e6, 200e6, 3 * HOURS * 1e6))
        node.process.skew += int(self.random.uniform(-reach, reach))

    def _collect(self, node: Node) -> None:
        node.spawn(self._collecting(node, self.random.choice(("catalog", "activity"))), "collector")

    def _rebuild(self, node: Node) -> None:
        node.spawn(self._rebuilding(node, self.random.choice(("catalog", "activity"))), "rebuild")

    def _quiet(self, node: Node) -> None:
        """Hours in which nobody works. Somebody may fall asleep before and wake up after the others; collectors run
        when work begins again."""
        if self.quiet_until > self.scheduler.time:
            return
        busy, hours = self.random.uniform(5.0, 30.0), self.random.uniform(1.1, 4.0) * HOURS
        self.quiet_until = self.scheduler.time  # only one at a time
        if self.random.random() < 0.7:
            self.sight.probe.fault("suspended")
            node.process.stall(busy + hours + self.random.choice((20.0, 60.0, 2 * HOURS)))
        self.scheduler.after(busy, lambda: self._begin_quiet(hours))
        for log in ("catalog", "activity"):
            for delay in (self.random.uniform(5.0, 30.0), self.random.uniform(5.0, 90.0)):
                self.scheduler.after(busy + hours + delay, partial(self._collect_somewhere, log))

    def _begin_quiet(self, seconds: float) -> None:
        self.quiet_until = self.scheduler.time + seconds
        self.scheduler.note("quiet", round(seconds))

    def _outage(self, node: Node) -> None:
        """The store does not answer this process for a while."""
        self.sight.probe.fault("outage")
        node.store.outage_until = self.scheduler.time + self.random.uniform(5.0, 90.0)

    def _collect_somewhere(self, log: str) -> None:
        awake = [node for node in self.cluster.alive() if not node.process.stalled]
        if awake and not self.over:
            node = self.random.choice(awake)
            node.spawn(self._collecting(node, log), "collector")

    async def _collecting(self, node: Node, log: str) -> None:
        try:
            done = await node.collect(log)
        except (Unavailable, StoreFailed):
            return
        if done.files:
            self.sight.probe.path("files collected")
        if done.manifests:
            self.sight.probe.path("manifests collected")
        if done.segments:
            self.sight.probe.path("segments dropped")

    async def _rebuilding(self, node: Node, log: str) -> None:
        try:
            await node.log(log).compactor.rebuild()
        except Outdated:
            self.sight.probe.path("outdated only reads")
        except Superseded:
            self.sight.probe.path("rebuild given up")
        except Unavailable:
            return

    # Everything works again

    async def _heal(self) -> None:
        self.over = True
        self.scheduler.note("heal")
        self.cluster.mix.rates.clear()
        self.cluster.network.rates.clear()
        for node in self.cluster.alive():
            node.store.outage_until = 0.0
            node.process.wake()
        await self.scheduler.sleep(3 * HOURS)  # what is delayed arrives
        survivors = [node for node in self.cluster.alive() if node.definitions is DEFINITIONS]
        fresh = await self.cluster.boot("fresh")
        if fresh is None:
            raise Violation("progress", "a fresh process cannot open the workspace")
        for node in [*survivors, fresh]:
            began = self.scheduler.time
            await node.spawn(self._prove_alive(node), f"proof that {node.name} works")
            if self.scheduler.time - began > CONVERGENCE:
                raise Violation("progress", f"{node.name} took {self.scheduler.time - began:.0f} s to work again")
        for node in self.cluster.alive():
            for log in node.workspace.logs.values():
                if log.compactor.failed is not None and not isinstance(log.compactor.failed, Outdated):
                    raise Violation("progress", f"the compactor of {node.name} stopped: {log.compactor.failed}")

    async def _prove_alive(self, node: Node) -> None:
        """Commands are carried out and published, whoever owns and whoever publishes."""
        for log in ("catalog", "activity"):
            ask = (
                self.asking.ask(node, log, "unpin", "pinX", ReleasePin("pinX"))
                if log == "catalog"
                else self.asking.record(node, (self.asking.materialization(node),))
            )
            try:
                await self.asking.perform(node, ask)
                if ask.answer == "unavailable":
                    raise Violation("progress", f"{node.name} cannot write to {log}: {ask.reason}")
                tail = await node.log(log).follower.catch_up()
                await node.workspace.published(log, (tail.number + 1 << 20) - 1 if tail.number else 0)
                await node.log(log).compactor.compact()
            except ArcoError as error:
                raise Violation("progress", f"{node.name} does not work on {log}: {error!r}") from error


def run_seed(seed: int, verbose: Callable[[str], None] | None = None, *, judge: bool = True) -> Result:
    """One run of the random world; every fifth seed also plays one of the scripted scenarios.

    Without `judge` nothing is checked in the end: that is for runs of which only the trace is wanted.
    """
    gc.disable()  # dropped coroutines are closed when we say so, and not at random
    try:
        result = _run_world(seed, verbose, judge)
        if judge and not result.violation and seed % 5 == 0:
            names = sorted(SCENARIOS)
            name = names[seed // 5 % len(names)]
            result.checker, text, probe = run_scenario(SCENARIOS[name], seed)
            result.violation = text and f"in the scenario {name}: {text}"
            result.probe.add(probe)
        return result
    finally:
        gc.enable()
        gc.collect()


def _run_world(seed: int, verbose: Callable[[str], None] | None, judge: bool) -> Result:
    probe = Probe()
    with watching(probe, plain=seed % 8 == 0) as sight:
        world = World(seed, sight, verbose)
        try:
            main = world.scheduler.spawn(world.run(), "world")
            world.scheduler.run(main, max_steps=400_000, max_seconds=60 * 24 * HOURS)
            world.scheduler.note("end", world.scheduler.steps, sorted(probe.paths.items()))
            if judge:
                check_tasks(world.scheduler)
                check_everything(world.cluster, world.history, sight)
        except Violation as violation:
            return Result(seed, world.scheduler.digest(), probe, str(violation), violation.checker)
        except Corrupt as error:
            return Result(seed, world.scheduler.digest(), probe, f"corrupt: {error}", "nothing is corrupt")
        except Exception as error:  # noqa: BLE001 - whatever reaches the world was not expected there
            return Result(seed, world.scheduler.digest(), probe, f"unexpected: {error!r}", "errors have their place")
        finally:
            world.scheduler.close()
        return Result(seed, world.scheduler.digest(), probe, steps=world.scheduler.steps)


def check_tasks(scheduler: Scheduler) -> None:
    """Background work handles its own errors; one that nobody caught is a mistake."""
    for task, error in scheduler.failed:
        if not task.retrieved:
            raise Violation("background work handles its errors", f"{task.name}: {error!r}")
