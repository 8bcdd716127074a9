"""SQL over HTTP: what it answers, of which state, and what it will not do."""

from typing import Any

import httpx
import pytest

from arco.core import derive_ulid
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


USES = """
    WITH RECURSIVE edges AS (
        SELECT source_id, target_id, unnest(column_lineage.mappings) AS mapping FROM system.lineage_edges
    ),
    uses(id, name) AS (
        SELECT '{id}', '{name}'
        UNION
        SELECT e.target_id, e.mapping.target_column.name FROM uses u JOIN edges e ON e.source_id = u.id
        WHERE list_contains([source.name for source in e.mapping.source_columns], u.name)
    )
    SELECT id, name FROM uses WHERE id <> '{id}'
"""
"""All columns that are made of a column, however far away."""


def _mapped(source: str, target: str, **columns: list[str]) -> dict[str, Any]:
    """An edge with what each column of the target is made of."""
    mappings = [
        {"target_column": {"name": made}, "source_columns": [{"name": name} for name in read]}
        for made, read in columns.items()
    ]
    lineage = {
        "capture_method": "static_analysis",
        "confidence": "high",
        "confidence_reason": "sql_resolved",
        "coverage": 1.0,
        "mappings": mappings,
    }
    return {"source_id": source, "target_id": target, "column_lineage": lineage}


def test_what_uses_a_column_is_one_query() -> None:
    raw, sales, report, back = (derive_ulid(1_000_000_000_000, name) for name in ("raw", "sales", "report", "back"))
    edges = [
        _mapped(raw, sales, amount=["cents", "rate"], day=["at"]),
        _mapped(sales, report, revenue=["amount"], days=["day"]),
        _mapped(raw, report, share=["cents"]),
        _mapped(report, back, revenue=["revenue"]),
        _mapped(back, sales, amount=["revenue"]),
    ]
    data = {"run_id": "r", "task_id": "t", "started_at": 0, "completed_at": 1, "edges": edges}

    async def work(world: World) -> Any:
        await world.done("POST", "/events", {"events": [{"type": "LineageRecorded", "data": data}]})
        return [
            (await world.done("POST", "/query", {"sql": USES.format(id=raw, name=name)}))["rows"]
            for name in ("cents", "at", "nothing")
        ]

    cents, at, nothing = run_world(work)
    made = {(sales, "amount"), (report, "revenue"), (report, "share"), (back, "revenue")}
    assert {tuple(row) for row in cents} == made
    assert {tuple(row) for row in at} == {(sales, "day"), (report, "days")}
    assert nothing == []


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
