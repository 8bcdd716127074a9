"""What a hostile query tries. None of it may read or write anything outside, hang, or take this process with it."""

import asyncio
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from arco.catalog._sql import Limits, QueryResult, Sandbox, run_sql
from arco.catalog._sql_process import ProcessEnded, QueryProcess
from arco.catalog._sql_relation import Relation
from arco.catalog._sql_tree import inspect_tree
from arco.catalog._sql_worker import connect, parse
from arco.core import ArcoError, Invalid, NotFound, Refused
from arco.runtime import AsyncRuntime

LINUX = pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="looks at processes through /proc")

SECRET = "the-secret-of-this-test"

a_variable = pa.table({"leaked": [SECRET]})
"""DuckDB finds such variables by name unless it is told not to."""

TIGHT = Limits(max_rows=10, max_bytes=10_000, max_seconds=1.5, max_memory_bytes=128 << 20)
PATIENT = Limits(max_seconds=60.0)
GRACE = 20.0
"""Seconds that starting and ending a process may take on a busy machine."""


async def nothing(path: tuple[str, ...]) -> Relation:
    raise NotFound(f"there is no {'.'.join(path)}")


def attempt(sql: str, limits: Limits = TIGHT) -> QueryResult | ArcoError:
    """What comes of a query, which must come in time."""
    started = time.monotonic()
    try:
        return asyncio.run(run_sql(sql, nothing, limits, AsyncRuntime()))
    except ArcoError as error:
        return error
    finally:
        assert time.monotonic() - started < limits.max_seconds + GRACE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret.csv"
    path.write_text(f"column\n{SECRET}\n")
    return path


