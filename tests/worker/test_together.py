"""Batches on Spark: one plan over all partitions, or one for each; the results are the same."""

import re
from collections.abc import Iterator
from functools import partial

import msgspec
import pyarrow.parquet as pq
import pytest

from arco import Percent, anomaly, between, not_null, row_count, sql_check, unique
from arco.assets import AssetDefinition, AssetKind, CheckDefinition, NotNull, RowCount, SqlCheck, Unique
from arco.domains.orchestration import FailureCategory, FinishTask, Outcome
from arco.domains.quality.events import CheckExecuted
from arco.sdk import daily
from arco.servo._envelope import Envelope, InputValue, data_location
from tests.worker.plane import input_of, reads
from tests.worker.warm import WarmWorld, on_spark

SOURCE = """
    import os
    import time
    import arco.spark._together
    from pyspark.sql import DataFrame, functions as F

    arco.spark._together.MAX_FILE_ROWS = 1000

    @asset(namespace="n", engine="spark")
    def raw(context):
        day = context.partition["date"]
        rows = 0 if day.day == 4 else 10 * day.day
        return context.spark.range(rows).select(
            "id", (F.col("id") % 3).alias("kind"), F.lit(None if day.day == 5 else 1.5).cast("double").alias("price"))

    @asset(namespace="n")
    def by_day(raw: DataFrame) -> DataFrame:
        return raw.groupBy("date", "kind").agg(F.count("*").alias("n"), F.sum("price").alias("total"))

    @asset(namespace="n")
    def paired(raw: DataFrame) -> DataFrame:
        return raw.withColumn("pair", F.when(F.col("id") != 7, F.struct("id", "price")))

    @asset(namespace="n", engine="spark")
    def jobs(context):
        so_far = context.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
        return context.spark.range(1).select(F.lit(so_far).alias("jobs"))

    @asset(namespace="n")
    def mixing(raw: DataFrame) -> DataFrame:
        return raw.groupBy("kind").agg(F.count("*").alias("n"))

    @asset(namespace="n")
    def asks(raw: DataFrame, context) -> DataFrame:
        return raw.withColumn("day", F.lit(str(context.partition["date"])))

    @asset(namespace="n")
    def passes_over(raw: DataFrame, by_day: DataFrame, context) -> DataFrame:
        day = str(context.partition["date"])
        time.sleep(0.5)  # meanwhile others write what they have made
        return raw.withColumn("day", F.lit(day))

    @asset(namespace="n")
    def asks_softly(raw: DataFrame, context) -> DataFrame:
        try:
            day = str(context.partition["date"])
        except Exception:
            day = "unknown"
        return raw.withColumn("day", F.lit(day))

    @asset(namespace="n")
    def acts(raw: DataFrame) -> DataFrame:
        return raw.withColumn("most", F.lit(raw.count()))

    @asset(namespace="n")
    def breaks(raw: DataFrame) -> DataFrame:
        bad = (F.dayofmonth("date") == 3) & (F.col("id") == 2)
        return raw.withColumn("x", F.when(bad, F.raise_error(F.lit("a bad row"))).otherwise(F.lit("fine")))

    @asset(namespace="n")
    def again(by_day: DataFrame, raw: DataFrame) -> DataFrame:
        return by_day.join(raw.groupBy("date").agg(F.max("id").alias("top")), "date")

    @asset(namespace="n")
    def renames(raw: DataFrame) -> DataFrame:
        return raw.withColumn("date", F.date_add("date", 1))

    @multi_asset(namespace="n", outputs=["evens", "odds"])
    def parted(raw: DataFrame):
        return {"evens": raw.where("id % 2 = 0"), "odds": raw.where("id % 2 = 1")}

    @asset(namespace="n")
    def skewed(raw: DataFrame) -> DataFrame:
        copies = F.when(F.dayofmonth("date") == 8, 50).otherwise(1)
        return raw.repartition(8).withColumn("copy", F.explode(F.sequence(F.lit(1), copies)))

    @asset(namespace="n")
    def intrudes(raw: DataFrame) -> DataFrame:
        target = raw.sparkSession.conf.get("spark.arco.target")
        def write(day):
            if day == 3:
                os.makedirs(target, exist_ok=True)
                with open(f"{target}/part-00000-another.parquet", "wb") as file:
                    file.write(b"foreign")
            return day
        return raw.withColumn("day", F.udf(write, "int")(F.dayofmonth("date")))

    @asset(namespace="n")
    def wrong(raw: DataFrame) -> DataFrame:
        return raw.select("nope")

    @asset(namespace="n")
    def dies(raw: DataFrame) -> DataFrame:
        def end(x):
            import os, signal
            os.kill(os.getppid(), signal.SIGKILL)
        raw.sparkSession.sparkContext._gateway.proc.kill()
        return raw
"""

