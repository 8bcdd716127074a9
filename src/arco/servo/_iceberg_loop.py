"""`IcebergAssets`: keeps the Iceberg tables of assets at what is current, in the process that leads the log.

    a version is published, withdrawn, compacted, held back, released -> rows -> next step -> commit, until none is left

It sleeps until something is folded. What is to be done follows from the rows and the table alone, so that a crash needs
no repair. A table exists as long as an asset with `format="iceberg"` is deployed and has, or had, something current; it
follows the asset's name. Names of tables that are somebody else's stay theirs, and the asset has no table then.
"""

import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from arco.assets import DataFormat
from arco.core import ArcoError, Conflict, Mutex, Refused, Runtime, Task, new_ulid, parse_path
from arco.domains.catalog import ICEBERG, NAMES, TABLES, CreateNamespace, Name, TableRow, find_namespace_id
from arco.domains.deployments import ASSET_NAMES, ASSETS, WORKSPACE, AssetName, AssetRow, AssetStatus
from arco.iceberg import CommitFailed, Loaded, Locations, MixedColumns, NoSuchTable, Tables, Who, asset_of
from arco.runtime import Workspace
from arco.servo._iceberg_diff import CloseBranches, OpenBranch, Publish, Wanted, next_step
from arco.servo._iceberg_names import format_of
from arco.servo._iceberg_state import AssetState, Mark, read_mark, read_state
from arco.servo._iceberg_table import ACTOR, AssetTable, Manifests
from arco.servo._withheld import personal_columns
from arco.state import Snapshot
from arco.storage import Role

__all__ = ["Catalog", "IcebergAssets"]

_log = logging.getLogger("arco.servo")

PAUSE: Final = 0.2
"""Seconds between two looks at the least: what is published meanwhile goes into one snapshot."""
IDLE_PART: Final = 10
"""A look that took so long is followed by so many times as long without one."""
MAX_PAUSE: Final = 60.0
RETRY_SECONDS: Final = 5.0
LAST_SECONDS: Final = 20.0
"""That the last look may take."""
FOLLOWER_SECONDS: Final = 60.0
"""Between two looks of a process that does not lead, at whether it does by now."""
MAX_STEPS: Final = 200
"""Commits to one table in one go."""


class Catalog(Protocol):
    """The Iceberg tables of the workspace."""

    @property
    def tables(self) -> Tables: ...

    @property
    def locations(self) -> Locations: ...


@dataclass(frozen=True)
class _Asset:
    asset_id: str
    key: str
    wanted: bool
    """Whether it is deployed with `format="iceberg"`."""
    former: tuple[str, ...]
    """Keys that it had before."""

    @property
    def path(self) -> tuple[str, ...]:
        return parse_path(self.key)


class _NotOurs(Refused):
    """The name of an asset's table is somebody else's."""


