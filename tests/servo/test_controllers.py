"""Controllers: what happens because time passed. INV-3, 4, 5, 7 and 9 of the orchestration specification are here."""

import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import SECOND, Conflict
from arco.domains.access import UpdateSettings
from arco.domains.orchestration import (
    ACTIVE_RUNS,
    ATTEMPTS,
    CLAIMS,
    DISPATCH_OUTBOX,
    READY_TASKS,
    STALE_ATTEMPT,
    TASKS,
    WORKSPACE,
    ActiveRunRow,
    AttemptRow,
    ClaimRow,
    ConfirmDispatch,
    Outcome,
    RequestDispatch,
    RunState,
    cloud_task_id,
    dispatch_id,
)
from arco.runtime import Workspace, init_workspace
from arco.runtime._log import BOUND
from arco.servo import Beat, EmbeddedQueue, EndRun, Reap, Servo, Watch, Watched, WorkerId, reconcile
from arco.servo._controllers import CANCEL_GRACE, GRACE
from arco.servo._loop import LISTENING, Controllers
from arco.storage import MemoryStore
from tests.doubles import START, FakeRuntime, FaultyStore, run
from tests.servo.world import ASKED, SCOPE, SECRET, WORKER, World, callback, chain, fan, project, run_world

HOUR = 3600.0
DEAD = 60.0 + GRACE
"""Seconds of silence after which an attempt with the usual heartbeat is given up."""


# Rows and watches


def claim_row(number: int, heartbeat: float, timeout: float | None, size: int = 1) -> list[ClaimRow]:
    """The claims of a batch, or of one task that is alone."""
    run_id, batch_id = f"run-{number % 3:02d}", f"attempt-{number:02d}-0" if size > 1 else None
    return [
        ClaimRow(
            WORKSPACE,
            f"attempt-{number:02d}-{index}",
            run_id,
            f"t{number}-{index}",
            1,
            "w1",
            "s1",
            START,
            heartbeat,
            timeout,
            batch_id,
        )
        for index in range(size)
    ]


def run_row(number: int, state: str, deadline: int | None) -> ActiveRunRow:
    return ActiveRunRow(WORKSPACE, f"{number:02d}", f"run-{number:02d}", 0, state, deadline, START)


seconds = st.floats(0.0, 1000.0).map(lambda value: round(value, 3))
claims_drawn = st.lists(
    st.tuples(st.sampled_from((1.0, 15.0, 60.0)), st.none() | seconds, st.integers(1, 3)), max_size=6
).map(lambda drawn: [row for number, given in enumerate(drawn) for row in claim_row(number, *given)])
runs_drawn = st.lists(
    st.tuples(
        st.sampled_from((RunState.PENDING, RunState.RUNNING, RunState.CANCELLING)),
        st.none() | st.integers(0, 1000).map(lambda value: START + value * SECOND),
    ),
    max_size=4,
).map(lambda drawn: [run_row(n, state.value, deadline) for n, (state, deadline) in enumerate(drawn)])


@st.composite
def watches(draw: Callable[..., Any], claims: list[ClaimRow]) -> dict[str, Watched]:
    """What a process has seen of some of the attempts, all of it in the past."""
    found = {}
    for claim in claims:
        if draw(st.booleans()):
            since = -draw(seconds)
            cancelled = draw(st.none() | st.just(since / 2))
            found[claim.attempt_id] = Watched(since, since * draw(st.floats(0.0, 1.0)), cancelled)
    return found


situations = claims_drawn.flatmap(lambda claims: st.tuples(st.just(claims), runs_drawn, watches(claims)))
Situation = tuple[list[ClaimRow], list[ActiveRunRow], dict[str, Watched]]


def found_after(situation: Situation, after: float, lag: int = 0) -> tuple[set[Any], float | None]:
    claims, runs, watch = situation
    done = reconcile(claims, runs, watch, now=START + round(after * SECOND), monotonic=after, lag=lag)
    assert len(set(done.intents)) == len(done.intents)
    return set(done.intents), done.due


