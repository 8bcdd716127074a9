"""Batches: tasks that are claimed together count as one, end one by one, and are split when they are lost."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import Retries
from arco.core import Invalid
from arco.domains.orchestration import (
    ATTEMPTS,
    CLAIMS,
    LONE_LOSSES,
    MAX_LOSSES,
    TASKS,
    WORKSPACE,
    FailureCategory,
    Outcome,
    Plan,
    ReapAttempts,
    ReapWorker,
    TaskClaimed,
    TaskFailure,
    batch_limit,
    most_losses,
)
from tests.domains.decider import Decider, deciding
from tests.domains.orchestration.deciding import asked, claim_all, finished, trigger
from tests.domains.orchestration.facts import LOG, claim, finish, fold, plan_of, planned, reap, triggered

NOW = Retries(count=1, delay_seconds=0.0, jitter=0.0)


def wide(count: int, batch: int, retries: Retries = NOW) -> Plan:
    return plan_of({f"t{index:03d}": () for index in range(count)}, retries, batch=batch)


def groups(claims: list[TaskClaimed]) -> list[list[str]]:
    """The keys of what was claimed, by what was claimed together, in order."""
    found: dict[str, list[str]] = {}
    for one in claims:
        found.setdefault(one.batch_id or one.attempt_id, []).append(one.task_key)
    return list(found.values())


async def states(decider: Decider) -> dict[str, str]:
    return {row["task_key"]: row["state"] for row in await decider.rows(TASKS)}


async def end(decider: Decider, one: TaskClaimed, outcome: Outcome = Outcome.SUCCEEDED, **more: Any) -> int:
    """An attempt ends; the number of events that makes."""
    row = await decider.replica.get(CLAIMS, WORKSPACE, one.attempt_id)
    return len(await decider.decide(finished(one, row.claimed_at, outcome, **more)))


async def lose(decider: Decider, claims: list[TaskClaimed]) -> None:
    """The worker tells that the driver of these attempts died: all of them are decided at once."""
    assert await decider.decide(ReapAttempts(tuple(one.attempt_id for one in claims), "its driver died"))


# Claims


def test_a_claim_takes_whole_batches_and_counts_each_as_one() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, wide(7, 3))
        first = await claim_all(decider, slots=2, capacity=3)
        assert groups(first) == [["t000", "t001", "t002"], ["t003", "t004", "t005"]]
        assert {one.batch_tasks for one in first} == {3}
        assert [one.batch_id for one in first[:3]] == [first[0].attempt_id] * 3
        (last,) = await claim_all(decider, slots=9, capacity=3)
        assert (last.task_key, last.batch_id, last.batch_tasks) == ("t006", "", 1)
        assert await claim_all(decider) == []
        assert len({row["batch_id"] or row["attempt_id"] for row in await decider.rows(CLAIMS)}) == 3

    deciding(LOG, main)


def test_a_batch_counts_as_one_task_of_a_limited_run_until_its_last_one_ends() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, wide(4, 2), max_parallelism=1)
        first = await claim_all(decider)
        assert groups(first) == [["t000", "t001"]]
        await end(decider, first[0])
        assert await claim_all(decider) == []
        await end(decider, first[1])
        assert groups(await claim_all(decider)) == [["t002", "t003"]]

    deciding(LOG, main)


def test_priorities_and_the_order_of_runs_hold_for_batches_too() -> None:
    async def main(decider: Decider) -> None:
        first = await trigger(decider, wide(4, 2))
        urgent = await trigger(decider, wide(4, 4), priority=1)
        single = await trigger(decider, wide(2, 1))
        claims = await claim_all(decider, slots=4)
        owners = [one.run_id for one in claims]
        assert owners == [urgent] * 4 + [first] * 4 + [single]
        assert [len(keys) for keys in groups(claims)] == [4, 2, 2, 1]

    deciding(LOG, main)


def test_a_batch_does_not_wait_to_fill_up() -> None:
    plan = plan_of({"a0": (), "a1": (), "b0": ("a0",), "b1": ("a1",), "b2": ("a1",)}, NOW, batch=3)

    async def main(decider: Decider) -> None:
        await trigger(decider, plan)
        above = await claim_all(decider)
        await end(decider, above[0])
        assert groups(await claim_all(decider)) == [["b0"]]
        await end(decider, above[1])
        assert groups(await claim_all(decider)) == [["b1", "b2"]]

    deciding(LOG, main)


def test_a_batch_among_thousands_of_ready_tasks_is_found_whole() -> None:
    """Its tasks are not neighbours in the order in which tasks become ready."""
    first = {f"a{index:03d}": () for index in range(300)}
    plan = plan_of(first | {f"b{index:03d}": (f"a{index:03d}",) for index in range(300)}, NOW, batch=100)
    batch = [task.task_key for task in plan.tasks if task.batch == "u1#1"]

    async def main(decider: Decider) -> None:
        await trigger(decider, plan)
        above = await claim_all(decider)
        for number, one in enumerate(sorted(above, key=lambda one: one.task_key[::-1])):
            await end(decider, one)
            if number % 50 == 0:
                await trigger(decider, plan_of({}))
        below = await claim_all(decider, slots=3)
        assert sorted(len(keys) for keys in groups(below)) == [100, 100, 100]
        assert sorted(batch) in [sorted(keys) for keys in groups(below)]

    deciding(LOG, main)


# Ends


def test_every_task_of_a_batch_ends_by_itself() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, wide(3, 3))
        one, two, three = await claim_all(decider)
        await end(decider, two)
        assert await states(decider) == {"t000": "RUNNING", "t001": "SUCCEEDED", "t002": "RUNNING"}
        failure = TaskFailure(FailureCategory.TRANSFORM_ERROR, "builtins.ValueError", "no")
        await end(decider, one, Outcome.FAILED, failure=failure)
        assert await end(decider, three) == 1
        assert await states(decider) == {"t000": "FAILED", "t001": "SUCCEEDED", "t002": "SUCCEEDED"}
        rows = await decider.rows(ATTEMPTS)
        assert {(row["batch_id"], row["batch_tasks"]) for row in rows} == {(one.attempt_id, 3)}

    deciding(LOG, main)


def test_a_batch_has_the_time_of_all_its_tasks() -> None:
    tasks = tuple(msgspec.structs.replace(task, timeout_seconds=60.0) for task in wide(4, 3).tasks)
    plan = msgspec.structs.replace(wide(4, 3), tasks=tasks)

    async def main(decider: Decider) -> None:
        await trigger(decider, plan)
        claims = await claim_all(decider)
        await end(decider, claims[0])
        found = {row["task_key"]: row["timeout_seconds"] for row in await decider.rows(CLAIMS)}
        assert found == {"t001": 180.0, "t002": 180.0, "t003": 60.0}

    deciding(LOG, main)


# Losses


def test_what_is_lost_together_is_split_until_the_bad_one_stands_alone() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, wide(8, 8))
        sizes = []
        while claims := await claim_all(decider, slots=1):
            sizes.append(len(claims))
            if any(one.task_key == "t005" for one in claims):
                await lose(decider, claims)
            else:
                for one in claims:
                    await end(decider, one)
        assert sizes == [8, 4, 4, 2, 2, 1, 1, 1, 1]
        found = await states(decider)
        assert found.pop("t005") == "FAILED"
        assert set(found.values()) == {"SUCCEEDED"}
        attempts = [row for row in await decider.rows(ATTEMPTS) if row["task_key"] == "t005"]
        assert len(attempts) == 3 + LONE_LOSSES

    deciding(LOG, main)


def test_what_was_lost_with_the_worker_goes_on_in_halves_and_what_had_ended_does_not() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, wide(6, 6))
        claims = await claim_all(decider)
        await end(decider, claims[3])
        assert len(await decider.decide(ReapWorker("w1", "s2"))) == 5
        again = await claim_all(decider, session="s2")
        assert groups(again) == [["t000", "t001", "t002"], ["t004", "t005"]]
        assert {one.attempt for one in again} == {2}

    deciding(LOG, main)


def test_tasks_that_were_lost_unequally_often_are_not_claimed_together() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, wide(4, 4))
        claims = await claim_all(decider)
        await lose(decider, claims[:2])
        failure = TaskFailure(FailureCategory.TRANSFORM_ERROR, "builtins.ValueError", "no", retryable=True)
        for one in claims[2:]:
            await end(decider, one, Outcome.FAILED, failure=failure)
        again = await claim_all(decider)
        assert sorted(groups(again)) == [["t000", "t001"], ["t002", "t003"]]

    deciding(LOG, main)


def test_what_is_lost_at_once_is_due_at_once() -> None:
    """Jitter is the same for a batch: else its tasks would come back one by one, and a batch does not wait."""
    plan = wide(3, 3, Retries(delay_seconds=7.0, jitter=0.5))
    facts = [triggered(plan), planned(plan, 1)]
    facts += [claim(key, 2, together=("batch", 3)) for key in ("t000", "t001", "t002")]
    facts += [reap(key, 3) for key in ("t000", "t001")]
    facts.append(finish("t002", 3, outcome=Outcome.FAILED, is_lost=True))
    due = {row.retry_not_before for row in fold(facts).table(TASKS).values()}
    assert len(due) == 1
    assert None not in due


@pytest.mark.parametrize("size", [None, 1, 2, 3, 7, 8, 100, 1000])
def test_a_lost_task_stands_alone_before_it_can_fail(size: int | None) -> None:
    most = most_losses(size)
    assert batch_limit(size, most - LONE_LOSSES) == 1
    assert most == MAX_LOSSES if size is None else most <= 3 + (size or 1).bit_length()
    limits = [batch_limit(size, losses) for losses in range(most)]
    assert limits == sorted(limits, reverse=True)


# Plans


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"unit": "other"}, "one unit and one stage"),
        ({"batch": "a:b"}, "colon"),
    ],
)
def test_a_batch_that_cannot_run_together_is_refused(change: dict[str, str], said: str) -> None:
    first, *others = wide(3, 3).tasks
    plan = msgspec.structs.replace(wide(3, 3), tasks=(msgspec.structs.replace(first, **change), *others))

    async def main(decider: Decider) -> None:
        with pytest.raises(Invalid, match=said):
            await decider.decide(asked(plan))

    deciding(LOG, main)


# Anything may happen


def _happen(chance: random.Random, bad: set[str]) -> Callable[[Decider], object]:
    """Workers claim, finish, fail and die in any order, until nothing is left to do."""

    async def main(decider: Decider) -> None:
        count, batch = chance.randrange(1, 24), chance.choice([1, 2, 5, 16])
        plan = wide(count, batch)
        sizes = {task.task_key: sum(other.batch == task.batch for other in plan.tasks) for task in plan.tasks}
        limit = chance.choice([0, 1, 2])
        await trigger(decider, plan, max_parallelism=limit)
        running: dict[str, list[TaskClaimed]] = {}
        lost: dict[str, int] = {}
        done: set[str] = set()
        for _ in range(2_000):
            for one in await claim_all(decider, slots=chance.randrange(1, 4), capacity=3):
                assert one.task_key not in done, "what has ended is not claimed again"
                running.setdefault(one.batch_id or one.attempt_id, []).append(one)
            assert len(running) <= (min(limit, 3) if limit else 3)
            for claims in running.values():
                losses = {lost.get(one.task_key, 0) for one in claims}
                assert len(losses) == 1 or len(claims) < claims[0].batch_tasks
            if not running:
                break
            name = chance.choice(sorted(running))
            claims = running[name]
            if len(claims) > 1:
                assert claims[0].batch_tasks <= batch_limit(sizes[claims[0].task_key], lost.get(claims[0].task_key, 0))
            if bad & {one.task_key for one in claims} or chance.random() < 0.1:
                await lose(decider, claims)
                for one in claims:
                    lost[one.task_key] = lost.get(one.task_key, 0) + 1
                del running[name]
                continue
            one = claims.pop(chance.randrange(len(claims)))
            await end(decider, one)
            done.add(one.task_key)
            if not claims:
                del running[name]
        assert not running, "it comes to an end"
        found = await states(decider)
        assert {key for key, state in found.items() if state == "FAILED"} >= bad & set(found)
        assert set(found.values()) <= {"SUCCEEDED", "FAILED"}
        assert done == {key for key, state in found.items() if state == "SUCCEEDED"}

    return main


@given(st.integers(0, 2**32), st.sets(st.integers(0, 23), max_size=2))
@settings(max_examples=60, deadline=None)
def test_splitting_ends_and_exactly_the_bad_ones_stay_bad(seed: int, bad: set[int]) -> None:
    deciding(LOG, _happen(random.Random(seed), {f"t{index:03d}" for index in bad}))  # type: ignore[arg-type]
