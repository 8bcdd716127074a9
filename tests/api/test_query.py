"""SQL over HTTP: what it answers, of which state, and what it will not do."""

from typing import Any

import httpx
import pytest

from arco.storage import Role
from tests.api.content import fill
from tests.api.world import World, run_world


async def _table(world: World) -> None:
    await world.workspace().handle(Role.WORKER).put("data/a/1.csv", b"id,name\n1,x\n2,y\n", only_if_absent=True)
    await fill(world)
    await world.done("POST", "/tables/register", {"name": "sales.found", "location": "data/a", "format": "CSV"})


def _asked(sql: str, **more: Any) -> httpx.Response:
    async def work(world: World) -> httpx.Response:
        await _table(world)
        return await world.ask("POST", "/query", {"sql": sql, **more})

    return run_world(work)


def test_a_query_answers_with_columns_rows_and_the_positions_it_holds_for() -> None:
    answer = _asked("SELECT full_name, format FROM system.tables ORDER BY 1")
    body = answer.json()
    assert [column["name"] for column in body["columns"]] == ["full_name", "format"]
    assert body["rows"] == [["sales.daily", "PARQUET"], ["sales.found", "CSV"], ["sales.orders", "PARQUET"]]
    assert (body["row_count"], body["truncated"]) == (3, False)
    assert body["positions"].keys() == {"catalog", "activity"}
    assert answer.headers["arco-position"] == body["positions"]["catalog"]


def test_data_of_tables_joins_with_what_the_system_knows() -> None:
    sql = """
        SELECT f.id, t.description IS NULL FROM sales.found f JOIN system.tables t ON t.full_name = 'sales.found'
        WHERE f.name = 'y'
    """
    assert _asked(sql).json()["rows"] == [[2, True]]


def test_the_past_is_asked_with_a_point() -> None:
    body = _asked("SELECT count(*) FROM system.tables", as_of="catalog:0").json()
    assert body["rows"] == [[0]]
    assert body["positions"]["catalog"] == "0"


def test_rows_beyond_the_limit_are_cut_and_the_answer_says_so() -> None:
    body = _asked("SELECT * FROM range(1000)", max_rows=5).json()
    assert (len(body["rows"]), body["row_count"], body["truncated"]) == (5, 5, True)


def test_the_workspaces_limit_holds_whatever_is_asked() -> None:
    async def work(world: World) -> Any:
        await world.done("PATCH", "/settings", {"values": {"query.max_rows": 3}})
        return await world.done("POST", "/query", {"sql": "SELECT * FROM range(100)", "max_rows": 50})

    assert len(run_world(work)["rows"]) == 3


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a int)",
        "INSERT INTO system.tables VALUES (1)",
        "DELETE FROM sales.found",
        "COPY sales.found TO 'x.csv'",
        "ATTACH 'x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '1TB'",
        "PRAGMA database_list",
        "SELECT 1; SELECT 2",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('*')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT getenv('PATH')",
        "SELECT",
        "",
        "\x00",
        "not sql at all",
        "SELECT '",
        "(" * 3000,
    ],
)
def test_what_is_no_query_is_refused(sql: str) -> None:
    assert _asked(sql).status_code == 400


def test_a_file_is_no_table() -> None:
    answer = _asked("SELECT * FROM '/etc/passwd'")
    assert answer.status_code == 404
    assert "root:" not in answer.text


@pytest.mark.parametrize("name", ["api_keys", "role_bindings", "settings", "key_names", "owners"])
def test_private_tables_do_not_exist(name: str) -> None:
    answer = _asked(f"SELECT * FROM system.{name}")
    assert answer.status_code == 404
    assert "secret_hash" not in answer.text


def test_a_query_that_takes_too_long_is_ended() -> None:
    async def work(world: World) -> httpx.Response:
        await world.done("PATCH", "/settings", {"values": {"query.max_seconds": 1}})
        sql = "SELECT count(*) FROM range(1000000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"
        answer = await world.ask("POST", "/query", {"sql": sql})
        await world.done("PATCH", "/settings", {"values": {"query.max_seconds": None}})
        after = await world.ask("POST", "/query", {"sql": "SELECT 1"})
        assert after.json()["rows"] == [[1]]
        return answer

    answer = run_world(work)
    assert answer.status_code in (409, 413)
    assert "1 s" in answer.json()["detail"]
