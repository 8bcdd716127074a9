"""A browser downloads what its query needs and no more (criterion 7)."""

import hashlib
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from arco.state import bucket_of
from arco.storage import Scope
from tests.acceptance.conftest import NAMED, Served
from tests.acceptance.deployment import until

NAMESPACES, TABLES, COLUMNS = 10, 4, 40


def fill(served: Served) -> dict[str, list[str]]:
    """Namespaces of a few tables with many columns each; the ids of the tables by namespace."""
    made: dict[str, list[str]] = {}
    for space in range(NAMESPACES):
        name = f"space{space}"
        served.api.done("POST", "/namespaces", {"name": name}, wait="durable")
        made[name] = []
        for number in range(TABLES):
            wait = "published" if number == TABLES - 1 else "durable"
            answer = served.api.create_table(f"{name}.t{number}", COLUMNS, wait=wait)
            assert answer.status_code == 201, answer.text
            made[name].append(answer.json()["table"]["id"])
    until(lambda: not served.bucket.head("catalog").pending, "merges are finished")
    return made


def download(served: Served, tables: list[dict[str, Any]]) -> tuple[dict[str, pa.Table], int, list[dict[str, Any]]]:
    """What a browser does: the URLs of its tables, their slices by range, rows by table; and how many bytes that is."""
    [log] = served.api.done("POST", "/browser/urls", {"tables": tables})["logs"]
    assert served.api.http.get(log["manifest_url"]).json()["number"] == log["revision"]
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
    return rows, size, log["files"]


def test_a_query_for_one_namespace_downloads_only_its_files(workspace: Served) -> None:
    """Rows are sharded by group: the names of a namespace in one bucket, the columns of a table in one. Merged files
    are cut between buckets, here at 32 KiB instead of 128 MiB."""
    made = fill(workspace)
    api, head = workspace.api, workspace.bucket.head("catalog")
    space = api.done("GET", "/namespaces/space5")["id"]
    all_rows, everything, all_files = download(workspace, [{"table": "names"}, {"table": "columns"}])
    assert len(all_files) > 8
    assert any(layer.level and len(layer.files) > 1 for layer in head.layers_of("columns")), "merged files were cut"

    asked = [{"table": "names", "groups": [space]}, {"table": "columns", "groups": made["space5"]}]
    rows, size, files = download(workspace, asked)
    wanted = {"names": {bucket_of(space)}, "columns": {bucket_of(table) for table in made["space5"]}}
    holding = [
        (file.sha256, layer.table)
        for layer in head.layers
        for file in layer.files
        if any(file.has_bucket(bucket) for bucket in wanted.get(layer.table, ()))
    ]
    assert sorted((file["sha256"], file["table"]) for file in files) == sorted(holding)
    assert len(files) < len(all_files) / 2
    assert size < everything / 2

    names = [row["name"] for row in rows["names"].to_pylist() if row["parent_id"] == space]
    assert sorted(names) == [f"t{number}" for number in range(TABLES)]
    columns = [row for row in rows["columns"].to_pylist() if row["table_id"] in made["space5"]]
    assert len(columns) == TABLES * COLUMNS
    assert len(all_rows["columns"]) == NAMESPACES * TABLES * COLUMNS

    one, least, _ = download(workspace, [{"table": "columns", "groups": [made["space7"][2]]}])
    assert sum(row["table_id"] == made["space7"][2] for row in one["columns"].to_pylist()) == COLUMNS
    assert least < everything / 4


def test_private_tables_are_never_signed(served: dict[Scope, Served]) -> None:
    found = served[NAMED[0]]
    api = found.api
    for table in ("api_keys", "key_names", "role_bindings", "settings"):
        answer = api.ask("POST", "/browser/urls", {"tables": [{"table": table}]})
        assert answer.status_code == 404, table
        assert table not in answer.json()["detail"].partition("there are ")[2]
        assert api.ask("POST", "/query", {"sql": f"select * from system.{table}"}).status_code == 404
    api.done("POST", "/namespaces", {"name": "private"})
    head = found.bucket.head("catalog")
    private = {file.path for layer in head.layers if layer.table == "api_keys" for file in layer.files}
    assert private
    everything = [{"table": name} for name in sorted({layer.table for layer in head.layers} - {"api_keys"})]
    known = [table for table in everything if api.ask("POST", "/browser/urls", {"tables": [table]}).is_success]
    signed = api.done("POST", "/browser/urls", {"tables": known})["logs"]
    urls = [file["url"] for log in signed for file in log["files"]]
    assert urls
    assert not any("/private/" in url or path in url for url in urls for path in private)
