"""Table metadata: the first document of a table, and the next one after a commit's updates."""

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from arco.iceberg._errors import IllegalArgument, ValidationFailed
from arco.iceberg.metadata import _updates as updates
from arco.iceberg.metadata._documents import SUPPORTED_VERSION
from arco.iceberg.metadata._draft import LAST_ADDED, Draft
from arco.iceberg.metadata._orders import FIRST_ORDER_ID, UNSORTED
from arco.iceberg.metadata._properties import FORMAT_VERSION, check_new_table, integer, kept
from arco.iceberg.metadata._reading import Doc
from arco.iceberg.metadata._requests import CreateRequest
from arco.iceberg.metadata._schemas import fresh_schema, index_schema
from arco.iceberg.metadata._specs import FIRST_FIELD_ID
from arco.iceberg.metadata._updates import Update

__all__ = ["DEFAULT_VERSION", "apply_updates", "new_table"]

DEFAULT_VERSION = 2


def new_table(request: CreateRequest, *, location: str, table_uuid: str, now_ms: int) -> Doc:
    """The first document of a table.

    All ids are given anew, whatever the request said, and in the order in which other implementations give them.
    """
    version = integer(request.properties, FORMAT_VERSION, DEFAULT_VERSION)
    if not 1 <= version <= SUPPORTED_VERSION:
        raise IllegalArgument(f"Unsupported format version: v{version} (supported: v{SUPPORTED_VERSION})")
    properties = kept(request.properties)
    schema, became = fresh_schema(request.schema, 0, _counter())
    check_new_table(properties, index_schema(request.schema), version)
    draft = Draft(None, version=version, now_ms=now_ms)
    draft.assign_uuid(table_uuid)
    draft.set_location(location)
    draft.add_schema(schema)
    draft.set_current_schema(LAST_ADDED)
    draft.add_spec(_fresh_spec(request.partition_spec or {"fields": []}, became))
    draft.set_default_spec(LAST_ADDED)
    draft.add_order(_fresh_order(request.write_order or {"order-id": UNSORTED, "fields": []}, became))
    draft.set_default_order(LAST_ADDED)
    draft.set_properties(properties.items())
    return draft.build(None)


def apply_updates(
    base: Doc | None,
    changes: Iterable[Update],
    *,
    now_ms: int,
    base_location: str | None,
    table_uuid: str | None = None,
) -> Doc:
    """The document after the updates; the base itself if they change nothing. The base is never written to.

    `base` is None for a table that these updates create; it then has the format that they name first, and
    `table_uuid` unless they assign one. `base_location` is the file of the base, which the new document remembers.
    Raises `Invalid` for updates that make no valid table, and `CommitFailed` for ones that came too late.
    """
    listed = tuple(changes)
    version = next((one.format_version for one in listed if isinstance(one, updates.UpgradeFormatVersion)), None)
    draft = Draft(base, version=_first_version(version) if base is None else 0, now_ms=now_ms)
    for update in listed:
        _APPLY[type(update)](draft, update)
    if base is None and table_uuid is not None and draft.doc["table-uuid"] is None:
        draft.assign_uuid(table_uuid)
    return draft.build(base_location)


_APPLY: dict[type[Update], Callable[[Draft, Any], None]] = {
    updates.AssignUuid: lambda draft, one: draft.assign_uuid(one.uuid),
    updates.UpgradeFormatVersion: lambda draft, one: draft.upgrade(one.format_version),
    updates.AddSchema: lambda draft, one: draft.add_schema(one.schema),
    updates.SetCurrentSchema: lambda draft, one: draft.set_current_schema(one.schema_id),
    updates.AddPartitionSpec: lambda draft, one: draft.add_spec(one.spec),
    updates.SetDefaultSpec: lambda draft, one: draft.set_default_spec(one.spec_id),
    updates.AddSortOrder: lambda draft, one: draft.add_order(one.sort_order),
    updates.SetDefaultSortOrder: lambda draft, one: draft.set_default_order(one.sort_order_id),
    updates.AddSnapshot: lambda draft, one: draft.add_snapshot(one.snapshot),
    updates.SetSnapshotRef: lambda draft, one: draft.set_ref(one),
    updates.RemoveSnapshots: lambda draft, one: draft.remove_snapshots(one.snapshot_ids),
    updates.RemoveSnapshotRef: lambda draft, one: draft.remove_ref(one.ref_name),
    updates.SetLocation: lambda draft, one: draft.set_location(one.location),
    updates.SetProperties: lambda draft, one: draft.set_properties(one.values.items()),
    updates.RemoveProperties: lambda draft, one: draft.remove_properties(one.names),
    updates.SetStatistics: lambda draft, one: draft.set_file("statistics", one.statistics),
    updates.RemoveStatistics: lambda draft, one: draft.remove_file("statistics", one.snapshot_id),
    updates.SetPartitionStatistics: lambda draft, one: draft.set_file("partition-statistics", one.partition_statistics),
    updates.RemovePartitionStatistics: lambda draft, one: draft.remove_file("partition-statistics", one.snapshot_id),
    updates.RemovePartitionSpecs: lambda draft, one: draft.remove_specs(one.spec_ids),
    updates.RemoveSchemas: lambda draft, one: draft.remove_schemas(one.schema_ids),
    updates.AddEncryptionKey: lambda draft, one: draft.add_key(one.encryption_key),
    updates.RemoveEncryptionKey: lambda draft, one: draft.remove_key(one.key_id),
}


def _first_version(version: int | None) -> int:
    """The format of a table that does not exist yet; a wrong one is refused when the update is applied."""
    return version if version is not None and 1 <= version <= SUPPORTED_VERSION else DEFAULT_VERSION


def _counter(start: int = 1) -> Callable[[], int]:
    return count(start).__next__


def _fresh_spec(spec: Doc, became: dict[int, int]) -> Doc:
    fields = [
        {**field, "source-id": _source(field, became, "partition"), "field-id": FIRST_FIELD_ID + place}
        for place, field in enumerate(spec["fields"])
    ]
    return {**spec, "fields": fields}


def _fresh_order(order: Doc, became: dict[int, int]) -> Doc:
    fields = [{**field, "source-id": _source(field, became, "sort")} for field in order["fields"]]
    return {**order, "order-id": FIRST_ORDER_ID if fields else UNSORTED, "fields": fields}


def _source(field: Doc, became: dict[int, int], what: str) -> int:
    if field["source-id"] not in became:
        raise ValidationFailed(f"Cannot find source column for {what} field: {field['source-id']}")
    return became[field["source-id"]]
