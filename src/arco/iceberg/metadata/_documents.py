"""Metadata documents of tables and views: read from files, brought into one form, looked into.

Documents of old writers leave out what later formats require (`schemas`, `partition-specs`, `refs`); the *normal form*
has it all. The document itself stays as it was read until it is changed.
"""

from collections.abc import Mapping
from typing import Any

from arco.iceberg._errors import BadRequest
from arco.iceberg.metadata import _snapshots as snapshots
from arco.iceberg.metadata._orders import check_order, parse_order
from arco.iceberg.metadata._reading import Doc, Int, Long, Shape, convert, decode
from arco.iceberg.metadata._schemas import id_of, index_schema, parse_schema
from arco.iceberg.metadata._specs import FIRST_FIELD_ID, check_columns, last_field_id, parse_spec
from arco.iceberg.metadata._versions import parse_version

__all__ = [
    "SUPPORTED_VERSION",
    "check_table",
    "check_view",
    "current_refs",
    "current_snapshot_id",
    "normalised",
    "read_table",
    "read_view",
    "refs_only",
]

SUPPORTED_VERSION = 3
NO_SNAPSHOT = -1


class _LogEntry(Shape, frozen=True):
    timestamp_ms: Long
    snapshot_id: Long


class _MetadataLogEntry(Shape, frozen=True):
    timestamp_ms: Long
    metadata_file: str


class _Table(Shape, frozen=True):
    format_version: Int
    location: str
    last_updated_ms: Long
    last_column_id: Int
    table_uuid: str | None = None
    last_sequence_number: Long | None = None
    schemas: list[Any] | None = None
    current_schema_id: Int | None = None
    partition_specs: list[Any] | None = None
    default_spec_id: Int | None = None
    last_partition_id: Int | None = None
    sort_orders: list[Any] | None = None
    default_sort_order_id: Int | None = None
    properties: dict[str, str] | None = None
    current_snapshot_id: Long | None = None
    next_row_id: Long | None = None
    snapshots: list[Any] | None = None
    refs: dict[str, Any] | None = None
    snapshot_log: list[_LogEntry] | None = None
    metadata_log: list[_MetadataLogEntry] | None = None
    statistics: list[Any] | None = None
    partition_statistics: list[Any] | None = None
    encryption_keys: list[Any] | None = None


class _VersionLogEntry(Shape, frozen=True):
    timestamp_ms: Long
    version_id: Int


class _View(Shape, frozen=True):
    view_uuid: str
    format_version: Int
    location: str
    schemas: list[Any]
    current_version_id: Int
    versions: list[Any]
    version_log: list[_VersionLogEntry]
    properties: dict[str, str] | None = None


def read_table(data: bytes) -> Doc:
    """The metadata document of a table in a file's bytes, or `BadRequest` if it is none."""
    return check_table(decode(data, "table metadata"))


def read_view(data: bytes) -> Doc:
    """The metadata document of a view in a file's bytes, or `BadRequest` if it is none."""
    return check_view(decode(data, "view metadata"))


def check_table(document: Doc) -> Doc:
    """The document itself, if everything that is understood of it is in order and fits together; else `BadRequest`."""
    what = "table metadata"
    shape = convert(document, _Table, what)
    if not 1 <= shape.format_version <= SUPPORTED_VERSION:
        raise BadRequest(f"Cannot read unsupported version {shape.format_version}")
    if shape.format_version > 1:
        needed = ["table-uuid", "last-sequence-number", "schemas", "partition-specs", "last-partition-id"]
        needed += ["sort-orders"] + (["next-row-id"] if shape.format_version > 2 else [])
        for name in needed:
            if document.get(name) is None:
                raise BadRequest(f"Cannot parse {what}: {name} must exist in format v{shape.format_version}")
    _check_parts(shape)
    table = normalised(document)
    schema = index_schema(_one_of(table["schemas"], "schema-id", table.get("current-schema-id"), "current-schema-id"))
    check_columns(_one_of(table["partition-specs"], "spec-id", table.get("default-spec-id"), "default-spec-id"), schema)
    orders, order_id = table["sort-orders"], table.get("default-sort-order-id")
    check_order(_one_of(orders, "order-id", order_id, "default-sort-order-id"), schema)
    _check_references(table)
    schema = index_schema(next(one for one in table["schemas"] if id_of(one) == table["current-schema-id"]))
    check_columns(next(one for one in table["partition-specs"] if one["spec-id"] == table["default-spec-id"]), schema)
    check_order(next(one for one in table["sort-orders"] if one["order-id"] == table["default-sort-order-id"]), schema)
    return document


def check_view(document: Doc) -> Doc:
    """The document itself, if everything that is understood of it is in order and fits together; else `BadRequest`."""
    what = "view metadata"
    shape = convert(document, _View, what)
    if shape.format_version != 1:
        raise BadRequest(f"Unsupported format version: {shape.format_version}")
    for schema in shape.schemas:
        parse_schema(schema, f"{what} schema")
    for version in shape.versions:
        parse_version(version, f"{what} version")
    _one_of(shape.versions, "version-id", shape.current_version_id, "current-version-id")
    ids = [id_of(schema) for schema in shape.schemas]
    for version in shape.versions:
        if version["version-id"] == shape.current_version_id and version["schema-id"] not in ids:
            raise BadRequest(f"Cannot find current schema with id {version['schema-id']} in schemas: {ids}")
    return document


