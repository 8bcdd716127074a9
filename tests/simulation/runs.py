"""The random world of whole runs: control planes, workers, callers and chaos on one workspace, all from one seed.

First everything goes wrong that the seed draws: processes of the control plane die, stand still, lose the store and
each other; workers die, hang, fall silent and come late; callbacks get lost, late and doubled. Then the storm ends.
From then on every worker behaves, and every run must end in bounded time. A `Referee` judges every segment as it lands.
"""

import gc
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from arco.core import (
    ArcoError,
    Conflict,
    Corrupt,
    Invalid,
    LostObject,
    Outdated,
    Refused,
    Superseded,
    Unavailable,
    new_ulid,
)
from arco.domains.access import UpdateSettings
from arco.runtime import DEFINITIONS
from arco.servo import Asked, RunRequest, Servo, Triggered, deploy, prepare_deploy
from arco.state import Cadence
from arco.storage import StoreFailed
from tests.simulation.checkers import check_deletion
from tests.simulation.graphs import draw_project, draw_request
from tests.simulation.network import Network
from tests.simulation.node import Cluster, Node
from tests.simulation.observe import Sight, watching
from tests.simulation.outside import OutsideQueue
from tests.simulation.peers import Plane, SimPeers
from tests.simulation.probe import Probe
from tests.simulation.referee import Referee
from tests.simulation.runs_checkers import check_runs, inspect, watching_servo
from tests.simulation.scheduler import Process, Scheduler, SimFuture, SimRuntime, Violation
from tests.simulation.store import Mix
from tests.simulation.workers import SECRET, Manners, SimWorker, Told
from tests.simulation.world import Result, check_tasks

__all__ = ["RunsWorld", "run_runs"]

CAPACITY = "servo.max_concurrent_tasks"

CONVERGENCE = 7200.0
"""Seconds within which every run must have ended once the storm is over."""

MESSAGES = ("message lost", "answer lost", "message delayed", "message duplicated", "stream broken")
CALLBACKS = ("callback lost", "callback answer lost", "callback delayed", "callback duplicated")


@dataclass(eq=False)
class Wish:
    """A run that somebody wants, asked under one operation however often."""

    request: RunRequest
    operation: str
    answers: list[str] = field(default_factory=list)
    """Ids of the run that were answered."""
    refused: int = 0


