"""A table's metadata while updates are applied to it.

The draft begins as the base's own parts and copies a list or mapping only when it changes, and never what is in it: a
table with ten thousand snapshots costs one list of references. It knows what was added in this commit, because `-1`
means the last one added, and because snapshots that were current only within the commit do not stay in the log.
"""

from collections.abc import Iterable
from typing import Any

from arco.iceberg._errors import CommitFailed, IllegalArgument, ValidationFailed
from arco.iceberg.metadata._documents import NO_SNAPSHOT, SUPPORTED_VERSION, current_snapshot_id, normalised
from arco.iceberg.metadata._formats import empty_table, find, in_format, stripped
from arco.iceberg.metadata._history import clean_snapshot_log, log_entry, with_previous_file
from arco.iceberg.metadata._orders import FIRST_ORDER_ID, UNSORTED, check_order, order_key
from arco.iceberg.metadata._reading import Doc
from arco.iceberg.metadata._schemas import SchemaIndex, check_version, id_of, index_schema, schema_key
from arco.iceberg.metadata._snapshots import MAIN, RETENTION
from arco.iceberg.metadata._specs import (
    check_columns,
    check_names,
    check_spec,
    last_field_id,
    same_spec,
    with_field_ids,
)
from arco.iceberg.metadata._updates import SetSnapshotRef

__all__ = ["LAST_ADDED", "Draft"]

LAST_ADDED = -1


