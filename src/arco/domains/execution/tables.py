"""Tables of execution. All but the last live in the group of their asset.

- `materializations` (facts): one row per version of a partition, never changed.
- `version_status` (images): how a version stands, beside its fact. A version without a row stands as it was written:
  published, and nothing speaks against it.
- `partitions` (images): where a partition stands: its current version, how many it had, totals of the current one, its
  last success and failure.
- `file_statistics` (images): what the footers of a version's files said when somebody last read them again; most files
  have no row, because what was told with their version holds.
- `compacted_versions` (images): where the files of a version lie that somebody compacted; others have those of their
  fact. Read the files of a version by `files_of`, never from the fact.
- `observations` (facts): what was seen of data that others build.
- `asset_schemas` (facts): the columns of versions with the same `schema_hash`. The id of a column follows from its
  asset and its name: it is the same in all schemas, wherever the column stands in them and whatever its type became.
- `held_versions` (images): every version that was ever quarantined or blocked and is not deleted, newest first.
"""

import msgspec

from arco.domains.execution.events import ColumnStats, DataFile
from arco.state import Kind, Table, Time

__all__ = [
    "ASSET_SCHEMAS",
    "BLOCKED",
    "COMPACTED_VERSIONS",
    "DELETED",
    "EXPIRED",
    "FILE_STATISTICS",
    "HELD",
    "HELD_VERSIONS",
    "MATERIALIZATIONS",
    "OBSERVATIONS",
    "PARTITIONS",
    "PUBLISHED",
    "QUARANTINED",
    "VERSION_STATUS",
    "WORKSPACE",
    "AssetColumn",
    "AssetSchema",
    "CompactedVersion",
    "FileStatistics",
    "FormerFiles",
    "HeldVersion",
    "Materialization",
    "Observation",
    "Partition",
    "VersionStatus",
]

WORKSPACE = "workspace"
"""The group of what concerns the whole workspace."""

PUBLISHED = "published"
"""Good: it may be current, and plans read it."""
BLOCKED = "blocked"
"""Its checks keep others from reading it."""
QUARANTINED = "quarantined"
"""Its checks or somebody set it aside."""
EXPIRED = "expired"
"""Retention let go of it; its files are still there for a time."""
DELETED = "deleted"
"""Its files are gone, or may go at any moment."""

HELD = (BLOCKED, QUARANTINED)
"""What a release changes."""


class Materialization(msgspec.Struct, frozen=True, gc=False):
    materialization_id: str
    asset_id: str
    asset_key: str
    partition_id: str
    partition_key: str
    version: int
    """1 for the first version of the partition, whether published or quarantined."""
    status: str
    """As it was written: `published` or `quarantined`. How it stands now is in `version_status`."""
    run_id: str
    task_id: str
    code_version: str
    schema_hash: str
    schema_version: int | None
    files: tuple[DataFile, ...]
    file_count: int
    row_count: int
    byte_size: int
    started_at: Time
    completed_at: Time
    inputs_fingerprint: str
    """Hash of the versions it was made of; empty if that is not known."""
    plan: str | None = None
    """How Spark made it in a batch: `together`, or why each partition had a plan of its own."""


class Partition(msgspec.Struct, frozen=True, gc=False):
    partition_id: str
    asset_id: str
    asset_key: str
    partition_key: str
    status: str
    """`failed` if the last attempt failed; else how its newest version stands: `complete` if it is published, or
    `blocked`, `quarantined`. If that one expired, `complete` as long as another is current, else `expired`."""
    current_materialization_id: str | None
    """The newest version that is published; None as long as there is none."""
    current_version: int | None
    version_count: int
    row_count: int | None
    byte_size: int | None
    file_count: int | None
    schema_hash: str | None
    last_run_id: str
    last_task_id: str
    last_error: str | None
    last_success_at: Time | None
    """When the current version was completed."""
    last_failure_at: Time | None
    created_at: Time
    updated_at: Time
    newest_materialization_id: str | None
    """The version that was made last, however it stands."""
    newest_status: str | None


