"""`Delivery`: tells the control plane how the attempts of a batch ended, as they do and several at a time.

What one batch ends with in short succession is told in one request, so that it becomes one append, and so that what
depends on it becomes ready together. A result is told until it is taken, or until the control plane says that the
attempt is over. One that is refused for another reason is told as a failure instead, once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from arco.core import ArcoError, Refused, Runtime, Unavailable
from arco.domains.orchestration import FinishTask, TaskLog
from arco.servo import MAX_TOLD, Envelope, Finished
from arco.worker._batch import Batch
from arco.worker._control import ControlPlane, Told, is_stale
from arco.worker._logs import LogWriter
from arco.worker._masking import Mask
from arco.worker._outcome import Times, as_raised, failed, fault_lines

__all__ = ["FIRST_BACKOFF", "MAX_BACKOFF", "Delivery"]

FIRST_BACKOFF: Final = 0.1
MAX_BACKOFF: Final = 10.0

GATHER_SECONDS: Final = 2.0
"""How long a result waits for others of its batch: what is made of them is then ready together, and runs together."""

TOLD_BYTES: Final = 4 << 20
"""Results that one request holds, about."""

Make = Callable[[TaskLog | None], FinishTask]
"""Makes the result of an attempt, with what is kept of its log if that is known."""

_log = logging.getLogger("arco.worker")


class Delivery:
    """Of one batch. `wanted` says how many tasks may be claimed with its last results; `abandoning` ends everything."""

    def __init__(
        self,
        control: ControlPlane,
        runtime: Runtime,
        batch: Batch,
        log: LogWriter,
        wanted: Callable[[], int],
        abandoning: asyncio.Event,
    ) -> None:
        self._control = control
        self._runtime = runtime
        self._batch = batch
        self._log = log
        self._wanted = wanted
        self._abandoning = abandoning
        self._made: list[tuple[Envelope, Make]] = []
        self._replaced: set[str] = set()
        """Attempts whose own result was refused."""
        self._closing = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None

    def add(self, envelope: Envelope, make: Make) -> None:
        """An attempt has ended. If others of its batch have not, it is told of in a moment."""
        self._made.append((envelope, make))
        if self._batch.left and self._sender is None:
            self._sender = asyncio.create_task(self._tell_early(), name="early results")

    async def close(self) -> list[bytes]:
        """Tell of all that are left; envelopes that the control plane gave in return."""
        self._closing.set()
        if self._sender is not None:
            await self._sender
        ends = self._take_made()
        kept = await self._log.close()
        return await self._tell(_with_log(ends, kept), self._wanted)

    def abandon(self) -> None:
        """Tell nobody anything more."""
        if self._sender is not None:
            self._sender.cancel()
        self._log.abandon()

    async def _tell_early(self) -> None:
        while self._made and not self._closing.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GATHER_SECONDS):
                    await self._closing.wait()
            if self._closing.is_set():
                break
            ends = self._take_made()
            kept = await self._log.so_far()
            await self._tell(_with_log(ends, kept), lambda: 0)
        self._sender = None

    def _take_made(self) -> list[Told]:
        """The results that wait to be told. What checks found fault with goes into the log before it is closed."""
        made, self._made = self._made, []
        ends = [(envelope, make(None)) for envelope, make in made]
        for envelope, end in ends:
            for line in fault_lines(envelope, end):
                self._log.add_line(line)
        return ends

    async def _tell(self, told: list[Told], wanted: Callable[[], int]) -> list[bytes]:
        """Tell results until each is taken or over; what was claimed with the last of them."""
        envelopes: list[bytes] = []
        backoff = FIRST_BACKOFF
        parts = _parts(told)
        while parts and not self._abandoning.is_set():
            part = parts[0]
            try:
                done = await self._control.finish(part, 0 if len(parts) > 1 or envelopes else wanted())
            except Unavailable as error:
                _log.warning("the result of %s was not heard: %s", part[0][0].attempt_id, error.message)
                await self._pause(backoff)
                backoff = min(backoff * 2, MAX_BACKOFF)
                continue
            except ArcoError as error:
                if len(part) > 1:  # something in it cannot even be read: find out what
                    parts[:1] = [[one] for one in part]
                    continue
                done = Finished([], {part[0][0].attempt_id: error})
            envelopes += done.envelopes
            again = [self._refused(one, done.refused.get(one[0].attempt_id)) for one in part]
            parts[:1] = _parts([one for one in again if one is not None])
        return envelopes

    def _refused(self, told: Told, error: ArcoError | None) -> Told | None:
        """What to tell instead of a result that was not taken; None if it was, or if there is nothing to be done."""
        envelope, result = told
        if error is None or is_stale(error) or envelope.attempt_id in self._replaced:
            if error is not None:
                _log.warning("the result of %s was not taken: %s", envelope.attempt_id, error.message)
            self._batch.told(envelope.attempt_id)
            return None
        self._replaced.add(envelope.attempt_id)
        raised = as_raised(Refused(f"the result of the task was refused: {error.message}"))
        times = Times(result.started_at, result.finished_at)
        return envelope, failed(envelope, raised, times, result.log, Mask(()))

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds * self._runtime.uniform(0.5, 1.0)):
                await self._abandoning.wait()


def _with_log(ends: list[Told], log: TaskLog | None) -> list[Told]:
    return [(envelope, msgspec.structs.replace(end, log=log)) for envelope, end in ends]


def _parts(told: list[Told]) -> list[list[Told]]:
    """Results in parts that fit into a request."""
    parts: list[list[Told]] = []
    room = 0
    for one in told:
        size = len(msgspec.json.encode(one[1])) if len(told) > 1 else 0
        if not parts or size > room or len(parts[-1]) == MAX_TOLD:
            parts.append([])
            room = TOLD_BYTES
        parts[-1].append(one)
        room -= size
    return parts
