"""Batches in a worker: one slot, one driver, one log, and a result for each task."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arco import anomaly
from arco.assets import Dimension, TimePartitions
from arco.core import Invalid, Unavailable
from arco.domains.orchestration import FailureCategory, FinishTask, Outcome
from arco.servo._envelope import Envelope
from tests.worker.plane import World, definition

PARTS = """
    import os, pathlib, signal, sys, time

    HERE = pathlib.Path({here!r})

    @asset(namespace="n")
    def a(context):
        key = context.task_key[-2]
        print("at", key, os.getpid(), flush=True)
        if (HERE / f"wait-{{key}}").exists():
            (HERE / f"begun-{{key}}").touch()
            while not (HERE / f"go-{{key}}").exists():
                time.sleep(0.01)
        if (HERE / f"kill-{{key}}").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        if (HERE / f"fail-{{key}}").exists():
            raise ValueError(f"{{key}} is bad")
        if (HERE / f"exit-{{key}}").exists():
            sys.exit(3)
        if (HERE / f"fork-{{key}}").exists() and os.fork() == 0:
            return None
        return [{{"key": key}}]
"""


ROWS = """
    @asset(namespace="n")
    def rows(context):
        day = int(context.task_key)
        print("day", day)
        return [{"day": day}] * (100 if day == 5 else 10)
