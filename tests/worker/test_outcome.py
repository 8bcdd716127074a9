"""What a task tells of how it ended and of what it read, and what becomes of that in the tables."""

import re

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import DataFormat, Dependency, Project, SchemaColumn
from arco.core import MINUTE, ArcoError, Invalid, derive_ulid
from arco.domains.catalog import AddColumn, CreateNamespace, CreateTable
from arco.domains.execution import ASSET_SCHEMAS, PARTITIONS, Partition
from arco.domains.lineage import (
    LINEAGE_EDGES,
    LINEAGE_RECORDED,
    CaptureMethod,
    ColumnLineage,
    ColumnMapping,
    ColumnRef,
    Confidence,
    ConfidenceReason,
    EdgeRecord,
    LineageRecorded,
)
from arco.domains.orchestration import MAX_LOSSES, FailureCategory, FinishTask
from arco.servo import Envelope, version_detail
from arco.servo._envelope import InputPin
from arco.servo._request import Mode
from arco.spark import column_lineage, no_plan
from arco.spark._errors import (
    BadFrame,
    InputDamaged,
    NothingReturned,
    SparkFailed,
    SparkOutOfMemory,
    SparkUnavailable,
)
from arco.state import new_event
from arco.wire import VersionDetail
from arco.worker import _outcome
from arco.worker._columns import schemas_told
from arco.worker._errors import DriverLost, SchemaViolation
from arco.worker._masking import Mask
from arco.worker._messages import RaisedError, Report, WrittenFile, WrittenOutput, WrittenStats
from arco.worker._outcome import Times, as_raised, failed, finished, lost
from tests.servo.projects import REGION, asset, project
from tests.servo.world import WORKER, World, run_world

NO_SECRETS = Mask(())

ICEBERG: Project = project(asset("n.table", format=DataFormat.ICEBERG))

PROJECT: Project = project(
    asset("n.part", partitions=(REGION,)),
    asset("n.rate"),
    asset("n.whole", Dependency("n.part", "part"), Dependency("n.rate", "rate")),
)


def told(world: World, envelope: Envelope, *unread: str) -> FinishTask:
    """The end of an attempt that wrote ten rows for each output."""
    outputs = (
        WrittenOutput(place.asset_key, (WrittenFile(f"{place.location}part-0.parquet", 1, 10),), unread=unread)
        for place in envelope.outputs
    )
    now = world.runtime.now()
    return finished(
        envelope, Report(envelope.attempt_id, outputs=tuple(outputs)), Times(now - MINUTE, now), None, Mask(())
    )


async def run_all(world: World) -> FinishTask:
    """Make everything anew; the end of the last task."""
    await world.runtime.sleep(1)
    await world.trigger(partitions={"region": "*"}, mode=Mode.FORCE, batch=1)
    ends: list[FinishTask] = []
    while claimed := await world.claim():
        ends.append(told(world, claimed[0]))
        assert not (await world.servo.work.finish(ends[-1:], WORKER)).refused
    return ends[-1]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=5))
def test_an_asset_stands_as_its_last_run_ended(history: list[bool]) -> None:
    """One run after the other, each of which went well or not. What readers get is the last that went well."""

    async def work(world: World) -> None:
        good = None
        for number, is_well in enumerate(history):
            await world.runtime.sleep(1)
            run_id = await world.trigger("n.rate", mode=Mode.FORCE)
            (envelope,) = await world.claim()
            now = world.runtime.now()
            error = RaisedError(("builtins.ValueError", "builtins.Exception"), f"it broke in {number}")
            end = told(world, envelope) if is_well else failed(envelope, error, Times(now, now), None, Mask(()))
            assert not (await world.servo.work.finish([end], WORKER)).refused
            good = envelope.outputs[0].materialization_id if is_well else good
            asset_id = envelope.outputs[0].asset_id
            (part,) = await world.workspace.logs["activity"].replica.rows(PARTITIONS, asset_id)
            assert (part.status, part.last_error) == (
                ("complete", None) if is_well else ("failed", f"it broke in {number}")
            )
            assert (part.last_run_id, part.current_materialization_id) == (run_id, good)

    run_world(work, deployed=PROJECT)


BAD_INPUT = (
    SparkUnavailable("Spark needs Java, and there is none on the PATH"),
    SparkOutOfMemory("the Java process of Spark ran out of memory"),
    SparkFailed("Job aborted due to stage failure: ExecutorLostFailure (executor 3 exited)"),
    DriverLost("the driver process was killed by signal 9"),
    NothingReturned("the function of n.rate returned None"),
    BadFrame("the DataFrame that n.rate returned has 5,000 columns"),
    SchemaViolation("what n.rate returned is not what it declares"),
    InputDamaged("a file, which the task reads, is damaged"),
    Invalid("the folder of the new version of n.rate has files already"),
)


