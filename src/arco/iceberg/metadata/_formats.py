"""The first document of a table, and what the formats write in different ways."""

from collections.abc import Iterable

from arco.iceberg._errors import BadRequest
from arco.iceberg.metadata._documents import NO_SNAPSHOT, current_snapshot_id
from arco.iceberg.metadata._reading import Doc

__all__ = ["empty_table", "find", "in_format", "stripped"]


def empty_table(version: int) -> Doc:
    """A table before its first update."""
    return {
        "format-version": version,
        "table-uuid": None,
        "location": None,
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [],
        "last-partition-id": 0,
        "default-sort-order-id": 0,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": NO_SNAPSHOT,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }


def in_format(doc: Doc) -> Doc:
    """The new document as its format writes it."""
    version = doc["format-version"]
    if current_snapshot_id(doc) is None:
        doc["current-snapshot-id"] = None if version >= 3 else NO_SNAPSHOT
    if version == 1:
        doc.pop("last-sequence-number", None)
        doc["schema"] = find(doc["schemas"], "schema-id", doc["current-schema-id"])
        spec = find(doc["partition-specs"], "spec-id", doc["default-spec-id"])
        doc["partition-spec"] = spec["fields"] if spec else []
    else:
        doc["last-sequence-number"] = doc.get("last-sequence-number") or 0
        doc.pop("schema", None)
        doc.pop("partition-spec", None)
    if version >= 3 and doc.get("next-row-id") is None:
        doc["next-row-id"] = 0
    if not doc.get("encryption-keys", True):
        del doc["encryption-keys"]
    return doc


def stripped(location: str) -> str:
    """A location without slashes at its end; a scheme's own stay."""
    if not location:
        raise BadRequest("a location must not be empty")
    while location.endswith("/") and not location.endswith("://"):
        location = location[:-1]
    return location


def find(values: Iterable[Doc], field: str, wanted: int | str) -> Doc | None:
    """The part whose id is wanted; one without an id has 0."""
    return next((value for value in values if (value.get(field) or 0) == wanted), None)
