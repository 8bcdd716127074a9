"""Tables of Iceberg tables and views, all in the group of their table.

- `table_commits` (facts): one row per pointer, with who wrote it and what is known of where its data came from.
- `table_states` (images): how a table stands after the newest pointer that was told; dropped ones keep their row.
- `table_columns` (images): the columns of its current schema; none once it is dropped.

Iceberg's metadata is the truth of its tables; these follow it. `system.columns` shows the columns of both kinds.
"""

import msgspec

from arco.core import derive_ulid
from arco.state import Kind, Table, Time

__all__ = [
    "TABLE_COLUMNS",
    "TABLE_COMMITS",
    "TABLE_STATES",
    "TableColumn",
    "TableCommit",
    "TableState",
    "column_id",
    "commit_key",
]


class TableCommit(msgspec.Struct, frozen=True, gc=False):
    table_id: str
    commit: str
    """The number with zeros before it, so that it sorts as a text."""
    number: int
    kind: str
    """`table` or `view`."""
    state: str
    """`live`, `dropped`, or `aborted` for the number of a transaction that did not come about."""
    source: str
    """`servo`, `external` or `admin`."""
    lineage_confidence: str
    """`verified` if a run of Servo was seen to write it, `declared_unverified` for other engines, else `none`."""
    quality_status: str
    """`checked` if the checks of a run went with it, else `not_checked`."""
    actor: str
    client: str | None
    run_id: str | None
    materialization_id: str | None
    transaction_id: str | None
    operation_id: str | None
    operation: str | None
    """What made the snapshot; None if there is no other one than before."""
    table_uuid: str
    snapshot_id: int | None
    parent_snapshot_id: int | None
    sequence_number: int
    schema_id: int | None
    is_schema_change: bool
    metadata_location: str | None
    previous_location: str | None
    added_rows: int | None
    deleted_rows: int | None
    added_files: int | None
    deleted_files: int | None
    total_rows: int | None
    total_files: int | None
    total_bytes: int | None
    committed_at: Time
    recorded_at: Time
    """When the log heard of it."""


class TableState(msgspec.Struct, frozen=True, gc=False):
    table_id: str
    kind: str
    state: str
    """`live` or `dropped`."""
    number: int
    """The newest pointer that was told and is not aborted; what follows is as it says. 0 before any."""
    table_uuid: str
    format_version: int
    metadata_location: str | None
    snapshot_id: int | None
    sequence_number: int
    schema_id: int | None
    row_count: int | None
    file_count: int | None
    byte_size: int | None
    last_source: str
    last_actor: str
    committed_at: Time | None
    schema_number: int
    """The newest pointer that brought a schema."""
    dropped_number: int
    """The newest pointer that dropped it; 0 if none did. Schemas before it count for nothing."""
    recorded_through: int
    """All pointers up to this one were told."""
    updated_at: Time


class TableColumn(msgspec.Struct, frozen=True, gc=False):
    """Named as the columns of ordinary tables are, because one view shows both."""

    column_id: str
    table_id: str
    name: str
    data_type: str
    ordinal_position: int
    is_nullable: bool
    description: str | None
    field_id: int
    schema_number: int
    updated_at: Time


TABLE_COMMITS = Table(
    "table_commits",
    TableCommit,
    Kind.FACT,
    ("table_id", "commit"),
    "table_id",
    time="committed_at",
    prune=("committed_at",),
)
TABLE_STATES = Table("table_states", TableState, Kind.IMAGE, ("table_id",), "table_id")
TABLE_COLUMNS = Table("table_columns", TableColumn, Kind.IMAGE, ("table_id", "column_id"), "table_id")


def commit_key(table_id: str, number: int) -> tuple[str, str]:
    """The key of a commit."""
    return table_id, f"{number:020d}"


def column_id(table_id: str, field_id: int) -> str:
    """The id of a column, which keeps it as long as Iceberg keeps its field: through renames and moves."""
    return derive_ulid(0, f"{table_id}/{field_id}")
