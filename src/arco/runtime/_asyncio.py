"""`AsyncRuntime`: the `Runtime` port on asyncio, the system clock and the operating system's randomness."""

import asyncio
import os
import random
import time
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from arco.core import Future, Task

__all__ = ["AsyncRuntime"]

T = TypeVar("T")

# CLOCK_MONOTONIC stands still while a machine sleeps; ages of objects in a bucket do not.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class _Future:
    """A future that survives the cancellation of whoever waits for it."""

    def __init__(self) -> None:
        self._inner: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(self) -> bool:
        return self._inner.done()

    def set(self, value: Any) -> None:
        if not self._inner.done():
            self._inner.set_result(value)

    def fail(self, error: BaseException) -> None:
        if not self._inner.done():
            self._inner.set_exception(error)
            # Whoever waited may be gone; a failure nobody collects is not a warning.
            self._inner.exception()

    def __await__(self) -> Generator[Any, Any, Any]:
        return asyncio.shield(self._inner).__await__()


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
        return await asyncio.wait_for(coroutine, seconds)
