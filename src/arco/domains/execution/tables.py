"""Tables of execution. All live in the group of their asset.

`materializations` (facts): one row per version of a partition, never changed. `partitions` (images): where a partition
stands: its current version, how many it had, totals of the current one, its last success and failure. `observations`
(facts): what was seen of data that others build.
"""

import msgspec

from arco.domains.execution.events import DataFile
from arco.state import Kind, Table, Time

__all__ = ["MATERIALIZATIONS", "OBSERVATIONS", "PARTITIONS", "Materialization", "Observation", "Partition"]


class Materialization(msgspec.Struct, frozen=True, gc=False):
    materialization_id: str
    asset_id: str
    asset_key: str
    partition_id: str
    partition_key: str
    version: int
    """1 for the first version of the partition, whether published or quarantined."""
    status: str
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


class Partition(msgspec.Struct, frozen=True, gc=False):
    partition_id: str
    asset_id: str
    asset_key: str
    partition_key: str
    status: str
    """`complete`, `failed` (the last attempt failed) or `quarantined` (the last version is)."""
    current_materialization_id: str | None
    """The newest published version; None as long as there is none."""
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
    last_failure_at: Time | None
    created_at: Time
    updated_at: Time


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
PARTITIONS = Table("partitions", Partition, Kind.IMAGE, ("partition_id",), "asset_id", prune=("created_at",))
OBSERVATIONS = Table(
    "observations",
    Observation,
    Kind.FACT,
    ("observation_id",),
    "asset_id",
    time="observed_at",
    prune=("observed_at", "run_id"),
)
