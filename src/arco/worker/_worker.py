"""`Worker`: claims tasks, has drivers run them, and tells what became of each.

    claim -> open the envelopes -> driver -> log and results -> finish (which may claim the next ones)

As many tasks run at once as there are slots; those of a batch share one, and a driver. While an attempt runs the worker
says so; the answer may be that it shall end. It then asks the driver, waits a while, and ends the process. A worker
that is told to stop claims no more and lets tasks end; those that do not are ended and told to nobody: the control
plane takes them for lost and has them run again.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from arco.assets import Engine
from arco.core import ArcoError, Invalid, Refused, Runtime, Unavailable, new_ulid
from arco.domains.orchestration import FinishTask, TaskLog
from arco.servo._envelope import Envelope, open_envelope
from arco.spark import SparkSettings
from arco.storage import RequestCounts, Role, RoleStore, Scope, Store
from arco.worker._batch import Batch, Ending
from arco.worker._control import ControlPlane
from arco.worker._delivery import FIRST_BACKOFF, MAX_BACKOFF, Delivery
from arco.worker._errors import DRIVER_LOST, DriverLost
from arco.worker._in_order import InOrder
from arco.worker._logs import LogWriter
from arco.worker._masking import Mask, secret_values
from arco.worker._messages import RaisedError, Report
from arco.worker._outcome import Times, as_raised, cancelled, failed, finished, lost, timed_out
from arco.worker._pool import DriverPool, StorePlace, WarmDriver

__all__ = ["Worker", "WorkerOptions"]

MAX_BEAT_SECONDS: Final = 10.0
PROGRESS_SECONDS: Final = 3.0

FORGET_EVERY: Final = 1_000
"""Attempts after which those are forgotten whose envelopes would not be opened again."""

Ended = Report | DriverLost | RaisedError
"""How an attempt ended, in the driver or with it."""

T = TypeVar("T")
_log = logging.getLogger("arco.worker")


@dataclass(frozen=True)
class WorkerOptions:
    name: str
    tenant: str
    workspace: str
    secret: bytes = field(repr=False)
    """What envelopes are signed with."""
    store: str
    """URL of the store; drivers open it themselves."""
    folder: Path
    """A folder of this worker alone, for code and what drivers need."""
    store_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    slots: int = 4
    spark: SparkSettings = field(default_factory=SparkSettings)
    """Where and how assets run that run on Spark."""
    wait_seconds: float = 20.0
    """How long one question for tasks may wait."""
    cancel_grace_seconds: float = 10.0
    """What a task gets to end by itself."""
    stop_grace_seconds: float = 30.0
    """What tasks get to end when the worker is told to stop."""

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise Invalid(f"a worker has at least one slot, not {self.slots}")
        if self.store.startswith("memory://"):
            raise Invalid(
                "a worker's drivers are processes of their own and cannot see a store in memory; use a folder"
            )


class Worker:
    """Runs until `stop`. `store` is the one that `options.store` names; the worker itself writes logs to it."""

    def __init__(
        self,
        control: ControlPlane,
        store: Store,
        options: WorkerOptions,
        runtime: Runtime,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._control = control
        self._options = options
        self._runtime = runtime
        self._environment = os.environ if environment is None else environment
        scope = Scope(options.tenant, options.workspace)
        self._store = RoleStore(store, scope, Role.WORKER, RequestCounts())
        place = StorePlace(options.store, options.store_options, options.tenant, options.workspace)
        self._pool = DriverPool(control, place, options.folder, self._environment, options.slots, options.spark)
        self._queue: asyncio.Queue[Sequence[Envelope]] = asyncio.Queue()
        """What waits for a slot: tasks that are alone, and batches."""
        self._idle = 0
        self._changed = asyncio.Event()
        """A slot became idle or busy."""
        self._stopping = asyncio.Event()
        self._abandoning = asyncio.Event()
        """What has not ended by now is told to nobody."""
        self._running: dict[str, Batch] = {}
        self._taken: dict[str, int] = {}
        """Attempts that began here, and when their envelopes expire."""

    def stop(self) -> None:
        """Claim no more; `run` returns when what runs has ended. Called again, what runs is ended."""
        if self._stopping.is_set():
            self._abandon()
        self._stopping.set()

    async def run(self) -> None:
        """Work until `stop` is called. Raises what no waiting cures, such as a key that is not valid."""
        session = new_ulid(self._runtime, self._runtime)
        slots: list[asyncio.Task[None]] = []
        try:
            await self._pool.open()
            await self._insist(partial(self._control.open_session, self._options.name, session))
            slots = [asyncio.create_task(self._slot(), name=f"slot {number}") for number in range(self._options.slots)]
            await self._claim()
            await self._drain()
        finally:
            for slot in slots:
                slot.cancel()
            await asyncio.gather(*slots, return_exceptions=True)
            await self._pool.close()

    # Claiming

    async def _claim(self) -> None:
        while not self._stopping.is_set():
            free = self._idle - self._queue.qsize()
            if free <= 0:
                self._changed.clear()
                await self._unless_stopping(self._changed.wait())
                continue
            envelopes = await self._insist(partial(self._control.claim, free, self._options.wait_seconds))
            for batch in self._batches(envelopes or ()):
                self._queue.put_nowait(batch)

    async def _slot(self) -> None:
        while True:
            self._idle += 1
            self._changed.set()
            batches = [await self._queue.get()]
            self._idle -= 1
            while batches:
                batch, *others = batches
                for other in others:
                    self._queue.put_nowait(other)
                try:
                    batches = self._batches(await self._take(batch))
                except Exception:  # noqa: BLE001 - a slot must not be lost
                    _log.exception("an attempt was given up by a fault of the worker")
                    batches = []

    async def _drain(self) -> None:
        """Let what runs end; end what does not."""
        waiting: float | None = self._options.stop_grace_seconds
        while self._idle < self._options.slots:
            self._changed.clear()
            try:
                async with asyncio.timeout(waiting):
                    await self._changed.wait()
            except TimeoutError:
                waiting = None
                self._abandon()

    def _abandon(self) -> None:
        self._abandoning.set()
        for batch in list(self._running.values()):
            batch.end(Ending.STOPPED, "the worker stops")

    async def _insist(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """The answer to a call, asked again as long as nobody answers; None if the worker stops meanwhile."""
        backoff = FIRST_BACKOFF
        while not self._stopping.is_set():
            try:
                return await self._unless_stopping(call())
            except Unavailable as error:
                _log.warning("the control plane does not answer (%s); trying again", error.message)
                await self._unless_stopping(asyncio.sleep(backoff * self._runtime.uniform(0.5, 1.0)))
                backoff = min(backoff * 2, MAX_BACKOFF)
        return None

    async def _unless_stopping(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What the work gives, or None if the worker is told to stop before."""
        task, stop = asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for pending in (task, stop):
                pending.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    # Envelopes

    def _batches(self, envelopes: Iterable[bytes]) -> list[Sequence[Envelope]]:
        """What envelopes hold, those of a batch together."""
        found: dict[str, list[Envelope]] = {}
        for data in envelopes:
            envelope = self._opened(data)
            if envelope is not None:
                found.setdefault(envelope.batch_id or envelope.attempt_id, []).append(envelope)
        return list(found.values())

    def _opened(self, data: bytes) -> Envelope | None:
        """The envelope, if it is genuine and its attempt new. There is nobody to tell of another."""
        now = self._runtime.now()
        options = self._options
        try:
            envelope = open_envelope(options.secret, data, tenant=options.tenant, workspace=options.workspace, now=now)
        except ArcoError as error:
            _log.warning("a task was not taken: %s", error.message)
            return None
        if envelope.attempt_id in self._taken:
            _log.warning("the attempt %s came a second time and was not taken", envelope.attempt_id)
            return None
        self._taken[envelope.attempt_id] = envelope.expires_at
        if len(self._taken) % FORGET_EVERY == 0:
            self._taken = {known: expires for known, expires in self._taken.items() if expires > now}
        return envelope

    # One batch, mostly of one task

    async def _take(self, envelopes: Sequence[Envelope]) -> list[bytes]:
        """Carry tasks out together; envelopes that the control plane gave in return for their results."""
        if self._stopping.is_set():
            return []
        batch = Batch(envelopes, self._options.cancel_grace_seconds)
        self._running[batch.id] = batch
        beating = asyncio.create_task(self._beat(batch), name="beat")
        driver: list[WarmDriver] = []
        returning: asyncio.Task[None] | None = None
        mask = Mask(secret_values(batch.first.definitions, self._environment))
        log = LogWriter(self._store, batch.first.run_id, batch.id, mask)
        delivery = Delivery(self._control, self._runtime, batch, log, self._wanted, self._abandoning)
        try:
            await self._carry_out(batch, driver, delivery, log, mask)
            if driver:
                returning = asyncio.create_task(self._give_back(driver[0]), name="give a driver back")
            return await delivery.close()
        except BaseException:
            delivery.abandon()
            raise
        finally:
            beating.cancel()
            del self._running[batch.id]
            if returning is not None:
                await returning
            elif driver:
                await self._pool.release(driver[0], "its task was given up")

    def _wanted(self) -> int:
        """How many tasks and batches to claim with the last results of a batch."""
        return 0 if self._stopping.is_set() or self._queue.qsize() else 1

    async def _carry_out(
        self, batch: Batch, driver: list[WarmDriver], delivery: Delivery, log: LogWriter, mask: Mask
    ) -> None:
        """Run a batch; what became of each of its tasks is in `delivery`, the driver that was used in `driver`."""
        started = self._runtime.now()
        order: InOrder[tuple[Ended, Times]] = InOrder(batch.envelopes)

        def tell(envelope: Envelope, report: Ended) -> None:
            order.ended(envelope, (report, Times(started, max(self._runtime.now(), started))))
            judge()

        def judge(*, is_over: bool = False) -> None:
            while (due := order.due(is_over=is_over)) is not None:
                envelope, (report, times) = due
                make = order.judged(envelope, _outcome(batch, envelope, report, times, mask))
                if make is None:
                    batch.told(envelope.attempt_id)
                else:
                    delivery.add(envelope, make)

        def told(report: Report) -> None:
            envelope = batch.reported(report.attempt_id)
            if envelope is not None:
                tell(envelope, report)

        rest: Ended = Report("", is_cancelled=True)
        try:
            driver.append(await self._pool.acquire(batch.first.code_sha256, _engine(batch.first)))
            started = self._runtime.now()
            if batch.ending is None:
                await self._run(batch, driver[0], log, told)
        except DriverLost as error:
            rest = error
        except ArcoError as error:
            rest = as_raised(error)
        except OSError as error:
            rest = as_raised(Refused(f"the worker cannot run the task: {error}"))
        finally:
            await batch.over()
        for envelope in batch.left:
            batch.reported(envelope.attempt_id)
            tell(envelope, rest)
        judge(is_over=True)

    async def _run(self, batch: Batch, driver: WarmDriver, log: LogWriter, told: Callable[[Report], None]) -> None:
        batch.begin(driver)
        tasks = {
            envelope.attempt_id: msgspec.msgpack.encode(msgspec.structs.replace(envelope, callback_token=""))
            for envelope in batch.envelopes
        }
        await driver.process.run(tasks, batch.first.heartbeat_seconds, log.feed, told)

    async def _give_back(self, driver: WarmDriver) -> None:
        idle = await driver.process.idle()
        await self._pool.release(driver, idle.unfit)

    async def _beat(self, batch: Batch) -> None:
        """Say that its attempts are alive until each is over; end it when the answer is to."""
        longest = min(batch.first.heartbeat_seconds / 4, MAX_BEAT_SECONDS)
        while True:
            # Whoever has something to tell is looked at by somebody, perhaps.
            await asyncio.sleep(longest if batch.progress is None else min(longest, PROGRESS_SECONDS))
            alive = batch.untold
            if not alive:
                return
            try:
                answers = await self._control.heartbeat(alive, batch.progress)
            except ArcoError as error:
                _log.warning("a sign of life of %s was not heard: %s", alive[0].attempt_id, error.message)
                continue
            for envelope, answer in zip(alive, answers, strict=True):
                if answer.stale:
                    batch.forget(envelope.attempt_id)
                elif answer.cancel:
                    batch.end(Ending.CANCELLED, answer.reason)


