"""Rules on Spark: aggregates that ride on a write and queries over what was written find what the contract says."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from arco import not_null, row_count
from arco.assets import CheckDefinition, Facts, Measure, Values, queries_of, questions_of
from arco.spark._measuring import columns_of, grouped, observed, observed_values, queried, register
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
        columns = columns_of(frame)
        questions = questions_of(checks, columns, VIEWS)
        riding, observation = observed(frame, questions.riding)
        path = str(self.folder / str(next(self.count)))
        riding.write.parquet(path)
        register({"data": self.spark.read.schema(frame.schema).parquet(path)})
        register({name: self.spark.createDataFrame(table) for name, table in inputs.items() if name in questions.views})
        values = observed_values(observation, questions.riding, self.seconds, self.fallback)
        return values | queried(self.spark, questions.measures, questions.queries), Facts(columns)

    def fallback(self, measures: Sequence[Measure]) -> Values:
        assert not measures, "all of them should have ridden"
        return {}


class TestFallback(TestSpark):
    """Nothing is told in no time: everything is asked of what was written."""

    seconds = 0.0

    def is_chosen(self, check: CheckDefinition) -> bool:
        return not queries_of(check)

    def fallback(self, measures: Sequence[Measure]) -> Values:
        return queried(self.spark, measures)


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
