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

__all__ = ["FOLDER", "LIST_ENTRIES", "Vault", "in_parallel"]

FOLDER = "backups"
OBJECTS = f"{FOLDER}/objects"
LIST_ENTRIES = 10_000
"""Entries of a list at most; full lists are named again by later backups."""

ATTEMPTS = 8
PARALLEL = 16

T = TypeVar("T")


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
        tail = await self.sequence.tail()
        if tail.number == 0:
            return None, "", tail
        data = await self.sequence.read_known(tail.number)
        return self._decode(data, tail.number), hashlib.sha256(data).hexdigest(), tail

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
        """Every backup, oldest first."""
        tail, floor = await self.sequence.tail(), await self.sequence.floor()
        numbers = range(floor + 1, tail.number + 1)
        return [self._decode(await self.sequence.read_known(number), number) for number in numbers]

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
