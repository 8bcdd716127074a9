"""What a client asks of a plan: `PlanTableScanRequest`."""

from dataclasses import dataclass
from typing import Any

from arco.core import shown
from arco.iceberg._errors import BadRequest
from arco.iceberg._planning._filters import ALWAYS, Filter, parse_filter
from arco.iceberg._planning._schema import Schema

__all__ = ["ScanRequest", "parse_scan"]

_METADATA_COLUMNS = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
_NUMBERS = ("snapshot-id", "start-snapshot-id", "end-snapshot-id", "min-rows-requested")
_FLAGS = {"case-sensitive": True, "use-snapshot-schema": False}
_NAMES = ("select", "stats-fields")
_KNOWN = frozenset({*_NUMBERS, *_FLAGS, *_NAMES, "filter"})


@dataclass(frozen=True, slots=True)
class ScanRequest:
    snapshots: tuple[dict[str, Any], ...]
    """The one to scan; of an incremental scan those whose added files are wanted, newest first. Empty: no rows."""
    incremental: bool
    filter: Filter
    residual: Any
    """The filter as it came: what a client still has to evaluate."""
    stats: frozenset[int]
    """Ids of the columns whose statistics are wanted."""
    min_rows: int | None


def parse_scan(metadata: dict[str, Any], body: Any) -> ScanRequest:
    """The request against the table as it is, or `BadRequest`."""
    if not isinstance(body, dict):
        raise BadRequest("a scan to plan is an object; see PlanTableScanRequest of Iceberg's REST specification")
    if unknown := sorted(set(body) - _KNOWN):
        raise BadRequest(f"a scan to plan has no {shown(unknown[0])}; it has {', '.join(sorted(_KNOWN))}")
    numbers = {name: _number(body, name) for name in _NUMBERS}
    flags = {name: _flag(body, name, default) for name, default in _FLAGS.items()}
    snapshots, incremental = _snapshots(metadata, numbers)
    schema = Schema(_schema_of(metadata, snapshots[0] if snapshots and flags["use-snapshot-schema"] else None))
    case_sensitive = flags["case-sensitive"]
    for name in _names(body, "select"):
        if name not in _METADATA_COLUMNS:
            schema.find(name, case_sensitive=case_sensitive)
    stats = (schema.find(name, case_sensitive=case_sensitive).id for name in _names(body, "stats-fields"))
    node: Filter = ALWAYS
    if "filter" in body:
        node = parse_filter(body["filter"], schema, case_sensitive=case_sensitive)
    min_rows = numbers["min-rows-requested"]
    if min_rows is not None and min_rows < 0:
        raise BadRequest("min-rows-requested is 0 or more")
    return ScanRequest(snapshots, incremental, node, body.get("filter", True), frozenset(stats), min_rows)


def _snapshots(metadata: dict[str, Any], numbers: dict[str, int | None]) -> tuple[tuple[dict[str, Any], ...], bool]:
    """The snapshots to read, and whether it is an incremental scan."""
    one, start, end = (numbers[name] for name in _NUMBERS[:3])
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots") or ()}
    if start is None and end is None:
        wanted = one if one is not None else metadata.get("current-snapshot-id")
        if wanted in (None, -1):
            return (), False
        return (_find(by_id, int(str(wanted))),), False
    if one is not None or start is None or end is None:
        raise BadRequest("a scan has a snapshot-id, or both start-snapshot-id and end-snapshot-id, or none of them")
    found = []
    at: int | None = end
    while at != start:
        if at is None or (at not in by_id and at != end):
            raise BadRequest(f"the snapshot {start} is not an ancestor of {end} that is still known")
        snapshot = _find(by_id, at)
        found.append(snapshot)
        at = snapshot.get("parent-snapshot-id")
    # What other operations add is no new data: compaction rewrites rows that were there.
    appended = (one for one in found if (one.get("summary") or {}).get("operation") == "append")
    return tuple(appended), True


def _find(by_id: dict[int, dict[str, Any]], wanted: int) -> dict[str, Any]:
    if wanted not in by_id:
        raise BadRequest(f"Cannot find snapshot with ID {wanted}")
    return by_id[wanted]


def _schema_of(metadata: dict[str, Any], snapshot: dict[str, Any] | None) -> dict[str, Any]:
    wanted = (snapshot or {}).get("schema-id", metadata.get("current-schema-id"))
    for schema in metadata.get("schemas") or ():
        if schema.get("schema-id") == wanted:
            return dict(schema)
    return dict(metadata["schema"])  # of format 1, before schemas had ids


def _number(body: dict[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise BadRequest(f"{name} of a scan is a whole number")
    return value


def _flag(body: dict[str, Any], name: str, default: bool) -> bool:
    value = body.get(name, default)
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"{name} of a scan is true or false")
    return default if value is None else value


def _names(body: dict[str, Any], name: str) -> list[str]:
    value = body.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadRequest(f"{name} of a scan is a list of names")
    return value
