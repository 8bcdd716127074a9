"""View metadata: the first document of a view, and the next one after a commit's updates.

A view has versions; one is current, and the log says which was when. Old versions go when there are more than
`version.history.num-entries`, but never one of the same commit.
"""

from collections.abc import Callable, Iterable
from typing import Any

from arco.iceberg._errors import IllegalArgument, ValidationFailed
from arco.iceberg.metadata import _updates as updates
from arco.iceberg.metadata._draft import LAST_ADDED
from arco.iceberg.metadata._formats import stripped
from arco.iceberg.metadata._properties import integer
from arco.iceberg.metadata._reading import Doc
from arco.iceberg.metadata._requests import CreateViewRequest
from arco.iceberg.metadata._schemas import id_of, index_schema, schema_key
from arco.iceberg.metadata._updates import Update
from arco.iceberg.metadata._versions import check_dialects, dialects, version_key

__all__ = ["apply_view_updates", "new_view"]

HISTORY = "version.history.num-entries"
_HISTORY_DEFAULT = 10
DROP_DIALECT = "replace.drop-dialect.allowed"
SUPPORTED_VERSION = 1


def new_view(request: CreateViewRequest, *, location: str, view_uuid: str) -> Doc:
    """The first document of a view: its version is 1, of the first schema."""
    draft = _ViewDraft({}, now_ms=0)
    draft.assign_uuid(view_uuid)
    draft.set_location(location)
    draft.set_properties(request.properties.items())
    draft.add_schema(request.schema)
    draft.add_version({**request.view_version, "version-id": 1, "schema-id": LAST_ADDED})
    draft.set_current_version(LAST_ADDED)
    return draft.build()


def apply_view_updates(base: Doc, changes: Iterable[Update], *, now_ms: int) -> Doc:
    """The document after the updates; the base itself if they change nothing. The base is never written to."""
    draft = _ViewDraft(base, now_ms=now_ms)
    for update in changes:
        _APPLY[type(update)](draft, update)
    return draft.build()


