"""What an envelope tells beside the plan: the version that a task replaces, and how far attempts have come."""

import msgspec

from arco.assets import AssetKind, Engine, Retries, SchemaColumn, Source, SourceFormat
from arco.domains.execution import OBSERVATIONS, AssetObserved
from arco.domains.orchestration import Outcome
from arco.servo import Progress, list_tasks
from tests.servo.projects import REGION, asset, dep
from tests.servo.projects import project as project_of
from tests.servo.world import WORKER, World, callback, project, result_of, run_world

SPARK = project({"n.a": []}, engine=Engine.SPARK, retries=Retries(2, delay_seconds=0.0, jitter=0.0))


def test_a_task_on_spark_knows_the_version_it_replaces() -> None:
    async def work(world: World) -> None:
        await world.trigger()
        (first,) = await world.claim()
        assert first.outputs[0].previous is None
        await world.finish(first)
        await world.runtime.sleep(1)
        await world.trigger()
        (second,) = await world.claim()
        assert second.outputs[0].previous is not None
        assert second.outputs[0].previous.materialization_id == first.outputs[0].materialization_id

    run_world(work, deployed=SPARK)


def test_a_function_that_makes_several_assets_knows_what_each_of_them_replaces() -> None:
    both = [asset(key, unit="n.both", engine=Engine.SPARK) for key in ("n.a", "n.b")]

    async def work(world: World) -> None:
        await world.trigger()
        (first,) = await world.claim()
        assert [place.previous for place in first.outputs] == [None, None]
        await world.finish(first)
        await world.runtime.sleep(1)
        await world.trigger(mode="force")
        (second,) = await world.claim()
        seen = {place.asset_key: place.previous and place.previous.materialization_id for place in second.outputs}
        assert seen == {place.asset_key: place.materialization_id for place in first.outputs}
        assert len(set(seen.values())) == 2

    run_world(work, deployed=project_of(*both))


def test_every_attempt_of_a_run_sees_the_same_previous_version() -> None:
    async def work(world: World) -> None:
        await world.trigger()
        (first,) = await world.claim()
        await world.finish(first)
        await world.runtime.sleep(1)
        await world.trigger(mode="force")
        (slow,) = await world.claim()
        await world.runtime.sleep(1)
        other = await world.trigger(mode="force")
        (quick,) = await world.claim()
        assert quick.run_id == other
        await world.finish(quick)
        await world.finish(slow, Outcome.FAILED, retryable=True)
        await world.runtime.sleep(1)
        (again,) = await world.claim()
        assert (again.run_id, again.attempt) == (slow.run_id, 2)
        seen = [envelope.outputs[0].previous for envelope in (slow, again)]
        assert [pin.materialization_id for pin in seen if pin] == [first.outputs[0].materialization_id] * 2

    run_world(work, deployed=SPARK)


def test_a_task_on_python_is_not_told() -> None:
    async def work(world: World) -> None:
        for _ in range(2):
            await world.trigger()
            (claimed,) = await world.claim()
            assert claimed.outputs[0].previous is None
            await world.finish(claimed)

    run_world(work, deployed=project({"n.a": []}))


def test_progress_is_known_while_a_task_runs_and_nowhere_after() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger()
        (claimed,) = await world.claim()
        view, watch = world.workspace.logs["activity"].replica, world.servo.watch
        url = "http://127.0.0.1:4040"
        progress = Progress(1, 4, stage="save", rows_written=10, bytes_written=200, ui=url, attempts=3)
        await world.servo.work.beat_here([callback(claimed, progress)])
        await world.servo.work.beat_here([callback(claimed)])
        (task,) = (await list_tasks(view, run_id, watch=watch)).items
        assert task.progress is not None
        shown = task.progress
        assert (shown.tasks_done, shown.tasks_total, shown.stage) == (1, 4, "save")
        assert (shown.rows_written, shown.bytes_written, shown.ui, shown.attempts) == (10, 200, url, 3)
        (unknown,) = (await list_tasks(view, run_id)).items
        assert unknown.progress is None
        await world.finish(claimed)
        (ended,) = (await list_tasks(view, run_id, watch=watch)).items
        assert ended.progress is None

    run_world(work, deployed=SPARK)


FILES = Source("landing/{region}/*.csv", SourceFormat.CSV)


def test_files_of_others_are_handed_out_by_partition_and_what_was_read_is_kept() -> None:
    columns = (SchemaColumn("id", "long"),)
    raw = asset("n.raw", kind=AssetKind.EXTERNAL, function="", partitions=(REGION,), source=FILES, schema=columns)
    made = asset("n.a", dep("n.raw", "raw"), partitions=(REGION,), engine=Engine.SPARK)

    async def work(world: World) -> None:
        await world.trigger("n.a", partitions={"region": "eu"})
        (claimed,) = await world.claim()
        (given,) = claimed.inputs
        assert (given.source, given.columns, given.is_partitioned) == (FILES, columns, True)
        (pin,) = given.pins
        assert (pin.partition_key, pin.materialization_id) == ("region=s:eu", "")
        result = result_of(claimed, world.runtime.now())
        seen = AssetObserved(
            "obs_1", given.asset_id, "n.raw", pin.partition_id, pin.partition_key, "v1", 1, run_id=claimed.run_id
        )
        other = msgspec.structs.replace(seen, partition_id="part_other")
        refused = await world.servo.work.finish([msgspec.structs.replace(result, observations=(other,))], WORKER)
        assert "was not planned to write" in refused.refused[claimed.attempt_id].message
        done = await world.servo.work.finish([msgspec.structs.replace(result, observations=(seen,))], WORKER)
        assert not done.refused
        rows = await world.workspace.logs["activity"].replica.rows(OBSERVATIONS, given.asset_id)
        assert [(row.observation_id, row.data_version) for row in rows] == [("obs_1", "v1")]

    run_world(work, deployed=project_of(raw, made))
