"""Queries in the sandbox: right answers, clear errors, and names that stay apart."""

import asyncio
import json
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.catalog._sql import MAX_SQL, Limits, QueryResult, Sandbox, run_sql
from arco.catalog._sql_process import QueryProcess
from arco.catalog._sql_relation import Relation, SqlView, near_names, select_columns
from arco.catalog._sql_worker import _date
from arco.core import ArcoError, Invalid, NotFound, Refused, TooLarge, Unavailable
from arco.runtime import AsyncRuntime


class Memory:
    """A relation in memory that notes what was asked of it."""

    def __init__(self, table: pa.Table, size: int | None = None) -> None:
        self._table = table
        self.asked: list[Collection[str] | None] = []
        self.schema = table.schema
        self.size_bytes = table.nbytes if size is None else size

    async def load(self, columns: Collection[str] | None) -> pa.Table:
        self.asked.append(columns)
        return select_columns(self._table, columns)


TABLES = Memory(
    pa.table({"name": ["orders", "lines", None], "rows": [3, 5, 7], "at": pa.array([{"a": 1}, {"a": 2}, None])})
)
WORLD: dict[tuple[str, ...], Relation | SqlView] = {
    ("system", "tables"): TABLES,
    ("system", "doubled"): SqlView("SELECT t.*, rows * 2 AS doubled FROM {t} t", {"t": TABLES}, frozenset({"rows"})),
    ("a", "b", "c", "d", "t"): Memory(pa.table({"x": [1]})),
    ("sales", "t"): Memory(pa.table({"x": [10]})),
    ("Sales", "t"): Memory(pa.table({"x": [20]})),
    ("pg_catalog", "t"): Memory(pa.table({"x": [30]})),
    ("main", "t"): Memory(pa.table({"x": [40]})),
    ("é ü", 'q"uote.d'): Memory(pa.table({"ö": [50]})),
    ("big", "t"): Memory(pa.table({"x": [1]}), size=1 << 40),
}


async def resolve(path: tuple[str, ...]) -> Relation | SqlView:
    found = WORLD.get(path)
    if found is None:
        raise NotFound(f"there is no {path}; {near_names('.'.join(path), ('.'.join(known) for known in WORLD))}")
    return found


def query(sql: str, limits: Limits | None = None) -> QueryResult:
    return asyncio.run(run_sql(sql, resolve, limits or Limits(), AsyncRuntime()))


def rows(sql: str) -> list[list[Any]]:
    return query(sql).rows


def refusal(sql: str, limits: Limits | None = None) -> ArcoError:
    with pytest.raises(ArcoError) as caught:
        query(sql, limits)
    return caught.value


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1 + 1", [[2]]),
        ("VALUES (1, 'a'), (2, NULL)", [[1, "a"], [2, None]]),
        ("FROM sales.t", [[10]]),
        ("TABLE sales.t", [[10]]),
        ("(SELECT 1) UNION ALL SELECT 2 ORDER BY 1 DESC", [[2], [1]]),
        ("WITH q AS (SELECT x + 1 AS y FROM sales.t) SELECT y FROM q", [[11]]),
        ("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) FROM n", [[1], [2], [3]]),
        ("SELECT system.tables.rows FROM system.tables WHERE tables.name = 'lines'", [[5]]),
        ("SELECT system.tables.at.a FROM system.tables WHERE rows = 5", [[2]]),
        ("SELECT a.b.c.d.t.x FROM a.b.c.d.t", [[1]]),
        ('SELECT one.x, two.x FROM sales.t one, "Sales".t two', [[10, 20]]),
        ("SELECT x FROM pg_catalog.t UNION ALL SELECT x FROM main.t ORDER BY 1", [[30], [40]]),
        ('SELECT ö FROM "é ü"."q""uote.d"', [[50]]),
        ("SELECT u.x FROM u: sales.t", [[10]]),
        ("SELECT (SELECT max(x) FROM sales.t) + x FROM main.t", [[50]]),
        ("SELECT x FROM main.t WHERE EXISTS (FROM sales.t WHERE x = 10)", [[40]]),
        ("SELECT t FROM sales.t", [[{"x": 10}]]),
        ("SELECT #1 FROM sales.t", [[10]]),
        ("SELECT y FROM sales.t AS t(y)", [[10]]),
        ("FROM sales.t NATURAL JOIN (SELECT 10 AS x, 'z' AS z)", [[10, "z"]]),
        ("SELECT one.x FROM sales.t one JOIN sales.t two USING (x)", [[10]]),
        ("SELECT count(*) FROM system.tables", [[3]]),
        ("SELECT list_transform([1, 2], lambda x: x + 1)", [[[2, 3]]]),
        ("SELECT COLUMNS('r.*') FROM system.tables ORDER BY 1", [[3], [5], [7]]),
        ("SELECT doubled FROM system.doubled ORDER BY 1", [[6], [10], [14]]),
        ("PIVOT sales.t ON x IN (10, 11) USING count(*)", [[1, 0]]),
        ("SELECT * FROM range(2)", [[0], [1]]),
        ("SELECT unnest([1, 2])", [[1], [2]]),
        ("SELECT 1; -- and a comment", [[1]]),
    ],
)
def test_queries_answer(sql: str, expected: list[list[Any]]) -> None:
    assert rows(sql) == expected


