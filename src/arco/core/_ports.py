"""The outside world as ports: time, chance and concurrency.

Protocol code (log, state) is coroutines that await nothing but these ports and the store. Production drives them by
asyncio (`arco.runtime`), the simulation by its own seeded scheduler. Vocabulary:

- `Clock`: `now` is wall time in microseconds since 1970 (it may jump); `boottime` is seconds that never go back and
  count suspended time (it measures ages).
- `Random`: bytes and numbers, seeded in tests.
- `Runtime`: clock, random, sleeping, spawning, `Future`s to wait for one another, and long computations.
"""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol, TypeVar

__all__ = ["Clock", "Future", "Mutex", "Random", "Runtime", "Slots", "Task"]

T = TypeVar("T")


class Clock(Protocol):
    def now(self) -> int:
        """Wall time in microseconds since 1970-01-01 UTC."""
        ...

    def boottime(self) -> float:
        """Seconds since some start; monotonic, and it counts the time a machine sleeps."""
        ...


class Random(Protocol):
    def bytes(self, count: int) -> bytes: ...

    def uniform(self, low: float, high: float) -> float: ...


class Future(Protocol[T]):
    """One value that arrives later. Setting it twice is harmless: the first one stays."""

    def done(self) -> bool: ...

    def set(self, value: T) -> None: ...

    def fail(self, error: BaseException) -> None: ...

    def __await__(self) -> Generator[Any, Any, T]:
        """Waiting may be cancelled; the future itself is not."""
        ...


class Task(Protocol):
    """A spawned coroutine."""

    def done(self) -> bool: ...

    def cancel(self) -> object: ...

    def __await__(self) -> Generator[Any, Any, None]:
        """Wait for the end; raises what the coroutine raised."""
        ...


class Runtime(Clock, Random, Protocol):
    async def sleep(self, seconds: float) -> None: ...

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> Task: ...

    def future(self) -> Future[Any]: ...

    async def timeout(self, seconds: float, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result, or `TimeoutError` and its cancellation after so many seconds."""
        ...

    async def offload(self, work: Callable[[], T]) -> T:
        """The result of a long computation, which may run beside the other coroutines.

        It must touch nothing that anybody changes meanwhile. Who stops waiting does not stop it.
        """
        ...


class Slots:
    """At most so many coroutines of one process at once, first come first served."""

    def __init__(self, runtime: Runtime, count: int) -> None:
        self._runtime = runtime
        self._free = count
        self._waiting: list[Future[None]] = []

    async def take(self) -> None:
        if self._free:
            self._free -= 1
            return
        turn: Future[None] = self._runtime.future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done():
                self.give()
            else:
                self._waiting.remove(turn)
            raise

    def give(self) -> None:
        """Back, by whoever took one."""
        if self._waiting:
            self._waiting.pop(0).set(None)
        else:
            self._free += 1


class Mutex:
    """Mutual exclusion between coroutines of one process, first come first served."""

    def __init__(self, runtime: Runtime) -> None:
        self._slot = Slots(runtime, 1)

    async def __aenter__(self) -> None:
        await self._slot.take()

    async def __aexit__(self, *exc: object) -> None:
        self._slot.give()
