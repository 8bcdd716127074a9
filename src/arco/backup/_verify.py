"""Checking backups, and a restored workspace against the backup it came from. Nothing is written.

`verify_backup` reads everything a backup names: hashes, the chain and the density of both logs, the slices of state,
the blobs that events name, the pointers of tables. With `refold` both logs are folded anew, in memory, and every table
is compared with the published one that was copied. `compare_restored` does the same with a workspace, and
`compare_objects` reads what incarnations share, which a restore only measures.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from dataclasses import dataclass

from arco.backup._cut import pointers_of
from arco.backup._format import Backup, Entry, TableCopy
from arco.backup._vault import Vault, in_parallel
from arco.catalog import current_data, lost_data
from arco.core import DAY, ArcoError, Corrupt, LostObject, NotFound, Refused, Runtime
from arco.iceberg import check_link
from arco.log import FIRST_LINK, Blobs, Link, Place, Segment, check_segment, number_of
from arco.runtime import DEFINITIONS, Incarnation
from arco.state import (
    Comparison,
    Definition,
    Finding,
    LayerReader,
    Level,
    Manifest,
    Replica,
    Revisions,
    Snapshot,
    base_for,
    decode_manifest,
    digest_rows,
    empty_manifest,
    open_ledger,
    snapshot_at_position,
    snapshot_at_time,
)
from arco.storage import ObjectInfo, ObjectMissing, Store

__all__ = ["compare_objects", "compare_restored", "verify_backup"]

BATCH_EVENTS = 20_000

_MISSING = "is missing:"

Progress = Callable[[str, int, int], None]


async def verify_backup(
    vault: Vault,
    backup: Backup,
    definitions: Iterable[Definition],
    *,
    refold: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> list[Finding]:
    """Everything there is to say about a backup; an error means that it cannot be restored as it is."""
    examination = _Examination(vault, backup, progress)
    for kind in ("blobs", "code", "data"):
        await examination.entries(kind)
    for definition in definitions:
        await examination.log(definition, refold)
    await examination.tables()
    return examination.findings


@dataclass(frozen=True)
class _Copied:
    """The objects of a backup under the paths they had in the workspace, as a store to read state from."""

    vault: Vault
    found: dict[str, Entry]

    async def get(self, path: str) -> bytes:
        if path not in self.found:
            raise ObjectMissing(path)
        return await self.vault.get(self.found[path].content)

    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        data = (await self.get(path))[offset : offset + length]
        if len(data) != length:
            raise Corrupt(f"{path} ends before {offset + length}; use another backup", path=path)
        return data

    async def head(self, path: str) -> ObjectInfo:
        if path not in self.found:
            raise ObjectMissing(path)
        return ObjectInfo(path, self.found[path].content.size, 0)

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        raise AssertionError(f"nothing is written to a backup, not even {path}")

    async def delete(self, path: str) -> None:
        raise AssertionError(f"nothing is deleted from a backup, not even {path}")

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        for path in sorted(self.found):
            if path.startswith(f"{prefix}/"):
                yield await self.head(path)

    async def sign(self, path: str, *, expires_in: int) -> str:
        raise AssertionError(f"nothing of a backup is signed, not even {path}")

    async def persist(self, path: str) -> None:
        """It was written long ago."""

    async def close(self) -> None:
        """The vault belongs to whoever opened it."""


async def copied_store(vault: Vault, backup: Backup) -> Store:
    """State and blobs of a backup, to be read by their old paths."""
    lists = [*backup.lists_of("state"), *backup.lists_of("blobs")]
    return _Copied(vault, {entry.path: entry for one in lists for entry in await vault.entries(one)})


async def read_segments(
    vault: Vault, backup: Backup, log: str, *, through: int | None = None
) -> AsyncIterator[tuple[Segment, Link]]:
    """The segments of a log in a backup, each checked against the one before."""
    place = Place(backup.tenant, backup.workspace, backup.incarnation, log)
    link, last = FIRST_LINK, backup.logs[log].link
    for chunk in await vault.chunks(backup, log):
        path = vault.path(chunk.content)
        if chunk.first != link.number + 1:
            raise LostObject(f"the segments {link.number + 1} to {chunk.first - 1} of {log} are missing", path=path)
        for data in await vault.segments(chunk):
            segment, link = check_segment(data, place, link, path)
            if through is not None and link.number > through:
                return
            yield segment, link
    if through is None and link != last:
        raise LostObject(f"the log {log} ends at segment {link.number}, the backup says {last.number}")


async def refolded(
    vault: Vault, backup: Backup, definition: Definition, store: Store, *, position: int | None = None
) -> Replica:
    """The state that the log of a backup gives, folded in memory; up to a position if one is given."""
    place = Place(backup.tenant, backup.workspace, backup.incarnation, definition.log)
    replica = Replica(definition, LayerReader(store), empty_manifest(place))
    batch: list[tuple[Segment, Link]] = []
    events = 0
    through = None if position is None else number_of(position)
    async for found in read_segments(vault, backup, definition.log, through=through):
        batch.append(found)
        events += len(found[0].events)
        if events >= BATCH_EVENTS:
            await replica.apply(batch, through=position)
            batch, events = [], 0
    await replica.apply(batch, through=position)
    return replica


async def compare(definition: Definition, one: Replica | Snapshot, other: Replica | Snapshot) -> list[Comparison]:
    found = []
    for name, table in sorted(definition.tables.items()):
        live, anew = await one.scan(table), await other.scan(table)
        equal = digest_rows(table, live) == digest_rows(table, anew)
        found.append(Comparison(name, live.num_rows, anew.num_rows, equal))
    return found


async def compare_restored(
    vault: Vault, store: Store, incarnation: Incarnation, runtime: Runtime, definitions: Iterable[Definition]
) -> dict[str, list[Comparison]]:
    """Every table of a restored workspace, at the position it was restored to, against what the backup's log gives."""
    backup = next((one for one in (await vault.survey()).backups if one.id == incarnation.backup), None)
    if not incarnation.backup:
        raise Refused(
            f"incarnation {incarnation.id} was not restored from a backup: its reason is {incarnation.reason}"
        )
    if backup is None:
        raise NotFound(f"the backup {incarnation.backup}, which the workspace was restored from, is not there any more")
    copied = await copied_store(vault, backup)
    found = {}
    for definition in definitions:
        position = int(incarnation.through[definition.log])
        place = Place(vault.tenant, vault.workspace, incarnation.id, definition.log)
        revisions = Revisions(store, place, runtime)
        head = (await revisions.head()).manifest
        ledger = open_ledger(store, revisions, head.packs)
        there = await snapshot_at_position(definition, store, revisions, ledger, head, position)
        anew = await refolded(vault, backup, definition, copied, position=position)
        found[definition.log] = await compare(definition, there, anew)
    return found