DAYS = daily("2025-01-01")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmWorld]:
    world = WarmWorld(tmp_path_factory.mktemp("together"), SOURCE)
    world.start()
    yield world
    world.close()


def partition(day: int) -> str:
    return f"date=d:2025-01-{day:02d}"


def made(name: str, *reading: str, **fields: object) -> AssetDefinition:
    return on_spark(name, partitions=(DAYS,), dependencies=tuple(reads(one, f"n.{one}") for one in reading), **fields)


@pytest.fixture(scope="module")
def raw(world: WarmWorld) -> dict[int, FinishTask]:
    tasks = [world.envelope(definitions=(made("raw"),), partition=partition(day)) for day in range(1, 9)]
    results = batch(world, tasks)
    assert all(result.outcome is Outcome.SUCCEEDED for result in results), results[0].failure
    return dict(enumerate(results, 1))


def batch(world: WarmWorld, envelopes: list[Envelope]) -> list[FinishTask]:
    """The results of tasks that run together."""
    given = world.give_batch(*envelopes)
    return [world.result(envelope) for envelope in given]


def tasks_of(
    world: WarmWorld, raw: dict[int, FinishTask], *definitions: AssetDefinition, days: range = range(1, 9)
) -> list[Envelope]:
    return [
        world.envelope(definitions=definitions, partition=partition(day), inputs=(pinned(world, "raw", raw[day]),))
        for day in days
    ]


def pinned(world: WarmWorld, parameter: str, result: FinishTask) -> InputValue:
    given = input_of(world, parameter, result)
    pins = tuple(msgspec.structs.replace(pin, schema_hash=result.outputs[0].schema_hash) for pin in given.pins)
    return msgspec.structs.replace(given, pins=pins)


def rows_of(world: WarmWorld, result: FinishTask, key: str = "") -> list[dict[str, object]]:
    """What a task wrote, sorted."""
    assert result.outcome is Outcome.SUCCEEDED, result.failure
    output = next(one for one in result.outputs if not key or one.asset_key == key)
    root = world.folder / "store" / "acme" / "prod"
    found = [row for file in output.files for row in pq.ParquetFile(root / file.path).read().to_pylist()]
    assert sum(file.row_count for file in output.files) == len(found) == output.row_count
    return sorted(found, key=str)


def footers(result: FinishTask) -> dict[str, tuple[object, object, int, int]]:
    """Of each column the least and the greatest value, the nulls and the rows, as the files of a version tell it.

    Into how many files its rows were divided is nobody's business.
    """
    files = [file for file in result.outputs[0].files if file.row_count]
    stats = [(stat, file.row_count) for file in files for stat in file.stats]
    found: dict[str, tuple[object, object, int, int]] = {}
    for column in {stat.column for stat, _ in stats}:
        own = [(stat, rows) for stat, rows in stats if stat.column == column]
        least = min((ordered(stat.min) for stat, _ in own if stat.min is not None), default=None)
        greatest = max((ordered(stat.max) for stat, _ in own if stat.max is not None), default=None)
        found[column] = (least, greatest, sum(stat.null_count for stat, _ in own), sum(rows for _, rows in own))
    return found