def test_describe_reads_no_rows_and_explain_shows_a_plan() -> None:
    relation = Memory(pa.table({"x": [1], "y": ["a"]}), size=1 << 40)

    async def only(path: tuple[str, ...]) -> Relation:
        return relation

    for keyword in ("DESCRIBE", "DESC", "SHOW"):
        found = asyncio.run(run_sql(f"{keyword} a.b", only, Limits(), AsyncRuntime()))
        assert [row[:2] for row in found.rows] == [["x", "BIGINT"], ["y", "VARCHAR"]]
    assert relation.asked == []
    assert "tables" not in rows("EXPLAIN SELECT 1")[0][1]
    assert rows("explain analyze select x from sales.t")[0][0] == "analyzed_plan"
    assert [row[0] for row in rows("SUMMARIZE sales.t")] == ["x"]


def test_only_the_columns_a_query_mentions_are_loaded() -> None:
    def asked(sql: str) -> Collection[str] | None:
        TABLES.asked.clear()
        query(sql)
        (columns,) = TABLES.asked
        return None if columns is None else sorted(set(columns) & {"name", "rows", "at"})

    assert asked("SELECT name FROM system.tables") == ["name"]
    assert asked("SELECT NAME FROM system.tables WHERE ROWS > 3 ORDER BY name") == ["name", "rows"]
    assert asked("SELECT count(*) FROM system.tables") == []
    assert asked("SELECT name FROM system.doubled") == ["name", "rows"]
    for everything in ("FROM system.tables", "SELECT t FROM system.tables t", "SELECT #2 FROM system.tables"):
        assert asked(everything) is None


def test_a_relation_named_twice_is_loaded_once() -> None:
    TABLES.asked.clear()
    assert rows("SELECT count(*) FROM system.tables one, system.doubled two") == [[9]]
    assert len(TABLES.asked) == 1


VALUES = [
    ("true", True),
    ("9223372036854775807", 2**63 - 1),
    ("18446744073709551615::UBIGINT", 2**64 - 1),
    ("sum(5)", 5),
    ("170141183460469231731687303715884105727::HUGEINT", str(2**127 - 1)),
    ("1.50::DECIMAL(9,2)", "1.50"),
    ("7::DECIMAL(38,0)", "7"),
    ("1.5::DOUBLE", 1.5),
    ("'NaN'::DOUBLE", "NaN"),
    ("'-inf'::DOUBLE", "-Infinity"),
    ("DATE '2026-01-02'", "2026-01-02"),
    ("'infinity'::DATE", "infinity"),
    ("DATE '0044-03-15 (BC)'", "-0043-03-15"),
    ("TIME '12:30:01.5'", "12:30:01.500000"),
    ("TIMESTAMP '2026-01-02 03:04:05.678'", "2026-01-02T03:04:05.678000"),
    ("TIMESTAMPTZ '2026-01-02 03:04:05+02'", "2026-01-02T01:04:05.000000Z"),
    ("TIMESTAMP_NS '2026-01-02 03:04:05.123456789'", "2026-01-02T03:04:05.123456789"),
    ("TIMESTAMP '290000-01-01'", "+290000-01-01T00:00:00.000000"),
    ("'infinity'::TIMESTAMPTZ", "infinity"),
    ("'a\\x00b'::BLOB", "YQBi"),
    ("{'a': [1, NULL], 'b': {'c': DATE '2026-01-02'}}", {"a": [1, None], "b": {"c": "2026-01-02"}}),
    ("MAP {'k': 1.5::DECIMAL(3,1), 'l': NULL}", {"k": "1.5", "l": None}),
    ("MAP {1: 'x'}", {"1": "x"}),
    ("[TIMESTAMPTZ '2026-01-02 00:00:00Z']", ["2026-01-02T00:00:00.000000Z"]),
    ("[1, 2]::INTEGER[2]", [1, 2]),
    ("'a'::ENUM('a', 'b')", "a"),
    ("'{\"j\": 1}'::JSON", '{"j": 1}'),
    ("INTERVAL 2 DAY", "2 days"),
    ("'101'::BIT", "101"),
    ("'eeccb8c5-9943-42bb-bb5e-222f4e14b687'::UUID", "eeccb8c5-9943-42bb-bb5e-222f4e14b687"),
    ("'\U0001f600 \u202e é'", "\U0001f600 \u202e é"),
    ("NULL", None),
]