async def compare_objects(
    vault: Vault,
    backup: Backup,
    store: Store,
    incarnation: Incarnation,
    runtime: Runtime,
    *,
    progress: Progress = lambda what, done, total: None,
) -> list[Finding]:
    """Every blob, archive of code and file of data of a backup, as it lies in the workspace that was restored from it.

    Files of data that are gone are a loss only if current versions are made of them: others are deleted by retention
    and by engines. Blobs and archives stay, and an erasure, which alone deletes them, opens an incarnation that comes
    from no backup.
    """
    findings: list[Finding] = []
    for kind in ("blobs", "code", "data"):
        entries = [entry for listing in backup.lists_of(kind) for entry in await vault.entries(listing)]
        found: dict[str, str] = {}

        async def check(
            entry: Entry, found: dict[str, str] = found, kind: str = kind, total: int = len(entries)
        ) -> None:
            found[entry.path] = await _wrong(store, entry)
            progress(f"{kind} of the workspace", len(found), total)

        await in_parallel(runtime, entries, check, limit=4)
        same = sum(not wrong for wrong in found.values())
        gone = {path for path, wrong in found.items() if wrong == _MISSING} if kind == "data" else set()
        needed = await _needed(vault, store, incarnation, runtime, gone) if gone else {}
        for entry in entries:
            if found[entry.path] and entry.path not in gone - needed.keys():
                wrong = needed.get(entry.path, f"{entry.path} {found[entry.path]}")
                cure = (
                    f"copy {vault.path(entry.content)} from the store of backups to its name, or run `arco restore "
                    f"--backup {backup.number} --replace` again, which leaves behind what came since"
                )
                findings.append(Finding(Level.ERROR, "", "objects", f"{wrong} {cure}", entry.path))
        if same and same + len(gone) == len(entries):
            findings.append(Finding(Level.OK, "", "objects", f"{same} objects of {kind} are what the backup has"))
        if len(gone) > len(needed):
            text = f"{len(gone) - len(needed)} files of data are gone, of which no current version is made"
            findings.append(Finding(Level.NOTE, "", "objects", text))
    return findings


async def _needed(
    vault: Vault, store: Store, incarnation: Incarnation, runtime: Runtime, gone: Collection[str]
) -> dict[str, str]:
    """The files of data that current versions of the workspace are made of, of those that are gone, with a text."""
    [activity] = [one for one in DEFINITIONS if one.log == "activity"]
    revisions = Revisions(store, Place(vault.tenant, vault.workspace, incarnation.id, activity.log), runtime)
    head = (await revisions.head()).manifest
    ledger = open_ledger(store, revisions, head.packs)
    newest = await snapshot_at_time(activity, store, revisions, ledger, head, runtime.now() + DAY)
    wanted = await current_data(newest)
    lost = lost_data({path: version for path, version in wanted.items() if path in gone}, {})
    return {path: f"{text}:" for path, text in lost.items()}


async def _wrong(store: Store, entry: Entry) -> str:
    """What is wrong with an object, and what is to be done first; empty if it is what was copied."""
    try:
        size = (await store.head(entry.path)).size
        # Of another size it is another one, however large: it need not be read.
        if size == entry.content.size:
            data = await store.get(entry.path)
            if hashlib.sha256(data).hexdigest() == entry.content.sha256:
                return ""
    except ObjectMissing:
        return _MISSING
    return "was altered or cut off: delete this one object, and nothing else; then"


