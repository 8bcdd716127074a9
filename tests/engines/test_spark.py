"""Spark with the Iceberg runtime: definitions, append, merge, delete, time travel, branches."""

import pytest
from pyspark.errors import AnalysisException

from tests.engines.conftest import Sql

pytestmark = pytest.mark.prove

ROWS = "(1, 'Bern', 1.0), (2, 'Oslo', 2.0), (3, 'Bern', 3.0)"
ALL = "select id, city, amount from {ns}.t order by id"


def make(sql: Sql, *, partitioned: bool = True, **properties: str) -> None:
    listed = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
    text = "create table {ns}.t (id bigint, city string, amount double) using iceberg"
    text += " partitioned by (city)" if partitioned else ""
    sql(text + (f" tblproperties ({listed.replace('_', '.')})" if listed else ""))
    sql(f"insert into {{ns}}.t values {ROWS}")


def test_tables_are_defined_and_changed(sql: Sql) -> None:
    make(sql)
    assert sql("show tables in {ns}") == [(sql.namespace, "t", False)]
    sql("alter table {ns}.t add column at timestamp comment 'when' after id")
    sql("alter table {ns}.t rename column amount to price")
    sql("alter table {ns}.t alter column price comment 'of one'")
    sql("alter table {ns}.t add partition field bucket(4, id)")
    sql("alter table {ns}.t drop partition field city")
    sql("alter table {ns}.t write ordered by id")
    sql("alter table {ns}.t set tblproperties ('team'='tests')")
    sql("insert into {ns}.t values (4, timestamp '2026-01-01 00:00:00', 'Rome', 4.0)")
    assert sql("select id, city, price from {ns}.t where id > 2 order by id") == [(3, "Bern", 3.0), (4, "Rome", 4.0)]
    assert ("team", "tests") in sql("show tblproperties {ns}.t")
    sql("alter table {ns}.t rename to {plain}.u")
    assert sql("show tables in {ns}") == [(sql.namespace, "u", False)]
    sql("create table {ns}.copy using iceberg as select * from {ns}.u")
    sql("create or replace table {ns}.copy using iceberg as select id from {ns}.u where id < 3")
    assert sql("select count(*) from {ns}.copy") == [(2,)]
    assert len(sql("select * from {ns}.copy.history")) == 2
    with pytest.raises(AnalysisException):
        sql("create table {ns}.u (id bigint) using iceberg")
    sql("drop table {ns}.u purge")
    sql("drop table {ns}.copy")
    sql("drop namespace {ns}")


def test_namespaces_have_properties(sql: Sql) -> None:
    sql("alter namespace {ns} set properties ('purpose'='tests')")
    assert any("tests" in str(row) for row in sql("describe namespace extended {ns}"))
    assert (sql.namespace,) in sql("show namespaces in {catalog}")


def test_rows_are_appended_and_replaced(sql: Sql) -> None:
    make(sql)
    sql("insert into {ns}.t select id + 10, city, amount from {ns}.t where city = 'Oslo'")
    sql("insert overwrite {ns}.t partition (city = 'Bern') values (9, 9.0)")
    assert sql(ALL) == [(2, "Oslo", 2.0), (9, "Bern", 9.0), (12, "Oslo", 2.0)]
    assert sql("select operation from {ns}.t.snapshots order by committed_at") == [
        ("append",),
        ("append",),
        ("overwrite",),
    ]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_are_merged_updated_and_deleted(sql: Sql, mode: str) -> None:
    make(sql, write_delete_mode=mode, write_update_mode=mode, write_merge_mode=mode)
    sql(
        "merge into {ns}.t using (select * from values (2, 'Oslo', 20.0), (3, 'Bern', null), (4, 'Rome', 4.0) "
        "as s(id, city, amount)) s on t.id = s.id when matched and s.amount is null then delete "
        "when matched then update set amount = s.amount when not matched then insert *"
    )
    assert sql(ALL) == [(1, "Bern", 1.0), (2, "Oslo", 20.0), (4, "Rome", 4.0)]
    sql("update {ns}.t set amount = amount + 1 where city = 'Oslo'")
    sql("delete from {ns}.t where id = 1")
    assert sql(ALL) == [(2, "Oslo", 21.0), (4, "Rome", 4.0)]


def test_the_past_is_read(sql: Sql) -> None:
    make(sql)
    [(first, at)] = sql("select snapshot_id, cast(committed_at as string) from {ns}.t.snapshots")
    sql("delete from {ns}.t where city = 'Bern'")
    assert sql("select count(*) from {ns}.t") == [(1,)]
    assert sql("select count(*) from {ns}.t version as of {first}", first=first) == [(3,)]
    assert sql("select count(*) from {ns}.t timestamp as of '{at}'", at=at) == [(3,)]
    changed = sql("select operation, parent_id from {ns}.t.snapshots order by committed_at")
    assert changed == [("append", None), ("delete", first)]


def test_branches_and_tags(sql: Sql) -> None:
    make(sql)
    sql("alter table {ns}.t create branch audit retain 7 days")
    sql("alter table {ns}.t create tag first")
    sql("insert into {ns}.t.branch_audit values (4, 'Rome', 4.0)")
    counts = "select count(*) from {ns}.t{version}"
    assert sql(counts, version="") == [(3,)]
    assert sql(counts, version=" version as of 'audit'") == [(4,)]
    sql("call {catalog}.system.fast_forward('{plain}.t', 'main', 'audit')")
    assert sql(counts, version="") == [(4,)]
    assert sql(counts, version=" version as of 'first'") == [(3,)]
    sql("alter table {ns}.t drop branch audit")
    assert sorted(sql("select name, type from {ns}.t.refs")) == [("first", "TAG"), ("main", "BRANCH")]


def test_rows_are_written_audited_and_published(sql: Sql) -> None:
    make(sql)
    sql("alter table {ns}.t set tblproperties ('write.wap.enabled'='true')")
    sql("alter table {ns}.t create branch staged")
    sql.session.conf.set("spark.wap.branch", "staged")
    try:
        sql("insert into {ns}.t values (4, 'Rome', 4.0)")
    finally:
        sql.session.conf.unset("spark.wap.branch")
    assert sql("select count(*) from {ns}.t") == [(3,)]
    sql("call {catalog}.system.fast_forward('{plain}.t', 'main', 'staged')")
    assert sql("select count(*) from {ns}.t") == [(4,)]