@pytest.mark.parametrize("error", BAD_INPUT, ids=lambda error: type(error).__name__)
def test_whatever_its_attempts_end_with_the_last_good_version_stays_current(error: ArcoError) -> None:
    """Also if they are tried again until that is enough, as those are that were lost."""

    async def work(world: World) -> None:
        await world.trigger("n.rate")
        (first,) = await world.claim()
        assert not (await world.servo.work.finish([told(world, first)], WORKER)).refused
        run_id = await world.trigger("n.rate", mode=Mode.FORCE)
        categories: list[FailureCategory] = []
        while claimed := await world.claim():
            times = Times(world.runtime.now(), world.runtime.now())
            if isinstance(error, DriverLost):
                end = lost(claimed[0], error, times, None, NO_SECRETS)
            else:
                end = failed(claimed[0], as_raised(error), times, None, NO_SECRETS)
            assert end.failure is not None
            assert end.failure.hints
            categories.append(end.failure.category)
            assert not (await world.servo.work.finish([end], WORKER)).refused
            await world.runtime.sleep(1_000)
        assert len(categories) == (MAX_LOSSES if categories[0] is FailureCategory.WORKER_LOST else 1)
        assert await world.states(run_id) == {"n.rate": "FAILED"}
        (place,) = first.outputs
        assert await current(world, place.asset_id) == [place.materialization_id]

    run_world(work, deployed=PROJECT)


async def current(world: World, asset_id: str) -> list[str]:
    rows: list[Partition] = await world.workspace.logs["activity"].replica.rows(PARTITIONS, asset_id)
    return [row.current_materialization_id or "" for row in rows]


async def detail(world: World, asset_id: str, version: str) -> VersionDetail:
    found, _ = await world.workspace.logs["activity"].read(lambda view: version_detail(view, asset_id, version))
    return found


def test_a_version_names_its_readers_also_where_these_had_no_room_to_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_outcome, "MAX_SOURCES", 1)

    async def work(world: World) -> None:
        first = await run_all(world)
        assert first.lineage is not None
        part, rate = first.lineage.edges
        assert (part.source_materializations, part.source_partitions, part.rows_read) == ((), (), 20)
        assert (len(rate.source_materializations), len(rate.source_partitions), rate.rows_read) == (1, 1, 10)
        old = await current(world, part.source_id)
        second = await run_all(world)
        new = await current(world, part.source_id)
        assert len({*old, *new}) == 4
        for versions, result in ((old, first), (new, second)):
            for version in versions:
                found = await detail(world, part.source_id, version)
                assert [reader.materialization_id for reader in found.readers] == [result.outputs[0].materialization_id]
                assert not found.readers_truncated

        now = world.runtime.now()
        edge = EdgeRecord(part.source_id, part.target_id, "part", rows_read=5)
        use = new_event(LINEAGE_RECORDED, LineageRecorded("a run that nobody knows", "task", now, now, (edge,)))
        await world.workspace.record("activity", [use], actor="worker")
        found = await detail(world, part.source_id, new[0])
        assert (len(found.readers), found.readers_truncated) == (1, True)

    run_world(work, deployed=PROJECT)


def test_what_an_output_is_not_made_of_has_no_edge() -> None:
    async def work(world: World) -> None:
        await run_all(world)
        await world.trigger("n.whole", mode=Mode.FORCE)
        (envelope,) = await world.claim()
        some = told(world, envelope, "rate")
        assert some.lineage is not None
        assert [edge.parameter for edge in some.lineage.edges] == ["part"]
        assert told(world, envelope, "rate", "part").lineage is None
        assert some.outputs == told(world, envelope).outputs

    run_world(work, deployed=PROJECT)


@pytest.mark.parametrize(
    ("name", "schema", "words"),
    [
        ("value.json", None, "n.table is of format iceberg and returned no table"),
        ("part-0.parquet", pa.schema({"a": pa.timestamp("ns")}), "column 'a' is of type timestamp.*microseconds"),
    ],
)
def test_what_no_iceberg_table_can_hold_fails_its_task(name: str, schema: pa.Schema | None, words: str) -> None:
    async def work(world: World) -> None:
        await world.trigger()
        (envelope,) = await world.claim()
        (place,) = envelope.outputs
        held = b"" if schema is None else schema.serialize().to_pybytes()
        output = WrittenOutput(place.asset_key, (WrittenFile(f"{place.location}{name}", 1, 10),), schema=held)
        now = world.runtime.now()
        report = Report(envelope.attempt_id, outputs=(output,))
        result = finished(envelope, report, Times(now - MINUTE, now), None, Mask(()))
        assert result.failure is not None
        assert re.search(words, result.failure.message)

    run_world(work, deployed=ICEBERG)


