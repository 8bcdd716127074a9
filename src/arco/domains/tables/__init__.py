"""Domain `tables` (log `activity`, recorded): commits of Iceberg tables and views, how they stand, their columns."""

from arco.domains.tables.events import (
    ICEBERG_COMMITTED,
    CommitSource,
    CommitState,
    IcebergColumn,
    IcebergCommitted,
    IcebergKind,
)
from arco.domains.tables.fold import ICEBERG_TABLES
from arco.domains.tables.tables import (
    TABLE_COLUMNS,
    TABLE_COMMITS,
    TABLE_STATES,
    TableColumn,
    TableCommit,
    TableState,
    column_id,
    commit_key,
)

__all__ = [
    "ICEBERG_COMMITTED",
    "ICEBERG_TABLES",
    "TABLE_COLUMNS",
    "TABLE_COMMITS",
    "TABLE_STATES",
    "CommitSource",
    "CommitState",
    "IcebergColumn",
    "IcebergCommitted",
    "IcebergKind",
    "TableColumn",
    "TableCommit",
    "TableState",
    "column_id",
    "commit_key",
]
