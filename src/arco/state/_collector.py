"""`Collector`: deletes what no reader can reach. The only one that deletes; doubt deletes nothing.

- Files: a directory names the revision it builds on, and an attempt on revision P can only be published as P+1. So a
  file whose base lies below the head and which no retained revision and no pending job names will never be read. No
  clock is asked, so a machine that slept for a week loses nothing.
- Packs and lists of packs: the same. What the head names is never deleted: a rebuild needs all of it.
- Segments: loose ones that the packs of the head have, older than the minimum age. The packs are read and checked
  first: what is deleted here exists nowhere else then.
- Manifests: numbers that the head's history does not retain, and only those older than the minimum age by the store's
  own times.

The floor of a sequence is raised before its numbers are deleted: a deleted number must never pass for a free one.
On a local disk the folders go too that nobody writes into any more.

Listing is for this and for `doctor`; nothing correct depends on it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from arco.core import SECOND, Runtime, new_ulid
from arco.log import Ledger, Place
from arco.state._layout import Layout
from arco.state._manifest import Manifest
from arco.state._open_ledger import open_ledger
from arco.state._revisions import Revisions
from arco.storage import MIN_AGE, ObjectInfo, Sequence, Store, remove_empty_folders

__all__ = ["Collection", "Collector"]


@dataclass(frozen=True)
class Collection:
    """What a collection deleted, or would delete."""

    log: str
    dry_run: bool
    files: list[ObjectInfo] = field(default_factory=list)
    manifests: list[ObjectInfo] = field(default_factory=list)
    segments: list[ObjectInfo] = field(default_factory=list)
    """Loose segments that are in packs."""
    kept_files: int = 0
    kept_revisions: int = 0
    floor: int = 0
    """Of the manifests."""
    kept_segments: int = 0
    """Loose ones."""
    segment_floor: int = 0

    @property
    def objects(self) -> list[ObjectInfo]:
        return [*self.segments, *self.manifests, *self.files]

    @property
    def bytes(self) -> int:
        return sum(info.size for info in self.objects)


class Collector:
    def __init__(self, store: Store, place: Place, runtime: Runtime, *, min_age: float = MIN_AGE) -> None:
        self._store = store
        self._place = place
        self._layout = Layout(place)
        self._runtime = runtime
        self._min_age = int(min_age * SECOND)
        self._revisions = Revisions(store, place, runtime, min_age=min_age)
        self._roots = (self._layout.state, self._layout.private, self._layout.packs)

    async def collect(
        self, *, dry_run: bool = False, progress: Callable[[int, int], None] = lambda done, total: None
    ) -> Collection:
        """Delete the unreachable. Any object that cannot be read stops it before anything is deleted."""
        head = (await self._revisions.head()).manifest
        entries = await self._revisions.history(head)
        ledger = open_ledger(self._store, self._revisions, head.packs)
        reachable = _paths(head) | {entry.path async for entry in ledger.entries()}
        for entry in entries:
            reachable |= _paths(await self._revisions.read(entry))
        files, kept = await self._unreachable(head, reachable)
        manifests, loose = await self._numbers(self._layout.manifests), await self._numbers(self._layout.ledger)
        now = max((info.modified for info in (*manifests, *loose)), default=0)
        retained = {entry.revision for entry in entries}
        old = [
            info
            for info in self._old(manifests, now)
            if _number(info.path) < head.number and _number(info.path) not in retained
        ]
        packed = [info for info in self._old(loose, now) if _number(info.path) <= ledger.packed]
        done = Collection(
            self._place.log,
            dry_run,
            files,
            old,
            packed,
            kept,
            len(entries) + (head.number > 0),
            await self._revisions.sequence.floor(),
            len(loose) - len(packed),
            await ledger.sequence.floor(),
        )
        if dry_run:
            return done
        done = await self._delete(done, ledger, progress)
        await self._remove_folders(
            head, ((self._revisions.sequence, done.floor), (ledger.sequence, done.segment_floor))
        )
        return done

    async def _delete(self, found: Collection, ledger: Ledger, progress: Callable[[int, int], None]) -> Collection:
        floors = []
        await _check_packs(ledger, found.segments)
        for sequence, infos, floor in (
            (self._revisions.sequence, found.manifests, found.floor),
            (ledger.sequence, found.segments, found.segment_floor),
        ):
            if infos:
                newest = max(_number(info.path) for info in infos)
                floor = await sequence.raise_floor(newest, new_ulid(self._runtime, self._runtime))
            floors.append(floor)
        for index, info in enumerate(found.objects, 1):
            await self._store.delete(info.path)
            progress(index, len(found.objects))
        return replace(found, floor=floors[0], segment_floor=floors[1])

    async def _unreachable(self, head: Manifest, reachable: set[str]) -> tuple[list[ObjectInfo], int]:
        garbage, kept = [], 0
        for root in self._roots:
            async for info in self._store.list(root):
                if info.path in reachable or not _is_over(head, root, info.path):
                    kept += 1
                else:
                    garbage.append(info)
        return garbage, kept

    async def _remove_folders(self, head: Manifest, sequences: Iterable[tuple[Sequence, int]]) -> None:
        """Empty ones: of attempts that can be published no more, and of numbers below the floor."""
        for root in self._roots:
            await remove_empty_folders(self._store, root, partial(_is_over, head, root))
        for sequence, floor in sequences:
            await remove_empty_folders(self._store, sequence.prefix, partial(sequence.is_below, floor))

    async def _numbers(self, prefix: str) -> list[ObjectInfo]:
        """The objects of a sequence, without its floors and its hint."""
        return [
            info
            async for info in self._store.list(prefix)
            if info.path.rsplit("/", 1)[1].isdigit() and "/floor/" not in info.path
        ]

    def _old(self, found: list[ObjectInfo], now: int) -> list[ObjectInfo]:
        """Those old enough by the store's clock, of which its newest object tells how late it is at the least."""
        return [info for info in found if now - info.modified >= self._min_age]


async def _check_packs(ledger: Ledger, segments: list[ObjectInfo]) -> None:
    """Read every pack that is to be the only place of some segments; nothing is deleted if one is not as promised."""
    checked = 0
    for number in sorted(_number(info.path) for info in segments):
        if number > checked:
            pack = await ledger.pack_of(number)
            await ledger.whole(pack)
            checked = pack.last


def _paths(manifest: Manifest) -> set[str]:
    """Every object a revision names."""
    paths = {file.path for layer in manifest.layers for file in layer.files} | {pack.path for pack in manifest.packs}
    return paths | {manifest.older.path} if manifest.older else paths


def _is_over(head: Manifest, root: str, path: str) -> bool:
    """Whether a path lies in the directory of an attempt that can be published no more."""
    directory = path.removeprefix(f"{root}/").split("/", 1)[0]
    base = _base(directory)
    return base is not None and base < head.number and all(known.directory != directory for known in head.pending)


def _base(directory: str) -> int | None:
    """The revision a directory builds on; None if the name says nothing."""
    number, dash, _ = directory.partition("-")
    return int(number) if dash and len(number) == 20 and number.isdigit() else None


def _number(path: str) -> int:
    return int(path.rsplit("/", 1)[1])
