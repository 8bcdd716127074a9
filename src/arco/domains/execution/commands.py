"""Commands of execution: what somebody decides about versions that exist.

A version is named by its asset and its materialization id; whoever asks resolves names first, because the log
`activity` does not know them.
"""

from typing import Annotated

import msgspec

from arco.core import MINUTE, Conflict, Invalid, NotFound, Refused, format_time, parse_ulid, shown, ulid_time
from arco.domains.execution.events import (
    FILES_COMPACTED,
    MATERIALIZATION_QUARANTINED,
    MATERIALIZATION_RELEASED,
    MATERIALIZATIONS_DELETED,
    MATERIALIZATIONS_EXPIRED,
    MAX_EXPIRED,
    STATISTICS_REFRESHED,
    DataFile,
    FilesCompacted,
    MaterializationQuarantined,
    MaterializationReleased,
    MaterializationsDeleted,
    MaterializationsExpired,
    StatisticsRefreshed,
)
from arco.domains.execution.retention import RetentionPolicy, expirable
from arco.domains.execution.standing import known_version
from arco.domains.execution.tables import (
    COMPACTED_VERSIONS,
    DELETED,
    EXPIRED,
    FILE_STATISTICS,
    MATERIALIZATIONS,
    PARTITIONS,
    PUBLISHED,
    QUARANTINED,
    VERSION_STATUS,
    CompactedVersion,
    FileStatistics,
    Materialization,
    Partition,
    VersionStatus,
)
from arco.log import NewEvent
from arco.state import Decider, Decision, View, new_event

__all__ = [
    "COMMANDS",
    "MAX_REASON",
    "CompactFiles",
    "DeleteVersions",
    "ExpireVersions",
    "QuarantineVersion",
    "RefreshStatistics",
    "ReleaseVersion",
    "files_of",
    "find_expirable",
    "find_version",
]

MAX_REASON = 1000
MAX_COMPACTION = 30 * MINUTE
"""How long a compaction may take. Files that nobody names are safe for an hour; clocks may differ by the rest."""

Id = Annotated[str, msgspec.Meta(min_length=1)]
Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REASON)]
Versions = Annotated[tuple[Id, ...], msgspec.Meta(min_length=1, max_length=MAX_EXPIRED)]


class _Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    asset_id: Id


class QuarantineVersion(_Command, frozen=True):
    """Set a version aside by hand. One that is quarantined already stays as it is."""

    materialization_id: Id
    reason: Reason


class ReleaseVersion(_Command, frozen=True):
    """Vouch for a version that is quarantined or blocked. One that is published already stays as it is."""

    materialization_id: Id
    reason: Reason


class ExpireVersions(_Command, frozen=True):
    """Let go of versions that the policy does not keep. Any other one among them is a conflict."""

    materialization_ids: Versions
    policy: RetentionPolicy


class DeleteVersions(_Command, frozen=True):
    """Give the files of expired versions free, once their time of grace is over."""

    materialization_ids: Versions
    policy: RetentionPolicy


class RefreshStatistics(_Command, frozen=True):
    """Note what the footers of files of a version say. Other files than its own are refused."""

    materialization_id: Id
    files: Annotated[tuple[DataFile, ...], msgspec.Meta(min_length=1)]


class CompactFiles(_Command, frozen=True):
    """Let a version lie in other files that hold the same rows. Its id stays, so whoever pinned it reads the same."""

    materialization_id: Id
    compaction_id: Id
    base: str
    """The compaction whose files were read; empty for the files that the version was made with."""
    files: Annotated[tuple[DataFile, ...], msgspec.Meta(min_length=1)]
    """All files of the version from now on."""


async def files_of(view: View, version: Materialization) -> tuple[DataFile, ...]:
    """Where the rows of a version lie. Ask a view of now, whatever the version is of: former files go after a while."""
    row: CompactedVersion | None = await view.get(COMPACTED_VERSIONS, version.asset_id, version.materialization_id)
    return version.files if row is None else row.files


async def find_version(view: View, asset_id: str, materialization_id: str) -> tuple[Materialization, VersionStatus]:
    """A version and how it stands."""
    version: Materialization | None = await view.get(MATERIALIZATIONS, asset_id, materialization_id)
    if version is None:
        raise NotFound(f"the asset has no version {shown(materialization_id)}; list its versions to see them")
    row: VersionStatus | None = await view.get(VERSION_STATUS, asset_id, materialization_id)
    return version, row or known_version(version)


async def _quarantine(command: QuarantineVersion, view: View, decision: Decision) -> list[NewEvent]:
    row = await _present(view, command)
    if row.status == QUARANTINED:
        return []
    event = MaterializationQuarantined(command.asset_id, command.materialization_id, command.reason)
    return [new_event(MATERIALIZATION_QUARANTINED, event, subject=command.materialization_id)]


async def _release(command: ReleaseVersion, view: View, decision: Decision) -> list[NewEvent]:
    row = await _present(view, command)
    if row.status == PUBLISHED:
        return []
    event = MaterializationReleased(command.asset_id, command.materialization_id, command.reason)
    return [new_event(MATERIALIZATION_RELEASED, event, subject=command.materialization_id)]


