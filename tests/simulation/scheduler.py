"""The seeded scheduler: virtual time, simulated processes, and the `Runtime` port for each of them.

Vocabulary: a *task* is a coroutine driven by `send`; a *process* owns tasks, a wall clock with skew and its own chance;
the *world's* tasks belong to no process and never fail. Steps take no time; when nothing is runnable, time passes to
the next timer. Which runnable task goes next is drawn from the seed.

A crashed process loses all its tasks where they stand; what its store operations had sent may still arrive. A stalled
process is not scheduled while time passes for everybody; a suspended one is stalled for hours.
"""

import hashlib
import heapq
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any, TypeVar

from arco.core import Runtime

__all__ = ["EPOCH", "Cancelled", "Deadlock", "Process", "Scheduler", "SimFuture", "SimRuntime", "SimTask", "Violation"]

T = TypeVar("T")

EPOCH = 1_760_000_000_000_000
"""Wall time at the start of every run, in microseconds."""


class Violation(Exception):
    """A checker found something that must never happen."""

    def __init__(self, checker: str, text: str) -> None:
        super().__init__(f"{checker}: {text}")
        self.checker = checker


class Deadlock(Violation):
    def __init__(self, text: str) -> None:
        super().__init__("progress", text)


class Cancelled(BaseException):
    """Thrown into a task that is cancelled, at the point where it waits."""


class SimFuture:
    """One value that arrives later; the first one set stays."""

    __slots__ = ("_callbacks", "_done", "_error", "_value")

    def __init__(self) -> None:
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []

    def done(self) -> bool:
        return self._done

    def set(self, value: Any) -> None:
        self._finish(value, None)

    def fail(self, error: BaseException) -> None:
        self._finish(None, error)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        if not self._done:
            self._done, self._value, self._error = True, value, error
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()

    def when_done(self, callback: Callable[[], None]) -> None:
        if self._done:
            callback()
        else:
            self._callbacks.append(callback)

    def __await__(self) -> Generator[Any, Any, Any]:
        while not self._done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value


class SimTask:
    """A spawned coroutine."""

    __slots__ = ("_cancel", "_coroutine", "_waits", "ended", "name", "process", "queued", "retrieved", "scheduler")

    def __init__(
        self, scheduler: "Scheduler", process: "Process | None", coroutine: Coroutine[Any, Any, Any], name: str
    ) -> None:
        self.scheduler = scheduler
        self.process = process
        self.name = name
        self.ended = SimFuture()
        self.retrieved = False
        self.queued = False
        self._coroutine = coroutine
        self._cancel = False
        self._waits = 0  # which of its waits a wake-up is for; a cancelled wait must not wake it twice

    def done(self) -> bool:
        return self.ended.done()

    def cancel(self) -> None:
        """Throw `Cancelled` into the task at its next step."""
        if not self.done():
            self._cancel = True
            self._waits += 1
            self.scheduler.make_ready(self)

    def __await__(self) -> Generator[Any, Any, Any]:
        self.retrieved = True
        return self.ended.__await__()

    def step(self) -> None:
        self.queued = False
        try:
            if self._cancel:
                self._cancel = False
                waiting = self._coroutine.throw(Cancelled())
            else:
                waiting = self._coroutine.send(None)
        except StopIteration as stop:
            self._end(stop.value, None)
        except Cancelled as error:
            self._end(None, error)
        except Violation:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a task raises belongs to who awaits it
            self._end(None, error)
        else:
            self._waits += 1
            turn = self._waits
            waiting.when_done(lambda: self._wake(turn))

    def _wake(self, turn: int) -> None:
        if turn == self._waits and not self.done():
            self.scheduler.make_ready(self)

    def _end(self, value: Any, error: BaseException | None) -> None:
        self.scheduler.tasks.pop(self, None)
        if self.process is not None:
            self.process.tasks.pop(self, None)
        if error is None:
            self.ended.set(value)
        else:
            if not isinstance(error, Cancelled):
                self.scheduler.failed.append((self, error))
            self.ended.fail(error)

    def drop(self) -> None:
        """The process died: forget the coroutine. Its cleanup runs, but nobody is alive to see it."""
        self._waits += 1
        self.scheduler.tasks.pop(self, None)
        self._coroutine.close()


