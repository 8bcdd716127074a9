"""Tables of lineage: four layers in the group of the source, and two indexes that follow from the first.

- `lineage_edges` (images): the graph. A row changes only when the graph does, not whenever a task runs.
- `lineage_metadata` (images): when and how often an edge was used, who cares for it.
- `lineage_executions` (facts): every use of an edge; they expire, and what was counted stays counted.
- `lineage_execution_days` (images): how often each edge was used on each day. Executions expire; their days stay.
- `lineage_upstream` (images): the same edges in the group of their target, so that walks up are group reads too.
- `lineage_ids` (images): where the edge with an id is.
"""

import msgspec

from arco.domains.lineage.columns import ColumnLineage
from arco.domains.lineage.events import PartitionRef
from arco.state import Kind, Table, Time

__all__ = [
    "LINEAGE_EDGES",
    "LINEAGE_EXECUTIONS",
    "LINEAGE_EXECUTION_DAYS",
    "LINEAGE_IDS",
    "LINEAGE_METADATA",
    "LINEAGE_UPSTREAM",
    "EdgeIdRow",
    "EdgeMetadata",
    "LineageEdge",
    "LineageExecution",
    "LineageExecutionDay",
    "UpstreamEdge",
]


class LineageEdge(msgspec.Struct, frozen=True, gc=False):
    edge_id: str
    source_id: str
    target_id: str
    parameter: str
    partition_mapping: str
    transform_fingerprint: str
    dependency_fingerprint: str
    manual: bool
    """Somebody added it by hand."""
    recorded: bool
    """A task went along it. An edge may be both; it goes when it is neither."""
    column_lineage: ColumnLineage | None
    """What holds: what was said by hand, else what tasks reported."""
    manual_lineage: ColumnLineage | None
    recorded_lineage: ColumnLineage | None
    """The newest of those that say which code they are of; else the strongest, of equally strong ones the newest."""
    recorded_lineage_at: Time | None
    created_at: Time
    updated_at: Time
    recorded_lineage_code: str | None = None
    """The code version that `recorded_lineage` is of; None if nobody said."""


class EdgeMetadata(msgspec.Struct, frozen=True, gc=False):
    edge_id: str
    source_id: str
    first_seen_run: str | None
    first_seen_at: Time | None
    last_seen_run: str | None
    last_seen_at: Time | None
    execution_count: int
    """Uses ever seen, those whose rows expired included."""
    owner: str | None
    description: str | None
    updated_at: Time


class LineageExecution(msgspec.Struct, frozen=True, gc=False):
    execution_id: str
    edge_id: str
    source_id: str
    target_id: str
    run_id: str
    task_id: str
    source_materializations: tuple[str, ...]
    target_materialization: str | None
    source_partitions: tuple[PartitionRef, ...]
    target_partitions: tuple[PartitionRef, ...]
    started_at: Time
    completed_at: Time
    rows_read: int | None
    rows_written: int | None


class LineageExecutionDay(msgspec.Struct, frozen=True, gc=False):
    """The uses of an edge on one day. A use counts when its row is written: once, though the row expires."""

    edge_id: str
    day: str
    """The day in UTC on which they were completed, as `2026-01-31`."""
    source_id: str
    target_id: str
    execution_count: int
    rows_read: int | None
    """Of those that told; None if none did. So is `rows_written`."""
    rows_written: int | None
    first_completed_at: Time
    last_completed_at: Time


class UpstreamEdge(msgspec.Struct, frozen=True, gc=False):
    target_id: str
    edge_id: str
    source_id: str
    manual: bool
    recorded: bool


class EdgeIdRow(msgspec.Struct, frozen=True, gc=False):
    edge_id: str
    source_id: str
    target_id: str


LINEAGE_EDGES = Table(
    "lineage_edges", LineageEdge, Kind.IMAGE, ("edge_id",), "source_id", prune=("created_at",), audited=True
)
LINEAGE_METADATA = Table("lineage_metadata", EdgeMetadata, Kind.IMAGE, ("edge_id",), "source_id", audited=True)
LINEAGE_EXECUTIONS = Table(
    "lineage_executions",
    LineageExecution,
    Kind.FACT,
    ("execution_id",),
    "source_id",
    time="completed_at",
    prune=("completed_at", "run_id"),
)
LINEAGE_EXECUTION_DAYS = Table(
    "lineage_execution_days",
    LineageExecutionDay,
    Kind.IMAGE,
    ("edge_id", "day"),
    "source_id",
    prune=("day",),
)
LINEAGE_UPSTREAM = Table("lineage_upstream", UpstreamEdge, Kind.IMAGE, ("target_id", "edge_id"), "target_id")
LINEAGE_IDS = Table("lineage_ids", EdgeIdRow, Kind.IMAGE, ("edge_id",), "edge_id")
