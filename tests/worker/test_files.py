"""Files of others on Spark, incremental inputs, and what authors say of columns, by whole workers."""

import gzip
import textwrap
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from arco.assets import CorruptRecords, Dependency, SchemaColumn, Source, SourceFormat
from arco.core import PartitionKey, partition_id
from arco.domains.lineage import CaptureMethod, Confidence, ConfidenceReason, TransformType
from arco.domains.orchestration import FailureCategory, FinishTask, Outcome
from arco.sdk import daily
from arco.servo._envelope import Envelope, InputPin, InputValue, PinnedFile
from tests.worker.plane import TENANT, WORKSPACE, definition, reads
from tests.worker.warm import WarmWorld, on_spark

SOURCE = """
    from pyspark.sql import DataFrame, functions as F

    @asset(namespace="n")
    def taken(orders: DataFrame) -> DataFrame:
        return orders

    @asset(namespace="n")
    def summed(orders: DataFrame) -> DataFrame:
        return orders.groupBy("date").agg(F.sum("amount").alias("amount"), F.count("*").alias("n"))

    @asset(namespace="n")
    def slow(context, orders: DataFrame) -> DataFrame:
        import glob
        for path in glob.glob(f"{FOLDER}/landing/slow/*/*.csv"):
            with open(path, "a") as file:
                file.write("9,9.5\\n")
        return orders

    @asset(namespace="n", engine="spark")
    def part(context):
        day = context.partition["date"]
        return context.spark.range(day.day).select("id", F.lit(day.day).alias("day"))

    @asset(namespace="n")
    def merged(context, part: DataFrame) -> DataFrame:
        print("new", [str(one["date"]) for one in context.partitions_of("part")], part.count(), sorted(part.columns))
        new = part.groupBy("date").agg(F.count("*").alias("n"))
        before = context.previous
        if before is None:
            return new
        gone = [one["date"] for one in context.partitions_of("part")]
        return before.where(~F.col("date").isin(gone)).unionByName(new) if gone else before.unionByName(new)

    @asset(namespace="n")
    def rows(): return [{"id": 1, "v": "x"}]

    @asset(namespace="n")
    def guessed(rows: DataFrame) -> DataFrame:
        return rows.select(F.udf(lambda v: v, "string")("v").alias("name"), "id")

    @asset(namespace="n")
    def plain(rows):
        return [{"name": row["v"], "other": 1} for row in rows]
"""

DAYS = daily("2025-01-01")
COLUMNS = (SchemaColumn("id", "long"), SchemaColumn("amount", "double"))
ORDERS = Source("landing/orders/{date}/*.csv", SourceFormat.CSV)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmWorld]:
    folder = tmp_path_factory.mktemp("files")
    place = folder / "store" / TENANT / WORKSPACE
    made = WarmWorld(folder, f"FOLDER = {str(place)!r}\n{textwrap.dedent(SOURCE)}")
    made.start()
    yield made
    made.close()


def landing(world: WarmWorld, name: str, text: str) -> Path:
    path = world.folder / "store" / TENANT / WORKSPACE / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def day(number: int) -> str:
    return f"date=d:2025-01-{number:02d}"


def files_of(
    world: WarmWorld, source: Source, *keys: str, columns: tuple[SchemaColumn, ...] = COLUMNS, key: str = "n.orders"
) -> InputValue:
    asset_id = world.asset_id(key)
    pins = tuple(InputPin(partition_id(asset_id, PartitionKey.parse(one)), one, "") for one in keys)  # type: ignore[arg-type]
    return InputValue(asset_id, key, "orders", any(keys), "", pins, source, columns)


def task(world: WarmWorld, name: str, given: InputValue, partition: str = "", **fields: object) -> Envelope:
    made = on_spark(name, dependencies=(reads(given.parameter, given.asset_key),), **fields)
    return world.envelope(definitions=(made,), inputs=(given,), partition=partition)


