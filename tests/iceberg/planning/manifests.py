"""Manifests written by hand, for what PyIceberg does not write: deletes, deletion vectors, row ids, broken files."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro

__all__ = ["MemoryFiles", "Missing", "entry", "list_row", "manifest", "manifest_list", "table"]


def _optional(field_id: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def _required(field_id: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": field_id}


def _pairs(key: int, value: int, kind: str) -> dict[str, Any]:
    fields = [_required(key, "key", "int"), _required(value, "value", kind)]
    items = {"type": "record", "name": f"k{key}_v{value}", "fields": fields}
    return {"type": "array", "logicalType": "map", "items": items}


SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _required(509, "contains_null", "boolean"),
        _optional(518, "contains_nan", "boolean"),
        _optional(510, "lower_bound", "bytes"),
        _optional(511, "upper_bound", "bytes"),
    ],
}
LIST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _required(500, "manifest_path", "string"),
        _required(501, "manifest_length", "long"),
        _required(502, "partition_spec_id", "int"),
        _required(517, "content", "int"),
        _required(515, "sequence_number", "long"),
        _required(516, "min_sequence_number", "long"),
        _required(503, "added_snapshot_id", "long"),
        _required(504, "added_files_count", "int"),
        _required(505, "existing_files_count", "int"),
        _required(506, "deleted_files_count", "int"),
        _optional(507, "partitions", {"type": "array", "items": SUMMARY}),
        _optional(519, "key_metadata", "bytes"),
        _optional(520, "first_row_id", "long"),
    ],
}


def _entry_schema(partition: Mapping[int, Any]) -> dict[str, Any]:
    fields = [_optional(number, f"p{number}", kind) for number, kind in partition.items()]
    file = [
        _required(134, "content", "int"),
        _required(100, "file_path", "string"),
        _required(101, "file_format", "string"),
        _required(102, "partition", {"type": "record", "name": "r102", "fields": fields}),
        _required(103, "record_count", "long"),
        _required(104, "file_size_in_bytes", "long"),
        _optional(109, "value_counts", _pairs(119, 120, "long")),
        _optional(110, "null_value_counts", _pairs(121, 122, "long")),
        _optional(125, "lower_bounds", _pairs(126, 127, "bytes")),
        _optional(128, "upper_bounds", _pairs(129, 130, "bytes")),
        _optional(131, "key_metadata", "bytes"),
        _optional(132, "split_offsets", {"type": "array", "items": "long"}),
        _optional(135, "equality_ids", {"type": "array", "items": "int"}),
        _optional(140, "sort_order_id", "int"),
        _optional(142, "first_row_id", "long"),
        _optional(143, "referenced_data_file", "string"),
        _optional(144, "content_offset", "long"),
        _optional(145, "content_size_in_bytes", "long"),
    ]
    data_file = {"type": "record", "name": "r2", "fields": file}
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _required(0, "status", "int"),
            _optional(1, "snapshot_id", "long"),
            _optional(3, "sequence_number", "long"),
            _optional(4, "file_sequence_number", "long"),
            _required(2, "data_file", data_file),
        ],
    }


def entry(path: str, *, status: int = 1, number: int | None = None, partition: Any = None, **file: Any) -> Any:
    """A row of a manifest: a data file of ten rows unless told otherwise."""
    data = {"content": 0, "file_path": path, "file_format": "PARQUET", "record_count": 10, "file_size_in_bytes": 100}
    for name in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
        if name in file:
            file[name] = [{"key": key, "value": value} for key, value in file[name].items()]
    parts = {f"p{field}": value for field, value in (partition or {}).items()}
    return {"status": status, "sequence_number": number, "data_file": {**data, "partition": parts, **file}}


def manifest(rows: Sequence[Any], partition: Mapping[int, Any] | None = None, codec: str = "deflate") -> bytes:
    return _written(_entry_schema(partition or {}), rows, codec)


def manifest_list(rows: Sequence[Any]) -> bytes:
    return _written(LIST, rows, "deflate")


def list_row(path: str, *, content: int = 0, number: int = 1, spec: int = 0, **more: Any) -> dict[str, Any]:
    row = {"manifest_path": path, "manifest_length": 1, "partition_spec_id": spec, "content": content}
    row |= {"sequence_number": number, "min_sequence_number": 0, "added_snapshot_id": 7}
    return {**row, "added_files_count": 1, "existing_files_count": 0, "deleted_files_count": 0, **more}


def _written(schema: Any, rows: Sequence[Any], codec: str) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(schema), rows, codec=codec)
    return stream.getvalue()


class Missing(Exception):
    """A file that is not there."""


class MemoryFiles(dict[str, bytes]):
    """Files by their location."""

    def __missing__(self, location: str) -> bytes:
        raise Missing(location)

    async def size(self, location: str) -> int:
        return len(self[location])

    async def read(self, location: str) -> bytes:
        return self[location]


def table(*specs: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """Metadata of a table with the columns a (long) and s (string), whose snapshot 7 has its manifests in `list`."""
    columns = [
        {"id": 1, "name": "a", "type": "long", "required": False},
        {"id": 2, "name": "s", "type": "string", "required": False},
    ]
    numbered = [{"spec-id": number, "fields": list(fields)} for number, fields in enumerate(specs or ([],))]
    return {
        "format-version": 2,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": columns}],
        "current-schema-id": 0,
        "partition-specs": numbered,
        "current-snapshot-id": 7,
        "snapshots": [{"snapshot-id": 7, "manifest-list": "list", "summary": {"operation": "append"}}],
        **more,
    }
