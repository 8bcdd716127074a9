"""Simulated workers: they claim, beat, finish, die, hang, fall silent, repeat themselves and come late.

A `SimWorker` is one worker through all its lives; each life is a process of its own, with its own clock and session.
What it is told about its results is kept (`Told`): the log must agree with every answer. What was claimed together has
one driver, which reports on each task as it ends, or on all in the end, and may die in between.
"""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from arco.assets import GatingAction
from arco.core import ArcoError, Invalid, Refused
from arco.domains.orchestration import STALE_ATTEMPT, FailureCategory, FinishTask, Outcome
from arco.servo import Beat, Callback, Envelope, Finished, WorkerId, open_envelope
from tests.servo.world import result_of
from tests.simulation.node import SCOPE
from tests.simulation.peers import Plane
from tests.simulation.scheduler import Process, SimFuture, SimRuntime, Violation

if TYPE_CHECKING:
    from tests.simulation.runs import RunsWorld

__all__ = ["SECRET", "Manners", "SimWorker", "Told"]

SECRET = b"s" * 32

KEEPS_BEATING = "a running attempt is not told that it is over"


@dataclass
class Told:
    """A result and what its worker was told about it."""

    result: FinishTask
    acknowledged: int = 0
    stale: int = 0


@dataclass(frozen=True)
class Manners:
    """How workers behave, for one run: chances and seconds."""

    seconds: float
    fails: float
    hangs: float
    silent: float
    deaf: float
    """Ignores that it shall end."""
    repeats: float
    contradicts: float
    gates: float
    waits: float
    """How long a question for tasks may wait."""
    dies: float
    """A driver dies in the middle of a batch."""
    faithful: bool
    """They ask the same process of the control plane as long as it answers."""

    @classmethod
    def draw(cls, random: Random) -> "Manners":
        def some(*chances: float) -> float:
            return random.choice((0.0, *chances))

        return cls(
            seconds=random.choice((0.5, 5.0, 30.0)),
            fails=some(0.1, 0.4),
            hangs=some(0.03, 0.1),
            silent=some(0.05),
            deaf=some(0.3),
            repeats=some(0.1, 0.5),
            contradicts=some(0.2),
            gates=some(0.1),
            waits=random.choice((0.0, 5.0, 20.0)),
            dies=some(0.2, 0.5),
            faithful=random.random() < 0.5,
        )


@dataclass(eq=False)
class _Life:
    """What a worker has in memory: all of it goes when its process dies."""

    process: Process
    id: WorkerId
    free: int
    changed: SimFuture = field(default_factory=SimFuture)
    home: Plane | None = None
    """Who answered last."""

    @property
    def runtime(self) -> SimRuntime:
        return SimRuntime(self.process)

    def change(self, by: int) -> None:
        self.free += by
        self.changed.set(None)

    async def wait(self, seconds: float) -> None:
        """Until something changes here, or so long."""

        async def changed() -> None:
            await self.changed

        if self.changed.done():
            self.changed = SimFuture()
        try:
            await self.runtime.timeout(seconds, changed())
        except TimeoutError:
            return


async def _claim(plane: Plane, worker: WorkerId, slots: int, wait: float) -> list[bytes]:
    return await plane.servo.work.claim(worker, slots, wait)