def _engine(envelope: Envelope) -> Engine:
    is_on_spark = bool(envelope.definitions) and envelope.definitions[0].is_on_spark
    return Engine.SPARK if is_on_spark else Engine.PYTHON


def _outcome(
    batch: Batch, envelope: Envelope, report: Ended, times: Times, mask: Mask
) -> Callable[[TaskLog | None], FinishTask] | None:
    """What makes the result of an attempt, by how it ended and why; None if nobody is to be told."""

    def made(make: Callable[..., FinishTask], *given: Any) -> Callable[[TaskLog | None], FinishTask]:
        return lambda log: make(envelope, *given, times, log, mask)

    ending = batch.ending
    if ending in (Ending.STALE, Ending.STOPPED):
        return None
    if isinstance(report, Report) and not report.is_cancelled:
        if report.error is None:
            return made(finished, report)
        if report.error.lineage[:1] == (DRIVER_LOST,):
            return made(lost, DriverLost(report.error.message))
        if report.is_lost:
            broken = DriverLost(f"the batch of {len(batch.envelopes)} tasks broke: {report.error.message}")
            return lambda log: lost(envelope, broken, times, log, mask, report.error.traceback if report.error else "")
        return made(failed, report.error)
    if ending is Ending.TIMED_OUT:
        if batch.is_alone:
            return lambda log: timed_out(envelope, times, log)
        return made(lost, DriverLost(_took_too_long(batch)))
    if ending is Ending.CANCELLED:
        return lambda log: cancelled(envelope, times, log)
    if isinstance(report, RaisedError):
        return made(failed, report)
    return made(lost, report if isinstance(report, DriverLost) else DriverLost(CANCELLED_BY_NOBODY))


CANCELLED_BY_NOBODY: Final = "the task says that it was cancelled, by nobody"


def _took_too_long(batch: Batch) -> str:
    """Nobody can tell which task of a batch is the slow one: those that have not ended go on in smaller batches."""
    seconds, count = batch.first.timeout_seconds or 0, len(batch.envelopes)
    return f"a batch of {count} tasks took longer than the {seconds:g} seconds that they may take together"
