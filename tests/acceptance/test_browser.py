"""A browser downloads what its query needs and no more (criterion 7)."""

import hashlib
import io
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from arco.state import Manifest, bucket_of, decode_manifest
from arco.storage import Scope
from tests.acceptance.conftest import NAMED, Served
from tests.acceptance.deployment import until

NAMESPACES, TABLES, COLUMNS = 17, 4, 40


def fill(served: Served) -> dict[str, list[str]]:
    """Namespaces of a few tables with many columns each; the ids of the tables by namespace.

    Every change is published by itself, so that the layers are the same whatever the machine has to do: of 68 deltas of
    columns, 64 become one layer of the second level (8 times 8), and 4 stay slices of deltas.
    """
    made: dict[str, list[str]] = {}
    for space in range(NAMESPACES):
        name = f"space{space}"
        served.api.done("POST", "/namespaces", {"name": name}, wait="published")
        made[name] = []
        for number in range(TABLES):
            answer = served.api.create_table(f"{name}.t{number}", COLUMNS, wait="published")
            assert answer.status_code == 201, answer.text
            made[name].append(answer.json()["table"]["id"])
    until(lambda: not served.bucket.head("catalog").pending, "merges are finished")
    return made


@dataclass(frozen=True)
class Download:
    """What a browser got: the manifest, the files it was given URLs of, their bytes together, their rows by table."""

    manifest: Manifest
    files: list[dict[str, Any]]
    size: int
    rows: dict[str, pa.Table]


def download(served: Served, tables: list[dict[str, Any]]) -> Download:
    """What a browser does: the URLs of its tables, the manifest, and slices by range."""
    [log] = served.api.done("POST", "/browser/urls", {"tables": tables})["logs"]
    manifest = decode_manifest(served.api.http.get(log["manifest_url"]).content, log["manifest_url"])
    assert manifest.number == log["revision"]
    parts: dict[str, list[pa.Table]] = {table["table"]: [] for table in tables}
    size = 0
    for file in log["files"]:
        last = file["offset"] + file["length"] - 1
        answer = served.api.http.get(file["url"], headers={"Range": f"bytes={file['offset']}-{last}"})
        assert answer.status_code == 206
        assert hashlib.sha256(answer.content).hexdigest() == file["sha256"]
        size += len(answer.content)
        parts[file["table"]].append(pq.read_table(io.BytesIO(answer.content)))
    rows = {name: pa.concat_tables(found) for name, found in parts.items() if found}
    return Download(manifest, log["files"], size, rows)


def test_a_query_for_one_namespace_downloads_only_its_files(workspace: Served) -> None:
    """Rows are sharded by group: the names of a namespace in one bucket, the columns of a table in one. Merged files
    are cut between buckets, here at 32 KiB instead of 128 MiB.

    Ids are random, so the columns of a namespace lie in one to four files of the merged layer. It has 13 or more of
    about one size, so that four are less than half of everything too.
    """
    made = fill(workspace)
    space = workspace.api.done("GET", "/namespaces/space5")["id"]
    everything = download(workspace, [{"table": "names"}, {"table": "columns"}])
    merged, *deltas = everything.manifest.layers_of("columns")
    assert [merged.level, *(layer.level for layer in deltas)] == [2, 0, 0, 0, 0]
    assert len(merged.files) >= 13, "merged files were cut"

    asked = [{"table": "names", "groups": [space]}, {"table": "columns", "groups": made["space5"]}]
    found = download(workspace, asked)
    wanted = {"names": {bucket_of(space)}, "columns": {bucket_of(table) for table in made["space5"]}}
    holding = [
        (file.sha256, layer.table)
        for layer in found.manifest.layers
        for file in layer.files
        if any(file.has_bucket(bucket) for bucket in wanted.get(layer.table, ()))
    ]
    assert sorted((file["sha256"], file["table"]) for file in found.files) == sorted(holding)
    assert len(found.files) < len(everything.files) / 2
    assert found.size < everything.size / 2

    names = [row["name"] for row in found.rows["names"].to_pylist() if row["parent_id"] == space]
    assert sorted(names) == [f"t{number}" for number in range(TABLES)]
    columns = [row for row in found.rows["columns"].to_pylist() if row["table_id"] in made["space5"]]
    assert len(columns) == TABLES * COLUMNS
    assert len(everything.rows["columns"]) == NAMESPACES * TABLES * COLUMNS

    one = download(workspace, [{"table": "columns", "groups": [made["space7"][2]]}])
    assert sum(row["table_id"] == made["space7"][2] for row in one.rows["columns"].to_pylist()) == COLUMNS
    assert one.size < everything.size / 4


def test_private_tables_are_never_signed(served: dict[Scope, Served]) -> None:
    found = served[NAMED[0]]
    api = found.api
    for table in ("api_keys", "key_names", "role_bindings", "settings"):
        answer = api.ask("POST", "/browser/urls", {"tables": [{"table": table}]})
        assert answer.status_code == 404, table
        assert table not in answer.json()["detail"].partition("there are ")[2]
        assert api.ask("POST", "/query", {"sql": f"select * from system.{table}"}).status_code == 404
    api.done("POST", "/namespaces", {"name": "private"})
    present = {layer.table for layer in found.bucket.head("catalog").layers} - {"api_keys"}
    everything = [{"table": name} for name in sorted(present)]
    known = [table for table in everything if api.ask("POST", "/browser/urls", {"tables": [table]}).is_success]
    signed = {log["log"]: log for log in api.done("POST", "/browser/urls", {"tables": known})["logs"]}
    manifest = found.bucket.manifests("catalog", signed["catalog"]["revision"])[0]
    private = {file.path for layer in manifest.layers_of("api_keys") for file in layer.files}
    assert private
    urls = [file["url"] for log in signed.values() for file in log["files"]]
    assert urls
    assert not any("/private/" in url or path in url for url in urls for path in private)
