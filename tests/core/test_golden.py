"""The vectors of tests/golden/keys.json, which other languages check too (keys.mjs)."""

import json
import struct
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from arco.core import (
    AssetId,
    AssetKey,
    DependencyFingerprint,
    Invalid,
    PartitionKey,
    Ulid,
    canonical_json,
    dependency_fingerprint,
    edge_id,
    fingerprint,
    parse_request_key,
    parse_ulid,
    partition_id,
    request_key_time,
    ulid_time,
    ulid_to_uuid,
    uuid_to_ulid,
)

VECTORS: dict[str, list[Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "keys.json").read_text(encoding="utf-8")
)

READERS: dict[str, Callable[[Any], Any]] = {
    "string": str,
    "int": int,
    "bool": bool,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "null": lambda value: value,
    "float": float,
    "bytes": bytes.fromhex,
}


def partition_key(dimensions: list[dict[str, Any]]) -> PartitionKey:
    return PartitionKey({d["name"]: READERS[d["type"]](d["value"]) for d in dimensions})


def double(ieee: str) -> float:
    value: float = struct.unpack(">d", bytes.fromhex(ieee))[0]
    return value


def check_number(v: Any) -> None:
    if v["canonical"] is None:
        refused(canonical_json, double(v["ieee"]))
    else:
        assert canonical_json(double(v["ieee"])).decode() == v["canonical"]


def check_canonical_json(v: Any) -> None:
    value = json.loads(v["json"])
    assert canonical_json(value).decode() == v["canonical"]
    assert fingerprint(value) == v["sha256"]


def check_asset_key(v: Any) -> None:
    key = AssetKey(v["namespace"], v["name"])
    assert key.canonical == v["canonical"]
    assert AssetKey.parse(v["canonical"]) == key


def check_partition_key(v: Any) -> None:
    key = partition_key(v["dimensions"])
    assert key.canonical == v["canonical"]
    assert PartitionKey.parse(v["canonical"]).dimensions == key.dimensions
    assert partition_id(AssetId(parse_ulid(v["asset_id"])), key) == v["partition_id"]


def check_dependency(v: Any) -> None:
    source, target = AssetId(parse_ulid(v["source"])), AssetId(parse_ulid(v["target"]))
    parts = {name: v[name] for name in ("partition_mapping", "transform", "parameter")}
    assert dependency_fingerprint(source, target, **parts) == v["fingerprint"]


def check_edge(v: Any) -> None:
    source, target = AssetId(parse_ulid(v["source"])), AssetId(parse_ulid(v["target"]))
    assert edge_id(source, target, DependencyFingerprint(v["dependency"])) == v["edge_id"]


def check_ulid(v: Any) -> None:
    assert ulid_to_uuid(Ulid(v["ulid"])) == v["uuid"]
    assert uuid_to_ulid(v["uuid"]) == parse_ulid(v["ulid"])
    assert ulid_time(Ulid(v["ulid"])) == int(v["time_us"])


def check_request_key(v: Any) -> None:
    key = parse_request_key(v["text"])
    assert key == v["key"]
    assert request_key_time(key) == int(v["time_us"])


def refused(function: Callable[[Any], object], argument: object) -> None:
    with pytest.raises(Invalid):
        function(argument)


CHECKS: dict[str, Callable[[Any], None]] = {
    "numbers": check_number,
    "canonical_json": check_canonical_json,
    "refused_json": lambda v: refused(canonical_json, json.loads(v["json"])),
    "asset_keys": check_asset_key,
    "refused_asset_keys": lambda v: refused(AssetKey.parse, v),
    "partition_keys": check_partition_key,
    "refused_partition_keys": lambda v: refused(partition_key, v["dimensions"]),
    "refused_partition_texts": lambda v: refused(PartitionKey.parse, v),
    "dependency_fingerprints": check_dependency,
    "edge_ids": check_edge,
    "ulids": check_ulid,
    "refused_ulids": lambda v: refused(parse_ulid, v),
    "refused_uuids": lambda v: refused(uuid_to_ulid, v),
    "request_keys": check_request_key,
    "refused_request_keys": lambda v: refused(parse_request_key, v),
}


def test_every_section_of_the_file_has_a_check_and_every_check_has_vectors() -> None:
    assert {name for name, vectors in VECTORS.items() if vectors} == set(CHECKS)


@pytest.mark.parametrize(
    ("section", "index"), [(section, index) for section, vectors in VECTORS.items() for index in range(len(vectors))]
)
def test_vector(section: str, index: int) -> None:
    CHECKS[section](VECTORS[section][index])


@pytest.mark.parametrize(
    ("section", "field"),
    [("partition_keys", "partition_id"), ("dependency_fingerprints", "fingerprint"), ("edge_ids", "edge_id")],
)
def test_different_inputs_have_different_ids(section: str, field: str) -> None:
    ids = [vector[field] for vector in VECTORS[section]]
    inputs = [json.dumps([v.get("asset_id"), v["canonical"]] if "canonical" in v else v) for v in VECTORS[section]]
    assert len(set(ids)) == len(set(inputs))
