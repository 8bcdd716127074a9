"""Batches: which tasks the planner puts together, and how they fare between plan, queue, workers and controllers."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import AssetDefinition, Dimension, Engine, Offset, Project, Retries, StaticPartitions
from arco.core import Invalid, PartitionKey
from arco.domains.orchestration import ATTEMPTS, Outcome, Plan, ReapAttempts, Task, check_plan, plan_fingerprint
from arco.servo import Beat, Envelope, Servo, WorkerId
from arco.servo._batches import BATCH_BYTES, BATCH_ROWS, DEFAULT_BATCH, MAX_BATCH, NO_HELP, batches_of
from arco.servo._controllers import GRACE
from arco.servo._estimates import estimate_plan
from arco.servo._planning_state import PlanningState, Size, Version
from tests.servo.projects import DAILY, asset, dep, good, id_of, made_by, part, plan, project
from tests.servo.world import ASKED, SECRET, WORKER, World, callback, result_of, run_world

MANY = Dimension("k", StaticPartitions(tuple(f"k{index:04d}" for index in range(1_200))))


def spark(key: str, *needs: Any, partitions: tuple[Dimension, ...] = (DAILY,), **more: Any) -> AssetDefinition:
    return asset(key, *needs, partitions=partitions, engine=Engine.SPARK, **more)


def batches(of: Plan) -> list[list[str]]:
    """The keys of the tasks of each batch, without the unit, in order of partitions."""
    found: dict[str, list[str]] = {}
    for task in of.tasks:
        if task.batch:
            found.setdefault(task.batch, []).append(PartitionKey.parse(task.partition_key).canonical)
    return list(found.values())


def sizes(of: Plan) -> list[int]:
    return sorted(len(batch) for batch in batches(of))


# The planner


def test_partitions_of_a_spark_asset_run_together_and_those_of_others_do_not() -> None:
    made = project(
        spark("s.a"), asset("s.b", "s.a", partitions=[DAILY]), spark("s.c", "s.b"), spark("s.d", partitions=())
    )
    found = plan(made, partitions={"date": "2026-01-01..2026-01-04"})
    named = {task.task_key.partition("[")[0]: task.batch for task in found.tasks}
    assert named == {"s.a": "s.a#0", "s.b": "", "s.c": "s.c#0", "s.d": ""}
    assert sizes(found) == [4, 4]
    assert [note.unit for note in found.batching] == ["s.a", "s.c"]
    check_plan(found)


def test_neighbours_in_the_order_of_partitions_are_put_together() -> None:
    odd = Dimension("k", StaticPartitions(("z", "y", "x", "a", "b")))
    found = plan(project(spark("s.a", partitions=(odd,))), partitions={"k": "*"}, batch=2)
    together: dict[str, set[str]] = {}
    for task in found.tasks:
        together.setdefault(task.batch, set()).add(task.task_key)
    assert together == {
        "s.a#0": {"s.a[k=z]", "s.a[k=y]"},
        "s.a#1": {"s.a[k=x]", "s.a[k=a]"},
        "": {"s.a[k=b]"},
    }


def test_what_is_of_another_stage_runs_apart() -> None:
    """The first day reads what exists, the others what the day before makes in this very plan."""
    above = asset("s.a", partitions=[DAILY])
    made = project(above, spark("s.b", dep("s.a", date=Offset(-1))))
    state = made_by(plan(made, "s.a", partitions={"date": "2026-01-01"}), made)
    found = plan(made, "s.a,s.b", state, partitions={"date": "2026-01-02..2026-01-05"})
    mine = [task for task in found.tasks if task.unit == "s.b"]
    assert {(task.stage, task.batch) for task in mine} == {(0, ""), (1, "s.b#0")}
    assert sizes(found) == [3]


def test_the_number_that_is_asked_for_is_used_and_one_is_none() -> None:
    made = project(spark("s.a"))
    days = {"date": "2026-01-01..2026-01-07"}
    assert sizes(plan(made, partitions=days, batch=3)) == [3, 3]  # and one that is alone
    none = plan(made, partitions=days, batch=1)
    assert sizes(none) == []
    assert none.batching[0].reason == "one at a time, as asked for"
    for wrong in (-1, 1_001):
        with pytest.raises(Invalid, match="batch is"):
            plan(made, partitions=days, batch=wrong)


def test_without_history_a_plain_number_runs_together() -> None:
    found = plan(project(spark("s.a", partitions=(MANY,))), partitions={"k": "*"})
    assert set(sizes(found)) == {DEFAULT_BATCH}
    assert len(batches(found)) == 24
    assert "nobody knows how large" in found.batching[0].reason


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (Size(1, 1), MAX_BATCH),
        (Size(BATCH_ROWS // 10, 1), 10),
        (Size(1, BATCH_BYTES // 4), 4),
        (Size(BATCH_ROWS, 1), 1),
        (Size(5 * BATCH_ROWS, 1), 1),
    ],
)
def test_with_history_as_many_run_together_as_make_one_job(size: Size, expected: int) -> None:
    made = project(spark("s.a", partitions=(MANY,)))
    usual = PlanningState("7", "9", usual_sizes={id_of("s.a"): size})
    found = plan(made, "s.a", usual, partitions={"k": "*"})
    counted = Counter(task.batch for task in found.tasks if task.batch)
    assert max(counted.values(), default=1) == expected
    assert "by the size it had before" in found.batching[0].reason


def test_a_partition_that_was_large_has_a_smaller_batch() -> None:
    large = Version("m", "0", size=Size(BATCH_ROWS - 1, 1))
    state = good(("s.a", part("s.a", k="k0002"), large), usual_sizes={id_of("s.a"): Size(BATCH_ROWS // 3, 1)})
    found = plan(project(spark("s.a", partitions=(MANY,))), "s.a", state, partitions={"k": "k0000..k0007"})
    names = [task.batch for task in sorted(found.tasks, key=lambda task: task.task_key)]
    assert names == ["s.a#0", "s.a#0", "", "s.a#1", "s.a#1", "s.a#1", "s.a#2", "s.a#2"]


APART = "the function asks for context.partition"
REFUSED = f"{NO_HELP}{APART}"


@pytest.mark.parametrize(
    ("one_plan", "code_version", "plan_text", "expected"),
    [
        (False, "", "", "one plan over all of them if Spark's plan proves that partitions do not mix, which shows"),
        (False, "old", "together", "one plan over all of them if Spark's plan proves that partitions do not mix"),
        (False, "old", APART, "one plan over all of them if Spark's plan proves that partitions do not mix"),
        (False, "1", "together", "one plan over all of them, because Spark's plan proves that partitions do not mix"),
        (False, "1", APART, f"a plan for each partition, because {APART}"),
        (False, "1", REFUSED, f"a plan for each partition, because {APART}"),
        (True, "", "", "one plan over all of them, as its author says, if nothing else speaks against it, which shows"),
        (True, "old", REFUSED, "one plan over all of them, as its author says, if nothing else speaks against it"),
        (True, "1", APART, "one plan over all of them, as its author says, if nothing else speaks against it"),
        (True, "1", REFUSED, f"a plan for each partition, because {REFUSED}"),
        (True, "1", "together", "one plan over all of them, as its author says"),
    ],
)
def test_a_plan_says_what_ran_last_with_the_same_code(
    one_plan: bool, code_version: str, plan_text: str, expected: str
) -> None:
    """What an author vouches for need not come true, and what ran before it was vouched for says nothing of it."""
    state = good(plans={id_of("s.a"): (code_version, plan_text)} if plan_text else {})
    found = plan(project(spark("s.a", one_plan=one_plan)), "s.a", state, partitions={"date": "2026-01-01..2026-01-04"})
    (note,) = found.batching
    said = note.reason.partition("; ")[2]
    assert said.startswith(expected)
    assert said.endswith("when it runs") == ("which shows" in said)


def test_batches_are_part_of_the_plans_identity() -> None:
    made = project(spark("s.a"))
    days = {"date": "2026-01-01..2026-01-07"}
    ids = {plan_fingerprint(plan(made, partitions=days, batch=number)) for number in (0, 1, 2, 3)}
    assert len(ids) == 4


def test_a_batch_is_estimated_to_take_as_long_as_the_longest_of_its_tasks() -> None:
    state = good(usual_seconds={id_of("s.a"): 10.0})
    found = plan(project(spark("s.a")), "s.a", state, partitions={"date": "2026-01-01..2026-01-07"}, batch=4)
    assert estimate_plan(found).work_seconds == 20.0
    assert estimate_plan(found).shortest_seconds == 10.0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, 2 * BATCH_ROWS)), max_size=40),
    st.integers(0, 7),
)
@settings(deadline=None)
def test_every_cut_is_sound(given_tasks: list[tuple[int, int | None]], asked: int) -> None:
    """Tasks of a batch are neighbours of one stage, no more than there may be, and none of them is left out."""
    template = plan(project(spark("s.a")), partitions={"date": "2026-01-01"}).tasks[0]
    tasks: list[Task] = []
    versions: dict[str, Version] = {}
    for index, (stage, rows) in enumerate(given_tasks):
        output = msgspec.structs.replace(template.outputs[0], partition_id=f"p{index}")
        tasks.append(
            msgspec.structs.replace(template, task_key=f"t{index}", stage=stage, outputs=(output,), partition_key="")
        )
        if rows is not None:
            versions[f"p{index}"] = Version("m", size=Size(rows, 0))
    state = PlanningState(versions={template.outputs[0].asset_id: versions})
    found = batches_of(tasks, asked, state)
    by_stage = {stage: [task.task_key for task in tasks if task.stage == stage] for stage in range(4)}
    members: dict[str, list[str]] = {}
    for task in tasks:
        if task.task_key in found:
            members.setdefault(found[task.task_key], []).append(task.task_key)
    for keys in members.values():
        (stage,) = {task.stage for task in tasks if task.task_key in keys}
        first = by_stage[stage].index(keys[0])
        assert by_stage[stage][first : first + len(keys)] == keys
        assert 2 <= len(keys) <= (asked or MAX_BATCH)
        if not asked:
            held = [versions[f"p{key[1:]}"].size for key in keys if f"p{key[1:]}" in versions]
            rows = sum(size.rows for size in held if size is not None)
            assert rows <= BATCH_ROWS + len(keys)
    if asked > 1:
        alone = [key for task in tasks if (key := task.task_key) not in found]
        assert len(alone) <= len({task.stage for task in tasks})


# From the queue to the end


def deployed(count: int = 6, **more: Any) -> Project:
    keys = tuple(f"k{index}" for index in range(count))
    retries = Retries(count=1, delay_seconds=1.0, jitter=0.3)
    given = {"retries": retries, "code_version": "v", "engine": Engine.SPARK, **more}
    return Project(
        (
            AssetDefinition(
                key="n.a",
                function="pipeline:make",
                partitions=(Dimension("k", StaticPartitions(keys)),),
                **given,
            ),
        ),
        code_sha256="0" * 64,
    )


ALL: dict[str, Any] = {"partitions": {"k": "*"}}


def keys_of(envelopes: list[Envelope]) -> list[str]:
    return [envelope.task_key.removeprefix("n.a[k=").removesuffix("]") for envelope in envelopes]


def test_one_slot_gets_the_whole_batch_and_its_results_are_one_append() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger(**ALL)
        claimed = await world.claim(slots=1)
        assert keys_of(claimed) == ["k0", "k1", "k2", "k3", "k4", "k5"]
        assert {envelope.batch_id for envelope in claimed} == {claimed[0].attempt_id}
        log = world.workspace.logs["activity"]
        before = log.follower.tail.number
        results = [result_of(envelope, world.runtime.now()) for envelope in claimed]
        assert (await world.servo.work.finish(results, WORKER)).refused == {}
        assert log.follower.tail.number == before + 1
        assert (await world.run_row(run_id)).state == "SUCCEEDED"
        assert (await world.servo.work.finish(results, WORKER)).refused == {}, "told again, they are answered alike"
        assert log.follower.tail.number == before + 1

    run_world(work, deployed=deployed())


def test_a_result_that_is_refused_does_not_stop_the_others() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger(**ALL)
        claimed = await world.claim()
        await world.finish(claimed[1])
        now = world.runtime.now()
        results = [result_of(envelope, now, Outcome.FAILED) for envelope in claimed[:2]]
        results += [result_of(envelope, now) for envelope in claimed[2:]]
        results[3] = msgspec.structs.replace(results[3], outputs=())
        done = await world.servo.work.finish(results, WORKER)
        assert {key: type(error).__name__ for key, error in done.refused.items()} == {
            claimed[1].attempt_id: "Conflict",
            claimed[3].attempt_id: "Invalid",
        }
        states = await world.states(run_id)
        assert [states[envelope.task_key] for envelope in claimed] == [
            "FAILED",
            "SUCCEEDED",
            "SUCCEEDED",
            "RUNNING",
            "SUCCEEDED",
            "SUCCEEDED",
        ]

    run_world(work, deployed=deployed(retries=Retries()))


def test_a_silent_batch_is_given_up_at_once_and_goes_on_in_halves() -> None:
    async def work(world: World) -> None:
        world.servo.start()
        run_id = await world.trigger(**ALL)
        claimed = await world.claim()
        await world.finish(claimed[4])
        alive = [callback(envelope) for envelope in claimed]
        for _ in range(10):
            await world.runtime.sleep(50)
            heard = await world.servo.work.beat_here(alive)
            assert heard == [Beat(stale=index == 4) for index in range(6)]
        log = world.workspace.logs["activity"]
        before = log.follower.tail.number
        await world.runtime.sleep(60 + GRACE + 5)
        assert log.follower.tail.number == before + 1, "one event each, in one append"
        again = [await world.claim(wait=60), await world.claim(wait=60)]
        assert sorted(map(keys_of, again)) == [["k0", "k1", "k2"], ["k3", "k5"]]
        await world.servo.stop()
        rows = await log.replica.rows(ATTEMPTS, run_id)
        assert Counter(row.state for row in rows) == {"REAPED": 5, "SUCCEEDED": 1, "RUNNING": 5}

    run_world(work, deployed=deployed())


def test_a_batch_is_given_up_only_after_the_time_of_all_its_tasks() -> None:
    async def work(world: World) -> None:
        world.servo.start()
        run_id = await world.trigger(**ALL)
        claimed = await world.claim()
        assert {envelope.timeout_seconds for envelope in claimed} == {600.0}
        for _ in range(59):
            await world.runtime.sleep(10)
            await world.servo.work.beat_here([callback(envelope) for envelope in claimed])
        assert set((await world.states(run_id)).values()) == {"RUNNING"}
        for _ in range(8):
            await world.runtime.sleep(10)
            await world.servo.work.beat_here([callback(envelope) for envelope in claimed])
        rows = await world.workspace.logs["activity"].replica.rows(ATTEMPTS, run_id)
        assert {row.state for row in rows} == {"REAPED"}
        await world.servo.stop()

    run_world(work, deployed=deployed(timeout_seconds=100.0))


def test_a_cancelled_run_cancels_its_batch() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger(**ALL)
        claimed = await world.claim()
        await world.finish(claimed[0])
        await world.servo.runs.cancel(run_id, "enough", ASKED)
        heard = await world.servo.work.beat_here([callback(envelope) for envelope in claimed])
        assert [beat.cancel for beat in heard] == [False, *[True] * 5]
        results = [result_of(one, world.runtime.now(), Outcome.CANCELLED) for one in claimed[1:]]
        await world.servo.work.finish(results, WORKER)
        row = await world.run_row(run_id)
        assert (row.state, row.succeeded_count, row.cancelled_count) == ("CANCELLED", 1, 5)

    run_world(work, deployed=deployed())


def test_a_worker_that_begins_anew_loses_the_batch_of_its_earlier_life() -> None:
    async def work(world: World) -> None:
        await world.trigger(**ALL)
        first = await world.claim()
        later = WorkerId(WORKER.name, "s2")
        await world.servo.work.open_session(later)
        again = await world.claim(slots=9, wait=60, worker=later)
        assert sorted(keys_of(again)) == sorted(keys_of(first))
        assert sorted(Counter(envelope.batch_id for envelope in again).values()) == [3, 3]

    run_world(work, deployed=deployed())


def test_one_bad_partition_ends_up_alone_and_fails_in_bounded_time() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger(**ALL)
        began, attempts = world.runtime.now(), 0
        while claimed := await world.claim(wait=600):
            attempts += 1
            bad = any(envelope.task_key.endswith("k3]") for envelope in claimed)
            results = [result_of(one, world.runtime.now()) for one in claimed]
            if bad:
                ids = tuple(one.attempt_id for one in claimed)
                await world.workspace.decide("activity", ReapAttempts(ids, "the driver died"), actor="servo")
            else:
                await world.servo.work.finish(results, WORKER)
        row = await world.run_row(run_id)
        assert (row.succeeded_count, row.failed_count, row.first_failure) == (5, 1, "n.a[k=k3]")
        assert attempts <= 9
        assert ((row.ended_at or 0) - began) / 1e6 < 100, "six tasks: two halvings, three times alone"

    run_world(work, deployed=deployed())


def test_a_rerun_keeps_the_size_of_its_batches_and_takes_what_did_not_succeed() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger(**ALL, batch=3)
        for envelope in await world.claim(slots=9):
            good = envelope.task_key.endswith(("k0]", "k5]"))
            await world.finish(envelope, Outcome.SUCCEEDED if good else Outcome.FAILED)
        again = await world.servo.runs.request_again(run_id, from_failure=True, at=world.runtime.now())
        assert again.batch == 3
        planned = (await world.servo.runs.plan(again)).plan
        assert [(task.task_key[-3:-1], task.batch) for task in planned.tasks] == [
            ("k1", "n.a#0"),
            ("k2", "n.a#0"),
            ("k3", "n.a#0"),
            ("k4", ""),
        ]

    run_world(work, deployed=deployed(retries=Retries()))


def test_who_plans_may_say_what_may_run_together() -> None:
    """Tests force functions of Python into batches by this; the asset itself says nothing of it."""

    async def work(world: World) -> list[int]:
        world.servo = Servo(world.workspace, SECRET, may_batch=lambda definition: True)
        await world.trigger(**ALL)
        return [len(await world.claim())]

    assert run_world(work, deployed=deployed(engine=Engine.PYTHON)) == [6]
