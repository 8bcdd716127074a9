"""Time and chance for the client that blocks: the same clock and random as everybody's, and a sleep of the thread."""

import threading
from typing import Protocol

from arco.core import Clock, Random
from arco.runtime import AsyncRuntime

__all__ = ["BlockingRuntime", "ThreadRuntime"]


class BlockingRuntime(Clock, Random, Protocol):
    def sleep(self, seconds: float) -> None: ...


class ThreadRuntime:
    """Sleeps in the calling thread, so that it also works where an event loop is running, such as in a notebook."""

    def __init__(self) -> None:
        self._system = AsyncRuntime()

    def now(self) -> int:
        return self._system.now()

    def boottime(self) -> float:
        return self._system.boottime()

    def bytes(self, count: int) -> bytes:
        return self._system.bytes(count)

    def uniform(self, low: float, high: float) -> float:
        return self._system.uniform(low, high)

    def sleep(self, seconds: float) -> None:
        threading.Event().wait(seconds)