def table(world: WarmWorld, result: FinishTask) -> list[dict[str, object]]:
    assert result.outcome is Outcome.SUCCEEDED, result.failure
    place = world.folder / "store" / TENANT / WORKSPACE
    return [row for file in result.outputs[0].files for row in pq.read_table(place / file.path).to_pylist()]


def refused(result: FinishTask, category: FailureCategory, *texts: str) -> str:
    assert result.outcome is Outcome.FAILED
    assert result.failure is not None
    assert result.failure.category is category, result.failure
    for text in texts:
        assert text in result.failure.message, result.failure.message
    return f"{result.failure.message}\n{result.failure.traceback}"


# Sources


def test_a_partition_reads_its_own_files_and_says_which(world: WarmWorld) -> None:
    landing(world, "orders/2025-01-01/a.csv", "id,amount\n1,1.5\n2,2.5\n")
    landing(world, "orders/2025-01-01/b.csv", "id,amount\n3,3.5\n")
    landing(world, "orders/2025-01-01/_hidden.csv", "id,amount\n7,7\n")
    landing(world, "orders/2025-01-02/a.csv", "id,amount\n4,4.5\n")
    given = files_of(world, ORDERS, day(1))
    result = world.do(task(world, "taken", given, day(1), partitions=(DAYS,)))
    found = table(world, result)
    assert sorted((row["id"], row["amount"], str(row["date"])) for row in found) == [
        (1, 1.5, "2025-01-01"),
        (2, 2.5, "2025-01-01"),
        (3, 3.5, "2025-01-01"),
    ]
    (seen,) = result.observations
    assert (seen.asset_id, seen.partition_key, seen.run_id) == (given.asset_id, day(1), result.run_id)
    assert seen.metadata == {"files": "2", "bytes": "38", "names": "a.csv\nb.csv"}
    assert result.lineage is not None
    (edge,) = result.lineage.edges
    assert (edge.source_id, edge.source_materializations, edge.rows_read) == (given.asset_id, (), None)
    assert [ref.partition_key for ref in edge.source_partitions] == [day(1)]
    assert edge.column_lineage is not None
    assert {m.target_column.name: [c.name for c in m.source_columns] for m in edge.column_lineage.mappings} == {
        "id": ["id"],
        "amount": ["amount"],
        "date": ["date"],
    }
    again = world.do(task(world, "taken", given, day(1), partitions=(DAYS,)))
    assert again.observations[0].data_version == seen.data_version
    assert again.outputs[0].inputs_fingerprint == result.outputs[0].inputs_fingerprint
    landing(world, "orders/2025-01-01/c.csv", "id,amount\n5,5.5\n")
    changed = world.do(task(world, "taken", given, day(1), partitions=(DAYS,)))
    assert changed.observations[0].data_version != seen.data_version
    assert changed.outputs[0].inputs_fingerprint != result.outputs[0].inputs_fingerprint


def test_several_partitions_are_one_frame_with_their_keys(world: WarmWorld) -> None:
    for number in range(1, 5):
        landing(world, f"many/2025-01-{number:02d}/a+b=1.csv", f"id,amount\n{number},1.5\n")
    source = msgspec.structs.replace(ORDERS, path="landing/many/{date}/*.csv")
    result = world.do(task(world, "taken", files_of(world, source, *map(day, range(1, 6)))))
    assert sorted((row["id"], str(row["date"])) for row in table(world, result)) == [
        (number, f"2025-01-{number:02d}") for number in range(1, 5)
    ]
    assert [one.metadata["files"] for one in result.observations] == ["1", "1", "1", "1", "0"]


def test_json_lines_are_read_with_declared_columns(world: WarmWorld) -> None:
    landing(world, "events/2025/01/03.json", '{"id": 1, "at": {"x": [1, 2]}, "more": 3}\n{"id": 2}\n')
    source = Source("landing/events/{date:%Y/%m/%d}.json", SourceFormat.JSON)
    columns = (SchemaColumn("id", "long"), SchemaColumn("at", "struct<x:list<int>>"))
    given = files_of(world, source, day(3), columns=columns)
    result = world.do(task(world, "taken", given, day(3), partitions=(DAYS,)))
    assert [(row["id"], row["at"]) for row in table(world, result)] == [(1, {"x": [1, 2]}), (2, None)]


