"""Manifest lists and manifests: which manifests a snapshot has, and the files in one that a filter may match.

Field ids are those of Iceberg's specification. A file inherits from its manifest what its writer could not know yet:
the snapshot, the sequence number, the id of its first row.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from arco.core import Invalid, TooLarge
from arco.iceberg._errors import Unsupported
from arco.iceberg._planning._avro import read_avro
from arco.iceberg._planning._filters import Filter
from arco.iceberg._planning._pruning import Known, PartitionField, may_match_file, may_match_partition, of_value
from arco.iceberg._planning._types import Value, decode_bound, from_avro

__all__ = ["DATA", "EQUALITY_DELETES", "POSITION_DELETES", "File", "Manifest", "Spec", "read_files", "read_manifests"]

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
_EXISTING, _ADDED, _DELETED = 0, 1, 2
_STATS = ("_108", "_109", "_110", "_125", "_128", "_137")
_DELETE_PATH = 2147483546
"""The id of the column `file_path` in files of positional deletes."""


@dataclass(frozen=True, slots=True)
class Spec:
    id: int
    fields: tuple[PartitionField, ...]

    @property
    def unpartitioned(self) -> bool:
        return all(field.transform.name == "void" for field in self.fields)


@dataclass(frozen=True, slots=True)
class Manifest:
    path: str
    spec_id: int
    deletes: bool
    sequence_number: int
    snapshot_id: int
    files: int | None
    """How many it has that are not deleted, if it says so."""
    first_row_id: int | None
    summaries: tuple[Mapping[str, Any], ...] | None

    def may_match(self, node: Filter, spec: Spec) -> bool:
        if self.files == 0:
            return False
        if self.summaries is None or len(self.summaries) != len(spec.fields):
            return True
        summaries = self.summaries

        def known(number: int) -> Known:
            found, kind = summaries[number], spec.fields[number].type
            lower, upper = (decode_bound(kind, found.get(name)) for name in ("_510", "_511"))
            return Known(kind, lower, upper, null=bool(found["_509"]), nan=found.get("_518") is not False)

        return may_match_partition(node, spec.fields, known)


@dataclass(frozen=True, slots=True)
class File:
    """A data or delete file that is part of the snapshot."""

    content: int
    spec: Spec
    partition: tuple[Value | None, ...]
    sequence_number: int
    first_row_id: int | None
    raw: dict[str, Any]

    @property
    def path(self) -> str:
        return str(self.raw["_100"])

    @property
    def rows(self) -> int:
        return int(self.raw["_103"])

    @property
    def format(self) -> str:
        return str(self.raw["_101"]).lower()

    @property
    def referenced(self) -> str | None:
        """The one data file that positional deletes are about, if it is one."""
        if self.raw.get("_143") is not None:
            return str(self.raw["_143"])
        lower, upper = (stats_of(self.raw, name, _DELETE_PATH) for name in ("_125", "_128"))
        # A cut bound is no path; an upper one that was cut has been raised, so that equal ones were not.
        return lower.decode(errors="replace") if lower is not None and lower == upper else None


def read_manifests(data: bytes, name: str, limit: int) -> list[Manifest]:
    """The manifests in a manifest list; at most `limit`."""
    found: list[Manifest] = []
    for row in read_avro(data, name):
        if len(found) == limit:
            raise TooLarge(f"the snapshot has more than {limit} manifests; rewrite them, or plan in the client")
        if row.get("_519"):
            raise Unsupported("the table's manifests are encrypted; plan this scan in the client")
        counts = [row.get(key) for key in ("_504", "_505")]
        try:
            manifest = Manifest(
                path=str(row["_500"]),
                spec_id=int(row["_502"]),
                deletes=row.get("_517") == 1,
                sequence_number=int(row.get("_515") or 0),
                snapshot_id=int(row.get("_503") or 0),
                files=None if None in counts else sum(int(count) for count in counts if count is not None),
                first_row_id=row.get("_520"),
                summaries=None if row.get("_507") is None else tuple(row["_507"]),
            )
        except (KeyError, TypeError, ValueError):
            raise Invalid(f"{name} is not a manifest list of Iceberg; the table's writer made a broken file") from None
        found.append(manifest)
    return found


def read_files(
    data: bytes,
    manifest: Manifest,
    spec: Spec,
    node: Filter,
    *,
    limit: int,
    stats: bool = True,
    added_by: frozenset[int] | None = None,
) -> list[File]:
    """The files of a manifest that may hold matching rows.

    Args:
        limit: how many there may be.
        stats: whether the statistics of data files are kept; they are most of their size.
        added_by: only files that these snapshots added.
    """
    found: list[File] = []
    try:
        for file in _entries(data, manifest, spec, added_by):
            if not may_match_partition(node, spec.fields, _partition_known(spec, file.partition)):
                continue
            if file.content == DATA and not may_match_file(node, file.raw, _stats(file.raw)):
                continue
            if len(found) == limit:
                raise TooLarge(f"the scan has more than {limit} files; filter it, or plan in the client")
            if file.content == DATA and not stats:
                for name in _STATS:
                    file.raw.pop(name, None)
            found.append(file)
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError):
        text = f"{manifest.path} is not a manifest of Iceberg; the table's writer made a broken file"
        raise Invalid(text) from None
    return found


def _entries(data: bytes, manifest: Manifest, spec: Spec, added_by: frozenset[int] | None) -> Iterator[File]:
    next_row_id = None if manifest.deletes else manifest.first_row_id
    for entry in read_avro(data, manifest.path):
        status, raw = entry["_0"], entry["_2"]
        if status == _DELETED:
            continue
        first_row_id = raw.get("_142")
        if first_row_id is None and next_row_id is not None:
            first_row_id, next_row_id = next_row_id, next_row_id + int(raw["_103"])
        snapshot_id = entry.get("_1")
        if added_by is not None and (
            status != _ADDED or (manifest.snapshot_id if snapshot_id is None else snapshot_id) not in added_by
        ):
            continue
        number = entry.get("_3")
        yield File(
            content=raw.get("_134") or DATA,
            spec=spec,
            partition=tuple(from_avro(field.type, raw["_102"].get(f"_{field.id}")) for field in spec.fields),
            sequence_number=manifest.sequence_number if number is None else number,
            first_row_id=first_row_id,
            raw=raw,
        )


def _partition_known(spec: Spec, partition: tuple[Value | None, ...]) -> Callable[[int], Known]:
    return lambda number: of_value(spec.fields[number].type, partition[number])


def _stats(raw: Mapping[str, Any]) -> Callable[[str, int], Any]:
    return lambda name, column_id: stats_of(raw, name, column_id)


def stats_of(raw: Mapping[str, Any], name: str, column_id: int) -> Any:
    """An entry of a map from column ids, which Avro has as a list of pairs."""
    for pair in raw.get(name) or ():
        key, value = pair.values()
        if key == column_id:
            return value
    return None
