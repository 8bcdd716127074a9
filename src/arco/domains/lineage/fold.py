"""The fold of lineage: uses of edges by source, then the indexes that follow from the edges.

What a task tells is folded once per run, task and edge. The order in which tasks tell does not matter: first and last
use go by the tasks' own times, and so does which column lineage is the newest; equal times are told apart by position.
What is counted is counted together with the one row of its use, so that counts outlive the rows and none counts twice.
"""

import msgspec

from arco.core import day_of
from arco.domains.lineage.columns import ColumnLineage, is_stronger
from arco.domains.lineage.commands import COMMANDS, last_touched
from arco.domains.lineage.events import (
    EVENTS,
    EdgeIdentity,
    EdgeRecord,
    LineageEdgeAdded,
    LineageEdgeDropped,
    LineageEdgesExpired,
    LineageRecorded,
    execution_id,
    identify,
)
from arco.domains.lineage.tables import (
    LINEAGE_EDGES,
    LINEAGE_EXECUTION_DAYS,
    LINEAGE_EXECUTIONS,
    LINEAGE_IDS,
    LINEAGE_METADATA,
    LINEAGE_UPSTREAM,
    EdgeIdRow,
    EdgeMetadata,
    LineageEdge,
    LineageExecution,
    LineageExecutionDay,
    UpstreamEdge,
)
from arco.state import Change, Domain, Group, Input, Stage

__all__ = ["LINEAGE"]


def _sources_of(item: Input) -> tuple[str, ...]:
    event = item.payload
    if isinstance(event, LineageRecorded | LineageEdgesExpired):
        return tuple(sorted({edge.source_id for edge in event.edges}))
    return (event.source_id,)


def _fold_edges(group: Group, item: Input) -> None:
    event = item.payload
    if isinstance(event, LineageRecorded):
        for record in event.edges:
            if record.source_id == group.key:
                _fold_use(group, item, event, record)
    elif isinstance(event, LineageEdgeAdded):
        _fold_added(group, item, event)
    elif isinstance(event, LineageEdgesExpired):
        _fold_expired(group, event)
    else:
        _fold_dropped(group, item, event)


def _fold_use(group: Group, item: Input, event: LineageRecorded, record: EdgeRecord) -> None:
    identity = identify(
        record.source_id, record.target_id, record.parameter, record.partition_mapping, record.transform_fingerprint
    )
    execution = execution_id(event.run_id, event.task_id, identity.edge_id)
    if group.get(LINEAGE_EXECUTIONS, execution) is not None:
        return
    # First of all: a use older than what is kept is rejected here, and must not be counted either.
    group.put(
        LINEAGE_EXECUTIONS,
        LineageExecution(
            execution,
            identity.edge_id,
            record.source_id,
            record.target_id,
            event.run_id,
            event.task_id,
            record.source_materializations,
            record.target_materialization,
            record.source_partitions,
            record.target_partitions,
            event.started_at,
            event.completed_at,
            record.rows_read,
            record.rows_written,
        ),
    )
    _note_edge(group, item, event, record, identity)
    _note_seen(group, item, event, identity)
    _note_day(group, event, record, identity)


def _note_edge(group: Group, item: Input, event: LineageRecorded, record: EdgeRecord, identity: EdgeIdentity) -> None:
    before: LineageEdge | None = group.get(LINEAGE_EDGES, identity.edge_id)
    row = before or _new_edge(item, record, identity)
    if record.column_lineage is not None and _is_better(record, record.column_lineage, event.completed_at, row):
        row = msgspec.structs.replace(
            row,
            recorded_lineage=record.column_lineage,
            recorded_lineage_at=event.completed_at,
            recorded_lineage_code=record.code_version or None,
            column_lineage=row.manual_lineage or record.column_lineage,
        )
    row = msgspec.structs.replace(row, recorded=True)
    if row != before:
        group.put(LINEAGE_EDGES, msgspec.structs.replace(row, updated_at=item.received))


def _is_better(record: EdgeRecord, lineage: ColumnLineage, time: int, row: LineageEdge) -> bool:
    known, known_at = row.recorded_lineage, row.recorded_lineage_at
    if known is None or known_at is None:
        return True
    of_code, known_of_code = bool(record.code_version), row.recorded_lineage_code is not None
    if of_code or known_of_code:
        # Each tells the best that is known of its code: what is said by hand in older code holds no longer.
        return time >= known_at if of_code and known_of_code else of_code
    stronger = is_stronger(lineage, known)
    return time >= known_at if stronger is None else stronger


def _note_seen(group: Group, item: Input, event: LineageRecorded, identity: EdgeIdentity) -> None:
    row: EdgeMetadata = group.get(LINEAGE_METADATA, identity.edge_id) or _new_metadata(group, item, identity)
    run, time = event.run_id, event.completed_at
    if row.first_seen_at is None or time < row.first_seen_at:
        row = msgspec.structs.replace(row, first_seen_run=run, first_seen_at=time)
    if row.last_seen_at is None or time >= row.last_seen_at:
        row = msgspec.structs.replace(row, last_seen_run=run, last_seen_at=time)
    group.put(
        LINEAGE_METADATA,
        msgspec.structs.replace(row, execution_count=row.execution_count + 1, updated_at=item.received),
    )


def _note_day(group: Group, event: LineageRecorded, record: EdgeRecord, identity: EdgeIdentity) -> None:
    day, time = day_of(event.completed_at), event.completed_at
    row: LineageExecutionDay = group.get(LINEAGE_EXECUTION_DAYS, (identity.edge_id, day)) or LineageExecutionDay(
        identity.edge_id, day, record.source_id, record.target_id, 0, None, None, time, time
    )
    group.put(
        LINEAGE_EXECUTION_DAYS,
        LineageExecutionDay(
            row.edge_id,
            day,
            row.source_id,
            row.target_id,
            row.execution_count + 1,
            _sum(row.rows_read, record.rows_read),
            _sum(row.rows_written, record.rows_written),
            min(row.first_completed_at, time),
            max(row.last_completed_at, time),
        ),
    )


