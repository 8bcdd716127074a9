"""Orphans: files below the folders of assets that belong to nothing any more.

    list -> read the state -> what no version, no attempt and no former reader needs, old enough -> removed

Safety first. Files are listed before the state is read, so that whatever was claimed or completed when they were listed
is known. A folder of a version is garbage as a whole or not at all, but for files that a compaction replaced, which go
once nobody can have been told of them, and for what a compaction wrote in vain. Doubt deletes nothing.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from arco.core import HOUR, Invalid, parse_ulid, ulid_time
from arco.domains.execution import (
    COMPACTED_VERSIONS,
    DELETED,
    MATERIALIZATIONS,
    PARTITIONS,
    VERSION_STATUS,
)
from arco.domains.orchestration import CLAIMS, PLAN_TASKS, WORKSPACE, ClaimRow, PlanTaskRow, materialization_id
from arco.runtime import Workspace
from arco.servo._envelope import VERSION_FOLDER, compaction_of_path, version_of_path
from arco.state import Snapshot
from arco.storage import ObjectInfo, Role, Store, remove_empty_folders

__all__ = ["LetGo", "Orphans", "named_files", "nobody_else", "remove_orphans"]

LetGo = Callable[[str, Collection[str]], Awaitable[Collection[str]]]
"""Told of files of an asset before they are deleted; those that may not be."""


async def nobody_else(asset_id: str, paths: Collection[str]) -> Collection[str]:
    """Nobody but Arco knows the files."""
    return ()


MAX_REMOVED: Final = 2_000
"""Files that one call removes before it leaves the rest to the next one."""

_UNFINISHED: Final = re.compile(
    rf"data/[^/]+/([^/]+)/(?:_temporary|{VERSION_FOLDER}=__HIVE_DEFAULT_PARTITION__)/.+", re.ASCII
)
"""What a job over a batch had not finished, or what it made of rows that belong to no partition."""


@dataclass
class Orphans:
    finished: int = 0
    """Assets of which nothing is left to do."""
    files: list[ObjectInfo] = field(default_factory=list)
    kept: int = 0


@dataclass
class _Needed:
    """What of the assets is somebody's, in one state."""

    owned: set[str] = field(default_factory=set)
    """Versions that are not deleted, what partitions point to, and what attempts that run write, with their batches."""
    named: set[str] = field(default_factory=set)
    """Files of versions of any asset, former ones included that somebody may still read."""
    replaced: set[str] = field(default_factory=set)
    """Files that a version was made with and that nobody reads any more."""
    compactions: set[str] = field(default_factory=set)
    """Those whose files were replaced so lately that somebody may still read them."""


async def remove_orphans(
    workspace: Workspace,
    asset_ids: Sequence[str],
    locations: Collection[str],
    *,
    hours: int,
    dry_run: bool,
    let_go: LetGo = nobody_else,
) -> Orphans:
    """Remove files below the folders of these assets that belong to no version and to no attempt that runs.

    `locations` are folders of tables of the catalog: what lies below them is theirs.
    """
    reader = workspace.handle(Role.READER)
    listed = {asset_id: [info async for info in reader.list(f"data/{asset_id}")] for asset_id in asset_ids}
    # Read after the files were listed: whatever was claimed or completed by then is in it.
    snapshot = await workspace.logs["activity"].frozen()
    begun = workspace.incarnation.created_at if workspace.incarnation.number > 1 else 0
    before = workspace.runtime.now() - hours * HOUR
    needed = await _needed(snapshot, asset_ids, before)
    done = Orphans()
    for asset_id, files in listed.items():
        garbage = [
            info
            for info in files
            if begun <= info.modified < before
            and info.path not in needed.named
            and _is_garbage(info.path, asset_id, needed, before)
            and not any(info.path.startswith(f"{location}/") for location in locations)
        ]
        if garbage and not dry_run:
            needed_elsewhere = set(await let_go(asset_id, [info.path for info in garbage]))
            garbage = [info for info in garbage if info.path not in needed_elsewhere]
        room = len(garbage) if dry_run else MAX_REMOVED - len(done.files)
        done.kept += len(files) - len(garbage)
        done.files += garbage[:room]
        if len(garbage) > room:
            break
        done.finished += 1
    if not dry_run:
        store = workspace.handle(Role.COLLECTOR)
        for info in done.files:
            await store.delete(info.path)
        for asset_id in asset_ids:
            await _remove_folders(store, asset_id, locations, needed, before)
    return done


async def _remove_folders(
    store: Store, asset_id: str, locations: Collection[str], needed: _Needed, before: int
) -> None:
    """Folders that what is garbage left on a local disk."""

    def is_over(folder: str) -> bool:
        is_theirs = any(f"{folder}/".startswith(f"{location}/") for location in locations)
        return not is_theirs and _is_garbage(f"{folder}/any", asset_id, needed, before)

    await remove_empty_folders(store, f"data/{asset_id}", is_over)


