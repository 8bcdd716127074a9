"""`Follower`: keeps a fold at the tail of its log. The only reader of segments for live work.

It reads the next number from the ledger, checks the chain and folds; who fell behind the floor reads packs. Segments
also arrive from the owner in this process or over the
stream; those are checked the same way. It notes what forbids writing: a seal, a newer fold version, a skipped type.
"""

from collections.abc import Callable
from collections.abc import Sequence as Batch

from arco.core import Corrupt, Future, Mutex, Outdated, Runtime, Superseded
from arco.log._event import Position, position_of
from arco.log._fold import Fold
from arco.log._hint import Hint
from arco.log._ledger import Ledger, Unknown
from arco.log._reader import check_segment, read_log
from arco.log._segment import Link, Segment, sealed_by
from arco.storage import Tail

__all__ = ["Follower"]

BATCH_BYTES = 4 << 20
"""Compressed bytes of segments folded at once while catching up."""

_ENDED = {
    "arco restore": "the workspace was restored; reopen it. If no other one is open, `arco restore` was interrupted: "
    "run the same command again to finish it",
    "arco erase": "something was erased; reopen it. If no other one is open, `arco erase` was interrupted: run the "
    "same command again to finish it, and not `arco restore`, which would leave behind what came after the backup",
}
_ENDED_SOMEHOW = (
    "the workspace was restored, or something was erased; reopen it. If no other one is open, `arco restore` or `arco "
    "erase` was interrupted: find out which, and run the same command again to finish it; `arco restore` in place of "
    "`arco erase` would leave behind what came after the backup"
)


class Follower:
    def __init__(self, ledger: Ledger, fold: Fold, runtime: Runtime, *, known: int = 0) -> None:
        """`known` is a number that exists for certain, say because a manifest covers it."""
        self.place = ledger.place
        self.ledger = ledger
        self.sequence = ledger.sequence
        self.fold = fold
        self.tail = Tail(fold.link.number, Unknown)
        self._known = max(known, fold.link.number)
        self._mutex = Mutex(runtime)
        self._runtime = runtime
        self._advanced: Future[None] | None = None
        self.ended = False
        """Nobody waits here any more: the process stops."""
        self.epoch = 0
        """Rises when the fold is set back: what was read from it meanwhile belongs to no single position."""
        self.on_read: Callable[[int, int], None] = lambda number, size: None
        """Hears of each segment that is read here: its number and its size."""
        self._newest = Hint()
        self._sealed: int | None = None
        self._sealed_by = ""
        self._closed = False
        self._newer: str | None = None

    @property
    def watermark(self) -> Position:
        """Everything up to this position is folded."""
        return Position(position_of(self.fold.link.number + 1, 0) - 1)

    @property
    def newer(self) -> str | None:
        """Why this program is too old to write; None if it is not."""
        return self._newer

    @property
    def sealed(self) -> bool:
        """The incarnation has ended: nothing will ever follow."""
        return self._closed or self._sealed is not None

    def newest(self) -> Hint:
        """The newest segment that was folded here, and who appended it; empty before the first one."""
        return self._newest

    def check_writable(self) -> None:
        """Raise `Outdated` or `Superseded` if this process may only read this log."""
        if self.sealed:
            why = _ENDED.get(self._sealed_by, _ENDED_SOMEHOW)
            raise Superseded(f"the log {self.place.log} of incarnation {self.place.incarnation} is sealed: {why}")
        reason = self._newer or self.fold.skipped()
        if reason:
            raise Outdated(f"{reason}; upgrade arco: this program only reads the log {self.place.log}")

    def seal(self) -> None:
        """The published state says that the incarnation has ended. It need not cover the segments before the seal."""
        self._closed = True

    def forbid_writing(self, reason: str) -> None:
        """Something other than the log says that this program is too old to write."""
        self._newer = reason

    async def catch_up(self, at_least: int = 0) -> Tail:
        """Fold everything that is there. A number somebody told us of (`at_least`) must be among it."""
        async with self._mutex:
            await self._read(at_least=at_least)
            return self.tail

    async def accept(self, data: bytes, tail: Tail) -> None:
        """Fold the segment `tail.number`, which was just won, lost to or streamed. Older ones are known already."""
        async with self._mutex:
            if tail.number <= self.tail.number:
                return
            if tail.number == self.tail.number + 1:
                link = self.fold.link
                found = check_segment(data, self.place, link, self.sequence.path(tail.number))
                await self._apply([found], tail)
                self.on_read(tail.number, len(data))
            else:
                await self._read(at_least=tail.number)

    async def advanced(self, beyond: int) -> None:
        """Wait until something after the segment `beyond` is folded, or until `end_waits`. Waiting costs nothing."""
        while self.tail.number <= beyond and not self.ended:
            if self._advanced is None:
                self._advanced = self._runtime.future()
            await self._advanced

    def end_waits(self) -> None:
        """Let go of everybody who waits for the log to move."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        if self._advanced is not None:
            woken, self._advanced = self._advanced, None
            woken.set(None)

    async def restart(self, reset: Callable[[], None]) -> None:
        """Let `reset` set the fold back to another state, then fold again what had been folded before."""
        async with self._mutex:
            before = self.tail.number
            self.epoch += 1
            reset()
            self.tail = Tail(self.fold.link.number, Unknown)
            await self._read(at_least=before)

    async def _read(self, at_least: int) -> None:
        batch: list[tuple[Segment, Link]] = []
        size = 0
        self._known = max(self._known, at_least, self.tail.number)
        async for found in read_log(self.ledger, self.tail, self.fold.link, at_least=self._known):
            if isinstance(found, Tail):
                await self._apply(batch, found)
                return
            segment, link, length = found
            batch.append((segment, link))
            self.on_read(link.number, length)
            size += length
            if size >= BATCH_BYTES:
                await self._apply(batch, Tail(link.number, self.tail.proven))
                batch, size = [], 0

    async def _apply(self, batch: Batch[tuple[Segment, Link]], tail: Tail) -> None:
        for segment, _ in batch:
            if self._sealed is not None and segment.header.number > self._sealed:
                path = self.sequence.path(segment.header.number)
                raise Corrupt(f"{path} stands after the seal of its incarnation; run `arco log verify`", path=path)
        if batch:
            await self.fold.apply(batch)
        for segment, _ in batch:
            self._newest = Hint(segment.header.number, segment.header.writer)
            if segment.header.seal:
                self._sealed, self._sealed_by = segment.header.number, sealed_by(segment.header)
            for domain, version in segment.header.folds.items():
                known = self.fold.versions.get(domain, 0)
                if version > known:
                    self._newer = (
                        f"segment {segment.header.number} was written with fold version {version} of {domain}, "
                        f"this program has {known}"
                    )
        moved = tail.number > self.tail.number
        self.tail = tail
        if moved:
            self._wake()
