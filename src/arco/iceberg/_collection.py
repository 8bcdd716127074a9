"""`IcebergCollector`: deletes what `_garbage` finds. It alone deletes; engines delete their own data files.

    list objects -> read the state and every table's newest pointer -> judge -> floors -> delete

Objects are listed before anything is read, so that whatever was committed when they were listed is known. The floor of
a table's pointers is raised before any of them goes: a deleted number must never pass for a free one. Decisions go
after the pointers that named them, and the file that the last pointer of a purged table names goes last, so that a
collection that is interrupted finds the rest.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from arco.core import DAY, Corrupt, Forbidden, Invalid, new_ulid
from arco.domains.tables import TABLE_COMMITS, TABLE_STATES, TableCommit, TableState
from arco.iceberg._documents import Documents
from arco.iceberg._errors import MetadataMissing
from arco.iceberg._garbage import (
    Garbage,
    GarbageKind,
    contains,
    logged_locations,
    old_claims,
    old_decisions,
    old_manifests,
    old_metadata,
    pointer_floor,
    pointer_place,
    snapshot_of,
)
from arco.iceberg._locations import FOLDER, Locations
from arco.iceberg._owned import asset_of
from arco.iceberg._pointers import Current, Pointers
from arco.iceberg._who import KEY_LIFE
from arco.iceberg._writing import decode_list
from arco.runtime import Workspace
from arco.state import Snapshot
from arco.storage import ObjectInfo, Role, remove_empty_folders

__all__ = ["IcebergCollected", "IcebergCollector"]

PROOF_AGE = KEY_LIFE + DAY
"""What proves the outcome of a request, claims, pointers and decisions, is kept as long as its key lives, and a day."""
METADATA_AGE = 3 * DAY
"""A commit that takes longer between its metadata file and its pointer has lost its number anyway."""
PURGE_AGE = DAY
"""From a drop to the deletion of its files: readers may be under way."""
MAX_REMOVED = 2_000
"""Objects that one call removes before it leaves the rest to the next one."""


@dataclass
class IcebergCollected:
    dry_run: bool
    garbage: list[Garbage] = field(default_factory=list)
    floors: dict[str, int] = field(default_factory=dict)
    """New floors of pointers, by table."""
    kept: int = 0
    """Objects that were looked at and stay."""
    left: list[str] = field(default_factory=list)
    """What was left alone because something about it is in doubt."""
    is_more: bool = False
    """Whether another call would remove more."""

    @property
    def bytes(self) -> int:
        return sum(one.info.size for one in self.garbage)


@dataclass(slots=True)
class _Table:
    table_id: str
    pointers: dict[int, ObjectInfo]
    current: Current | None = None
    state: TableState | None = None
    location: str | None = None
    """Path within the workspace; None if it lies elsewhere or is not known."""
    properties: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """Metadata files that it names, as paths within the workspace."""
    manifest_lists: list[str] | None = None
    """Locations of those of its snapshots, if it is the table of an asset."""

    @property
    def recorded_through(self) -> int:
        return 0 if self.state is None else self.state.recorded_through

    @property
    def own_folder(self) -> str:
        """Where a table lies that nobody placed. No other table is ever given it."""
        return f"{FOLDER}/{self.table_id.lower()}"

    @property
    def is_purged(self) -> bool:
        held = None if self.current is None else self.current.held
        return held is not None and held.state == "dropped" and held.purge


class IcebergCollector:
    def __init__(self, workspace: Workspace, locations: Locations) -> None:
        self._workspace = workspace
        self._runtime = workspace.runtime
        self._locations = locations
        self._documents = Documents(locations, max_bytes=0)  # a collection reads each of them once
        self._prefix = f"{workspace.incarnation.id}/iceberg"
        self._reader = workspace.handle(Role.READER)
        self._store = workspace.handle(Role.COLLECTOR)

    async def collect(self, *, dry_run: bool = False) -> IcebergCollected:
        """Remove what nobody needs. A read error stops it before anything is deleted."""
        done = IcebergCollected(dry_run)
        tables, newest = await self._listed_tables()
        claims = [info async for info in self._reader.list(f"{self._prefix}/keys")]
        decisions = [info async for info in self._reader.list(f"{self._prefix}/txns")]
        files = {table.table_id: await self._own_files(table) for table in tables.values()}
        activity = await self._workspace.logs["activity"].frozen()
        pointers = self._pointers()
        for table in tables.values():
            await self._read(table, pointers, activity, done)
        # By the store's own times, whose newest tells how late it is there, and not later than it is here.
        proof = min(self._runtime.now(), newest) - PROOF_AGE
        self._judge_pointers(tables, proof, done)
        keys, txns = f"{self._prefix}/keys", f"{self._prefix}/txns"
        self._add(done, GarbageKind.CLAIM, "", old_claims(claims, keys, proof), len(claims))
        old = old_decisions(decisions, txns, (), proof)
        named = await self._named(tables, done.floors, pointers, old) if old else set()
        self._add(done, GarbageKind.DECISION, "", old_decisions(old, txns, named, proof), len(decisions))
        await self._judge_metadata(tables, files, activity, done)
        await self._judge_purged(tables, done)
        if len(done.garbage) > MAX_REMOVED:
            done.garbage, done.is_more = done.garbage[:MAX_REMOVED], True
        if not dry_run:
            await self._delete(done)
        return done

    def _pointers(self) -> Pointers:
        return Pointers(
            self._store,
            self._prefix,
            self._runtime,
            self._workspace.incarnation.id,
            min_age=self._workspace.min_age,
        )

    # What is there

    async def _listed_tables(self) -> tuple[dict[str, _Table], int]:
        """All tables that have pointers, and the newest time that the store wrote one."""
        folder = f"{self._prefix}/pointers"
        tables: dict[str, _Table] = {}
        newest = 0
        async for info in self._reader.list(folder):
            place = pointer_place(info.path, folder)
            if place is not None:
                table_id, number = place
                tables.setdefault(table_id, _Table(table_id, {})).pointers[number] = info
                newest = max(newest, info.modified)
        return tables, newest

    async def _own_files(self, table: _Table) -> list[ObjectInfo]:
        return [info async for info in self._reader.list(f"{table.own_folder}/metadata")]

    async def _read(self, table: _Table, pointers: Pointers, activity: Snapshot, done: IcebergCollected) -> None:
        """What is in force, and what its metadata names. A table whose metadata is gone is left alone."""
        table.current = await pointers.current(table.table_id, hint=max(table.pointers))
        table.state = await activity.get(TABLE_STATES, table.table_id, table.table_id)
        if table.current is None:
            raise Corrupt(f"the table {table.table_id} has pointers and no newest one; run `arco doctor`")
        leads = {table.current.pointer.metadata_location, table.current.metadata_location or ""}
        for number in range(table.recorded_through + 1, table.current.tail.number):
            leads.add((await pointers.read(table.table_id, number)).metadata_location)
        for location in sorted(leads - {""}):
            table.names.add(self._path(location) or "")
        location = table.current.metadata_location or table.current.pointer.metadata_location
        try:
            metadata = (await self._documents.read(location)).value
        except (MetadataMissing, Forbidden, Invalid):
            if not table.is_purged:
                done.left.append(f"table {table.table_id}: its metadata {location} cannot be read")
            return
        table.location = self._path(str(metadata.get("location", "")))
        table.properties = dict(metadata.get("properties") or {})
        if asset_of(metadata) is not None:
            table.manifest_lists = [one["manifest-list"] for one in metadata.get("snapshots") or ()]
        for location in logged_locations(metadata):
            table.names.add(self._path(location) or "")

    def _path(self, location: str) -> str | None:
        try:
            return self._locations.path_of(location)
        except Invalid:
            return None

    # What nobody needs

    def _judge_pointers(self, tables: dict[str, _Table], before: int, done: IcebergCollected) -> None:
        for table in tables.values():
            assert table.current is not None
            floor = pointer_floor(
                table.pointers,
                newest=table.current.tail.number,
                recorded_through=table.recorded_through,
                before=before,
            )
            old = [info for number, info in sorted(table.pointers.items()) if number <= floor]
            if old:
                done.floors[table.table_id] = floor
            self._add(done, GarbageKind.POINTER, table.table_id, old, len(table.pointers))

    async def _named(
        self, tables: dict[str, _Table], floors: dict[str, int], pointers: Pointers, old: list[ObjectInfo]
    ) -> set[str]:
        """Transactions that pointers name which stay. A pointer is older than its decision, so young ones need not be
        read."""
        newest = max(info.modified for info in old)
        named: set[str] = set()
        for table in tables.values():
            assert table.current is not None
            if table.current.pointer.txn is not None:
                named.add(table.current.pointer.txn)
            for number, info in table.pointers.items():
                stays = floors.get(table.table_id, 0) < number < table.current.tail.number
                if stays and info.modified <= newest:
                    txn = (await pointers.read(table.table_id, number)).txn
                    named |= {txn} if txn is not None else set()
        return named

    async def _judge_metadata(
        self,
        tables: dict[str, _Table],
        files: dict[str, list[ObjectInfo]],
        activity: Snapshot,
        done: IcebergCollected,
    ) -> None:
        reachable = {path for table in tables.values() for path in table.names}
        for table in tables.values():
            current, listed = table.current, files[table.table_id]
            if current is None or not current.is_live or table.location != table.own_folder or not listed:
                continue
            others = [path for other in tables.values() if other is not table for path in other.names]
            if contains(f"{table.own_folder}/metadata", [path for path in others if path]):
                done.left.append(f"table {table.table_id}: another table has metadata in its folder")
                continue
            rows = await activity.rows(TABLE_COMMITS, table.table_id)
            committed = {
                row.number: path
                for row in rows
                if (path := "" if row.metadata_location is None else self._path(row.metadata_location)) is not None
            }
            old = old_metadata(
                listed,
                properties=table.properties,
                reachable=reachable,
                committed=committed,
                newest=current.number,
                before=self._runtime.now() - METADATA_AGE,
            )
            self._add(done, GarbageKind.METADATA, table.table_id, old, len(listed))
            manifests = await self._unnamed_manifests(table, listed, rows)
            self._add(done, GarbageKind.MANIFEST, table.table_id, manifests, 0)

    async def _unnamed_manifests(
        self, table: _Table, listed: list[ObjectInfo], commits: list[TableCommit]
    ) -> list[ObjectInfo]:
        """Manifests that no snapshot of an asset's table names, nor one that was current a while ago: somebody may
        still read that."""
        old = old_manifests(listed, self._runtime.now() - METADATA_AGE)
        told = table.current is not None and table.recorded_through >= table.current.tail.number
        if table.manifest_lists is None or not old or not told:
            return []
        before = self._runtime.now() - PURGE_AGE
        since = max((row.number for row in commits if row.committed_at < before), default=0)
        lately = {row.snapshot_id for row in commits if row.number >= since}
        paths = {info.path for info in listed if snapshot_of(info) in lately}
        lists = {*table.manifest_lists, *(self._locations.location_of(path) for path in paths)}
        for location in sorted(lists):
            paths.add(self._path(location) or "")
            for manifest in decode_list(await self._locations.read(location), location):
                paths.add(self._path(manifest.location) or "")
        return [info for info in old if info.path not in paths]

    async def _judge_purged(self, tables: dict[str, _Table], done: IcebergCollected) -> None:
        others = {
            path
            for table in tables.values()
            if not table.is_purged
            for path in {table.location or "", *table.names}
            if path
        }
        before = self._runtime.now() - PURGE_AGE
        for table in tables.values():
            current = table.current
            if current is None or current.held is None or not table.is_purged:
                continue
            last = table.pointers.get(current.tail.number)
            if last is None or max(current.held.committed_at, last.modified) >= before:
                continue
            if table.recorded_through < current.tail.number:
                continue
            folder = table.location or table.own_folder
            if contains(folder, others):
                done.left.append(f"table {table.table_id}: another table reaches into its folder {folder}")
                continue
            listed = [info async for info in self._files(folder)]
            listed.sort(key=lambda info: info.path in table.names)
            self._add(done, GarbageKind.PURGED, table.table_id, listed, len(listed))

    async def _files(self, folder: str) -> AsyncIterator[ObjectInfo]:
        assert folder.startswith(f"{FOLDER}/"), folder
        async for info in self._reader.list(folder):
            yield info

    @staticmethod
    def _add(done: IcebergCollected, kind: GarbageKind, table_id: str, old: list[ObjectInfo], looked_at: int) -> None:
        done.garbage += [Garbage(kind, table_id, info) for info in old]
        done.kept += looked_at - len(old)

    async def _delete(self, done: IcebergCollected) -> None:
        pointers = self._pointers()
        unique = new_ulid(self._runtime, self._runtime)
        for table_id in {one.table_id for one in done.garbage if one.kind is GarbageKind.POINTER}:
            await pointers.sequence(table_id).raise_floor(done.floors[table_id], unique)
        for one in done.garbage:
            await self._store.delete(one.info.path)
        # A key has a folder, which is empty when its claims are too old to be repeated.
        keys = f"{self._prefix}/keys"
        await remove_empty_folders(self._store, keys, lambda folder: folder != keys)
