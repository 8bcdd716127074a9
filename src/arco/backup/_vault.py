"""`Vault`: the place where the backups of one workspace lie, below `backups/` of its folder in another store.

    backups/{n}                               the backups, a sequence
    backups/objects/{base}/{sha256}           everything they name, by content

`base` is the number of the newest backup when the object was copied. An attempt to take a backup on top of number N can
only become N+1, so what lies in a folder below the newest number and is named by no backup will never be named: it is
garbage, and no clock has to be asked. Two attempts on one base write the same bytes under the same names, so that who
goes on after a crash finds what is there already.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable
from dataclasses import dataclass
from typing import TypeVar

from arco.backup._format import (
    Backup,
    Chunk,
    Content,
    Entry,
    Listing,
    TableCopy,
    decode_backup,
    decode_chunk,
    decode_list,
    encode_list,
)
from arco.core import Corrupt, LostObject, NotFound, Refused, Runtime, Unavailable
from arco.storage import (
    ObjectExists,
    ObjectInfo,
    ObjectMissing,
    Sequence,
    Store,
    StoreFailed,
    Tail,
    remove_empty_folders,
)

__all__ = ["FOLDER", "LIST_ENTRIES", "OBJECTS", "Survey", "Vault", "in_parallel", "shown_numbers"]

FOLDER = "backups"
OBJECTS = f"{FOLDER}/objects"
LIST_ENTRIES = 10_000
"""Entries of a list at most; full lists are named again by later backups."""

ATTEMPTS = 8
PARALLEL = 16

T = TypeVar("T")


@dataclass(frozen=True)
class Survey:
    """Every backup that is there or should be."""

    backups: list[Backup]
    """Those that can be read, oldest first."""
    unreadable: dict[int, Corrupt]
    """Those that cannot, with the reason; `LostObject` if the backup itself is missing."""

    @property
    def newest(self) -> int:
        """The highest number, readable or not; 0 if there is none."""
        return max([*self.unreadable, *(one.number for one in self.backups)], default=0)

    @property
    def missing(self) -> list[int]:
        return sorted(number for number, error in self.unreadable.items() if isinstance(error, LostObject))


class Vault:
    def __init__(self, store: Store, tenant: str, workspace: str, runtime: Runtime) -> None:
        """`store` is the workspace's folder in the other store, with the rights of the role backup, or of a reader."""
        self.tenant = tenant
        self.workspace = workspace
        self.sequence = Sequence(store, FOLDER, runtime)
        self._store = store
        self._runtime = runtime

    # Backups

    async def newest(self) -> tuple[Backup | None, str, Tail]:
        """The newest backup, the sha256 of its bytes, and the tail it proves."""
        tail = await self._tail()
        if tail.number == 0:
            return None, "", tail
        data = await self.sequence.read_known(tail.number)
        return self._decode(data, tail.number), hashlib.sha256(data).hexdigest(), tail

    async def _tail(self) -> Tail:
        """The tail, or `LostObject` if there are newer backups behind a gap.

        The protocol needs no listing: numbers are dense, and only `prune` deletes some, below a floor. But a vault lies
        where others have rights, and a rule that deletes old objects makes it look empty. So this is a look for damage:
        it decides nothing but whether to stop.
        """
        try:
            tail = await self.sequence.tail()
        except LostObject:  # the first number above the floor is gone
            there = await self._listed_numbers(0)
            raise self._gap(await self.sequence.floor() + 1, there) from None
        there = [number for number in await self._listed_numbers(tail.number) if number > tail.number]
        if there and not await self.sequence.exists(tail.number + 1):  # else somebody finished one meanwhile
            raise self._gap(tail.number + 1, there)
        return tail

    async def _listed_numbers(self, newest: int) -> list[int]:
        """Numbers above the floor that a listing shows: of all, or of those near the newest one that is known. What
        backups name lies below the same prefix, and is far more."""
        folders = (
            {self.sequence.path(number).rsplit("/", 1)[0] for number in (newest, newest + 1)} if newest else {FOLDER}
        )
        floor = await self.sequence.floor()
        found = set()
        for folder in folders:
            async for info in self._store.list(folder):
                name = info.path.rpartition("/")[2]
                if name.isdigit() and int(name) > floor and info.path == self.sequence.path(int(name)):
                    found.add(int(name))
        return sorted(found)

    def _gap(self, missing: int, there: list[int]) -> LostObject:
        path = self.sequence.path(missing)
        deleted = "something deletes objects in the vault, such as a lifecycle rule: stop it"
        if not there:
            return LostObject(
                f"{path} is missing although older backups were let go, and no other is there; {deleted}, and name "
                "another store for backups with --to",
                path=path,
            )
        return LostObject(
            f"{path} is missing, and there are newer backups: {shown_numbers(there)}; {deleted}. `arco restore --backup"
            f" {there[-1]}` uses one that is there; for new backups name another store with --to",
            path=path,
        )

    async def backup(self, number: int | None) -> Backup:
        """One backup, or the newest; `NotFound` if it is not there."""
        if number is None:
            found, _, _ = await self.newest()
            if found is None:
                raise NotFound(
                    f"there is no backup of {self.tenant}/{self.workspace} there; one that was not finished is none"
                )
            return found
        data = await self.sequence.read(number)
        if data is None:
            raise NotFound(f"there is no backup {number}; `arco backup list` shows those there are")
        return self._decode(data, number)

    async def backups(self) -> list[Backup]:
        """Every backup, oldest first. One that cannot be read ends it; `survey` goes on."""
        found = await self.survey()
        for number in sorted(found.unreadable):
            raise found.unreadable[number]
        return found.backups

    async def survey(self) -> Survey:
        """Every backup, whatever became of the others. It looks behind gaps too, as `newest` does."""
        floor = await self.sequence.floor()
        try:
            dense = least = (await self.sequence.tail()).number
        except LostObject:  # the first number above the floor is gone
            dense, least = 0, floor + 1
        listed = set(await self._listed_numbers(dense))
        backups: list[Backup] = []
        unreadable: dict[int, Corrupt] = {}
        for number in range(floor + 1, max([least, *listed]) + 1):
            data = await self.sequence.read(number) if number <= dense or number in listed else None
            try:
                if data is None:
                    path = self.sequence.path(number)
                    raise LostObject(f"{path} is missing; use another backup", path=path)
                backups.append(self._decode(data, number))
            except Corrupt as error:
                unreadable[number] = error
        floor = await self.sequence.floor()  # what somebody prunes meanwhile is not lost
        return Survey(backups, {number: error for number, error in unreadable.items() if number > floor})

    def _decode(self, data: bytes, number: int) -> Backup:
        path = self.sequence.path(number)
        backup = decode_backup(data, path)
        if (backup.tenant, backup.workspace) != (self.tenant, self.workspace):
            raise Refused(
                f"{path} is a backup of {backup.tenant}/{backup.workspace}, not of {self.tenant}/{self.workspace}; "
                "a workspace is restored from its own backups only",
                path=path,
            )
        if backup.number != number:
            raise Corrupt(f"{path} says it is backup {backup.number}; use another backup", path=path)
        return backup

    # Contents

    def path(self, content: Content) -> str:
        return f"{OBJECTS}/{content.base:020d}/{content.sha256[:2]}/{content.sha256}"

    async def put(self, data: bytes, base: int) -> tuple[Content, bool]:
        """Store bytes on top of a backup, and say whether they were new there."""
        content = Content(hashlib.sha256(data).hexdigest(), len(data), base)
        path = self.path(content)
        for attempt in range(ATTEMPTS):
            try:
                if (await self._store.head(path)).size != len(data):
                    raise Corrupt(f"{path} was altered; delete it, then run it again", path=path)
                await self._store.persist(path)
                return content, False
            except ObjectMissing:
                pass
            except StoreFailed:
                await self._pause(attempt)
                continue
            try:
                await self._store.put(path, data, only_if_absent=True)
                return content, True
            except (ObjectExists, StoreFailed):
                await self._pause(attempt)
        raise Unavailable(f"the store of backups does not take {path}; run it again, it goes on from here")

    async def get(self, content: Content) -> bytes:
        """The bytes, checked against their name."""
        path = self.path(content)
        data = await self._get(path)
        if len(data) != content.size or hashlib.sha256(data).hexdigest() != content.sha256:
            raise Corrupt(f"{path} does not have the bytes its name promises; use another backup", path=path)
        return data

    async def _get(self, path: str) -> bytes:
        for attempt in range(ATTEMPTS):
            try:
                return await self._store.get(path)
            except ObjectMissing:
                message = f"{path} is missing although a backup names it; use another backup"
                raise LostObject(message, path=path) from None
            except StoreFailed as error:
                if attempt == ATTEMPTS - 1:
                    raise Unavailable(f"{path} cannot be read now: {error.message}; try again") from error
                await self._pause(attempt)
        raise AssertionError

    async def _pause(self, attempt: int) -> None:
        await self._runtime.sleep(self._runtime.uniform(0.5, 1.0) * min(0.02 * 2**attempt, 2.0))

    # Lists

    async def put_list(
        self,
        kind: str,
        name: str,
        entries: list[Entry] | list[Chunk] | list[TableCopy],
        size: int,
        base: int,
        previous: Backup | None,
    ) -> Listing:
        """Store a list, or name the one of the previous backup again if it is the same."""
        data = encode_list(entries)
        sha256 = hashlib.sha256(data).hexdigest()
        for known in previous.lists_of(kind, name) if previous is not None else ():
            if known.content.sha256 == sha256:
                return known
        content, _ = await self.put(data, base)
        return Listing(kind, name, len(entries), size, content)

    async def entries(self, listing: Listing) -> list[Entry]:
        return decode_list(await self.get(listing.content), Entry, self.path(listing.content))

    async def chunks(self, backup: Backup, log: str) -> list[Chunk]:
        found: list[Chunk] = []
        for listing in backup.lists_of("ledger", log):
            found += await self._chunks(listing)
        return found

    async def _chunks(self, listing: Listing) -> list[Chunk]:
        return decode_list(await self.get(listing.content), Chunk, self.path(listing.content))

    async def tables(self, listing: Listing) -> list[TableCopy]:
        return decode_list(await self.get(listing.content), TableCopy, self.path(listing.content))

    async def segments(self, chunk: Chunk) -> list[bytes]:
        """The segments of a chunk, as they were stored."""
        path = self.path(chunk.content)
        found = decode_chunk(await self.get(chunk.content), path)
        if len(found) != chunk.last - chunk.first + 1:
            raise Corrupt(f"{path} does not hold the segments {chunk.first} to {chunk.last}; use another backup")
        return found

    async def contents(self, backup: Backup, known: Container[str] = ()) -> AsyncIterator[Content]:
        """Everything that a backup names, its lists included. Lists whose paths are known are not read: whoever knows
        them knows what they name, because each comes after that."""
        for copy in backup.logs.values():
            yield copy.manifest
        for listing in backup.lists:
            if self.path(listing.content) not in known:
                for content in await self._listed(listing):
                    yield content
                yield listing.content

    async def _listed(self, listing: Listing) -> list[Content]:
        if listing.kind == "iceberg":
            return [file.content for table in await self.tables(listing) for file in table.metadata]
        if listing.kind == "ledger":
            return [chunk.content for chunk in await self._chunks(listing)]
        return [entry.content for entry in await self.entries(listing)]

    async def objects(self) -> AsyncIterator[ObjectInfo]:
        """Everything that lies here but the backups themselves, named or not."""
        async for info in self._store.list(OBJECTS):
            yield info

    async def delete(self, path: str) -> None:
        await self._store.delete(path)

    async def remove_folders(self, before: int) -> None:
        """Empty ones of objects that were copied on top of backups before a number: nobody writes there any more."""

        def is_over(folder: str) -> bool:
            base = folder.removeprefix(f"{OBJECTS}/").split("/", 1)[0]
            return base.isdigit() and int(base) < before

        await remove_empty_folders(self._store, OBJECTS, is_over)


def shown_numbers(numbers: Iterable[int]) -> str:
    """Numbers in order, with runs of them put together: 1, 4 to 6."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join(" to ".join(str(end) for end in run) for run in runs)


async def in_parallel(
    runtime: Runtime, items: Iterable[T], work: Callable[[T], Awaitable[None]], *, limit: int = PARALLEL
) -> None:
    """Work on all items, some at the same time. The first error ends it, once what was begun has ended."""
    left = iter(items)
    failed: list[Exception] = []

    async def run() -> None:
        for item in left:
            if failed:
                return
            try:
                await work(item)
            except Exception as error:  # noqa: BLE001 - it is raised below, once the others have ended
                failed.append(error)

    for task in [runtime.spawn(run(), "copying") for _ in range(limit)]:
        await task
    if failed:
        raise failed[0]