def _sum(known: int | None, told: int | None) -> int | None:
    return known if told is None else told + (known or 0)


def _fold_expired(group: Group, event: LineageEdgesExpired) -> None:
    for ref in event.edges:
        if ref.source_id != group.key:
            continue
        edge: LineageEdge | None = group.get(LINEAGE_EDGES, ref.edge_id)
        if edge is not None and last_touched(edge, group.get(LINEAGE_METADATA, ref.edge_id)) < event.before:
            group.delete(LINEAGE_EDGES, ref.edge_id)
            group.delete(LINEAGE_METADATA, ref.edge_id)


def _fold_added(group: Group, item: Input, event: LineageEdgeAdded) -> None:
    record = EdgeRecord(event.source_id, event.target_id)
    identity = identify(event.source_id, event.target_id)
    edge: LineageEdge = group.get(LINEAGE_EDGES, identity.edge_id) or _new_edge(item, record, identity)
    about: EdgeMetadata = group.get(LINEAGE_METADATA, identity.edge_id) or _new_metadata(group, item, identity)
    group.put(LINEAGE_EDGES, _by_hand(edge, item, manual=True, lineage=event.column_lineage))
    group.put(
        LINEAGE_METADATA,
        msgspec.structs.replace(about, owner=event.owner, description=event.description, updated_at=item.received),
    )


def _fold_dropped(group: Group, item: Input, event: LineageEdgeDropped) -> None:
    edge: LineageEdge | None = group.get(LINEAGE_EDGES, identify(event.source_id, event.target_id).edge_id)
    if edge is None or not edge.manual:
        return
    if not edge.recorded:
        group.delete(LINEAGE_EDGES, edge.edge_id)
        group.delete(LINEAGE_METADATA, edge.edge_id)
        return
    about: EdgeMetadata = group.get(LINEAGE_METADATA, edge.edge_id)
    group.put(LINEAGE_EDGES, _by_hand(edge, item, manual=False, lineage=None))
    group.put(LINEAGE_METADATA, msgspec.structs.replace(about, owner=None, description=None, updated_at=item.received))


def _by_hand(edge: LineageEdge, item: Input, *, manual: bool, lineage: ColumnLineage | None) -> LineageEdge:
    return msgspec.structs.replace(
        edge,
        manual=manual,
        manual_lineage=lineage,
        column_lineage=lineage or edge.recorded_lineage,
        updated_at=item.received,
    )


def _new_edge(item: Input, record: EdgeRecord, identity: EdgeIdentity) -> LineageEdge:
    return LineageEdge(
        edge_id=identity.edge_id,
        source_id=record.source_id,
        target_id=record.target_id,
        parameter=record.parameter,
        partition_mapping=record.partition_mapping,
        transform_fingerprint=record.transform_fingerprint,
        dependency_fingerprint=identity.dependency_fingerprint,
        manual=False,
        recorded=False,
        column_lineage=None,
        manual_lineage=None,
        recorded_lineage=None,
        recorded_lineage_at=None,
        created_at=item.received,
        updated_at=item.received,
    )


def _new_metadata(group: Group, item: Input, identity: EdgeIdentity) -> EdgeMetadata:
    return EdgeMetadata(
        edge_id=identity.edge_id,
        source_id=group.key,
        first_seen_run=None,
        first_seen_at=None,
        last_seen_run=None,
        last_seen_at=None,
        execution_count=0,
        owner=None,
        description=None,
        updated_at=item.received,
    )


def _edge_of(change: Change) -> LineageEdge:
    """The edge that a change is about; its ends never change."""
    edge: LineageEdge = change.after or change.before
    return edge


def _fold_upstream(group: Group, item: Input) -> None:
    edge = _edge_of(item.payload)
    if item.payload.after is None:
        group.delete(LINEAGE_UPSTREAM, (edge.target_id, edge.edge_id))
        return
    row = UpstreamEdge(edge.target_id, edge.edge_id, edge.source_id, edge.manual, edge.recorded)
    if row != group.get(LINEAGE_UPSTREAM, (edge.target_id, edge.edge_id)):
        group.put(LINEAGE_UPSTREAM, row)


def _fold_id(group: Group, item: Input) -> None:
    edge = _edge_of(item.payload)
    if item.payload.after is None:
        group.delete(LINEAGE_IDS, edge.edge_id)
    elif item.payload.before is None:
        group.put(LINEAGE_IDS, EdgeIdRow(edge.edge_id, edge.source_id, edge.target_id))


LINEAGE = Domain(
    name="lineage",
    log="activity",
    version=2,
    events=EVENTS,
    stages=(
        Stage(
            "edges",
            (LINEAGE_EDGES, LINEAGE_METADATA, LINEAGE_EXECUTIONS, LINEAGE_EXECUTION_DAYS),
            _sources_of,
            _fold_edges,
            events=tuple(event.name for event in EVENTS),
        ),
        Stage(
            "upstream",
            (LINEAGE_UPSTREAM,),
            lambda item: (_edge_of(item.payload).target_id,),
            _fold_upstream,
            changes=(LINEAGE_EDGES,),
        ),
        Stage(
            "ids", (LINEAGE_IDS,), lambda item: (_edge_of(item.payload).edge_id,), _fold_id, changes=(LINEAGE_EDGES,)
        ),
    ),
    commands=COMMANDS,
)
