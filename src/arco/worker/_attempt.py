"""`Attempt`: one attempt while it is this worker's, and how it is brought to an early end."""

import asyncio
import contextlib
from enum import StrEnum

import msgspec

from arco.servo import Progress
from arco.servo._envelope import Envelope
from arco.worker._pool import WarmDriver

__all__ = ["Attempt", "Ending"]


class Ending(StrEnum):
    """Why an attempt shall end before it is done."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    STALE = "stale"
    """It is not this worker's any more."""
    STOPPED = "stopped"
    """The worker stops."""


class Attempt:
    def __init__(self, envelope: Envelope, grace: float) -> None:
        self.envelope = envelope
        self.ending: Ending | None = None
        self._grace = grace
        self._driver: WarmDriver | None = None
        self._over = asyncio.Event()
        self._killer: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, driver: WarmDriver) -> None:
        """From now on this driver has it."""
        self._driver = driver
        seconds = self.envelope.timeout_seconds
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self.end, Ending.TIMED_OUT, "it took too long")

    def end(self, ending: Ending, reason: str) -> None:
        """Have it end: the driver is asked, and ended itself after a while. The first reason stays."""
        if self.ending is not None or self._over.is_set():
            return
        self.ending = ending
        if self._driver is not None:
            self._driver.process.cancel(self.envelope.attempt_id, reason)
            self._killer = asyncio.get_running_loop().create_task(self._kill(self._driver), name="end of a driver")

    @property
    def progress(self) -> Progress | None:
        """How far it has come, if its driver says so."""
        told = self._driver.process.progress if self._driver is not None else None
        return None if told is None else msgspec.convert(told, Progress, from_attributes=True)

    async def over(self) -> None:
        """The driver has answered, or is gone."""
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._killer is not None:
            await self._killer

    async def _kill(self, driver: WarmDriver) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                await self._over.wait()
                return
        await driver.process.kill(f"its task did not end within {self._grace:g} seconds")