class RunsWorld:
    def __init__(self, seed: int, sight: Sight, verbose: Callable[[str], None] | None = None) -> None:
        self.seed, self.sight, self.probe = seed, sight, sight.probe
        self.scheduler = Scheduler(seed)
        self.scheduler.verbose = verbose
        self.random = random = self.scheduler.child("world")
        self.storm_mix = Mix.draw(self.scheduler.child("faults"))
        cadence = Cadence(
            interval=random.choice((2.0, 15.0, 120.0)),
            fan_in=random.choice((2, 4)),
            max_rows=random.choice((5, 2_000)),
        )
        self.cluster = Cluster(self.scheduler, Mix(latency=self.storm_mix.latency), cadence, self.probe, self._peers)
        self.callbacks = Network(self.scheduler, self.probe, noun="callback", purpose="callbacks")
        self.capacity = random.choice((2, 3, 64))
        self.referee = Referee(self.scheduler, self.capacity)
        self.cluster.disk.on_create = self._created
        self.cluster.disk.on_delete = lambda path: check_deletion(self.cluster, path)
        self.manners = Manners.draw(random)
        self.patience = random.choice((3.0, 30.0))
        """The longest pause between two questions of a worker that does not wait for answers."""
        self.project = draw_project(self.scheduler.child("project"))
        parts = [f"{asset.key}[k=k1]" for asset in self.project.assets if asset.partitions]
        self.deadly = {random.choice(parts)} if parts and random.random() < 0.5 else set[str]()
        """Tasks that kill the driver they run in, each time."""
        self.names = [f"p{index}" for index in range(random.choice((1, 2, 2, 3)))]
        self.planes: dict[str, Plane] = {}
        self.workers = [SimWorker(self, f"w{index}") for index in range(random.randrange(1, 5))]
        self.queue = OutsideQueue(self) if random.random() < 0.3 else None
        self.wishes: list[Wish] = []
        self.cancels: list[str] = []
        """Runs whose cancel was acknowledged, or refused because they were over."""
        self.told: list[Told] = []
        self.handed: dict[str, str] = {}
        """Attempts that arrived at a worker, and at which of its lives."""
        self.beats: dict[tuple[str, str], float] = {}
        """By process and attempt: when a sign of life was acknowledged there."""
        self.heard: dict[str, float] = {}
        """When the worker of an attempt last got an answer to a sign of life."""
        self.calm = False
        self.calm_since = float("inf")
        self.calmed = SimFuture()
        self.storm_ends = random.choice((60.0, 300.0, 900.0))

    def _created(self, path: str, data: bytes) -> None:
        if "/ledger/activity/" in path and "/floor/" not in path:
            self.referee.segment(data, path)

    # Processes of the control plane

    def _peers(self, process: Process) -> SimPeers:
        return SimPeers(self.cluster.network, process, self.planes.get)

    def planes_alive(self) -> list[Plane]:
        return [plane for plane in self.planes.values() if plane.process.alive]

    async def _boot(self, name: str) -> Plane | None:
        node = await self.cluster.boot(name, definitions=DEFINITIONS, compact=self.random.random() < 0.8)
        if node is None:
            return None
        plane = Plane(node, Servo(node.workspace, SECRET, self._peers(node.process)))
        self.planes[node.workspace.address] = plane
        node.process.on_crash.append(lambda: self._forget(node.workspace.address))
        plane.servo.start()
        return plane

    def _forget(self, address: str) -> None:
        self.planes.pop(address, None)

    async def _live(self, name: str) -> None:
        """Start a process of the control plane, and again whenever it has died."""
        plane = await self._boot(name)
        if plane is None:
            self.scheduler.after(1.0, lambda: self._start(name))
        else:
            plane.process.on_crash.append(lambda: self._reborn(name))

    def _start(self, name: str) -> None:
        self.scheduler.spawn(self._live(name), f"life of {name}")

    def _reborn(self, name: str) -> None:
        self.scheduler.after(1.0 if self.calm else self.random.choice((0.5, 10.0, 120.0)), lambda: self._start(name))

    # The course of a run

    async def run(self) -> None:
        await self.cluster.init()
        await self._prepare()
        self.cluster.mix.rates.update(self.storm_mix.rates)
        level = self.random.choice((0.0, 0.03, 0.1))
        self.cluster.network.rates = {kind: level for kind in MESSAGES if self.random.random() < 0.5}
        level = self.random.choice((0.0, 0.03, 0.15))
        self.callbacks.rates = {kind: level for kind in CALLBACKS if self.random.random() < 0.5}
        for worker in self.workers:
            worker.start()
        for index in range(self.random.randrange(1, 4)):
            begins = self.random.uniform(0.0, self.storm_ends * 0.7)
            self.scheduler.spawn(self._caller(index, begins), f"caller {index}")
        self.scheduler.spawn(self._inspector(), "inspector")
        if self.queue is not None:
            self.scheduler.spawn(self.queue.run(), "queue outside")
        await self._storm()
        await self._heal()

    async def _prepare(self) -> None:
        """Deploy, and limit what may run at once, while everything works."""
        first = await self._boot(self.names[0])
        assert first is not None

        async def prepare() -> None:
            workspace = first.node.workspace
            await deploy(workspace, await prepare_deploy(workspace, self.project), actor="tester")
            await workspace.decide("catalog", UpdateSettings({CAPACITY: self.capacity}), actor="tester")

        await first.node.spawn(prepare(), "preparation")
        first.process.on_crash.append(lambda: self._reborn(self.names[0]))
        for name in self.names[1:]:
            self._start(name)

    async def _caller(self, index: int, begins: float) -> None:
        """Wants a run, asks until it is answered, and perhaps changes its mind."""
        random = self.scheduler.child(f"caller {index}")
        process = self.cluster.process(f"caller{index}")
        runtime = SimRuntime(process)
        await self.scheduler.sleep(begins)
        request = draw_request(random, self.project, self.cluster.disk.now())
        wish = Wish(request, new_ulid(runtime, runtime))
        self.wishes.append(wish)
        asked = Asked("tester", operation=wish.operation)

        async def trigger(plane: Plane) -> Triggered:
            return await plane.servo.runs.trigger(request, asked)

        run_id = ""
        while not run_id:
            try:
                found = await self._call(process, "trigger", trigger, random.choice((2.0, 30.0)))
            except (Invalid, Refused):
                wish.refused += 1
                return
            run_id = found.run_id if found is not None else ""
            await self.scheduler.sleep(random.uniform(0.1, 3.0))
        wish.answers.append(run_id)
        if random.random() < 0.3:
            await self.scheduler.sleep(random.expovariate(1.0 / 40.0))
            self.probe.path("cancelled by a caller")

            async def cancel(plane: Plane) -> bool:
                await plane.servo.runs.cancel(run_id, "enough", Asked("tester"))
                return True

            try:
                while not await self._call(process, "cancel", cancel, 10.0):
                    await self.scheduler.sleep(1.0)
            except Conflict:
                pass  # it is over
            self.cancels.append(run_id)

    async def _call(
        self, process: Process, what: str, work: Callable[[Plane], Coroutine[Any, Any, Any]], patience: float
    ) -> Any:
        """What a process of the control plane answers; None if none does."""
        planes = self.planes_alive()
        plane = self.random.choice(planes) if planes else None
        target = plane.process if plane is not None else None
        call = self.callbacks.call(process, target, what, lambda: work(plane))  # type: ignore[arg-type]
        try:
            return await SimRuntime(process).timeout(patience, call)
        except TimeoutError:
            return None
        except (Invalid, Refused):
            raise
        except ArcoError:
            return None

    # What goes wrong from outside

    async def _storm(self) -> None:
        calm = self.random.choice((5.0, 20.0, 60.0))
        while self.scheduler.time < self.storm_ends:
            await self.scheduler.sleep(self.random.expovariate(1.0 / calm))
            planes = self.planes_alive()
            if self.random.random() < 0.5:
                self._harm_worker(self.random.choice(self.workers))
            elif planes:
                self._harm_plane(self.random.choice(planes).node)

    def _harm_worker(self, worker: SimWorker) -> None:
        life = worker.life
        if life is None or not life.process.alive:
            return
        if self.random.random() < 0.5:
            self.probe.fault("worker dies")
            life.process.crash()
            if self.random.random() < 0.8:
                delay = self.random.choice((0.5, 20.0, 200.0))
                self.scheduler.after(delay, lambda: None if worker.alive else worker.start())
        else:
            self.probe.fault("worker stands still")
            life.process.stall(self.random.choice((5.0, 60.0, 300.0)) * self.random.uniform(0.2, 1.0))

    def _harm_plane(self, node: Node) -> None:
        process, random = node.process, self.random
        match random.choice(("crash", "stall", "stall", "jump", "outage", "collect", "rebuild")):
            case "crash":
                self.probe.fault("crash")
                process.crash()
            case "stall":
                self.probe.fault("stalled")
                process.stall(random.choice((3.0, 40.0, 400.0)) * random.uniform(0.3, 1.0))
            case "jump":
                self.probe.fault("clock jump")
                process.skew = int(random.uniform(-100e6, 100e6))
            case "outage":
                self.probe.fault("outage")
                node.store.outage_until = self.scheduler.time + random.uniform(5.0, 90.0)
            case "collect":
                node.spawn(self._collecting(node), "collector")
            case _:
                node.spawn(self._rebuilding(node), "rebuild")

    async def _collecting(self, node: Node) -> None:
        try:
            await node.collect("activity")
        except (Unavailable, StoreFailed):
            return

    async def _rebuilding(self, node: Node) -> None:
        try:
            await node.log("activity").compactor.rebuild()
        except (LostObject, Outdated, Superseded, Unavailable):
            return  # somebody else rebuilt meanwhile, and what this one had written was collected

    async def _inspector(self) -> None:
        random = self.scheduler.child("inspector")
        while True:
            await self.scheduler.sleep(random.uniform(5.0, 40.0))
            planes = [plane for plane in self.planes_alive() if not plane.process.stalled]
            if planes:
                plane = random.choice(planes)
                plane.node.spawn(inspect(self, plane), f"inspection of {plane.node.name}")

    # Everything works again

    async def _heal(self) -> None:
        self.scheduler.note("heal")
        self.cluster.mix.rates.clear()
        self.cluster.network.rates.clear()
        self.callbacks.rates.clear()
        for plane in self.planes_alive():
            plane.node.store.outage_until = 0.0
            plane.process.wake()
        self.calm = True
        self.calm_since = self.scheduler.time
        self.calmed.set(None)
        for worker in self.workers:
            if not worker.alive:
                worker.start()
            elif worker.life is not None:
                worker.life.process.wake()
        if self.random.random() < 0.5:
            await self.scheduler.sleep(self.random.uniform(0.0, 60.0))
            await self._caller(99, 0.0)  # one that meets no trouble
        began = self.scheduler.time
        while not self._is_done():
            await self.scheduler.sleep(5.0)
            if self.scheduler.time - began > CONVERGENCE:
                raise Violation("every run ends", self._left())
        fresh = None
        while fresh is None:
            fresh = await self._boot("fresh")
        await fresh.node.spawn(self._last_look(fresh), "last look")

    def _is_done(self) -> bool:
        asked = all(wish.answers or wish.refused for wish in self.wishes)
        return asked and not self.referee.running and all(run.is_over for run in self.referee.runs.values())

    def _left(self) -> str:
        standings = [
            f"{key} is {state}"
            for run in self.referee.runs.values()
            for key, state in run.states().items()
            if state in ("RUNNING", "READY", "RETRY_WAIT", "BLOCKED")
        ]
        asked = sum(not (wish.answers or wish.refused) for wish in self.wishes)
        return f"{asked} callers without an answer; {len(standings)} tasks left: {standings[:4]}"

    async def _last_look(self, plane: Plane) -> None:
        await plane.node.log("activity").current()
        await plane.node.log("catalog").current()


