"""`Packing`: rewriting old segments of a log into packs, by the same way as merges: pending, result, adopted.

Due are segments below the watermark, but never the newest ones (`keep`), which owners, followers and readers still ask
for one by one: enough of them, or enough bytes as far as this process has seen them. A job writes full packs only; what
is left over stays loose. Packs hold the segments 1 to some number without a gap, so a result fits only if it begins
where the packs of the head end.

Nothing is deleted here. The collector drops loose segments that the packs of the head have (`arco.state._collector`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from arco.core import Runtime, new_ulid
from arco.log import Ledger, Link, Pack, Segment, check_link, decode_header, encode_list, encode_pack
from arco.state._files import FileWriter
from arco.state._jobs import Jobs
from arco.state._layout import Layout
from arco.state._manifest import Manifest, Pending
from arco.storage import Store

__all__ = ["Gauge", "PackSize", "Packing", "can_adopt_packs", "grow", "packed_through", "plan_pack"]

MOST = 4
"""Full packs that one job writes at the most."""
LARGE_BYTES = 1 << 20
"""Hashing less than this takes about as long as handing it over."""


@dataclass(frozen=True)
class PackSize:
    """When segments are packed, and how large packs are."""

    bytes: int = 64 << 20
    segments: int = 4096
    """A pack is full when it has so many bytes or so many segments; then it is due."""
    keep: int = 1024
    """The newest segments below the watermark, which stay loose; one at the least."""
    fan: int = 64
    """Entries of one level in a manifest; when there are so many, a file lists them and one entry stands for it."""


def packed_through(manifest: Manifest) -> int:
    """Segments up to this number are in packs."""
    return manifest.packs[-1].last if manifest.packs else 0


class Gauge:
    """Sizes of segments that this process has folded: how many bytes wait to be packed, at the least."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes: dict[int, int] = {}

    def note(self, number: int, size: int) -> None:
        self._sizes[number] = size
        if len(self._sizes) > self._most:
            del self._sizes[next(iter(self._sizes))]

    def drop(self, through: int) -> None:
        for number in [number for number in self._sizes if number <= through]:
            del self._sizes[number]

    def bytes(self, first: int, last: int) -> int:
        return sum(size for number, size in self._sizes.items() if first <= number <= last)


def plan_pack(manifest: Manifest, size: PackSize, gauge: Gauge) -> tuple[int, int] | None:
    """First and last number of what should be packed now; None if nothing is due or somebody is at it."""
    if manifest.seal or any(known.kind == "pack" for known in manifest.pending):
        return None
    first = packed_through(manifest) + 1
    last = manifest.link.number - max(size.keep, 1)
    if last - first + 1 < size.segments and gauge.bytes(first, last) < size.bytes:
        return None
    return first, min(last, first + MOST * size.segments - 1)


def can_adopt_packs(manifest: Manifest, pending: Pending) -> bool:
    """A result fits only where the packs end."""
    return int(pending.inputs[0][0]) == packed_through(manifest) + 1


def grow(
    packs: tuple[Pack, ...], new: tuple[Pack, ...], fan: int, path: Callable[[int, int], str]
) -> tuple[tuple[Pack, ...], list[tuple[str, bytes]]]:
    """The entries with new packs after them, and the lists to write, at `path(level, first)`, so that they stay few."""
    kept: list[Pack] = []
    lists: list[tuple[str, bytes]] = []
    rest, level = [*packs, *new], 0
    while rest:
        same = [entry for entry in rest if entry.level == level]
        higher = [entry for entry in rest if entry.level > level]
        while len(same) >= fan:
            where = path(level + 1, same[0].first)
            data, entry = encode_list(where, same[:fan])
            lists.append((where, data))
            higher.append(entry)
            same = same[fan:]
        kept = same + kept
        rest, level = higher, level + 1
    return tuple(kept), lists


class Packing(Jobs[Pack]):
    pause = 300.0  # a job reads thousands of segments before it writes

    def __init__(
        self,
        ledger: Ledger,
        store: Store,
        layout: Layout,
        runtime: Runtime,
        size: PackSize,
        head: Callable[[], Manifest],
        done: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        super().__init__("pack", Pack, store, layout.packs, runtime, head, done, changed)
        self._ledger = ledger
        self._layout = layout
        self._size = size

    async def work(self, head: Manifest, pending: Pending) -> tuple[Pack, ...] | None:
        """Read the segments, see that they are one chain which continues the packs, and write full packs."""
        if not can_adopt_packs(head, pending):
            return None
        first, last = (int(number) for number in pending.inputs[0])
        attempt = f"{pending.directory}/{new_ulid(self._runtime, self._runtime)}"
        link = await self._ledger.link_at(first - 1)
        packs: list[Pack] = []
        batch: list[bytes] = []
        size = 0
        async for number, data, path in self._ledger.known(first, last):
            header, sha256 = decode_header(data, path)
            check_link(Segment(header, ()), self._ledger.place, link, path)
            link = Link(number, sha256, header.received)
            batch.append(data)
            size += len(data)
            if size >= self._size.bytes or len(batch) >= self._size.segments:
                packs.append(await self._write(attempt, number - len(batch) + 1, batch))
                batch, size = [], 0
        return tuple(packs)

    async def grown(self, packs: tuple[Pack, ...], new: tuple[Pack, ...], directory: str) -> tuple[Pack, ...]:
        """The packs with new ones after them; lists of older ones are written where there are many."""
        grown, lists = grow(
            packs, new, self._size.fan, lambda level, first: self._path(directory, f"{level}-{first:020d}.json")
        )
        for path, data in lists:
            await self._put(directory, path, data)
        return grown

    async def _write(self, directory: str, first: int, segments: list[bytes]) -> Pack:
        path = self._path(directory, f"{first:020d}.pack")
        encode = partial(encode_pack, path, self._ledger.place, first, segments)
        large = sum(map(len, segments)) >= LARGE_BYTES
        data, pack = await self._runtime.offload(encode) if large else encode()
        await self._put(directory, path, data)
        return pack

    def _path(self, directory: str, name: str) -> str:
        return f"{self._layout.packs}/{directory}/{name}"

    async def _put(self, directory: str, path: str, data: bytes) -> None:
        await FileWriter(self._store, self._layout, directory, self._runtime).put(path, data)
