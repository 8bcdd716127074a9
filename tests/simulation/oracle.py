"""What the tables must hold, computed from the events by the shortest code that can: an oracle beside the fold."""

from dataclasses import dataclass
from typing import Any

import msgspec

from arco.log import Event, Segment, position_of

__all__ = ["WATCHED", "LogEvent", "events_of", "expected", "observed"]

WATCHED = {"catalog": ("namespaces", "tables", "columns", "names"), "activity": ("materializations", "attempts")}
"""The tables of each log that the oracle knows."""


@dataclass(frozen=True)
class LogEvent:
    position: int
    received: int
    event: Event
    writer: str

    @property
    def data(self) -> Any:
        return msgspec.json.decode(self.event.data)


def events_of(segments: list[Segment]) -> list[LogEvent]:
    return [
        LogEvent(position_of(segment.header.number, index), segment.header.received, event, segment.header.writer)
        for segment in segments
        for index, event in enumerate(segment.events)
    ]


def expected(events: list[LogEvent], position: int, table: str) -> dict[Any, Any]:
    """Key to the columns that matter, from the events up to a position."""
    before = [event for event in events if event.position <= position]
    if table in WATCHED["catalog"]:
        return _catalog(before)[table]
    return _attempts(before) if table == "attempts" else _materializations(before)


def observed(table: str, rows: list[dict[str, Any]]) -> dict[Any, Any]:
    """The same columns of rows as a reader got them."""
    if table == "namespaces":
        return {row["namespace_id"]: (row["parent_id"], row["name"], row["description"]) for row in rows}
    if table == "tables":
        return {row["table_id"]: (row["namespace_id"], row["name"], row["schema_version"]) for row in rows}
    if table == "columns":
        return {row["column_id"]: (row["table_id"], row["name"], row["status"]) for row in rows}
    if table == "names":
        return {(row["parent_id"], row["kind"], row["name"]): row["object_id"] for row in rows}
    if table == "attempts":
        return {row["attempt"]: (row["worker"], row["state"], row["grants"]) for row in rows}
    return {row["materialization_id"]: (row["partition_id"], row["row_count"]) for row in rows}


def _catalog(events: list[LogEvent]) -> dict[str, dict[Any, Any]]:
    namespaces: dict[str, tuple[str, str, str | None]] = {}
    tables: dict[str, tuple[str, str, int]] = {}
    columns: dict[str, tuple[str, str, str]] = {}
    for item in events:
        kind, data = item.event.type, item.data
        match kind:
            case "NamespaceCreated":
                namespaces[data["namespace_id"]] = (data["parent_id"], data["name"], data.get("description"))
            case "NamespaceDropped":
                del namespaces[data["namespace_id"]]
            case "NamespaceRenamed":
                namespaces[data["namespace_id"]] = (
                    data["parent_id"],
                    data["name"],
                    namespaces[data["namespace_id"]][2],
                )
            case "NamespaceUpdated":
                namespaces[data["namespace_id"]] = (*namespaces[data["namespace_id"]][:2], data["description"])
            case "TableCreated":
                tables[data["table_id"]] = (data["namespace_id"], data["name"], 1)
                columns |= {new["column_id"]: (data["table_id"], new["name"], "active") for new in data["columns"]}
            case "TableRenamed":
                tables[data["table_id"]] = (data["namespace_id"], data["name"], tables[data["table_id"]][2])
            case "TableDropped":
                del tables[data["table_id"]]
                columns = {key: row for key, row in columns.items() if row[0] != data["table_id"]}
            case "SchemaChanged":
                namespace, name, version = tables[data["table_id"]]
                tables[data["table_id"]] = (namespace, name, version + 1)
                changed = (*data.get("added", ()), *data.get("altered", ()))
                columns |= {new["column_id"]: (data["table_id"], new["name"], "active") for new in changed}
                columns |= {key: (*columns[key][:2], "inactive") for key in data.get("dropped", ())}
    names = {(parent, "namespace", name): key for key, (parent, name, _) in namespaces.items()}
    names |= {(namespace, "table", name): key for key, (namespace, name, _) in tables.items()}
    return {"namespaces": namespaces, "tables": tables, "columns": columns, "names": names}


def _attempts(events: list[LogEvent]) -> dict[str, tuple[str, str, int]]:
    found: dict[str, tuple[str, str, int]] = {}
    states = {"AttemptClaimed": "claimed", "AttemptReserved": "claimed", "AttemptFinished": "finished"}
    for item in events:
        kind, data = item.event.type, item.data
        if kind not in states and kind != "AttemptReleased":
            continue
        grants = found.get(data["attempt"], ("", "", 0))[2] + (kind in ("AttemptClaimed", "AttemptReserved"))
        found[data["attempt"]] = (data["worker"], states.get(kind, "free"), grants)
    return found


def _materializations(events: list[LogEvent]) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[tuple[str, int], int]] = {}
    cutoff = -1
    for item in events:
        kind, data = item.event.type, item.data
        if kind == "RetentionAdvanced" and data["table"] == "materializations":
            cutoff = max(cutoff, data["before"])
            found = {key: value for key, value in found.items() if value[1] >= cutoff}
        elif kind == "MaterializationCompleted" and data["completed_at"] >= cutoff:
            row = ((data["partition_id"], data["row_count"]), data["completed_at"])
            found.setdefault(data["materialization_id"], row)
    return {key: value for key, (value, _) in found.items()}
