"""`AsyncRuntime`: the `Runtime` port on asyncio, the system clock and the operating system's randomness."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from arco.core import Future, Task

__all__ = ["AsyncRuntime"]

T = TypeVar("T")

# CLOCK_MONOTONIC stands still while a machine sleeps; ages of objects in a bucket do not.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class _Future:
    """A future that survives the cancellation of whoever waits for it: each waiter has an asyncio future of its own."""

    __slots__ = ("_done", "_error", "_value", "_waiters")

    def __init__(self) -> None:
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def done(self) -> bool:
        return self._done

    def set(self, value: Any) -> None:
        self._settle(value, None)

    def fail(self, error: BaseException) -> None:
        self._settle(None, error)

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self._done:
            return
        self._done, self._value, self._error = True, value, error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters = []

    def __await__(self) -> Generator[Any, Any, Any]:
        if not self._done:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                yield from waiter
            except BaseException:
                if not self._done:
                    self._waiters.remove(waiter)  # who gave up must not pile up in what may never come
                raise
        if self._error is not None:
            raise self._error
        return self._value


class AsyncRuntime:
    """Drives protocol code in production."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._random = random.SystemRandom()

    def now(self) -> int:
        return time.time_ns() // 1_000

    def boottime(self) -> float:
        return time.clock_gettime(_BOOT_CLOCK)

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> Task:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)  # asyncio itself keeps only a weak reference
        task.add_done_callback(self._tasks.discard)
        return task

    def future(self) -> Future[Any]:
        return _Future()

    async def timeout(self, seconds: float, coroutine: Coroutine[Any, Any, T]) -> T:
        async with asyncio.timeout(seconds):
            return await coroutine

    async def offload(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)