class SimWorker:
    def __init__(self, world: "RunsWorld", name: str) -> None:
        self.world = world
        self.name = name
        self.random = world.scheduler.child(f"worker {name}")
        self.slots = self.random.choice((1, 1, 2, 4))
        self.life: _Life | None = None
        self._lives = 0

    # Its lives

    @property
    def alive(self) -> bool:
        return self.life is not None and self.life.process.alive

    def start(self) -> None:
        """A new life: nothing of the earlier ones is known."""
        self._lives += 1
        process = self.world.cluster.process(self.name)
        self.life = _Life(process, WorkerId(self.name, f"{self.name}-{self._lives}"), self.slots)
        self.world.scheduler.spawn(self._live(self.life), f"life of {process.name}", process)

    def poke(self) -> None:
        """A queue outside says that there is something to do."""
        if self.life is not None:
            self.life.changed.set(None)

    async def _live(self, life: _Life) -> None:
        await self._insist(life, "session", lambda plane: plane.servo.work.open_session(life.id))
        while True:
            if life.free <= 0:
                await life.wait(60.0)
                continue
            wait = self.world.manners.waits
            envelopes = await self._ask(
                life, "claim", partial(_claim, worker=life.id, slots=life.free, wait=wait), wait + 15.0
            )
            self._begin(life, envelopes or ())
            if not envelopes:
                await life.wait(self.random.uniform(1.0, 10.0 if wait else self.world.patience))

    # Asking

    async def _ask(
        self, life: _Life, what: str, work: Callable[[Plane], Coroutine[Any, Any, Any]], patience: float
    ) -> Any:
        """What a process of the control plane answers; None if none does. `Conflict` is an answer."""
        plane, life.home = self._plane(life), None
        target = plane.process if plane is not None else None
        call = self.world.callbacks.call(life.process, target, what, lambda: work(plane))  # type: ignore[arg-type]
        try:
            found = await life.runtime.timeout(patience, call)
        except TimeoutError:
            return None
        except (Invalid, Refused):
            life.home = plane
            raise
        except ArcoError:
            return None
        life.home = plane
        return found

    def _plane(self, life: _Life) -> Plane | None:
        if self.world.manners.faithful and life.home is not None and life.home.process.alive:
            return life.home
        planes = self.world.planes_alive()
        return self.random.choice(planes) if planes else None

    async def _insist(self, life: _Life, what: str, work: Callable[[Plane], Coroutine[Any, Any, Any]]) -> Any:
        async def answered(plane: Plane) -> tuple[Any]:
            return (await work(plane),)

        pause = 0.5
        while True:
            found = await self._ask(life, what, answered, 20.0)
            if found is not None:
                return found[0]
            await life.runtime.sleep(pause * self.random.uniform(0.5, 1.0))
            pause = min(pause * 2, 10.0)

    # One batch, mostly of one attempt

    def _begin(self, life: _Life, envelopes: Iterable[bytes]) -> None:
        now = life.runtime.now()
        batches: dict[str, list[Envelope]] = {}
        for data in envelopes:
            envelope = open_envelope(SECRET, data, tenant=SCOPE.tenant, workspace=SCOPE.workspace, now=now)
            if envelope.attempt_id in self.world.handed:
                raise Violation("an attempt is handed out once", f"{envelope.task_key} came twice")
            self.world.handed[envelope.attempt_id] = life.process.name
            batches.setdefault(envelope.batch_id or envelope.attempt_id, []).append(envelope)
        for batch in batches.values():
            life.change(-1)
            self.world.scheduler.spawn(self._work(life, batch), f"attempt of {batch[0].task_key}", life.process)

    async def _work(self, life: _Life, batch: list[Envelope]) -> None:
        world, manners, first = self.world, self.world.manners, batch[0]
        stop = SimFuture()
        random = world.scheduler.child(f"attempt {first.attempt_id}")
        alive = {envelope.attempt_id: envelope for envelope in batch}
        if world.calm or random.random() >= manners.silent:
            world.scheduler.spawn(self._beat(life, alive, stop), f"beats of {first.task_key}", life.process)
        gathers, share = random.random() < 0.4, random.choice((1, len(batch)))
        dies_at = self._dies_at(batch, random)
        done: list[FinishTask] = []
        for index, envelope in enumerate(batch):
            said = await self._run(life, stop, *self._seconds(envelope, share, random))
            if said == "over" and random.random() < 0.7:
                break  # it is over for us; else its results come all the same, and late
            if index == dies_at:
                done += [self._lost(life, one) for one in batch[index:]]
                break
            done.append(self._result(life, envelope, said, random))
            if not gathers and random.random() < 0.7:
                done = await self._deliver(life, done, alive, random)
        await self._deliver(life, done, alive, random)
        stop.set("over")
        life.change(1)

    def _dies_at(self, batch: list[Envelope], random: Random) -> int:
        """Before which of its tasks the driver of a batch dies; -1 if it does not."""
        deadly = [index for index, one in enumerate(batch) if one.task_key in self.world.deadly]
        if deadly:
            self.world.probe.fault("deadly task")
            return deadly[0]
        if len(batch) > 1 and not self.world.calm and random.random() < self.world.manners.dies:
            self.world.probe.fault("driver dies")
            return random.randrange(len(batch))
        return -1

    def _lost(self, life: _Life, envelope: Envelope) -> FinishTask:
        now = max(life.runtime.now(), envelope.issued_at)
        return result_of(envelope, now, Outcome.FAILED, retryable=True, category=FailureCategory.WORKER_LOST)

    def _seconds(self, envelope: Envelope, count: int, random: Random) -> tuple[float, bool]:
        """How long a task takes that shares its time with others, and whether nothing can end it earlier."""
        world, manners = self.world, self.world.manners
        seconds = random.expovariate(count / manners.seconds)
        if random.random() < 0.1 / count:
            seconds += 4 * envelope.heartbeat_seconds + 60.0  # only its beats keep it
        if not world.calm and random.random() < manners.hangs / count:
            seconds += random.uniform(100.0, 3000.0)
            world.probe.fault("task hangs")
        if envelope.timeout_seconds is not None and random.random() < 0.9:
            seconds = min(seconds, envelope.timeout_seconds / count)
        return seconds, not world.calm and random.random() < manners.deaf

    async def _run(self, life: _Life, stop: SimFuture, seconds: float, deaf: bool) -> str:
        """Until it is done, or told to end, or the storm is over."""

        async def told() -> str:
            said: str = await stop
            return said

        async def calm() -> str:
            await self.world.calmed
            return ""

        try:
            said: str = await life.runtime.timeout(seconds, calm() if deaf else told())
        except TimeoutError:
            return ""
        return said

    def _result(self, life: _Life, envelope: Envelope, said: str, random: Random) -> FinishTask:
        now = max(life.runtime.now(), envelope.issued_at)
        outcome = Outcome.SUCCEEDED
        if said == "cancel":
            outcome = Outcome.CANCELLED if random.random() < 0.8 else Outcome.FAILED
        elif random.random() < self.world.manners.fails:
            outcome = Outcome.FAILED
        result = result_of(envelope, now, outcome, retryable=random.random() < 0.8)
        if random.random() < self.world.manners.gates and outcome is not Outcome.CANCELLED:
            failed = outcome is Outcome.FAILED
            gate = random.choice(
                (GatingAction.FAIL_TASK, GatingAction.FAIL_RUN)
                if failed
                else (GatingAction.WARN, GatingAction.BLOCK_DOWNSTREAM)
            )
            result = msgspec.structs.replace(result, gate=gate)
        return result

    async def _beat(self, life: _Life, alive: dict[str, Envelope], stop: SimFuture) -> None:
        """Say that attempts are alive, as long as the end of one has not been told."""
        first = next(iter(alive.values()))
        while not stop.done() and alive:
            await life.runtime.sleep(first.heartbeat_seconds / 3 * self.random.uniform(0.8, 1.0))
            if stop.done() or not alive:
                return
            attempts = [Callback(one.attempt_id, one.callback_token) for one in alive.values()]
            running = self.world.referee.running
            ran = {one.attempt_id for one in attempts if one.attempt_id in running}
            beats: list[Beat] | None = await self._ask(
                life, f"beat {first.attempt_id}", partial(self._told_alive, attempts=attempts), 5.0
            )
            for attempt, beat in zip(attempts, beats or (), strict=beats is not None):
                self._heard(attempt.attempt_id, beat, attempt.attempt_id in ran, alive, stop)

    def _heard(self, attempt_id: str, beat: Beat, ran: bool, alive: dict[str, Envelope], stop: SimFuture) -> None:
        runs = attempt_id in self.world.referee.running
        if beat.stale:
            if ran and runs:
                raise Violation(KEEPS_BEATING, attempt_id)
            alive.pop(attempt_id, None)
            if not alive:
                stop.set("over")
        elif runs:
            self.world.heard[attempt_id] = self.world.scheduler.time
        if beat.cancel:
            stop.set("cancel")

    async def _told_alive(self, plane: Plane, attempts: list[Callback]) -> list[Beat]:
        for attempt in attempts:
            plane.servo.check_callback(attempt.attempt_id, attempt.token)
        return await plane.servo.work.beat(attempts)

    # Results

    async def _deliver(
        self, life: _Life, results: list[FinishTask], alive: dict[str, Envelope], random: Random
    ) -> list[FinishTask]:
        """Tell results until somebody answers; some tell them again, or tell something else afterwards."""
        if not results:
            return []
        told = [Told(result) for result in results]
        self.world.told += told
        slots = 1 if random.random() < 0.5 and len(alive) <= len(results) else 0
        await self._tell(life, told, slots)
        for one in results:
            alive.pop(one.attempt_id, None)
        while random.random() < (0.0 if self.world.calm else self.world.manners.repeats):
            self.world.probe.fault("result repeated")
            await life.runtime.sleep(random.choice((0.0, 5.0, 200.0)) * random.random())
            await self._tell(life, random.sample(told, random.randrange(1, len(told) + 1)), 0)
        if not self.world.calm and random.random() < self.world.manners.contradicts:
            self.world.probe.fault("result contradicted")
            result = random.choice(results)
            other = Told(msgspec.structs.replace(result, finished_at=result.finished_at + 1))
            self.world.told.append(other)
            beside = [one for one in told if one.result is not result]
            await self._tell(life, [other, *beside[:1]], 0)
        return []

    async def _tell(self, life: _Life, told: list[Told], slots: int) -> None:
        results = [one.result for one in told]
        done: Finished = await self._insist(
            life, f"finish {results[0].attempt_id}", lambda plane: plane.servo.work.finish(results, life.id, slots)
        )
        for one in told:
            error = done.refused.get(one.result.attempt_id)
            if error is None:
                one.acknowledged += 1
            elif error.details.get("code") == STALE_ATTEMPT:
                one.stale += 1
                self.world.probe.path("stale result refused")
            else:
                raise error
        self._begin(life, done.envelopes)
