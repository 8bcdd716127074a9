"""What a table's document remembers of its past: which snapshot was current when, and which files held it before."""

from collections.abc import Collection, Container
from typing import Any

from arco.iceberg._errors import IllegalArgument, ValidationFailed
from arco.iceberg.metadata._properties import integer
from arco.iceberg.metadata._reading import Doc

__all__ = ["PREVIOUS_VERSIONS", "clean_snapshot_log", "log_entry", "with_previous_file"]

SKEW_MS = 60_000
"""How far clocks of different machines may be apart."""

PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"
_PREVIOUS_VERSIONS_DEFAULT = 100


def log_entry(log: list[Doc], timestamp_ms: int, snapshot_id: int, now_ms: int) -> Doc:
    """The entry that says when a snapshot became current, if it can follow the log; clients read no other."""
    if log and timestamp_ms - log[-1]["timestamp-ms"] < -SKEW_MS:
        last = log[-1]["timestamp-ms"]
        raise IllegalArgument(f"Invalid snapshot timestamp {timestamp_ms}: before last snapshot log entry at {last}")
    if now_ms - timestamp_ms < -SKEW_MS:
        raise IllegalArgument(f"Invalid update timestamp {now_ms}: before last snapshot log entry at {timestamp_ms}")
    return {"timestamp-ms": timestamp_ms, "snapshot-id": snapshot_id}


def clean_snapshot_log(
    log: Collection[Doc],
    *,
    known: Container[int],
    passing: Container[int],
    removing: bool,
    current: int | None,
) -> list[Doc]:
    """The log without snapshots that are gone, and without those that were current only within the commit."""
    kept: list[Doc] = []
    for entry in log:
        if entry["snapshot-id"] not in known:
            if removing:
                # A gap would make an older snapshot seem to have been current in it: what was before goes too.
                kept.clear()
        elif entry["snapshot-id"] not in passing:
            kept.append(entry)
    if current is not None and log and (not kept or kept[-1]["snapshot-id"] != current):
        raise ValidationFailed("Cannot set invalid snapshot log: latest entry is not the current snapshot")
    return kept


def with_previous_file(base: Doc, location: str, properties: dict[str, Any]) -> list[Doc]:
    """The base's log of files with the base's own file, and not more of them than the table wants to know."""
    most = max(1, integer(properties, PREVIOUS_VERSIONS, _PREVIOUS_VERSIONS_DEFAULT))
    log = list(base.get("metadata-log") or ())
    entry = {"timestamp-ms": base["last-updated-ms"], "metadata-file": location}
    return [*log[max(0, len(log) - most + 1) :], entry]
