"""Domain `execution` (log `activity`, recorded): materializations, their partitions, observations."""

from arco.domains.execution.events import (
    ASSET_OBSERVED,
    MATERIALIZATION_COMPLETED,
    MATERIALIZATION_FAILED,
    AssetObserved,
    ColumnStats,
    DataFile,
    MaterializationCompleted,
    MaterializationFailed,
)
from arco.domains.execution.fold import EXECUTION
from arco.domains.execution.tables import (
    MATERIALIZATIONS,
    OBSERVATIONS,
    PARTITIONS,
    Materialization,
    Observation,
    Partition,
)

__all__ = [
    "ASSET_OBSERVED",
    "EXECUTION",
    "MATERIALIZATIONS",
    "MATERIALIZATION_COMPLETED",
    "MATERIALIZATION_FAILED",
    "OBSERVATIONS",
    "PARTITIONS",
    "AssetObserved",
    "ColumnStats",
    "DataFile",
    "Materialization",
    "MaterializationCompleted",
    "MaterializationFailed",
    "Observation",
    "Partition",
]
