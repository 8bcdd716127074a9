"""What others want to know of a metadata document: pointers, events and projections are made of it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from arco.iceberg.metadata._documents import current_refs, current_snapshot_id, normalised
from arco.iceberg.metadata._reading import Doc
from arco.iceberg.metadata._schemas import id_of
from arco.iceberg.metadata._types import parse_primitive
from arco.iceberg.metadata._versions import dialects

__all__ = ["Column", "SnapshotSummary", "TableSummary", "ViewSummary", "summary_of", "view_summary_of"]

_COUNTS = frozenset(
    (
        "added-data-files",
        "deleted-data-files",
        "total-data-files",
        "added-delete-files",
        "removed-delete-files",
        "total-delete-files",
        "added-records",
        "deleted-records",
        "total-records",
        "added-files-size",
        "removed-files-size",
        "total-files-size",
        "added-position-deletes",
        "total-position-deletes",
        "added-equality-deletes",
        "total-equality-deletes",
        "changed-partition-count",
    )
)


class Column(msgspec.Struct, frozen=True):
    """A column of the table or view; one with a nested type is one column."""

    id: int
    name: str
    type: str
    required: bool
    doc: str | None = None


class SnapshotSummary(msgspec.Struct, frozen=True):
    id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str | None
    counts: Mapping[str, int]
    """Rows, files and bytes, by the names that snapshots give them: `added-records`, `total-data-files`, …"""


class TableSummary(msgspec.Struct, frozen=True):
    uuid: str | None
    location: str
    format_version: int
    last_updated_ms: int
    last_sequence_number: int
    current_snapshot_id: int | None
    current_schema_id: int
    columns: tuple[Column, ...]
    partition_fields: tuple[str, ...]
    refs: Mapping[str, int]
    """Snapshots by the names of the branches and tags that lead to them."""
    snapshot: SnapshotSummary | None
    snapshot_count: int


class ViewSummary(msgspec.Struct, frozen=True):
    uuid: str
    location: str
    format_version: int
    current_version_id: int
    timestamp_ms: int
    columns: tuple[Column, ...]
    dialects: tuple[str, ...]


def summary_of(metadata: Doc) -> TableSummary:
    """What a table's document says of it now."""
    table = normalised(metadata)
    current = current_snapshot_id(table)
    snapshots = table.get("snapshots") or ()
    newest_first = reversed(snapshots) if current is not None else ()
    snapshot = next((one for one in newest_first if one["snapshot-id"] == current), None)
    spec = next(one for one in table["partition-specs"] if one["spec-id"] == table["default-spec-id"])
    return TableSummary(
        uuid=table.get("table-uuid"),
        location=table["location"],
        format_version=table["format-version"],
        last_updated_ms=table["last-updated-ms"],
        last_sequence_number=table.get("last-sequence-number", 0),
        current_snapshot_id=current,
        current_schema_id=table["current-schema-id"],
        columns=_columns(table["schemas"], table["current-schema-id"]),
        partition_fields=tuple(field["name"] for field in spec["fields"]),
        refs={name: ref["snapshot-id"] for name, ref in current_refs(table).items()},
        snapshot=None if snapshot is None else _snapshot(snapshot),
        snapshot_count=len(snapshots),
    )


def view_summary_of(metadata: Doc) -> ViewSummary:
    """What a view's document says of it now."""
    version = next(one for one in metadata["versions"] if one["version-id"] == metadata["current-version-id"])
    return ViewSummary(
        uuid=metadata["view-uuid"],
        location=metadata["location"],
        format_version=metadata["format-version"],
        current_version_id=metadata["current-version-id"],
        timestamp_ms=version["timestamp-ms"],
        columns=_columns(metadata["schemas"], version["schema-id"]),
        dialects=tuple(dialects(version)),
    )


def _snapshot(snapshot: Doc) -> SnapshotSummary:
    said: dict[str, str] = snapshot.get("summary") or {}
    # Counts are decimal texts of 64-bit numbers; what an engine wrote otherwise is no count.
    counts = {name: int(said[name]) for name in sorted(_COUNTS & said.keys()) if _is_count(said[name])}
    return SnapshotSummary(
        id=snapshot["snapshot-id"],
        parent_id=snapshot.get("parent-snapshot-id"),
        sequence_number=snapshot.get("sequence-number", 0),
        timestamp_ms=snapshot["timestamp-ms"],
        operation=said.get("operation"),
        counts=counts,
    )


def _is_count(text: str) -> bool:
    return len(text) <= 18 and text.isascii() and text.isdigit()


def _columns(schemas: list[Doc], schema_id: int) -> tuple[Column, ...]:
    schema = next(one for one in schemas if id_of(one) == schema_id)
    return tuple(
        Column(field["id"], field["name"], type_text(field["type"]), field["required"], field.get("doc"))
        for field in schema["fields"]
    )


def type_text(value: Any) -> str:
    """A type as one line of text: `struct<a: int, b: list<string>>`."""
    if isinstance(value, str):
        return parse_primitive(value).text.replace(", ", ",")
    if value["type"] == "struct":
        return "struct<" + ", ".join(f"{one['name']}: {type_text(one['type'])}" for one in value["fields"]) + ">"
    if value["type"] == "list":
        return f"list<{type_text(value['element'])}>"
    return f"map<{type_text(value['key'])}, {type_text(value['value'])}>"
