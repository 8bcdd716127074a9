"""The event of a pointer: what the log `activity` is told of a commit, made of the pointer and its metadata alone.

The committer tells it, and so does whoever finds it missing; both make it here, so that both say the same.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from arco.core import ArcoError, Invalid, derive_ulid
from arco.domains.catalog import parse_type
from arco.domains.tables import (
    ICEBERG_COMMITTED,
    CommitSource,
    CommitState,
    IcebergColumn,
    IcebergCommitted,
    IcebergKind,
)
from arco.iceberg._pointer import Pointer
from arco.iceberg.metadata import Column, SnapshotSummary, summary_of, view_summary_of
from arco.log import NewEvent, find_secret
from arco.state import new_event

__all__ = ["Metadata", "committed_event", "committed_payload"]

MAX_DOC = 500
MAX_TYPE = 1_000
MAX_TEXT = 1_000
ROOM = 600_000
"""Bytes of an event that columns may take; an event has a megabyte."""

Metadata = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Said:
    """What a document says of its table or view."""

    format_version: int = 0
    sequence_number: int = 0
    columns: tuple[Column, ...] = ()
    snapshot: SnapshotSummary | None = None


def committed_event(pointer: Pointer, metadata: Metadata | None, base: Metadata | None, *, aborted: bool) -> NewEvent:
    """The event of a pointer. `metadata` is what it leads to, `base` what it replaced; None for what is not there.

    Its id follows from the pointer, so that whoever receives it twice can see that.
    """
    payload = committed_payload(pointer, metadata, base, aborted=aborted)
    event = new_event(ICEBERG_COMMITTED, payload, subject=pointer.table_id, source="arco/iceberg")
    return msgspec.structs.replace(
        event, id=derive_ulid(pointer.committed_at, f"{pointer.table_id}/{pointer.number}/{pointer.incarnation}")
    )


def committed_payload(
    pointer: Pointer, metadata: Metadata | None, base: Metadata | None, *, aborted: bool
) -> IcebergCommitted:
    told = IcebergCommitted(
        table_id=pointer.table_id,
        number=pointer.number,
        kind=IcebergKind(pointer.kind),
        state=CommitState.ABORTED if aborted else CommitState(pointer.state),
        source=CommitSource(pointer.source),
        actor=_text(pointer.actor),
        committed_at=pointer.committed_at,
        previous_location=_text(pointer.base_location or ""),
        table_uuid=pointer.table_uuid,
        client=_text(pointer.client),
        run_id=pointer.run_id,
        materialization_id=pointer.materialization_id,
        transaction_id=pointer.txn or "",
        operation_id=pointer.operation,
    )
    if told.state is not CommitState.LIVE:
        return told
    said = _said(pointer, metadata)
    told = msgspec.structs.replace(
        told,
        metadata_location=_text(pointer.metadata_location),
        format_version=said.format_version,
        schema_id=pointer.schema_id,
        sequence_number=said.sequence_number,
        snapshot_id=pointer.snapshot_id,
        columns=_columns(said.columns) if _has_other_columns(pointer, said, base) else None,
    )
    return _with_snapshot(told, said.snapshot, base)


def _said(pointer: Pointer, metadata: Metadata | None) -> _Said:
    """A registered file may be odd in any way; then little is known of it."""
    if metadata is None:
        return _Said()
    try:
        if pointer.kind == "view":
            view = view_summary_of(metadata)
            return _Said(view.format_version, columns=view.columns)
        table = summary_of(metadata)
        return _Said(table.format_version, table.last_sequence_number, table.columns, table.snapshot)
    except (ArcoError, LookupError, StopIteration, TypeError, ValueError, AttributeError):
        return _Said()


def _has_other_columns(pointer: Pointer, said: _Said, base: Metadata | None) -> bool:
    return base is None or said.columns != _said(pointer, base).columns


def _with_snapshot(told: IcebergCommitted, snapshot: SnapshotSummary | None, base: Metadata | None) -> IcebergCommitted:
    if snapshot is None:
        return told
    counts = snapshot.counts.get
    told = msgspec.structs.replace(
        told,
        parent_snapshot_id=snapshot.parent_id,
        total_rows=counts("total-records"),
        total_files=counts("total-data-files"),
        total_bytes=counts("total-files-size"),
    )
    if base is not None and _has_snapshot(base, snapshot):
        return told  # its own counts belong to the commit that made it
    return msgspec.structs.replace(
        told,
        operation=snapshot.operation,
        added_rows=counts("added-records"),
        deleted_rows=counts("deleted-records"),
        added_files=counts("added-data-files"),
        deleted_files=counts("deleted-data-files"),
    )


def _has_snapshot(base: Metadata, snapshot: SnapshotSummary) -> bool:
    if snapshot.sequence_number > (base.get("last-sequence-number") or 0):
        return False  # newer than all of them, which are thousands
    return any(known.get("snapshot-id") == snapshot.id for known in base.get("snapshots") or ())


# Texts


def _columns(columns: Iterable[Column]) -> tuple[IcebergColumn, ...]:
    """All columns; if they do not fit, their comments and long types are cut, and then the last ones left out."""
    told = tuple(
        IcebergColumn(
            field_id=column.id,
            name=_text(column.name),
            type=_type(column.type),
            nullable=not column.required,
            doc=_text(column.doc or "", MAX_DOC) or None,
        )
        for column in columns
    )
    for cut in _CUTS:
        if len(msgspec.json.encode(told)) <= ROOM:
            return told
        told = tuple(map(cut, told))
    kept, size = [], 0
    for column in told:
        size += len(msgspec.json.encode(column)) + 1
        if size > ROOM:
            break
        kept.append(column)
    return tuple(kept)


_CUTS: tuple[Callable[[IcebergColumn], IcebergColumn], ...] = (
    lambda column: msgspec.structs.replace(column, doc=None),
    lambda column: msgspec.structs.replace(column, type=column.type[:100]),
)


def _type(text: str) -> str:
    """In the catalog's words; a type it does not know, such as variant, keeps Iceberg's."""
    try:
        return parse_type(text)[:MAX_TYPE]
    except Invalid:
        return _text(text, MAX_TYPE)


def _text(text: str, limit: int = MAX_TEXT) -> str:
    """A text that the log takes: nothing secret, and no longer than that."""
    return "***" if find_secret(text) is not None else text[:limit]
