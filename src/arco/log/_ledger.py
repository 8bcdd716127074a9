"""`Ledger`: the segments of a log by number, wherever they are. The one place from which segments are read.

A segment is *loose* (an object of its own, a number of the log's sequence) or *packed* (`arco.log._pack`). Packs hold
the numbers 1 to `packed` and follow one another; the collector deletes loose ones that are packed, after it raised the
floor. So:

    number <= packed -> from the pack, by range, checked against its index
    number >  packed -> the loose object, which counts only if the floor is below it *after* it was read

The floor is asked once for many segments, and not at all while the proof that a reader holds is young: nothing younger
than the minimum age is deleted. Below the floor a loose object proves nothing: it may have been deleted and filled
again by somebody who slept. There the packs of the newest manifest are asked for (`newest`), and what neither they nor
the sequence have is `LostObject`.

An old list of packs is no harm, because packs never change and never go.
"""

import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from arco.core import PUT_BACK, ArcoError, Corrupt, LostObject, Runtime, Superseded, Unavailable
from arco.log._pack import Pack, PackIndex, decode_index, list_packs
from arco.log._segment import FIRST_LINK, Link, Place, decode_segment, link_of
from arco.storage import ObjectMissing, Sequence, Store, StoreFailed, Tail

__all__ = ["Found", "Ledger", "Unknown"]

T = TypeVar("T")

Unknown = float("-inf")
"""The age of a tail about which nothing was proven."""

Found = tuple[int, bytes, str]
"""A segment: its number, its bytes, and where they were read."""

WINDOW, WINDOW_BYTES = 256, 4 << 20
"""Loose segments that are read before the floor is asked, if it has to be."""
AHEAD = 8
"""Loose segments that are fetched at once, if they are known to exist: a store far away takes its time."""
FEW = AHEAD
"""Loose segments that are read one after the other in search of the end, before it is looked for by itself."""
CHUNK_BYTES = 8 << 20
"""Bytes of a pack that are read at once."""
INDEXES, LISTS = 8, 64
"""Indexes and lists of packs that are remembered."""
ATTEMPTS = 8


