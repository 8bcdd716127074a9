"""What a task prints, kept in numbered chunks: `logs/{run id}/{attempt id}/{number}`, UTF-8 text, each created once.

What the tasks of a batch print is one log, under the id of the batch: they share a process and its standard output, and
no engine says which of them wrote a line. Each of them shows it, as far as it went when its end was told.

Chunks are written while the task runs: after a second, or as soon as there is enough. A task that prints without end
costs a bounded amount: the beginning is kept up to `LIMIT`, of the rest only the end, and a line has a greatest length.
The task never waits for its log, and a log that cannot be written does not fail it.
"""

import asyncio
import codecs
import contextlib
from typing import Final, NamedTuple

from arco.core import ArcoError
from arco.domains.orchestration.events import TaskLog
from arco.storage import ObjectExists, ObjectMissing, Store, StoreFailed
from arco.worker._masking import Mask

__all__ = ["LogPart", "LogWriter", "chunk_path", "read_log"]

FLUSH_SECONDS: Final = 1.0
FLUSH_BYTES: Final = 64 << 10
CHUNK_BYTES: Final = 1 << 20
LIMIT: Final = 10 << 20
TAIL: Final = 256 << 10
MAX_LINE: Final = 32 << 10
ATTEMPTS: Final = 5
READ_CHUNKS: Final = 64


def chunk_path(run_id: str, attempt_id: str, number: int) -> str:
    return f"logs/{run_id}/{attempt_id}/{number:06d}"


class LogPart(NamedTuple):
    text: str
    next_chunk: int


async def read_log(
    store: Store, run_id: str, attempt_id: str, from_chunk: int = 0, *, max_chunks: int = READ_CHUNKS
) -> LogPart:
    """What was printed from a chunk on, and the chunk to go on with. A running task may write it later."""
    texts: list[str] = []
    number = from_chunk
    with contextlib.suppress(ObjectMissing):
        while number < from_chunk + max_chunks:
            texts.append((await store.get(chunk_path(run_id, attempt_id, number))).decode(errors="replace"))
            number += 1
    return LogPart("".join(texts), number)


class LogWriter:
    """Takes what one attempt prints (`feed`, which never waits) and writes it; `close` tells how much there is."""

    def __init__(self, store: Store, run_id: str, attempt_id: str, mask: Mask) -> None:
        self._store = store
        self._run_id, self._attempt_id = run_id, attempt_id
        self._mask = mask
        self._lines = _Lines()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._taken = 0
        """Bytes of the beginning so far."""
        self._tail = bytearray()
        self._left_out = 0
        self._pending = bytearray()
        self._written = 0
        self._chunks = 0
        self._failed = False
        self._closing = False
        self._in_line = False
        """What came last did not end its line."""
        self._wake = asyncio.Event()
        self._flusher: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    def feed(self, data: bytes) -> None:
        self._in_line = not data.endswith(b"\n") if data else self._in_line
        self._take(self._mask.feed(data))

    def add_line(self, text: str) -> None:
        """A line of the worker's own, between those that were printed."""
        begun = "\n" if self._in_line else ""
        self.feed(f"{begun}{text}\n".encode(errors="replace"))

    async def so_far(self) -> TaskLog | None:
        """What there is by now, written down to the last complete character; None if nothing was printed."""
        await self._flush()
        return self._kept()

    async def close(self) -> TaskLog | None:
        """Write what is left; None if nothing was printed."""
        self._take(self._mask.end())
        self._pending += self._decoder.decode(b"", final=True).encode()
        if self._left_out:
            self._pending += f"\n[... {self._left_out} bytes left out ...]\n".encode()
        self._pending += self._lines.feed(bytes(self._tail)).decode(errors="replace").encode()
        self._closing = True
        self._wake.set()
        if self._flusher is not None:
            await self._flusher
        elif self._pending:
            await self._flush()
        return self._kept()

    def _kept(self) -> TaskLog | None:
        if not self._chunks:
            return None
        return TaskLog(self._chunks, self._written, bool(self._left_out) or self._lines.cut or self._failed)

    def abandon(self) -> None:
        """Write no more. For an attempt of which nobody will hear."""
        if self._flusher is not None:
            self._flusher.cancel()

    def _take(self, data: bytes) -> None:
        room = max(LIMIT - self._taken, 0)
        if room:  # what comes later is mostly thrown away: its lines are looked at in the end
            data = self._lines.feed(data)
        beginning, rest = data[:room], data[room:]
        if beginning:
            self._taken += len(beginning)
            self._pending += self._decoder.decode(beginning).encode()
            if self._flusher is None:
                self._flusher = asyncio.get_running_loop().create_task(self._flush_again(), name="log of an attempt")
            if len(self._pending) >= FLUSH_BYTES:
                self._wake.set()
        if rest:
            self._tail += rest
            too_much = max(len(self._tail) - TAIL, 0)
            del self._tail[:too_much]
            self._left_out += too_much

    async def _flush_again(self) -> None:
        while not self._closing or self._pending:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            await self._flush()

    async def _flush(self) -> None:
        async with self._writing:
            while self._pending:
                chunk = _first(self._pending, CHUNK_BYTES)
                del self._pending[: len(chunk)]
                if self._failed or not await self._put(chunk):
                    self._failed = True
                    continue
                self._chunks += 1
                self._written += len(chunk)

    async def _put(self, chunk: bytes) -> bool:
        """Write the next chunk. Nobody else has this attempt, so what is there already is ours."""
        path = chunk_path(self._run_id, self._attempt_id, self._chunks)
        for attempt in range(ATTEMPTS):
            try:
                await self._store.put(path, chunk, only_if_absent=True)
            except ObjectExists:
                return True
            except StoreFailed:
                await asyncio.sleep(FLUSH_SECONDS * 2**attempt)
            except ArcoError:
                return False
            else:
                return True
        return False


def _first(data: bytearray, limit: int) -> bytes:
    """At most so many bytes from the beginning, without cutting a character."""
    end = min(len(data), limit)
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return bytes(data[:end])


class _Lines:
    """Cuts lines that are too long for any reader."""

    def __init__(self) -> None:
        self.cut = False
        self._length = 0
        """Of the line that has begun."""

    def feed(self, data: bytes) -> bytes:
        kept: list[bytes] = []
        for index, part in enumerate(data.split(b"\n")):
            if index:
                kept.append(b"\n")
                self._length = 0
            room = max(MAX_LINE - self._length, 0)
            self._length += len(part)
            if len(part) > room:
                self.cut = True
                part = part[:room] + (b" [... cut]" if room else b"")
            kept.append(part)
        return b"".join(kept)