def test_columns_that_are_not_declared_are_inferred_and_the_log_says_so(world: WarmWorld) -> None:
    landing(world, "free/a.csv", "id,name\n1,x\n2,y\n")
    given = files_of(world, Source("landing/free/*.csv", SourceFormat.CSV), "", columns=())
    envelope = task(world, "taken", given)
    assert [(row["id"], row["name"]) for row in table(world, world.do(envelope))] == [(1, "x"), (2, "y")]
    assert "the columns of n.orders are not declared" in world.log_of(envelope)


@pytest.mark.parametrize(
    ("format", "text", "line"),
    [
        ("csv", "id,amount\n1,1.5\n\nsecret-value,2\n3,3\n", "line 4"),
        ("csv", "id,amount\n1,1.5\n2,2,secret-value\n", "line 3"),
        ("json", '{"id": 1, "amount": 1}\n{"id": 2, "amount": "secret-value"}\n', "line 2"),
        ("json", '{"id": 1, "amount": 1}\n{"id": 2, secret-value\n', "line 2"),
    ],
)
def test_a_record_that_does_not_fit_fails_with_file_and_line_and_without_its_text(
    world: WarmWorld, format: str, text: str, line: str
) -> None:
    landing(world, f"bad/a.{format}", text)
    given = files_of(world, Source(f"landing/bad/*.{format}", SourceFormat(format)), "")
    envelope = task(world, "taken", given)
    result = world.do(envelope)
    told = refused(result, FailureCategory.DATA_QUALITY_FAILURE, f"landing/bad/a.{format} of n.orders", line)
    assert "secret-value" not in told + world.log_of(envelope)


def test_records_that_do_not_fit_are_made_null_or_dropped_if_the_author_says_so(world: WarmWorld) -> None:
    landing(world, "soft/a.csv", "id,amount\n1,1.5\nx,2\n")
    for corrupt, expected in ((CorruptRecords.NULL, [(1, 1.5), (None, 2.0)]), (CorruptRecords.DROP, [(1, 1.5)])):
        source = Source("landing/soft/*.csv", SourceFormat.CSV, corrupt=corrupt)
        found = table(world, world.do(task(world, "taken", files_of(world, source, ""))))
        assert [(row["id"], row["amount"]) for row in found] == expected


def test_the_record_itself_is_kept_where_a_column_for_it_is_declared(world: WarmWorld) -> None:
    landing(world, "kept/a.csv", "id,amount\n1,1.5\nx,2\n")
    source = Source("landing/kept/*.csv", SourceFormat.CSV, corrupt=CorruptRecords.NULL)
    columns = (*COLUMNS, SchemaColumn("_corrupt_record", "string"))
    found = table(world, world.do(task(world, "taken", files_of(world, source, "", columns=columns))))
    assert [row["_corrupt_record"] for row in found] == [None, "x,2"]


def test_a_file_that_cannot_be_read_is_for_those_who_bring_it(world: WarmWorld) -> None:
    path = landing(world, "cut/a.csv.gz", "")
    path.write_bytes(gzip.compress(b"id,amount\n" + b"".join(b"%d,1.5\n" % n for n in range(10_000)))[:-1_000])
    given = files_of(world, Source("landing/cut/*.csv.gz", SourceFormat.CSV), "")
    result = world.do(task(world, "taken", given))
    refused(result, FailureCategory.STORAGE_ERROR, "landing/cut/a.csv.gz of n.orders", "is damaged", "bring it again")
    assert result.failure is not None
    assert "Others bring these files" in result.failure.hints[0].action


def test_a_header_that_is_not_what_is_declared_is_a_failure(world: WarmWorld) -> None:
    landing(world, "head/a.csv", "amount,id\n1.5,1\n")
    given = files_of(world, Source("landing/head/*.csv", SourceFormat.CSV), "")
    refused(
        world.do(task(world, "taken", given)),
        FailureCategory.DATA_QUALITY_FAILURE,
        "the header of landing/head/a.csv",
        "id, amount",
    )


