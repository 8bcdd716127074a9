"""`Collector`: deletes what no reader can reach. The only one that deletes; doubt deletes nothing.

- Files: a directory names the revision it builds on, and an attempt on revision P can only be published as P+1. So a
  file whose base lies below the head and which no retained revision and no pending job names will never be read. No
  clock is asked, so a machine that slept for a week loses nothing.
- Manifests: numbers that the head's history does not retain, and only those older than the minimum age by the store's
  own times. The floor is raised first: a deleted number must never pass for a free one.

Listing is for this and for `doctor`; nothing correct depends on it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from arco.core import SECOND, Runtime, new_ulid
from arco.log import Place
from arco.state._layout import Layout
from arco.state._manifest import Manifest
from arco.state._revisions import Revisions
from arco.storage import MIN_AGE, ObjectInfo, Store

__all__ = ["Collection", "Collector"]


@dataclass(frozen=True)
class Collection:
    """What a collection deleted, or would delete."""

    log: str
    dry_run: bool
    files: list[ObjectInfo] = field(default_factory=list)
    manifests: list[ObjectInfo] = field(default_factory=list)
    kept_files: int = 0
    kept_revisions: int = 0
    floor: int = 0

    @property
    def bytes(self) -> int:
        return sum(info.size for info in (*self.files, *self.manifests))


class Collector:
    def __init__(self, store: Store, place: Place, runtime: Runtime, *, min_age: float = MIN_AGE) -> None:
        self._store = store
        self._place = place
        self._layout = Layout(place)
        self._runtime = runtime
        self._min_age = int(min_age * SECOND)
        self._revisions = Revisions(store, place, runtime, min_age=min_age)

    async def collect(
        self, *, dry_run: bool = False, progress: Callable[[int, int], None] = lambda done, total: None
    ) -> Collection:
        """Delete the unreachable. Any object that cannot be read stops it before anything is deleted."""
        head = (await self._revisions.head()).manifest
        entries = await self._revisions.history(head)
        reachable = _paths(head)
        for entry in entries:
            reachable |= _paths(await self._revisions.read(entry))
        files, kept = await self._unreachable(head, reachable)
        old = await self._old_manifests(head, {entry.revision for entry in entries})
        floor = await self._revisions.sequence.floor()
        revisions = len(entries) + (head.number > 0)
        done = Collection(self._place.log, dry_run, files, old, kept, revisions, floor)
        if dry_run:
            return done
        if old:
            newest = max(_number(info.path) for info in old)
            floor = await self._revisions.sequence.raise_floor(newest, new_ulid(self._runtime, self._runtime))
        for index, info in enumerate((*old, *files), 1):
            await self._store.delete(info.path)
            progress(index, len(old) + len(files))
        return Collection(self._place.log, dry_run, files, old, kept, revisions, floor)

    async def _unreachable(self, head: Manifest, reachable: set[str]) -> tuple[list[ObjectInfo], int]:
        pending = {known.directory for known in head.pending}
        garbage, kept = [], 0
        for root in (self._layout.state, self._layout.private):
            async for info in self._store.list(root):
                directory = info.path.removeprefix(f"{root}/").split("/", 1)[0]
                base = _base(directory)
                if base is None or base >= head.number or directory in pending or info.path in reachable:
                    kept += 1
                else:
                    garbage.append(info)
        return garbage, kept

    async def _old_manifests(self, head: Manifest, retained: set[int]) -> list[ObjectInfo]:
        """Superseded numbers, old enough by the store's clock: its newest object tells how late it is there."""
        found = [
            info
            async for info in self._store.list(self._layout.manifests)
            if info.path.rsplit("/", 1)[1].isdigit() and "/floor/" not in info.path
        ]
        now = max((info.modified for info in found), default=0)
        return [
            info
            for info in found
            if _number(info.path) < head.number
            and _number(info.path) not in retained
            and now - info.modified >= self._min_age
        ]


def _paths(manifest: Manifest) -> set[str]:
    """Every object a revision names."""
    paths = {file.path for layer in manifest.layers for file in layer.files}
    return paths | {manifest.older.path} if manifest.older else paths


def _base(directory: str) -> int | None:
    """The revision a directory builds on; None if the name says nothing."""
    number, dash, _ = directory.partition("-")
    return int(number) if dash and len(number) == 20 and number.isdigit() else None


def _number(path: str) -> int:
    return int(path.rsplit("/", 1)[1])
