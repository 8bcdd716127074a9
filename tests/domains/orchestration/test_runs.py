"""What becomes of runs and tasks: retries, losses, gates, fail fast, cancel, timers, and facts that come too early."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.assets import Backoff, GatingAction, Retries
from arco.core import SECOND
from arco.domains.orchestration import (
    ACTIVE_RUNS,
    ATTEMPTS,
    MAX_LOSSES,
    PLAN_TASKS,
    READY_TASKS,
    RUN_KEYS,
    RUNS,
    TASKS,
    TIMERS,
    CancelKind,
    FailurePolicy,
    Outcome,
    PlanTaskRow,
    RunRow,
    TaskRow,
    cloud_task_id,
)
from arco.domains.orchestration.retry import delay_seconds
from tests.domains.orchestration.facts import (
    RUN,
    Fact,
    Rows,
    cancel,
    claim,
    finish,
    fold,
    plan_of,
    planned,
    planned_apart,
    reap,
    triggered,
)
from tests.doubles import START

CHAIN = plan_of({"A": (), "B": ("A",), "C": ("B",)})
PAIR = plan_of({"A": (), "B": ("A",), "X": (), "Y": ("X",)})
STEADY = Retries(count=1, delay_seconds=10, jitter=0.0)


def begin(plan: object = CHAIN, **more: object) -> list[Fact]:
    return [triggered(plan, **more), planned(plan)]  # type: ignore[arg-type]


def run_of(rows: Rows) -> RunRow:
    row: RunRow = rows.table(RUNS)[RUN]
    return row


def task_row(rows: Rows, key: str) -> TaskRow:
    row: TaskRow = rows.table(TASKS)[RUN, key]
    return row


def attempts(key: str, count: int, *, end: object = None, start: int = 1) -> list[Fact]:
    """So many attempts that failed, far enough apart for every delay."""
    found: list[Fact] = []
    for number in range(start, start + count):
        second = number * 10_000
        failed = finish(key, second + 1, number, Outcome.FAILED) if end is None else reap(key, second + 1, number)
        found += [claim(key, second, number), failed]
    return found


# Failures and losses


def test_a_task_is_tried_again_until_its_retries_are_used_up() -> None:
    rows = fold([*begin(), *attempts("A", 2)])
    assert (task_row(rows, "A").state, task_row(rows, "A").failures) == ("RETRY_WAIT", 2)
    rows = fold([*begin(), *attempts("A", 3)])
    assert (task_row(rows, "A").state, task_row(rows, "A").error) == ("FAILED", "no")
    assert run_of(rows).state == "FAILED"
    assert run_of(rows).first_failure == "A"


def test_an_error_that_is_not_worth_another_attempt_is_final_at_once() -> None:
    rows = fold([*begin(), claim("A", 1), finish("A", 2, outcome=Outcome.FAILED, retryable=False)])
    assert rows.states(TASKS) == {"A": "FAILED", "B": "SKIPPED", "C": "SKIPPED"}
    assert task_row(rows, "B").reason == "A failed"
    assert task_row(rows, "C").reason == "B was skipped"
    assert rows.table(TIMERS) == {}


def test_losses_do_not_use_up_retries_and_have_a_limit_of_their_own() -> None:
    plan = plan_of({"A": ()}, Retries(count=0))
    rows = fold([*begin(plan), *attempts("A", MAX_LOSSES - 1, end="reaped")])
    assert (task_row(rows, "A").state, task_row(rows, "A").losses) == ("RETRY_WAIT", MAX_LOSSES - 1)
    rows = fold([*begin(plan), *attempts("A", MAX_LOSSES, end="reaped")])
    assert (task_row(rows, "A").state, task_row(rows, "A").error_category) == ("FAILED", "worker_lost")
    again = [*attempts("A", 1, end="reaped"), *attempts("A", 1, start=2)]
    assert fold([*begin(plan), *again]).states(TASKS) == {"A": "FAILED"}


def plan_row(**more: object) -> PlanTaskRow:
    rows = fold([*begin(plan_of({"A": ()}, Retries(count=9, **more)))])  # type: ignore[arg-type]
    row: PlanTaskRow = rows.table(PLAN_TASKS)[RUN, "A"]
    return row


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff.FIXED, [2, 2, 2, 2]),
        (Backoff.LINEAR, [2, 4, 6, 7]),
        (Backoff.EXPONENTIAL, [2, 4, 7, 7]),
    ],
)
def test_delays_grow_as_the_backoff_says_up_to_the_greatest(backoff: Backoff, delays: list[float]) -> None:
    row = plan_row(delay_seconds=2.0, backoff=backoff, max_delay_seconds=7.0, jitter=0.0)
    assert [delay_seconds(row, attempt) for attempt in range(1, 5)] == delays
    assert delay_seconds(row, 900_000) == delays[-1]


@given(st.floats(0, 1), st.integers(1, 50))
def test_jitter_stays_within_its_part_of_the_delay_and_is_no_chance(jitter: float, attempt: int) -> None:
    row = plan_row(delay_seconds=10.0, backoff=Backoff.FIXED, jitter=jitter)
    delay = delay_seconds(row, attempt)
    assert 10 * (1 - jitter) <= delay <= 10 * (1 + jitter)
    assert delay == delay_seconds(row, attempt)


def test_jitter_differs_between_attempts_and_is_the_same_everywhere() -> None:
    row = plan_row(delay_seconds=10.0, backoff=Backoff.FIXED, jitter=0.5)
    found = [delay_seconds(row, attempt) for attempt in (1, 2, 3)]
    assert found == pytest.approx([6.1664, 13.0495, 8.0757], abs=1e-4)


# Timers


def test_a_retry_has_a_timer_that_fires_when_the_next_attempt_is_claimed() -> None:
    plan = plan_of({"A": ()}, STEADY)
    facts = [*begin(plan), claim("A", 1), finish("A", 2, outcome=Outcome.FAILED)]
    name = f"timer:retry:{RUN}:A:1:{START // SECOND + 12}"
    (timer,) = fold(facts).table(TIMERS).values()
    assert (timer.timer_id, timer.state, timer.cloud_task_id) == (name, "SCHEDULED", cloud_task_id("t", name))
    assert timer.fire_at == task_row(fold(facts), "A").retry_not_before == START + 12 * SECOND
    (ready,) = fold(facts).table(READY_TASKS).values()
    assert (ready.not_before, ready.attempt) == (timer.fire_at, 2)
    (timer,) = fold([*facts, claim("A", 13, 2)]).table(TIMERS).values()
    assert (timer.timer_id, timer.state) == (name, "FIRED")
    rows = fold([*facts, cancel(5)])
    (timer,) = rows.table(TIMERS).values()
    assert (timer.state, task_row(rows, "A").state, rows.table(READY_TASKS)) == ("CANCELLED", "CANCELLED", {})


def test_a_run_with_a_limit_has_a_timer_until_it_ends() -> None:
    plan = plan_of({"A": ()})
    facts = begin(plan, timeout_seconds=100.0)
    (timer,) = fold(facts).table(TIMERS).values()
    assert (timer.state, timer.fire_at, timer.timer_type) == ("SCHEDULED", START + 100 * SECOND, "RUN_TIMEOUT")
    (active,) = fold(facts).table(ACTIVE_RUNS).values()
    assert active.deadline == timer.fire_at
    (timer,) = fold([*facts, claim("A", 1), finish("A", 2)]).table(TIMERS).values()
    assert timer.state == "CANCELLED"
    rows = fold([*facts, claim("A", 1), cancel(101, CancelKind.TIMED_OUT)])
    (timer,) = rows.table(TIMERS).values()
    assert (timer.state, run_of(rows).state) == ("FIRED", "CANCELLING")
    rows.apply([finish("A", 102, outcome=Outcome.CANCELLED)])
    assert run_of(rows).state == "FAILED"


# Gates


@pytest.mark.parametrize("gate", [GatingAction.BLOCK_DOWNSTREAM, GatingAction.QUARANTINE])
def test_checks_that_block_let_the_task_succeed_and_skip_what_depends_on_it(gate: GatingAction) -> None:
    rows = fold([*begin(), claim("A", 1), finish("A", 2, gate=gate)])
    assert rows.states(TASKS) == {"A": "SUCCEEDED", "B": "SKIPPED", "C": "SKIPPED"}
    assert (task_row(rows, "A").gate, task_row(rows, "B").reason) == (gate, "blocked by checks of A")
    assert run_of(rows).state == "FAILED"
    assert run_of(rows).first_failure is None
    last = fold([*begin(plan_of({"A": ()})), claim("A", 1), finish("A", 2, gate=gate)])
    assert run_of(last).state == "SUCCEEDED"


def test_checks_that_fail_the_task_leave_no_other_attempt() -> None:
    failed = finish("A", 2, outcome=Outcome.FAILED, gate=GatingAction.FAIL_TASK)
    rows = fold([*begin(PAIR), claim("A", 1), failed])
    assert rows.states(TASKS) == {"A": "FAILED", "B": "SKIPPED", "X": "READY", "Y": "BLOCKED"}


def test_checks_that_fail_the_run_stop_it_whatever_its_policy() -> None:
    failed = finish("A", 2, outcome=Outcome.FAILED, gate=GatingAction.FAIL_RUN)
    rows = fold([*begin(PAIR), claim("A", 1), failed])
    assert rows.states(TASKS) == {"A": "FAILED", "B": "SKIPPED", "X": "SKIPPED", "Y": "SKIPPED"}
    assert task_row(rows, "X").reason == "the run stopped because A failed"
    assert (run_of(rows).state, run_of(rows).stopped_at) == ("FAILED", START + 2 * SECOND)


# Fail fast, continue


def test_fail_fast_begins_nothing_new_and_lets_finish_what_runs() -> None:
    facts = begin(PAIR, failure_policy=FailurePolicy.FAIL_FAST)
    facts += [claim("A", 1), claim("X", 2), finish("A", 3, outcome=Outcome.FAILED, retryable=False)]
    rows = fold(facts)
    assert rows.states(TASKS) == {"A": "FAILED", "B": "SKIPPED", "X": "RUNNING", "Y": "SKIPPED"}
    assert rows.table(READY_TASKS) == {}
    succeeded = fold([*facts, finish("X", 4)])
    assert (succeeded.states(TASKS)["X"], run_of(succeeded).state) == ("SUCCEEDED", "FAILED")
    failed = fold([*facts, finish("X", 4, outcome=Outcome.FAILED)])
    assert task_row(failed, "X").state == "FAILED", "it would have been tried again"
    assert task_row(failed, "X").reason == "not tried again: the run stopped because A failed"
    assert run_of(failed).first_failure == "A"


def test_what_ends_a_run_first_says_what_becomes_of_a_task_that_waits() -> None:
    facts = begin(PAIR, failure_policy=FailurePolicy.FAIL_FAST)
    facts += [claim("A", 1), claim("X", 1), finish("X", 2, outcome=Outcome.FAILED)]
    failed = finish("A", 4, outcome=Outcome.FAILED, retryable=False)
    assert task_row(fold([*facts, cancel(3)]), "X").state == "CANCELLED"
    assert task_row(fold([*facts, cancel(3), failed]), "X").state == "CANCELLED"
    assert task_row(fold([*facts, failed, cancel(5)]), "X").state == "FAILED"


def test_of_failures_at_the_same_time_the_one_with_the_least_key_ends_the_run() -> None:
    facts = begin(plan_of({"A": (), "M": (), "X": ()}), failure_policy=FailurePolicy.FAIL_FAST)
    facts += [claim("A", 1), claim("X", 1), finish("X", 2, outcome=Outcome.FAILED, retryable=False)]
    rows = fold(facts)
    assert (run_of(rows).first_failure, task_row(rows, "M").reason) == ("X", "the run stopped because X failed")
    rows.apply([finish("A", 2, outcome=Outcome.FAILED, retryable=False)])
    assert (run_of(rows).first_failure, task_row(rows, "M").reason) == ("A", "the run stopped because A failed")


def test_a_task_whose_process_died_was_lost_whoever_noticed_it() -> None:
    plan = plan_of({"A": ()}, Retries(count=0))
    rows = fold([*begin(plan), claim("A", 1), finish("A", 2, outcome=Outcome.FAILED, is_lost=True)])
    assert (task_row(rows, "A").state, task_row(rows, "A").losses, task_row(rows, "A").failures) == ("RETRY_WAIT", 1, 0)


def test_continue_goes_on_with_everything_that_does_not_depend_on_it() -> None:
    facts = [*begin(PAIR), claim("A", 1), finish("A", 2, outcome=Outcome.FAILED, retryable=False)]
    rows = fold(facts)
    assert rows.states(TASKS) == {"A": "FAILED", "B": "SKIPPED", "X": "READY", "Y": "BLOCKED"}
    rows.apply([claim("X", 3), finish("X", 4), claim("Y", 5), finish("Y", 6)])
    assert (run_of(rows).state, run_of(rows).ended_at) == ("FAILED", START + 6 * SECOND)
    assert rows.table(ACTIVE_RUNS) == {}


def test_a_cancelled_upstream_beats_a_failed_one() -> None:
    plan = plan_of({"A": (), "B": (), "C": ("A", "B"), "D": ("C",)})
    failed = [claim("A", 1), finish("A", 2, outcome=Outcome.FAILED, retryable=False)]
    rows = fold([*begin(plan), *failed, claim("B", 3)])
    assert rows.states(TASKS) == {"A": "FAILED", "B": "RUNNING", "C": "SKIPPED", "D": "SKIPPED"}
    rows.apply([finish("B", 4, outcome=Outcome.CANCELLED)])
    assert rows.states(TASKS) == {"A": "FAILED", "B": "CANCELLED", "C": "CANCELLED", "D": "CANCELLED"}
    assert (task_row(rows, "C").blocked_by, task_row(rows, "C").blocked_on) == ("CANCELLED", "B")


# Facts that come early, late or twice


def test_a_run_waits_for_its_trigger_and_its_plan() -> None:
    facts = [claim("A", 1), finish("A", 2)]
    rows = fold(facts)
    assert (run_of(rows).state, rows.states(TASKS)) == ("PENDING", {"A": "PLANNED"})
    assert rows.table(ACTIVE_RUNS) == {}
    rows.apply([planned(CHAIN)])
    assert (run_of(rows).state, rows.states(TASKS)["B"]) == ("PENDING", "READY")
    rows.apply([triggered(CHAIN)])
    assert run_of(rows).state == "RUNNING"
    assert len(rows.table(ACTIVE_RUNS)) == 1


def test_of_two_attempts_of_one_number_the_greater_id_counts() -> None:
    facts = [*begin(), claim("A", 1, attempt_id="a"), claim("A", 2, attempt_id="b"), finish("A", 3, attempt_id="a")]
    rows = fold(facts)
    assert (task_row(rows, "A").state, task_row(rows, "A").attempt_id) == ("RUNNING", "b")
    rows.apply([finish("A", 4, attempt_id="b", outcome=Outcome.FAILED, retryable=False)])
    assert task_row(rows, "A").state == "FAILED"
    assert [row.attempt_id for row in rows.table(ATTEMPTS).values()] == ["b"]


def test_the_first_end_of_an_attempt_counts() -> None:
    rows = fold([*begin(), claim("A", 1), reap("A", 2), finish("A", 3)])
    assert task_row(rows, "A").state == "RETRY_WAIT"
    rows = fold([*begin(), claim("A", 1), finish("A", 2), reap("A", 3)])
    assert task_row(rows, "A").state == "SUCCEEDED"


def test_a_plan_may_be_a_blob_of_its_event() -> None:
    rows = Rows({"sha": CHAIN}).apply([triggered(CHAIN), planned_apart(CHAIN, "sha")])
    assert rows.all() == fold(begin()).all()


def test_a_plan_that_cannot_be_carried_out_is_rejected_and_the_run_stays_pending() -> None:
    tasks = (msgspec.structs.replace(CHAIN.tasks[0], upstream=("Z",)),)
    rows = fold([triggered(CHAIN), planned(msgspec.structs.replace(CHAIN, tasks=tasks))])
    assert "does not have" in rows.rejections[0]
    assert (run_of(rows).state, rows.table(TASKS)) == ("PENDING", {})
    other = fold([*begin(), planned(PAIR, 9)])
    assert "already" in other.rejections[0]
    assert other.all() == fold(begin()).all()


@pytest.mark.parametrize("attempt", [0, -1, 1_000_000])
def test_attempts_have_numbers_that_sort(attempt: int) -> None:
    rows = fold([*begin(), claim("A", 1, attempt)])
    assert "numbered" in rows.rejections[0]
    assert rows.all() == fold(begin()).all()


def test_the_first_run_of_a_key_keeps_it() -> None:
    first, second = triggered(CHAIN, 5, "one", run_key="k"), triggered(CHAIN, 6, "two", run_key="k")
    rows = fold([first, second, first])
    assert [row.run_id for row in rows.table(RUN_KEYS).values()] == ["one"]
    assert rows.rejections == []


def test_runs_are_served_by_priority_and_then_by_age() -> None:
    facts = [triggered(CHAIN, 1, "old"), triggered(CHAIN, 2, "new"), triggered(CHAIN, 3, "urgent", priority=1)]
    facts.append(triggered(CHAIN, 0, "idle", priority=-1))
    found = sorted(fold(facts).table(ACTIVE_RUNS).items())
    assert [row.run_id for _, row in found] == ["urgent", "old", "new", "idle"]
