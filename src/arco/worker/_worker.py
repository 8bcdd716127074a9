"""`Worker`: claims tasks, has drivers run them, and tells what became of each.

    claim -> open the envelope -> driver -> log and result -> finish (which may claim the next one)

As many tasks run at once as there are slots. While an attempt runs the worker says so; the answer may be that it shall
end. It then asks the driver, waits a while, and ends the process. A result is told until it is taken, or until the
control plane says that the attempt is over. A worker that is told to stop claims no more and lets tasks end; those that
do not are ended and told to nobody: the control plane takes them for lost and has them run again.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from arco.assets import Engine
from arco.core import ArcoError, Conflict, Invalid, Refused, Runtime, Unavailable, new_ulid
from arco.domains.orchestration import FinishTask, TaskLog
from arco.servo._envelope import Envelope, open_envelope
from arco.spark import SparkSettings
from arco.storage import RequestCounts, Role, RoleStore, Scope, Store
from arco.worker._attempt import Attempt, Ending
from arco.worker._control import ControlPlane, is_stale
from arco.worker._errors import DRIVER_LOST, DriverLost
from arco.worker._logs import LogWriter
from arco.worker._masking import Mask, secret_values
from arco.worker._messages import RaisedError, Report
from arco.worker._outcome import Times, as_raised, cancelled, failed, finished, lost, timed_out
from arco.worker._pool import DriverPool, StorePlace, WarmDriver

__all__ = ["Worker", "WorkerOptions"]

MAX_BEAT_SECONDS: Final = 10.0
PROGRESS_SECONDS: Final = 3.0
FIRST_BACKOFF: Final = 0.1
MAX_BACKOFF: Final = 10.0

FORGET_EVERY: Final = 1_000
"""Attempts after which those are forgotten whose envelopes would not be opened again."""

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
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._idle = 0
        self._changed = asyncio.Event()
        """A slot became idle or busy."""
        self._stopping = asyncio.Event()
        self._abandoning = asyncio.Event()
        """What has not ended by now is told to nobody."""
        self._running: dict[str, Attempt] = {}
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
            for data in envelopes or ():
                self._queue.put_nowait(data)

    async def _slot(self) -> None:
        while True:
            self._idle += 1
            self._changed.set()
            envelopes = [await self._queue.get()]
            self._idle -= 1
            while envelopes:
                data, *others = envelopes
                for other in others:
                    self._queue.put_nowait(other)
                try:
                    envelopes = await self._take(data)
                except Exception:  # noqa: BLE001 - a slot must not be lost
                    _log.exception("an attempt was given up by a fault of the worker")
                    envelopes = []

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
        for attempt in list(self._running.values()):
            attempt.end(Ending.STOPPED, "the worker stops")

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

    # One attempt

    async def _take(self, data: bytes) -> list[bytes]:
        """Carry one envelope out; envelopes that the control plane gave in return for its result."""
        envelope = None if self._stopping.is_set() else self._opened(data)
        if envelope is None:
            return []
        attempt = Attempt(envelope, self._options.cancel_grace_seconds)
        self._running[envelope.attempt_id] = attempt
        beating = asyncio.create_task(self._beat(attempt), name="beat")
        driver: list[WarmDriver] = []
        returning: asyncio.Task[None] | None = None
        try:
            result = await self._result(attempt, driver)
            if driver:
                returning = asyncio.create_task(self._give_back(driver[0]), name="give a driver back")
            return await self._deliver(attempt, result) if result is not None else []
        finally:
            beating.cancel()
            del self._running[envelope.attempt_id]
            if returning is not None:
                await returning
            elif driver:
                await self._pool.release(driver[0], "its task was given up")

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

    async def _result(self, attempt: Attempt, driver: list[WarmDriver]) -> FinishTask | None:
        """What became of it; None if nobody is to be told. The driver that was used is left in `driver`."""
        envelope = attempt.envelope
        mask = Mask(secret_values(envelope.definitions, self._environment))
        log = LogWriter(self._store, envelope.run_id, envelope.attempt_id, mask)
        started = self._runtime.now()
        report: Report | DriverLost | RaisedError
        try:
            driver.append(await self._pool.acquire(envelope.code_sha256, _engine(envelope)))
            started = self._runtime.now()
            report = await self._run(attempt, driver[0], log)
        except DriverLost as error:
            report = error
        except ArcoError as error:
            report = as_raised(error)
        except OSError as error:
            report = as_raised(Refused(f"the worker cannot run the task: {error}"))
        except BaseException:
            log.abandon()
            raise
        finally:
            await attempt.over()
        kept = await log.close()
        times = Times(started, max(self._runtime.now(), started))
        return _outcome(attempt, report, times, kept, mask)

    async def _run(self, attempt: Attempt, driver: WarmDriver, log: LogWriter) -> Report:
        envelope = attempt.envelope
        if attempt.ending is not None:
            return Report(envelope.attempt_id, is_cancelled=True)
        attempt.begin(driver)
        task = msgspec.msgpack.encode(msgspec.structs.replace(envelope, callback_token=""))
        return await driver.process.run(task, envelope.heartbeat_seconds, log.feed)

    async def _give_back(self, driver: WarmDriver) -> None:
        idle = await driver.process.idle()
        await self._pool.release(driver, idle.unfit)

    async def _beat(self, attempt: Attempt) -> None:
        """Say that it is alive until it is over; end it when the answer is to."""
        longest = min(attempt.envelope.heartbeat_seconds / 4, MAX_BEAT_SECONDS)
        while True:
            # Whoever has something to tell is looked at by somebody, perhaps.
            await asyncio.sleep(longest if attempt.progress is None else min(longest, PROGRESS_SECONDS))
            try:
                answer = await self._control.heartbeat(attempt.envelope, attempt.progress)
            except Conflict as error:
                if is_stale(error):
                    attempt.end(Ending.STALE, "it is not this worker's any more")
                    return
            except ArcoError as error:
                _log.warning("a sign of life of %s was not heard: %s", attempt.envelope.attempt_id, error.message)
            else:
                if answer.cancel:
                    attempt.end(Ending.CANCELLED, answer.reason)

    async def _deliver(self, attempt: Attempt, result: FinishTask) -> list[bytes]:
        """Tell the result until it is taken. One that is refused is told as a failure instead, once."""
        envelope, backoff, replaced = attempt.envelope, FIRST_BACKOFF, False
        while not self._abandoning.is_set():
            claim = 0 if self._stopping.is_set() or self._queue.qsize() else 1
            try:
                return await self._control.finish(envelope, result, claim)
            except Unavailable as error:
                _log.warning("the result of %s was not heard: %s", envelope.attempt_id, error.message)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(backoff * self._runtime.uniform(0.5, 1.0)):
                        await self._abandoning.wait()
                backoff = min(backoff * 2, MAX_BACKOFF)
            except ArcoError as error:
                if replaced or (isinstance(error, Conflict) and is_stale(error)):
                    _log.warning("the result of %s was not taken: %s", envelope.attempt_id, error.message)
                    return []
                replaced = True
                raised = as_raised(Refused(f"the result of the task was refused: {error.message}"))
                times = Times(result.started_at, result.finished_at)
                result = failed(envelope, raised, times, result.log, Mask(()))
        return []


def _engine(envelope: Envelope) -> Engine:
    is_on_spark = bool(envelope.definitions) and envelope.definitions[0].is_on_spark
    return Engine.SPARK if is_on_spark else Engine.PYTHON


def _outcome(
    attempt: Attempt, report: Report | DriverLost | RaisedError, times: Times, log: TaskLog | None, mask: Mask
) -> FinishTask | None:
    """The result of an attempt by how it ended and why."""
    envelope, ending = attempt.envelope, attempt.ending
    if ending in (Ending.STALE, Ending.STOPPED):
        return None
    if isinstance(report, Report) and not report.is_cancelled:
        if report.error is not None and report.error.lineage[:1] == (DRIVER_LOST,):
            return lost(envelope, DriverLost(report.error.message), times, log, mask)
        if report.error is not None:
            return failed(envelope, report.error, times, log, mask)
        return finished(envelope, report, times, log, mask)
    if ending is Ending.TIMED_OUT:
        return timed_out(envelope, times, log)
    if ending is Ending.CANCELLED:
        return cancelled(envelope, times, log)
    if isinstance(report, RaisedError):
        return failed(envelope, report, times, log, mask)
    error = report if isinstance(report, DriverLost) else DriverLost("the task says that it was cancelled, by nobody")
    return lost(envelope, error, times, log, mask)
