"""`Batch`: attempts that a worker has in one slot and one driver, and how they are brought to an early end.

Mostly it is one attempt. Those that were claimed together are one batch: they share a driver, its output and its time,
and end one by one.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from arco.servo import Progress
from arco.servo._envelope import Envelope
from arco.worker._pool import WarmDriver

__all__ = ["Batch", "Ending"]


class Ending(StrEnum):
    """Why a batch shall end before it is done."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    STALE = "stale"
    """It is not this worker's any more."""
    STOPPED = "stopped"
    """The worker stops."""


class Batch:
    def __init__(self, envelopes: Sequence[Envelope], grace: float) -> None:
        self.envelopes = tuple(envelopes)
        self.first = self.envelopes[0]
        """What holds for all of them is read off the first: they are of one unit and one run."""
        self.ending: Ending | None = None
        self._left = {envelope.attempt_id: envelope for envelope in envelopes}
        self._untold = dict(self._left)
        self._grace = grace
        self._driver: WarmDriver | None = None
        self._over = asyncio.Event()
        self._killer: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def id(self) -> str:
        """Under which its log is kept."""
        return self.first.batch_id or self.first.attempt_id

    @property
    def is_alone(self) -> bool:
        return len(self.envelopes) == 1

    @property
    def progress(self) -> Progress | None:
        """How far it has come, if its driver says so."""
        told = self._driver.process.progress if self._driver is not None else None
        if told is None:
            return None
        return Progress(**msgspec.structs.asdict(told), attempts=len(self.envelopes))

    # Its attempts

    @property
    def left(self) -> list[Envelope]:
        """Those of which the driver has not reported."""
        return list(self._left.values())

    @property
    def untold(self) -> list[Envelope]:
        """Those whose end the control plane has not heard of: they are alive."""
        return list(self._untold.values())

    def reported(self, attempt_id: str) -> Envelope | None:
        """The driver reported on an attempt; None if that is none of those that are left."""
        return self._left.pop(attempt_id, None)

    def told(self, attempt_id: str) -> None:
        """The control plane has heard of its end, or does not want to."""
        self._untold.pop(attempt_id, None)

    def forget(self, attempt_id: str) -> None:
        """An attempt is not this worker's any more. If none is left that is, there is nothing to go on for."""
        self.told(attempt_id)
        if self._left.pop(attempt_id, None) is not None and not self._left:
            self.end(Ending.STALE, "it is not this worker's any more")

    # Its end

    def begin(self, driver: WarmDriver) -> None:
        """From now on this driver has it."""
        self._driver = driver
        seconds = self.first.timeout_seconds
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self.end, Ending.TIMED_OUT, "it took too long")

    def end(self, ending: Ending, reason: str) -> None:
        """Have it end: the driver is asked, and ended itself after a while. The first reason stays."""
        if self.ending is not None or self._over.is_set():
            return
        self.ending = ending
        if self._driver is not None:
            self._driver.process.cancel(self.first.attempt_id, reason)
            self._killer = asyncio.get_running_loop().create_task(self._kill(self._driver), name="end of a driver")

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
