"""DuckDB with its Iceberg extension reads what others wrote, and writes what others read."""

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from tests.engines.conftest import Lake
from tests.engines.environments import Engine
from tests.engines.test_pyiceberg import SCHEMA, read, rows

pytestmark = pytest.mark.prove

Sql = Callable[[str], list[list[Any]]]


@pytest.fixture
def catalog(lake: Lake, namespace: str) -> Catalog:
    found = load_catalog("arco", type="rest", **lake.properties)
    found.create_namespace(namespace)
    return found


@pytest.fixture
def sql(lake: Lake, duckdb_engine: Engine) -> Sql:
    attached = {row[0] for row in duckdb_engine.ask(sql="select database_name from duckdb_databases()")}
    if lake.name not in attached:
        duckdb_engine.ask(attach={lake.name: lake.properties})

    def ask(text: str) -> list[list[Any]]:
        found: list[list[Any]] = duckdb_engine.ask(sql=text)
        return found

    return ask


def test_what_pyiceberg_wrote_is_read(lake: Lake, catalog: Catalog, namespace: str, sql: Sql) -> None:
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    table.append(rows((1, "Bern", 1.0), (2, "Oslo", 2.0)))
    first = table.current_snapshot()
    assert first is not None
    table.append(rows((3, "Bern", 3.0)))
    name = f"{lake.name}.{namespace}.t"
    assert sql(f"select city, sum(amount) from {name} group by all order by all") == [["Bern", 4.0], ["Oslo", 2.0]]
    assert sql(f"select count(*) from {name} at (version => {first.snapshot_id})") == [[2]]
    table.delete("city = 'Bern'")
    assert sql(f"select * from {name}") == [[2, "Oslo", 2.0]]
    assert ["t"] in sql(f"select table_name from duckdb_tables() where schema_name = '{namespace}'")


def test_what_duckdb_writes_is_read(lake: Lake, catalog: Catalog, namespace: str, sql: Sql) -> None:
    name = f"{lake.name}.{namespace}.t"
    sql(f"create table {name} (id bigint, city varchar, amount double)")
    sql(f"insert into {name} values (1, 'Bern', 1.0), (2, 'Oslo', 2.0)")
    sql(f"insert into {name} values (3, 'Rome', 3.0)")
    assert read(catalog, f"{namespace}.t") == [(1, "Bern", 1.0), (2, "Oslo", 2.0), (3, "Rome", 3.0)]
    sql(f"delete from {name} where id = 2")
    sql(f"update {name} set amount = 30 where id = 3")
    assert read(catalog, f"{namespace}.t") == [(1, "Bern", 1.0), (3, "Rome", 30.0)]
    sql(f"drop table {name}")
    assert catalog.list_tables(namespace) == []


def test_a_transaction_of_two_tables(lake: Lake, catalog: Catalog, namespace: str, sql: Sql) -> None:
    names = [f"{lake.name}.{namespace}.{letter}" for letter in "ab"]
    for name in names:
        sql(f"create table {name} (id bigint)")
    sql("begin")
    for name in names:
        sql(f"insert into {name} values (1)")
    assert [len(catalog.load_table(f"{namespace}.{letter}").snapshots()) for letter in "ab"] == [0, 0]
    sql("commit")
    assert [read(catalog, f"{namespace}.{letter}") for letter in "ab"] == [[(1,)], [(1,)]]