"""


def world_at(folder: Path) -> World:
    return World(folder, PARTS.format(here=str(folder)))


def parts(world: World, keys: str, **fields: Any) -> list[Envelope]:
    return [world.envelope("a", partition=f"k=s:{key}", task_key=f"n.a[k={key}]", **fields) for key in keys]


def outcomes(results: list[FinishTask]) -> str:
    """The first letter of each outcome, `l` for one that was lost."""
    return "".join(
        "l" if one.failure and one.failure.category is FailureCategory.WORKER_LOST else one.outcome.value[0]
        for one in results
    )


def test_a_batch_takes_one_slot_and_one_driver_and_each_task_has_its_own_result(tmp_path: Path) -> None:
    world = world_at(tmp_path)
    batch, results = asyncio.run(world.run_batch(*parts(world, "abcd"), slots=2))
    assert outcomes(results) == "ssss"
    for envelope, result in zip(batch, results, strict=True):
        assert result.attempt_id == envelope.attempt_id
        assert result.outputs[0].materialization_id == envelope.outputs[0].materialization_id
        assert result.outputs[0].files[0].path.startswith(envelope.outputs[0].location)
    assert len({line.split()[2] for line in world.log_of(batch[0]).splitlines()}) == 1
    assert world.plane.claims[0] == 2


def test_what_a_batch_prints_is_one_log_that_all_its_tasks_show(tmp_path: Path) -> None:
    world = world_at(tmp_path)
    batch, results = asyncio.run(world.run_batch(*parts(world, "ab")))
    log = world.log_of(batch[1])
    assert [line.split()[1] for line in log.splitlines()] == ["a", "b"]
    assert {path.parent.name for path in (tmp_path / "store").rglob("logs/*/*/*")} == {batch[0].attempt_id}
    last = results[1].log
    assert last is not None
    assert last.byte_size == len(log)


def test_windows_of_a_batch_are_history_for_later_ones_whatever_the_order_in_which_they_run(tmp_path: Path) -> None:
    check = anomaly(percent=50, at_least=3)
    days = Dimension("date", TimePartitions("0 0 * * *", "2025-01-01"))
    asset = definition("rows", partitions=(days,), checks=(check,))
    world = World(tmp_path, ROWS)
    tasks = []
    for day in (5, 3, 1, 6, 4, 2):
        task = world.envelope(definitions=(asset,), partition=f"date=d:2025-01-{day:02d}", task_key=f"{day}")
        places = tuple(msgspec.structs.replace(place, window_number=day) for place in task.outputs)
        tasks.append(msgspec.structs.replace(task, outputs=places))
    _, results = asyncio.run(world.run_batch(*tasks))
    found = {result.task_key: result.checks[0] for result in results}
    assert {key: one.passed for key, one in found.items()} == {day: day != "5" for day in "123456"}
    assert found["6"].expected_value == "5 to 15", "the bad day before it does not count"
    assert all(result.log is not None for result in results)


def test_one_that_fails_does_not_touch_the_others(tmp_path: Path) -> None:
    for name in ("fail-b", "exit-c", "fork-d"):
        (tmp_path / name).touch()
    world = world_at(tmp_path)
    _, results = asyncio.run(world.run_batch(*parts(world, "abcde")))
    assert outcomes(results) == "sffss"
    assert results[1].failure is not None
    assert (results[1].failure.error_type, results[1].failure.message) == ("builtins.ValueError", "b is bad")
    assert "pipes.py" in results[1].failure.traceback
    assert results[2].failure is not None
    assert "sys.exit" in results[2].failure.message


def test_results_are_told_as_they_come_and_the_others_go_on_beating(tmp_path: Path) -> None:
    (tmp_path / "wait-c").touch()
    world = world_at(tmp_path)

    async def scenario() -> None:
        batch = world.plane.add_batch(*parts(world, "abc", heartbeat_seconds=1.0))
        running = asyncio.create_task(world.results(batch, slots=1))
        await world.until(lambda: len(world.plane.results) == 2)
        before = len(world.plane.beats)
        await world.until(lambda: len(world.plane.beats) > before + 1)
        assert set(world.plane.beats[before + 1 :]) == {batch[2].attempt_id}
        assert world.plane.told == [2]
        (tmp_path / "go-c").touch()
        results = await running
        assert outcomes(results) == "sss"
        early, late = results[0].log, results[2].log
        assert early is not None
        assert late is not None
        assert early.byte_size <= late.byte_size

    asyncio.run(scenario())


def test_one_sign_of_life_speaks_of_all_attempts(tmp_path: Path) -> None:
    (tmp_path / "wait-a").touch()
    world = world_at(tmp_path)

    async def scenario() -> None:
        batch = world.plane.add_batch(*parts(world, "abc", heartbeat_seconds=0.5))
        running = asyncio.create_task(world.results(batch))
        await world.until(lambda: len(world.plane.beaten) >= 2)
        assert set(world.plane.beaten) == {3}
        (tmp_path / "go-a").touch()
        await running

    asyncio.run(scenario())


def test_what_a_dead_driver_had_reported_is_kept_and_the_rest_is_lost(tmp_path: Path) -> None:
    (tmp_path / "kill-c").touch()
    world = world_at(tmp_path)
    _, results = asyncio.run(world.run_batch(*parts(world, "abcd")))
    assert outcomes(results) == "ssll"
    for result in results[2:]:
        assert result.failure is not None
        assert result.failure.retryable
        assert "signal 9" in result.failure.message
    assert world.plane.told in ([4], [2, 2])  # what is lost together is told together


def test_a_cancel_of_one_cancels_the_batch(tmp_path: Path) -> None:
    (tmp_path / "wait-b").touch()
    world = world_at(tmp_path)

    async def scenario() -> None:
        batch = world.plane.add_batch(*parts(world, "abc", heartbeat_seconds=0.5))
        running = asyncio.create_task(world.results(batch))
        await world.until((tmp_path / "begun-b").exists)
        world.plane.cancelled = {envelope.attempt_id for envelope in batch}
        assert outcomes(await running) == "scc"

    asyncio.run(scenario())


def test_one_that_is_over_is_forgotten_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "wait-a").touch()
    world = world_at(tmp_path)

    async def scenario() -> None:
        batch = world.plane.add_batch(*parts(world, "abc", heartbeat_seconds=0.5))
        running = asyncio.create_task(world.results([batch[0], batch[2]]))
        await world.until((tmp_path / "begun-a").exists)
        world.plane.stale = {batch[1].attempt_id}
        before = len(world.plane.beaten)
        await world.until(lambda: 2 in world.plane.beaten[before:])
        (tmp_path / "go-a").touch()
        assert outcomes(await running) == "ss"
        assert len(world.plane.results) == 2

    asyncio.run(scenario())


def test_a_batch_of_which_nothing_is_left_is_ended(tmp_path: Path) -> None:
    (tmp_path / "wait-a").touch()
    world = world_at(tmp_path)

    async def scenario() -> None:
        batch = world.plane.add_batch(*parts(world, "ab", heartbeat_seconds=0.5))
        worker = world.worker(slots=1, cancel_grace_seconds=0.5)
        running = asyncio.create_task(worker.run())
        await world.until((tmp_path / "begun-a").exists)
        world.plane.stale = {envelope.attempt_id for envelope in batch}
        await world.until(lambda: world.plane.claims[-1] == 1 and len(world.plane.claims) == 2)
        worker.stop()
        await running
        assert world.plane.results == []

    asyncio.run(scenario())


def test_a_batch_that_takes_too_long_is_lost_and_a_lone_task_has_timed_out(tmp_path: Path) -> None:
    """Nobody can tell which of several is the slow one, so that none of them has failed."""
    (tmp_path / "wait-b").touch()
    world = world_at(tmp_path)
    _, results = asyncio.run(world.run_batch(*parts(world, "abc", timeout_seconds=6.0)))
    assert outcomes(results) == "sll"
    assert results[1].failure is not None
    assert "a batch of 3 tasks took longer than the 6 seconds" in results[1].failure.message
    (alone,) = asyncio.run(world.run(*parts(world, "b", timeout_seconds=0.5)))
    assert alone.failure is not None
    assert alone.failure.category is FailureCategory.TIMEOUT


def test_results_are_told_until_they_are_heard_and_one_that_is_refused_does_not_stop_the_others(
    tmp_path: Path,
) -> None:
    world = world_at(tmp_path)
    world.plane.refusals = [Unavailable("away"), Invalid("the event is too large")]
    _, results = asyncio.run(world.run_batch(*parts(world, "abc")))
    assert sorted(outcomes(results)) == ["f", "s", "s"]
    bad = next(one for one in results if one.outcome is Outcome.FAILED)
    assert bad.failure is not None
    assert "the event is too large" in bad.failure.message


def test_a_worker_runs_batches_and_tasks_side_by_side(tmp_path: Path) -> None:
    world = world_at(tmp_path)

    async def scenario() -> list[FinishTask]:
        first = world.plane.add_batch(*parts(world, "ab"))
        second = world.plane.add_batch(*parts(world, "cd"))
        single = parts(world, "e")
        world.plane.add(*single)
        return await world.results([*first, *second, *single], slots=2)

    assert outcomes(asyncio.run(scenario())) == "sssss"


BROKEN = """
    import arco.worker._executor as executor

    def broken(self, tasks, signals):
        first, *rest = tasks
        yield self.run(first, signals)
        raise RuntimeError(f"the job of {len(tasks)} broke")

    executor.PythonExecutor.run_batch = broken

    @asset(namespace="n")
    def a():
        return 1