def wrote(
    envelope: Envelope, schema: pa.Schema, mask: Mask = NO_SECRETS, lineage: dict[str, bytes] | None = None
) -> FinishTask:
    """The end of an attempt that wrote a table with these columns for each output."""
    outputs = (
        WrittenOutput(
            place.asset_key,
            (WrittenFile(f"{place.location}part-0.parquet", 1, 10),),
            schema.serialize().to_pybytes(),
            lineage or {},
        )
        for place in envelope.outputs
    )
    times = Times(envelope.issued_at, envelope.issued_at)
    return finished(envelope, Report(envelope.attempt_id, outputs=tuple(outputs)), times, None, mask)


def columns_of(end: FinishTask) -> list[list[tuple[str, str]]]:
    return [[(column.name, column.type) for column in schema.columns] for schema in end.schemas]


def test_what_columns_a_version_has_is_told() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])

    async def work(world: World) -> None:
        await world.trigger("n.rate")
        (envelope,) = await world.claim()
        end = wrote(envelope, schema)
        (one,), (output,) = end.schemas, end.outputs
        assert (one.schema_hash, one.materialization_id) == (output.schema_hash, output.materialization_id)
        assert columns_of(end) == [[("id", "long"), ("name", "string")]]
        assert [column.nullable for column in one.columns] == [False, True]

    run_world(work, deployed=PROJECT)


def test_a_column_may_have_no_name() -> None:
    """As the index of a table that pandas wrote as CSV."""
    schema = pa.schema([("", pa.int64()), ("b", pa.int64())])

    async def end(world: World) -> Envelope:
        (envelope,) = await world.claim()
        made = {
            given.parameter: msgspec.json.encode(column_lineage(no_plan(schema.names), given.parameter))
            for given in envelope.inputs
        }
        assert not (await world.servo.work.finish([wrote(envelope, schema, lineage=made)], WORKER)).refused
        return envelope

    async def work(world: World) -> None:
        await world.trigger()
        (source,), (target,) = (await end(world)).outputs, (await end(world)).outputs
        replica = world.workspace.logs["activity"].replica
        (row,) = await replica.rows(ASSET_SCHEMAS, target.asset_id)
        assert [column.name for column in row.columns] == ["", "b"]
        (edge,) = await replica.rows(LINEAGE_EDGES, source.asset_id)
        assert [column.name for column in edge.recorded_lineage.unmapped_columns] == ["b"]
        assert edge.recorded_lineage.reason.endswith("columns without a name are left out")

    run_world(work, deployed=project(asset("n.rate"), asset("n.whole", Dependency("n.rate", "rate"))))


