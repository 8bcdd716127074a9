"""From a deployed project to a finished run, through the service that the API and the workers use."""

from typing import Any

import pytest

from arco.assets import Retries
from arco.catalog import Points, parse_as_of
from arco.core import Conflict, Unavailable
from arco.domains.deployments import ASSETS
from arco.domains.execution import MATERIALIZATIONS, PARTITIONS
from arco.domains.orchestration import RUNS, FinishTask, Outcome
from arco.servo import WorkerId
from arco.state import Table, empty_manifest
from tests.servo.world import ASKED, World, callback, chain, fan, project, run_world
from tests.state.doubles import rows_of


def test_a_chain_runs_in_order_and_a_second_run_finds_nothing_to_do_but_its_root() -> None:
    async def work(world: World) -> tuple[list[str], str, list[str], list[str]]:
        run_id = await world.trigger()
        done = await world.work_off()
        again = await world.trigger()
        return done, (await world.run_row(run_id)).state, await world.work_off(), sorted(await world.states(again))

    done, state, again, tasks = run_world(work, deployed=project(chain(5)))
    assert done == [f"n.a{i:04d}" for i in range(5)]
    assert state == "SUCCEEDED"
    assert again == done  # its root always runs, and what is made of it with it
    assert tasks == done


def test_a_finish_claims_what_it_made_ready_in_the_same_append() -> None:
    async def work(world: World) -> tuple[int, list[str]]:
        await world.trigger()
        claimed = await world.claim()
        before = world.workspace.logs["activity"].follower.tail.number
        seen = []
        while claimed:
            seen.append(claimed[0].task_key)
            claimed = await world.finish(claimed[0], slots=1)
        return world.workspace.logs["activity"].follower.tail.number - before, seen

    appends, seen = run_world(work, deployed=project(chain(10)))
    assert seen == [f"n.a{i:04d}" for i in range(10)]
    assert appends == 10