class Process:
    """One simulated operating system process. A restarted one is a new `Process`."""

    def __init__(self, scheduler: "Scheduler", name: str, number: int) -> None:
        self.scheduler = scheduler
        self.name = f"{name}.{number}"
        self.tasks: dict[SimTask, None] = {}
        self.parked: list[SimTask] = []
        self.alive = True
        self.stalled = False
        self.stood = self.woke = 0.0
        """From when to when it stood still last."""
        self.operations = 0
        self.crash_at: tuple[int, str] | None = None
        """Die at this operation, `before` or `after` it is applied."""
        self.random = scheduler.child(f"process {self.name}")
        self.skew = int(self.random.uniform(-60e6, 60e6))
        self.on_crash: list[Callable[[], None]] = []

    def crash(self) -> None:
        """Die between two steps."""
        if not self.alive:
            return
        self.alive = False
        self.scheduler.note("crash", self.name)
        tasks, self.tasks, self.parked = list(self.tasks), {}, []
        self.scheduler.ready = [task for task in self.scheduler.ready if task.process is not self]
        for task in tasks:
            task.drop()
        for callback in self.on_crash:
            callback()

    def crash_now(self) -> SimFuture:
        """Die within a step: the caller awaits what never comes, the scheduler buries the process."""
        self.scheduler.dying.append(self)
        return SimFuture()

    def stall(self, seconds: float) -> None:
        """Do not run for so long; time goes on, timers that passed fire on waking up."""
        if self.alive and not self.stalled:
            self.stalled = True
            self.stood = self.scheduler.time
            self.scheduler.note("stall", self.name, round(seconds, 3))
            self.parked = [task for task in self.scheduler.ready if task.process is self]
            self.scheduler.ready = [task for task in self.scheduler.ready if task.process is not self]
            self.scheduler.after(seconds, self.wake)

    def wake(self) -> None:
        if self.alive and self.stalled:
            self.stalled = False
            self.woke = self.scheduler.time
            self.scheduler.note("wake", self.name)
            self.scheduler.ready += self.parked
            self.parked = []


class Scheduler:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.time = 0.0
        self.steps = 0
        self.ready: list[SimTask] = []
        self.dying: list[Process] = []
        self.failed: list[tuple[SimTask, BaseException]] = []
        self.tasks: dict[SimTask, None] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._random = self.child("schedule")
        self._trace = hashlib.sha256()
        self.verbose: Callable[[str], None] | None = None

    def child(self, purpose: str) -> Random:
        """Chance for one purpose: more draws in one place do not shift another."""
        return Random(f"{self.seed}/{purpose}")

    def note(self, *what: object) -> None:
        """Add to the trace, which must be the same whenever the seed is."""
        line = f"{self.time:.6f} {' '.join(map(str, what))}"
        self._trace.update(line.encode())
        if self.verbose:
            self.verbose(line)

    def digest(self) -> str:
        return self._trace.hexdigest()

    def after(self, seconds: float, callback: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._timers, (self.time + max(seconds, 0.0), self._sequence, callback))

    async def sleep(self, seconds: float) -> None:
        future = SimFuture()
        self.after(seconds, lambda: future.set(None))
        await future

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str, process: Process | None = None) -> SimTask:
        task = SimTask(self, process, coroutine, name)
        self.tasks[task] = None
        if process is not None:
            if not process.alive:
                task.drop()
                return task
            process.tasks[task] = None
        self.make_ready(task)
        return task

    def close(self) -> None:
        """The run is over: drop every coroutine that is left."""
        while self.tasks:
            for task in list(self.tasks):
                task.drop()

    def make_ready(self, task: SimTask) -> None:
        process = task.process
        if task.queued:
            return
        task.queued = True
        if process is None or (process.alive and not process.stalled):
            self.ready.append(task)
        elif process.alive:
            process.parked.append(task)

    def run(self, main: SimTask, *, max_steps: int, max_seconds: float) -> None:
        """Until the task has ended. Its error is raised; no progress within the limits is a violation."""
        steps, until = self.steps + max_steps, self.time + max_seconds
        while not main.done():
            if self.steps >= steps:
                raise Deadlock(f"{main.name} is not done after {max_steps} steps")
            self._step(main, until)
        main.retrieved = True
        if main.ended._error is not None:
            raise main.ended._error

    def _step(self, main: SimTask, until: float) -> None:
        if self.ready:
            self.steps += 1
            index = self._random.randrange(len(self.ready)) if len(self.ready) > 1 else 0
            task = self.ready[index]
            self.ready[index] = self.ready[-1]
            self.ready.pop()
            if not task.done():
                task.step()
            while self.dying:
                self.dying.pop().crash()
            return
        if not self._timers:
            raise Deadlock(f"nothing can run and nothing is timed, but {main.name} is not done")
        time, _, callback = heapq.heappop(self._timers)
        if time > until:
            raise Deadlock(f"{main.name} is not done at {until:.0f} s")
        self.time = time
        callback()


class SimRuntime(Runtime):
    """The `Runtime` port of one process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.scheduler = process.scheduler

    def now(self) -> int:
        return EPOCH + int(self.scheduler.time * 1e6) + self.process.skew

    def boottime(self) -> float:
        return 1000.0 + self.scheduler.time

    def bytes(self, count: int) -> bytes:
        return self.process.random.randbytes(count)

    def uniform(self, low: float, high: float) -> float:
        return self.process.random.uniform(low, high)

    async def sleep(self, seconds: float) -> None:
        await self.scheduler.sleep(seconds)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> SimTask:
        return self.scheduler.spawn(coroutine, name, self.process)

    def future(self) -> Any:
        return SimFuture()

    async def timeout(self, seconds: float, coroutine: Coroutine[Any, Any, T]) -> T:
        task = self.spawn(coroutine, "timed")
        task.retrieved = True
        first = SimFuture()
        task.ended.when_done(lambda: first.set(None))
        self.scheduler.after(seconds, lambda: first.set(None))
        try:
            await first
        except Cancelled:
            task.cancel()
            raise
        if not task.done():
            task.cancel()
            raise TimeoutError
        result: T = await task
        return result

    async def offload(self, work: Callable[[], T]) -> T:
        return work()
