"""The fold of Iceberg tables: every pointer is a fact, the newest one says how its table stands, in any order.

What is kept beside the newest number makes late news harmless: the newest number that brought a schema, the newest that
dropped the table, and how far all numbers are known.
"""

from contextlib import suppress

import msgspec

from arco.domains.tables.events import (
    EVENTS,
    ICEBERG_COMMITTED,
    CommitSource,
    CommitState,
    IcebergCommitted,
)
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
from arco.state import Domain, Group, Input, Reject, Stage

__all__ = ["ICEBERG_TABLES"]

_CONFIDENCE = {
    CommitSource.SERVO: "verified",
    CommitSource.EXTERNAL: "declared_unverified",
    CommitSource.ADMIN: "none",
}
_QUALITY = {
    CommitSource.SERVO: "checked",
    CommitSource.EXTERNAL: "not_checked",
    CommitSource.ADMIN: "not_checked",
}


def _fold_commit(group: Group, item: Input) -> None:
    event: IcebergCommitted = item.payload
    table_id = event.table_id
    if group.get(TABLE_COMMITS, commit_key(table_id, event.number)) is not None:
        return
    # A commit older than what is kept leaves no row, but may still be the newest that is known of its table.
    with suppress(Reject):
        group.put(TABLE_COMMITS, _commit(event, item.received))
    before: TableState | None = group.get(TABLE_STATES, table_id)
    state = _known_through(group, before or _unknown(event), event.number)
    if event.state is CommitState.DROPPED:
        state = msgspec.structs.replace(state, dropped_number=max(state.dropped_number, event.number))
    if event.state is not CommitState.ABORTED:
        state = _newest(state, event)
        state = _fold_columns(group, state, event)
    if state != before:
        group.put(TABLE_STATES, msgspec.structs.replace(state, updated_at=item.received))


def _commit(event: IcebergCommitted, received: int) -> TableCommit:
    return TableCommit(
        *commit_key(event.table_id, event.number),
        event.number,
        event.kind,
        event.state,
        event.source,
        _CONFIDENCE[event.source],
        _QUALITY[event.source],
        event.actor,
        event.client or None,
        event.run_id or None,
        event.materialization_id or None,
        event.transaction_id or None,
        event.operation_id or None,
        event.operation,
        event.table_uuid,
        event.snapshot_id,
        event.parent_snapshot_id,
        event.sequence_number,
        event.schema_id,
        event.columns is not None,
        event.metadata_location or None,
        event.previous_location or None,
        event.added_rows,
        event.deleted_rows,
        event.added_files,
        event.deleted_files,
        event.total_rows,
        event.total_files,
        event.total_bytes,
        event.committed_at,
        received,
    )


def _unknown(event: IcebergCommitted) -> TableState:
    """A table nobody has heard of before."""
    return TableState(
        event.table_id, event.kind, CommitState.LIVE, 0, "", 0, None, None, 0, None, None, None, None, "", "",
        None, 0, 0, 0, 0,
    )  # fmt: skip


def _known_through(group: Group, state: TableState, number: int) -> TableState:
    """Count on from the last number without a gap. A number whose row expired counts if it comes in its turn."""
    through = state.recorded_through
    if number == through + 1:
        through = number
    while group.get(TABLE_COMMITS, commit_key(state.table_id, through + 1)) is not None:
        through += 1
    return state if through == state.recorded_through else msgspec.structs.replace(state, recorded_through=through)


def _newest(state: TableState, event: IcebergCommitted) -> TableState:
    if event.number <= state.number:
        return state
    return msgspec.structs.replace(
        state,
        kind=event.kind,
        state=event.state,
        number=event.number,
        table_uuid=event.table_uuid,
        format_version=event.format_version,
        metadata_location=event.metadata_location or None,
        snapshot_id=event.snapshot_id,
        sequence_number=event.sequence_number,
        schema_id=event.schema_id,
        row_count=event.total_rows,
        file_count=event.total_files,
        byte_size=event.total_bytes,
        last_source=event.source,
        last_actor=event.actor,
        committed_at=event.committed_at,
    )


def _fold_columns(group: Group, state: TableState, event: IcebergCommitted) -> TableState:
    """The columns are those of the newest schema, unless the table was dropped after it."""
    brought = event.columns is not None and event.number > state.schema_number
    after = msgspec.structs.replace(state, schema_number=event.number) if brought else state
    if not brought and event.state is not CommitState.DROPPED:
        return after
    is_current = after.schema_number > after.dropped_number
    if not brought and is_current:
        return after
    columns = _columns(event) if is_current else {}
    for known in group.rows(TABLE_COLUMNS):
        if known.column_id not in columns:
            group.delete(TABLE_COLUMNS, (known.table_id, known.column_id))
    for row in columns.values():
        group.put(TABLE_COLUMNS, row)
    return after


def _columns(event: IcebergCommitted) -> dict[str, TableColumn]:
    found = {}
    for position, column in enumerate(event.columns or (), 1):
        id = column_id(event.table_id, column.field_id)
        found[id] = TableColumn(
            id,
            event.table_id,
            column.name,
            column.type,
            position,
            column.nullable,
            column.doc,
            column.field_id,
            event.number,
            event.committed_at,
        )
    return found


ICEBERG_TABLES = Domain(
    name="tables",
    log="activity",
    version=1,
    events=EVENTS,
    stages=(
        Stage(
            "commits",
            (TABLE_COMMITS, TABLE_STATES, TABLE_COLUMNS),
            lambda item: (item.payload.table_id,),
            _fold_commit,
            events=(ICEBERG_COMMITTED.name,),
        ),
    ),
)