class VersionStatus(msgspec.Struct, frozen=True, gc=False):
    materialization_id: str
    asset_id: str
    asset_key: str
    partition_id: str
    partition_key: str
    """Empty as long as only checks of the version are known; so is `asset_key`."""
    version: int | None
    """None as long as only checks of it are known."""
    status: str
    """How it stands: `published`, `blocked`, `quarantined`, `expired` or `deleted`."""
    judged: str
    """What its producer and its checks made of it, the worst that was told: `published`, `blocked`, `quarantined`."""
    set_to: str | None
    """What somebody made of it by hand, which wins: `published` or `quarantined`; None if nobody did."""
    reason: str | None
    set_by: str | None
    set_at: Time | None
    held_at: Time | None
    """When it was first blocked or quarantined."""
    expired_at: Time | None
    deleted_at: Time | None
    updated_at: Time


class HeldVersion(msgspec.Struct, frozen=True, gc=False):
    workspace: str
    order_key: str
    """Sorts what was held back last first."""
    asset_id: str
    materialization_id: str


class FileStatistics(msgspec.Struct, frozen=True, gc=False):
    materialization_id: str
    path: str
    asset_id: str
    size_bytes: int
    row_count: int
    stats: tuple[ColumnStats, ...]
    read_at: Time


class FormerFiles(msgspec.Struct, frozen=True, gc=False):
    """Files that a version had until a compaction replaced them."""

    compaction_id: str
    """What had written them; empty for those that the version was made with."""
    replaced_at: int
    """In microseconds."""


class CompactedVersion(msgspec.Struct, frozen=True, gc=False):
    materialization_id: str
    asset_id: str
    compaction_id: str
    files: tuple[DataFile, ...]
    file_count: int
    byte_size: int
    compacted_at: Time
    former: tuple[FormerFiles, ...]
    """From the first to the last."""


class AssetColumn(msgspec.Struct, frozen=True, gc=False):
    column_id: str
    name: str
    data_type: str
    is_nullable: bool


class AssetSchema(msgspec.Struct, frozen=True, gc=False):
    asset_id: str
    schema_hash: str
    asset_key: str
    """As the asset was called then."""
    columns: tuple[AssetColumn, ...]
    materialization_id: str
    """The first version that had them."""
    recorded_at: Time


class Observation(msgspec.Struct, frozen=True, gc=False):
    observation_id: str
    asset_id: str
    asset_key: str
    partition_id: str
    partition_key: str
    data_version: str
    row_count: int | None
    metadata: dict[str, str]
    run_id: str
    observed_at: Time


MATERIALIZATIONS = Table(
    "materializations",
    Materialization,
    Kind.FACT,
    ("materialization_id",),
    "asset_id",
    time="completed_at",
    prune=("completed_at", "run_id"),
)
PARTITIONS = Table(
    "partitions", Partition, Kind.IMAGE, ("partition_id",), "asset_id", prune=("created_at",), audited=True
)
VERSION_STATUS = Table("version_status", VersionStatus, Kind.IMAGE, ("materialization_id",), "asset_id", audited=True)
FILE_STATISTICS = Table("file_statistics", FileStatistics, Kind.IMAGE, ("materialization_id", "path"), "asset_id")
COMPACTED_VERSIONS = Table("compacted_versions", CompactedVersion, Kind.IMAGE, ("materialization_id",), "asset_id")
HELD_VERSIONS = Table("held_versions", HeldVersion, Kind.IMAGE, ("order_key",), "workspace")
OBSERVATIONS = Table(
    "observations",
    Observation,
    Kind.FACT,
    ("observation_id",),
    "asset_id",
    time="observed_at",
    prune=("observed_at", "run_id"),
)
ASSET_SCHEMAS = Table("asset_schemas", AssetSchema, Kind.FACT, ("asset_id", "schema_hash"), "asset_id")
