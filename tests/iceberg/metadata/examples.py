"""Tables, views and updates for the tests of metadata: one valid example of everything."""

from typing import Any

from arco.iceberg.metadata import (
    Doc,
    apply_updates,
    apply_view_updates,
    new_table,
    new_view,
    parse_create,
    parse_create_view,
    parse_updates,
)

UUID = "018f0000-0000-7000-8000-000000000001"
LOCATION = "s3://bucket/warehouse/t"
BASE = f"{LOCATION}/metadata/00000.metadata.json"
NOW = 1_700_000_000_000
VERSIONS = (1, 2, 3)


def column(field_id: int, name: str, kind: Any = "long", required: Any = False, **more: Any) -> Doc:
    return {"id": field_id, "name": name, "type": kind, "required": required, **more}


def schema(*fields: Doc, **more: Any) -> Doc:
    return {"type": "struct", "fields": list(fields), **more}


COLUMNS = (column(1, "id", required=True), column(2, "ts", "timestamp"), column(3, "name", "string"))


def spec_field(name: str, transform: str, source: int, field_id: int | None = None) -> Doc:
    field: Doc = {"name": name, "transform": transform, "source-id": source}
    return field if field_id is None else {**field, "field-id": field_id}


def sort_field(source: int, transform: str = "identity") -> Doc:
    return {"transform": transform, "source-id": source, "direction": "asc", "null-order": "nulls-first"}


def create_body(version: Any = 2, **more: Any) -> Doc:
    properties = {"format-version": str(version), **more.pop("properties", {})}
    return {"name": "t", "schema": schema(*COLUMNS), "properties": properties, **more}


def table(version: Any = 2, **more: Any) -> Doc:
    request = parse_create(create_body(version, **more))
    return new_table(request, location=LOCATION, table_uuid=UUID, now_ms=NOW)


def snapshot(snapshot_id: int, version: Any = 2, *, number: Any = 1, parent: Any = None, **more: Any) -> Doc:
    made: Doc = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": NOW + snapshot_id,
        "manifest-list": f"{LOCATION}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append", "added-records": "10", "total-records": str(10 * number)},
        "schema-id": 0,
    }
    if version > 1:
        made["sequence-number"] = number
    if version > 2:
        made |= {"first-row-id": 10 * (number - 1), "added-rows": 10}
    if parent is not None:
        made["parent-snapshot-id"] = parent
    return made | more


def add(made: Doc) -> Doc:
    return {"action": "add-snapshot", "snapshot": made}


def ref(name: str, snapshot_id: int, kind: Any = "branch", **more: Any) -> Doc:
    return {"action": "set-snapshot-ref", "ref-name": name, "snapshot-id": snapshot_id, "type": kind, **more}


def edit(base: Doc | None, *updates: Doc, now: int = NOW + 1000, **more: Any) -> Doc:
    """The document after these updates, given as JSON."""
    return apply_updates(base, parse_updates(updates), now_ms=now, base_location=BASE, **more)


def grown(version: int = 2, snapshots: int = 3) -> Doc:
    """A table with some snapshots on main, one after the other, each in a commit of its own."""
    document = table(version)
    for number in range(1, snapshots + 1):
        made = snapshot(number, version, number=number, parent=number - 1 or None)
        document = edit(document, add(made), ref("main", number))
    return document


STATISTICS: Doc = {
    "snapshot-id": 1,
    "statistics-path": "s3://bucket/s.puffin",
    "file-size-in-bytes": 10,
    "file-footer-size-in-bytes": 4,
    "blob-metadata": [
        {"type": "a-new-kind", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": {"ndv": "3"}}
    ],
}
PARTITION_STATISTICS: Doc = {"snapshot-id": 1, "statistics-path": "s3://bucket/p.parquet", "file-size-in-bytes": 10}
KEY: Doc = {"key-id": "k1", "encrypted-key-metadata": "AQID", "encrypted-by-id": "kek", "properties": {"a": "b"}}


def version(version_id: int = 1, sql: Any = "select 1", dialect: Any = "spark", **more: Any) -> Doc:
    return {
        "version-id": version_id,
        "schema-id": 0,
        "timestamp-ms": NOW + version_id,
        "summary": {"engine-name": "spark"},
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect}],
        "default-namespace": ["ns"],
        **more,
    }