class IcebergAssets:
    def __init__(self, workspace: Workspace, catalog: Callable[[], Catalog]) -> None:
        self._workspace = workspace
        self._open = catalog
        self._manifests: Manifests | None = None
        self._turns = Mutex(workspace.runtime)
        self._task: Task | None = None
        self._marks: dict[str, Mark] = {}
        """Of the assets whose tables are as they should be, or cannot be."""
        self._catalog_seen = -1
        self._assets: tuple[_Asset, ...] = ()
        self._unreadable: set[str] = set()
        """Held versions that have no branch because they do not fit the table."""
        self.problems: dict[str, str] = {}
        """Why the table of an asset is not as it should be."""

    @property
    def _runtime(self) -> Runtime:
        return self._workspace.runtime

    def rows_held(self) -> int:
        """Entries of manifests in memory."""
        return self._manifests.rows_held() if self._manifests is not None else 0

    def shed(self) -> None:
        """Remember no manifest."""
        self._manifests = None

    def start(self) -> None:
        if self._task is None:
            self._task = self._runtime.spawn(self._run(), "iceberg assets")

    async def stop(self) -> None:
        """Look a last time, so that what a command made that ends now is in the tables."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            with suppress(TimeoutError, ArcoError):
                await self._runtime.timeout(LAST_SECONDS, self.step())

    async def _run(self) -> None:
        logs = self._workspace.logs.values()
        while not any(log.follower.ended for log in logs):
            folded = {name: log.follower.tail.number for name, log in self._workspace.logs.items()}
            began = self._runtime.boottime()
            due: float | None = RETRY_SECONDS
            try:
                due = await self.step()
            except ArcoError as error:
                _log.warning("%s: tables of assets: %s", self._workspace.scope.root, error.message)
            took = self._runtime.boottime() - began
            await self._runtime.sleep(min(max(PAUSE, took * IDLE_PART), MAX_PAUSE))
            await self._wait(folded, due)

    async def _wait(self, folded: dict[str, int], due: float | None) -> None:
        """Until something is folded in one of the logs, or so many seconds have passed."""
        woken = self._runtime.future()

        async def watch(name: str) -> None:
            await self._workspace.logs[name].follower.advanced(folded[name])
            woken.set(None)

        async def first() -> None:
            await woken

        tasks = [self._runtime.spawn(watch(name), "watch for versions") for name in folded]
        try:
            if due is None:
                await woken
            else:
                with suppress(TimeoutError):
                    await self._runtime.timeout(due, first())
        finally:
            for task in tasks:
                task.cancel()

    # What is to be done

    async def step(self) -> float | None:
        """Bring all tables to what is current; seconds until the next look, or None if only an event can ask for it."""
        due = None if await self._look_at_catalog() else RETRY_SECONDS
        wanted = [asset for asset in self._assets if asset.wanted]
        if not wanted:
            return due
        view = await self._workspace.logs["activity"].frozen(strong=not self._marks)
        changed = [one for one in wanted if self._marks.get(one.asset_id) != await read_mark(view, one.asset_id)]
        if not changed:
            return due
        if not await self._workspace.logs["activity"].leads():
            return FOLLOWER_SECONDS
        return due if all([await self._bring(asset) for asset in changed]) else RETRY_SECONDS

    async def _bring(self, asset: _Asset) -> bool:
        """Bring one table to what is current; False if it should be tried again."""
        try:
            async with self._turns:
                await self._sync(asset)
        except (CommitFailed, NoSuchTable):
            return False  # somebody else was faster
        except (Refused, Conflict) as error:
            # Nothing but another version, or another deploy, changes that.
            if self.problems.get(asset.asset_id) != error.message:
                _log.warning(
                    "%s: the table of the asset %s stays as it is: %s",
                    self._workspace.scope.root,
                    asset.key,
                    error.message,
                )
            self.problems[asset.asset_id] = error.message
            view = await self._workspace.logs["activity"].frozen(strong=False)
            self._marks[asset.asset_id] = await read_mark(view, asset.asset_id)
        except ArcoError as error:
            _log.warning(
                "%s: the table of the asset %s: %s; it is tried again",
                self._workspace.scope.root,
                asset.key,
                error.message,
            )
            return False
        return True

    async def _sync(self, asset: _Asset) -> None:
        for _ in range(MAX_STEPS):
            view = await self._workspace.logs["activity"].frozen(strong=False)
            mark, state = await read_mark(view, asset.asset_id), await read_state(view, asset.asset_id)
            table = await self._table(asset)
            if not await self._act(asset, table, state):
                self._marks[asset.asset_id] = mark
                self.problems.pop(asset.asset_id, None)
                return

    async def _act(self, asset: _Asset, table: AssetTable, state: AssetState) -> bool:
        """Carry out the next step; False if there is none."""
        loaded = await self._load(asset)
        if loaded is None:
            if not state.wanted.files:
                return False
            await self._create_namespaces(asset.path[:-1])
            await table.create(state)
            return True
        held = tuple(one for one in state.wanted.held if one.materialization_id not in self._unreadable)
        wanted = Wanted(state.wanted.files, held, state.wanted.unknown)
        match next_step(wanted, await table.present(loaded)):
            case Publish() as step:
                await table.publish(loaded, step, state)
            case CloseBranches() as step:
                await table.close_branches(loaded, step)
            case OpenBranch() as step:
                try:
                    await table.open_branch(loaded, step, state)
                except MixedColumns as error:
                    _log.warning(
                        "%s: no branch for a held version of %s: %s",
                        self._workspace.scope.root,
                        asset.key,
                        error.message,
                    )
                    self._unreadable.add(step.materialization_id)
            case None:
                return False
        return True

    async def let_go(self, asset_id: str, paths: Collection[str]) -> set[str]:
        """Let no snapshot of an asset's table name these files but the current one; those that this one needs.

        Called before files are deleted.
        """
        self._catalog_seen = -1
        await self._look_at_catalog()
        asset = next((one for one in self._assets if one.asset_id == asset_id and one.wanted), None)
        if asset is None:
            return set()
        async with self._turns:
            # A table that cannot be brought to what is current keeps the files it has.
            with suppress(Refused):
                await self._sync(asset)
            loaded = None
            with suppress(_NotOurs):  # any other refusal says nothing about what the table needs
                loaded = await self._load(asset)
            if loaded is None:
                return set()
            needed = await (await self._table(asset)).let_go(loaded, paths)
            with suppress(Refused):
                await self._sync(asset)  # branches that had to go come back on what is current
            return needed

    # Names

    async def _look_at_catalog(self) -> bool:
        """Find out which assets have tables, and let tables follow names that changed; False if one could not."""
        catalog = self._workspace.logs["catalog"]
        if catalog.follower.tail.number == self._catalog_seen:
            return True
        seen = catalog.follower.tail.number
        view = await catalog.frozen(strong=self._catalog_seen < 0)
        self._assets = await _assets_in(view)
        is_all = True
        for asset in self._assets:
            try:
                await self._follow(view, asset)
            except ArcoError as error:
                _log.warning(
                    "%s: the former table of the asset %s: %s; it is tried again",
                    self._workspace.scope.root,
                    asset.key,
                    error.message,
                )
                is_all = False
        self._catalog_seen = seen if is_all else -1
        return is_all

    async def _follow(self, view: Snapshot, asset: _Asset) -> None:
        """Drop the table of an asset that shall have none any more; rename the one of an asset that was renamed."""
        keys = asset.former if asset.wanted else (asset.key, *asset.former)
        for path in map(parse_path, keys):
            if not await _is_iceberg(view, path):
                continue
            with suppress(NoSuchTable):
                loaded = await self._open().tables.load(path)
                if asset_of(loaded.metadata) != asset.asset_id or not await self._workspace.logs["catalog"].leads():
                    continue
                who = Who(ACTOR, new_ulid(self._runtime, self._runtime), "servo", client=ACTOR)
                if asset.wanted and not await _is_iceberg(view, asset.path):
                    await self._create_namespaces(asset.path[:-1])
                    await self._open().tables.rename(path, asset.path, who)
                else:
                    # Its data is the asset's and lies elsewhere; what is purged are manifests.
                    await self._open().tables.drop(path, who, purge=True)
                self._marks.pop(asset.asset_id, None)

    async def _load(self, asset: _Asset) -> Loaded | None:
        """The table of an asset; None if it has none. `_NotOurs` if its name is somebody else's."""
        view = await self._workspace.logs["catalog"].frozen(strong=False)
        if not await _has_table(view, asset.path):
            return None
        try:
            loaded = await self._open().tables.load(asset.path)
        except NoSuchTable:
            if await _is_iceberg(view, asset.path):
                return None
            raise _NotOurs(
                f"a table that is not of Iceberg has the name {asset.key}; rename or drop it, or the asset"
            ) from None
        if asset_of(loaded.metadata) != asset.asset_id:
            raise _NotOurs(f"another Iceberg table has the name {asset.key}; rename or drop it, or the asset")
        return loaded

    async def _create_namespaces(self, path: tuple[str, ...]) -> None:
        for length in range(1, len(path) + 1):
            command = CreateNamespace(path[:length], if_not_exists=True)
            await self._workspace.decide("catalog", command, actor=ACTOR)

    async def _table(self, asset: _Asset) -> AssetTable:
        catalog = self._open()
        if self._manifests is None:
            self._manifests = Manifests(catalog.locations)
        view = await self._workspace.logs["catalog"].frozen(strong=False)
        return AssetTable(
            asset.asset_id,
            asset.path,
            catalog.tables,
            self._manifests,
            self._workspace.handle(Role.READER),
            self._runtime,
            await personal_columns(view, asset.asset_id, asset.key),
        )


