"""Updates: one change of a table's or a view's metadata each, told apart by their `action`.

What an update carries whole (a schema, a snapshot, …) stays the document that was sent, checked when it is read. An
update may be known and yet not be meant for tables, or not for views.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from arco.core import shown
from arco.iceberg._errors import BadRequest
from arco.iceberg.metadata import _snapshots as snapshots
from arco.iceberg.metadata._orders import parse_order
from arco.iceberg.metadata._reading import Doc, Int, Long, Shape, convert
from arco.iceberg.metadata._schemas import parse_schema
from arco.iceberg.metadata._specs import parse_spec
from arco.iceberg.metadata._versions import parse_version

__all__ = [
    "TABLE_ACTIONS",
    "VIEW_ACTIONS",
    "AddEncryptionKey",
    "AddPartitionSpec",
    "AddSchema",
    "AddSnapshot",
    "AddSortOrder",
    "AddViewVersion",
    "AssignUuid",
    "RemoveEncryptionKey",
    "RemovePartitionSpecs",
    "RemovePartitionStatistics",
    "RemoveProperties",
    "RemoveSchemas",
    "RemoveSnapshotRef",
    "RemoveSnapshots",
    "RemoveStatistics",
    "SetCurrentSchema",
    "SetCurrentViewVersion",
    "SetDefaultSortOrder",
    "SetDefaultSpec",
    "SetLocation",
    "SetPartitionStatistics",
    "SetProperties",
    "SetSnapshotRef",
    "SetStatistics",
    "Update",
    "UpgradeFormatVersion",
    "parse_updates",
]


class Update(Shape, frozen=True):
    """Base of all updates."""

    def checked(self, what: str) -> "Update":
        """Itself, if what it carries is in order."""
        return self


class AssignUuid(Update, frozen=True):
    uuid: str

    def checked(self, what: str) -> Update:
        if not self.uuid:
            raise BadRequest(f"Cannot parse {what}: `uuid` is empty")
        return self


class UpgradeFormatVersion(Update, frozen=True):
    format_version: Int


class AddSchema(Update, frozen=True):
    schema: dict[str, Any]

    def checked(self, what: str) -> Update:
        parse_schema(self.schema, f"{what} schema")
        return self


class SetCurrentSchema(Update, frozen=True):
    schema_id: Int


class AddPartitionSpec(Update, frozen=True):
    spec: dict[str, Any]

    def checked(self, what: str) -> Update:
        parse_spec(self.spec, f"{what} spec")
        return self


class SetDefaultSpec(Update, frozen=True):
    spec_id: Int


class AddSortOrder(Update, frozen=True):
    sort_order: dict[str, Any]

    def checked(self, what: str) -> Update:
        parse_order(self.sort_order, f"{what} sort-order")
        return self


class SetDefaultSortOrder(Update, frozen=True):
    sort_order_id: Int


class AddSnapshot(Update, frozen=True):
    snapshot: dict[str, Any]

    def checked(self, what: str) -> Update:
        snapshots.parse_snapshot(self.snapshot, f"{what} snapshot")
        return self


class SetSnapshotRef(Update, frozen=True):
    ref_name: str
    snapshot_id: Long
    type: str
    min_snapshots_to_keep: Int | None = None
    max_snapshot_age_ms: Long | None = None
    max_ref_age_ms: Long | None = None

    def checked(self, what: str) -> Update:
        snapshots.check_retention(self.type, self.min_snapshots_to_keep, self.max_snapshot_age_ms, self.max_ref_age_ms)
        return self

    def ref(self) -> Doc:
        """What is kept of it in the table's `refs`."""
        limits = zip(
            snapshots.RETENTION,
            (self.min_snapshots_to_keep, self.max_snapshot_age_ms, self.max_ref_age_ms),
            strict=True,
        )
        kept = {name: limit for name, limit in limits if limit is not None}
        return {"snapshot-id": self.snapshot_id, "type": self.type.lower(), **kept}


class RemoveSnapshots(Update, frozen=True):
    snapshot_ids: tuple[Long, ...]


class RemoveSnapshotRef(Update, frozen=True):
    ref_name: str


class SetLocation(Update, frozen=True):
    location: str

    def checked(self, what: str) -> Update:
        if not self.location:
            raise BadRequest(f"Cannot parse {what}: `location` is empty")
        return self


class SetProperties(Update, frozen=True):
    updates: dict[str, str] | None = None
    updated: dict[str, str] | None = None
    """How old clients call `updates`."""

    def checked(self, what: str) -> Update:
        if self.updates is None and self.updated is None:
            raise BadRequest(f"Cannot parse {what}: Object missing required field `updates`")
        return self

    @property
    def values(self) -> Mapping[str, str]:
        return self.updates if self.updates is not None else self.updated or {}


class RemoveProperties(Update, frozen=True):
    removals: tuple[str, ...] | None = None
    removed: tuple[str, ...] | None = None
    """How old clients call `removals`."""

    def checked(self, what: str) -> Update:
        if self.removals is None and self.removed is None:
            raise BadRequest(f"Cannot parse {what}: Object missing required field `removals`")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        return self.removals if self.removals is not None else self.removed or ()