def view(**more: Any) -> Doc:
    body = {"name": "v", "schema": schema(*COLUMNS), "view-version": version(), "properties": {}, **more}
    return new_view(parse_create_view(body), location=LOCATION, view_uuid=UUID)


def edit_view(base: Doc, *updates: Doc, now: int = NOW + 1000) -> Doc:
    return apply_view_updates(base, parse_updates(updates, view=True), now_ms=now)


def table_updates(version: int = 2) -> dict[str, Doc]:
    """One valid update of every action, for `grown(version)`."""
    new_columns = (*COLUMNS, column(4, "more", "int"))
    made = snapshot(9, version, number=9, parent=3, **({"first-row-id": 30} if version > 2 else {}))
    order = {"order-id": 1, "fields": [sort_field(1)]}
    bodies: dict[str, Doc] = {
        "assign-uuid": {"uuid": UUID},
        "upgrade-format-version": {"format-version": 3},
        "add-schema": {"schema": schema(*new_columns, **{"schema-id": 7}), "last-column-id": 4},
        "set-current-schema": {"schema-id": 0},
        "add-spec": {"spec": {"spec-id": 5, "fields": [spec_field("ts_day", "day", 2, 1000)]}},
        "set-default-spec": {"spec-id": 0},
        "add-sort-order": {"sort-order": order},
        "set-default-sort-order": {"sort-order-id": 0},
        "add-snapshot": {"snapshot": made},
        "set-snapshot-ref": {
            "ref-name": "b",
            "snapshot-id": 2,
            "type": "branch",
            "min-snapshots-to-keep": 2,
            "max-snapshot-age-ms": 5,
            "max-ref-age-ms": 6,
        },
        "remove-snapshots": {"snapshot-ids": [1]},
        "remove-snapshot-ref": {"ref-name": "main"},
        "set-location": {"location": "s3://bucket/other"},
        "set-properties": {"updates": {"a": "b"}},
        "remove-properties": {"removals": ["write.parquet.compression-codec"]},
        "set-statistics": {"snapshot-id": 1, "statistics": STATISTICS},
        "remove-statistics": {"snapshot-id": 1},
        "set-partition-statistics": {"partition-statistics": PARTITION_STATISTICS},
        "remove-partition-statistics": {"snapshot-id": 1},
        "remove-partition-specs": {"spec-ids": [4]},
        "remove-schemas": {"schema-ids": [4]},
        "add-encryption-key": {"encryption-key": KEY},
        "remove-encryption-key": {"key-id": "k1"},
    }
    return {action: {"action": action, **body} for action, body in bodies.items()}


def view_updates() -> dict[str, Doc]:
    """One valid update of every action, for `view()`."""
    bodies: dict[str, Doc] = {
        "assign-uuid": {"uuid": UUID},
        "upgrade-format-version": {"format-version": 1},
        "add-schema": {"schema": schema(column(1, "other"))},
        "set-location": {"location": "s3://bucket/other"},
        "set-properties": {"updates": {"a": "b"}},
        "remove-properties": {"removals": ["a"]},
        "add-view-version": {"view-version": version(2, "select 2")},
        "set-current-view-version": {"view-version-id": 1},
    }
    return {action: {"action": action, **body} for action, body in bodies.items()}


REQUIREMENTS: dict[str, Doc] = {
    "assert-create": {},
    "assert-table-uuid": {"uuid": UUID},
    "assert-ref-snapshot-id": {"ref": "main", "snapshot-id": 3},
    "assert-last-assigned-field-id": {"last-assigned-field-id": 3},
    "assert-current-schema-id": {"current-schema-id": 0},
    "assert-last-assigned-partition-id": {"last-assigned-partition-id": 999},
    "assert-default-spec-id": {"default-spec-id": 0},
    "assert-default-sort-order-id": {"default-sort-order-id": 0},
}
