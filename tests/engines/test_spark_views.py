"""Views in Spark."""

import pytest
from pyspark.errors import AnalysisException

from tests.engines.conftest import Sql

pytestmark = pytest.mark.prove


def test_views_are_made_replaced_renamed_and_dropped(sql: Sql) -> None:
    sql("create table {ns}.t (id bigint, city string) using iceberg")
    sql("insert into {ns}.t values (1, 'Bern'), (2, 'Oslo')")
    sql("create view {ns}.v (n comment 'how many') comment 'a view' as select count(*) from {ns}.t")
    assert sql("select n from {ns}.v") == [(2,)]
    sql("create or replace view {ns}.v as select id from {ns}.t where city = 'Oslo'")
    assert sql("select * from {ns}.v") == [(2,)]
    sql("alter view {ns}.v set tblproperties ('team'='tests')")
    assert ("team", "tests") in sql("show tblproperties {ns}.v")
    assert [row[1] for row in sql("show views in {ns}")] == ["v"]
    sql("create view if not exists {ns}.v as select 1 as one")
    with pytest.raises(AnalysisException):
        sql("create view {ns}.t as select 1 as one")
    with pytest.raises(AnalysisException):
        sql("create table {ns}.v (id bigint) using iceberg")
    sql("alter view {ns}.v rename to {ns}.w")
    assert sql("select * from {ns}.w") == [(2,)]
    sql("drop view {ns}.w")
    assert sql("show views in {ns}") == []