def test_no_file_is_a_failure_that_says_what_was_looked_for(world: WarmWorld) -> None:
    given = files_of(world, ORDERS, day(20))
    result = world.do(task(world, "taken", given, day(20), partitions=(DAYS,)))
    refused(result, FailureCategory.MISSING_DEPENDENCY, "no file of n.orders", "landing/orders/2025-01-20/*.csv")


def test_files_that_are_written_while_they_are_read_fail_the_attempt(world: WarmWorld) -> None:
    landing(world, "slow/2025-01-01/a.csv", "id,amount\n1,1.5\n")
    source = msgspec.structs.replace(ORDERS, path="landing/slow/{date}/*.csv")
    result = world.do(task(world, "slow", files_of(world, source, day(1)), day(1), partitions=(DAYS,)))
    refused(result, FailureCategory.UPSTREAM_FAILURE, "were written while they were read")


def test_a_batch_of_files_is_one_plan_and_a_bad_or_missing_one_fails_alone(world: WarmWorld) -> None:
    for number in range(1, 8):
        bad = "x,1\n" if number == 4 else ""
        if number != 6:
            landing(world, f"batch/2025-01-{number:02d}/a.csv", f"id,amount\n{number},1.5\n{bad}")
    source = msgspec.structs.replace(ORDERS, path="landing/batch/{date}/*.csv")
    envelopes = [
        task(world, "summed", files_of(world, source, day(number)), day(number), partitions=(DAYS,))
        for number in range(1, 8)
    ]
    results = [world.result(one) for one in world.give_batch(*envelopes)]
    outcomes = [result.outcome is Outcome.SUCCEEDED for result in results]
    assert outcomes == [number not in (4, 6) for number in range(1, 8)]
    refused(results[3], FailureCategory.DATA_QUALITY_FAILURE, "2025-01-04/a.csv", "line 3")
    refused(results[5], FailureCategory.MISSING_DEPENDENCY, "2025-01-06")
    assert {results[number].outputs[0].plan for number in (0, 1, 2)} == {"together"}
    for number in (1, 2, 3, 5, 7):
        (row,) = table(world, results[number - 1])
        assert (str(row["date"]), row["n"]) == (f"2025-01-{number:02d}", 1)
        (seen,) = results[number - 1].observations
        assert (seen.partition_key, seen.metadata["files"]) == (day(number), "1")


# Incremental inputs


@pytest.fixture(scope="module")
def parts(world: WarmWorld) -> dict[int, InputPin]:
    made = on_spark("part", partitions=(DAYS,))
    found = {}
    for number in (1, 2, 3):
        (output,) = world.do(world.envelope(definitions=(made,), partition=day(number))).outputs
        found[number] = pin_of(output)
    return found


def pin_of(output: object) -> InputPin:
    made = msgspec.convert(output, type(output), from_attributes=True)
    files = tuple(PinnedFile(f.path, f.row_count, f.size_bytes) for f in made.files)  # type: ignore[attr-defined]
    return InputPin(made.partition_id, made.partition_key, made.materialization_id, files, made.schema_hash)  # type: ignore[attr-defined]


def merge(world: WarmWorld, pins: list[InputPin], previous: FinishTask | None) -> tuple[Envelope, FinishTask]:
    made = on_spark("merged", dependencies=(Dependency("n.part", "part", incremental=True),))
    given = InputValue(world.asset_id("n.part"), "n.part", "part", True, "", tuple(pins))
    envelope = world.envelope(definitions=(made,), inputs=(given,))
    if previous is not None:
        (place,) = envelope.outputs
        place = msgspec.structs.replace(place, previous=pin_of(previous.outputs[0]))
        envelope = msgspec.structs.replace(envelope, outputs=(place,))
    return envelope, world.do(envelope)


def seen(pin: InputPin, files: int = 0) -> InputPin:
    return msgspec.structs.replace(pin, seen=True, files=pin.files[:files])