# What reconcile promises


@given(situations, seconds)
def test_inv_3_the_same_rows_give_the_same_intents(situation: Situation, after: float) -> None:
    claims, runs, watch = situation
    one = reconcile(claims, runs, watch, now=START, monotonic=after)
    two = reconcile(iter(list(claims)), iter(list(runs)), dict(watch), now=START, monotonic=after)
    assert one == two
    turned = found_after((claims[::-1], runs[::-1], dict(reversed(watch.items()))), after)
    assert turned == found_after(situation, after)


@given(situations, seconds, seconds)
def test_what_is_due_stays_due(situation: Situation, after: float, more: float) -> None:
    """Of attempts that are watched: one that nobody watches yet begins to be."""
    claims, runs, watch = situation
    unseen = {claim.slot for claim in claims if claim.attempt_id not in watch}
    known = ([claim for claim in claims if claim.slot not in unseen], runs, watch)
    earlier, _ = found_after(known, after)
    later, _ = found_after(known, after + more)
    assert earlier <= later


@given(situations, seconds)
def test_nothing_new_is_due_before_the_time_that_was_told(situation: Situation, after: float) -> None:
    claims, runs, watch = situation
    Watch(dict(watch)).follow(claims, frozenset(), after)
    watch = {claim.attempt_id: watch.get(claim.attempt_id, Watched(after, after)) for claim in claims}
    intents, due = found_after((claims, runs, watch), after)
    if due is None:
        assert found_after((claims, runs, watch), after + 1e7)[0] == intents
        return
    assert due > 0
    assert found_after((claims, runs, watch), after + due * 0.999)[0] == intents
    assert found_after((claims, runs, watch), after + due + 0.001)[0] > intents


@given(situations, seconds)
def test_nothing_is_given_up_within_the_time_of_what_was_seen(situation: Situation, after: float) -> None:
    claims, _, watch = situation
    rows = {claim.attempt_id: claim for claim in claims}
    for intent in found_after(situation, after)[0]:
        if not isinstance(intent, Reap):
            continue
        batch = [rows[attempt_id] for attempt_id in intent.attempt_ids]
        assert batch == [claim for claim in claims if claim.slot == batch[0].slot]
        seen = [watch[claim.attempt_id] for claim in batch]  # one that nobody watched keeps its whole batch
        claim = batch[0]
        silent = all(after - one.seen >= claim.heartbeat_seconds + GRACE for one in seen)
        late = claim.timeout_seconds is not None and all(
            after - one.since >= claim.timeout_seconds + 2 * GRACE for one in seen
        )
        ignored = all(one.cancelled is not None and after - one.cancelled >= CANCEL_GRACE for one in seen)
        assert silent or late or ignored


@given(claims_drawn, st.booleans(), seconds, st.floats(0.0, 0.999))
def test_after_a_restart_a_full_time_out_passes_first(
    claims: list[ClaimRow], cancelling: bool, began: float, part: float
) -> None:
    watch = Watch()
    assert reconcile(claims, (), watch.attempts, now=START + 10**15, monotonic=began).intents == ()
    watch.follow(claims, frozenset(claim.run_id for claim in claims) if cancelling else frozenset(), began)
    for claim in claims:
        full = claim.heartbeat_seconds + GRACE
        if claim.timeout_seconds is not None:
            full = min(full, claim.timeout_seconds + 2 * GRACE)
        if cancelling:
            full = min(full, CANCEL_GRACE)
        before = reconcile([claim], (), watch.attempts, now=START, monotonic=began + full * part)
        assert before.intents == ()
        after = reconcile([claim], (), watch.attempts, now=START, monotonic=began + full + 0.001)
        assert [intent.attempt_ids for intent in after.intents if isinstance(intent, Reap)] == [(claim.attempt_id,)]


