"""Doubles of the ports: a runtime whose clock and chance the test controls, and stores around another one, which
look on or fail when told to.

`run` drives a coroutine on a loop where nothing waits: as soon as only timers are left, the clock jumps to the next
one. So a test of hours takes milliseconds, and a test that would hang fails. It is made for `MemoryStore`, which never
suspends; with stores that work in threads use `asyncio.run`, on which `FakeRuntime` counts real seconds.
"""

import asyncio
import random
import selectors
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from arco.core import DAY
from arco.runtime import AsyncRuntime
from arco.storage import ObjectInfo, Store

__all__ = ["START", "FakeRuntime", "FaultyStore", "PassingStore", "run"]

T = TypeVar("T")

START = 20_454 * DAY
"""When a `FakeRuntime` begins: 2026-01-01, in microseconds."""


class _Jumping(selectors.SelectSelector):
    """Moves the clock instead of waiting."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits and nothing will ever happen")
        self.seconds += max(timeout, 0.0)
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    _clock_resolution: float

    def __init__(self) -> None:
        self._clock = _Jumping()
        super().__init__(self._clock)
        # Asyncio's nanosecond is lost in the clock's digits after 194 days, and a timer that is due would never come.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._clock.seconds


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, in no time."""
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(coroutine)


class FakeRuntime(AsyncRuntime):
    """Time of the running loop from `START` on, and chance from a seed."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._chance = random.Random(seed)
        self._suspended = 0.0
        self._wrong = 0

    def boottime(self) -> float:
        return asyncio.get_running_loop().time() + self._suspended

    def now(self) -> int:
        return START + self._wrong + int(self.boottime() * 1_000_000)

    def bytes(self, count: int) -> bytes:
        return self._chance.randbytes(count)

    def uniform(self, low: float, high: float) -> float:
        return self._chance.uniform(low, high)

    async def offload(self, work: Callable[[], T]) -> T:
        """At once: a thread would be one more thing that a test does not control."""
        return work()

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: both clocks go on, timers do not."""
        self._suspended += seconds

    def set_back(self, micros: int) -> None:
        """Somebody changes the wall clock."""
        self._wrong -= micros


class PassingStore:
    """A store that passes everything on to `inner`. Subclasses see in `_call` what is asked, but for lists and signing.

    Operations are `get`, `get_range`, `put`, `create`, `head`, `delete`, `persist`; `put` is an overwrite.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def _call(self, operation: str, path: str, action: Callable[[], Awaitable[T]]) -> T:
        return await action()

    async def get(self, path: str) -> bytes:
        return await self._call("get", path, lambda: self.inner.get(path))

    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        return await self._call("get_range", path, lambda: self.inner.get_range(path, offset, length))

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        operation = "create" if only_if_absent else "put"
        await self._call(operation, path, lambda: self.inner.put(path, data, only_if_absent=only_if_absent))

    async def head(self, path: str) -> ObjectInfo:
        return await self._call("head", path, lambda: self.inner.head(path))

    async def delete(self, path: str) -> None:
        await self._call("delete", path, lambda: self.inner.delete(path))

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        return self.inner.list(prefix)

    async def sign(self, path: str, *, expires_in: int) -> str:
        return await self.inner.sign(path, expires_in=expires_in)

    async def persist(self, path: str) -> None:
        await self._call("persist", path, lambda: self.inner.persist(path))

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class _Fault:
    operation: str
    path: str
    left: int
    skip: int
    error: BaseException | None
    applied: bool
    hook: Callable[[], Awaitable[None]] | None


class FaultyStore(PassingStore):
    """A store that does what `on` says at the next fitting calls, and else what `inner` does."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: list[tuple[str, str]] = []
        self._faults: list[_Fault] = []

    def on(
        self,
        operation: str,
        *,
        error: BaseException | None = None,
        applied: bool = False,
        hook: Callable[[], Awaitable[None]] | None = None,
        path: str = "",
        times: int = 1,
        skip: int = 0,
    ) -> None:
        """At the next `times` calls whose path holds `path` (after `skip` of them): await `hook`, then raise `error`.

        With `applied` both come after the call took effect, else before it.
        """
        self._faults.append(_Fault(operation, path, times, skip, error, applied, hook))

    def heal(self) -> None:
        self._faults.clear()

    async def _call(self, operation: str, path: str, action: Callable[[], Awaitable[T]]) -> T:
        self.calls.append((operation, path))
        fault = self._next(operation, path)
        if fault is None:
            return await action()
        if not fault.applied:
            await self._strike(fault)
            return await action()
        result = await action()
        await self._strike(fault)
        return result

    def _next(self, operation: str, path: str) -> _Fault | None:
        for fault in self._faults:
            if fault.operation == operation and fault.path in path and fault.left > 0:
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.left -= 1
                return fault
        return None

    @staticmethod
    async def _strike(fault: _Fault) -> None:
        if fault.hook is not None:
            await fault.hook()
        if fault.error is not None:
            raise fault.error
