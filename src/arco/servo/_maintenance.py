"""Maintenance of data: versions expire, their files go after a time of grace, and what belongs to none is removed.

Safety first. Nothing that a run under way reads or made is touched, whatever the policy says, and this is looked at
once more before files go. Files are listed before the state is read, so that whatever was claimed or completed when
they were listed is known. A folder is garbage as a whole or not at all. Doubt deletes nothing.

    retention:  policy -> expired, by an event -> grace -> deleted, by an event -> files of the version's own folder
    orphans:    list -> read the state -> folders that no version and no attempt owns, old enough -> files
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from arco.core import HOUR, Ulid, ulid_time
from arco.domains.execution import (
    DELETED,
    EXPIRED,
    MATERIALIZATIONS,
    MAX_EXPIRED,
    PARTITIONS,
    VERSION_STATUS,
    DeleteVersions,
    ExpireVersions,
    Materialization,
    RetentionPolicy,
    VersionStatus,
    find_expirable,
)
from arco.domains.orchestration import (
    ACTIVE_RUNS,
    CLAIMS,
    PLAN_TASKS,
    WORKSPACE,
    ActiveRunRow,
    ClaimRow,
    PlanTaskRow,
    materialization_id,
)
from arco.runtime import Workspace
from arco.servo._envelope import version_folder, version_of_path
from arco.servo._pinned import pinned_versions
from arco.servo._runs import Asked
from arco.state import Snapshot
from arco.storage import ObjectInfo, Role

__all__ = ["Orphans", "Retention", "Retired", "remove_orphans", "retire_versions"]

MAX_ENDED: Final = 2_000
"""Versions that one call lets go, and files that it removes, before it leaves the rest to the next one."""

_UNFINISHED: Final = re.compile(r"data/[^/]+/([^/]+)/_temporary/.+")
"""What a job over a batch had not finished."""


@dataclass(frozen=True)
class Retired:
    version: Materialization
    reason: str


@dataclass
class Retention:
    """What retention did to some assets, or would do."""

    finished: int = 0
    """Assets of which nothing is left to do."""
    expired: list[Retired] = field(default_factory=list)
    deleted: list[Retired] = field(default_factory=list)
    waiting: int = 0
    in_use: int = 0
    foreign: int = 0

    @property
    def ended(self) -> int:
        return len(self.expired) + len(self.deleted)


@dataclass
class Orphans:
    finished: int = 0
    """Assets of which nothing is left to do."""
    files: list[ObjectInfo] = field(default_factory=list)
    kept: int = 0


# Retention


async def retire_versions(
    workspace: Workspace, asset_ids: Iterable[str], policy: RetentionPolicy, asked: Asked, *, dry_run: bool
) -> Retention:
    """Let go of versions of these assets that the policy does not keep, and delete those whose grace is over."""
    done = Retention()
    for asset_id in asset_ids:
        snapshot = await workspace.logs["activity"].frozen()
        found = await _Retiring(snapshot, asset_id, policy, workspace.runtime.now()).find()
        room = len(found.expired) + len(found.deleted) if dry_run else MAX_ENDED - done.ended
        expired = found.expired[:room]
        deleted = found.deleted[: room - len(expired)]
        done.expired += expired
        done.deleted += deleted
        done.waiting, done.in_use = done.waiting + found.waiting, done.in_use + found.in_use
        done.foreign += found.foreign
        if not dry_run:
            for names in _groups(expired):
                await _decide(workspace, ExpireVersions(asset_id, names, policy), asked)
            for names in _groups(deleted):
                await _decide(workspace, DeleteVersions(asset_id, names, policy), asked)
            await _delete_files(workspace, snapshot, [one.version for one in deleted])
        if len(expired) + len(deleted) < len(found.expired) + len(found.deleted):
            break
        done.finished += 1
    return done


def _groups(retired: Sequence[Retired]) -> Iterator[tuple[str, ...]]:
    names = [one.version.materialization_id for one in retired]
    yield from (tuple(names[at : at + MAX_EXPIRED]) for at in range(0, len(names), MAX_EXPIRED))


async def _decide(workspace: Workspace, command: ExpireVersions | DeleteVersions, asked: Asked) -> None:
    await workspace.decide(
        "activity", command, actor=asked.actor, correlation=asked.correlation, traceparent=asked.traceparent
    )


class _Retiring:
    """What may go of one asset, in one state."""

    def __init__(self, snapshot: Snapshot, asset_id: str, policy: RetentionPolicy, now: int) -> None:
        self._snapshot = snapshot
        self._asset_id = asset_id
        self._policy = policy
        self._now = now

    async def find(self) -> Retention:
        snapshot, found = self._snapshot, Retention()
        rows: list[Materialization] = await snapshot.rows(MATERIALIZATIONS, self._asset_id)
        versions = {row.materialization_id: row for row in rows}
        allowed = await find_expirable(snapshot, self._asset_id, self._policy, self._now)
        ended = await self._ended()
        if not allowed and not ended:
            return found
        runs, pinned = await self._active_runs(), await pinned_versions(snapshot)
        for name, reason in (*allowed.items(), *ended.items()):
            version = versions.get(name)
            if version is None:
                continue
            if name in pinned or version.run_id in runs:
                found.in_use += 1
            elif not _is_ours(version):
                found.foreign += 1
            elif name in allowed:
                found.expired.append(Retired(version, reason))
            elif reason:
                found.deleted.append(Retired(version, reason))
            else:
                found.waiting += 1
        return found

    async def _ended(self) -> dict[str, str]:
        """Versions that expired before, and why their files may go; empty if they may not yet."""
        rows: list[VersionStatus] = await self._snapshot.rows(VERSION_STATUS, self._asset_id)
        hours = f"expired more than {self._policy.grace_hours} hours ago"
        return {
            row.materialization_id: hours if (row.expired_at or 0) + self._policy.grace <= self._now else ""
            for row in rows
            if row.status == EXPIRED
        }

    async def _active_runs(self) -> set[str]:
        rows: list[ActiveRunRow] = await self._snapshot.rows(ACTIVE_RUNS, WORKSPACE)
        return {row.run_id for row in rows}


def _is_ours(version: Materialization) -> bool:
    """Whether all its files lie in the folder that only this version writes to."""
    return all(version_of_path(version.asset_id, file.path) == version.materialization_id for file in version.files)


async def _delete_files(workspace: Workspace, snapshot: Snapshot, versions: Sequence[Materialization]) -> None:
    """Delete all that lies in the folders of versions, samples of failing rows too, but for files that another version
    names. What a crash leaves, `orphans` finds."""
    if not versions:
        return
    others = await _named_files(snapshot, {version.materialization_id for version in versions})
    reader, store = workspace.handle(Role.READER), workspace.handle(Role.COLLECTOR)
    for version in versions:
        for folder in {version_folder(file.path) for file in version.files}:
            for path in [info.path async for info in reader.list(folder)]:
                if path not in others:
                    await store.delete(path)


async def _named_files(snapshot: Snapshot, without: Collection[str]) -> set[str]:
    """The paths that versions of any asset name, but for those of some versions and of deleted ones."""
    gone = set(without) | await _deleted(snapshot)
    data = await snapshot.scan(MATERIALIZATIONS)
    names = data.column("materialization_id").to_pylist()
    kept = data.filter(pa.array([name not in gone for name in names], pa.bool_()))
    return {file["path"] for files in kept.column("files").to_pylist() for file in files or ()}


async def _deleted(snapshot: Snapshot) -> set[str]:
    rows = await snapshot.scan(VERSION_STATUS)
    pairs = zip(rows.column("materialization_id").to_pylist(), rows.column("status").to_pylist(), strict=True)
    return {name for name, status in pairs if status == DELETED}


# Orphans


async def remove_orphans(
    workspace: Workspace, asset_ids: Sequence[str], locations: Collection[str], *, hours: int, dry_run: bool
) -> Orphans:
    """Remove files below the folders of these assets that belong to no version and to no attempt that runs.

    `locations` are folders of tables of the catalog: what lies below them is theirs.
    """
    reader = workspace.handle(Role.READER)
    listed = {asset_id: [info async for info in reader.list(f"data/{asset_id}")] for asset_id in asset_ids}
    # Read after the files were listed: whatever was claimed or completed by then is in it.
    snapshot = await workspace.logs["activity"].frozen()
    owned = await _owners(snapshot, asset_ids)
    named = await _named_files(snapshot, ())
    begun = workspace.incarnation.created_at if workspace.incarnation.number > 1 else 0
    before = workspace.runtime.now() - hours * HOUR
    done = Orphans()
    for asset_id, files in listed.items():
        garbage = [
            info
            for info in files
            if begun <= info.modified < before
            and info.path not in named
            and _is_garbage(info.path, asset_id, owned, before)
            and not any(info.path.startswith(f"{location}/") for location in locations)
        ]
        room = len(garbage) if dry_run else MAX_ENDED - len(done.files)
        done.kept += len(files) - len(garbage)
        done.files += garbage[:room]
        if len(garbage) > room:
            break
        done.finished += 1
    if not dry_run:
        store = workspace.handle(Role.COLLECTOR)
        for info in done.files:
            await store.delete(info.path)
    return done


def _is_garbage(path: str, asset_id: str, owned: Collection[str], before: int) -> bool:
    """Whether a file lies where workers write, in a folder that nobody owns and that was given out long ago.

    The id of a version holds the time of its attempt's claim, so that not only the store's clock has a say.
    """
    unfinished = _UNFINISHED.fullmatch(path)
    if unfinished is not None:
        return unfinished[1] not in owned
    version = version_of_path(asset_id, path)
    return version is not None and ulid_time(Ulid(version)) < before and version not in owned


async def _owners(snapshot: Snapshot, asset_ids: Collection[str]) -> set[str]:
    """Versions that are not deleted, what partitions point to, and what attempts that run write, with their batches."""
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
    claims: list[ClaimRow] = await snapshot.rows(CLAIMS, WORKSPACE)
    found |= {claim.batch_id for claim in claims if claim.batch_id}
    for claim in claims:
        planned: PlanTaskRow | None = await snapshot.get(PLAN_TASKS, claim.run_id, (claim.run_id, claim.task_key))
        for output in planned.outputs if planned is not None else ():
            found.add(materialization_id(claim.claimed_at, claim.attempt_id, output.asset_id))
    return found
