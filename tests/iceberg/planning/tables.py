"""Tables for tests of planning, written by PyIceberg: rows in, manifests and metadata out, no data files.

Values of rows are as Iceberg holds them: dates as days, timestamps as micros, decimals as `Decimal`, uuids as bytes.
"""

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

__all__ = ["Disk", "Rows", "write_table"]

Rows = Sequence[dict[str, Any]]
SNAPSHOT = 7
_numbers = itertools.count()


class Disk:
    """Files by their path, and how often one was read."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    async def size(self, location: str) -> int:
        return Path(location).stat().st_size

    async def read(self, location: str) -> bytes:
        self.reads.append(location)
        return Path(location).read_bytes()


def write_table(
    folder: Path,
    schema: Schema,
    spec: PartitionSpec,
    manifests: Sequence[Sequence[Rows]],
    *,
    version: int = 2,
    codec: Any = "deflate",
) -> dict[str, Any]:
    """Metadata of a table with a manifest per list of files. All rows of a file are of one partition."""
    io, name = PyArrowFileIO(), next(_numbers)
    written = []
    for number, files in enumerate(manifests):
        output = io.new_output(str(folder / f"{name}-m{number}.avro"))
        with write_manifest(version, spec, schema, output, SNAPSHOT, codec) as writer:  # type: ignore[arg-type]
            for at, rows in enumerate(files):
                writer.add_entry(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=SNAPSHOT,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=_file(f"file-{number}-{at}", schema, spec, rows),
                    )
                )
        written.append(writer.to_manifest_file())
    listed = str(folder / f"{name}-list.avro")
    with write_manifest_list(version, io.new_output(listed), SNAPSHOT, None, 1, codec) as lists:  # type: ignore[arg-type]
        lists.add_manifests(written)
    snapshot = {"snapshot-id": SNAPSHOT, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": listed}
    metadata: dict[str, Any] = {
        "format-version": version,
        "table-uuid": "0f3b1f6e-9f0f-4a57-9b5c-0d3e3b0a6d11",
        "location": str(folder),
        "last-sequence-number": 1,
        "last-updated-ms": 1,
        "last-column-id": 100,
        "schemas": [json.loads(schema.model_dump_json())],
        "schema": json.loads(schema.model_dump_json()),
        "current-schema-id": schema.schema_id,
        "partition-specs": [json.loads(spec.model_dump_json())],
        "default-spec-id": spec.spec_id,
        "last-partition-id": 1100,
        "properties": {},
        "current-snapshot-id": SNAPSHOT,
        "snapshots": [{**snapshot, "summary": {"operation": "append"}, "schema-id": schema.schema_id}],
        "snapshot-log": [],
        "metadata-log": [],
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "refs": {"main": {"snapshot-id": SNAPSHOT, "type": "branch"}},
    }
    (folder / f"{name}.metadata.json").write_text(json.dumps(metadata))
    metadata["path"] = str(folder / f"{name}.metadata.json")
    return metadata


def partition_of(schema: Schema, spec: PartitionSpec, row: dict[str, Any]) -> tuple[Any, ...]:
    found = []
    for field in spec.fields:
        source = schema.find_field(field.source_id)
        found.append(field.transform.transform(source.field_type)(row[source.name]))
    return tuple(found)


def _file(path: str, schema: Schema, spec: PartitionSpec, rows: Rows) -> DataFile:
    values, nulls, nans, lower, upper = {}, {}, {}, {}, {}
    for field in schema.fields:
        assert isinstance(field.field_type, PrimitiveType)
        column = [row[field.name] for row in rows]
        kept = [value for value in column if value is not None and not _is_nan(value)]
        values[field.field_id] = len(column)
        nulls[field.field_id] = column.count(None)
        if isinstance(field.field_type, FloatType | DoubleType):
            nans[field.field_id] = sum(_is_nan(value) for value in column)
        if kept:
            lower[field.field_id] = to_bytes(field.field_type, min(kept))
            upper[field.field_id] = to_bytes(field.field_type, max(kept))
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition_of(schema, spec, rows[0])),
        record_count=len(rows),
        file_size_in_bytes=100,
        column_sizes={},
        value_counts=values,
        null_value_counts=nulls,
        nan_value_counts=nans,
        lower_bounds=lower,
        upper_bounds=upper,
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = spec.spec_id
    return file


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