class Draft:
    """One commit's changes to a table. Its methods are the updates; `build` makes the document."""

    def __init__(self, base: Doc | None, *, version: int, now_ms: int) -> None:
        """`version` is the format of a table that does not exist yet."""
        if base is not None and base["format-version"] > SUPPORTED_VERSION:
            raise IllegalArgument(f"Cannot read unsupported version {base['format-version']}")
        self.base = base
        self.doc: Doc = dict(normalised(base)) if base is not None else empty_table(version)
        self.changed = False
        self.now_ms = now_ms if base is None else max(now_ms, base["last-updated-ms"])
        self._own: set[str] = set()
        self._reshaped = base is None
        self._index: tuple[Doc, SchemaIndex] | None = None
        self._snapshots: dict[int, Doc] | None = None
        self._last_added: dict[str, int] = {}
        self._added_snapshots: set[int] = set()
        self._made_current: list[int] = []
        self._removed_snapshots = False

    @property
    def version(self) -> int:
        return int(self.doc["format-version"])

    def _put(self, name: str, value: Any) -> None:
        self.doc[name] = value
        self.changed = True

    def _list(self, name: str) -> list[Any]:
        """A list of the document that may be changed."""
        if name not in self._own:
            self.doc[name] = list(self.doc.get(name) or ())
            self._own.add(name)
        self.changed = True
        owned: list[Any] = self.doc[name]
        return owned

    def _mapping(self, name: str) -> dict[str, Any]:
        """A mapping of the document that may be changed."""
        if name not in self._own:
            self.doc[name] = dict(self.doc.get(name) or {})
            self._own.add(name)
        self.changed = True
        owned: dict[str, Any] = self.doc[name]
        return owned

    def _drop(self, name: str, keep: Any) -> bool:
        """Leave out those parts of a list that are not to be kept. Whether there were any."""
        values = self.doc.get(name) or ()
        kept = [value for value in values if keep(value)]
        if len(kept) == len(values):
            return False
        self._put(name, kept)
        self._own.add(name)
        return True

    # The table itself

    def assign_uuid(self, uuid: str) -> None:
        known = self.doc.get("table-uuid")
        if known is not None and known.lower() != uuid.lower():
            raise ValidationFailed(f"Cannot reassign uuid: the table's is {known}, not {uuid}")
        if known is None:
            self._put("table-uuid", uuid)

    def upgrade(self, version: int) -> None:
        if not 1 <= version <= SUPPORTED_VERSION:
            raise IllegalArgument(
                f"Cannot upgrade table to unsupported format version: v{version} (supported: v{SUPPORTED_VERSION})"
            )
        if version < self.version:
            raise IllegalArgument(f"Cannot downgrade v{self.version} table to v{version}")
        if version > self.version:
            self._put("format-version", version)

    def set_location(self, location: str) -> None:
        location = stripped(location)
        if location != self.doc.get("location"):
            self._put("location", location)

    def set_properties(self, values: Iterable[tuple[str, str]]) -> None:
        for name, value in values:
            if (self.doc.get("properties") or {}).get(name) != value:
                self._mapping("properties")[name] = value

    def remove_properties(self, names: Iterable[str]) -> None:
        for name in names:
            if name in (self.doc.get("properties") or {}):
                del self._mapping("properties")[name]

    # Schemas, specs and orders

    def _current_schema(self, doing: str) -> SchemaIndex:
        schema = find(self.doc["schemas"], "schema-id", self.doc["current-schema-id"])
        if schema is None:
            raise ValidationFailed(f"Cannot {doing}: the table has no current schema")
        if self._index is None or self._index[0] is not schema:
            self._index = schema, index_schema(schema)
        return self._index[1]

    def add_schema(self, schema: Doc) -> None:
        index = index_schema(schema)
        check_version(index, self.version)
        last_column = max(self.doc["last-column-id"], index.highest_id)
        schemas, key = self.doc["schemas"], schema_key(schema)
        known = next((one for one in schemas if schema_key(one) == key), None)
        if known is None:
            ids = [id_of(one) for one in schemas]
            schema_id = max(ids, default=-1) + 1 if ids else self.doc["current-schema-id"]
            self._list("schemas").append({**schema, "schema-id": schema_id})
        else:
            schema_id = id_of(known)
        if last_column != self.doc["last-column-id"]:
            self._put("last-column-id", last_column)
        # The reference forgets the last added one if an equal schema was there before; the client means that one.
        self._last_added["schema"] = schema_id

    def set_current_schema(self, schema_id: int) -> None:
        schema_id = self._resolved(schema_id, "schema")
        if schema_id == self.doc["current-schema-id"]:
            return
        if find(self.doc["schemas"], "schema-id", schema_id) is None:
            raise IllegalArgument(f"Cannot set current schema to unknown schema: {schema_id}")
        self._put("current-schema-id", schema_id)
        self._reshaped = True
        index = self._current_schema("set the current schema")
        for spec in self.doc["partition-specs"]:
            check_names(spec, index)

    def remove_schemas(self, ids: Iterable[int]) -> None:
        removed = frozenset(ids)
        if self.doc["current-schema-id"] in removed:
            raise IllegalArgument("Cannot remove the current schema")
        self._drop("schemas", lambda schema: id_of(schema) not in removed)

    def add_spec(self, spec: Doc) -> None:
        specs, index = self.doc["partition-specs"], self._current_schema("add a partition spec")
        known = next((one for one in specs if same_spec(one, spec)), None)
        if known is None:
            spec_id = max((one["spec-id"] for one in specs), default=-1) + 1
            made = with_field_ids(spec, specs, self.doc["last-partition-id"], self.version)
            check_spec(made, index, self.version)
            self._list("partition-specs").append({**made, "spec-id": spec_id})
            self.doc["last-partition-id"] = max(self.doc["last-partition-id"], last_field_id(made))
        else:
            spec_id = known["spec-id"]
        self._last_added["spec"] = spec_id

    def set_default_spec(self, spec_id: int) -> None:
        spec_id = self._resolved(spec_id, "spec")
        if spec_id != self.doc["default-spec-id"]:
            if find(self.doc["partition-specs"], "spec-id", spec_id) is None:
                raise IllegalArgument(f"Cannot set default partition spec to unknown spec: {spec_id}")
            self._put("default-spec-id", spec_id)
            self._reshaped = True

    def remove_specs(self, ids: Iterable[int]) -> None:
        removed = frozenset(ids)
        if self.doc["default-spec-id"] in removed:
            raise IllegalArgument("Cannot remove the default partition spec")
        self._drop("partition-specs", lambda spec: spec["spec-id"] not in removed)

    def add_order(self, order: Doc) -> None:
        orders, key = self.doc["sort-orders"], order_key(order)
        known = next((one for one in orders if order_key(one) == key), None)
        if known is None:
            check_order(order, self._current_schema("add a sort order"))
            highest = max((one["order-id"] for one in orders), default=UNSORTED)
            order_id = max(FIRST_ORDER_ID, highest + 1) if order["fields"] else UNSORTED
            self._list("sort-orders").append({**order, "order-id": order_id})
        else:
            order_id = known["order-id"]
        self._last_added["sort order"] = order_id

    def set_default_order(self, order_id: int) -> None:
        order_id = self._resolved(order_id, "sort order")
        if order_id != self.doc["default-sort-order-id"]:
            if find(self.doc["sort-orders"], "order-id", order_id) is None:
                raise IllegalArgument(f"Cannot set default sort order to unknown sort order: {order_id}")
            self._put("default-sort-order-id", order_id)
            self._reshaped = True

    def _resolved(self, number: int, what: str) -> int:
        if number != LAST_ADDED:
            return number
        if what not in self._last_added:
            raise ValidationFailed(f"Cannot set last added {what}: no {what} has been added")
        return self._last_added[what]

    # Snapshots and references

    def _known_snapshots(self) -> dict[int, Doc]:
        if self._snapshots is None:
            self._snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in self.doc.get("snapshots") or ()}
        return self._snapshots

    def add_snapshot(self, snapshot: Doc) -> None:
        for part, name in (("schemas", "schema"), ("partition-specs", "partition spec"), ("sort-orders", "sort order")):
            if not self.doc[part]:
                raise ValidationFailed(f"Attempting to add a snapshot before a {name} is added")
        snapshot_id, number = snapshot["snapshot-id"], snapshot.get("sequence-number", 0)
        if snapshot_id in self._known_snapshots():
            raise ValidationFailed(f"Snapshot already exists for id: {snapshot_id}")
        if self.version == 1:
            if number != 0:
                raise IllegalArgument(f"Sequence number must be 0 in v1: {number}")
        else:
            last = self.doc.get("last-sequence-number") or 0
            # One without a parent builds on no other, so that nothing it could have missed matters.
            if number <= last and snapshot.get("parent-snapshot-id") is not None:
                raise _retry(
                    f"Cannot add snapshot with sequence number {number} older than last sequence number {last}"
                )
            self.doc["last-sequence-number"] = max(last, number)
        if self.version >= 3:
            self._add_rows(snapshot)
        self._list("snapshots").append(snapshot)
        self._known_snapshots()[snapshot_id] = snapshot
        self._added_snapshots.add(snapshot_id)

    def _add_rows(self, snapshot: Doc) -> None:
        first, next_row = snapshot.get("first-row-id"), self.doc.get("next-row-id") or 0
        if first is None:
            raise ValidationFailed("Cannot add a snapshot: first-row-id is null")
        if first < next_row:
            raise _retry(f"Cannot add a snapshot, first-row-id is behind table next-row-id: {first} < {next_row}")
        if first + snapshot["added-rows"] >= 2**63:
            raise IllegalArgument(f"Invalid first-row-id: {first}: row ids would not fit 64 bits")
        self.doc["next-row-id"] = first + snapshot["added-rows"]

    def set_ref(self, update: SetSnapshotRef) -> None:
        name, ref = update.ref_name, update.ref()
        refs: dict[str, Doc] = self.doc.get("refs") or {}
        known = refs.get(name)
        if known is not None and _ref_key(known) == _ref_key(ref):
            return
        snapshot = self._known_snapshots().get(update.snapshot_id)
        if snapshot is None:
            raise ValidationFailed(f"Cannot set {name} to unknown snapshot: {update.snapshot_id}")
        if name == MAIN:
            if ref["type"] != "branch":
                raise ValidationFailed(f"Cannot set {MAIN} to a tag, it must be a branch")
            self.doc["current-snapshot-id"] = update.snapshot_id
            # Going back to an old snapshot happens now; a new one became current when it was made.
            added = update.snapshot_id in self._added_snapshots
            log = self._list("snapshot-log")
            at = snapshot["timestamp-ms"] if added else self.now_ms
            log.append(log_entry(log, at, update.snapshot_id, self.now_ms))
            if added:
                self._made_current.append(update.snapshot_id)
        understood = {"snapshot-id", "type", *RETENTION}
        rest = {field: value for field, value in (known or {}).items() if field not in understood}
        self._mapping("refs")[name] = {**rest, **ref}

    def remove_ref(self, name: str) -> None:
        if name in (self.doc.get("refs") or {}):
            del self._mapping("refs")[name]
        if name == MAIN and current_snapshot_id(self.doc) is not None:
            self._put("current-snapshot-id", NO_SNAPSHOT)

    def remove_snapshots(self, ids: Iterable[int]) -> None:
        removed = self._known_snapshots().keys() & set(ids)
        if not removed:
            return
        for name in ("snapshots", "statistics", "partition-statistics"):
            self._drop(name, lambda part: part["snapshot-id"] not in removed)
        for snapshot_id in removed:
            del self._known_snapshots()[snapshot_id]
        self._removed_snapshots = True
        refs: dict[str, Doc] = self.doc.get("refs") or {}
        for name in [name for name, ref in refs.items() if ref["snapshot-id"] in removed]:
            self.remove_ref(name)

    # Statistics and keys

    def set_file(self, part: str, file: Doc) -> None:
        """Statistics of one snapshot, in place of those it had."""
        known = [one for one in self.doc.get(part) or () if one["snapshot-id"] == file["snapshot-id"]]
        if known != [file]:
            self._drop(part, lambda one: one["snapshot-id"] != file["snapshot-id"])
            self._list(part).append(file)

    def remove_file(self, part: str, snapshot_id: int) -> None:
        self._drop(part, lambda one: one["snapshot-id"] != snapshot_id)

    def add_key(self, key: Doc) -> None:
        if find(self.doc.get("encryption-keys") or (), "key-id", key["key-id"]) is None:
            self._list("encryption-keys").append(key)

    def remove_key(self, key_id: str) -> None:
        self._drop("encryption-keys", lambda key: key["key-id"] != key_id)

    # The result

    def build(self, base_location: str | None) -> Doc:
        """The new document; the base itself if no update changed anything."""
        if self.base is not None and not self.changed:
            return self.base
        if self._reshaped:
            self._check_shape()
        self._check_named()
        current = current_snapshot_id(self.doc)
        passing = {snapshot_id for snapshot_id in self._made_current if snapshot_id != current}
        if passing or self._removed_snapshots:
            self.doc["snapshot-log"] = clean_snapshot_log(
                self.doc.get("snapshot-log") or (),
                known=self._known_snapshots(),
                passing=passing,
                removing=self._removed_snapshots,
                current=current,
            )
        if self.base is not None and base_location is not None:
            properties = self.doc.get("properties") or {}
            self.doc["metadata-log"] = with_previous_file(self.base, base_location, properties)
        self.doc["last-updated-ms"] = self.now_ms
        return in_format(self.doc)

    def _check_named(self) -> None:
        doc, version = self.doc, self.version
        if doc.get("table-uuid") is None and (version > 1 or self.base is None):
            raise IllegalArgument(f"UUID is required in format v{version}")
        if doc["location"] is None:
            raise IllegalArgument(f"Table location is required in format v{version}")

    def _check_shape(self) -> None:
        """The default spec and order go with the current schema."""
        doc, index = self.doc, self._current_schema("commit the table")
        spec = find(doc["partition-specs"], "spec-id", doc["default-spec-id"])
        if spec is None:
            raise IllegalArgument("Partition specs cannot be null or empty: the default spec is missing")
        check_columns(spec, index)
        order = find(doc["sort-orders"], "order-id", doc["default-sort-order-id"])
        if order is None:
            raise IllegalArgument("Sort orders cannot be null or empty: the default sort order is missing")
        check_order(order, index)


def _ref_key(ref: Doc) -> tuple[Any, ...]:
    return (ref["snapshot-id"], ref["type"].lower(), *(ref.get(name) for name in RETENTION))


def _retry(message: str) -> CommitFailed:
    """The client built on a state that has passed. It can do so again on the new one."""
    return CommitFailed(f"Validation failed, please retry: {message}")