READS = [
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_csv_auto('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM read_json('{file}')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM read_duckdb('{file}')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM glob('{folder}/*')",
    "FROM '{file}'",
    'SELECT * FROM "{file}"',
    "DESCRIBE '{file}'",
    "SUMMARIZE '{file}'",
    "EXPLAIN ANALYZE FROM '{file}'",
    "SELECT (SELECT column FROM '{file}')",
    "WITH q AS (FROM '{file}') FROM q",
    "FROM query('FROM ''{file}''')",
    "FROM query_table('{file}')",
    "FROM query('SELECT 1')",
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "SELECT * FROM system.main.read_text('{file}')",
    "FROM a_variable",
    "FROM query_table('a_variable')",
    "SELECT * FROM python_arrow_scan(1, 2, 3)",
    "FROM duckdb_secrets()",
    "FROM which_secret('s3://x', 's3')",
    "FROM duckdb_settings()",
    "FROM duckdb_logs()",
    "FROM duckdb_extensions()",
    "FROM duckdb_views()",
    "FROM pg_catalog.pg_settings",
    "FROM information_schema.tables",
    "FROM sqlite_master",
    "FROM duckdb_tables",
    "SHOW ALL TABLES",
    "SHOW DATABASES",
    "SELECT current_setting('home_directory')",
    "SELECT getenv('HOME')",
    "SELECT getvariable('x')",
    "SELECT write_log('x')",
    "SELECT current_query()",
    "SELECT sleep_ms(60000)",
    "SELECT pg_sleep(60)",
]


LATER = ["SELECT getenv('HOME')", "SELECT $1", "SELECT ?"]
"""What only running them refuses: the function does not exist, the parameter is not given."""

NO_QUERIES = [
    "COPY (SELECT 1) TO '{file}.out'",
    "EXPORT DATABASE '{folder}/out'",
    "ATTACH '{folder}/out.db'",
    "ATTACH ':memory:' AS other",
    "DETACH memory",
    "USE memory",
    "INSTALL httpfs",
    "LOAD json",
    "LOAD '{file}'",
    "PRAGMA version",
    "PRAGMA database_list",
    "SET memory_limit = '100GB'",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "CREATE TABLE t AS SELECT 1",
    "CREATE MACRO f(x) AS x",
    "CREATE SECRET s (TYPE s3)",
    "INSERT INTO system.tables VALUES (1)",
    "UPDATE system.tables SET name = 'x'",
    "DELETE FROM system.tables",
    "MERGE INTO system.tables USING system.tables ON true WHEN MATCHED THEN DELETE",
    "TRUNCATE system.tables",
    "DROP TABLE system.tables",
    "ALTER TABLE system.tables ADD COLUMN x INTEGER",
    "WITH q AS (SELECT 1) DELETE FROM system.tables",
    "WITH q AS (SELECT 1) INSERT INTO system.tables FROM q",
    "SELECT 1; DROP TABLE system.tables",
    "EXPLAIN DELETE FROM system.tables",
    "EXPLAIN ANALYZE INSERT INTO system.tables VALUES (1)",
    "CALL pragma_version()",
    "CHECKPOINT",
    "VACUUM",
    "BEGIN",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "IMPORT DATABASE '{folder}'",
    "SELECT $1",
    "SELECT ?",
]


def refused_by_reading(connection: Any, text: str) -> bool:
    """Whether the syntax tree alone is enough to refuse a text: it is no query, or names what nobody resolves."""
    text = text.removeprefix("EXPLAIN ANALYZE ").removeprefix("EXPLAIN ")
    tree = json.loads(parse(connection, text))
    if tree["error"]:
        return True
    try:
        return inspect_tree(tree).references != ()
    except Invalid:
        return True


@pytest.fixture(scope="module")
def connection() -> Any:
    """DuckDB as the process has it, but in this one: what holds here does not depend on the process."""
    found = connect()
    found.execute("SET lock_configuration = true")
    return found


@pytest.mark.parametrize("sql", [*READS, *NO_QUERIES])
def test_reading_the_text_is_enough_to_refuse_it(sql: str, file: Path, connection: Any) -> None:
    assert refused_by_reading(connection, sql.format(file=file, folder=file.parent)) is (sql not in LATER)


@pytest.mark.parametrize("sql", [sql for sql in [*READS, *NO_QUERIES] if "{" in sql])
def test_the_engine_itself_touches_no_file(sql: str, file: Path, connection: Any) -> None:
    before = sorted(os.listdir(file.parent))
    with pytest.raises(duckdb.Error) as caught:
        connection.execute(sql.format(file=file, folder=file.parent)).fetchall()
    assert SECRET not in str(caught.value)
    assert sorted(os.listdir(file.parent)) == before


@pytest.mark.parametrize("sql", ["FROM a_variable", "SET enable_external_access = true", "SET memory_limit = '9GB'"])
def test_the_engine_knows_no_variables_and_takes_no_settings(sql: str, connection: Any) -> None:
    with pytest.raises(duckdb.Error):
        connection.execute(sql).fetchall()


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM read_text('{file}')", "SELECT * FROM glob('{folder}/*')", "FROM '{file}'"]
)
def test_the_process_refuses_what_was_let_through(sql: str, file: Path) -> None:
    process = QueryProcess()
    try:
        process.ready()
        tree = process.parse(sql.format(file=file, folder=file.parent), 128 << 20, 10.0)
        request = {"ast": json.dumps(tree), "prefix": "", "schemas": [], "views": [], "rows": 10, "bytes": 1_000}
        answer = process.start(request, {})
        assert answer["error"]
        assert SECRET not in json.dumps(answer)
    finally:
        process.close()


def test_what_is_refused_is_refused_from_end_to_end(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arco.catalog._sql.WAIT_SECONDS", 120)  # each one starts a process, and most wait for others
    texts = [
        READS[0],
        READS[10],
        "FROM a_variable",
        *LATER,
        NO_QUERIES[0],
        "SELECT 1; SELECT 2",
        "EXPLAIN DELETE FROM a.b",
    ]

    async def all_of_them() -> list[QueryResult | BaseException]:
        sandbox = Sandbox(AsyncRuntime(), spares=1, slots=2)
        given = [text.format(file=file, folder=file.parent) for text in texts]
        found = await asyncio.gather(*(sandbox.run(text, nothing, PATIENT) for text in given), return_exceptions=True)
        await sandbox.close()
        return found

    found = dict(zip(texts, asyncio.run(all_of_them()), strict=True))
    assert {text: error for text, error in found.items() if not isinstance(error, (Invalid, NotFound))} == {}
    assert not any(SECRET in str(error) for error in found.values())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('x', 1000000000)",
        "SELECT length(repeat('x', 1000000000)) FROM range(5000)",
        "SELECT length(lpad('x', 1000000000, 'y')) FROM range(5000)",
        "SELECT length(printf('%1000000000d', 1))",
        "SELECT list(i) FROM range(1000000000) t(i)",
        "SELECT len(range(1000000000))",
        "SELECT string_agg(i::VARCHAR, ',') FROM range(1000000000) t(i)",
        "SELECT list_resize([1], 1000000000)",
        "SELECT count(DISTINCT i) FROM range(1000000000) t(i)",
        "SELECT i FROM range(1000000000) t(i) ORDER BY hash(i) LIMIT 5000000",
        "SELECT sum(a.range) FROM range(1000000) a, range(1000000) b",
        "SELECT sum(i) FROM range(1000000000000) t(i)",
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r",
        "WITH RECURSIVE r AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM r) SELECT max(length(s)) FROM r",
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT a.i FROM r a, r b) SELECT count(*) FROM r",
        "SELECT regexp_matches(repeat('a', 10000000), '(a+)+$')",
        "SELECT max(list_reduce(range(100000000), lambda a, b: (a * 31 + b) % 1000003))",
        "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))",
        "SELECT 1 FROM range(10000000) WHERE random() > 2",
        "SELECT factorial(33) FROM range(100000000000) WHERE range < 0",
    ],
)
def test_bombs_are_stopped(sql: str) -> None:
    found = attempt(sql)
    if isinstance(found, ArcoError):
        assert isinstance(found, (Invalid, Refused))
    else:
        assert found.row_count <= TIGHT.max_rows  # DuckDB was clever enough


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.range, b.range, c.range FROM range(1000) a, range(1000) b, range(1000) c",
        "FROM range(1000000000000)",
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) FROM r",
        "SELECT unnest(range(1000000))",
    ],
)
def test_endless_results_are_cut(sql: str) -> None:
    found = attempt(sql, Limits(max_rows=10, max_seconds=60.0))
    assert isinstance(found, QueryResult)
    assert (found.row_count, found.truncated) == (10, True)


def test_the_loop_goes_on_while_a_query_runs_away() -> None:
    """The time limit is kept by this side, and it is not held up itself."""

    async def scenario() -> tuple[int, float]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        started = time.monotonic()
        with pytest.raises(Refused, match="longer than 1 s"):
            await run_sql("SELECT sum(a.range) FROM range(1000000) a, range(1000000) b", nothing, slow, AsyncRuntime())
        ticking.cancel()
        return ticks, time.monotonic() - started

    slow = Limits(max_seconds=1.0)
    ticks, seconds = asyncio.run(scenario())
    assert ticks > 10
    assert seconds < 1.0 + GRACE


def test_slow_loading_counts_as_time() -> None:
    class Slow:
        schema = pa.schema([("x", pa.int64())])
        size_bytes = 0

        async def load(self, columns: Any) -> pa.Table:
            await asyncio.sleep(60)
            raise AssertionError

    async def slow(path: tuple[str, ...]) -> Relation:
        return Slow()

    with pytest.raises(Refused):
        asyncio.run(run_sql("FROM a.b", slow, Limits(max_seconds=1.0), AsyncRuntime()))


@LINUX
def test_a_cancelled_query_leaves_no_process() -> None:
    async def scenario() -> list[int]:
        sandbox = Sandbox(AsyncRuntime(), spares=0)
        endless = "SELECT sum(a.range) FROM range(1000000) a, range(1000000) b"
        task = asyncio.create_task(sandbox.run(endless, nothing, Limits()))
        async with asyncio.timeout(GRACE):
            while (running := children()) == before:
                await asyncio.sleep(0.05)
        await asyncio.sleep(1.0)  # most often it runs the query by then
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sandbox.close()
        return running

    before = children()
    running = asyncio.run(scenario())
    assert len(running) == len(before) + 1
    assert children() == before


def children() -> list[int]:
    listed = [path.read_text().split() for path in Path(f"/proc/{os.getpid()}/task").glob("*/children")]
    return sorted(int(pid) for pids in listed for pid in pids)


@LINUX
def test_the_process_knows_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AN_ENVIRONMENT_SECRET", SECRET)
    process = QueryProcess()
    try:
        process.ready()
        process.parse("SELECT 1", 128 << 20, 5.0)
        pid = process._process.pid
        assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        opened = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        assert all(target.startswith(("pipe:", "/dev/null", "/proc/", "anon_inode:")) for target in opened)
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert limits.split("Max file size")[1].split()[:2] == ["0", "0"]
        files = int(limits.split("Max open files")[1].split()[0])
        assert files <= len(opened)
    finally:
        process.close()


def test_a_dead_process_is_noticed() -> None:
    process = QueryProcess()
    try:
        process.ready()
        process._process.kill()
        with pytest.raises(ProcessEnded):
            process.parse("SELECT 1", 128 << 20, 5.0)
    finally:
        process.close()


def test_an_orphaned_process_ends_by_itself() -> None:
    process = QueryProcess()
    assert process._process.stdin is not None
    process.ready()
    process._process.stdin.close()
    try:
        assert process._process.wait(timeout=10) == 0
    except subprocess.TimeoutExpired:
        pytest.fail("it waits for a parent that has gone")
    finally:
        process.close()