@given(situations, seconds, st.integers(1, 1000))
def test_inv_9_nothing_is_done_while_the_rows_lag_behind_the_known_tail(
    situation: Situation, after: float, lag: int
) -> None:
    claims, runs, watch = situation
    late = reconcile(claims, runs, watch, now=START + 10**15, monotonic=after + 1e6, lag=lag)
    assert (late.intents, late.due) == ((), 0.0)


@given(situations, st.floats(HOUR, 1000 * HOUR))
def test_inv_9_that_nothing_happened_for_long_is_no_lag(situation: Situation, idle: float) -> None:
    claims, runs, watch = situation
    intents, _ = found_after(situation, idle)
    unseen = {claim.slot for claim in claims if claim.attempt_id not in watch}
    overdue = {claim.attempt_id for claim in claims if claim.slot not in unseen}
    assert {one for intent in intents if isinstance(intent, Reap) for one in intent.attempt_ids} == overdue
    timed = {row.run_id for row in runs if row.deadline is not None and row.state == RunState.RUNNING}
    assert {intent.run_id for intent in intents if isinstance(intent, EndRun)} == timed


@given(claims_drawn, seconds, seconds)
def test_a_watch_follows_what_is_claimed_and_forgets_what_ended(
    claims: list[ClaimRow], began: float, later: float
) -> None:
    watch = Watch()
    watch.follow(claims, frozenset(), began)
    assert set(watch.attempts) == {claim.attempt_id for claim in claims}
    for claim in claims[::2]:
        watch.note(claim.attempt_id, began + later)
        assert watch.has_heard([claim.attempt_id], began) == (later > 0)
    watch.follow(claims[::2], frozenset({"run-00"}), began + later)
    assert set(watch.attempts) == {claim.attempt_id for claim in claims[::2]}
    for claim in claims[::2]:
        cancelled = began + later if claim.run_id == "run-00" else None
        assert watch.attempts[claim.attempt_id] == Watched(began, began + later, cancelled)


# In a workspace


async def ends_of(world: World, run_id: str, task_key: str = "n.a0000") -> list[str]:
    """How the attempts of a task ended, in order."""
    rows: list[AttemptRow] = await world.workspace.logs["activity"].replica.rows(ATTEMPTS, run_id)
    return [row.state for row in rows if row.task_key == task_key]


def several(work: Callable[..., Awaitable[None]], count: int = 2, edges: dict[str, list[str]] | None = None) -> None:
    """`work` with several processes on one store, of which the first deploys."""

    async def go() -> None:
        store, runtime = FaultyStore(MemoryStore()), FakeRuntime()
        await init_workspace(store, SCOPE, runtime)
        async with AsyncExitStack() as stack:
            worlds = []
            for _ in range(count):
                opened = await Workspace.open(store, SCOPE, runtime, test_store=False, compact=False)
                worlds.append(World(await stack.enter_async_context(opened), runtime, store))
            await worlds[0].deploy(project(edges or chain(2)))
            await work(*worlds)

    run(go())


def test_inv_4_a_dispatch_has_one_name_however_often_it_is_asked_for() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger()
        workspace, log = world.workspace, world.workspace.logs["activity"]
        before = log.follower.tail.number
        name = dispatch_id(run_id, "n.a0000", 1)
        for _ in range(3):
            await workspace.decide("activity", RequestDispatch(run_id, "n.a0000", 1, "outside"), actor="x")
        for _ in range(3):
            await workspace.decide("activity", ConfirmDispatch(run_id, name), actor="x")
        assert log.follower.tail.number == before + 2
        (row,) = await log.replica.rows(DISPATCH_OUTBOX, run_id)
        assert (row.dispatch_id, row.cloud_task_id, row.status) == (name, cloud_task_id("d", name), "CREATED")
        with pytest.raises(Conflict) as caught:
            await workspace.decide("activity", RequestDispatch(run_id, "n.a0000", 2, "outside"), actor="x")
        assert caught.value.details["code"] == STALE_ATTEMPT

    run_world(work, deployed=project(chain(1)))