class SetStatistics(Update, frozen=True):
    statistics: dict[str, Any]

    def checked(self, what: str) -> Update:
        snapshots.parse_statistics(self.statistics, f"{what} statistics")
        return self


class RemoveStatistics(Update, frozen=True):
    snapshot_id: Long


class SetPartitionStatistics(Update, frozen=True):
    partition_statistics: dict[str, Any]

    def checked(self, what: str) -> Update:
        snapshots.parse_partition_statistics(self.partition_statistics, f"{what} partition-statistics")
        return self


class RemovePartitionStatistics(Update, frozen=True):
    snapshot_id: Long


class RemovePartitionSpecs(Update, frozen=True):
    spec_ids: tuple[Int, ...]


class RemoveSchemas(Update, frozen=True):
    schema_ids: tuple[Int, ...]


class AddEncryptionKey(Update, frozen=True):
    encryption_key: dict[str, Any]

    def checked(self, what: str) -> Update:
        snapshots.parse_key(self.encryption_key, f"{what} encryption-key")
        return self


class RemoveEncryptionKey(Update, frozen=True):
    key_id: str


class AddViewVersion(Update, frozen=True):
    view_version: dict[str, Any]

    def checked(self, what: str) -> Update:
        parse_version(self.view_version, f"{what} view-version")
        return self


class SetCurrentViewVersion(Update, frozen=True):
    view_version_id: Int


_BOTH: dict[str, type[Update]] = {
    "assign-uuid": AssignUuid,
    "upgrade-format-version": UpgradeFormatVersion,
    "add-schema": AddSchema,
    "set-location": SetLocation,
    "set-properties": SetProperties,
    "remove-properties": RemoveProperties,
}

TABLE_ACTIONS: Mapping[str, type[Update]] = {
    **_BOTH,
    "set-current-schema": SetCurrentSchema,
    "add-spec": AddPartitionSpec,
    "set-default-spec": SetDefaultSpec,
    "add-sort-order": AddSortOrder,
    "set-default-sort-order": SetDefaultSortOrder,
    "add-snapshot": AddSnapshot,
    "set-snapshot-ref": SetSnapshotRef,
    "remove-snapshots": RemoveSnapshots,
    "remove-snapshot-ref": RemoveSnapshotRef,
    "set-statistics": SetStatistics,
    "remove-statistics": RemoveStatistics,
    "set-partition-statistics": SetPartitionStatistics,
    "remove-partition-statistics": RemovePartitionStatistics,
    "remove-partition-specs": RemovePartitionSpecs,
    "remove-schemas": RemoveSchemas,
    "add-encryption-key": AddEncryptionKey,
    "remove-encryption-key": RemoveEncryptionKey,
}

VIEW_ACTIONS: Mapping[str, type[Update]] = {
    **_BOTH,
    "add-view-version": AddViewVersion,
    "set-current-view-version": SetCurrentViewVersion,
}


def parse_updates(values: Iterable[Any], *, view: bool = False) -> tuple[Update, ...]:
    """The updates of a commit, or `BadRequest`. Actions nobody knows are named all at once."""
    known = VIEW_ACTIONS if view else TABLE_ACTIONS
    listed = list(values)
    actions = [action_of(value, "action", f"updates[{place}]") for place, value in enumerate(listed)]
    unknown = sorted(set(actions) - known.keys())
    if unknown:
        raise BadRequest(refusal(unknown, "update", TABLE_ACTIONS.keys() | VIEW_ACTIONS.keys(), view=view))
    parsed = []
    for place, (action, value) in enumerate(zip(actions, listed, strict=True)):
        what = f"updates[{place}] {action}"
        parsed.append(convert(value, known[action], what).checked(what))
    return tuple(parsed)


def action_of(value: Any, field: str, what: str) -> str:
    """The lower-case text that says which update or requirement a JSON object is."""
    if not isinstance(value, dict):
        raise BadRequest(f"Cannot parse {what}: expected an object")
    action = value.get(field)
    if action is None:
        raise BadRequest(f"Cannot parse {what}: Object missing required field `{field}`")
    if not isinstance(action, str):
        raise BadRequest(f"Cannot parse {what}: Expected `str` - at `$.{field}`")
    return action.lower()


def refusal(unknown: list[str], what: str, known: Iterable[str], *, view: bool) -> str:
    """Says which updates or requirements are not taken here, and why."""
    kind = "view" if view else "table"
    misplaced = [name for name in unknown if name in set(known)]
    strange = [name for name in unknown if name not in misplaced]
    parts = []
    if strange:
        parts.append(f"Unknown {what}: {', '.join(shown(name) for name in strange)}")
    if misplaced:
        parts.append(f"Cannot apply {what} to a {kind}: {', '.join(misplaced)}")
    return "; ".join(parts)
