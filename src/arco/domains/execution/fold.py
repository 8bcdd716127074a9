"""The fold of execution: versions, how they stand, current pointers and totals, all derived, nothing counted twice.

The current version of a partition is the published one with the greatest number: a late duplicate changes nothing,
because its id is known. Whether a version is published follows from its producer, from its checks and from what people
decided (`standing`), in whatever order they come; when the current one falls, the next best one is current again.
"""

from typing import Any

import msgspec

from arco.domains.execution.commands import COMMANDS
from arco.domains.execution.events import (
    ASSET_OBSERVED,
    EVENTS,
    FILES_COMPACTED,
    MATERIALIZATION_COMPLETED,
    MATERIALIZATION_FAILED,
    MATERIALIZATION_QUARANTINED,
    MATERIALIZATION_RELEASED,
    MATERIALIZATIONS_DELETED,
    MATERIALIZATIONS_EXPIRED,
    STATISTICS_REFRESHED,
    AssetObserved,
    FilesCompacted,
    MaterializationCompleted,
    MaterializationFailed,
    MaterializationQuarantined,
    MaterializationReleased,
    MaterializationsDeleted,
    MaterializationsExpired,
    StatisticsRefreshed,
)
from arco.domains.execution.schemas import SCHEMAS
from arco.domains.execution.standing import (
    JUDGED,
    Checked,
    current_fields,
    held_key,
    judge_check,
    known_version,
    partition_status,
    standing,
    unknown_version,
)
from arco.domains.execution.tables import (
    COMPACTED_VERSIONS,
    FILE_STATISTICS,
    HELD_VERSIONS,
    MATERIALIZATIONS,
    OBSERVATIONS,
    PARTITIONS,
    PUBLISHED,
    QUARANTINED,
    VERSION_STATUS,
    WORKSPACE,
    CompactedVersion,
    FileStatistics,
    FormerFiles,
    HeldVersion,
    Materialization,
    Observation,
    Partition,
    VersionStatus,
)
from arco.state import ByField, Change, Domain, Group, Input, Reject, Stage

__all__ = ["EXECUTION"]

CHECK_EXECUTED = "CheckExecuted"
"""An event of the domain `quality`: what a check found in a version, and what was done about it."""

WRITTEN = (PUBLISHED, QUARANTINED)
"""What a producer may say of a version."""


def _fold_asset(group: Group, item: Input) -> None:
    event = item.payload
    if isinstance(event, MaterializationCompleted):
        if group.get(MATERIALIZATIONS, event.materialization_id) is None:
            _fold_version(group, item, event)
    elif isinstance(event, MaterializationFailed):
        _fold_failure(group, item, event)
    elif isinstance(event, MaterializationQuarantined | MaterializationReleased):
        _fold_set(group, item, event)
    elif isinstance(event, MaterializationsExpired | MaterializationsDeleted):
        for name in event.materialization_ids:
            _fold_end(group, item, name, expired=isinstance(event, MaterializationsExpired))
            if isinstance(event, MaterializationsDeleted) and group.get(COMPACTED_VERSIONS, name) is not None:
                group.delete(COMPACTED_VERSIONS, name)
    elif isinstance(event, FilesCompacted):
        _fold_compacted(group, item, event)
    else:
        _fold_check(group, item, event)


# Versions


def _fold_version(group: Group, item: Input, event: MaterializationCompleted) -> None:
    if event.status not in WRITTEN:
        raise Reject(f"a materialization is {' or '.join(WRITTEN)}, not {event.status!r}")
    before: Partition | None = group.get(PARTITIONS, event.partition_id)
    version = before.version_count + 1 if before else 1
    row = Materialization(
        event.materialization_id,
        event.asset_id,
        event.asset_key,
        event.partition_id,
        event.partition_key,
        version,
        event.status,
        event.run_id,
        event.task_id,
        event.code_version,
        event.schema_hash,
        event.schema_version,
        event.files,
        len(event.files),
        event.row_count,
        event.byte_size,
        event.started_at,
        event.completed_at,
        event.inputs_fingerprint,
        event.plan or None,
    )
    group.put(MATERIALIZATIONS, row)
    status = _fold_written(group, item, event, version)
    good = status == PUBLISHED
    partition = _published(before, row, item.received) if good else _not_current(before, item, event, status)
    group.put(PARTITIONS, partition)


