"""Restoring: a new incarnation is written from a backup, the old one is sealed, then the new one is opened.

    segments, blobs, code, state, tables -> fold and publish -> seal the old incarnation -> incarnations/{n+1}

The new incarnation lies in a folder that nobody knows until the last create, so that a backup that cannot be used, and
a crash before the seal, leave the old one as it was. After the seal the old one takes nothing any more, and the same
command run again goes on: the folder's name is made of the backup and the cut, and the same input gives the same bytes.
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field

from arco.backup._cut import Cut, Moment, find_cut, pointers_of, tables_through
from arco.backup._format import Backup, Content, Entry, LogCopy, TableCopy
from arco.backup._kin import is_kin
from arco.backup._rewrite import rewrite_manifest, rewrite_segment, rewritten_paths
from arco.backup._seal import check_formats, find_seal, seal_incarnation
from arco.backup._target import LOGS, Progress, Target
from arco.backup._vacant import check_vacant
from arco.backup._vault import Vault, in_parallel
from arco.core import (
    Corrupt,
    Forbidden,
    Invalid,
    Refused,
    Runtime,
    Unavailable,
    derive_ulid,
    new_ulid,
)
from arco.domains.tables import TABLE_STATES
from arco.iceberg import Locations, MetadataMissing, Pointer, Who
from arco.log import (
    FIRST_LINK,
    Header,
    Link,
    Place,
    check_segment,
    position_of,
    sealed_by,
)
from arco.runtime import DEFINITIONS, Incarnation, Workspace, open_incarnation, read_incarnations
from arco.state import (
    INCARNATION_OPENED,
    Definition,
    IncarnationOpened,
    Layout,
    Manifest,
    check_versions,
    decode_manifest,
    encode_manifest,
    snapshot_at_revision,
)
from arco.storage import (
    RequestCounts,
    Role,
    RoleStore,
    Scope,
    Sequence,
    Store,
)

__all__ = ["Plan", "Restored", "plan_restore", "restore"]


@dataclass(frozen=True)
class Plan:
    """What a restore would do."""

    backup: Backup
    cut: Cut
    incarnation: Incarnation
    """The one that would be opened."""
    old: Incarnation | None
    """The one that would be sealed; None in an empty store."""
    is_sealed: bool
    """Whether a restore or an erasure was begun already, and not finished. What it sealed may have more than this
    backup, so it changes nothing about what is lost."""
    sealed_by: str = ""
    """The command that was begun, such as `arco erase`; empty if that is not known."""
    lost: dict[str, int] = field(default_factory=dict)
    """Segments of the old incarnation that are not restored whole, by log; those that the backup lacks included."""


@dataclass(frozen=True)
class Restored:
    plan: Plan
    incarnation: Incarnation
    positions: dict[str, int]
    """How far each log goes now."""
    tables: int
    """Iceberg tables and views."""
    elsewhere: tuple[str, ...]
    """Iceberg tables whose metadata could not be put back where it lay, with the reason."""


async def plan_restore(
    base: Store,
    scope: Scope,
    vault: Vault,
    runtime: Runtime,
    *,
    number: int | None = None,
    moment: Moment | None = None,
) -> Plan:
    """See what a restore would do. `Outdated` if it could not seal what is there."""
    backup = await vault.backup(number)
    there = await read_incarnations(base, scope, runtime)
    old = there[-1] if there else None
    if old is not None and number is None and not is_kin(backup, there):
        # Only now, because a former one may be damaged, and this is the cure.
        lives = await read_incarnations(base, scope, runtime, all_of_them=True)
        if not is_kin(backup, lives):
            raise Refused(
                f"backup {backup.number}, the newest, is of {backup.incarnation} at {backup.store}, and not of this "
                "workspace: another one has its name; say which you mean with --backup, or restore into an empty store"
            )
    cut = await find_cut(vault, backup, moment)
    next_number = old.number + 1 if old is not None else 1
    seed = f"{scope.root}:{next_number}:{backup.id}:{cut}"
    name = f"inc-{derive_ulid(backup.finished_at, seed).lower()}"
    new = Incarnation(
        name,
        next_number,
        runtime.now(),
        "restore",
        old.id if old is not None else backup.incarnation,
        backup=backup.id,
        through={log: str(cut.through.get(log, position_of(number + 1, 0) - 1)) for log, number in cut.numbers.items()},
    )
    seals, lost = list[Header](), {}
    if old is None:
        await check_vacant(base, scope, runtime, backup, cut, new)
    else:
        reader = RoleStore(base, scope, Role.READER, RequestCounts())
        await check_formats(reader, scope.tenant, scope.workspace, old.id, runtime)
        for log in LOGS:
            seal, end = await find_seal(reader, Place(scope.tenant, scope.workspace, old.id, log), runtime)
            seals += [seal] if seal is not None else []
            whole = cut.numbers[log] - (log in cut.through)
            lost[log] = max(end - whole, 0) if old.id == backup.incarnation else end
    return Plan(backup, cut, new, old, bool(seals), sealed_by(seals[0]) if seals else "", lost)


async def restore(
    base: Store,
    scope: Scope,
    vault: Vault,
    runtime: Runtime,
    plan: Plan,
    locations: Locations,
    *,
    actor: str,
    replace: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Restored:
    """Carry out a plan. `replace` must be said if there is a workspace, sealed or not.

    `locations` are those of the workspace, with the rights of an admin.
    """
    if plan.old is not None and not replace:
        raise Refused(_why_not(scope, plan))
    restoring = _Restoring(base, scope, vault, runtime, plan, locations, actor, progress)
    restored = await restoring.fill()
    who = Who(actor, new_ulid(runtime, runtime), source="admin", client="arco restore")
    if plan.old is not None:
        await seal_incarnation(
            restoring.store,
            scope.tenant,
            scope.workspace,
            plan.old.id,
            runtime,
            who,
            known={log: number for log, number in plan.cut.numbers.items() if plan.old.id == plan.backup.incarnation},
            progress=lambda done, total: progress("sealing tables", done, total),
        )
    else:
        await _fence_lost(restoring.store, scope, plan.backup, runtime)
    life = (await restoring.target.settle(plan.old)).life if plan.old is not None else plan.incarnation
    opened = await open_incarnation(base, scope, runtime, life)
    return Restored(plan, opened, restored.positions, restored.tables, tuple(restored.elsewhere))


def _why_not(scope: Scope, plan: Plan) -> str:
    """Why a workspace is not replaced that nobody said is to be."""
    lost = f"with {sum(plan.lost.values())} segments that would not be restored"
    if not plan.is_sealed:
        return f"the workspace {scope.root} is there, {lost}; to seal it and go on from the backup, say --replace"
    begun = f"`{plan.sealed_by}`" if plan.sealed_by else "`arco restore` or `arco erase`"
    return (
        f"the workspace {scope.root} is there, {lost}; {begun} sealed it and was interrupted: run the same command "
        "again to finish that. To leave it behind and go on from this backup, say --replace"
    )


async def _fence_lost(store: Store, scope: Scope, backup: Backup, runtime: Runtime) -> None:
    """Of an incarnation that was lost with its bucket nobody knows the ends, so they cannot be sealed. Floors above all
    numbers tell whoever returns after a quarter of the minimum age that what it creates does not count."""
    for log in LOGS:
        place = Place(scope.tenant, scope.workspace, backup.incarnation, log)
        for prefix in (Layout(place).ledger, Layout(place).manifests):
            await Sequence(store, prefix, runtime).raise_floor(1 << 62, new_ulid(runtime, runtime))


@dataclass
class _Filled:
    positions: dict[str, int]
    tables: int
    elsewhere: list[str]


class _Restoring:
    def __init__(
        self,
        base: Store,
        scope: Scope,
        vault: Vault,
        runtime: Runtime,
        plan: Plan,
        locations: Locations,
        actor: str,
        progress: Progress,
    ) -> None:
        self.target = Target(base, scope, runtime, plan.incarnation, actor, progress)
        self.store = self.target.store
        self._vault = vault
        self._runtime = runtime
        self._plan = plan
        self._locations = locations
        self._progress = progress
        self._source_of: dict[str, Backup] = {}
        """Backups whose state is used, by log, where it is not that of the plan."""

    async def fill(self) -> _Filled:
        """Write the whole incarnation. What is there already from an earlier try is kept if it is the same."""
        backup = self._plan.backup
        await self.target.begin(self._plan.old)
        for kind in ("blobs", "code", "data"):
            for listing in backup.lists_of(kind):
                await self._put_back(kind, await self._vault.entries(listing))
        for definition in DEFINITIONS:
            state = await self._state_for(definition)
            link = await self._ledger(definition.log, state.link.number if state is not None else 0)
            if state is not None:
                await self._state(definition.log, state, link)
        workspace = await self.target.fold()
        positions = {log: int(opened.compactor.head.manifest.watermark) for log, opened in workspace.logs.items()}
        tables, elsewhere = await self._tables(workspace)
        return _Filled(positions, tables, elsewhere)

    # Logs

    async def _ledger(self, log: str, wanted: int) -> Link:
        """Write the segments; returns what links to the one that is wanted."""
        place, cut, backup = self.target.place(log), self._plan.cut, self._plan.backup
        sequence = self.target.ledger(log)
        source = Place(backup.tenant, backup.workspace, backup.incarnation, log)
        last = cut.numbers[log]
        old, new, found = FIRST_LINK, FIRST_LINK, FIRST_LINK
        for chunk in await self._vault.chunks(backup, log):
            path = self._vault.path(chunk.content)
            if chunk.first != old.number + 1:
                raise Corrupt(f"{path} begins with segment {chunk.first}, not {old.number + 1}; use another backup")
            if chunk.first > last:
                break
            batch: list[tuple[str, bytes]] = []
            for data in await self._vault.segments(chunk):
                _, old = check_segment(data, source, old, path)
                if old.number > last:
                    break
                through = cut.through.get(log) if old.number == last else None
                rewritten, new = rewrite_segment(data, place, new, path, through=through)
                there = await self.target.same_segment(sequence.path(new.number), rewritten)
                if there is not None:
                    new = Link(new.number, hashlib.sha256(there).hexdigest(), new.received)
                else:
                    batch.append((sequence.path(new.number), rewritten))
                if new.number == wanted:
                    found = new
            await self.target.write_segments(batch)
            self._progress(f"log {log}", new.number, last)
        if new.number != last:
            raise Corrupt(
                f"backup {backup.number} ends at segment {new.number} of {log}, not {last}; use another backup"
            )
        life = self._plan.incarnation
        opened = IncarnationOpened(life.id, life.previous, life.reason, backup.id, str(new.number))
        await self.target.note(log, new, INCARNATION_OPENED, opened)
        return found

    # State

    async def _state_for(self, definition: Definition) -> LogCopy | None:
        """The newest copy of the state that covers nothing beyond the cut; what is missing is folded."""
        log, plan = definition.log, self._plan
        if plan.cut.time is None:
            return await self._usable(definition, plan.backup.logs[log])
        most = plan.cut.numbers[log] - (log in plan.cut.through)
        # A state only saves folding, so a backup that cannot be read is no reason to stop.
        for backup in reversed((await self._vault.survey()).backups):
            if backup.incarnation == plan.backup.incarnation and backup.number <= plan.backup.number:
                copy = backup.logs[log]
                if copy.link.number <= most:
                    with suppress(Corrupt):
                        usable = await self._usable(definition, copy)
                        self._source_of[log] = backup
                        return usable
        return None

    async def _usable(self, definition: Definition, copy: LogCopy) -> LogCopy | None:
        if copy.revision == 0:
            return None
        check_versions(await self._manifest(copy), definition.versions)
        return copy

    async def _manifest(self, copy: LogCopy) -> Manifest:
        return decode_manifest(await self._vault.get(copy.manifest), self._vault.path(copy.manifest))

    async def _state(self, log: str, copy: LogCopy, link: Link) -> None:
        """Write the files of a revision and the manifest that makes them the first one here."""
        place = self.target.place(log)
        manifest = await self._manifest(copy)
        paths = rewritten_paths(manifest, place)
        backup = self._source_of.get(log, self._plan.backup)
        entries = [entry for one in backup.lists_of("state", log) for entry in await self._vault.entries(one)]
        missing = paths.keys() - {entry.path for entry in entries}
        if missing:
            raise Corrupt(f"backup {backup.number} does not have {min(missing)}; use another backup")
        await self._put_back(f"state of {log}", [Entry(paths[entry.path], entry.content) for entry in entries])
        rewritten = encode_manifest(rewrite_manifest(manifest, place, link, backup.finished_at))
        await self.target.create(Sequence(self.store, Layout(place).manifests, self._runtime).path(1), rewritten)

    # Iceberg

    async def _tables(self, workspace: Workspace) -> tuple[int, list[str]]:
        """Pointers, decisions and metadata files of every table, up to the cut."""
        tables: dict[str, list[Pointer]] = {}
        copies: dict[str, TableCopy] = {}
        for listing in self._plan.backup.lists_of("iceberg"):
            for copy in await self._vault.tables(listing):
                copies[copy.table_id], tables[copy.table_id] = copy, pointers_of(copy)
        if self._plan.cut.time is None:
            through = {table_id: pointers[-1].number for table_id, pointers in tables.items()}
        else:
            recorded = await self._recorded(workspace)
            through = tables_through(tables, self._plan.cut.time, recorded)
        elsewhere: list[str] = []
        done = 0

        async def put_back(table_id: str) -> None:
            nonlocal done
            kept = [pointer for pointer in tables[table_id] if pointer.number <= through[table_id]]
            if kept:
                await self._table(copies[table_id], kept, elsewhere)
            done += 1
            self._progress("Iceberg tables", done, len(tables))

        await in_parallel(self._runtime, sorted(tables), put_back)
        return sum(1 for number in through.values() if number), sorted(elsewhere)

    async def _recorded(self, workspace: Workspace) -> dict[str, int]:
        """How far the restored log was told of each table."""
        log = workspace.logs["activity"]
        snapshot = snapshot_at_revision(log.definition, self.store, log.compactor.head.manifest, self._runtime)
        rows = (await snapshot.scan(TABLE_STATES)).select(["table_id", "recorded_through"]).to_pylist()
        return {row["table_id"]: row["recorded_through"] for row in rows}

    async def _table(self, copy: TableCopy, pointers: list[Pointer], elsewhere: list[str]) -> None:
        """Files first, then the pointers that name them."""
        named = {pointer.metadata_location for pointer in pointers}
        named |= {pointer.before.metadata_location for pointer in pointers if pointer.before is not None}
        for file in copy.metadata:
            if file.location in named:
                data = await self._vault.get(file.content)
                try:
                    await self._locations.create(file.location, data)
                except (Forbidden, Invalid) as error:  # the place cannot be used, now or later
                    elsewhere.append(f"{copy.table_id}: {error.message}")
                except Unavailable:
                    if await self._is_other(file.location, data):
                        raise self.target.other(file.location) from None
                    raise
        await self.target.write_pointers(pointers, copy.decisions)

    async def _is_other(self, location: str, data: bytes) -> bool:
        """Whether a file lies there that is not this one: to try again does not help then."""
        with suppress(MetadataMissing, Unavailable):
            return await self._locations.read_file(location) != data
        return False

    # Objects

    async def _put_back(self, what: str, entries: list[Entry]) -> None:
        """Objects that are not there. Arco changes none, so the size is enough; `compare_objects` reads them all."""
        done = 0

        async def put(entry: Entry) -> None:
            nonlocal done
            if not await self._is_there(entry.path, entry.content):
                await self.target.create(entry.path, await self._vault.get(entry.content))
            done += 1
            self._progress(what, done, len(entries))

        await in_parallel(self._runtime, entries, put, limit=4)

    async def _is_there(self, path: str, content: Content) -> bool:
        found = await self.target.head(path)
        return found is not None and found.size == content.size