@given(st.text(max_size=20), st.text(max_size=20), st.integers(1, 99), st.sampled_from("dt"))
def test_inv_4_names_in_queues_outside_are_safe_and_the_same_every_time(
    run_id: str, task_key: str, attempt: int, kind: str
) -> None:
    name = dispatch_id(run_id, task_key, attempt)
    assert cloud_task_id(kind, name) == cloud_task_id(kind, name)
    assert re.fullmatch(rf"{kind}_[a-z2-7]{{26}}", cloud_task_id(kind, name))
    assert cloud_task_id(kind, dispatch_id(run_id, task_key, attempt + 1)) != cloud_task_id(kind, name)


def test_inv_4_an_intent_that_is_carried_out_twice_is_one_event() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger(timeout_seconds=100.0)
        await world.claim()
        controllers, log = world.servo.controllers, world.workspace.logs["activity"]
        await controllers.step()
        await world.runtime.sleep(HOUR)
        intents, _ = await controllers._reconciled()
        assert {type(intent) for intent in intents} == {Reap, EndRun}
        before = log.follower.tail.number
        for intent in (*intents, *intents):
            await controllers._carry_out(intent)
        assert log.follower.tail.number == before + 2
        assert await ends_of(world, run_id) == ["REAPED"]

    run_world(work, deployed=project(chain(1)))


def test_inv_5_a_process_that_lost_its_memory_finds_the_same_intents_and_an_idle_worker_its_task() -> None:
    async def work(lost: World, fresh: World) -> None:
        await lost.trigger(timeout_seconds=500.0)
        await lost.claim(worker=WorkerId("w0", "s0"))
        assert await lost.servo.controllers.step() is not None
        await lost.runtime.sleep(HOUR)
        before, _ = await lost.servo.controllers._reconciled()
        await fresh.workspace.logs["activity"].current()
        again, due = await fresh.servo.controllers._reconciled()
        assert [type(intent) for intent in again] == [EndRun]  # what it has not heard of yet gets its full time
        assert due == pytest.approx(DEAD)
        await fresh.runtime.sleep(DEAD)
        after, _ = await fresh.servo.controllers._reconciled()
        assert after == before
        assert {type(intent) for intent in after} == {Reap, EndRun}
        (found,) = await fresh.claim(worker=WorkerId("w9", "s9"))
        assert found.task_key == "n.m0001"

    several(work, edges={"n.m0000": [], "n.m0001": []})


def test_inv_5_a_task_whose_message_a_queue_outside_lost_is_still_found() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger()
        for command in (
            RequestDispatch(run_id, "n.a0000", 1, "outside"),
            ConfirmDispatch(run_id, dispatch_id(run_id, "n.a0000", 1)),
        ):
            await world.workspace.decide("activity", command, actor="x")
        assert await world.states(run_id) == {"n.a0000": "DISPATCHED"}
        assert [envelope.task_key for envelope in await world.claim()] == ["n.a0000"]

    run_world(work, deployed=project(chain(1)))


def test_inv_5_what_was_not_published_when_a_process_began_is_not_lost() -> None:
    async def work(dead: World, fresh: World) -> None:
        run_id = await dead.trigger(timeout_seconds=500.0)
        await dead.claim()
        assert fresh.workspace.logs["activity"].follower.tail.number == 0
        fresh.servo.start()
        await fresh.runtime.sleep(DEAD + LISTENING)
        assert await ends_of(fresh, run_id) == ["REAPED"]
        await fresh.runtime.sleep(500.0)
        assert (await fresh.run_row(run_id)).state == "FAILED"
        await fresh.servo.stop()

    several(work)


