"""The same assets on a standalone cluster, whose executors are processes of their own, and on Spark Connect."""

import sys
import time
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from arco import between, not_null, row_count, sql_check
from arco.domains.orchestration import FailureCategory, FinishTask, Outcome
from arco.spark import SparkSettings
from tests.spark.clusters import connect_server, standalone
from tests.worker.plane import input_of, reads
from tests.worker.test_spark import SOURCE, failed
from tests.worker.warm import CONF, WarmWorld, on_spark

pytestmark = pytest.mark.prove

MORE = """
    import arco.spark._measuring

    ask = arco.spark._measuring.queried

    def queried(session, measures, queries=()):
        print("asked after the write:", sorted(measure.name for measure in measures))
        return ask(session, measures, queries)

    arco.spark._measuring.queried = queried

    def parent(pid):
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])

    @asset(namespace="n", engine="spark")
    def loses_every_executor(context):
        def end(x):
            os.kill(parent(os.getppid()), 9)
            time.sleep(60)

        return context.spark.range(0, 1, 1, 1).select(F.udf(end, "long")("id").alias("x"))

    @asset(namespace="n", engine="spark")
    def loses_an_executor(context):
        import tempfile
        done = os.path.join(tempfile.mkdtemp(), "done")

        def end(x):
            try:
                os.close(os.open(done, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return x
            os.kill(parent(os.getppid()), 9)  # of the process that all such processes are made by
            time.sleep(60)

        return context.spark.range(0, 10, 1, 2).select(F.udf(end, "long")("id").alias("x"))
"""


@pytest.fixture(scope="module", params=["standalone", "connect"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmWorld]:
    folder = tmp_path_factory.mktemp("world")
    is_standalone = request.param == "standalone"
    cluster = standalone(folder) if is_standalone else connect_server(folder, {"spark.ui.enabled": "false"})
    with cluster as url:
        conf = {**CONF, "spark.executor.memory": "512m", "spark.pyspark.python": sys.executable}
        settings = SparkSettings(url, conf if is_standalone else {"spark.sql.shuffle.partitions": "2"})
        made = WarmWorld(folder, SOURCE + MORE, spark=settings)
        made.start()
        yield made
        made.close()


def do(world: WarmWorld, name: str, *before: tuple[str, FinishTask]) -> FinishTask:
    made = on_spark(name, dependencies=tuple(reads(parameter, f"n.{parameter}") for parameter, _ in before))
    inputs = tuple(input_of(world, parameter, result) for parameter, result in before)
    result = world.do(world.envelope(definitions=(made,), inputs=inputs))
    assert result.outcome is Outcome.SUCCEEDED, result.failure and result.failure.message[-1500:]
    return result


def values_of(world: WarmWorld, result: FinishTask) -> list[int]:
    root = world.folder / "store" / "acme" / "prod"
    return [value for file in result.outputs[0].files for value in pq.read_table(root / file.path)["x"].to_pylist()]


def executors(world: WarmWorld) -> set[str]:
    """The folders of all that the workers of the cluster ever started."""
    return {str(path) for path in world.folder.glob("worker*/app-*/*")}


def test_frames_go_in_and_out(world: WarmWorld) -> None:
    numbers = do(world, "numbers")
    assert numbers.outputs[0].row_count == 100
    again = do(world, "passes_on", ("given", numbers))
    assert again.outputs[0].row_count == 100


def test_functions_of_the_project_run_on_executors(world: WarmWorld) -> None:
    result = do(world, "with_udf")
    assert sorted(values_of(world, result)) == [3, 4, 5]


def test_a_failure_of_a_job_is_told(world: WarmWorld) -> None:
    result = world.do(world.envelope(definitions=(on_spark("divides"),)))
    assert result.failure is not None
    assert "DIVIDE_BY_ZERO" in result.failure.message


@pytest.mark.parametrize("world", ["standalone"], indirect=True)
def test_an_executor_that_is_killed_costs_nothing_but_time(world: WarmWorld) -> None:
    do(world, "numbers")
    before = executors(world)
    result = do(world, "loses_an_executor")
    assert sorted(values_of(world, result)) == list(range(10))
    deadline = time.monotonic() + 60
    while executors(world) == before:  # the one that takes its place comes when it comes
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("world", ["standalone"], indirect=True)
def test_a_task_that_loses_every_executor_is_lost_with_them(world: WarmWorld) -> None:
    before = executors(world)
    result = world.do(world.envelope(definitions=(on_spark("loses_every_executor"),)))
    failed(result, FailureCategory.WORKER_LOST, "ExecutorLostFailure")
    assert result.failure is not None
    assert (result.failure.is_transient, result.failure.retryable) == (True, True)
    assert "its process was killed" in result.failure.hints[0].action
    assert len(executors(world) - before) >= 3, "Spark itself tried again"
    do(world, "empty")


def test_what_rules_ask_for_rides_on_the_write(world: WarmWorld) -> None:
    """On a server too, which tells what was observed by other means. Nothing but the query is asked afterwards."""
    rules = (
        row_count(min=1),
        not_null("name"),
        between("id", 0, 89),
        sql_check("odd", "SELECT * FROM data WHERE id > 97"),
    )
    envelope = world.envelope(definitions=(on_spark("numbers", checks=rules),))
    result = world.do(envelope)
    assert result.outcome is Outcome.SUCCEEDED, result.failure
    found = {check.check_name: (check.passed, check.actual_value) for check in result.checks}
    assert list(found.values()) == [
        (True, "100"),
        (True, "0 of 100 rows"),
        (False, "10 of 100 rows (10 %)"),
        (False, "2 of 100 rows (2 %)"),
    ]
    assert "asked after the write: []" in world.log_of(envelope).splitlines()


@pytest.mark.parametrize(
    ("world", "cure"),
    [("standalone", "to the worker with --spark-conf"), ("connect", "set it on the server")],
    indirect=["world"],
)
def test_who_has_to_set_what_holds_for_all_is_told(world: WarmWorld, cure: str) -> None:
    made = on_spark("empty", spark_conf={"spark.executor.memory": "9g"})
    result = world.do(world.envelope(definitions=(made,)))
    assert result.failure is not None
    assert result.failure.category is FailureCategory.CONFIGURATION_ERROR
    assert "spark.executor.memory" in result.failure.message
    assert cure in result.failure.message


def test_a_job_that_takes_too_long_is_ended(world: WarmWorld) -> None:
    do(world, "empty")
    result = world.do(world.envelope(definitions=(on_spark("endless"),), timeout_seconds=3.0))
    assert result.failure is not None
    assert "timeout of 3 seconds" in result.failure.message
    do(world, "empty")