def test_values_are_plain_json() -> None:
    found = query(f"SELECT {', '.join(sql for sql, _ in VALUES)}")
    assert dict(zip([sql for sql, _ in VALUES], found.rows[0], strict=True)) == dict(VALUES)
    assert json.loads(json.dumps(found.rows, allow_nan=False)) == found.rows


@given(days=st.integers(-3_000_000, 2_900_000))
@settings(max_examples=200)
def test_dates_are_those_of_duckdb(days: int) -> None:
    shown = duckdb.execute("SELECT CAST(DATE '1970-01-01' + $1::INTEGER AS VARCHAR)", [days]).fetchall()[0][0]
    if shown.endswith("(BC)"):
        year, rest = shown.removesuffix(" (BC)").split("-", 1)
        shown = f"-{int(year) - 1:04d}-{rest}" if int(year) > 1 else f"0000-{rest}"
    elif len(shown) > 10:
        shown = f"+{shown}"
    assert _date(days) == shown


def test_rows_stop_at_the_limit_of_rows() -> None:
    exact = query("FROM range(5)", Limits(max_rows=5))
    assert (exact.row_count, exact.truncated) == (5, False)
    cut = query("FROM range(1000000000000)", Limits(max_rows=5))
    assert (cut.rows, cut.truncated) == ([[0], [1], [2], [3], [4]], True)
    assert query("FROM range(0)", Limits(max_rows=0)).truncated is False
    assert query("FROM range(1)", Limits(max_rows=0)).truncated is True


def test_rows_stop_at_the_limit_of_bytes() -> None:
    cut = query("SELECT repeat('é', 50) FROM range(100)", Limits(max_bytes=1_000))
    assert cut.truncated
    assert 5 <= cut.row_count <= 10
    assert sum(len(json.dumps(row, ensure_ascii=False).encode()) for row in cut.rows) <= 1_000
    assert query("SELECT repeat('x', 2000)", Limits(max_bytes=1_000)).rows == []


def test_results_larger_than_a_chunk_arrive_whole() -> None:
    found = query("SELECT i, repeat('x', 100) FROM range(30000) t(i)", Limits(max_rows=30_000))
    assert [row[0] for row in found.rows] == list(range(30_000))
    assert not found.truncated


def test_what_is_too_large_to_read_is_refused_before_it_is_read() -> None:
    big = WORLD["big", "t"]
    assert isinstance(big, Memory)
    big.asked.clear()
    assert isinstance(refusal("FROM big.t"), TooLarge)
    assert big.asked == []
    assert isinstance(refusal("FROM sales.t", Limits(max_input_bytes=7)), TooLarge)


def test_errors_say_where() -> None:
    error = refusal("SELECT 1,\n  é, foo bar baz")
    assert isinstance(error, Invalid)
    assert error.details == {"line": 2, "column": 14}
    assert refusal("EXPLAIN SELECT\n selec 1 1").details == {"line": 2, "column": 8}
    assert 'column "nam"' in refusal("SELECT nam FROM system.tables").message
    assert "_arco" not in refusal("SELECT tables.nam FROM system.tables").message
    assert "_arco" not in refusal("SELECT * FROM system.tables JOIN sales.t USING (nope)").message
    assert "Could not convert" in refusal("SELECT 'a'::INTEGER").message


def test_unknown_names_are_not_found_with_near_ones() -> None:
    error = refusal("FROM system.tabels")
    assert isinstance(error, NotFound)
    assert "did you mean system.tables" in error.message
    assert isinstance(refusal("FROM tables"), NotFound)
    assert isinstance(refusal("WITH q AS (SELECT 1) FROM other"), NotFound)


@pytest.mark.parametrize("sql", ["", "   ", "-- only a comment", "/* */", ";", ";;", "SELECT 1; SELECT 2"])
def test_exactly_one_statement_is_taken(sql: str) -> None:
    assert isinstance(refusal(sql), Invalid)