def test_inv_7_controllers_and_the_queue_read_tables_and_never_the_ledger() -> None:
    async def go() -> None:
        store, runtime = FaultyStore(MemoryStore()), FakeRuntime()
        await init_workspace(store, SCOPE, runtime)
        async with await Workspace.open(store, SCOPE, runtime) as workspace:
            world = World(workspace, runtime, store)
            await world.deploy(project(fan(3)))
            await world.trigger()
            await world.finish((await world.claim())[0])
            (claimed,) = await world.claim()
        async with await Workspace.open(store, SCOPE, runtime, test_store=False, compact=False) as workspace:
            servo, queue = Servo(workspace, SECRET), EmbeddedQueue(workspace)
            store.calls.clear()
            _, due = await servo.controllers._reconciled()
            ready, _ = await queue._look(capacity=64)
            assert due == pytest.approx(DEAD)
            assert ready
            assert set(servo.watch.attempts) == {claimed.attempt_id}
            paths = [path for _, path in store.calls]
            assert [path for path in paths if "/ledger/" in path] == []
            assert [path for path in paths if "/state/activity/" in path] != []
            await servo.controllers.step()  # the first one asks where the log ends
            store.calls.clear()
            await servo.controllers.step()
            await queue._look(capacity=64)
            assert store.calls == []  # rows that were read are kept

    run(go())


def test_inv_9_a_heartbeat_that_a_lagging_process_misses_is_settled_by_a_look_at_the_log() -> None:
    async def work(late: World, other: World) -> None:
        run_id = await late.trigger("n.a0000")
        (claimed,) = await late.claim()
        await late.servo.controllers.step()
        await other.workspace.logs["activity"].current()
        await other.finish(claimed)
        await late.runtime.sleep(HOUR)
        assert (await late.servo.controllers._reconciled())[0] != ()  # its rows are old, and it does not know
        assert await late.servo.controllers.step() is None
        assert await ends_of(late, run_id) == ["SUCCEEDED"]
        assert (await late.run_row(run_id)).state == "SUCCEEDED"

    several(work)


def test_inv_9_a_retry_that_another_process_took_is_not_taken_again_by_a_lagging_one() -> None:
    async def work(late: World, other: World) -> None:
        run_id = await late.trigger("n.a0000")
        (claimed,) = await late.claim()
        await late.servo.work.open_session(WorkerId(WORKER.name, "s2"))
        assert await late.states(run_id) == {"n.a0000": "RETRY_WAIT"}
        await late.runtime.sleep(HOUR)
        (again,) = await other.claim(worker=WorkerId("w2", "s1"))
        (row,) = await late.workspace.logs["activity"].replica.rows(READY_TASKS, run_id)
        assert (claimed.attempt, again.attempt, row.attempt) == (1, 2, 2)  # it still sees it waiting, and due
        assert await late.servo.work._queue.claim(WORKER, 1, 64) == []
        assert await ends_of(late, run_id) == ["REAPED", "RUNNING"]

    several(work)


def test_inv_9_a_run_that_ended_in_time_elsewhere_does_not_time_out() -> None:
    async def work(late: World, other: World) -> None:
        run_id = await late.trigger("n.a0000", timeout_seconds=100.0)
        await other.workspace.logs["activity"].current()
        (claimed,) = await other.claim()
        await other.finish(claimed)
        await late.runtime.sleep(HOUR)
        assert await late.workspace.logs["activity"].replica.rows(ACTIVE_RUNS, WORKSPACE) != []
        await late.servo.controllers.step()
        assert (await late.run_row(run_id)).state == "SUCCEEDED"

    several(work)


def test_inv_9_an_idle_workspace_still_gives_up_what_is_silent() -> None:
    async def work(world: World) -> None:
        world.servo.start()
        run_id = await world.trigger()
        await world.claim()
        await world.runtime.sleep(DEAD - 1)
        assert await ends_of(world, run_id) == ["RUNNING"]
        await world.runtime.sleep(2)
        assert await ends_of(world, run_id) == ["REAPED"]
        await world.servo.stop()

    run_world(work, deployed=project(chain(1)))


# The loop