def ordered(value: str) -> tuple[float, str]:
    """A bound as it is compared: a number as such, all else as text."""
    return (float(value), "") if re.fullmatch(r"-?\d+(\.\d+)?", value) else (0.0, value)


def plans(results: list[FinishTask]) -> set[str]:
    return {output.plan for result in results for output in result.outputs}


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("by_day", "together"),
        ("mixing", "group by also date"),
        ("asks", "asks for context.partition"),
        ("asks_softly", "asks for context.partition"),
        ("acts", "ran Spark jobs while it made its plan"),
        ("renames", "does not tell to which partition a row belongs"),
    ],
)
def test_a_batch_gives_what_its_tasks_give_alone(
    world: WarmWorld, raw: dict[int, FinishTask], name: str, plan: str
) -> None:
    definition = made(name, "raw")
    together = batch(world, tasks_of(world, raw, definition))
    alone = [world.do(envelope) for envelope in tasks_of(world, raw, definition)]
    for one, other in zip(together, alone, strict=True):
        assert rows_of(world, one) == rows_of(world, other)
        (mine,), (theirs,) = one.outputs, other.outputs
        assert (mine.schema_hash, mine.inputs_fingerprint) == (theirs.schema_hash, theirs.inputs_fingerprint)
        assert footers(one) == footers(other)
        assert one.lineage is not None
        assert other.lineage is not None
        assert one.lineage.edges[0].column_lineage == other.lineage.edges[0].column_lineage
        assert one.lineage.edges[0].column_lineage is not None
    assert [bool(footers(one)) for one in together] == [day != 4 for day in range(1, 9)], "day 4 has no rows"
    assert plans(alone) == {""}
    assert all(plan in told for told in plans(together))


def test_jobs_of_other_partitions_are_not_taken_for_those_of_a_function(
    world: WarmWorld, raw: dict[int, FinishTask]
) -> None:
    """Else what a function does not read would be recorded as read, by chance."""
    sums = batch(world, tasks_of(world, raw, made("by_day", "raw")))
    definition = made("passes_over", "raw", "by_day")
    tasks = [
        msgspec.structs.replace(task, inputs=(*task.inputs, pinned(world, "by_day", own)))
        for task, own in zip(tasks_of(world, raw, definition), sums, strict=True)
    ]
    results = batch(world, tasks)
    assert all("asks for context.partition" in told for told in plans(results))
    for result in results:
        assert result.lineage is not None
        assert [edge.parameter for edge in result.lineage.edges] == ["raw"]


