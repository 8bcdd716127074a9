"""Domain `lineage` (log `activity`): which asset was made of which, recorded by tasks and added by hand."""

from arco.domains.lineage.columns import (
    CaptureMethod,
    ColumnInfluence,
    ColumnLineage,
    ColumnMapping,
    ColumnRef,
    Confidence,
    ConfidenceReason,
    TransformType,
)
from arco.domains.lineage.commands import AddLineageEdge, DropLineageEdge
from arco.domains.lineage.events import (
    LINEAGE_RECORDED,
    EdgeRecord,
    LineageRecorded,
    PartitionRef,
    manual_edge_id,
)
from arco.domains.lineage.fold import LINEAGE
from arco.domains.lineage.tables import (
    LINEAGE_EDGES,
    LINEAGE_EXECUTIONS,
    LINEAGE_IDS,
    LINEAGE_METADATA,
    LINEAGE_UPSTREAM,
    EdgeIdRow,
    EdgeMetadata,
    LineageEdge,
    LineageExecution,
    UpstreamEdge,
)

__all__ = [
    "LINEAGE",
    "LINEAGE_EDGES",
    "LINEAGE_EXECUTIONS",
    "LINEAGE_IDS",
    "LINEAGE_METADATA",
    "LINEAGE_RECORDED",
    "LINEAGE_UPSTREAM",
    "AddLineageEdge",
    "CaptureMethod",
    "ColumnInfluence",
    "ColumnLineage",
    "ColumnMapping",
    "ColumnRef",
    "Confidence",
    "ConfidenceReason",
    "DropLineageEdge",
    "EdgeIdRow",
    "EdgeMetadata",
    "EdgeRecord",
    "LineageEdge",
    "LineageExecution",
    "LineageRecorded",
    "PartitionRef",
    "TransformType",
    "UpstreamEdge",
    "manual_edge_id",
]
