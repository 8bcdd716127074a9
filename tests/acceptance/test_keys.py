"""One partition, one id, whatever language computes it (criterion 10)."""

import json
import random
import shutil
import subprocess
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from arco.core import AssetId, PartitionKey, Scalar, Ulid, partition_id
from tests.acceptance import facts
from tests.acceptance.conftest import Served
from tests.acceptance.deployment import new_key
from tests.emulators.servers import missing_component

GOLDEN = Path(__file__).parents[1] / "golden"
TEXTS = [
    "",
    "a,b=c",
    'quote " and \\',
    "tab\tnul\x00",
    "äöü ß",
    "e\u0301",
    "\u00e9",
    "日本",
    "😀",
    "\u2028",
    "null",
    "true",
    "1",
]


def keys(chance: random.Random) -> list[dict[str, Scalar]]:
    """Keys of every type and many awkward values."""
    found: list[dict[str, Scalar]] = [{}]
    found += [{"text": text} for text in TEXTS]
    found += [{"number": number} for number in (0, -1, 1, 2**63 - 1, -(2**63))]
    found += [{"flag": True}, {"flag": False}, {"number": None}, {"number": "1"}]
    found += [{"day": date(2025, 1, 1) + timedelta(days=chance.randint(0, 400))} for _ in range(5)]
    zones = [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8))]
    for zone in zones:
        found.append({"at": datetime(2025, 3, 30, 1, 59, 59, chance.randint(0, 999_999), zone)})
    found += [{"b": chance.choice(TEXTS), "a": chance.randint(-9, 9), "c": date(2025, 2, 28)} for _ in range(10)]
    return found


def typed(key: dict[str, Scalar]) -> list[dict[str, Any]]:
    """The key as the vectors for other languages have it."""
    names = {bool: "bool", int: "int", str: "string", date: "date", datetime: "timestamp", type(None): "null"}

    def text(value: Scalar) -> str | bool | None:
        if isinstance(value, datetime):
            return value.isoformat(timespec="microseconds")
        if isinstance(value, date):
            return value.isoformat()
        return str(value) if type(value) is int else value  # type: ignore[return-value]

    return [{"name": name, "type": names[type(value)], "value": text(value)} for name, value in key.items()]


def test_python_and_node_give_a_partition_the_same_id_and_the_server_keeps_it(common: Served, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        missing_component("node is not installed; it computes partition ids in a second language")
    asset_id = facts.asset()
    vectors, sent = [], []
    for key in keys(random.Random(10)):
        python = PartitionKey(key)
        identity = partition_id(AssetId(Ulid(asset_id)), python)
        vector = {"asset_id": asset_id, "canonical": python.canonical, "partition_id": identity}
        vectors.append({**vector, "dimensions": typed(key)})
        sent.append(facts.materialization(asset_id, partition_id=identity, partition_key=python.canonical))
    golden = json.loads((GOLDEN / "keys.json").read_text(encoding="utf-8"))
    file = tmp_path / "vectors.json"
    file.write_text(json.dumps({**golden, "partition_keys": [*golden["partition_keys"], *vectors]}), encoding="utf-8")
    done = subprocess.run(
        [node, str(GOLDEN / "keys.mjs"), str(file)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr

    # The same keys through the API, twice: a partition each, two versions of it, and the text as it was sent.
    common.api.send(sent)
    common.api.send([told_anew(fact) for fact in reversed(sent)])
    rows = common.api.rows(
        f"select partition_id, partition_key, version_count from system.partitions where asset_id = '{asset_id}'"
    )
    expected = {vector["canonical"]: vector["partition_id"] for vector in vectors}
    assert {key: identity for identity, key, _ in rows} == expected
    assert {count for _, _, count in rows} == {2}
    for identity, key, _ in rows:
        assert partition_id(AssetId(Ulid(asset_id)), PartitionKey.parse(key)) == identity


def told_anew(fact: dict[str, Any]) -> dict[str, Any]:
    """Another version of the same partition."""
    return {**fact, "data": {**fact["data"], "materialization_id": new_key()}}