def test_a_process_that_stood_still_waits_a_full_time_out_again() -> None:
    async def work(world: World) -> None:
        world.servo.start()
        run_id = await world.trigger()
        (claimed,) = await world.claim()
        await world.runtime.sleep(5)
        world.runtime.suspend(8 * HOUR)
        await world.runtime.sleep(DEAD - LISTENING)
        assert await ends_of(world, run_id) == ["RUNNING"]
        await world.servo.work.beat_here([callback(claimed)])
        await world.runtime.sleep(DEAD - LISTENING)
        assert await ends_of(world, run_id) == ["RUNNING"]
        await world.runtime.sleep(2 * LISTENING)
        assert await ends_of(world, run_id) == ["REAPED"]
        await world.servo.stop()

    run_world(work, deployed=project(chain(1)))


def test_what_shows_life_while_others_are_given_up_is_kept() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger()
        claimed = await world.claim(slots=2)
        controllers = world.servo.controllers
        await controllers.step()
        await world.runtime.sleep(DEAD + 1)
        carry_out = controllers._carry_out
        kept = {}

        async def slow(intent: Any) -> None:
            await carry_out(intent)
            await world.runtime.sleep(1)
            (other,) = [envelope for envelope in claimed if envelope.attempt_id not in intent.attempt_ids]
            await world.servo.work.beat_here([callback(other)])
            kept[other.task_key] = True

        controllers._carry_out = slow  # type: ignore[method-assign]
        await controllers.step()
        states = await world.states(run_id)
        assert {key for key, state in states.items() if state == "RUNNING"} == set(kept)
        assert len(kept) == 1

    run_world(work, deployed=project({"n.a0000": [], "n.a0001": []}))


def test_controllers_stop_and_start_again() -> None:
    async def work(world: World) -> None:
        controllers: Controllers = world.servo.controllers
        controllers.start()
        controllers.start()
        run_id = await world.trigger(timeout_seconds=100.0)
        await controllers.stop()
        await world.runtime.sleep(HOUR)
        assert (await world.run_row(run_id)).state == "RUNNING"
        controllers.start()
        await world.runtime.sleep(1)
        assert (await world.run_row(run_id)).state == "FAILED"
        await controllers.stop()

    run_world(work, deployed=project(chain(1)))


# What workers ask of a process that lags


def test_an_attempt_that_was_claimed_elsewhere_is_not_told_that_it_is_over() -> None:
    async def work(one: World, other: World) -> None:
        await one.trigger()
        await other.workspace.logs["activity"].current()
        (claimed,) = await one.claim()
        assert await other.workspace.logs["activity"].replica.rows(CLAIMS, WORKSPACE) == []
        assert await other.servo.work.beat_here([callback(claimed)]) == [Beat()]
        await one.finish(claimed, Outcome.FAILED)
        await other.runtime.sleep(BOUND + 1)
        assert await other.servo.work.beat_here([callback(claimed)]) == [Beat(stale=True)]

    several(work)


def test_a_limit_that_is_not_published_yet_holds_from_the_first_claim_of_a_process_on() -> None:
    async def work(one: World, other: World) -> None:
        await one.workspace.decide("catalog", UpdateSettings({"servo.max_concurrent_tasks": 1}), actor="x")
        run_id = await one.trigger()
        assert len(await other.claim(slots=10)) == 1
        assert await one.claim(slots=10) == []
        tasks = await one.workspace.logs["activity"].replica.rows(TASKS, run_id)
        assert sorted(task.state for task in tasks) == ["READY", "RUNNING"]

    several(work, edges={"n.a0000": [], "n.a0001": []})


def test_a_worker_that_begins_anew_gives_up_only_what_its_earlier_lives_had() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger()
        first = await world.claim(worker=WorkerId("w1", "s1"))
        second = await world.claim(worker=WorkerId("w2", "s1"))
        await world.servo.work.open_session(WorkerId("w1", "s2"))
        await world.servo.work.open_session(WorkerId("w1", "s2"))
        states = await world.states(run_id)
        assert states == {first[0].task_key: "RETRY_WAIT", second[0].task_key: "RUNNING"}
        assert (await world.servo.runs.cancel(run_id, "enough", ASKED)).operation

    run_world(work, deployed=project({"n.a0000": [], "n.a0001": []}))
