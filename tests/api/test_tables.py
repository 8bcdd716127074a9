"""Tables over HTTP: what a drop warns of, files that become a table, old names, contracts that are kept."""

import io
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.core import new_ulid
from arco.storage import Role
from tests.api.content import fill
from tests.api.world import World, run_world

COLUMNS = [{"name": "id", "type": "long"}]


async def _files(world: World, files: dict[str, bytes]) -> None:
    worker = world.workspace().handle(Role.WORKER)
    for path, data in files.items():
        await worker.put(path, data, only_if_absent=True)


def _parquet(rows: int) -> bytes:
    data = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(rows), pa.int64()), "name": ["x"] * rows}), data)
    return data.getvalue()


# Dropping


def test_dropping_a_table_that_others_read_warns_and_names_them() -> None:
    async def work(world: World) -> list[Any]:
        content = await fill(world)
        first = await world.done("DELETE", f"/tables/{content.table}")
        last = await world.done("DELETE", "/tables/sales.daily")
        return [first["warnings"], last["warnings"]]

    first, last = run_world(work)
    assert len(first) == 1
    assert "sales.daily" in first[0]
    assert last == []


def test_readers_that_are_gone_are_not_warned_of() -> None:
    async def work(world: World) -> Any:
        content = await fill(world)
        await world.done("DELETE", "/tables/sales.daily")
        return (await world.done("DELETE", f"/tables/{content.table}"))["warnings"]

    assert run_world(work) == []


def test_the_warning_names_ten_and_counts_the_rest() -> None:
    async def work(world: World) -> Any:
        await world.done("POST", "/namespaces", {"name": "a"})
        await world.done("POST", "/tables", {"name": "a.source", "columns": COLUMNS})
        for number in range(12):
            await world.done("POST", "/tables", {"name": f"a.t{number:02}", "columns": COLUMNS}, wait="durable")
            edge = {"source": "a.source", "target": f"a.t{number:02}"}
            await world.done("POST", "/lineage/edges", edge, wait="durable")
        return (await world.done("DELETE", "/tables/a.source"))["warnings"]

    [warning] = run_world(work)
    assert warning.count("a.t") == 10
    assert "and 2 more" in warning


def test_a_namespace_that_holds_something_is_dropped_only_with_cascade() -> None:
    async def work(world: World) -> list[int]:
        await fill(world)
        return [
            (await world.ask("DELETE", "/namespaces/sales")).status_code,
            (await world.ask("DELETE", "/namespaces/sales", cascade="true")).status_code,
            (await world.ask("DELETE", "/namespaces/sales")).status_code,
            (await world.ask("DELETE", "/namespaces/sales", if_exists="true")).status_code,
            (await world.ask("GET", "/tables/sales.orders")).status_code,
        ]

    assert run_world(work) == [409, 200, 404, 200, 404]


# Names


def test_an_old_name_is_read_and_says_so_but_not_written() -> None:
    async def work(world: World) -> list[httpx.Response]:
        await fill(world)
        await world.done("POST", "/tables/sales.orders/rename", {"new_name": "sales.sold"})
        return [
            await world.ask("GET", "/tables/sales.orders"),
            await world.ask("PATCH", "/tables/sales.orders", {"description": "x"}),
            await world.ask("GET", "/tables/sales.orders/history"),
        ]

    read, written, history = run_world(work)
    assert (read.json()["name"], read.json()["renamed_from"]) == ("sales.sold", "sales.orders")
    assert written.status_code in (404, 409)
    assert "sales.sold" in written.text
    assert [entry["change"] for entry in history.json()["items"]] == ["created", "renamed"]


def test_a_name_with_a_dot_is_quoted_everywhere() -> None:
    async def work(world: World) -> list[Any]:
        await world.done("POST", "/namespaces", {"name": '"a.b"'})
        made = await world.done("POST", "/tables", {"name": '"a.b"."t.1"', "columns": COLUMNS})
        read = await world.done("GET", '/tables/"a.b"."t.1"')
        listed = await world.done("GET", "/tables", namespace='"a.b"')
        missing = await world.ask("GET", "/tables/a.b.t")
        return [made["table"]["name"], read["name"], listed["items"][0]["name"], missing.status_code]

    assert run_world(work) == ['"a.b"."t.1"', '"a.b"."t.1"', '"a.b"."t.1"', 404]


def test_an_active_contract_refuses_a_change_that_breaks_it() -> None:
    async def work(world: World) -> list[int]:
        await fill(world)
        add = {"changes": [{"action": "add", "name": "needed", "type": "long", "nullable": False}]}
        found = [(await world.ask("POST", "/tables/sales.orders/alter", add)).status_code]
        await world.done("DELETE", "/tables/sales.orders/contract")
        return [*found, (await world.ask("POST", "/tables/sales.orders/alter", add)).status_code]

    assert run_world(work) == [409, 200]


# Registering