def _check_parts(shape: _Table) -> None:
    what = "table metadata"
    for schema in shape.schemas or ():
        parse_schema(schema, f"{what} schema")
    for spec in shape.partition_specs or ():
        if "spec-id" not in parse_spec(spec, f"{what} partition spec"):
            raise BadRequest(f"Cannot parse {what} partition spec: Object missing required field `spec-id`")
    for order in shape.sort_orders or ():
        parse_order(order, f"{what} sort order")
    for snapshot in shape.snapshots or ():
        snapshots.parse_snapshot(snapshot, f"{what} snapshot")
    for name, ref in (shape.refs or {}).items():
        snapshots.parse_ref(ref, f"{what} ref {name}")
    for statistics in shape.statistics or ():
        snapshots.parse_statistics(statistics, f"{what} statistics")
    for statistics in shape.partition_statistics or ():
        snapshots.parse_partition_statistics(statistics, f"{what} partition statistics")
    for key in shape.encryption_keys or ():
        snapshots.parse_key(key, f"{what} encryption key")


def _check_references(table: Doc) -> None:
    last = table.get("last-sequence-number") or 0
    ids = set()
    for snapshot in table.get("snapshots") or ():
        if snapshot["snapshot-id"] in ids:
            raise BadRequest(f"Cannot parse table metadata: snapshot {snapshot['snapshot-id']} is there twice")
        ids.add(snapshot["snapshot-id"])
        number = snapshot.get("sequence-number", 0)
        if number > last:
            raise BadRequest(f"Invalid snapshot with sequence number {number} greater than last sequence number {last}")
    current, refs = current_snapshot_id(table), current_refs(table)
    if current is not None and current not in ids:
        raise BadRequest("Invalid table metadata: Cannot find current version")
    for name, ref in refs.items():
        if ref["snapshot-id"] not in ids:
            raise BadRequest(f"Snapshot for reference {name} does not exist in the existing snapshots list")
    main = refs.get(snapshots.MAIN)
    if main is not None and main["snapshot-id"] != current:
        raise BadRequest(f"Current snapshot ID does not match main branch ({current} != {main['snapshot-id']})")


def _one_of(values: list[Doc], field: str, wanted: int | None, what: str) -> Doc:
    ids = [value.get(field) or 0 for value in values]
    if len(set(ids)) < len(ids):
        raise BadRequest(f"Cannot parse metadata: a {field} is there twice: {ids}")
    if wanted not in ids:
        raise BadRequest(f"Cannot find {field} with {what}={wanted}; there are {ids}")
    return values[ids.index(wanted)]


def normalised(document: Doc) -> Doc:
    """The table in normal form: the document itself, or a copy with what format 1 let writers leave out."""
    missing: Doc = {}
    if document.get("schemas") is None:
        schema = parse_schema(document.get("schema"), "table metadata schema")
        missing |= {"schemas": [{"schema-id": 0, **schema}], "current-schema-id": id_of(schema)}
    if document.get("partition-specs") is None:
        spec = parse_spec({"spec-id": 0, "fields": document.get("partition-spec")}, "table metadata partition-spec")
        missing |= {"partition-specs": [_numbered(spec)], "default-spec-id": 0}
    elif not all("field-id" in field for spec in document["partition-specs"] for field in spec["fields"]):
        missing["partition-specs"] = [_numbered(spec) for spec in document["partition-specs"]]
    if document.get("last-partition-id") is None:
        specs = missing.get("partition-specs") or document["partition-specs"]
        missing["last-partition-id"] = max(map(last_field_id, specs), default=FIRST_FIELD_ID - 1)
    if document.get("sort-orders") is None:
        missing |= {"sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0}
    current = current_snapshot_id(document)
    if document.get("refs") is None and current is not None:
        missing["refs"] = {snapshots.MAIN: {"snapshot-id": current, "type": "branch"}}
    return {**document, **missing} if missing else document


def _numbered(spec: Doc) -> Doc:
    fields = [
        field if "field-id" in field else {**field, "field-id": FIRST_FIELD_ID + place}
        for place, field in enumerate(spec["fields"])
    ]
    return {**spec, "fields": fields}


def current_snapshot_id(table: Mapping[str, Any]) -> int | None:
    """The snapshot that readers of the table see, if it has one."""
    current = table.get("current-snapshot-id")
    return None if current in (None, NO_SNAPSHOT) else current


def current_refs(table: Mapping[str, Any]) -> Mapping[str, Doc]:
    """The table's branches and tags by name."""
    refs: Mapping[str, Doc] | None = table.get("refs")
    if refs is not None:
        return refs
    current = current_snapshot_id(table)
    return {} if current is None else {snapshots.MAIN: {"snapshot-id": current, "type": "branch"}}


def refs_only(table: Doc) -> Doc:
    """The table with only those snapshots that a branch or tag leads to."""
    wanted = {ref["snapshot-id"] for ref in current_refs(table).values()}
    kept = [snapshot for snapshot in table.get("snapshots") or () if snapshot["snapshot-id"] in wanted]
    return {**table, "snapshots": kept}
