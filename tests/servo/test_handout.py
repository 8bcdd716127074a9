"""What an envelope tells beside the plan: the version that a task replaces, and how far attempts have come."""

from arco.assets import Engine, Retries
from arco.domains.orchestration import Outcome
from arco.servo import Progress, list_tasks
from tests.servo.world import World, callback, project, run_world

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
        progress = Progress(tasks_done=1, tasks_total=4, stage="save", rows_written=10, ui="http://127.0.0.1:4040")
        await world.servo.work.beat_here([callback(claimed, progress)])
        await world.servo.work.beat_here([callback(claimed)])
        (task,) = (await list_tasks(view, run_id, watch=watch)).items
        assert task.progress is not None
        assert (task.progress.tasks_done, task.progress.tasks_total, task.progress.ui) == (
            1,
            4,
            "http://127.0.0.1:4040",
        )
        (unknown,) = (await list_tasks(view, run_id)).items
        assert unknown.progress is None
        await world.finish(claimed)
        (ended,) = (await list_tasks(view, run_id, watch=watch)).items
        assert ended.progress is None

    run_world(work, deployed=SPARK)