def _published(before: Partition | None, row: Materialization, received: int) -> Partition:
    """A partition whose new version is good. All fields in one go: nearly every event is such a version."""
    return Partition(
        row.partition_id,
        row.asset_id,
        row.asset_key,
        row.partition_key if before is None else before.partition_key,
        "complete",
        row.materialization_id,
        row.version,
        row.version,
        row.row_count,
        row.byte_size,
        row.file_count,
        row.schema_hash,
        row.run_id,
        row.task_id,
        None,
        row.completed_at,
        None if before is None else before.last_failure_at,
        received if before is None else before.created_at,
        received,
        row.materialization_id,
        PUBLISHED,
    )


def _not_current(before: Partition | None, item: Input, event: MaterializationCompleted, status: str) -> Partition:
    """A partition whose new version does not become its current one."""
    partition = before or _first(item, event)
    return msgspec.structs.replace(
        partition,
        asset_key=event.asset_key,
        status=partition_status(status, is_current=partition.current_materialization_id is not None),
        version_count=partition.version_count + 1,
        last_run_id=event.run_id,
        last_task_id=event.task_id,
        last_error=None,
        updated_at=item.received,
        newest_materialization_id=event.materialization_id,
        newest_status=status,
    )


def _fold_written(group: Group, item: Input, event: MaterializationCompleted, version: int) -> str:
    """How a version stands that has just been written. Most have no row, because nothing speaks against them."""
    known: VersionStatus | None = group.get(VERSION_STATUS, event.materialization_id)
    if known is None and event.status == PUBLISHED:
        return PUBLISHED
    row = msgspec.structs.replace(
        known or unknown_version(event),
        asset_key=event.asset_key,
        partition_id=event.partition_id,
        partition_key=event.partition_key,
        version=version,
    )
    row = standing(_judged(row, event.status), item.received)
    group.put(VERSION_STATUS, row)
    return row.status


def _judged(row: VersionStatus, verdict: str) -> VersionStatus:
    return msgspec.structs.replace(row, judged=max(row.judged, verdict, key=JUDGED.index))


# How versions stand


def _fold_check(group: Group, item: Input, event: Checked) -> None:
    verdict = judge_check(event)
    if verdict == PUBLISHED:
        return
    before: VersionStatus | None = group.get(VERSION_STATUS, event.materialization_id)
    row = before or _known(group, event.materialization_id) or unknown_version(event)
    judged = _judged(row, verdict)
    if judged != row:
        _stand(group, item, judged)


def _fold_set(group: Group, item: Input, event: MaterializationQuarantined | MaterializationReleased) -> None:
    before: VersionStatus | None = group.get(VERSION_STATUS, event.materialization_id)
    row = before or _known(group, event.materialization_id)
    if row is None:
        raise Reject(f"there is no version {event.materialization_id}, so nobody can say how it stands")
    _stand(
        group,
        item,
        msgspec.structs.replace(
            row,
            set_to=QUARANTINED if isinstance(event, MaterializationQuarantined) else PUBLISHED,
            reason=event.reason,
            set_by=item.event.actor,
            set_at=item.received,
        ),
    )


def _fold_end(group: Group, item: Input, name: str, *, expired: bool) -> None:
    """A version expires, or its files may go. The first time counts."""
    before: VersionStatus | None = group.get(VERSION_STATUS, name)
    row = before or _known(group, name)
    if row is None:
        return  # retention took the fact; nothing reads the version
    expired_at = item.received if row.expired_at is None else row.expired_at
    deleted_at = row.deleted_at if expired or row.deleted_at is not None else item.received
    ended = msgspec.structs.replace(row, expired_at=expired_at, deleted_at=deleted_at)
    if ended != row:
        _stand(group, item, ended)


