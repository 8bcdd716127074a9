"""Assets on Spark: whole workers with real driver processes, which share one warm application."""

import datetime as dt
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import msgspec
import pyarrow.parquet as pq
import pytest

from arco.assets import All, AssetKind, Dependency, SchemaColumn
from arco.domains.orchestration import FailureCategory, FinishTask, Outcome
from arco.sdk import daily
from arco.servo import Progress
from arco.servo._envelope import Envelope, InputPin, InputValue, PinnedFile
from arco.spark import SparkSettings
from tests.worker.plane import check_of, definition, input_of, reads
from tests.worker.warm import CONF, WarmWorld, on_spark

SOURCE = """
    import os, time
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession, functions as F

    @asset(namespace="n")
    def numbers(context) -> DataFrame:
        return context.spark.range(100).withColumn("name", F.concat(F.lit("a"), "id")).withColumn(
            "at", F.lit("2025-01-01").cast("timestamp"))

    @asset(namespace="n")
    def rows():
        return [{"id": 1, "v": "x"}, {"id": 2, "v": None}]

    @asset(namespace="n")
    def table(numbers):
        assert isinstance(numbers, pa.Table), type(numbers)
        return {"rows": numbers.num_rows, "columns": numbers.column_names}

    @asset(namespace="n")
    def joined(rows: DataFrame, numbers: DataFrame) -> DataFrame:
        return rows.join(numbers, "id")

    @asset(namespace="n")
    def ignores(rows: DataFrame, numbers: DataFrame) -> DataFrame:
        return numbers.where("id < (select 3)")

    @asset(namespace="n")
    def learns(rows: DataFrame, numbers: DataFrame) -> DataFrame:
        return numbers.limit(rows.count())

    @asset(namespace="n")
    def lies_about(rows: DataFrame, numbers: DataFrame) -> DataFrame:
        return numbers

    @asset(namespace="n")
    def passes_on(given: DataFrame) -> DataFrame:
        return given

    @asset(namespace="n", engine="spark")
    def conf(context):
        print("shuffle", context.spark.conf.get("spark.sql.shuffle.partitions"))
        print("same", SparkSession.builder.getOrCreate() is context.spark, SparkSession.getActiveSession() is not None)
        context.spark.range(1).createOrReplaceTempView("left_behind")
        print("pid", os.getpid())
        return context.spark.range(1)

    @asset(namespace="n", engine="spark")
    def views(context):
        print("views", [view.name for view in context.spark.catalog.listTables()])
        return context.spark.range(1)

    @asset(namespace="n", engine="spark")
    def nothing(): return None
    @asset(namespace="n", engine="spark")
    def a_list(): return [1, 2]
    @asset(namespace="n", engine="spark")
    def stream(context): return context.spark.readStream.format("rate").load()
    @asset(namespace="n", engine="spark")
    def doubles(context): return context.spark.range(1).select("id", F.lit(1).alias("ID"))
    @asset(namespace="n", engine="spark")
    def wide(context): return context.spark.range(1).select(*[F.lit(1).alias(f"c{i}") for i in range(5000)])
    @asset(namespace="n", engine="spark")
    def empty(context): return context.spark.range(10).where("id < 0")
    @asset(namespace="n", engine="spark")
    def untyped(context): return context.spark.range(1).withColumn("x", F.lit(None))
    @asset(namespace="n", engine="spark")
    def interval(context): return context.spark.sql("select interval 3 months as i")
    @asset(namespace="n", engine="spark")
    def unknown_column(context): return context.spark.range(1).select("nope")
    @asset(namespace="n", engine="spark")
    def divides(context): return context.spark.sql("select 1/0 as x")
    @asset(namespace="n", engine="spark")
    def with_nulls(context): return context.spark.sql("select id, if(id = 1, null, 'a') as v from range(3)")
    @asset(namespace="n", engine="spark")
    def stops(context):
        frame = context.spark.range(1)
        context.spark.stop()
        return frame
    @asset(namespace="n", engine="spark")
    def is_ended(context):
        context.spark.sparkContext._jsc.sc().stop()
        return context.spark.range(1)
    @asset(namespace="n", engine="spark")
    def lacks_memory(context):
        context.spark._jvm.java.lang.System.err.println("java.lang.OutOfMemoryError: Java heap space")
        context.spark.stop()
        return context.spark.range(1)
    @asset(namespace="n", engine="spark")
    def merges(context):
        new = context.spark.range(2).withColumn("n", F.lit(1))
        before = context.previous
        return new if before is None else before.union(new).groupBy("id").agg(F.sum("n").cast("int").alias("n"))

    @multi_asset(namespace="n", outputs=["sums", "most"], engine="spark")
    def merges_both(context):
        new = context.spark.range(2).withColumn("n", F.lit(2))
        sums, most = context.previous_of("n.sums"), context.previous_of("n.most")
        if sums is None or most is None:
            print("first", sums, most)
            return {"sums": new, "most": new.withColumn("n", F.lit(5))}
        def merged(before, how): return before.union(new).groupBy("id").agg(how.alias("n"))
        return {"sums": merged(sums, F.sum("n").cast("int")), "most": merged(most, F.max("n"))}

    @asset(namespace="n", engine="spark")
    def asks_for_another(context): return context.previous_of("n.sums")

    HELPER = 3
    def plus(x): return x + HELPER

    @asset(namespace="n", engine="spark")
    def with_udf(context):
        return context.spark.range(3).select(F.udf(plus, "long")("id").alias("x"))

    @asset(namespace="n", engine="spark")
    def udf_raises(context):
        def bad(x): raise LookupError("no such thing")
        return context.spark.range(3).select(F.udf(bad, "long")("id").alias("x"))

    @asset(namespace="n", engine="spark")
    def udf_is_killed(context):
        def end(x): os.kill(os.getpid(), 9)
        return context.spark.range(3).select(F.udf(end, "long")("id").alias("x"))

    @asset(namespace="n", engine="spark")
    def udf_crashes(context):
        def end(x): os.kill(os.getpid(), 11)
        return context.spark.range(3).select(F.udf(end, "long")("id").alias("x"))

    @asset(namespace="n", engine="spark")
    def half_held(context):
        held, gate = 3000, context.spark.conf.get("spark.arco.gate")
        def wait(x):
            until = time.monotonic() + 120
            while x == held and not os.path.exists(gate) and time.monotonic() < until:
                time.sleep(0.05)
            return x
        return context.spark.range(0, 4000, 1, 2).select(F.udf(wait, "long")("id").alias("x"))

    @asset(namespace="n", engine="spark")
    def endless(context):
        print("begun", flush=True)
        return context.spark.range(0, 10**15, 1, 2).selectExpr("sum(hash(id)) as x")

    @asset(namespace="n", engine="spark")
    def kills_java(context):
        import signal
        os.kill(context.spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
        return context.spark.range(1)

    @check
    def has_rows(frame): return frame.count() > 0

    @check
    def sees_a_frame(frame, context): return isinstance(frame, DataFrame) and context.spark is not None
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmWorld]:
    settings = SparkSettings("local[2]", {**CONF, "spark.ui.enabled": "true"})
    made = WarmWorld(tmp_path_factory.mktemp("world"), SOURCE, spark=settings, cancel_grace_seconds=30.0)
    made.start()
    yield made
    made.close()


def succeeded(result: FinishTask) -> FinishTask:
    assert result.outcome is Outcome.SUCCEEDED, result.failure
    return result


def failed(result: FinishTask, category: FailureCategory, *texts: str) -> None:
    assert result.outcome is Outcome.FAILED
    assert result.failure is not None
    assert (result.failure.category, result.outputs) == (category, ())
    assert result.failure.hints
    for text in texts:
        assert text in result.failure.message, result.failure.message


def files_of(world: WarmWorld, result: FinishTask) -> list[Path]:
    root = world.folder / "store" / "acme" / "prod"
    return [root / file.path for file in result.outputs[0].files]


def pid_of(world: WarmWorld, envelope: Envelope) -> str:
    """The process that ran `conf`."""
    return next(line for line in world.log_of(envelope).splitlines() if line.startswith("pid "))


def made_by(world: WarmWorld, name: str) -> FinishTask:
    made = definition(name) if name == "rows" else on_spark(name)
    return succeeded(world.do(world.envelope(definitions=(made,))))


def test_a_frame_becomes_files_with_rows_statistics_and_columns(world: WarmWorld) -> None:
    result = made_by(world, "numbers")
    (output,) = result.outputs
    assert output.row_count == 100
    assert output.byte_size == sum(file.stat().st_size for file in files_of(world, result))
    assert sum(file.row_count for file in output.files) == 100
    stats = {stat.column: stat for file in output.files for stat in file.stats if file.stats}
    assert set(stats) == {"id", "name", "at"}
    assert min(int(s.min or 0) for f in output.files for s in f.stats if s.column == "id") == 0
    assert max(int(s.max or 0) for f in output.files for s in f.stats if s.column == "id") == 99
    schema = pq.read_schema(files_of(world, result)[0])
    assert [str(field.type) for field in schema] == ["int64", "string", "timestamp[us, tz=UTC]"]
    left = [path.name for path in files_of(world, result)[0].parent.iterdir() if not path.name.startswith(".")]
    assert sorted(left) == sorted(path.name for path in files_of(world, result))


def test_python_reads_what_spark_wrote_and_spark_what_python_wrote(world: WarmWorld) -> None:
    numbers, rows = made_by(world, "numbers"), made_by(world, "rows")
    made = definition("table", dependencies=(reads("numbers", "n.numbers"),))
    result = succeeded(world.do(world.envelope(definitions=(made,), inputs=(input_of(world, "numbers", numbers),))))
    found = msgspec.json.decode(files_of(world, result)[0].read_bytes())
    assert found == {"rows": 100, "columns": ["id", "name", "at"]}
    both = on_spark("joined", dependencies=(reads("rows", "n.rows"), reads("numbers", "n.numbers")))
    inputs = (input_of(world, "rows", rows), input_of(world, "numbers", numbers))
    joined = succeeded(world.do(world.envelope(definitions=(both,), inputs=inputs)))
    assert joined.outputs[0].row_count == 2
    assert joined.lineage is not None
    assert [edge.rows_read for edge in joined.lineage.edges] == [2, 100]


@pytest.mark.parametrize(
    ("name", "said", "read"),
    [
        ("joined", {}, ["rows", "numbers"]),
        ("ignores", {}, ["numbers"]),
        ("learns", {}, ["rows", "numbers"]),
        ("lies_about", {"id": ("rows.id",)}, ["rows", "numbers"]),
    ],
)
def test_what_the_plan_does_not_read_is_not_recorded_as_read(
    world: WarmWorld, name: str, said: dict[str, tuple[str, ...]], read: list[str]
) -> None:
    inputs = tuple(input_of(world, one, made_by(world, one)) for one in ("rows", "numbers"))
    dependencies = (reads("rows", "n.rows"), reads("numbers", "n.numbers"))
    made = on_spark(name, dependencies=dependencies, column_lineage=said)
    result = succeeded(world.do(world.envelope(definitions=(made,), inputs=inputs)))
    assert result.lineage is not None
    assert [edge.parameter for edge in result.lineage.edges] == read
    told = [edge.column_lineage.reason for edge in result.lineage.edges if edge.column_lineage is not None]
    assert len(told) == len(read)
    assert all(("jobs ran before" in (reason or "")) == (name == "learns") for reason in told)


def test_a_driver_stays_warm_and_every_task_has_a_session_of_its_own(world: WarmWorld) -> None:
    first = world.envelope(definitions=(on_spark("conf", spark_conf={"spark.sql.shuffle.partitions": "7"}),))
    second, third = world.envelope(definitions=(on_spark("conf"),)), world.envelope(definitions=(on_spark("views"),))
    succeeded(world.do(first))
    made_by(world, "rows")  # by another engine in the one slot there is
    for envelope in (second, third):
        succeeded(world.do(envelope))
    told = [world.log_of(envelope).splitlines() for envelope in (first, second, third)]
    assert {"shuffle 7", "same True True"} <= set(told[0])
    assert {"shuffle 2", "same True True"} <= set(told[1])
    assert pid_of(world, first) == pid_of(world, second)
    assert "views []" in told[2]


def test_a_setting_of_the_whole_application_is_refused_for_an_asset(world: WarmWorld) -> None:
    made = on_spark("empty", spark_conf={"spark.executor.memory": "9g"})
    result = world.do(world.envelope(definitions=(made,)))
    failed(result, FailureCategory.CONFIGURATION_ERROR, "spark.executor.memory", "--spark-conf")


def test_an_empty_frame_is_one_file_with_its_columns(world: WarmWorld) -> None:
    result = made_by(world, "empty")
    assert [file.row_count for file in result.outputs[0].files] == [0]
    assert pq.read_schema(files_of(world, result)[0]).names == ["id"]
    given = input_of(world, "given", result)
    again = on_spark("passes_on", dependencies=(reads("given", "n.empty"),))
    assert succeeded(world.do(world.envelope(definitions=(again,), inputs=(given,)))).outputs[0].row_count == 0


@pytest.mark.parametrize(
    ("name", "category", "text"),
    [
        ("nothing", FailureCategory.TRANSFORM_ERROR, "returned None"),
        ("a_list", FailureCategory.CONFIGURATION_ERROR, "returned builtins.list"),
        ("stream", FailureCategory.CONFIGURATION_ERROR, "returned a stream"),
        ("doubles", FailureCategory.CONFIGURATION_ERROR, "id, ID"),
        ("wide", FailureCategory.CONFIGURATION_ERROR, "5,000 columns"),
        ("untyped", FailureCategory.CONFIGURATION_ERROR, "has no type"),
        ("interval", FailureCategory.CONFIGURATION_ERROR, "no table can have"),
        ("unknown_column", FailureCategory.SCHEMA_VIOLATION, "nope"),
        ("divides", FailureCategory.TRANSFORM_ERROR, "DIVIDE_BY_ZERO"),
        ("udf_raises", FailureCategory.TRANSFORM_ERROR, "no such thing"),
        ("udf_is_killed", FailureCategory.RESOURCE_EXHAUSTED, "spark.executor.memoryOverhead"),
    ],
)
def test_what_cannot_be_kept_is_a_failure_that_says_why(
    world: WarmWorld, name: str, category: FailureCategory, text: str
) -> None:
    result = world.do(world.envelope(definitions=(on_spark(name),)))
    failed(result, category, text)


def test_what_a_function_raised_on_an_executor_is_the_first_that_is_told(world: WarmWorld) -> None:
    failure = world.do(world.envelope(definitions=(on_spark("udf_raises"),))).failure
    assert failure is not None
    first, _, rest = failure.message.partition("\n")
    assert re.fullmatch(r"LookupError: no such thing \(\w+\.py:\d+\)", first), first
    assert rest.startswith("Traceback (most recent call last):")


def test_a_crash_of_python_that_spark_heard_of_is_the_codes_fault(world: WarmWorld) -> None:
    made = on_spark("udf_crashes", spark_conf={"spark.sql.execution.pyspark.udf.faulthandler.enabled": "true"})
    result = world.do(world.envelope(definitions=(made,)))
    failed(result, FailureCategory.TRANSFORM_ERROR, "Segmentation fault")


def test_columns_are_compared_with_the_declared_ones_before_anything_is_written(world: WarmWorld) -> None:
    wrong = on_spark("numbers", schema=(SchemaColumn("id", "string"),))
    envelope = world.envelope(definitions=(wrong,))
    failed(world.do(envelope), FailureCategory.SCHEMA_VIOLATION, "id is declared as string and is long", "not declared")
    assert not (world.folder / "store" / "acme" / "prod" / envelope.outputs[0].location).exists()
    nulls = on_spark("with_nulls", schema=(SchemaColumn("id", "long"), SchemaColumn("v", "string", nullable=False)))
    failed(world.do(world.envelope(definitions=(nulls,))), FailureCategory.SCHEMA_VIOLATION, "v of n.with_nulls")


def test_functions_of_the_project_run_on_executors(world: WarmWorld) -> None:
    result = made_by(world, "with_udf")
    assert sorted(value for path in files_of(world, result) for value in pq.read_table(path)["x"].to_pylist()) == [
        3,
        4,
        5,
    ]


def test_checks_see_what_was_written_as_a_frame(world: WarmWorld) -> None:
    made = on_spark("numbers", checks=(check_of("has_rows"), check_of("sees_a_frame")))
    result = succeeded(world.do(world.envelope(definitions=(made,))))
    assert [(check.check_name, check.passed) for check in result.checks] == [("has_rows", True), ("sees_a_frame", True)]


def test_a_query_names_its_inputs_and_its_partition(world: WarmWorld) -> None:
    rows = made_by(world, "rows")
    query = on_spark(
        "q",
        kind=AssetKind.SQL,
        function="",
        sql="select *, :date as day, :date_start as a, :date_end as b from given where id = 1 and '1'::int = 1",
        dependencies=(reads("given", "n.rows"),),
        partitions=(daily("2025-01-01"),),
    )
    envelope = world.envelope(
        definitions=(query,), inputs=(input_of(world, "given", rows),), partition="date=d:2025-01-02"
    )
    result = succeeded(world.do(envelope))
    (row,) = pq.read_table(files_of(world, result)[0]).to_pylist()
    assert row["day"] == dt.date(2025, 1, 2)
    assert (row["a"], row["b"]) == (
        dt.datetime(2025, 1, 2, tzinfo=dt.UTC),
        dt.datetime(2025, 1, 3, tzinfo=dt.UTC),
    )


# Inputs


def several(world: WarmWorld, *results: FinishTask) -> InputValue:
    """Versions as days of one asset, whose files lie where those of each day would."""
    asset_id = world.asset_id("n.days")
    root = world.folder / "store" / "acme" / "prod"
    pins = []
    for day, result in enumerate(results, 1):
        output, partition = result.outputs[0], f"part_{day:032x}"
        files = []
        for file in output.files:
            path = f"data/{asset_id}/{partition}/{output.materialization_id}/{file.path.rpartition('/')[2]}"
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes((root / file.path).read_bytes())
            files.append(PinnedFile(path, file.row_count, file.size_bytes))
        key = f"date=d:2025-01-{day:02d}"
        pins.append(InputPin(partition, key, output.materialization_id, tuple(files), output.schema_hash))
    return InputValue(asset_id, "n.days", "given", True, "", tuple(pins))


READS_ALL = Dependency("n.days", "given", {"date": All()})


def test_several_partitions_are_one_frame_with_their_keys_and_all_columns(world: WarmWorld) -> None:
    given = several(world, made_by(world, "rows"), made_by(world, "with_nulls"), made_by(world, "numbers"))
    made = on_spark("passes_on", dependencies=(READS_ALL,))
    result = succeeded(world.do(world.envelope(definitions=(made,), inputs=(given,))))
    table = [row for path in files_of(world, result) for row in pq.read_table(path).to_pylist()]
    assert len(table) == 105
    assert list(table[0]) == ["id", "v", "name", "at", "date"]
    counts = {day: sum(row["date"] == dt.date(2025, 1, day) for row in table) for day in (1, 2, 3)}
    assert counts == {1: 2, 2: 3, 3: 100}
    assert all(row["name"] is None for row in table if row["date"] < dt.date(2025, 1, 3))


def test_one_partition_of_several_has_its_key_too(world: WarmWorld) -> None:
    given = several(world, made_by(world, "rows"))
    made = on_spark("passes_on", dependencies=(READS_ALL,))
    result = succeeded(world.do(world.envelope(definitions=(made,), inputs=(given,))))
    assert pq.read_schema(files_of(world, result)[0]).names == ["id", "v", "date"]


def test_a_merge_sees_the_version_that_it_replaces(world: WarmWorld) -> None:
    result = made_by(world, "merges")
    for times in (2, 3):
        envelope = world.envelope(definitions=(on_spark("merges"),))
        (pin,) = input_of(world, "x", result).pins
        place = msgspec.structs.replace(envelope.outputs[0], previous=pin)
        result = succeeded(world.do(msgspec.structs.replace(envelope, outputs=(place,))))
        rows = [row for path in files_of(world, result) for row in pq.read_table(path).to_pylist()]
        assert sorted((row["id"], row["n"]) for row in rows) == [(0, times), (1, times)]


def test_each_asset_of_a_function_merges_with_the_version_of_its_own_that_it_replaces(world: WarmWorld) -> None:
    names = ("n.sums", "n.most")
    made = tuple(on_spark("merges_both", key=name, unit="n.merges_both") for name in names)
    first = world.envelope(definitions=made)
    result = succeeded(world.do(first))
    assert "first None None" in world.log_of(first).splitlines()
    for sums in (4, 6):
        envelope = world.envelope(definitions=made)
        before = {name: input_of(world, "x", result, key=name).pins[0] for name in names}
        places = tuple(msgspec.structs.replace(one, previous=before[one.asset_key]) for one in envelope.outputs)
        result = succeeded(world.do(msgspec.structs.replace(envelope, outputs=places)))
        assert [merged_rows(world, result, name) for name in names] == [[(0, sums), (1, sums)], [(0, 5), (1, 5)]]


def merged_rows(world: WarmWorld, result: FinishTask, key: str) -> list[tuple[int, int]]:
    """What is in one of the assets that `merges_both` makes."""
    (output,) = (one for one in result.outputs if one.asset_key == key)
    root = world.folder / "store" / "acme" / "prod"
    return sorted((row["id"], row["n"]) for file in output.files for row in pq.read_table(root / file.path).to_pylist())


def test_a_function_is_not_given_versions_of_what_it_does_not_make(world: WarmWorld) -> None:
    result = world.do(world.envelope(definitions=(on_spark("asks_for_another"),)))
    failed(result, FailureCategory.CONFIGURATION_ERROR, "'n.sums' is no asset on Spark that this function makes")


def test_a_value_that_is_no_table_is_told(world: WarmWorld) -> None:
    numbers = made_by(world, "numbers")
    made = definition("table", dependencies=(reads("numbers", "n.numbers"),))
    value = succeeded(world.do(world.envelope(definitions=(made,), inputs=(input_of(world, "numbers", numbers),))))
    reader = on_spark("passes_on", dependencies=(reads("given", "n.table"),))
    result = world.do(world.envelope(definitions=(reader,), inputs=(input_of(world, "given", value),)))
    failed(result, FailureCategory.CONFIGURATION_ERROR, "n.table is no table", "the parameter given")


def test_damaged_and_missing_files_are_named_with_asset_and_version(world: WarmWorld) -> None:
    reader = on_spark("passes_on", dependencies=(reads("given", "n.numbers"),))

    def read(source: FinishTask) -> FinishTask:
        return world.do(world.envelope(definitions=(reader,), inputs=(input_of(world, "given", source),)))

    source = made_by(world, "numbers")
    version = source.outputs[0].materialization_id
    file = files_of(world, source)[-1]
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    failed(read(source), FailureCategory.STORAGE_ERROR, "n.numbers", version, file.name, "bytes instead of")
    file.write_bytes(bytes(len(whole)))
    failed(read(source), FailureCategory.STORAGE_ERROR, "n.numbers", version, file.name, "damaged")
    file.unlink()
    failed(read(source), FailureCategory.MISSING_DEPENDENCY, "n.numbers", version, file.name, "gone")


def test_a_folder_that_somebody_wrote_to_is_not_taken_for_output(world: WarmWorld) -> None:
    envelope = world.envelope(definitions=(on_spark("empty"),))
    folder = world.folder / "store" / "acme" / "prod" / envelope.outputs[0].location
    folder.mkdir(parents=True)
    (folder / "part-00000.parquet").write_bytes(b"foreign")
    failed(world.do(envelope), FailureCategory.CONFIGURATION_ERROR, "has files already")


# Ends


def begun(world: WarmWorld, attempt_id: str) -> None:
    deadline = time.monotonic() + 60
    while not any((world.folder / "store").rglob(f"logs/*/{attempt_id}/*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def heard(world: WarmWorld, attempt_id: str, done: int = 0) -> Progress:
    """What the control plane hears of a job that runs, once so many of its tasks are done."""
    deadline = time.monotonic() + 60
    while True:
        told = [progress for known, progress in world.plane.progress if known == attempt_id and progress.tasks_total]
        found = [progress for progress in told if progress.tasks_done >= done]
        if found:
            return found[-1]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_job_tells_how_far_it_is_ends_by_its_tag_and_leaves_the_driver_warm(world: WarmWorld) -> None:
    before = world.envelope(definitions=(on_spark("conf"),))
    succeeded(world.do(before))
    envelope = world.envelope(definitions=(on_spark("endless"),), heartbeat_seconds=4.0)
    world.give(envelope)
    begun(world, envelope.attempt_id)
    told = heard(world, envelope.attempt_id)
    assert (told.tasks_total, told.tasks_done) == (2, 0)
    assert (told.stage, told.attempts) == (envelope.definitions[0].key, 1)
    with urlopen(told.ui, timeout=30) as page:
        assert envelope.definitions[0].key in page.read().decode()
    world.plane.cancelled.add(envelope.attempt_id)
    assert world.result(envelope).outcome is Outcome.CANCELLED
    after = world.envelope(definitions=(on_spark("conf"),))
    succeeded(world.do(after))
    assert pid_of(world, before) == pid_of(world, after)


def test_a_job_tells_how_much_it_has_written_while_it_still_writes(world: WarmWorld) -> None:
    gate = world.folder / "gate"
    held = on_spark("half_held", spark_conf={"spark.arco.gate": str(gate)})
    envelope = world.envelope(definitions=(held,), heartbeat_seconds=4.0)
    world.give(envelope)
    told = heard(world, envelope.attempt_id, done=1)
    gate.touch()
    first, second = succeeded(world.result(envelope)).outputs[0].files
    assert (first.row_count, second.row_count) == (2000, 2000)
    assert (told.tasks_total, told.tasks_done) == (2, 1)
    assert (told.rows_written, told.bytes_written) == (first.row_count, first.size_bytes)


def test_a_job_that_takes_too_long_is_ended(world: WarmWorld) -> None:
    made_by(world, "empty")  # the time does not count Spark's start
    result = world.do(world.envelope(definitions=(on_spark("endless"),), timeout_seconds=2.0))
    failed(result, FailureCategory.TIMEOUT, "timeout of 2 seconds")


def test_a_session_that_the_function_stops_costs_only_its_task(world: WarmWorld) -> None:
    result = world.do(world.envelope(definitions=(on_spark("stops"),)))
    failed(result, FailureCategory.CONFIGURATION_ERROR, "was stopped", "spark.stop()")
    made_by(world, "empty")


def test_an_application_that_is_ended_where_spark_runs_is_a_loss_and_not_the_functions_fault(world: WarmWorld) -> None:
    result = world.do(world.envelope(definitions=(on_spark("is_ended"),)))
    failed(result, FailureCategory.WORKER_LOST, "the application was ended where Spark runs", "stopped SparkContext")
    made_by(world, "empty")


def test_a_session_that_spark_stops_for_lack_of_memory_is_not_the_functions_fault(world: WarmWorld) -> None:
    result = world.do(world.envelope(definitions=(on_spark("lacks_memory"),)))
    failed(result, FailureCategory.RESOURCE_EXHAUSTED, "ran out of memory", "spark.driver.memory")
    made_by(world, "empty")


def test_the_death_of_java_is_a_loss_and_not_the_assets_fault(world: WarmWorld) -> None:
    result = world.do(world.envelope(definitions=(on_spark("kills_java"),)))
    failed(result, FailureCategory.WORKER_LOST, "killed by signal 9")
    assert result.failure is not None
    assert (result.failure.is_transient, result.failure.retryable) == (True, True)
    made_by(world, "empty")
