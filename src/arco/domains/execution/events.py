"""Events of execution: what became of an attempt to build a version of a partition, what somebody decided about a
version, and what somebody saw of data that others build. Times are microseconds.

Structs without garbage collection and tuples instead of lists: a replica holds millions of these, and a collector that
walks them halved the rate of the fold (docs/measurements.md).
"""

from typing import Annotated

import msgspec

from arco.log import EventType, Instant, unchanged

__all__ = [
    "ASSET_OBSERVED",
    "EVENTS",
    "FILES_COMPACTED",
    "MATERIALIZATIONS_DELETED",
    "MATERIALIZATIONS_EXPIRED",
    "MATERIALIZATION_COMPLETED",
    "MATERIALIZATION_FAILED",
    "MATERIALIZATION_QUARANTINED",
    "MATERIALIZATION_RELEASED",
    "MAX_EXPIRED",
    "SCHEMA_RECORDED",
    "STATISTICS_REFRESHED",
    "AssetObserved",
    "ColumnStats",
    "DataFile",
    "FilesCompacted",
    "MaterializationCompleted",
    "MaterializationFailed",
    "MaterializationQuarantined",
    "MaterializationReleased",
    "MaterializationsDeleted",
    "MaterializationsExpired",
    "SchemaRecorded",
    "StatisticsRefreshed",
    "WrittenColumn",
]

MAX_EXPIRED = 500
"""Versions that one event expires or deletes: the audit shows the row of each before and after."""


Name = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class ColumnStats(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    column: str
    null_count: Count
    min: str | None = None
    max: str | None = None
    distinct_count: int | None = None


class DataFile(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    path: Name
    size_bytes: Count
    row_count: Count
    stats: tuple[ColumnStats, ...] = ()


class MaterializationCompleted(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A version of a partition is written. `quarantined` ones are kept but never become current."""

    materialization_id: Name
    asset_id: Name
    asset_key: str
    partition_id: Name
    partition_key: str
    """The canonical text of the key; empty for an asset without partitions."""
    run_id: str
    task_id: str
    files: tuple[DataFile, ...]
    row_count: Count
    byte_size: Count
    schema_hash: str
    started_at: Instant
    completed_at: Instant
    status: str = "published"
    """`published` or `quarantined`."""
    code_version: str = ""
    schema_version: int | None = None
    inputs_fingerprint: str = ""
    """Hash of the versions it was made of; empty if that is not known."""
    plan: str = ""
    """How Spark made it in a batch: `together`, or why each partition had a plan of its own. Else empty."""


class MaterializationFailed(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    asset_id: Name
    asset_key: str
    partition_id: Name
    partition_key: str
    run_id: str
    task_id: str
    error: str
    failed_at: Instant


class MaterializationQuarantined(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Somebody put a version into quarantine. It stays there until somebody releases it, whatever checks say later."""

    asset_id: Name
    materialization_id: Name
    reason: Name


class MaterializationReleased(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Somebody vouches for a version that checks or somebody else held back. No check holds it back again."""

    asset_id: Name
    materialization_id: Name
    reason: Name


class MaterializationsExpired(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Nothing reads these versions any more; their files go after a time of grace."""

    asset_id: Name
    materialization_ids: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=MAX_EXPIRED)]


class MaterializationsDeleted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The files of these versions are nobody's any more, so whoever collects may delete them."""

    asset_id: Name
    materialization_ids: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=MAX_EXPIRED)]


class StatisticsRefreshed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What the footers of files of a version say now. It changes no total: those are what the version was told with."""

    asset_id: Name
    materialization_id: Name
    files: Annotated[tuple[DataFile, ...], msgspec.Meta(min_length=1)]


class FilesCompacted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The rows of a version lie in other files now: the same rows, in the same order, with the same columns."""

    asset_id: Name
    materialization_id: Name
    compaction_id: Name
    """What wrote the new files."""
    files: Annotated[tuple[DataFile, ...], msgspec.Meta(min_length=1)]
    """All files of the version from now on, in the order of its rows."""


class WrittenColumn(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    name: str
    """May be empty, as that of the index of a table which pandas wrote as CSV."""
    type: str
    """In the words of the catalog, such as `decimal(10,2)`."""
    nullable: bool = True


class SchemaRecorded(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The columns of all versions of an asset that have this hash. Told with the first of them."""

    asset_id: Name
    asset_key: str
    schema_hash: Name
    materialization_id: Name
    columns: tuple[WrittenColumn, ...]


class AssetObserved(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Somebody looked at data that others build. It makes no version and moves no pointer."""

    observation_id: Annotated[str, msgspec.Meta(min_length=1)]
    asset_id: Annotated[str, msgspec.Meta(min_length=1)]
    asset_key: str
    partition_id: str
    partition_key: str
    """The canonical text of the key; empty for an asset without partitions."""
    data_version: str
    """Changes whenever the data does: a hash, an ETag, the number of a snapshot."""
    observed_at: Instant
    row_count: Annotated[int, msgspec.Meta(ge=0)] | None = None
    metadata: dict[str, str] = {}
    run_id: str = ""
    """Empty if no run looked."""


MATERIALIZATION_COMPLETED = EventType(
    "MaterializationCompleted",
    MaterializationCompleted,
    2,
    {1: unchanged},
    recordable=True,
    time=lambda event: event.completed_at,
)
MATERIALIZATION_FAILED = EventType(
    "MaterializationFailed", MaterializationFailed, recordable=True, time=lambda event: event.failed_at
)
ASSET_OBSERVED = EventType("AssetObserved", AssetObserved, recordable=True, time=lambda event: event.observed_at)
MATERIALIZATION_QUARANTINED = EventType(
    "MaterializationQuarantined", MaterializationQuarantined, audit=("QuarantinePartition", "materialization")
)
MATERIALIZATION_RELEASED = EventType(
    "MaterializationReleased", MaterializationReleased, audit=("UnquarantinePartition", "materialization")
)
MATERIALIZATIONS_EXPIRED = EventType(
    "MaterializationsExpired", MaterializationsExpired, audit=("ExpireVersions", "asset")
)
MATERIALIZATIONS_DELETED = EventType(
    "MaterializationsDeleted", MaterializationsDeleted, audit=("DeleteVersions", "asset")
)
SCHEMA_RECORDED = EventType("SchemaRecorded", SchemaRecorded)
STATISTICS_REFRESHED = EventType("StatisticsRefreshed", StatisticsRefreshed)
FILES_COMPACTED = EventType("FilesCompacted", FilesCompacted, audit=("CompactFiles", "materialization"))

EVENTS = (
    MATERIALIZATION_COMPLETED,
    MATERIALIZATION_FAILED,
    MATERIALIZATION_QUARANTINED,
    MATERIALIZATION_RELEASED,
    MATERIALIZATIONS_EXPIRED,
    MATERIALIZATIONS_DELETED,
    STATISTICS_REFRESHED,
    FILES_COMPACTED,
    ASSET_OBSERVED,
    SCHEMA_RECORDED,
)
