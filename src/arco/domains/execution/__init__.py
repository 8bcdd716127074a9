"""Domain `execution` (log `activity`, recorded): materializations and the partitions that follow from them."""

from arco.domains.execution.events import (
    MATERIALIZATION_COMPLETED,
    MATERIALIZATION_FAILED,
    ColumnStats,
    DataFile,
    MaterializationCompleted,
    MaterializationFailed,
)
from arco.domains.execution.fold import EXECUTION
from arco.domains.execution.tables import MATERIALIZATIONS, PARTITIONS, Materialization, Partition

__all__ = [
    "EXECUTION",
    "MATERIALIZATIONS",
    "MATERIALIZATION_COMPLETED",
    "MATERIALIZATION_FAILED",
    "PARTITIONS",
    "ColumnStats",
    "DataFile",
    "Materialization",
    "MaterializationCompleted",
    "MaterializationFailed",
    "Partition",
]
