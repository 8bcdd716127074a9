"""Engines on one table: what each of them writes, all of them read."""

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from tests.engines.conftest import Sql
from tests.engines.environments import Engine

pytestmark = pytest.mark.prove


def test_each_reads_what_the_others_write(sql: Sql, duckdb_engine: Engine, datafusion_engine: Engine) -> None:
    lake, namespace = sql.lake, sql.namespace
    catalog = load_catalog("arco", type="rest", **lake.properties)
    attached = {row[0] for row in duckdb_engine.ask(sql="select database_name from duckdb_databases()")}
    if lake.name not in attached:
        duckdb_engine.ask(attach={lake.name: lake.properties})

    def check(*expected: tuple[int, str]) -> None:
        table = catalog.load_table(f"{namespace}.t").scan().to_arrow()
        assert sorted(tuple(row.values()) for row in table.to_pylist()) == list(expected), "PyIceberg"
        query = "select id, who from {} order by id"
        rows = [list(row) for row in expected]
        assert [list(row) for row in sql(query.format("{ns}.t"))] == rows, "Spark"
        assert duckdb_engine.ask(sql=query.format(f"{lake.name}.{namespace}.t")) == rows, "DuckDB"
        asked = {"properties": lake.properties, "tables": {"t": f"{namespace}.t"}}
        assert datafusion_engine.ask(sql=query.format("t"), **asked) == rows, "DataFusion"

    sql("create table {ns}.t (id bigint, who string) using iceberg tblproperties ('write.delete.mode'='merge-on-read')")
    sql("insert into {ns}.t values (1, 'Spark'), (2, 'Spark')")
    catalog.load_table(f"{namespace}.t").append(pa.table({"id": [3], "who": ["PyIceberg"]}))
    duckdb_engine.ask(sql=f"insert into {lake.name}.{namespace}.t values (4, 'DuckDB')")
    check((1, "Spark"), (2, "Spark"), (3, "PyIceberg"), (4, "DuckDB"))
    sql("delete from {ns}.t where id = 2")
    duckdb_engine.ask(sql=f"delete from {lake.name}.{namespace}.t where id = 3")
    check((1, "Spark"), (4, "DuckDB"))
    parents = {
        snapshot.snapshot_id: snapshot.parent_snapshot_id
        for snapshot in catalog.load_table(f"{namespace}.t").snapshots()
    }
    assert len(parents) == 5
    assert list(parents.values()).count(None) == 1