def _known(group: Group, name: str) -> VersionStatus | None:
    """The row of a version against which nothing speaks so far; None if there is no such version."""
    version: Materialization | None = group.get(MATERIALIZATIONS, name)
    return None if version is None else known_version(version)


def _stand(group: Group, item: Input, row: VersionStatus) -> None:
    """Write how a version stands, and let its partition follow."""
    row = standing(row, item.received)
    group.put(VERSION_STATUS, row)
    before: Partition | None = group.get(PARTITIONS, row.partition_id)
    if row.version is None or before is None:
        return
    after = before
    if row.status == PUBLISHED:
        version: Materialization | None = group.get(MATERIALIZATIONS, row.materialization_id)
        if version is not None and version.version > (before.current_version or 0):
            after = msgspec.structs.replace(after, **_current(group, version))
    elif before.current_materialization_id == row.materialization_id:
        after = msgspec.structs.replace(after, **_current(group, _newest_good(group, row.partition_id)))
    if before.newest_materialization_id == row.materialization_id:
        after = msgspec.structs.replace(after, newest_status=row.status)
    if before.status != "failed":
        is_current = after.current_materialization_id is not None
        after = msgspec.structs.replace(after, status=partition_status(after.newest_status, is_current=is_current))
    if after != before:
        group.put(PARTITIONS, msgspec.structs.replace(after, updated_at=item.received))


def _current(group: Group, version: Materialization | None) -> dict[str, Any]:
    compacted = None if version is None else group.get(COMPACTED_VERSIONS, version.materialization_id)
    return current_fields(version, compacted)


def _newest_good(group: Group, partition_id: str) -> Materialization | None:
    """Searched among all versions of the asset: this happens only when a version falls that was good before."""
    versions = [row for row in group.rows(MATERIALIZATIONS) if row.partition_id == partition_id]
    for version in sorted(versions, key=lambda row: -row.version):
        row: VersionStatus | None = group.get(VERSION_STATUS, version.materialization_id)
        if row is None or row.status == PUBLISHED:
            found: Materialization = version
            return found
    return None


# Files


def _fold_compacted(group: Group, item: Input, event: FilesCompacted) -> None:
    """The rows of a version lie elsewhere; everything else about it stays."""
    version: Materialization | None = group.get(MATERIALIZATIONS, event.materialization_id)
    if version is None:
        return  # retention took the fact; nothing reads the version
    before: CompactedVersion | None = group.get(COMPACTED_VERSIONS, event.materialization_id)
    replaced = FormerFiles("" if before is None else before.compaction_id, item.received)
    row = CompactedVersion(
        event.materialization_id,
        event.asset_id,
        event.compaction_id,
        event.files,
        len(event.files),
        sum(file.size_bytes for file in event.files),
        item.received,
        (*(() if before is None else before.former), replaced),
    )
    group.put(COMPACTED_VERSIONS, row)
    partition: Partition | None = group.get(PARTITIONS, version.partition_id)
    if partition is not None and partition.current_materialization_id == event.materialization_id:
        after = msgspec.structs.replace(partition, byte_size=row.byte_size, file_count=row.file_count)
        group.put(PARTITIONS, msgspec.structs.replace(after, updated_at=item.received))


def _fold_held(group: Group, item: Input) -> None:
    """The list of versions that were held back."""
    change: Change = item.payload
    row: VersionStatus = change.after
    if row.held_at is None or row.version is None:
        return
    order_key = held_key(row)
    if row.deleted_at is not None:
        group.delete(HELD_VERSIONS, order_key)
    elif group.get(HELD_VERSIONS, order_key) is None:
        group.put(HELD_VERSIONS, HeldVersion(WORKSPACE, order_key, row.asset_id, row.materialization_id))


# Failures


def _fold_failure(group: Group, item: Input, event: MaterializationFailed) -> None:
    before: Partition | None = group.get(PARTITIONS, event.partition_id)
    row = before or _first(item, event)
    if before is not None and _is_late(before, event):
        return
    group.put(
        PARTITIONS,
        msgspec.structs.replace(
            row,
            status="failed",
            last_run_id=event.run_id,
            last_task_id=event.task_id,
            last_error=event.error,
            last_failure_at=event.failed_at,
            updated_at=item.received,
        ),
    )


