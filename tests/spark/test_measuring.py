"""Rules on Spark: aggregates that ride on a write and queries over what was written find what the contract says."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from arco import between, not_null, row_count
from arco.assets import CheckDefinition, Facts, Measure, Samples, Values, judge, queries_of, questions_of
from arco.spark._measuring import Audit, columns_of, grouped, observed, observed_values
from tests.assets.rules import ORDERS, VIEWS, RulesContract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(autouse=True, scope="class")
def _engine(request: pytest.FixtureRequest, spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> None:
    if request.cls is not None:
        request.cls.spark = spark.newSession()
        request.cls.folder = tmp_path_factory.mktemp("written")
        request.cls.count = iter(range(1_000_000))


class TestSpark(RulesContract):
    spark: "SparkSession"
    folder: Path
    count: Iterator[int]
    seconds = 30.0

    def values(
        self, checks: Sequence[CheckDefinition], table: pa.Table, inputs: Mapping[str, pa.Table]
    ) -> tuple[Values, Facts]:
        frame = self.spark.createDataFrame(table)
        audit = Audit(checks, frame, VIEWS)
        path = str(self.folder / str(next(self.count)))
        audit.frame.write.parquet(path)
        written = self.spark.read.schema(frame.schema).parquet(path)
        opened = {name: partial(self.spark.createDataFrame, table) for name, table in inputs.items()}
        return audit.values(self.spark, written, opened, self.seconds), Facts(columns_of(frame))

    def samples(self, query: Samples, table: pa.Table, inputs: Mapping[str, pa.Table]) -> pa.Table:
        for name, frame in {"data": table, **inputs}.items():
            self.spark.createDataFrame(frame).createOrReplaceTempView(name)
        return self.spark.sql(query.spark).toArrow()


class TestFallback(TestSpark):
    """Nothing is told in no time: everything is asked of what was written."""

    seconds = 0.0

    def is_chosen(self, check: CheckDefinition) -> bool:
        return not queries_of(check)

    def test_samples_are_failing_rows(self) -> None:
        """They are the same however the numbers came about."""


def test_aggregates_ride_on_the_write(spark: "SparkSession", tmp_path: Path) -> None:
    checks = [not_null("order_id"), row_count(min=1), between("amount", 0)]
    audit = Audit(checks, spark.createDataFrame(ORDERS), {})
    assert (audit.questions.measures, audit.questions.queries) == ((), ())
    audit.frame.write.parquet(str(tmp_path / "data"))
    nowhere = spark.createDataFrame(ORDERS.slice(0, 0))  # whoever asked this would find nothing
    values = audit.values(spark, nowhere, {})
    one = "1 of 10 rows (10 %)"
    assert [judge(check, values, Facts()).actual for check in checks] == [one, "10", one]


def test_what_was_never_run_is_asked_for_after_the_time_out(spark: "SparkSession") -> None:
    frame = spark.range(5)
    measures = questions_of([row_count(min=1)], columns_of(frame)).riding
    _, observation = observed(frame, measures)
    found = observed_values(observation, measures, 0.5, lambda missing: {measure.name: 7 for measure in missing})
    assert found == {measure.name: 7 for measure in measures}


def test_measures_that_spark_refuses_do_not_stop_the_write(spark: "SparkSession") -> None:
    frame = spark.range(5)
    assert observed(frame, [Measure("sum(nowhere)", "")]) == (frame, None)
    assert observed(frame, []) == (frame, None)


def test_partitions_of_one_frame_are_measured_in_one_job(spark: "SparkSession") -> None:
    frame: DataFrame = spark.createDataFrame(ORDERS.select(["region", "order_id"]))
    questions = questions_of([not_null("order_id")], columns_of(frame))
    rows, nulls = (measure.name for measure in questions.riding)
    found = grouped(frame, ["region"], questions.riding)
    assert found[("us",)] == {rows: 3, nulls: 1}
    assert found[("eu",)] == {rows: 2, nulls: 0}