def _is_garbage(path: str, asset_id: str, needed: _Needed, before: int) -> bool:
    """Whether a file lies where workers and compactions write, and is of something that ended long ago.

    Ids hold the time at which they were given out, so that not only the store's clock has a say.
    """
    unfinished = _UNFINISHED.fullmatch(path)
    if unfinished is not None:
        return unfinished[1] not in needed.owned and _is_old(unfinished[1], before)
    version = version_of_path(asset_id, path)
    if version is None or not _is_old(version, before):
        return False
    if version not in needed.owned:
        return True
    compaction = compaction_of_path(path)
    if compaction is not None:
        return compaction not in needed.compactions and _is_old(compaction, before)
    return path in needed.replaced


def _is_old(name: str, before: int) -> bool:
    try:
        return ulid_time(parse_ulid(name)) < before
    except Invalid:
        return False


async def _needed(snapshot: Snapshot, asset_ids: Collection[str], before: int) -> _Needed:
    claims: list[ClaimRow] = await snapshot.rows(CLAIMS, WORKSPACE)
    found = _Needed(owned=await _owned(snapshot, asset_ids, claims))
    # Who was told of files before they were replaced may read them until its attempt ends, however long that takes.
    until = min([before, *(claim.claimed_at for claim in claims)])
    found.named = await named_files(snapshot, (), until)
    compacted = await snapshot.scan(COMPACTED_VERSIONS)
    for row in compacted.select(["materialization_id", "asset_id", "former"]).to_pylist():
        for former in row["former"]:
            if former["replaced_at"] >= until:
                found.compactions.add(former["compaction_id"])
            elif not former["compaction_id"] and row["asset_id"] in asset_ids:
                version = await snapshot.get(MATERIALIZATIONS, row["asset_id"], row["materialization_id"])
                for file in version.files if version is not None else ():
                    found.replaced |= {file.path, _checksum(file.path)}
    return found


def _checksum(path: str) -> str:
    """What Spark writes beside a file on a local disk."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc"


async def _owned(snapshot: Snapshot, asset_ids: Collection[str], claims: Sequence[ClaimRow]) -> set[str]:
    found: set[str] = set()
    for asset_id in asset_ids:
        statuses = {row.materialization_id: row.status for row in await snapshot.rows(VERSION_STATUS, asset_id)}
        for version in await snapshot.rows(MATERIALIZATIONS, asset_id):
            if statuses.get(version.materialization_id) != DELETED:
                found.add(version.materialization_id)
        for row in await snapshot.rows(PARTITIONS, asset_id):
            for name in (row.current_materialization_id, row.newest_materialization_id):
                if name is not None and statuses.get(name) != DELETED:
                    found.add(name)
    found |= {claim.batch_id for claim in claims if claim.batch_id}
    for claim in claims:
        planned: PlanTaskRow | None = await snapshot.get(PLAN_TASKS, claim.run_id, (claim.run_id, claim.task_key))
        for output in planned.outputs if planned is not None else ():
            found.add(materialization_id(claim.claimed_at, claim.attempt_id, output.asset_id))
    return found


async def named_files(snapshot: Snapshot, without: Collection[str], until: int = 0) -> set[str]:
    """The paths that versions of any asset name, but for those of some versions and of deleted ones.

    Files that a version was made with and that a compaction replaced before `until` are not named any more.
    """
    gone = set(without) | await _deleted(snapshot)
    paths: set[str] = set()
    moved: set[str] = set()
    compacted = await snapshot.scan(COMPACTED_VERSIONS)
    for row in compacted.select(["materialization_id", "files", "former"]).to_pylist():
        if row["materialization_id"] not in gone:
            paths |= _paths(row["files"])
            if row["former"][0]["replaced_at"] < until:
                moved.add(row["materialization_id"])
    # In Arrow: there is a row for every version that ever was, and few of them have files.
    data = await snapshot.scan(MATERIALIZATIONS)
    passed = pc.is_in(data.column("materialization_id"), pa.array(gone | moved, pa.string()))
    files = pc.list_flatten(data.column("files").filter(pc.invert(passed)))
    return paths.union(pc.struct_field(files, "path").to_pylist())


def _paths(files: Any) -> set[str]:
    return {file["path"] for file in files or ()}


async def _deleted(snapshot: Snapshot) -> set[str]:
    rows = await snapshot.scan(VERSION_STATUS)
    return set(rows.column("materialization_id").filter(pc.equal(rows.column("status"), DELETED)).to_pylist())
