"""Format version 3 in Spark: deletion vectors, row lineage, variants, and the way there from version 2."""

import pytest

from tests.engines.conftest import Sql

pytestmark = pytest.mark.prove

MERGE_ON_READ = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'"
LINEAGE = "select id, _row_id, _last_updated_sequence_number from {ns}.t order by id"


def test_deletion_vectors_and_row_lineage(sql: Sql) -> None:
    sql(f"create table {{ns}}.t (id bigint) using iceberg tblproperties ('format-version'='3', {MERGE_ON_READ})")
    sql("insert into {ns}.t select /*+ coalesce(1) */ id from range(5)")
    assert sql(LINEAGE) == [(number, number, 1) for number in range(5)]
    sql("delete from {ns}.t where id = 1")
    sql("delete from {ns}.t where id = 2")
    assert sql("select content, file_format, record_count from {ns}.t.delete_files") == [(1, "PUFFIN", 2)]
    sql("update {ns}.t set id = 30 where id = 3")
    assert sql(LINEAGE) == [(0, 0, 1), (4, 4, 1), (30, 3, 4)]
    sql("insert into {ns}.t values (50)")
    [(_, row, sequence)] = sql("select id, _row_id, _last_updated_sequence_number from {ns}.t where id = 50")
    assert (row >= 5, sequence) == (True, 5)


def test_a_table_is_upgraded(sql: Sql) -> None:
    sql(f"create table {{ns}}.t (id bigint) using iceberg tblproperties ('format-version'='2', {MERGE_ON_READ})")
    sql("insert into {ns}.t select /*+ coalesce(1) */ id from range(4)")
    sql("delete from {ns}.t where id = 0")
    sql("alter table {ns}.t set tblproperties ('format-version'='3')")
    sql("delete from {ns}.t where id = 1")
    sql("insert into {ns}.t values (9)")
    assert sql("select id from {ns}.t order by id") == [(2,), (3,), (9,)]
    assert {row[0] for row in sql("select file_format from {ns}.t.delete_files")} == {"PUFFIN"}
    assert len({row for (row,) in sql("select _row_id from {ns}.t")}) == 3


def test_variants(sql: Sql) -> None:
    sql("create table {ns}.t (id bigint, v variant) using iceberg tblproperties ('format-version'='3')")
    sql("insert into {ns}.t select 1, parse_json('{{\"a\": 5}}')")
    assert sql("select variant_get(v, '$.a', 'int') from {ns}.t") == [(5,)]