class _ViewDraft:
    """One commit's changes to a view. An empty base is a view that does not exist yet."""

    def __init__(self, base: Doc, *, now_ms: int) -> None:
        self.base = base
        self.doc: Doc = {
            "format-version": SUPPORTED_VERSION,
            **base,
            "properties": dict(base.get("properties") or {}),
            "schemas": list(base.get("schemas") or ()),
            "versions": list(base.get("versions") or ()),
            "version-log": list(base.get("version-log") or ()),
        }
        self.now_ms = now_ms
        self.changed = False
        self._added_versions: set[int] = set()
        self._last_version: int | None = None
        self._last_schema: int | None = None
        self._entry: Doc | None = None

    def _put(self, name: str, value: Any) -> None:
        self.doc[name] = value
        self.changed = True

    def assign_uuid(self, uuid: str) -> None:
        known = self.doc.get("view-uuid")
        if known is not None and known.lower() != uuid.lower():
            raise IllegalArgument("Cannot reassign uuid")
        if known is None:
            self._put("view-uuid", uuid)

    def upgrade(self, version: int) -> None:
        if version < self.doc["format-version"]:
            raise IllegalArgument(f"Cannot downgrade v{self.doc['format-version']} view to v{version}")
        if version > SUPPORTED_VERSION:
            raise IllegalArgument(f"Unsupported format version: {version}")

    def set_location(self, location: str) -> None:
        location = stripped(location)
        if location != self.doc.get("location"):
            self._put("location", location)

    def set_properties(self, values: Iterable[tuple[str, str]]) -> None:
        for name, value in values:
            if self.doc["properties"].get(name) != value:
                self.doc["properties"][name] = value
                self.changed = True

    def remove_properties(self, names: Iterable[str]) -> None:
        for name in names:
            if self.doc["properties"].pop(name, None) is not None:
                self.changed = True

    def add_schema(self, schema: Doc) -> None:
        index_schema(schema)
        schemas, key = self.doc["schemas"], schema_key(schema)
        known = next((one for one in schemas if schema_key(one) == key), None)
        if known is None:
            known = {**schema, "schema-id": max((id_of(one) for one in schemas), default=-1) + 1}
            schemas.append(known)
            self.changed = True
        # The reference forgets the last added one if an equal schema was there before; the client means that one.
        self._last_schema = id_of(known)

    def add_version(self, version: Doc) -> None:
        if version["schema-id"] == LAST_ADDED:
            if self._last_schema is None:
                raise ValidationFailed("Cannot set last added schema: no schema has been added")
            version = {**version, "schema-id": self._last_schema}
        versions, key = self.doc["versions"], version_key(version)
        known = next((one for one in versions if version_key(one) == key), None)
        if known is None:
            if all(id_of(one) != version["schema-id"] for one in self.doc["schemas"]):
                raise IllegalArgument(f"Cannot add version with unknown schema: {version['schema-id']}")
            check_dialects(version)
            highest = max((one["version-id"] for one in versions), default=version["version-id"] - 1)
            known = {**version, "version-id": max(version["version-id"], highest + 1)}
            versions.append(known)
            self._added_versions.add(known["version-id"])
            self.changed = True
        self._last_version = known["version-id"]

    def set_current_version(self, version_id: int) -> None:
        if version_id == LAST_ADDED:
            if self._last_version is None:
                raise ValidationFailed("Cannot set last version id: no current version id has been set")
            version_id = self._last_version
        if version_id == self.doc.get("current-version-id"):
            return
        version = self._version(version_id)
        if version is None:
            raise IllegalArgument(f"Cannot set current version to unknown version: {version_id}")
        # A version that is taken up again becomes current now; a new one did when it was made.
        added = version_id in self._added_versions
        timestamp = version["timestamp-ms"] if added else self.now_ms
        self._entry = {"timestamp-ms": timestamp, "version-id": version_id}
        self._put("current-version-id", version_id)

    def _version(self, version_id: int | None) -> Doc | None:
        return next((one for one in self.doc["versions"] if one["version-id"] == version_id), None)

    def build(self) -> Doc:
        if self.base and not self.changed:
            return self.base
        current = self._version(self.doc.get("current-version-id"))
        if current is None:
            raise IllegalArgument("Invalid view: no versions were added")
        if self._entry is not None:
            self.doc["version-log"].append(self._entry)
        if self.base and self.doc["properties"].get(DROP_DIALECT, "").lower() != "true":
            self._check_dropped(current)
        self._expire(current)
        return self.doc

    def _check_dropped(self, current: Doc) -> None:
        previous = next(one for one in self.base["versions"] if one["version-id"] == self.base["current-version-id"])
        before, after = set(dialects(previous)), set(dialects(current))
        if not before <= after:
            raise IllegalArgument(
                f"Cannot replace view due to loss of view dialects ({DROP_DIALECT}=false):\n"
                f"Previous dialects: {sorted(before)}\nNew dialects: {sorted(after)}"
            )

    def _expire(self, current: Doc) -> None:
        size = integer(self.doc["properties"], HISTORY, _HISTORY_DEFAULT)
        if size <= 0:
            raise IllegalArgument(f"{HISTORY} must be positive but was {size}")
        most = max(size, len(self._added_versions | {current["version-id"]}))
        versions = self.doc["versions"]
        if len(versions) <= most:
            return
        newest = sorted((one["version-id"] for one in versions if one is not current), reverse=True)
        kept = {current["version-id"], *newest[: most - 1]}
        self.doc["versions"] = [one for one in versions if one["version-id"] in kept]
        log: list[Doc] = []
        for entry in self.doc["version-log"]:
            if entry["version-id"] in kept:
                log.append(entry)
            else:
                log.clear()
        self.doc["version-log"] = log


_APPLY: dict[type[Update], Callable[[_ViewDraft, Any], None]] = {
    updates.AssignUuid: lambda draft, one: draft.assign_uuid(one.uuid),
    updates.UpgradeFormatVersion: lambda draft, one: draft.upgrade(one.format_version),
    updates.AddSchema: lambda draft, one: draft.add_schema(one.schema),
    updates.SetLocation: lambda draft, one: draft.set_location(one.location),
    updates.SetProperties: lambda draft, one: draft.set_properties(one.values.items()),
    updates.RemoveProperties: lambda draft, one: draft.remove_properties(one.names),
    updates.AddViewVersion: lambda draft, one: draft.add_version(one.view_version),
    updates.SetCurrentViewVersion: lambda draft, one: draft.set_current_version(one.view_version_id),
}
