"""Superseded incarnations: what is left of a workspace's former lives, and how it goes.

    restore, erase: the old incarnation is sealed, the next one opened -> `bury` deletes the old one, but for its ends

What stays of an incarnation for ever is what keeps a process out that had it open and slept:

- the last number of each sequence, which is its seal: who believes to be at the tail loses its next create to it;
- floors: whoever is behind finds that its numbers are deleted, if its own proof is older than a quarter of the minimum
  age; and no number goes that is younger than the minimum age, so that no younger proof can exist;
- decisions of transactions: whoever prepared one and slept finds that it was aborted.

A seal says nothing of what was there. The last manifest of an incarnation repeats the one before it as long as somebody
may read it; a bare one is put after it before it goes. Files, packs and claims of keys are no fences, and go at once.

An erasure's old incarnation goes when the new one is open; that of a restore a day later, because it has what the
backup did not have. Folders that were begun on top of it and never opened go with it.
"""

import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from arco.backup._seal import end_manifests, find_seal
from arco.backup._target import LOGS, Progress
from arco.core import DAY, SECOND, Runtime, new_ulid
from arco.log import Place
from arco.runtime import Incarnation, read_incarnations
from arco.storage import MIN_AGE, ObjectInfo, RequestCounts, Role, RoleStore, Scope, Sequence, Store

__all__ = ["Buried", "bury"]

RESTORED_AGE = DAY
"""After which an incarnation goes that a restore superseded."""

_AT_ONCE = re.compile(r"(state|private|packs|iceberg/keys)/.+")
_NUMBER = re.compile(r"((?:ledger|manifests|iceberg/pointers)/[^/]+)/\d{13}/(\d{20})")


@dataclass(frozen=True)
class Buried:
    """What went of one superseded incarnation, or would go."""

    incarnation: str
    objects: list[ObjectInfo] = field(default_factory=list)
    kept: int = 0
    """Objects that stay for ever: seals, floors, decisions."""
    waiting: int = 0
    """Objects that are too young to go."""
    due: int = 0
    """When the last of those may go, by the clock of this process."""

    @property
    def bytes(self) -> int:
        return sum(info.size for info in self.objects)


async def bury(
    base: Store,
    scope: Scope,
    runtime: Runtime,
    *,
    counts: RequestCounts | None = None,
    min_age: float = MIN_AGE,
    dry_run: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> list[Buried]:
    """Delete what may go of every incarnation but the newest. One that is not sealed is left alone."""
    counts = counts or RequestCounts()
    burying = _Burying(base, scope, runtime, counts, int(min_age * SECOND), dry_run, progress)
    lives = await read_incarnations(base, scope, runtime, all_of_them=True, counts=counts)
    now = await burying.now() if len(lives) > 1 else 0
    return [await burying.bury(old, new, now) for old, new in pairwise(lives)]


class _Burying:
    def __init__(
        self,
        base: Store,
        scope: Scope,
        runtime: Runtime,
        counts: RequestCounts,
        min_age: int,
        dry_run: bool,
        progress: Progress,
    ) -> None:
        self._base = base
        self._counts = counts
        self._store = RoleStore(base, scope, Role.COLLECTOR, counts)
        self._scope = scope
        self._runtime = runtime
        self._min_age = min_age
        self._dry_run = dry_run
        self._progress = progress

    async def now(self) -> int:
        """The time by the store's own clock, which dates its objects."""
        path = f"selftest/{new_ulid(self._runtime, self._runtime)}"
        await self._store.put(path, b"", only_if_absent=True)
        info = await self._store.head(path)
        await self._store.delete(path)
        return info.modified

    async def bury(self, old: Incarnation, new: Incarnation, now: int) -> Buried:
        listed = [info async for info in self._store.list(old.id)]
        opened = await self._store.head(Sequence(self._store, "incarnations", self._runtime).path(new.number))
        due = opened.modified + (0 if new.reason == "erase" else max(RESTORED_AGE, self._min_age))
        if not await self._is_sealed(old):
            return Buried(old.id, kept=len(listed))
        if now < due:
            return Buried(old.id, waiting=len(listed), due=self._here(due, now))
        if not self._dry_run:
            ending = RoleStore(self._base, self._scope, Role.COLLECTOR, self._counts, former=old.id)
            for log in LOGS:
                place = Place(self._scope.tenant, self._scope.workspace, old.id, log)
                await end_manifests(ending, place, self._runtime)
            listed = [info async for info in self._store.list(old.id)]
        found = self._judge(old, listed, now)
        found.objects.extend([info async for info in self._begun(old, new)])
        if not self._dry_run:
            await self._delete(old, found.objects)
        return found

    def _here(self, time: int, now: int) -> int:
        """A time of the store by the clock of this process, which may go differently."""
        return time - now + self._runtime.now()

    async def _is_sealed(self, old: Incarnation) -> bool:
        for log in LOGS:
            place = Place(self._scope.tenant, self._scope.workspace, old.id, log)
            seal, _ = await find_seal(self._store, place, self._runtime)
            if seal is None:
                return False
        return True

    def _judge(self, old: Incarnation, listed: Iterable[ObjectInfo], now: int) -> Buried:
        numbers: dict[str, list[ObjectInfo]] = {}
        gone, kept, waiting, due = list[ObjectInfo](), 0, 0, 0
        for info in listed:
            path = info.path.removeprefix(f"{old.id}/")
            if number := _NUMBER.fullmatch(path):
                numbers.setdefault(number[1], []).append(info)
            elif _AT_ONCE.fullmatch(path):
                gone.append(info)
            elif not path.startswith("successors/"):
                kept += 1
        for infos in numbers.values():
            # Names have the same length, so the last name has the last number. It stays.
            *below, _ = sorted(infos, key=lambda info: info.path)
            young = [info for info in below if now - info.modified < self._min_age]
            kept, waiting = kept + 1, waiting + len(young)
            due = max([due, *(info.modified + self._min_age for info in young)])
            gone += [info for info in below if info not in young]
        return Buried(old.id, gone, kept, waiting, self._here(due, now))

    async def _begun(self, old: Incarnation, new: Incarnation) -> AsyncIterator[ObjectInfo]:
        """What lies in folders that were begun on top of an incarnation and can never be opened; their names last."""
        marks = [info async for info in self._store.list(f"{old.id}/successors")]
        for name in sorted({mark.path.split("/")[2] for mark in marks if mark.path.endswith("/begun")} - {new.id}):
            async for info in self._store.list(name):
                if "/floor/" not in info.path:
                    yield info
        for mark in marks:
            yield mark

    async def _delete(self, old: Incarnation, objects: list[ObjectInfo]) -> None:
        floors: dict[str, int] = {}
        for info in objects:
            if number := _NUMBER.fullmatch(info.path.removeprefix(f"{old.id}/")):
                floors[number[1]] = max(floors.get(number[1], 0), int(number[2]))
        for prefix, floor in sorted(floors.items()):
            sequence = Sequence(self._store, f"{old.id}/{prefix}", self._runtime)
            await sequence.raise_floor(floor, new_ulid(self._runtime, self._runtime))
        for done, info in enumerate(objects, 1):
            await self._store.delete(info.path)
            self._progress("deleting", done, len(objects))