class Ledger:
    def __init__(
        self,
        store: Store,
        sequence: Sequence,
        place: Place,
        runtime: Runtime,
        packs: tuple[Pack, ...] = (),
        *,
        newest: Callable[[], Awaitable[tuple[Pack, ...]]] | None = None,
    ) -> None:
        """`packs` are those of some manifest, `newest` finds those of the newest one; without it nothing is packed."""
        self.sequence = sequence
        self.place = place
        self.packs = packs
        self._store = store
        self._runtime = runtime
        self._newest = newest
        self._indexes: OrderedDict[str, PackIndex] = OrderedDict()
        self._lists: OrderedDict[str, tuple[Pack, ...]] = OrderedDict()

    @property
    def packed(self) -> int:
        """Segments up to this number are read from packs."""
        return self.packs[-1].last if self.packs else 0

    def know(self, packs: tuple[Pack, ...]) -> None:
        """Here are the packs of some manifest; older ones than are known change nothing."""
        if packs and packs[-1].last > self.packed:
            self.packs = packs

    async def renew(self) -> None:
        """Look for the packs of the newest manifest."""
        if self._newest is not None:
            self.know(await self._newest())

    def path(self, number: int) -> str:
        """The object that has a segment, or the list of packs it is in, as far as is known here."""
        entry = next((pack for pack in self.packs if number <= pack.last), None)
        return entry.path if entry is not None else self.sequence.path(number)

    # Segments

    async def read(self, number: int) -> bytes:
        """A segment that is known to exist; `LostObject` if it is nowhere."""
        async for _, data, _ in self.known(number, number):
            return data
        raise AssertionError("a known segment was neither found nor lost")

    async def link_at(self, number: int) -> Link:
        """What the segment after a number must refer to."""
        if number == 0:
            return FIRST_LINK
        data = await self.read(number)
        return link_of(decode_segment(data, self.path(number)), data)

    async def known(self, first: int, last: int) -> AsyncIterator[Found]:
        """The segments `first` to `last`, in order, all known to exist. The chain is not checked here."""
        async for found in self.walk(Tail(first - 1, Unknown), through=last, at_least=last):
            if not isinstance(found, Tail):
                yield found

    async def walk(
        self, tail: Tail, *, through: int | None = None, at_least: int = 0, gradually: bool = False
    ) -> AsyncIterator[Found | Tail]:
        """Every segment after `tail`, then the tail as it was proven last.

        Stops after number `through`. Numbers up to `at_least` are known to exist: if one is nowhere, that is
        `LostObject`. Who may have enough of it soon reads `gradually`: one segment at first, then ever more at once.

        Whoever reads one segment after the other may never reach the end beside writers that do not rest. So after a
        few the end is found without reading, and counts although the log goes on meanwhile.
        """
        most = 1 if gradually else WINDOW
        few = max(tail.number, at_least, self.packed) + FEW
        ended: float | None = None  # when it was asked that nothing follows, once that is known
        while through is None or tail.number < through:
            if tail.number < self.packed:
                last = self.packed if through is None else min(self.packed, through)
                async for found in self._from_packs(tail.number + 1, last):
                    yield found
                tail = Tail(last, tail.proven)
                continue
            if through is None and tail.number >= few:
                asked = self._runtime.boottime()
                newest = await self.sequence.newest(tail.number)
                if await self._is_above_floor(tail):
                    ended, through, at_least = asked, newest, newest
                continue
            segments, end = await self._window(tail, few if through is None else through, at_least, most)
            most = min(2 * most, WINDOW)
            if not await self._is_above_floor(tail):
                continue
            for found in segments:
                yield found
            tail = Tail(tail.number + len(segments), tail.proven)
            if end is not None:
                if tail.number < at_least:
                    await self._renew_for(tail.number + 1, f"is missing although {at_least} was announced")
                    continue
                ended = end
                break
        yield tail if ended is None else Tail(tail.number, ended)

    async def _is_above_floor(self, tail: Tail) -> bool:
        """Whether what was found after a tail counts. If not, newer packs are known now that have it."""
        try:
            await self.sequence.check_floor(tail.number + 1, tail.proven)
        except Superseded:
            if self._newest is None:
                raise
            await self._renew_for(tail.number + 1, "lies below the floor and in no pack")
            return False
        return True

    async def _window(self, tail: Tail, through: int, at_least: int, most: int) -> tuple[list[Found], float | None]:
        """Some loose segments after the tail; and, if they end there, when that was asked."""
        segments: list[Found] = []
        number, size = tail.number, 0
        while len(segments) < most and size < WINDOW_BYTES and number < through:
            ahead = max(1, min(AHEAD, at_least - number, most - len(segments)))
            numbers = range(number + 1, number + 1 + min(ahead, through - number))
            asked = self._runtime.boottime()
            for number, data in zip(numbers, await self._fetch(numbers), strict=True):
                if data is None:
                    return segments, asked
                segments.append((number, data, self.sequence.path(number)))
                size += len(data)
        return segments, None

    async def _fetch(self, numbers: range) -> list[bytes | None]:
        if len(numbers) == 1:
            return [await self.sequence.read(numbers[0])]
        found: dict[int, bytes | None] = {}
        failed: list[ArcoError] = []

        async def fetch(number: int) -> None:
            try:
                found[number] = await self.sequence.read(number)
            except ArcoError as error:  # told by whoever waits for all of them
                failed.append(error)

        tasks = [self._runtime.spawn(fetch(number), f"segment {number}") for number in numbers]
        try:
            for task in tasks:
                await task
        except BaseException:
            for task in tasks:
                task.cancel()
            raise
        if failed:
            raise failed[0]
        return [found[number] for number in numbers]

    async def _renew_for(self, number: int, why: str) -> None:
        """Find newer packs that have a number; `LostObject` if there are none."""
        await self.renew()
        if number > self.packed:
            raise LostObject(
                f"segment {number} of the log {self.place.log} {why}; run `arco doctor`, then for "
                f"{self.sequence.path(number)}: {PUT_BACK}",
                path=self.sequence.path(number),
            )

    # Packs

    async def entries(self) -> AsyncIterator[Pack]:
        """Everything that the packs of the manifest consist of: lists before what they list, in order of numbers."""
        for pack in self.packs:
            async for entry in self._below(pack):
                yield entry

    async def _below(self, entry: Pack) -> AsyncIterator[Pack]:
        yield entry
        if entry.level:
            for child in await self._listed(entry):
                async for found in self._below(child):
                    yield found

    async def pack_of(self, number: int) -> Pack:
        """The pack that has a number, which is at most `packed`."""
        entry = next(pack for pack in self.packs if number <= pack.last)
        while entry.level:
            entry = next(pack for pack in await self._listed(entry) if number <= pack.last)
        return entry

    async def whole(self, pack: Pack) -> bytes:
        """A pack as it is stored, checked against its sha256."""
        data = await self._ask(pack, lambda: self._store.get(pack.path))
        if hashlib.sha256(data).hexdigest() != pack.sha256:
            raise _altered(pack, "it is not what the manifest promises")
        return data

    async def _from_packs(self, first: int, last: int) -> AsyncIterator[Found]:
        while first <= last:
            pack = await self.pack_of(first)
            until = min(last, pack.last)
            async for found in self._from_pack(pack, first, until):
                yield found
            first = until + 1

    async def _from_pack(self, pack: Pack, first: int, last: int) -> AsyncIterator[Found]:
        """Segments of one pack: in one request if it is small and most of it is wanted, else by ranges."""
        whole = b""
        if pack.bytes <= CHUNK_BYTES and 2 * (last - first + 1) > pack.segments:
            whole = await self.whole(pack)
        index = await self._index(pack, whole)
        offsets = index.offsets()
        place, end = first - pack.first, last - pack.first + 1
        while place < end:
            stop = place + 1
            while stop < end and offsets[stop + 1] - offsets[place] <= CHUNK_BYTES:
                stop += 1
            start, length = offsets[place], offsets[stop] - offsets[place]
            data = whole[start : start + length] if whole else await self._range(pack, start, length)
            for inner in range(place, stop):
                segment = data[offsets[inner] - start : offsets[inner + 1] - start]
                number = pack.first + inner
                if hashlib.sha256(segment).hexdigest() != index.sha256[inner]:
                    raise _altered(pack, f"segment {number} in it is not what its index promises")
                yield number, segment, f"{pack.path} (segment {number})"
            place = stop

    async def _index(self, pack: Pack, whole: bytes = b"") -> PackIndex:
        found = self._indexes.get(pack.path)
        if found is None:
            length = pack.index[0] if pack.index is not None else 0
            end = whole[-length:] if whole else await self._range(pack, pack.bytes - length, length)
            found = self._indexes[pack.path] = decode_index(pack, self.place, end)
            if len(self._indexes) > INDEXES:
                self._indexes.popitem(last=False)
        return found

    async def _listed(self, entry: Pack) -> tuple[Pack, ...]:
        found = self._lists.get(entry.path)
        if found is None:
            data = await self._ask(entry, lambda: self._store.get(entry.path))
            found = self._lists[entry.path] = list_packs(entry, data)
            if len(self._lists) > LISTS:
                self._lists.popitem(last=False)
        return found

    async def _range(self, pack: Pack, offset: int, length: int) -> bytes:
        return await self._ask(pack, lambda: self._store.get_range(pack.path, offset, length))

    async def _ask(self, pack: Pack, request: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(ATTEMPTS):
            try:
                return await request()
            except ObjectMissing:
                raise LostObject(
                    f"{pack.path} is missing although a manifest names it: segments {pack.first} to {pack.last} of "
                    f"the log {self.place.log} are lost; {PUT_BACK}",
                    path=pack.path,
                ) from None
            except StoreFailed as error:
                if attempt == ATTEMPTS - 1:
                    raise Unavailable(f"{pack.path} cannot be read now: {error.message}; try again") from error
            await self._runtime.sleep(self._runtime.uniform(0.5, 1.0) * min(0.02 * 2**attempt, 2.0))
        raise AssertionError("the last attempt answers or raises")


def _altered(pack: Pack, why: str) -> Corrupt:
    return Corrupt(f"{pack.path} is damaged: {why}; run `arco doctor`, then {PUT_BACK}", path=pack.path)