def test_texts_that_are_no_texts_are_refused() -> None:
    assert "NUL" in refusal("SELECT 'a\0b'").message
    assert "surrogate" in refusal("SELECT '\ud800'").message
    assert isinstance(refusal("SELECT " + "1" * MAX_SQL), TooLarge)
    assert isinstance(refusal("SELECT '" + "x" * 1_000_000 + "'"), TooLarge)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 10_000 + "1" + ")" * 10_000,
        "SELECT " + "not " * 10_000 + "true",
        "SELECT " + "1+" * 10_000 + "1",
        "SELECT " + "[" * 10_000 + "]" * 10_000,
        "SELECT " + "(SELECT " * 5_000 + "1" + ")" * 5_000,
        "SELECT * FROM " + "(SELECT * FROM " * 2_500 + "t" + ")" * 3_000,
        "SELECT " + "CASE WHEN 1 THEN " * 1_500 + "1" + " END" * 2_000,
        "SELECT " + "-" * 9_999 + "1",
        "(" * 20_000,
        "SELECT " + "a." * 15_000 + "a",
        "FROM " + "a." * 15_000 + "a",
        "WITH " + ",".join(f"q{i} AS (SELECT 1)" for i in range(2_000)) + " SELECT 1 FROM nowhere.t",
    ],
    ids=lambda sql: sql[:20],
)
def test_deep_and_long_texts_are_answered(sql: str) -> None:
    assert len(sql) <= MAX_SQL
    assert isinstance(refusal(sql, Limits(max_seconds=3.0)), (Invalid, NotFound, Refused))


def test_moderate_depth_works() -> None:
    assert rows("SELECT " + "(" * 100 + "1" + ")" * 100) == [[1]]
    assert rows("SELECT " + "1+" * 150 + "1") == [[151]]


def test_a_sandbox_serves_many_and_keeps_a_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arco.catalog._sql.WAIT_SECONDS", 120)  # processes start slowly on a busy machine

    async def serve() -> list[QueryResult]:
        sandbox = Sandbox(AsyncRuntime(), spares=1, slots=2)
        try:
            found = await asyncio.gather(*(sandbox.run(f"SELECT {i}", resolve, Limits()) for i in range(6)))
            return [*found, await sandbox.run("SELECT 6", resolve, Limits())]
        finally:
            await sandbox.close()

    assert [found.rows for found in asyncio.run(serve())] == [[[i]] for i in range(7)]


def test_a_process_that_starts_slowly_takes_nothing_of_the_time_of_its_query(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = QueryProcess.ready

    def slow(process: QueryProcess) -> None:
        time.sleep(2.5)
        ready(process)

    monkeypatch.setattr(QueryProcess, "ready", slow)
    found = query("SELECT 1", Limits(max_seconds=2.0))
    assert found.rows == [[1]]
    assert found.elapsed < 2.0
    monkeypatch.setattr("arco.catalog._sql.START_SECONDS", 0.1)
    error = refusal("SELECT 1")
    assert isinstance(error, Unavailable)
    assert "ready within" in error.message


@pytest.mark.parametrize(("end", "told"), [("exit 3", "installed"), ("kill -9 $$", "killed")])
def test_a_process_that_cannot_start_is_told_of(
    end: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{end}\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    error = refusal("SELECT 1")
    assert isinstance(error, Unavailable)
    assert told in error.message


def test_a_query_that_gets_no_process_is_told_to_come_back_and_one_that_waited_has_its_whole_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("arco.catalog._sql.WAIT_SECONDS", 0.5)

    async def serve() -> tuple[ArcoError, list[list[Any]], list[list[Any]]]:
        sandbox = Sandbox(AsyncRuntime(), spares=0, slots=1)
        endless = "SELECT sum(sqrt(range)) FROM range(1000000000000)"  # and in little memory, which would end it sooner
        first = asyncio.create_task(sandbox.run(endless, resolve, Limits(max_seconds=5)))
        await asyncio.sleep(0.2)
        with pytest.raises(Unavailable) as caught:
            await sandbox.run("SELECT 1", resolve, Limits())
        monkeypatch.setattr("arco.catalog._sql.WAIT_SECONDS", 60)
        waited = await sandbox.run("SELECT 2", resolve, Limits())
        with pytest.raises(Refused, match="took longer than 5 s"):
            await first
        after = await sandbox.run("SELECT 3", resolve, Limits())
        await sandbox.close()
        return caught.value, waited.rows, after.rows

    error, waited, after = asyncio.run(serve())
    assert "busy" in error.message
    assert (waited, after) == ([[2]], [[3]])
