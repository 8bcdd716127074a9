"""What the log `activity` knows of Iceberg tables and views: their columns, how they stand, their commits.

The catalog holds their names; Iceberg's metadata is the truth of everything else and is followed here a moment later.
"""

from typing import Any, cast

from arco.catalog._cursors import check_limit, decode_cursor, encode_cursor, number_in
from arco.catalog._names import View, position_of_view
from arco.core import format_time
from arco.domains.tables import (
    TABLE_COLUMNS,
    TABLE_COMMITS,
    TABLE_STATES,
    TableColumn,
    TableCommit,
    TableState,
    commit_key,
)
from arco.wire import ColumnInfo, IcebergInfo, Page, TableCommitInfo, TableInfo

__all__ = ["ICEBERG_FORMATS", "iceberg_columns", "table_commits", "with_iceberg"]

ICEBERG_FORMATS = ("ICEBERG", "ICEBERG_VIEW")


async def with_iceberg(activity: View, info: TableInfo) -> TableInfo:
    """A table of the catalog, with what its Iceberg metadata says of it."""
    state: TableState | None = await activity.get(TABLE_STATES, info.id, info.id)
    columns = await iceberg_columns(activity, info.id)
    iceberg = None if state is None or not state.number else _state(state)
    return info.model_copy(update={"columns": columns, "iceberg": iceberg})


async def iceberg_columns(activity: View, table_id: str) -> list[ColumnInfo]:
    """The columns of the current schema, in its order."""
    rows: list[TableColumn] = await activity.rows(TABLE_COLUMNS, table_id)
    return [_column(row) for row in sorted(rows, key=lambda row: row.ordinal_position)]


async def table_commits(
    activity: View, table_id: str, cursor: str | None = None, limit: int = 100
) -> Page[TableCommitInfo]:
    """The commits of a table, newest first. Pages go down by number, so that each costs the same."""
    place = f"commits/{table_id}"
    last = decode_cursor(place, cursor, 1)
    state: TableState | None = await activity.get(TABLE_STATES, table_id, table_id)
    newest = 0 if state is None else max(state.number, state.recorded_through)
    top = newest if last is None else number_in(last[0])
    rows: list[TableCommit] = []
    if top > 0:
        begin = max(0, top - check_limit(limit))
        found = await activity.page(TABLE_COMMITS, table_id, commit_key(table_id, begin), limit)
        rows = [row for row in reversed(found) if row.number <= top]
        top = begin
    following = None
    if top > 0 and await _has_older(activity, table_id, top):
        following = encode_cursor(place, (str(top),))
    return Page[TableCommitInfo](
        items=[_commit(row) for row in rows], next_cursor=following, position=str(position_of_view(activity))
    )


async def _has_older(activity: View, table_id: str, number: int) -> bool:
    """Whether a commit up to this number is kept."""
    oldest: list[TableCommit] = await activity.page(TABLE_COMMITS, table_id, None, 1)
    return bool(oldest) and oldest[0].number <= number


def _column(row: TableColumn) -> ColumnInfo:
    return ColumnInfo(
        id=row.column_id,
        name=row.name,
        type=row.data_type,
        position=row.ordinal_position,
        nullable=row.is_nullable,
        description=row.description,
        code_description=None,
        ui_description=None,
        pii_type=None,
        sensitivity=None,
        status="active",
        former_names=[],
        added_in_version=row.schema_number,
        dropped_in_version=None,
        created_at=format_time(row.updated_at),
        updated_at=format_time(row.updated_at),
    )


def _state(row: TableState) -> IcebergInfo:
    return IcebergInfo(
        number=row.number,
        uuid=row.table_uuid,
        format_version=row.format_version,
        metadata_location=row.metadata_location,
        snapshot_id=_text(row.snapshot_id),
        schema_id=row.schema_id,
        row_count=row.row_count,
        file_count=row.file_count,
        byte_size=row.byte_size,
        last_source=cast(Any, row.last_source),
        last_actor=row.last_actor,
        committed_at=format_time(row.committed_at or 0),
    )


def _commit(row: TableCommit) -> TableCommitInfo:
    return TableCommitInfo(
        number=row.number,
        state=cast(Any, row.state),
        source=cast(Any, row.source),
        lineage_confidence=cast(Any, row.lineage_confidence),
        quality_status=cast(Any, row.quality_status),
        actor=row.actor,
        client=row.client,
        run_id=row.run_id,
        materialization_id=row.materialization_id,
        transaction_id=row.transaction_id,
        operation_id=row.operation_id,
        operation=row.operation,
        snapshot_id=_text(row.snapshot_id),
        parent_snapshot_id=_text(row.parent_snapshot_id),
        schema_id=row.schema_id,
        schema_changed=row.is_schema_change,
        metadata_location=row.metadata_location,
        added_rows=row.added_rows,
        deleted_rows=row.deleted_rows,
        added_files=row.added_files,
        deleted_files=row.deleted_files,
        total_rows=row.total_rows,
        committed_at=format_time(row.committed_at),
        recorded_at=format_time(row.recorded_at),
    )


def _text(number: int | None) -> str | None:
    """As text: browsers lose integers above 2^53."""
    return None if number is None else str(number)