async def _present(
    view: View, command: QuarantineVersion | ReleaseVersion | RefreshStatistics | CompactFiles
) -> VersionStatus:
    """How a version stands that is still there."""
    _, row = await find_version(view, command.asset_id, command.materialization_id)
    if row.status in (EXPIRED, DELETED):
        ended = format_time((row.deleted_at if row.status == DELETED else row.expired_at) or 0)
        raise Refused(
            f"the version {command.materialization_id} is {row.status} since {ended}: retention let go of it, so "
            "nobody can use it again; make the partition anew"
        )
    return row


async def _expire(command: ExpireVersions, view: View, decision: Decision) -> list[NewEvent]:
    allowed = await find_expirable(view, command.asset_id, command.policy, decision.received)
    for name in command.materialization_ids:
        if name not in allowed:
            raise Conflict(f"the version {name} is kept: something changed meanwhile; ask again what may expire")
    event = MaterializationsExpired(command.asset_id, command.materialization_ids)
    return [new_event(MATERIALIZATIONS_EXPIRED, event, subject=command.asset_id)]


async def find_expirable(view: View, asset_id: str, policy: RetentionPolicy, now: int) -> dict[str, str]:
    """All versions of an asset that may expire now, each with the reason."""
    partitions: list[Partition] = await view.rows(PARTITIONS, asset_id)
    versions: dict[str, list[Materialization]] = {row.partition_id: [] for row in partitions}
    for version in await view.rows(MATERIALIZATIONS, asset_id):
        versions.setdefault(version.partition_id, []).append(version)
    statuses = {row.materialization_id: row for row in await view.rows(VERSION_STATUS, asset_id)}
    found: dict[str, str] = {}
    for row in partitions:
        found |= expirable(versions[row.partition_id], statuses, row.current_materialization_id, policy, now)
    return found


async def _delete(command: DeleteVersions, view: View, decision: Decision) -> list[NewEvent]:
    for name in command.materialization_ids:
        row: VersionStatus | None = await view.get(VERSION_STATUS, command.asset_id, name)
        if row is None or row.status != EXPIRED or row.expired_at is None:
            raise Conflict(f"the version {name} is not expired, so its files stay; ask again what may be deleted")
        if row.expired_at + command.policy.grace > decision.received:
            raise Refused(
                f"the version {name} expired at {format_time(row.expired_at)}; its files are kept for "
                f"{command.policy.grace_hours} hours after that"
            )
    event = MaterializationsDeleted(command.asset_id, command.materialization_ids)
    return [new_event(MATERIALIZATIONS_DELETED, event, subject=command.asset_id)]


async def _refresh(command: RefreshStatistics, view: View, decision: Decision) -> list[NewEvent]:
    await _present(view, command)
    version, _ = await find_version(view, command.asset_id, command.materialization_id)
    own = {file.path for file in await files_of(view, version)}
    for file in command.files:
        if file.path not in own:
            raise Invalid(f"{shown(file.path)} is no file of the version {command.materialization_id}")
    event = StatisticsRefreshed(command.asset_id, command.materialization_id, command.files)
    return [new_event(STATISTICS_REFRESHED, event, subject=command.materialization_id)]


async def _compact(command: CompactFiles, view: View, decision: Decision) -> list[NewEvent]:
    await _present(view, command)
    version, _ = await find_version(view, command.asset_id, command.materialization_id)
    known: CompactedVersion | None = await view.get(COMPACTED_VERSIONS, command.asset_id, command.materialization_id)
    if known is not None and known.compaction_id == command.compaction_id:
        return []
    if decision.received - ulid_time(parse_ulid(command.compaction_id)) > MAX_COMPACTION:
        raise Refused(
            f"the compaction {command.compaction_id} took longer than {MAX_COMPACTION // MINUTE} minutes, so its files "
            "may be gone; compact fewer partitions at a time"
        )
    if (known.compaction_id if known is not None else "") != command.base:
        raise Conflict(
            f"the files of the version {command.materialization_id} were compacted meanwhile, so these are not needed"
        )
    before = {file.path: file for file in await files_of(view, version)}
    for path in (file.path for file in command.files):
        if path not in before and not (path.startswith(f"data/{command.asset_id}/") and command.compaction_id in path):
            raise Invalid(f"{shown(path)} is no file that the compaction {command.compaction_id} may have written")
    had = [await _rows(view, command, file) for file in before.values()]
    if sum(had) != sum(file.row_count for file in command.files):
        raise Invalid(
            f"the version {command.materialization_id} has {sum(had)} rows and the new files hold another number; "
            "run `arco maintain statistics` if what is known of its files is wrong"
        )
    event = FilesCompacted(command.asset_id, command.materialization_id, command.compaction_id, command.files)
    return [new_event(FILES_COMPACTED, event, subject=command.materialization_id)]


async def _rows(view: View, command: CompactFiles, file: DataFile) -> int:
    """How many rows a file has, as far as it is known."""
    key = (command.materialization_id, file.path)
    row: FileStatistics | None = await view.get(FILE_STATISTICS, command.asset_id, key)
    return file.row_count if row is None else row.row_count


COMMANDS: dict[str, tuple[type[msgspec.Struct], Decider]] = {
    "QuarantineVersion": (QuarantineVersion, _quarantine),
    "ReleaseVersion": (ReleaseVersion, _release),
    "ExpireVersions": (ExpireVersions, _expire),
    "DeleteVersions": (DeleteVersions, _delete),
    "RefreshStatistics": (RefreshStatistics, _refresh),
    "CompactFiles": (CompactFiles, _compact),
}