@pytest.mark.parametrize(
    ("format", "files", "rows"),
    [
        ("PARQUET", {"data/a/1.parquet": _parquet(3), "data/a/2.parquet": _parquet(4)}, 7),
        ("CSV", {"data/a/1.csv": b'id,name\n1,"x\ny"\n2,z\n', "data/a/2.csv": b"id,name\n3,w\n"}, 3),
        ("JSON", {"data/a/1.json": b'{"id": 1, "name": "x"}\n{"id": 2, "name": "y"}\n'}, 2),
    ],
)
def test_files_that_are_there_become_a_table(format: str, files: dict[str, bytes], rows: int) -> None:
    async def work(world: World) -> list[Any]:
        await _files(world, {**files, "data/a/_SUCCESS": b"", "data/a/.hidden": b"x"})
        await world.done("POST", "/namespaces", {"name": "sales"})
        body = {"name": "sales.found", "location": "data/a", "format": format, "tags": {"a": "b"}}
        made = await world.done("POST", "/tables/register", body)
        sql = {"sql": "SELECT count(*) FROM sales.found"}
        counted = await world.done("POST", "/query", sql)
        versions = {"sql": "SELECT row_count, byte_size FROM system.materializations"}
        return [made["table"], counted["rows"], (await world.done("POST", "/query", versions))["rows"]]

    table, counted, versions = run_world(work)
    assert [(column["name"], column["type"]) for column in table["columns"]] == [("id", "long"), ("name", "string")]
    assert (table["format"], table["location"], table["tags"]) == (format, "data/a", {"a": "b"})
    assert counted == [[rows]]
    assert [[int(number) for number in row] for row in versions] == [[rows, sum(len(data) for data in files.values())]]


def test_registering_again_with_its_key_records_nothing_twice_whatever_became_of_the_files() -> None:
    async def work(world: World) -> list[Any]:
        await _files(world, {"data/a/1.csv": b"id\n1\n"})
        await world.done("POST", "/namespaces", {"name": "sales"})
        runtime = world.host.runtime
        headers = {"Idempotency-Key": new_ulid(runtime, runtime)}
        body = {"name": "sales.found", "location": "data/a", "format": "CSV"}
        first = await world.done("POST", "/tables/register", body, headers=headers)
        await _files(world, {"data/a/2.csv": b"id,other\n2,x\n"})
        again = await world.done("POST", "/tables/register", body, headers=headers)
        sql = {"sql": "SELECT materialization_id FROM system.materializations"}
        found = await world.done("POST", "/query", sql)
        other = await world.ask("POST", "/tables/register", body)
        return [first, again, found["rows"], other.status_code]

    first, again, found, other = run_world(work)
    assert first | {"replayed": True} == again
    assert len(found) == 1
    assert other == 409


@pytest.mark.parametrize(
    ("location", "status"),
    [
        ("data/nothing", 404),
        ("", 400),
        ("/data/a", 400),
        ("../other/data/a", 400),
        ("data/../../other", 400),
        ("s3://bucket/a", 400),
        ("file:///etc/passwd", 400),
        ("data/a/*", 400),
        ("data/%2e%2e/a", 404),
        ("data/" + "x" * 2000, 413),
        ("data/a\x00", 400),
        ("data/\u202e", 404),
        ("incarnations", 404),
        ("~/x", 400),
    ],
)
def test_a_location_outside_of_data_or_without_files_is_refused(location: str, status: int) -> None:
    async def work(world: World) -> httpx.Response:
        await world.done("POST", "/namespaces", {"name": "sales"})
        body = {"name": "sales.found", "location": location, "format": "CSV"}
        return await world.ask("POST", "/tables/register", body)

    answer = run_world(work)
    assert answer.status_code in (status, 400), answer.text
    assert answer.status_code == status or status == 404


@pytest.mark.parametrize(
    ("format", "files"),
    [
        ("PARQUET", {"data/a/1.parquet": b"not parquet at all"}),
        ("PARQUET", {"data/a/1.parquet": _parquet(1)[:-20] + b"PAR1"}),
        ("JSON", {"data/a/1.json": b"{"}),
        ("CSV", {"data/a/1.csv": b"\x1f\x8b\x08"}),
        ("CSV", {"data/a/1.csv": b"id\n1\n", "data/a/2.csv": b"other\nx\n"}),
        ("CSV", {"data/a/day=1/1.csv": b"id\n1\n"}),
        ("PARQUET", {"data/a/_delta_log/0.json": b"{}", "data/a/1.parquet": _parquet(1)}),
    ],
)
def test_files_that_are_no_table_are_refused_and_nothing_is_left(format: str, files: dict[str, bytes]) -> None:
    async def work(world: World) -> list[Any]:
        await _files(world, files)
        await world.done("POST", "/namespaces", {"name": "sales"})
        body = {"name": "sales.found", "location": "data/a", "format": format}
        answer = await world.ask("POST", "/tables/register", body)
        return [answer.status_code, (await world.ask("GET", "/tables/sales.found")).status_code]

    assert run_world(work) == [409, 404]
