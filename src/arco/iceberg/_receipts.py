"""Receipts: after a pointer is won the log `activity` is told of it, by the event of `_events`.

The commit does not wait for it and cannot fail by it. Receipts *gather* for a moment, so that those of many commits are
one segment. Each is tried while the process lives; what a crash loses, and what there is no room for, the reconciler
finds in the pointers. How late the log heard of a commit stands in
`system.table_commits` (`recorded_at`, `committed_at`) and is counted in `lags`; what is still on its way is in `Lag`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from arco.core import SECOND, ArcoError, Forbidden, Future, Histogram, Invalid, Refused, Task
from arco.iceberg._documents import Document, Documents
from arco.iceberg._errors import MetadataMissing
from arco.iceberg._events import Metadata, committed_event
from arco.iceberg._pointer import Pointer
from arco.log import NewEvent, Receipt
from arco.runtime import Workspace

__all__ = ["ACTOR", "Lag", "Receipts", "read_metadata", "record_committed"]

ACTOR = "iceberg"
"""Who tells the log; who wrote stands in the event."""

MAX_WAITING = 1_000
"""Commits that wait to be told; beyond that they are left to the reconciler."""

GATHER = 0.05
"""Seconds in which receipts gather. A segment for each would be two of the six syncs of a commit, and under way when
the same writer's next one comes."""

MAX_PAUSE = 30.0

LAG_BOUNDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0, 300.0, 3600.0)
"""Seconds by which lags are counted."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the log is behind the commits of this process."""

    waiting: int = 0
    last_seconds: float = 0.0
    """From the last commit that was told to when the log had it."""
    refused: int = 0
    """Commits that the log did not take, or for which there was no room."""


async def record_committed(
    workspace: Workspace, pointer: Pointer, metadata: Metadata | None, base: Metadata | None, *, aborted: bool = False
) -> Receipt:
    """Tell the log of one pointer. Again is no error: the fold knows each number once."""
    event = committed_event(pointer, metadata, base, aborted=aborted)
    return await tell(workspace, [event], traceparent=pointer.traceparent)


async def tell(workspace: Workspace, events: list[NewEvent], *, traceparent: str = "") -> Receipt:
    return await workspace.record("activity", events, actor=ACTOR, traceparent=traceparent)


async def read_metadata(documents: Documents, location: str | None) -> Metadata | None:
    """The metadata at a location; None if there is none, or an engine deleted it because it fell out of the log."""
    if not location:
        return None
    try:
        return (await documents.read(location)).value
    except (MetadataMissing, Forbidden, Invalid):
        return None


class Receipts:
    """Tells the log of what this process commits."""

    def __init__(self, workspace: Workspace, documents: Documents) -> None:
        self._workspace = workspace
        self._runtime = workspace.runtime
        self._documents = documents
        self._waiting: dict[tuple[str, int], Task] = {}
        self._gathered: Future[None] | None = None
        self._last = 0.0
        self._refused = 0
        self.lags = Histogram(LAG_BOUNDS)
        """Seconds from a commit to its event, of all that this process told."""
        self.on_left: Callable[[str], None] = lambda table_id: None
        """Called with the table of a commit that there was no room for."""

    def is_waiting(self, table_id: str, number: int) -> bool:
        """Whether this process is about to tell of a pointer."""
        return (table_id, number) in self._waiting

    def told(self, committed_at: int) -> None:
        """The log has the event of a commit."""
        self._last = max(self._runtime.now() - committed_at, 0) / SECOND
        self.lags.observe(self._last)

    def committed(self, pointer: Pointer | None, document: Document | None) -> None:
        """A pointer was won. Returns at once."""
        if pointer is None:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._refused += 1
            self.on_left(pointer.table_id)
            return
        task = self._runtime.spawn(self._tell(pointer, document), f"receipt {pointer.table_id}/{pointer.number}")
        self._waiting[pointer.table_id, pointer.number] = task

    def lag(self) -> Lag:
        return Lag(len(self._waiting), self._last, self._refused)

    async def close(self, seconds: float = 5.0) -> None:
        """Give what is on its way some time, then leave it to the reconciler."""
        until = self._runtime.boottime() + seconds
        while self._waiting and self._runtime.boottime() < until:
            await self._runtime.sleep(0.02)
        for task in self._waiting.values():
            task.cancel()
        self._waiting.clear()

    async def _gather(self) -> None:
        """Go on together with all who came since the first of them."""
        if self._gathered is not None:
            await self._gathered
            return
        self._gathered = gathered = self._runtime.future()
        await self._runtime.sleep(GATHER)
        self._gathered = None
        gathered.set(None)

    async def _tell(self, pointer: Pointer, document: Document | None) -> None:
        pause = 0.1
        try:
            await self._gather()
            while True:
                try:
                    metadata = document.value if document is not None else await self._read(pointer.metadata_location)
                    base = await self._read(pointer.base_location)
                    await record_committed(self._workspace, pointer, metadata, base)
                    self.told(pointer.committed_at)
                    return
                except (Invalid, Refused):
                    self._refused += 1
                    return
                except ArcoError:
                    await self._runtime.sleep(self._runtime.uniform(0.5, 1.0) * pause)
                    pause = min(pause * 2, MAX_PAUSE)
        finally:
            self._waiting.pop((pointer.table_id, pointer.number), None)

    async def _read(self, location: str | None) -> Metadata | None:
        return await read_metadata(self._documents, location)
