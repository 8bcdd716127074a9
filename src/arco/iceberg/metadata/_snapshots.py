"""Snapshots, references and files of statistics, as they are sent and kept."""

import base64
import binascii
from typing import Any

from msgspec import field

from arco.iceberg._errors import BadRequest, IllegalArgument
from arco.iceberg.metadata._reading import Doc, Int, Long, Shape, convert

__all__ = [
    "MAIN",
    "RETENTION",
    "check_retention",
    "parse_key",
    "parse_partition_statistics",
    "parse_ref",
    "parse_snapshot",
    "parse_statistics",
]

MAIN = "main"
"""The branch whose snapshot is the table's current one."""

RETENTION = ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")


class _Snapshot(Shape, frozen=True):
    snapshot_id: Long
    timestamp_ms: Long
    sequence_number: Long = 0
    parent_snapshot_id: Long | None = None
    summary: dict[str, str] = field(default_factory=dict)
    manifest_list: str | None = None
    manifests: list[str] | None = None
    schema_id: Int | None = None
    first_row_id: Long | None = None
    added_rows: Long | None = None
    key_id: str | None = None


class _Ref(Shape, frozen=True):
    snapshot_id: Long
    type: str
    min_snapshots_to_keep: Int | None = None
    max_snapshot_age_ms: Long | None = None
    max_ref_age_ms: Long | None = None


class _Blob(Shape, frozen=True):
    type: str
    snapshot_id: Long
    sequence_number: Long
    fields: list[Int]
    properties: dict[str, str] = field(default_factory=dict)


class _Statistics(Shape, frozen=True):
    snapshot_id: Long
    statistics_path: str
    file_size_in_bytes: Long
    file_footer_size_in_bytes: Long
    blob_metadata: list[_Blob]


class _PartitionStatistics(Shape, frozen=True):
    snapshot_id: Long
    statistics_path: str
    file_size_in_bytes: Long


class _Key(Shape, frozen=True):
    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


def parse_snapshot(value: Any, what: str = "snapshot") -> Doc:
    """The snapshot, if it has the form of one."""
    shape = convert(value, _Snapshot, what)
    if shape.manifest_list is None and shape.manifests is None:
        raise BadRequest(f"Cannot parse {what}: Object missing required field `manifest-list`")
    numbers = (
        ("sequence-number", shape.sequence_number),
        ("first-row-id", shape.first_row_id),
        ("added-rows", shape.added_rows),
    )
    for name, number in numbers:
        if number is not None and number < 0:
            raise IllegalArgument(f"Invalid {name} (cannot be negative): {number}")
    if shape.first_row_id is not None and shape.added_rows is None:
        raise IllegalArgument("Invalid added-rows (required when first-row-id is set): null")
    snapshot: Doc = value
    return snapshot


def parse_ref(value: Any, what: str = "snapshot reference") -> Doc:
    """The reference, if it has the form of one."""
    shape = convert(value, _Ref, what)
    check_retention(shape.type, shape.min_snapshots_to_keep, shape.max_snapshot_age_ms, shape.max_ref_age_ms)
    ref: Doc = value
    return ref


def check_retention(kind: str, keep: int | None, snapshot_age: int | None, ref_age: int | None) -> None:
    """`Invalid` unless the type is one and its limits go with it."""
    if kind.lower() not in ("branch", "tag"):
        raise IllegalArgument(f"Invalid snapshot ref type: {kind[:100]}")
    if kind.lower() == "tag" and keep is not None:
        raise IllegalArgument("Tags do not support setting minSnapshotsToKeep")
    if kind.lower() == "tag" and snapshot_age is not None:
        raise IllegalArgument("Tags do not support setting maxSnapshotAgeMs")
    if keep is not None and keep <= 0:
        raise IllegalArgument("Min snapshots to keep must be greater than 0")
    if snapshot_age is not None and snapshot_age <= 0:
        raise IllegalArgument("Max snapshot age must be greater than 0 ms")
    if ref_age is not None and ref_age <= 0:
        raise IllegalArgument("Max reference age must be greater than 0")


def parse_statistics(value: Any, what: str = "statistics") -> Doc:
    convert(value, _Statistics, what)
    statistics: Doc = value
    return statistics


def parse_partition_statistics(value: Any, what: str = "partition-statistics") -> Doc:
    convert(value, _PartitionStatistics, what)
    statistics: Doc = value
    return statistics


def parse_key(value: Any, what: str = "encryption-key") -> Doc:
    """The encrypted key, if it has the form of one."""
    shape = convert(value, _Key, what)
    try:
        base64.b64decode(shape.encrypted_key_metadata, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest(f"Cannot parse {what}: `encrypted-key-metadata` is not base64") from None
    key: Doc = value
    return key