"""


def test_a_job_that_breaks_is_nobodys_fault_in_particular(tmp_path: Path) -> None:
    world = World(tmp_path, BROKEN)

    async def scenario() -> tuple[list[FinishTask], list[FinishTask]]:
        first = world.plane.add_batch(*parts(world, "x"), *parts(world, "y"))
        second = world.plane.add_batch(*parts(world, "abc"))
        both = await world.results([*first, *second], slots=1)
        return both[:2], both[2:]

    _, broken = asyncio.run(scenario())  # the first batch loads the code, which breaks later ones
    assert outcomes(broken) == "sll"
    assert broken[1].failure is not None
    assert "the job of 3 broke" in broken[1].failure.message
    assert broken[1].failure.retryable


@pytest.mark.parametrize("count", [1, 3])
def test_envelopes_of_a_batch_that_come_twice_are_taken_once(tmp_path: Path, count: int) -> None:
    world = world_at(tmp_path)

    async def scenario() -> None:
        envelopes = parts(world, "abc"[:count])
        batch = [msgspec.structs.replace(one, batch_id=envelopes[0].attempt_id) for one in envelopes]
        world.plane.add_batch(*envelopes)
        world.plane.add_batch(*envelopes)
        results = await world.results(batch, slots=2)
        assert outcomes(results) == "s" * count
        assert len(world.plane.results) == count

    asyncio.run(scenario())