class _Examination:
    def __init__(self, vault: Vault, backup: Backup, progress: Progress) -> None:
        self._vault = vault
        self._backup = backup
        self._progress = progress
        self._blobs: set[str] = set()
        self.findings: list[Finding] = []

    def _say(self, level: Level, log: str, check: str, message: str) -> None:
        self.findings.append(Finding(level, log, check, message))

    def _fail(self, log: str, check: str, error: ArcoError) -> None:
        self.findings.append(Finding(Level.ERROR, log, check, error.message, str(error.details.get("path", ""))))

    async def entries(self, kind: str) -> None:
        count = broken = 0
        for listing in self._backup.lists_of(kind):
            try:
                for entry in await self._vault.entries(listing):
                    count += 1
                    self._progress(kind, count, sum(one.count for one in self._backup.lists_of(kind)))
                    if kind == "blobs":
                        self._blobs.add(entry.path)
                    await self._vault.get(entry.content)
            except Corrupt as error:
                broken += 1
                self._fail("", kind, error)
        if not broken and count:
            self._say(Level.OK, "", kind, f"{count} objects are what they were")

    async def log(self, definition: Definition, refold: bool) -> None:
        log, segments, events = definition.log, 0, 0
        try:
            total = self._backup.logs[log].link.number
            async for segment, _ in read_segments(self._vault, self._backup, log):
                segments, events = segments + 1, events + len(segment.events)
                self._progress(f"log {log}", segments, total)
                for event in segment.events:
                    for sha256 in event.blobs:
                        if Blobs.path(sha256) not in self._blobs:
                            raise LostObject(f"{Blobs.path(sha256)} is not in the backup although an event names it")
            self._say(Level.OK, log, "chain", f"{segments} segments, {events} events, every link holds")
            manifest = await self._state(log)
            if refold:
                await self._refold(definition, manifest)
        except Corrupt as error:
            self._fail(log, "log", error)

    async def _state(self, log: str) -> Manifest:
        copy = self._backup.logs[log]
        manifest = decode_manifest(await self._vault.get(copy.manifest), self._vault.path(copy.manifest))
        if manifest.link != copy.link:
            raise Corrupt(f"revision {manifest.number} of {log} is not of the position that was copied")
        slices: dict[str, list[tuple[int, int, str]]] = {}
        for layer in manifest.layers:
            for file in layer.files:
                slices.setdefault(file.path, []).append((file.offset, file.length, file.sha256))
        for listing in self._backup.lists_of("state", log):
            for entry in await self._vault.entries(listing):
                data = await self._vault.get(entry.content)
                for offset, length, sha256 in slices.pop(entry.path, []):
                    if hashlib.sha256(data[offset : offset + length]).hexdigest() != sha256:
                        raise Corrupt(f"{entry.path} is not what revision {manifest.number} promises")
        if slices:
            raise LostObject(f"{min(slices)} is not in the backup although revision {manifest.number} names it")
        self._say(Level.OK, log, "state", f"revision {manifest.number} is whole")
        return manifest

    async def _refold(self, definition: Definition, manifest: Manifest) -> None:
        log = definition.log
        if manifest.number == 0:  # nobody ever wrote to the log: there is no state to compare
            return
        if base_for(definition, manifest).number != manifest.number or dict(manifest.folds) != definition.versions:
            self._say(Level.NOTE, log, "refold", "not compared: another fold version made the state that was copied")
            return
        store = await copied_store(self._vault, self._backup)
        published = Replica(definition, LayerReader(store), manifest)
        anew = await refolded(self._vault, self._backup, definition, store)
        compared = await compare(definition, published, anew)
        different = [one.table for one in compared if not one.equal]
        if different:
            raise Corrupt(f"the state that was copied is not what the log says in {', '.join(different)}")
        self._say(Level.OK, log, "refold", f"{len(compared)} tables are what the log says")

    async def tables(self) -> None:
        tables = pointers = files = 0
        for listing in self._backup.lists_of("iceberg"):
            try:
                for copy in await self._vault.tables(listing):
                    pointers += self._chain(copy)
                    for file in copy.metadata:
                        await self._vault.get(file.content)
                    tables, files = tables + 1, files + len(copy.metadata)
            except Corrupt as error:
                self._fail("", "iceberg", error)
                return
        if tables:
            self._say(Level.OK, "", "iceberg", f"{tables} tables: {pointers} pointers, {files} metadata files")

    def _chain(self, copy: TableCopy) -> int:
        previous = None
        for number, (pointer, text) in enumerate(zip(pointers_of(copy), copy.pointers, strict=True), copy.first):
            check_link(
                pointer,
                table_id=copy.table_id,
                incarnation=self._backup.incarnation,
                number=number,
                previous="" if number == 1 else previous,
                path=f"pointer {number} of {copy.table_id}",
            )
            previous = hashlib.sha256(text.encode()).hexdigest()
        return len(copy.pointers)
