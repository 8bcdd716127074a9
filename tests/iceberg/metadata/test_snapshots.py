"""Snapshots, references, statistics and keys as they are sent."""

from typing import Any

import pytest

from arco.core import Invalid
from arco.iceberg.metadata._snapshots import (
    check_retention,
    parse_key,
    parse_partition_statistics,
    parse_ref,
    parse_snapshot,
    parse_statistics,
)
from tests.iceberg.metadata.examples import KEY, PARTITION_STATISTICS, STATISTICS, snapshot


def test_what_is_sent_is_kept() -> None:
    made = {**snapshot(1, 3), "tomorrow": {"x": []}}
    assert parse_snapshot(made) is made
    assert parse_statistics(STATISTICS) is STATISTICS
    assert parse_partition_statistics(PARTITION_STATISTICS) is PARTITION_STATISTICS
    assert parse_key(KEY) is KEY


def test_old_snapshots_name_their_manifests() -> None:
    parse_snapshot({"snapshot-id": 1, "timestamp-ms": 2, "manifests": ["a"]})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"snapshot-id": None}, "snapshot-id"),
        ({"snapshot-id": 1.0}, "Expected `int`, got `float` - at `\\$.snapshot-id`"),
        ({"snapshot-id": 2**63}, "Expected `int` <= 9223372036854775807"),
        ({"manifest-list": None}, "missing required field `manifest-list`"),
        ({"summary": {"operation": 5}}, "summary"),
        ({"sequence-number": -1}, "Invalid sequence-number"),
        ({"first-row-id": -1}, r"Invalid first-row-id \(cannot be negative\): -1"),
        ({"added-rows": -1}, r"Invalid added-rows \(cannot be negative\): -1"),
        ({"added-rows": None}, r"Invalid added-rows \(required when first-row-id is set\): null"),
        ({"schema-id": "0"}, "schema-id"),
        ({"key-id": 5}, "key-id"),
    ],
)
def test_what_is_no_snapshot(change: dict[str, Any], text: str) -> None:
    with pytest.raises(Invalid, match=text):
        parse_snapshot(snapshot(1, 3) | change)


@pytest.mark.parametrize(
    ("kind", "limits", "text"),
    [
        ("twig", (None, None, None), "Invalid snapshot ref type: twig"),
        ("tag", (1, None, None), "Tags do not support setting minSnapshotsToKeep"),
        ("tag", (None, 1, None), "Tags do not support setting maxSnapshotAgeMs"),
        ("branch", (0, None, None), "Min snapshots to keep must be greater than 0"),
        ("branch", (None, 0, None), "Max snapshot age must be greater than 0 ms"),
        ("branch", (None, None, -1), "Max reference age must be greater than 0"),
    ],
)
def test_limits_that_cannot_be(kind: str, limits: tuple[int | None, int | None, int | None], text: str) -> None:
    with pytest.raises(Invalid, match=text):
        check_retention(kind, *limits)


def test_refs() -> None:
    parse_ref({"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 1})
    with pytest.raises(Invalid, match="missing required field `type`"):
        parse_ref({"snapshot-id": 1})


def test_keys_are_base64() -> None:
    with pytest.raises(Invalid, match="`encrypted-key-metadata` is not base64"):
        parse_key({**KEY, "encrypted-key-metadata": "é"})
