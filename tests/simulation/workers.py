"""Simulated workers: they claim, beat, finish, die, hang, fall silent, repeat themselves and come late.

A `SimWorker` is one worker through all its lives; each life is a process of its own, with its own clock and session.
What it is told about its results is kept (`Told`): the log must agree with every answer.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from arco.assets import GatingAction
from arco.core import ArcoError, Conflict, Invalid, Refused
from arco.domains.orchestration import STALE_ATTEMPT, FinishTask, Outcome
from arco.servo import Beat, Envelope, WorkerId, open_envelope
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
            for data in envelopes or ():
                self._begin(life, data)
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

    # One attempt

    def _begin(self, life: _Life, data: bytes) -> None:
        now = life.runtime.now()
        envelope = open_envelope(SECRET, data, tenant=SCOPE.tenant, workspace=SCOPE.workspace, now=now)
        if envelope.attempt_id in self.world.handed:
            raise Violation("an attempt is handed out once", f"{envelope.task_key} came twice")
        self.world.handed[envelope.attempt_id] = life.process.name
        life.change(-1)
        self.world.scheduler.spawn(self._work(life, envelope), f"attempt of {envelope.task_key}", life.process)

    async def _work(self, life: _Life, envelope: Envelope) -> None:
        world, manners = self.world, self.world.manners
        stop = SimFuture()
        random = world.scheduler.child(f"attempt {envelope.attempt_id}")
        silent = not world.calm and random.random() < manners.silent
        if not silent:
            world.scheduler.spawn(self._beat(life, envelope, stop), f"beats of {envelope.task_key}", life.process)
        seconds = random.expovariate(1.0 / manners.seconds)
        if random.random() < 0.1:
            seconds += 4 * envelope.heartbeat_seconds + 60.0  # only its beats keep it
        if not world.calm and random.random() < manners.hangs:
            seconds += random.uniform(100.0, 3000.0)
            world.probe.fault("task hangs")
        if envelope.timeout_seconds is not None and random.random() < 0.9:
            seconds = min(seconds, envelope.timeout_seconds)
        deaf = not world.calm and random.random() < manners.deaf
        said = await self._run(life, stop, seconds, deaf)
        if said == "over" and random.random() < 0.7:
            stop.set("over")
            life.change(1)
            return  # it is over for us; else its result comes all the same, and late
        result = self._result(life, envelope, said, random)
        await self._deliver(life, result, random)
        stop.set("over")
        life.change(1)

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

    async def _beat(self, life: _Life, envelope: Envelope, stop: SimFuture) -> None:
        attempt_id, token = envelope.attempt_id, envelope.callback_token
        while not stop.done():
            await life.runtime.sleep(envelope.heartbeat_seconds / 3 * self.random.uniform(0.8, 1.0))
            if stop.done():
                return
            ran = attempt_id in self.world.referee.running
            try:
                beat: Beat | None = await self._ask(
                    life, f"beat {attempt_id}", lambda plane: self._told_alive(plane, attempt_id, token), 5.0
                )
            except Conflict as error:
                if ran and attempt_id in self.world.referee.running:
                    raise Violation(KEEPS_BEATING, f"{attempt_id}: {error.message}") from error
                stop.set("over")
                return
            if beat is not None and attempt_id in self.world.referee.running:
                self.world.heard[attempt_id] = self.world.scheduler.time
            if beat is not None and beat.cancel:
                stop.set("cancel")

    async def _told_alive(self, plane: Plane, attempt_id: str, token: str) -> Beat:
        plane.servo.check_callback(attempt_id, token)
        return await plane.servo.work.beat(attempt_id, token)

    # Results

    async def _deliver(self, life: _Life, result: FinishTask, random: Random) -> None:
        """Tell a result until somebody answers; some tell it again, or tell something else afterwards."""
        told = Told(result)
        self.world.told.append(told)
        slots = 1 if random.random() < 0.5 else 0
        await self._tell(life, told, slots)
        while random.random() < (0.0 if self.world.calm else self.world.manners.repeats):
            self.world.probe.fault("result repeated")
            await life.runtime.sleep(random.choice((0.0, 5.0, 200.0)) * random.random())
            await self._tell(life, told, 0)
        if not self.world.calm and random.random() < self.world.manners.contradicts:
            self.world.probe.fault("result contradicted")
            other = Told(msgspec.structs.replace(result, finished_at=result.finished_at + 1))
            self.world.told.append(other)
            await self._tell(life, other, 0)

    async def _tell(self, life: _Life, told: Told, slots: int) -> None:
        try:
            envelopes = await self._insist(
                life,
                f"finish {told.result.attempt_id}",
                lambda plane: plane.servo.work.finish(told.result, life.id, slots),
            )
        except Conflict as error:
            if error.details.get("code") != STALE_ATTEMPT:
                raise
            told.stale += 1
            self.world.probe.path("stale result refused")
            return
        told.acknowledged += 1
        for data in envelopes:
            self._begin(life, data)