def test_several_assets_of_one_function_are_written_together(world: WarmWorld, raw: dict[int, FinishTask]) -> None:
    definitions = tuple(
        made("parted", "raw").__class__(
            **{**msgspec.structs.asdict(made("parted", "raw")), "key": f"n.{name}", "unit": "n.parted"}
        )
        for name in ("evens", "odds")
    )
    results = batch(world, tasks_of(world, raw, *definitions))
    for day, result in enumerate(results, 1):
        count = 0 if day == 4 else 10 * day
        assert [len(rows_of(world, result, f"n.{name}")) for name in ("evens", "odds")] == [count // 2, count // 2]
    assert plans(results) == {"together"}


def test_a_partition_that_breaks_the_job_is_found_and_the_others_are_made(
    world: WarmWorld, raw: dict[int, FinishTask]
) -> None:
    results = batch(world, tasks_of(world, raw, made("breaks", "raw")))
    assert [result.outcome for result in results] == [
        Outcome.FAILED if day == 3 else Outcome.SUCCEEDED for day in range(1, 9)
    ]
    failure = results[2].failure
    assert failure is not None
    assert failure.category is FailureCategory.TRANSFORM_ERROR
    assert "a bad row" in failure.message
    for day, result in enumerate(results, 1):
        if day != 3:
            assert len(rows_of(world, result)) == (0 if day == 4 else 10 * day)


def test_a_partition_whose_folder_another_writes_to_fails_alone(world: WarmWorld, raw: dict[int, FinishTask]) -> None:
    tasks = tasks_of(world, raw, made("intrudes", "raw"))
    (place,) = tasks[4].outputs
    folder = data_location(place.asset_id, place.partition_id, place.materialization_id, tasks[0].attempt_id)
    conf = {"spark.arco.target": str(world.folder / "store" / "acme" / "prod" / folder)}
    intruder = made("intrudes", "raw", spark_conf=conf)
    results = batch(world, [msgspec.structs.replace(task, definitions=(intruder,)) for task in tasks])
    assert [result.outcome for result in results] == [
        Outcome.FAILED if day == 5 else Outcome.SUCCEEDED for day in range(1, 9)
    ]
    failure = results[4].failure
    assert failure is not None
    assert failure.category is FailureCategory.CONFIGURATION_ERROR
    assert "files of several writers lie in the folder of the new version of n.intrudes" in failure.message
    assert [len(rows_of(world, results[day - 1])) for day in (3, 4, 8)] == [30, 0, 80]
    assert plans(results) == {"together"}


def test_of_skewed_partitions_a_large_one_is_several_files_and_a_small_one_is_one(
    world: WarmWorld, raw: dict[int, FinishTask]
) -> None:
    results = batch(world, tasks_of(world, raw, made("skewed", "raw")))
    assert plans(results) == {"together"}
    assert [len(rows_of(world, result)) for result in results] == [10, 20, 30, 0, 50, 60, 70, 4000]
    *small, large = [[file.row_count for file in result.outputs[0].files] for result in results]
    assert [len(files) for files in small] == [1] * 7
    assert len(large) >= 4
    assert max(large) <= 1000


def test_what_cannot_be_planned_fails_for_each(world: WarmWorld, raw: dict[int, FinishTask]) -> None:
    results = batch(world, tasks_of(world, raw, made("wrong", "raw"), days=range(1, 4)))
    assert {result.outcome for result in results} == {Outcome.FAILED}
    assert all("nope" in result.failure.message for result in results if result.failure)


TOLD = (row_count(min=1), not_null("price", warn=0, error=Percent(50)), anomaly(percent=50, at_least=1))
COUNTED = (between("id", 0, 40), not_null("price", where="id > 3"), not_null("pair"), unique("kind", warn=20))


@pytest.mark.parametrize("checks", [TOLD, COUNTED, (*TOLD, *COUNTED)], ids=["told", "counted", "both"])
def test_rules_find_the_same_in_one_plan_and_alone(
    world: WarmWorld, raw: dict[int, FinishTask], checks: tuple[CheckDefinition, ...]
) -> None:
    """Footers tell some, of others rows are counted. A struct has no footer that tells of it."""
    definition = made("paired", "raw", checks=checks)

    def tasks() -> list[Envelope]:
        tasks = tasks_of(world, raw, definition)
        known = {"anomaly(row_count)": (30.0, 30.0)}
        return [
            msgspec.structs.replace(
                task, outputs=tuple(msgspec.structs.replace(place, history=known) for place in task.outputs)
            )
            for task in tasks
        ]

    together, alone = batch(world, tasks()), [world.do(envelope) for envelope in tasks()]
    assert plans(together) == {"together"}
    for one, other in zip(together, alone, strict=True):
        assert [about(check) for check in one.checks] == [about(check) for check in other.checks]
    assert len({check.passed for result in together for check in result.checks}) == 2


def about(check: CheckExecuted) -> tuple[object, ...]:
    return check.check_name, check.passed, check.severity, check.expected_value, check.actual_value, check.message


def test_what_footers_tell_costs_no_job(world: WarmWorld, raw: dict[int, FinishTask]) -> None:
    def cost(*checks: CheckDefinition) -> int:
        """How many jobs Spark runs for a batch."""
        before = jobs_so_far(world)
        results = batch(world, tasks_of(world, raw, made("paired", "raw", checks=checks), days=range(1, 4)))
        assert plans(results) == {"together"}
        return jobs_so_far(world) - before

    plain = cost()
    assert cost(*TOLD) == plain
    assert cost(*TOLD, between("id", 0, 40)) > plain


def jobs_so_far(world: WarmWorld) -> int:
    (row,) = rows_of(world, world.do(world.envelope(definitions=(on_spark("jobs"),))))
    found = row["jobs"]
    assert isinstance(found, int)
    return found


def test_rules_are_answered_for_each_partition(world: WarmWorld, raw: dict[int, FinishTask]) -> None:
    checks = (
        CheckDefinition("enough", rule=RowCount(min=1)),
        CheckDefinition("priced", rule=NotNull("price")),
        CheckDefinition("once", rule=Unique(("id",))),
        CheckDefinition("known", rule=SqlCheck("SELECT * FROM data WHERE id NOT IN (SELECT id FROM raw)")),
    )
    definition = on_spark(
        "priced",
        kind=AssetKind.SQL,
        sql="SELECT * FROM raw",
        function="",
        partitions=(DAYS,),
        dependencies=(reads("raw", "n.raw"),),
        checks=checks,
    )
    together = batch(world, tasks_of(world, raw, definition))
    alone = [world.do(envelope) for envelope in tasks_of(world, raw, definition)]
    assert plans(together) == {"together"}
    for day, (one, other) in enumerate(zip(together, alone, strict=True), 1):
        found = {check.check_name: (check.passed, check.actual_value, check.message) for check in one.checks}
        assert found == {check.check_name: (check.passed, check.actual_value, check.message) for check in other.checks}
        assert [found[name][0] for name in ("enough", "priced", "once", "known")] == [day != 4, day != 5, True, True]


def test_bounds_of_personal_columns_are_told_to_nobody(world: WarmWorld, raw: dict[int, FinishTask]) -> None:
    definition = made("by_day", "raw")

    def tasks() -> list[Envelope]:
        return [with_personal(task, "KIND") for task in tasks_of(world, raw, definition, days=range(1, 4))]

    together, alone = batch(world, tasks()), [world.do(envelope) for envelope in tasks()]
    assert plans(together) == {"together"}
    for result in (*together, *alone):
        found = {stat.column: stat for file in result.outputs[0].files for stat in file.stats}
        assert {name: (stat.min is None, stat.max is None) for name, stat in found.items()} == {
            "date": (False, False),
            "kind": (True, True),
            "n": (False, False),
            "total": (False, False),
        }


def test_samples_have_no_personal_columns(world: WarmWorld, raw: dict[int, FinishTask]) -> None:
    checks = (
        not_null("price", samples=2),
        unique("kind", samples=3),
        sql_check("odd", "SELECT kind AS other FROM data WHERE id % 2 = 1", samples=2),
        not_null("kind", samples=2),
    )

    def tasks() -> list[Envelope]:
        definition = made("paired", "raw", checks=checks)
        return [with_personal(task, "KIND", "Pair") for task in tasks_of(world, raw, definition, days=range(4, 7))]

    together, alone = batch(world, tasks()), [world.do(envelope) for envelope in tasks()]
    assert plans(together) == {"together"}
    for results in (together, alone):
        found = [(len(kept), {name for row in kept for name in row}) for kept in map(partial(samples, world), results)]
        assert [count for count, _ in found] == [0, 2 + 3, 3], "day 4 has no rows, only day 5 has no prices"
        assert {name for _, names in found for name in names} == {"id", "price", "date"}
        assert all("personal data" in check.message for check in results[1].checks if check.check_name == "odd")


def samples(world: WarmWorld, result: FinishTask) -> list[dict[str, object]]:
    """All rows that checks kept of a version."""
    output = result.outputs[0]
    folders = (world.folder / "store").rglob(f"*{output.materialization_id}/samples")
    return [row for folder in folders for path in folder.iterdir() for row in pq.ParquetFile(path).read().to_pylist()]


def with_personal(envelope: Envelope, *columns: str) -> Envelope:
    """The envelope, as it is if the catalog marks these columns."""
    places = tuple(msgspec.structs.replace(place, pii=columns) for place in envelope.outputs)
    return msgspec.structs.replace(envelope, outputs=places)


def test_what_is_made_of_what_was_made_together(world: WarmWorld, raw: dict[int, FinishTask]) -> None:
    """The column of the partition is in the data now, and its statistics vouch for it."""
    first = batch(world, tasks_of(world, raw, made("by_day", "raw")))
    definition = made("again", "by_day", "raw")

    def tasks() -> list[Envelope]:
        return [
            world.envelope(
                definitions=(definition,),
                partition=partition(day),
                inputs=(pinned(world, "by_day", result), pinned(world, "raw", raw[day])),
            )
            for day, result in enumerate(first, 1)
        ]

    together = batch(world, tasks())
    alone = [world.do(envelope) for envelope in tasks()]
    assert [rows_of(world, one) for one in together] == [rows_of(world, one) for one in alone]
    assert plans(together) == {"together"}


def test_a_column_of_the_partitions_name_that_holds_something_else_is_not_believed(
    world: WarmWorld, raw: dict[int, FinishTask]
) -> None:
    moved = batch(world, tasks_of(world, raw, made("renames", "raw"), days=range(1, 4)))
    definition = made("by_day", "raw")
    tasks = [
        world.envelope(definitions=(definition,), partition=partition(day), inputs=(pinned(world, "raw", result),))
        for day, result in enumerate(moved, 1)
    ]
    results = batch(world, tasks)
    assert all("a column date of its own" in plan for plan in plans(results))
    assert all({row["date"].day for row in rows_of(world, one)} == {day + 1} for day, one in enumerate(results, 1))  # type: ignore[attr-defined]


def test_partitions_with_other_columns_have_plans_of_their_own(world: WarmWorld, raw: dict[int, FinishTask]) -> None:
    tasks = tasks_of(world, raw, made("by_day", "raw"), days=range(1, 4))
    (given,) = tasks[2].inputs
    other = tuple(msgspec.structs.replace(pin, schema_hash="another") for pin in given.pins)
    tasks[2] = msgspec.structs.replace(tasks[2], inputs=(msgspec.structs.replace(given, pins=other),))
    results = batch(world, tasks)
    assert [output.plan for result in results for output in result.outputs] == ["together", "together", ""]


def test_the_author_may_vouch_for_a_plan(world: WarmWorld, raw: dict[int, FinishTask]) -> None:
    vouched = msgspec.structs.replace(made("acts", "raw"), one_plan=True)
    results = batch(world, tasks_of(world, raw, vouched, days=range(1, 4)))
    assert plans(results) == {"together"}
    liar = msgspec.structs.replace(made("mixing", "raw"), one_plan=True)
    assert plans(batch(world, tasks_of(world, raw, liar))) == {
        "one_plan=True does not help: the output of n.mixing has no column date"
    }
    mover = msgspec.structs.replace(made("renames", "raw"), one_plan=True)
    for result in batch(world, tasks_of(world, raw, mover, days=range(1, 4))):
        assert result.failure is not None
        assert result.failure.category is FailureCategory.CONFIGURATION_ERROR
        assert "belong to no partition of the batch" in result.failure.message


def test_a_batch_that_loses_spark_is_lost_but_for_what_was_reported(
    world: WarmWorld, raw: dict[int, FinishTask]
) -> None:
    results = batch(world, tasks_of(world, raw, made("dies", "raw"), days=range(1, 4)))
    assert {result.outcome for result in results} == {Outcome.FAILED}
    assert all(result.failure is not None and result.failure.retryable for result in results)
    again = batch(world, tasks_of(world, raw, made("by_day", "raw"), days=range(1, 4)))
    assert plans(again) == {"together"}
