"""Retention of versions: those that the policy does not keep expire, and their files go after a time of grace.

Safety first. Nothing that a run under way reads or made is touched, whatever the policy says, and this is looked at
once more before files go.

    policy -> expired, by an event -> grace -> deleted, by an event -> files of the version's own folders
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from arco.domains.execution import (
    COMPACTED_VERSIONS,
    EXPIRED,
    MATERIALIZATIONS,
    MAX_EXPIRED,
    VERSION_STATUS,
    CompactedVersion,
    DeleteVersions,
    ExpireVersions,
    Materialization,
    RetentionPolicy,
    VersionStatus,
    files_of,
    find_expirable,
)
from arco.domains.orchestration import (
    ACTIVE_RUNS,
    WORKSPACE,
    ActiveRunRow,
)
from arco.runtime import Workspace
from arco.servo._envelope import version_folder, version_of_path
from arco.servo._orphans import LetGo, named_files, nobody_else
from arco.servo._pinned import pinned_versions
from arco.servo._runs import Asked
from arco.state import Snapshot
from arco.storage import Role, remove_empty_folders

__all__ = ["Retention", "Retired", "retire_versions"]

MAX_ENDED: Final = 2_000
"""Versions that one call lets go before it leaves the rest to the next one."""


@dataclass(frozen=True)
class Retired:
    version: Materialization
    reason: str
    byte_size: int
    """Of the files it has now, which may be others than those it was written with."""


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


async def retire_versions(
    workspace: Workspace,
    asset_ids: Iterable[str],
    policy: RetentionPolicy,
    asked: Asked,
    *,
    dry_run: bool,
    let_go: LetGo = nobody_else,
) -> Retention:
    """Let go of versions of these assets that the policy does not keep, and delete those whose grace is over.

    `let_go` hears of files before they are deleted, and says which may not be.
    """
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
            await _delete_files(workspace, snapshot, [one.version for one in deleted], let_go)
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
        compacted: list[CompactedVersion] = await snapshot.rows(COMPACTED_VERSIONS, self._asset_id)
        sizes = {row.materialization_id: row.byte_size for row in compacted}
        for name, reason in (*allowed.items(), *ended.items()):
            version = versions.get(name)
            if version is None:
                continue
            if name in pinned or version.run_id in runs:
                found.in_use += 1
            elif not _is_ours(version):
                found.foreign += 1
            elif name in allowed:
                found.expired.append(Retired(version, reason, sizes.get(name, version.byte_size)))
            elif reason:
                found.deleted.append(Retired(version, reason, sizes.get(name, version.byte_size)))
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


async def _delete_files(
    workspace: Workspace, snapshot: Snapshot, versions: Sequence[Materialization], let_go: LetGo
) -> None:
    """Delete all that lies in the folders of versions, samples of failing rows too, but for files that another version
    names. What a crash leaves, `orphans` finds."""
    if not versions:
        return
    others = await named_files(snapshot, {version.materialization_id for version in versions})
    reader, store = workspace.handle(Role.READER), workspace.handle(Role.COLLECTOR)
    paths: list[str] = []
    folders: set[str] = set()
    for version in versions:
        folders |= {version_folder(file.path) for file in (*version.files, *await files_of(snapshot, version))}
    for folder in sorted(folders):
        paths += [info.path async for info in reader.list(folder) if info.path not in others]
    needed = set(await let_go(versions[0].asset_id, paths))
    for path in paths:
        if path not in needed:
            await store.delete(path)
    for folder in sorted(folders):
        await remove_empty_folders(store, folder, lambda path: True)
