"""The next snapshot of a table that Arco alone writes: files come and go, and manifests follow.

    manifests of the snapshot before + files to add + files to remove -> Avro files to write -> the snapshot

A manifest in which nothing changes is named again as it is. One that loses files is written anew, without them. When
there are many small ones they become one. Nothing is written here: the caller writes `Plan.files`, then commits.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from arco.iceberg._writing._manifests import Entry, Manifest, Status, encode_list, encode_manifest
from arco.iceberg._writing._metrics import DataFile

__all__ = ["Base", "Plan", "plan_snapshot"]

MAX_MANIFESTS: Final = 40
"""Manifests of a snapshot before small ones are merged."""
FULL: Final = 8_000
"""Files of a manifest that is not small any more."""


@dataclass(frozen=True)
class Base:
    """The snapshot that the next one follows."""

    snapshot_id: int | None
    """None if there is none."""
    manifests: tuple[tuple[Manifest, tuple[Entry, ...]], ...] = ()
    """Each with its entries."""

    @property
    def live(self) -> Iterable[Entry]:
        return (entry for _, entries in self.manifests for entry in entries if entry.is_live)


@dataclass(frozen=True)
class Plan:
    snapshot: dict[str, Any]
    files: Mapping[str, bytes]
    """Manifests and the manifest list, by their locations."""


def plan_snapshot(
    base: Base,
    added: Sequence[DataFile],
    removed: Collection[str],
    *,
    operation: str,
    snapshot_id: int,
    sequence_number: int,
    now_ms: int,
    fields: list[dict[str, Any]],
    schema_id: int,
    new_location: Callable[[str], str],
    summary: Mapping[str, str],
) -> Plan:
    """The snapshot after files were added and others removed, by their locations.

    Args:
        new_location: a place for a file of metadata that nobody else uses; gets the kind, `m` or `snap`.
        summary: what the snapshot's summary says beside the counts.
    """
    writing = _Writing(snapshot_id, sequence_number, fields, schema_id, new_location)
    kept: list[tuple[Manifest, tuple[Entry, ...]]] = []
    gone: list[Entry] = []
    for manifest, entries in base.manifests:
        leaving = [entry for entry in entries if entry.is_live and entry.file.location in removed]
        if leaving:
            gone += leaving
            writing.write(
                [
                    entry.deleted(snapshot_id) if entry.file.location in removed else entry.kept()
                    for entry in entries
                    if entry.is_live
                ]
            )
        elif manifest.live_files:
            kept.append((manifest, entries))
    if added:
        writing.write([Entry(Status.ADDED, snapshot_id, sequence_number, file) for file in added])
    merged = _merged(kept, writing)
    manifests = [*writing.manifests, *merged]
    location = new_location("snap")
    writing.files[location] = encode_list(manifests, snapshot_id, base.snapshot_id, sequence_number)
    live = [*(entry.file for entry in base.live if entry.file.location not in removed), *added]
    snapshot: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence_number,
        "timestamp-ms": now_ms,
        "manifest-list": location,
        "schema-id": schema_id,
        "summary": {"operation": operation, **_counts(added, [entry.file for entry in gone], live), **summary},
    }
    if base.snapshot_id is not None:
        snapshot["parent-snapshot-id"] = base.snapshot_id
    return Plan(snapshot, writing.files)


class _Writing:
    def __init__(
        self,
        snapshot_id: int,
        sequence_number: int,
        fields: list[dict[str, Any]],
        schema_id: int,
        new_location: Callable[[str], str],
    ) -> None:
        self.manifests: list[Manifest] = []
        self.files: dict[str, bytes] = {}
        self._snapshot_id = snapshot_id
        self._sequence_number = sequence_number
        self._fields = fields
        self._schema_id = schema_id
        self._new_location = new_location

    def write(self, entries: Sequence[Entry]) -> None:
        location = self._new_location("m")
        data = encode_manifest(entries, self._fields, self._schema_id)
        self.files[location] = data
        by = {status: [entry.file for entry in entries if entry.status is status] for status in Status}
        rows = {status: sum(file.record_count for file in files) for status, files in by.items()}
        live = [entry.sequence_number for entry in entries if entry.is_live]
        self.manifests.append(
            Manifest(
                location,
                len(data),
                self._sequence_number,
                min(live, default=self._sequence_number),
                self._snapshot_id,
                *(len(by[status]) for status in _ORDER),
                *(rows[status] for status in _ORDER),
            )
        )


_ORDER: Final = (Status.ADDED, Status.EXISTING, Status.DELETED)


def _merged(kept: Sequence[tuple[Manifest, tuple[Entry, ...]]], writing: _Writing) -> list[Manifest]:
    """Manifests that stay; small ones as few larger ones if there are too many."""
    if len(kept) + len(writing.manifests) <= MAX_MANIFESTS:
        return [manifest for manifest, _ in kept]
    entries: list[Entry] = []
    for manifest, found in kept:
        if manifest.live_files < FULL:
            entries += [entry.kept() for entry in found if entry.is_live]
    for start in range(0, len(entries), FULL):
        writing.write(entries[start : start + FULL])
    return [manifest for manifest, _ in kept if manifest.live_files >= FULL]


def _counts(added: Sequence[DataFile], gone: Sequence[DataFile], live: Sequence[DataFile]) -> dict[str, str]:
    numbers = {
        "added-data-files": len(added),
        "added-records": _rows(added),
        "added-files-size": _size(added),
        "deleted-data-files": len(gone),
        "deleted-records": _rows(gone),
        "removed-files-size": _size(gone),
    }
    totals = {
        "total-data-files": len(live),
        "total-records": _rows(live),
        "total-files-size": _size(live),
        "total-delete-files": 0,
        "total-position-deletes": 0,
        "total-equality-deletes": 0,
    }
    return {name: str(number) for name, number in {**{k: v for k, v in numbers.items() if v}, **totals}.items()}


def _rows(files: Iterable[DataFile]) -> int:
    return sum(file.record_count for file in files)


def _size(files: Iterable[DataFile]) -> int:
    return sum(file.size for file in files)