@pytest.mark.parametrize(
    "text", [b"{}", b"no JSON", msgspec.json.encode({"mappings": [{"target_column": {"name": ""}}]})]
)
def test_lineage_of_columns_that_nobody_can_read_is_told_and_left_out(
    text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(world: World) -> None:
        await world.trigger()
        (envelope,) = await world.claim()
        await world.finish(envelope)
        (envelope,) = await world.claim()
        end = wrote(envelope, pa.schema([("b", pa.int64())]), lineage={"rate": text})
        assert not (await world.servo.work.finish([end], WORKER)).refused
        assert end.lineage is not None
        assert [edge.column_lineage for edge in end.lineage.edges] == [None]

    run_world(work, deployed=project(asset("n.rate"), asset("n.whole", Dependency("n.rate", "rate"))))
    (said,) = [record.getMessage() for record in caplog.records if record.name == "arco.worker"]
    assert "the lineage of columns of n.whole from n.rate is left out: " in said


@pytest.mark.parametrize("text", ["hunter2secret", "AKIAIOSFODNN7EXAMPLE"])
def test_columns_whose_names_give_a_secret_away_are_left_out_and_the_version_stays(text: str) -> None:
    """Wherever the name stands: a secret that the task has, and what the log refuses by its shape."""
    mask = Mask(("hunter2secret",))
    schemas = (
        pa.schema([(text, pa.int64())]),
        pa.schema([("a", pa.struct([("b", pa.list_(pa.struct([(text, pa.int64())])))]))]),
    )

    async def work(world: World) -> None:
        await world.trigger()
        (envelope,) = await world.claim()
        assert not (await world.servo.work.finish([wrote(envelope, schemas[0], mask)], WORKER)).refused
        for schema in schemas:
            await world.trigger("n.whole", mode=Mode.FORCE)
            (envelope,) = await world.claim()
            made = column_lineage(no_plan([text]), "rate")
            end = wrote(envelope, schema, mask, {"rate": msgspec.json.encode(made)})
            assert end.schemas == ()
            assert not (await world.servo.work.finish([end], WORKER)).refused
            assert text.encode() not in msgspec.json.encode(end)

    run_world(work, deployed=project(asset("n.rate"), asset("n.whole", Dependency("n.rate", "rate"))))


def test_an_output_with_too_wide_columns_is_told_without_them_and_takes_no_room_from_others() -> None:
    wide = pa.schema(
        [(f"c{i}", pa.struct([(f"nested_field_{j}", pa.int64()) for j in range(400)])) for i in range(120)]
    )

    async def work(world: World) -> None:
        await world.trigger("n.rate")
        (envelope,) = await world.claim()
        end = wrote(envelope, wide)
        assert not (await world.servo.work.finish([end], WORKER)).refused
        assert end.schemas == ()
        narrow = msgspec.structs.replace(end.outputs[0], asset_key="n.narrow")
        columns = {"n.rate": (SchemaColumn("a", "x" * 150_000),), "n.narrow": (SchemaColumn("b", "long"),)}
        assert [told.asset_key for told in schemas_told((*end.outputs, narrow), columns, NO_SECRETS)] == ["n.narrow"]

    run_world(work, deployed=PROJECT)


def test_a_result_fits_into_its_event_whatever_is_told_beside_it() -> None:
    """Each kind is near its own limit, and all together are beyond that of an event."""
    names = [f"the_name_of_column_{number:04d}" for number in range(1_500)]
    schema = pa.schema([(name, pa.int64()) for name in names])
    parameters = ("rate", "part")

    def made(parameter: str) -> bytes:
        return msgspec.json.encode(
            ColumnLineage(
                CaptureMethod.PLAN_INTROSPECTION,
                Confidence.HIGH,
                ConfidenceReason.PLAN_INTROSPECTION,
                1.0,
                tuple(ColumnMapping(ColumnRef(name), (ColumnRef(name),)) for name in names),
            )
        )

    def widest(envelope: Envelope) -> FinishTask:
        (place,) = envelope.outputs
        pins = tuple(
            InputPin(derive_ulid(0, f"{number}"), f"region={number:060d}", derive_ulid(1, f"{number}"))
            for number in range(1_000)
        )
        envelope = msgspec.structs.replace(
            envelope, inputs=tuple(msgspec.structs.replace(given, pins=pins) for given in envelope.inputs)
        )
        stats = tuple(WrittenStats(name, 0, "\u00e4" * 100, "\u00e4" * 100) for name in names)
        file = WrittenFile(f"{place.location}part-0.parquet", 1, 10, stats)
        output = WrittenOutput(
            place.asset_key, (file,), schema.serialize().to_pybytes(), {name: made(name) for name in parameters}
        )
        report = Report(envelope.attempt_id, outputs=(output,))
        return finished(envelope, report, Times(envelope.issued_at, envelope.issued_at), None, NO_SECRETS)

    async def work(world: World) -> None:
        columns = tuple(AddColumn(name, "long") for name in names)
        await world.workspace.decide("catalog", CreateNamespace(("n",)), actor="tester")
        for name in ("rate", "part", "whole"):
            await world.workspace.decide("catalog", CreateTable(("n", name), columns=columns), actor="tester")
        await world.trigger(mode=Mode.FORCE)
        for _ in parameters:
            (envelope,) = await world.claim()
            await world.finish(envelope)
        (envelope,) = await world.claim()
        end = widest(envelope)
        assert not (await world.servo.work.finish([end], WORKER)).refused
        assert [len(told.columns) for told in end.schemas] == [1_500]
        assert end.lineage is not None
        (edge, _) = end.lineage.edges
        (row,) = await world.workspace.logs["activity"].replica.rows(LINEAGE_EDGES, edge.source_id)
        assert len(row.recorded_lineage.mappings) == 1_500
        assert row.recorded_lineage.mappings[0].target_column.column_id

    run_world(
        work,
        deployed=project(
            asset("n.rate"), asset("n.part"), asset("n.whole", *(Dependency(f"n.{name}", name) for name in parameters))
        ),
    )