def test_what_is_claimed_while_the_state_is_set_back_to_a_revision_is_handed_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who finds that another process published folds again, from a revision that may be older than the run."""

    async def work(world: World) -> None:
        run_id = await world.trigger()
        log = world.workspace.logs["activity"]
        claim, read = world.servo.work._queue.claim, log.follower._read

        async def slowly(at_least: int) -> None:
            await world.runtime.sleep(1)
            await read(at_least)

        async def claim_and_restart(*arguments: Any) -> Any:
            claimed = await claim(*arguments)
            world.runtime.spawn(log.follower.restart(lambda: log.replica.reset(empty_manifest(log.place))), "restart")
            await world.runtime.sleep(0.1)
            assert await log.replica.get(RUNS, run_id, run_id) is None
            return claimed

        (first,) = await world.claim()
        with monkeypatch.context() as patch:
            patch.setattr(log.follower, "_read", slowly)
            patch.setattr(world.servo.work._queue, "claim", claim_and_restart)
            (second,) = await world.finish(first, slots=1)
        assert second.task_key == "n.a0001"
        assert [beat.stale for beat in await world.servo.work.beat([callback(second)])] == [False]

    run_world(work, deployed=project(chain(2)))


def test_what_is_claimed_with_a_result_that_may_be_lost_is_given_back_and_has_not_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger()
        (first,) = await world.claim()
        decide = world.workspace.decide

        async def silent(log: str, command: Any, **more: Any) -> Any:
            if isinstance(command, FinishTask):
                raise Unavailable("no answer")
            return await decide(log, command, **more)

        monkeypatch.setattr(world.workspace, "decide", silent)
        with pytest.raises(Unavailable):
            await world.finish(first, slots=1)
        states = await world.states(run_id)
        assert sorted(states.values()) == ["RETRY_WAIT", "RUNNING"]
        assert await rows_of(world.workspace.logs["activity"].replica, PARTITIONS) == []

    run_world(work, deployed=project({"n.a": [], "n.b": []}))


def test_a_fan_runs_side_by_side_and_reads_what_the_run_wrote() -> None:
    async def work(world: World) -> tuple[int, set[int], str]:
        run_id = await world.trigger()
        (first,) = await world.claim(10)
        middle = await world.finish(first, slots=100)
        wrote = first.outputs[0].materialization_id
        read = {envelope.inputs[0].pins[0].materialization_id == wrote for envelope in middle}
        last = []
        for envelope in middle:
            last += await world.finish(envelope, slots=1)
        await world.finish(last[0])
        assert read == {True}
        assert len(last[0].inputs) == 40
        return len(middle), {len(given.pins) for given in last[0].inputs}, (await world.run_row(run_id)).state

    assert run_world(work, deployed=project(fan(40))) == (40, {1}, "SUCCEEDED")


def test_a_failure_is_retried_after_its_delay_and_then_counts() -> None:
    async def work(world: World) -> tuple[list[str], float, str, dict[str, str]]:
        run_id = await world.trigger()
        attempts = []
        waited = 0.0
        for _ in range(3):
            before = world.runtime.boottime()
            (claimed,) = await world.claim(wait=60)
            waited += world.runtime.boottime() - before
            attempts.append(f"{claimed.task_key}#{claimed.attempt}")
            await world.finish(claimed, Outcome.FAILED, retryable=True)
        return attempts, waited, (await world.run_row(run_id)).state, await world.states(run_id)

    given = project(chain(2), retries=Retries(count=2, delay_seconds=1.0, jitter=0.0))
    attempts, waited, state, states = run_world(work, deployed=given)
    assert attempts == ["n.a0000#1", "n.a0000#2", "n.a0000#3"]
    assert waited == pytest.approx(3.0, abs=0.2)
    assert state == "FAILED"
    assert states == {"n.a0000": "FAILED", "n.a0001": "SKIPPED"}


def test_the_result_of_an_attempt_that_is_over_is_stale_and_a_repetition_is_not() -> None:
    async def work(world: World) -> str:
        await world.trigger()
        (claimed,) = await world.claim()
        await world.finish(claimed)
        with pytest.raises(Conflict) as caught:
            await world.finish(claimed, Outcome.FAILED)
        return str(caught.value.details["code"])

    assert run_world(work, deployed=project(chain(1))) == "stale_attempt"


def test_a_silent_worker_is_given_up_after_its_time_and_a_beating_one_is_not() -> None:
    async def work(world: World) -> tuple[list[tuple[int, str]], str]:
        world.servo.start()
        run_id = await world.trigger()
        (first,) = await world.claim()
        for _ in range(20):
            await world.runtime.sleep(30)
            await world.servo.work.beat_here([callback(first)])
        kept = await world.states(run_id)
        assert kept == {"n.a0000": "RUNNING"}
        (second,) = await world.claim(wait=600)
        await world.finish(second)
        await world.servo.stop()
        return [(first.attempt, first.task_key), (second.attempt, second.task_key)], (await world.run_row(run_id)).state

    tried, state = run_world(work, deployed=project(chain(1)))
    assert tried == [(1, "n.a0000"), (2, "n.a0000")]
    assert state == "SUCCEEDED"


def test_a_cancelled_run_begins_nothing_and_tells_what_runs_to_stop() -> None:
    async def work(world: World) -> tuple[bool, str, str, dict[str, str]]:
        run_id = await world.trigger()
        (claimed,) = await world.claim()
        await world.servo.runs.cancel(run_id, "enough", ASKED)
        assert await world.claim() == []
        between = (await world.run_row(run_id)).state
        (beat,) = await world.servo.work.beat_here([callback(claimed)])
        await world.finish(claimed, Outcome.CANCELLED)
        return beat.cancel, between, (await world.run_row(run_id)).state, await world.states(run_id)

    told, between, after, states = run_world(work, deployed=project(chain(2)))
    assert told
    assert (between, after) == ("CANCELLING", "CANCELLED")
    assert states == {"n.a0000": "CANCELLED", "n.a0001": "CANCELLED"}


def test_a_run_that_takes_too_long_ends_as_failed() -> None:
    async def work(world: World) -> str:
        world.servo.start()
        run_id = await world.trigger(timeout_seconds=100.0)
        await world.runtime.sleep(101)
        await world.servo.stop()
        return (await world.run_row(run_id)).state

    assert run_world(work, deployed=project(chain(1))) == "FAILED"


def test_a_worker_that_begins_anew_gives_up_what_it_had() -> None:
    async def work(world: World) -> list[int]:
        await world.trigger()
        (first,) = await world.claim()
        await world.servo.work.open_session(WorkerId("w1", "s2"))
        (second,) = await world.claim(wait=60, worker=WorkerId("w1", "s2"))
        return [first.attempt, second.attempt]

    assert run_world(work, deployed=project(chain(1))) == [1, 2]


def test_a_run_key_stands_for_one_run_and_conflicts_with_another_request() -> None:
    async def work(world: World) -> tuple[bool, list[str]]:
        first = await world.trigger("n.a0000", run_key="daily")
        again = await world.trigger("n.a0000", run_key="daily")
        with pytest.raises(Conflict) as caught:
            await world.trigger("*", run_key="daily")
        return first == again, sorted(caught.value.details)

    assert run_world(work, deployed=project(chain(2))) == (True, ["given", "run_id", "stored"])


def test_the_state_as_of_a_run_is_that_of_its_last_event() -> None:
    async def work(world: World) -> tuple[str, str, int]:
        first = await world.trigger()
        await world.work_off()
        second = await world.trigger()
        await world.work_off()
        points = Points(world.workspace)
        then = await points.snapshot_at("activity", parse_as_of(f"run:{first}"))
        row = await then.get(RUNS, first, first)
        later = await then.get(RUNS, second, second)
        return row.state, str(later), len(await world.states(second))

    assert run_world(work, deployed=project(chain(2))) == ("SUCCEEDED", "None", 2)


def test_what_is_deployed_and_what_a_run_made_is_published_within_five_seconds() -> None:
    """Whoever asks the owner sees it at once. This is what those see who read published revisions, such as browsers."""

    async def seen(world: World, log: str, table: Table, column: str) -> list[str]:
        await world.runtime.sleep(5)
        snapshot = await world.workspace.logs[log].snapshot()
        return sorted((await snapshot.scan(table)).column(column).to_pylist())

    async def work(world: World) -> tuple[list[str], list[str]]:
        await world.deploy(project(chain(3)))
        deployed = await seen(world, "catalog", ASSETS, "key")
        await world.trigger()
        await world.work_off()
        return deployed, await seen(world, "activity", MATERIALIZATIONS, "asset_key")

    assert run_world(work) == (list(chain(3)), list(chain(3)))