def run_runs(seed: int, verbose: Callable[[str], None] | None = None, *, judge: bool = True) -> Result:
    """One run of the world of whole runs. Without `judge` nothing is checked in the end."""
    gc.disable()  # dropped coroutines are closed when we say so, and not at random
    try:
        return _run(seed, verbose, judge)
    finally:
        gc.enable()
        gc.collect()


def _run(seed: int, verbose: Callable[[str], None] | None, judge: bool) -> Result:
    probe = Probe()
    with watching(probe, plain=seed % 8 == 0) as sight:
        world = RunsWorld(seed, sight, verbose)
        checker, text = "", ""
        with watching_servo(world):
            try:
                main = world.scheduler.spawn(world.run(), "world")
                world.scheduler.run(main, max_steps=2_000_000, max_seconds=10 * 24 * 3600.0)
                world.scheduler.note("end", world.scheduler.steps, sorted(probe.paths.items()))
                check_tasks(world.scheduler)
                if judge:
                    check_runs(world)
            except Violation as violation:
                checker, text = violation.checker, str(violation)
            except Corrupt as error:
                checker, text = "nothing is corrupt", f"corrupt: {error}"
            except Exception as error:  # noqa: BLE001 - whatever reaches the world was not expected there
                checker, text = "errors have their place", f"unexpected: {error!r}"
            finally:
                world.scheduler.close()
        return Result(seed, world.scheduler.digest(), probe, text, checker, world.scheduler.steps)
