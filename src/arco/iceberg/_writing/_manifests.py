"""Manifests and manifest lists as Avro files of format 2, written and read back. Only tables that Arco alone writes.

An *entry* is a file in a manifest: added by a snapshot, there since an earlier one, or deleted by it. A *manifest*
here is a row of a manifest list: where the file is, and what it holds.
"""

import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

import fastavro
import msgspec

from arco.core import Corrupt
from arco.iceberg._writing._metrics import DataFile

__all__ = ["Entry", "Manifest", "Status", "decode_list", "decode_manifest", "encode_list", "encode_manifest"]


class Status(IntEnum):
    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True)
class Entry:
    status: Status
    snapshot_id: int
    """The snapshot that added or deleted it."""
    sequence_number: int
    """Of the snapshot that added it."""
    file: DataFile

    @property
    def is_live(self) -> bool:
        return self.status is not Status.DELETED

    def kept(self) -> "Entry":
        return replace(self, status=Status.EXISTING)

    def deleted(self, snapshot_id: int) -> "Entry":
        return replace(self, status=Status.DELETED, snapshot_id=snapshot_id)


@dataclass(frozen=True)
class Manifest:
    location: str
    length: int
    sequence_number: int
    min_sequence_number: int
    snapshot_id: int
    """The snapshot for which it was written."""
    added_files: int
    existing_files: int
    deleted_files: int
    added_rows: int
    existing_rows: int
    deleted_rows: int

    @property
    def live_files(self) -> int:
        return self.added_files + self.existing_files

    @property
    def live_rows(self) -> int:
        return self.added_rows + self.existing_rows


def encode_manifest(entries: Sequence[Entry], fields: list[dict[str, Any]], schema_id: int) -> bytes:
    schema = {"type": "struct", "schema-id": schema_id, "fields": fields}
    metadata = {
        "schema": msgspec.json.encode(schema).decode(),
        "schema-id": str(schema_id),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }
    return _encoded(_ENTRY, map(_entry_row, entries), metadata)


def decode_manifest(data: bytes, location: str) -> list[Entry]:
    return [_entry(row) for row in _decoded(data, location)]


def encode_list(manifests: Iterable[Manifest], snapshot_id: int, parent: int | None, sequence_number: int) -> bytes:
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(sequence_number),
        "format-version": "2",
    }
    return _encoded(_MANIFEST, map(_manifest_row, manifests), metadata)


def decode_list(data: bytes, location: str) -> list[Manifest]:
    return [
        Manifest(
            row["manifest_path"],
            row["manifest_length"],
            row["sequence_number"],
            row["min_sequence_number"],
            row["added_snapshot_id"],
            *(row[f"{what}_files_count"] for what in _WHATS),
            *(row[f"{what}_rows_count"] for what in _WHATS),
        )
        for row in _decoded(data, location)
    ]


# Rows

_WHATS: Final = ("added", "existing", "deleted")


def _entry_row(entry: Entry) -> dict[str, Any]:
    file = entry.file
    return {
        "status": int(entry.status),
        "snapshot_id": entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.sequence_number,
        "data_file": {
            "content": 0,
            "file_path": file.location,
            "file_format": "PARQUET",
            "partition": {},
            "record_count": file.record_count,
            "file_size_in_bytes": file.size,
            "column_sizes": _pairs(file.column_sizes),
            "value_counts": _pairs(file.value_counts),
            "null_value_counts": _pairs(file.null_counts),
            "lower_bounds": _pairs(file.lower),
            "upper_bounds": _pairs(file.upper),
            "split_offsets": list(file.split_offsets) or None,
        },
    }


def _entry(row: Mapping[str, Any]) -> Entry:
    file = row["data_file"]
    return Entry(
        Status(row["status"]),
        row["snapshot_id"],
        row["sequence_number"],
        DataFile(
            file["file_path"],
            file["record_count"],
            file["file_size_in_bytes"],
            _map(file["column_sizes"]),
            _map(file["value_counts"]),
            _map(file["null_value_counts"]),
            _map(file["lower_bounds"]),
            _map(file["upper_bounds"]),
            tuple(file["split_offsets"] or ()),
        ),
    )


