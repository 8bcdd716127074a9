"""What the tables must hold, computed from the events by the shortest code that can: an oracle beside the fold."""

from dataclasses import dataclass
from typing import Any

import msgspec

from arco.log import Event, Segment, position_of

__all__ = ["LogEvent", "events_of", "expected", "observed"]


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
    if table in ("namespaces", "names"):
        found = _namespaces(before)
        return found if table == "namespaces" else {("", path[0]): key for key, (path, _) in found.items()}
    return _attempts(before) if table == "attempts" else _materializations(before)


def observed(table: str, rows: list[dict[str, Any]]) -> dict[Any, Any]:
    """The same columns of rows as a reader got them."""
    if table == "namespaces":
        return {row["namespace_id"]: (tuple(row["path"]), row["description"]) for row in rows}
    if table == "names":
        return {(row["parent"], row["name"]): row["namespace_id"] for row in rows}
    if table == "attempts":
        return {row["attempt"]: (row["worker"], row["state"], row["grants"]) for row in rows}
    return {row["materialization_id"]: (row["partition_id"], row["row_count"]) for row in rows}


def _namespaces(events: list[LogEvent]) -> dict[str, tuple[tuple[str, ...], str | None]]:
    found: dict[str, tuple[tuple[str, ...], str | None]] = {}
    for item in events:
        kind, data = item.event.type, item.data
        if kind == "NamespaceCreated":
            found[data["namespace_id"]] = (tuple(data["path"]), data.get("description"))
        elif kind == "NamespaceDropped":
            del found[data["namespace_id"]]
        elif kind == "NamespaceRenamed":
            found[data["namespace_id"]] = (tuple(data["path"]), found[data["namespace_id"]][1])
        elif kind == "NamespaceUpdated":
            found[data["namespace_id"]] = (found[data["namespace_id"]][0], data["description"])
    return found


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
