"""Node checks the golden vectors with its own implementation, and notices when one is wrong."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        reason = "node is not installed; it checks the golden vectors in a second language"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def run(node: str, vectors: Path) -> subprocess.CompletedProcess[str]:
    command = [node, str(GOLDEN / "keys.mjs"), str(vectors)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, encoding="utf-8")


def test_node_agrees_with_every_vector(node: str) -> None:
    vectors = json.loads((GOLDEN / "keys.json").read_text(encoding="utf-8"))
    done = run(node, GOLDEN / "keys.json")
    assert done.stdout.splitlines()[-1:] == [f"{sum(map(len, vectors.values()))} passed, 0 failed"], done.stderr
    assert done.returncode == 0


def test_node_fails_on_a_wrong_vector_of_any_section(node: str, tmp_path: Path) -> None:
    vectors = json.loads((GOLDEN / "keys.json").read_text(encoding="utf-8"))
    wrong = {
        "numbers": {"ieee": "3ff0000000000000", "canonical": "2"},
        "canonical_json": vectors["canonical_json"][0] | {"sha256": "0" * 64},
        "refused_json": {"json": "1", "why": "is fine"},
        "asset_keys": {"namespace": "a", "name": "b", "canonical": "a/b"},
        "refused_asset_keys": "a.b",
        "partition_keys": vectors["partition_keys"][0] | {"partition_id": "part_0"},
        "refused_partition_keys": {"dimensions": [], "why": "is fine"},
        "refused_partition_texts": "k=s:x",
        "dependency_fingerprints": vectors["dependency_fingerprints"][0] | {"parameter": "other"},
        "edge_ids": vectors["edge_ids"][0] | {"dependency": "other"},
        "ulids": vectors["ulids"][0] | {"time_us": "0"},
        "refused_ulids": vectors["ulids"][0]["ulid"],
        "refused_uuids": vectors["ulids"][0]["uuid"],
        "request_keys": vectors["request_keys"][0] | {"key": "other"},
        "refused_request_keys": vectors["request_keys"][0]["text"],
    }
    assert wrong.keys() == vectors.keys()
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps({section: [vector] for section, vector in wrong.items()}), encoding="utf-8")
    done = run(node, path)
    assert done.stdout.splitlines()[-1] == f"0 passed, {len(wrong)} failed"
    assert {line.partition("[")[0] for line in done.stderr.splitlines()} == set(vectors)
    assert done.returncode == 1


def test_node_fails_on_missing_and_on_unknown_sections(node: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text('{"numbers": [], "surprise": [1]}', encoding="utf-8")
    done = run(node, path)
    assert "numbers: no vectors" in done.stderr
    assert "surprise: no check for this section" in done.stderr
    assert done.returncode == 1