def _is_late(row: Partition, event: MaterializationFailed) -> bool:
    """A failure that arrives after its task finished, or after something newer is known of the partition."""
    finished = (row.last_run_id, row.last_task_id) == (event.run_id, event.task_id) and row.status != "failed"
    newer = max(row.last_success_at or 0, row.last_failure_at or 0)
    return finished or event.failed_at < newer


def _first(item: Input, event: MaterializationCompleted | MaterializationFailed) -> Partition:
    """A partition nobody has heard of before."""
    return Partition(
        partition_id=event.partition_id,
        asset_id=event.asset_id,
        asset_key=event.asset_key,
        partition_key=event.partition_key,
        status="failed",
        current_materialization_id=None,
        current_version=None,
        version_count=0,
        row_count=None,
        byte_size=None,
        file_count=None,
        schema_hash=None,
        last_run_id=event.run_id,
        last_task_id=event.task_id,
        last_error=None,
        last_success_at=None,
        last_failure_at=None,
        created_at=item.received,
        updated_at=item.received,
        newest_materialization_id=None,
        newest_status=None,
    )


# Statistics and observations


def _fold_statistics(group: Group, item: Input) -> None:
    event: StatisticsRefreshed | FilesCompacted | MaterializationsDeleted = item.payload
    if isinstance(event, StatisticsRefreshed):
        for file in event.files:
            row = FileStatistics(
                event.materialization_id,
                file.path,
                event.asset_id,
                file.size_bytes,
                file.row_count,
                file.stats,
                item.received,
            )
            group.put(FILE_STATISTICS, row)
        return
    gone = {event.materialization_id} if isinstance(event, FilesCompacted) else set(event.materialization_ids)
    kept = {file.path for file in event.files} if isinstance(event, FilesCompacted) else set()
    for row in group.rows(FILE_STATISTICS):
        if row.materialization_id in gone and row.path not in kept:
            group.delete(FILE_STATISTICS, (row.materialization_id, row.path))


def _fold_observation(group: Group, item: Input) -> None:
    event: AssetObserved = item.payload
    if group.get(OBSERVATIONS, event.observation_id) is None:
        group.put(
            OBSERVATIONS,
            Observation(
                event.observation_id,
                event.asset_id,
                event.asset_key,
                event.partition_id,
                event.partition_key,
                event.data_version,
                event.row_count,
                event.metadata,
                event.run_id,
                event.observed_at,
            ),
        )


EXECUTION = Domain(
    name="execution",
    log="activity",
    version=2,
    events=EVENTS,
    stages=(
        Stage(
            "assets",
            (MATERIALIZATIONS, VERSION_STATUS, COMPACTED_VERSIONS, PARTITIONS),
            ByField("asset_id"),
            _fold_asset,
            # Checks first: where they come with the version they judge, it never becomes current in between.
            events=(
                CHECK_EXECUTED,
                MATERIALIZATION_COMPLETED.name,
                MATERIALIZATION_FAILED.name,
                MATERIALIZATION_QUARANTINED.name,
                MATERIALIZATION_RELEASED.name,
                MATERIALIZATIONS_EXPIRED.name,
                MATERIALIZATIONS_DELETED.name,
                FILES_COMPACTED.name,
            ),
        ),
        Stage("held", (HELD_VERSIONS,), lambda item: (WORKSPACE,), _fold_held, changes=(VERSION_STATUS,)),
        Stage(
            "statistics",
            (FILE_STATISTICS,),
            ByField("asset_id"),
            _fold_statistics,
            events=(STATISTICS_REFRESHED.name, FILES_COMPACTED.name, MATERIALIZATIONS_DELETED.name),
        ),
        Stage("observations", (OBSERVATIONS,), ByField("asset_id"), _fold_observation, events=(ASSET_OBSERVED.name,)),
        SCHEMAS,
    ),
    commands=COMMANDS,
    shared=(CHECK_EXECUTED,),
)