def test_only_new_versions_are_read_and_all_are_stood_for(world: WarmWorld, parts: dict[int, InputPin]) -> None:
    _, first = merge(world, [parts[1], parts[2]], None)
    assert sorted((str(row["date"]), row["n"]) for row in table(world, first)) == [("2025-01-01", 1), ("2025-01-02", 2)]
    envelope, second = merge(world, [seen(parts[1], 1), seen(parts[2]), parts[3]], first)
    assert sorted((str(row["date"]), row["n"]) for row in table(world, second)) == [
        ("2025-01-01", 1),
        ("2025-01-02", 2),
        ("2025-01-03", 3),
    ]
    assert "new ['2025-01-03'] 3 ['date', 'day', 'id']" in world.log_of(envelope)
    assert second.lineage is not None
    assert second.lineage.edges[0].source_materializations == (parts[3].materialization_id,)
    assert second.lineage.edges[0].rows_read == 3
    _, whole = merge(world, [parts[1], parts[2], parts[3]], None)
    assert second.outputs[0].inputs_fingerprint == whole.outputs[0].inputs_fingerprint


def test_without_anything_new_the_frame_is_empty_and_has_its_columns(
    world: WarmWorld, parts: dict[int, InputPin]
) -> None:
    _, first = merge(world, [parts[1], parts[2]], None)
    envelope, again = merge(world, [seen(parts[1], 1), seen(parts[2])], first)
    assert "new [] 0 ['date', 'day', 'id']" in world.log_of(envelope)
    assert sorted(map(str, table(world, again))) == sorted(map(str, table(world, first)))


def test_incremental_partitions_are_never_one_plan(world: WarmWorld, parts: dict[int, InputPin]) -> None:
    made = on_spark("taken", partitions=(DAYS,), dependencies=(Dependency("n.part", "orders", incremental=True),))
    asset_id = world.asset_id("n.part")
    envelopes = [
        world.envelope(
            definitions=(made,),
            partition=day(number),
            inputs=(InputValue(asset_id, "n.part", "orders", True, "", (parts[number],)),),
        )
        for number in (1, 2, 3)
    ]
    results = [world.result(one) for one in world.give_batch(*envelopes)]
    assert [len(table(world, result)) for result in results] == [1, 2, 3]
    assert all("incremental" in result.outputs[0].plan for result in results)


# What authors say of columns


def rows_of(world: WarmWorld) -> InputValue:
    (output,) = world.do(world.envelope("rows")).outputs
    return InputValue(output.asset_id, "n.rows", "rows", False, "", (pin_of(output),))


def test_what_the_author_says_of_a_column_wins_over_the_plan(world: WarmWorld) -> None:
    given = rows_of(world)
    result = world.do(task(world, "guessed", given, column_lineage={"name": ("rows.id",)}))
    assert result.lineage is not None
    lineage = result.lineage.edges[0].column_lineage
    assert lineage is not None
    assert (lineage.capture_method, lineage.confidence_reason) == (CaptureMethod.ANNOTATION, ConfidenceReason.MIXED)
    assert (lineage.confidence, lineage.coverage) == (Confidence.HIGH, 1.0)
    found = {m.target_column.name: ([c.name for c in m.source_columns], m.transform_type) for m in lineage.mappings}
    assert found == {"name": (["id"], TransformType.UNKNOWN), "id": (["id"], TransformType.DIRECT)}


def test_what_the_author_says_is_all_that_is_known_of_a_function_in_python(world: WarmWorld) -> None:
    given = rows_of(world)
    made = definition("plain", dependencies=(reads("rows", "n.rows"),), column_lineage={"name": ("rows.v",)})
    result = world.do(world.envelope(definitions=(made,), inputs=(given,)))
    assert result.lineage is not None
    lineage = result.lineage.edges[0].column_lineage
    assert lineage is not None
    assert (lineage.capture_method, lineage.coverage) == (CaptureMethod.ANNOTATION, 0.5)
    assert [m.target_column.name for m in lineage.mappings] == ["name"]
    assert [column.name for column in lineage.unmapped_columns] == ["other"]
