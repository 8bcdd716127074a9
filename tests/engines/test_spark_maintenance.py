"""The maintenance procedures of Iceberg in Spark."""

import pytest

from tests.engines.conftest import Sql

pytestmark = pytest.mark.prove

FUTURE = "timestamp '2099-01-01 00:00:00'"


def fill(sql: Sql, commits: int) -> list[int]:
    """Commits of one row each; the ids of their snapshots."""
    sql(
        "create table {ns}.t (id bigint, city string) using iceberg tblproperties ("
        "'write.delete.mode'='merge-on-read', 'write.metadata.delete-after-commit.enabled'='true', "
        "'write.metadata.previous-versions-max'='3')"
    )
    for number in range(commits):
        sql("insert into {ns}.t values ({number}, 'Bern')", number=number)
    return [row[0] for row in sql("select snapshot_id from {ns}.t.snapshots order by committed_at")]


def test_files_manifests_and_snapshots_are_tidied(sql: Sql) -> None:
    fill(sql, 5)
    assert len(sql("select * from {ns}.t.metadata_log_entries")) == 4
    [rewritten, *_] = sql(
        "call {catalog}.system.rewrite_data_files(table => '{plain}.t', options => map('min-input-files', '2'))"
    )
    assert rewritten[:2] == (5, 1)
    assert sql("select count(*) from {ns}.t.files") == [(1,)]
    sql("call {catalog}.system.rewrite_manifests('{plain}.t')")
    [expired] = sql(
        f"call {{catalog}}.system.expire_snapshots(table => '{{plain}}.t', older_than => {FUTURE}, retain_last => 1)"
    )
    assert expired[0] == 5
    assert len(sql("select * from {ns}.t.snapshots")) == 1
    assert sql("select count(*), sum(id) from {ns}.t") == [(5, 10)]


def test_position_deletes_are_rewritten(sql: Sql) -> None:
    sql(
        "create table {ns}.t (id bigint) using iceberg tblproperties ('format-version'='2', "
        "'write.delete.mode'='merge-on-read')"
    )
    sql("insert into {ns}.t select /*+ coalesce(1) */ id from range(10)")
    for number in range(3):
        sql("delete from {ns}.t where id = {number}", number=number)
    sql(
        "call {catalog}.system.rewrite_position_delete_files("
        "table => '{plain}.t', options => map('rewrite-all', 'true'))"
    )
    assert sql("select count(*) from {ns}.t.delete_files") == [(1,)]
    assert sql("select count(*) from {ns}.t") == [(7,)]


def test_the_table_is_set_back_and_a_snapshot_picked(sql: Sql) -> None:
    first, second, third = fill(sql, 3)
    sql("call {catalog}.system.rollback_to_snapshot('{plain}.t', {first})", first=first)
    assert sql("select count(*) from {ns}.t") == [(1,)]
    sql("call {catalog}.system.cherrypick_snapshot('{plain}.t', {second})", second=second)
    assert sql("select count(*) from {ns}.t") == [(2,)]
    sql("call {catalog}.system.set_current_snapshot('{plain}.t', {third})", third=third)
    assert sql("select count(*) from {ns}.t") == [(3,)]
    [ancestors] = [sql("call {catalog}.system.ancestors_of('{plain}.t')")]
    assert [row[0] for row in ancestors] == [third, second, first]


def test_statistics_and_orphans(sql: Sql) -> None:
    fill(sql, 2)
    sql("call {catalog}.system.compute_table_stats('{plain}.t')")
    [(size,)] = sql("select count(*) from {ns}.t.files")
    removed = sql(
        "call {catalog}.system.remove_orphan_files(table => '{plain}.t', dry_run => true, prefix_listing => true)"
    )
    assert removed == []
    assert size == 2
    assert sql("select count(*) from {ns}.t") == [(2,)]


def test_a_table_is_registered_again(sql: Sql) -> None:
    fill(sql, 2)
    rows = sql("select file from {ns}.t.metadata_log_entries order by timestamp desc limit 1")
    sql("drop table {ns}.t")
    sql("call {catalog}.system.register_table('{plain}.u', '{file}')", file=rows[0][0])
    assert sql("select count(*) from {ns}.u") == [(2,)]
