"""Taking a backup: a pair of revisions is copied into a vault, then the backup is created there.

    activity, then catalog -> segments, blobs, state, code, Iceberg tables, data -> lists -> backups/{n+1}

Each revision is retained for an hour. Only one that is older, or gets older while it is copied, is pinned: a pin is an
event, and who takes a backup beside busy writers that it cannot reach would have to win a number from them.

What the previous backup names is not read again: an object never changes, so its path tells. Nothing counts before the
last create, and whoever runs it again after a crash finds what was copied already.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from arco.backup._format import (
    FORMAT,
    Backup,
    Chunk,
    Content,
    Entry,
    Listing,
    LogCopy,
    decode_chunk,
    decode_list,
    encode_backup,
    encode_chunk,
)
from arco.backup._kin import check_kin
from arco.backup._tables import TableCopier
from arco.backup._vault import FOLDER, LIST_ENTRIES, OBJECTS, Vault, in_parallel
from arco.catalog import ICEBERG_FORMATS, current_data, lost_data
from arco.core import (
    DAY,
    SECOND,
    ArcoError,
    Conflict,
    Corrupt,
    LostObject,
    Superseded,
    Task,
    Unavailable,
    new_ulid,
)
from arco.domains.catalog import TABLES
from arco.domains.deployments import CODE_VERSIONS
from arco.domains.tables import TABLE_STATES
from arco.iceberg import Locations, Pointers
from arco.log import FIRST_LINK, Blobs, Link, check_segment, number_of, position_of
from arco.runtime import Workspace
from arco.state import Manifest, PinRevision, ReleasePin, Snapshot, encode_manifest, snapshot_at_revision
from arco.storage import Lost, ObjectMissing, Role, Store, StoreFailed, Tail

__all__ = ["CHUNK_BYTES", "ORDER", "Taken", "newest_to_build_on", "take_backup"]

ORDER = ("activity", "catalog")
"""The log that refers to the other one is read first, so that whatever it refers to is there."""

CHUNK_BYTES = 16 << 20
PIN_LIFE = 3 * DAY
"""How long the pins of a backup last that was killed."""
RETRY_SECONDS = 10.0
"""Before a pin that could not be set is tried again."""
LIST_CHUNKS = 64
"""Chunks of a list at most. Every backup adds one, and writes the list anew that is not full: what it writes must not
grow with the age of the log. A list that would be full has its small chunks joined, so that how many objects hold the
log goes by its size, and not by how often it was backed up."""
ATTEMPTS = 8

T = TypeVar("T", Chunk, Entry)

Progress = Callable[[str, int, int], None]
"""What is being copied, how many are done, of how many."""


@dataclass(frozen=True)
class Taken:
    backup: Backup
    troubled: tuple[str, ...]
    """Iceberg tables of which the newest metadata could not be copied, with the reason."""
    lost_data: tuple[str, ...]
    """What is wrong with files of data that current versions are made of; known only where data is copied."""
    positions: dict[str, int]
    """Up to where the logs hold nothing that this backup lacks but its own pins: no reason for another one."""


async def take_backup(
    workspace: Workspace,
    vault: Vault,
    locations: Locations,
    *,
    store: str,
    actor: str,
    data: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Taken:
    """Copy a workspace that is open for writing; `store` is the URL that it lies at.

    `Conflict` if another backup was finished meanwhile, `Superseded` if the workspace went on in another incarnation.
    The workspace is not held up: it may be written to.
    """
    previous, sha256, tail = await newest_to_build_on(vault)
    await check_kin(vault, workspace, previous)
    taking = _Taking(workspace, vault, locations, previous, tail.number, progress)
    taken_at = workspace.runtime.now()
    pins = _Pins(workspace, actor)
    try:
        manifests = {}
        for log in ORDER:
            manifests[log] = await workspace.published(log, await workspace.logs[log].current())
            await pins.keep(log, manifests[log])
        pins.watch()
        logs, lists = await taking.run(manifests, data)
        backup = Backup(
            format=FORMAT,
            number=tail.number + 1,
            id=new_ulid(workspace.runtime, workspace.runtime),
            previous=sha256,
            tenant=workspace.scope.tenant,
            workspace=workspace.scope.workspace,
            incarnation=workspace.incarnation.id,
            store=store,
            taken_at=taken_at,
            finished_at=max(workspace.runtime.now(), previous.finished_at + 1 if previous else 0),
            actor=actor,
            data=data,
            logs=logs,
            lists=tuple(lists),
            copied=taking.copied,
            copied_bytes=taking.copied_bytes,
        )
        await _check_in_use(workspace)
        if isinstance(await vault.sequence.create(tail, encode_backup(backup)), Lost):
            raise Conflict(f"backup {backup.number} was finished by somebody else meanwhile; run it again for another")
    except Corrupt as error:
        await _check_in_use(workspace)
        path = str(error.details.get("path", ""))
        if not path.startswith(f"{FOLDER}/") or path.startswith(f"{OBJECTS}/{tail.number:020d}/"):
            raise  # it is the workspace that is damaged, or something that an attempt before this one left
        raise type(error)(
            f"{path} is damaged or missing, and backup {tail.number}, which the next one builds on, names it; name "
            "another store with --to",
            path=path,
        ) from error
    finally:
        released = await pins.release()
    positions = {log: await pins.own(log, manifests[log].link, released.get(log, 0)) for log in ORDER}
    return Taken(backup, tuple(taking.troubled), tuple(taking.lost_data), positions)


async def _check_in_use(workspace: Workspace) -> None:
    """`Superseded` once the workspace went on in another incarnation: a backup of a former one would be the newest, and
    have what was left behind or erased. What of that is deleted meanwhile is no loss. The log is not asked: beside
    writers that never rest its end may be out of reach."""
    if await workspace.is_replaced():
        raise Superseded(
            f"the workspace goes on in another one than incarnation {workspace.incarnation.id}, which this backup was "
            "of; back it up again"
        )


async def newest_to_build_on(vault: Vault) -> tuple[Backup | None, str, Tail]:
    """The newest backup as `Vault.newest` gives it; one that cannot be read is an error that says how to go on."""
    try:
        return await vault.newest()
    except LostObject:
        raise
    except Corrupt as error:
        path, floor = str(error.details.get("path", "")), await vault.sequence.floor()
        # Without it the one before is the newest again. If that was let go, nothing tells where numbers go on.
        aside = f", or move {path} aside: the next backup then builds on the one before it"
        is_last = floor and path == vault.sequence.path(floor + 1)
        raise Corrupt(
            f"{path}, the newest backup, was altered, and the next one builds on it; name another store with "
            f"--to{'' if is_last else aside}",
            path=path,
        ) from error


class _Pins:
    """Keeps the revisions that are copied, whatever the collector does meanwhile."""

    def __init__(self, workspace: Workspace, actor: str) -> None:
        self._workspace = workspace
        self._actor = actor
        self._id = f"backup-{new_ulid(workspace.runtime, workspace.runtime)}"
        self._old = workspace.cadence.keep_all // 4
        """Microseconds after which a revision is pinned; clocks may differ by the rest of the time it is retained."""
        self._young: dict[str, Manifest] = {}
        self._pinned: list[str] = []
        self._watching: Task | None = None

    async def keep(self, log: str, manifest: Manifest) -> None:
        """See to it that a revision stays. A log to which nobody ever wrote has none."""
        if manifest.number:
            self._young[log] = manifest
            if self._due(manifest) <= 0:
                await self._pin(log)

    def watch(self) -> None:
        """Pin what gets old, until `release`."""
        self._watching = self._workspace.runtime.spawn(self._watch(), "pins of a backup")

    async def release(self) -> dict[str, int]:
        """Let the revisions go; where the logs ended then. A pin that stays behind expires by itself, so trouble is no
        reason to fail."""
        if self._watching is not None:
            self._watching.cancel()
        ends: dict[str, int] = {}
        for log in self._pinned:
            with suppress(ArcoError):
                ends[log] = (await self._workspace.decide(log, ReleasePin(self._id), actor=self._actor)).position
        return ends

    async def own(self, log: str, link: Link, released: int) -> int:
        """Up to where there is nothing but pins of this backup after what was copied. Others may have written between
        them, and in the same segment."""
        ledger = self._workspace.logs[log].follower.ledger
        with suppress(ArcoError):  # what cannot be read now may be anybody's
            async for _, data, path in ledger.known(link.number + 1, number_of(released)):
                segment, beyond = check_segment(data, ledger.place, link, path)
                if any(event.subject != self._id for event in segment.events):
                    break
                link = beyond
        return position_of(link.number + 1, 0) - 1

    async def _watch(self) -> None:
        runtime = self._workspace.runtime
        while self._young:
            await runtime.sleep(max(0.0, min(self._due(manifest) for manifest in self._young.values())))
            for log in [log for log, manifest in self._young.items() if self._due(manifest) <= 0]:
                try:
                    await self._pin(log)
                except Unavailable:
                    await runtime.sleep(RETRY_SECONDS)
                except ArcoError:
                    del self._young[log]  # if the revision is not retained any more, whoever copies it finds out

    def _due(self, manifest: Manifest) -> float:
        """Seconds until a revision is to be pinned."""
        return (manifest.published_at + self._old - self._workspace.runtime.now()) / SECOND

    async def _pin(self, log: str) -> None:
        if log not in self._pinned:
            self._pinned.append(log)  # before it is there: whoever is cancelled half-way releases it too
        expires = self._workspace.runtime.now() + PIN_LIFE
        pin = PinRevision(self._id, self._young[log].number, "backup", expires)
        await self._workspace.pin(log, pin, actor=self._actor)
        del self._young[log]


@dataclass
class _Taking:
    workspace: Workspace
    vault: Vault
    locations: Locations
    previous: Backup | None
    base: int
    progress: Progress
    copied: int = 0
    copied_bytes: int = 0
    troubled: list[str] = field(default_factory=list)
    lost_data: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runtime = self.workspace.runtime
        self.source: Store = self.workspace.handle(Role.READER)
        same = self.previous is not None and self.previous.incarnation == self.workspace.incarnation.id
        self.same = self.previous if same else None
        """The previous backup, if it is one of this incarnation: only then paths below it mean the same."""
        self.blobs: dict[str, Entry] = {}

    async def run(self, manifests: dict[str, Manifest], data: bool) -> tuple[dict[str, LogCopy], list[Listing]]:
        lists: list[Listing] = []
        known_blobs = await self._known("blobs")
        logs = {}
        for log in ORDER:
            copy, chunks = await self._ledger(log, manifests[log], known_blobs)
            logs[log] = copy
            lists += chunks
        for log in ORDER:
            lists.append(await self._state(log, manifests[log]))
        lists += await self._grown("blobs", self.blobs)
        catalog = snapshot_at_revision(
            self.workspace.logs["catalog"].definition, self.source, manifests["catalog"], self.runtime
        )
        activity = snapshot_at_revision(
            self.workspace.logs["activity"].definition, self.source, manifests["activity"], self.runtime
        )
        lists += await self._code(catalog)
        lists += await self._tables(catalog, activity)
        if data:
            lists += await self._data(await current_data(activity))
        return logs, lists

    # The log

    async def _ledger(self, log: str, manifest: Manifest, known: dict[str, Entry]) -> tuple[LogCopy, list[Listing]]:
        through = manifest.link.number
        before = self.same.logs.get(log) if self.same is not None else None
        link = before.link if before is not None else FIRST_LINK
        if link.number > through:
            raise Corrupt(f"the log {log} ends at {through}, the last backup at {link.number}; run `arco doctor`")
        start, first, chunks = link.number, link.number + 1, []
        gathered: list[bytes] = []
        size = 0
        ledger = self.workspace.logs[log].follower.ledger
        async for number, data, path in ledger.known(first, through):
            segment, link = check_segment(data, ledger.place, link, path)
            for event in segment.events:
                for sha256 in event.blobs:
                    await self._blob(sha256, known)
            gathered.append(data)
            size += len(data)
            if size >= CHUNK_BYTES or number == through:
                content = await self.put(encode_chunk(gathered))
                chunks.append(Chunk(first, number, segment.header.received, content))
                first, gathered, size = number + 1, [], 0
            self.progress(f"log {log}", number - start, through - start)
        if link != manifest.link:
            raise Corrupt(f"the log {log} is not the one revision {manifest.number} was folded from; run `arco doctor`")
        stored = await self.put(encode_manifest(manifest))
        lists = await self._append("ledger", log, chunks, self.same, Chunk, LIST_CHUNKS, self._joined)
        return LogCopy(link, manifest.watermark, manifest.number, stored), lists

    async def _joined(self, chunks: list[Chunk]) -> list[Chunk]:
        """The same segments in fewer chunks, none of them larger than one that a single backup writes."""
        runs: list[list[Chunk]] = []
        room = 0
        for chunk in chunks:
            room -= chunk.content.size
            if room < 0:
                runs.append([])
                room = CHUNK_BYTES - chunk.content.size
            runs[-1].append(chunk)
        return [run[0] if len(run) == 1 else await self._join(run) for run in runs]

    async def _join(self, run: list[Chunk]) -> Chunk:
        segments: list[bytes] = []
        for chunk in run:
            segments += decode_chunk(await self.vault.get(chunk.content), self.vault.path(chunk.content))
        content = await self.put(encode_chunk(segments))
        return Chunk(run[0].first, run[-1].last, run[-1].received, content)

    async def _blob(self, sha256: str, known: dict[str, Entry]) -> None:
        path = Blobs.path(sha256)
        if path not in self.blobs and (path not in known or self.same is None):
            self.blobs[path] = known.get(path) or Entry(path, await self.put(await Blobs(self.source).get(sha256)))

    # State

    async def _state(self, log: str, manifest: Manifest) -> Listing:
        """The objects of a revision; their slices are checked, so that a damaged one is found now."""
        slices: dict[str, list[tuple[int, int, str]]] = {}
        for layer in manifest.layers:
            for file in layer.files:
                slices.setdefault(file.path, []).append((file.offset, file.length, file.sha256))
        known = {entry.path: entry for entry in await self._listed("state", log, self.same)}
        entries = {path: known[path] for path in slices if path in known}
        done = len(entries)

        async def copy(path: str) -> None:
            nonlocal done
            data = await self._read(path)
            for offset, length, sha256 in slices[path]:
                if hashlib.sha256(data[offset : offset + length]).hexdigest() != sha256:
                    raise Corrupt(f"{path} was altered; run `arco rebuild {log}`, then back up again", path=path)
            entries[path] = Entry(path, await self.put(data))
            done += 1
            self.progress(f"state of {log}", done, len(slices))

        await in_parallel(self.runtime, sorted(slices.keys() - known.keys()), copy, limit=4)
        listed = [entries[path] for path in sorted(entries)]
        return await self._list("state", log, listed)

    async def _code(self, catalog: Snapshot) -> list[Listing]:
        known = await self._known("code")
        new: dict[str, Entry] = {}
        column = (await catalog.scan(CODE_VERSIONS)).column("code_sha256").to_pylist()
        for path in sorted({f"code/{sha256}.zip" for sha256 in column if sha256}):
            if path in known:
                if self.same is None:
                    new[path] = known[path]
                continue
            data = await self._read(path)
            if hashlib.sha256(data).hexdigest() != path.removeprefix("code/").removesuffix(".zip"):
                raise Corrupt(f"{path} was altered; deploy it again, then back up again", path=path)
            new[path] = Entry(path, await self.put(data))
        return await self._grown("code", new)

    async def _tables(self, catalog: Snapshot, activity: Snapshot) -> list[Listing]:
        rows = (await catalog.scan(TABLES)).select(["table_id", "format"]).to_pylist()
        ids = {row["table_id"] for row in rows if row["format"] in ICEBERG_FORMATS}
        ids |= set((await activity.scan(TABLE_STATES)).column("table_id").to_pylist())
        life = self.workspace.incarnation.id
        pointers = Pointers(self.source, f"{life}/iceberg", self.runtime, life, min_age=self.workspace.min_age)
        copier = TableCopier(self.vault, self.base, pointers, self.locations, self.runtime)
        lists = await copier.copy(ids, self.same, lambda done, total: self.progress("Iceberg tables", done, total))
        self.copied += copier.copied
        self.copied_bytes += copier.copied_bytes
        self.troubled += copier.troubled
        return lists

    async def _data(self, wanted: Mapping[str, tuple[str, int]]) -> list[Listing]:
        """Everything that lies in the folders of data. What is deleted while they are copied was not needed, but for
        what current versions are made of."""
        known = await self._known("data")
        found: dict[str, int] = {}
        for folder in ("data", "warehouse"):
            async for info in self.source.list(folder):
                if "/_temporary/" not in info.path:
                    found[info.path] = info.size
        entries = {
            path: known[path] for path, size in found.items() if path in known and known[path].content.size == size
        }
        missing = sorted(found.keys() - entries.keys())
        done = 0

        async def copy(path: str) -> None:
            nonlocal done
            with suppress(LostObject):  # it was listed a moment ago, and is collected now
                entries[path] = Entry(path, await self.put(await self._read(path)))
            done += 1
            self.progress("data", done, len(missing))

        await in_parallel(self.runtime, missing, copy, limit=4)
        there = {path: entry.content.size for path, entry in entries.items()}
        self.lost_data += lost_data(wanted, there).values()
        paths = sorted(entries)
        parts = [paths[at : at + LIST_ENTRIES] for at in range(0, len(paths), LIST_ENTRIES)]
        return [await self._list("data", "", [entries[path] for path in part]) for part in parts]

    # Objects and lists

    async def put(self, data: bytes) -> Content:
        content, is_new = await self.vault.put(data, self.base)
        if is_new:
            self.copied, self.copied_bytes = self.copied + 1, self.copied_bytes + len(data)
        return content

    async def _read(self, path: str) -> bytes:
        for attempt in range(ATTEMPTS):
            try:
                return await self.source.get(path)
            except ObjectMissing:
                raise LostObject(f"{path} is missing; run `arco doctor`, then back up again", path=path) from None
            except StoreFailed as error:
                if attempt == ATTEMPTS - 1:
                    raise Unavailable(f"{path} cannot be read now: {error.message}; run it again") from error
                await self.runtime.sleep(self.runtime.uniform(0.5, 1.0) * min(0.02 * 2**attempt, 2.0))
        raise AssertionError

    async def _known(self, kind: str) -> dict[str, Entry]:
        """What the previous backup has of a folder that incarnations share, by path."""
        return {entry.path: entry for entry in await self._listed(kind, "", self.previous)}

    async def _listed(self, kind: str, name: str, backup: Backup | None) -> list[Entry]:
        lists = backup.lists_of(kind, name) if backup is not None else []
        return [entry for listing in lists for entry in await self.vault.entries(listing)]

    async def _list(self, kind: str, name: str, entries: list[Entry]) -> Listing:
        size = sum(entry.content.size for entry in entries)
        return await self.vault.put_list(kind, name, entries, size, self.base, self.previous)

    async def _grown(self, kind: str, new: dict[str, Entry]) -> list[Listing]:
        """Of the same incarnation what is new is put to what was there; another one may have lost some of that."""
        return await self._append(kind, "", [new[path] for path in sorted(new)], self.same, Entry, LIST_ENTRIES)

    async def _append(
        self,
        kind: str,
        name: str,
        new: list[T],
        previous: Backup | None,
        of: type[T],
        most: int,
        shorten: Callable[[list[T]], Awaitable[list[T]]] | None = None,
    ) -> list[Listing]:
        """The lists of the previous backup and what is new; full ones are named again as they are."""
        lists = previous.lists_of(kind, name) if previous is not None else []
        if not new:
            return lists
        if lists and lists[-1].count < most:
            content = lists.pop().content
            new = decode_list(await self.vault.get(content), of, self.vault.path(content)) + new
        if shorten is not None and len(new) >= most:
            new = await shorten(new)
        for at in range(0, len(new), most):
            part = new[at : at + most]
            size = sum(entry.content.size for entry in part)
            lists.append(await self.vault.put_list(kind, name, part, size, self.base, previous))
        return lists