def _manifest_row(manifest: Manifest) -> dict[str, Any]:
    return {
        "manifest_path": manifest.location,
        "manifest_length": manifest.length,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": manifest.sequence_number,
        "min_sequence_number": manifest.min_sequence_number,
        "added_snapshot_id": manifest.snapshot_id,
        "added_files_count": manifest.added_files,
        "existing_files_count": manifest.existing_files,
        "deleted_files_count": manifest.deleted_files,
        "added_rows_count": manifest.added_rows,
        "existing_rows_count": manifest.existing_rows,
        "deleted_rows_count": manifest.deleted_rows,
        "partitions": [],
    }


def _pairs(values: Mapping[int, Any]) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": value} for key, value in sorted(values.items())] or None


def _map(pairs: Any) -> dict[int, Any]:
    return {pair["key"]: pair["value"] for pair in pairs or ()}


# Avro


def _encoded(schema: Any, rows: Iterable[dict[str, Any]], metadata: dict[str, str]) -> bytes:
    """The same bytes for the same rows: the marker between blocks, which fastavro leaves to chance, comes from them."""
    sink, rows = io.BytesIO(), list(rows)
    marker = hashlib.sha256(repr((metadata, rows)).encode()).digest()[:16]
    fastavro.writer(sink, schema, rows, codec="deflate", metadata=metadata, sync_marker=marker)
    return sink.getvalue()


def _decoded(data: bytes, location: str) -> list[Any]:
    try:
        return list(fastavro.reader(io.BytesIO(data)))
    except (ValueError, EOFError, KeyError, IndexError, TypeError) as error:
        raise Corrupt(
            f"{location} is not the file of manifests that was written there ({type(error).__name__}); restore it, or "
            "drop the table by a deploy without it and deploy again",
            location=location,
        ) from error


def _field(number: int, name: str, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    if optional:
        return {"name": name, "type": ["null", kind], "default": None, "field-id": number}
    return {"name": name, "type": kind, "field-id": number}


def _by_id(number: int, name: str, key: int, kind: str) -> dict[str, Any]:
    """A map from ids of columns: Avro's maps have text as keys, so it is a list of pairs."""
    pair = {
        "type": "record",
        "name": f"k{key}_v{key + 1}",
        "fields": [_field(key, "key", "int"), _field(key + 1, "value", kind)],
    }
    return _field(number, name, {"type": "array", "items": pair, "logicalType": "map"}, optional=True)


_FILE: Final = [
    _field(134, "content", "int"),
    _field(100, "file_path", "string"),
    _field(101, "file_format", "string"),
    _field(102, "partition", {"type": "record", "name": "r102", "fields": []}),
    _field(103, "record_count", "long"),
    _field(104, "file_size_in_bytes", "long"),
    _by_id(108, "column_sizes", 117, "long"),
    _by_id(109, "value_counts", 119, "long"),
    _by_id(110, "null_value_counts", 121, "long"),
    _by_id(125, "lower_bounds", 126, "bytes"),
    _by_id(128, "upper_bounds", 129, "bytes"),
    _field(132, "split_offsets", {"type": "array", "items": "long", "element-id": 133}, optional=True),
]
_ENTRY: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _field(0, "status", "int"),
            _field(1, "snapshot_id", "long", optional=True),
            _field(3, "sequence_number", "long", optional=True),
            _field(4, "file_sequence_number", "long", optional=True),
            _field(2, "data_file", {"type": "record", "name": "r2", "fields": _FILE}),
        ],
    }
)
_SUMMARY: Final = {
    "type": "record",
    "name": "r508",
    "fields": [
        _field(509, "contains_null", "boolean"),
        _field(518, "contains_nan", "boolean", optional=True),
        _field(510, "lower_bound", "bytes", optional=True),
        _field(511, "upper_bound", "bytes", optional=True),
    ],
}
_MANIFEST: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            _field(500, "manifest_path", "string"),
            _field(501, "manifest_length", "long"),
            _field(502, "partition_spec_id", "int"),
            _field(517, "content", "int"),
            _field(515, "sequence_number", "long"),
            _field(516, "min_sequence_number", "long"),
            _field(503, "added_snapshot_id", "long"),
            _field(504, "added_files_count", "int"),
            _field(505, "existing_files_count", "int"),
            _field(506, "deleted_files_count", "int"),
            _field(512, "added_rows_count", "long"),
            _field(513, "existing_rows_count", "long"),
            _field(514, "deleted_rows_count", "long"),
            _field(507, "partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}, optional=True),
        ],
    }
)