async def _assets_in(view: Snapshot) -> tuple[_Asset, ...]:
    rows: list[AssetRow] = await view.rows(ASSETS, WORKSPACE)
    names: list[AssetName] = await view.rows(ASSET_NAMES, WORKSPACE)
    former: dict[str, list[str]] = {}
    for name in names:
        former.setdefault(name.asset_id, []).append(name.key)
    return tuple(
        _Asset(
            row.asset_id,
            row.key,
            row.status == AssetStatus.ACTIVE and format_of(row) is DataFormat.ICEBERG,
            tuple(key for key in former.get(row.asset_id, ()) if key != row.key),
        )
        for row in rows
    )


async def _has_table(view: Snapshot, path: tuple[str, ...]) -> bool:
    return await _table_row(view, path) is not None


async def _is_iceberg(view: Snapshot, path: tuple[str, ...]) -> bool:
    row = await _table_row(view, path)
    return row is not None and row.format == ICEBERG


async def _table_row(view: Snapshot, path: tuple[str, ...]) -> TableRow | None:
    parent = await find_namespace_id(view, path[:-1])
    name: Name | None = await view.get(NAMES, parent, (parent, "table", path[-1])) if parent is not None else None
    row: TableRow | None = await view.get(TABLES, name.object_id, name.object_id) if name is not None else None
    return row
