"""Quality: the first result of a check on a materialization counts, and the worst of all results decides."""

import asyncio
from collections.abc import Iterable
from itertools import permutations
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import HOUR, Invalid, day_of
from arco.domains.quality import (
    CHECK_EXECUTED,
    CHECK_RESULT_DAYS,
    CHECK_RESULTS,
    GATING_DECISIONS,
    QUALITY,
    QUALITY_TABLE,
    CheckExecuted,
    Gating,
    GatingAction,
    Quality,
    QualityStatus,
    Severity,
    result_id,
)
from arco.log import Event
from arco.state import REJECTIONS, Replica, Table, define_log
from arco.storage import MemoryStore
from tests.doubles import START, FakeRuntime, run
from tests.state.doubles import Journal, cut, digests, event, open_node, replica_of, rows_of, segments_of

LOG = define_log("activity", [QUALITY])


def checked(
    check: str = "c1",
    *,
    materialization: str = "m1",
    passed: bool = True,
    severity: Severity = Severity.ERROR,
    action: GatingAction | None = None,
    asset: str = "a1",
    time: int = START,
    message: str = "",
) -> Event:
    payload = CheckExecuted(
        check_id=check,
        check_name=f"name of {check}",
        check_type="row_count",
        asset_id=asset,
        partition_id="p1",
        materialization_id=materialization,
        run_id="r1",
        task_id="t1",
        passed=passed,
        severity=severity,
        executed_at=time,
        expected_value=">= 1",
        actual_value="0",
        message=message,
        gating=Gating(action, "strict", "because") if action else None,
    )
    return event("CheckExecuted", payload)


def retention(table: Table, before: int) -> Event:
    return event("RetentionAdvanced", {"table": table.name, "before": before}, command="AdvanceRetention")


async def quality(*events: Event) -> Quality:
    replica = await replica_of(LOG, [segments_of([[item] for item in events])])
    row: Quality = await replica.get(QUALITY_TABLE, "a1", "m1")
    return row


async def state(*events: Event) -> dict[str, list[dict[str, Any]]]:
    replica = await replica_of(LOG, [segments_of([list(events)])])
    return {table.name: await rows_of(replica, table) for table in QUALITY.tables}


def test_a_result_and_the_decision_on_it_are_two_facts() -> None:
    async def main() -> None:
        tables = await state(
            checked(passed=False, action=GatingAction.BLOCK_DOWNSTREAM, message="empty"), checked("c2")
        )
        result, other = sorted(tables["check_results"], key=lambda row: str(row["check_id"]))
        assert (result["check_id"], result["check_name"], result["passed"]) == ("c1", "name of c1", False)
        assert (result["severity"], result["message"], result["actual_value"]) == ("error", "empty", "0")
        assert (other["check_id"], other["passed"]) == ("c2", True)
        (decision,) = tables["gating_decisions"]
        assert decision["result_id"] == result["result_id"] == result_id("c1", "m1")
        assert (decision["action"], decision["policy"], decision["reason"]) == ("block_downstream", "strict", "because")
        (row,) = tables["quality"]
        assert (row["status"], row["check_count"], row["passed_count"], row["failed_count"]) == ("failed", 2, 1, 1)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("severity", "status"),
    [("info", "passed"), ("warning", "warned"), ("error", "failed"), ("critical", "failed")],
)
def test_a_failed_check_is_as_bad_as_its_severity(severity: str, status: str) -> None:
    async def main() -> None:
        row = await quality(checked(passed=False, severity=Severity(severity)))
        assert row.status == status
        counts = {level: getattr(row, f"failed_{level}") for level in Severity}
        assert counts == {level: int(level == severity) for level in Severity}
        assert (await quality(checked(passed=True, severity=Severity(severity)))).status == "passed"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("action", "status"),
    [
        ("continue", "passed"),
        ("warn", "warned"),
        ("block_downstream", "failed"),
        ("quarantine", "quarantined"),
        ("fail_task", "failed"),
        ("fail_run", "failed"),
    ],
)
def test_an_action_counts_where_it_is_worse_than_the_result(action: str, status: str) -> None:
    async def main() -> None:
        row = await quality(checked(passed=False, severity=Severity.INFO, action=GatingAction(action)))
        assert row.status == status
        harsh = await quality(checked(passed=False, severity=Severity.CRITICAL, action=GatingAction(action)))
        assert harsh.status == ("quarantined" if action == "quarantine" else "failed")

    asyncio.run(main())


def test_the_worst_result_decides_in_whatever_order() -> None:
    told = [
        checked("c1"),
        checked("c2", passed=False, severity=Severity.WARNING),
        checked("c3", passed=False, severity=Severity.INFO, action=GatingAction.QUARANTINE),
        checked("c4", passed=False, severity=Severity.CRITICAL),
    ]

    async def main() -> None:
        for order in permutations(told):
            assert (await quality(*order)).status == "quarantined"

    asyncio.run(main())


def test_the_first_result_of_a_check_on_a_materialization_counts() -> None:
    async def main() -> None:
        failed, passed = checked(passed=False, action=GatingAction.WARN), checked(passed=True)
        assert await state(failed, passed) == await state(failed)
        assert await state(passed, failed) == await state(passed)
        assert (await quality(failed, passed, failed)).check_count == 1

    asyncio.run(main())


def test_materializations_are_apart() -> None:
    async def main() -> None:
        tables = await state(checked(passed=False), checked(materialization="m2"))
        assert {row["materialization_id"]: row["status"] for row in tables["quality"]} == {
            "m1": "failed",
            "m2": "passed",
        }

    asyncio.run(main())


def test_results_that_expired_stay_counted_and_are_not_counted_again() -> None:
    old, new = checked("old", passed=False), checked("new", time=START + 9)
    late = checked("late", time=START + 1)

    async def main() -> None:
        events = [old, new, retention(CHECK_RESULTS, START + 5), old, late, new]
        row = await quality(*events)
        assert (row.check_count, row.failed_count, row.last_checked_at) == (2, 1, START + 9)
        replica = await replica_of(LOG, [segments_of([events])])
        assert [result["check_id"] for result in await rows_of(replica, CHECK_RESULTS)] == ["new"]
        assert {rejected["reason"] for rejected in await rows_of(replica, REJECTIONS)} == {
            "older than the retention of check_results"
        }

    asyncio.run(main())


def test_a_result_counts_although_its_decision_is_older_than_decisions_are_kept() -> None:
    async def main() -> None:
        events = [retention(GATING_DECISIONS, START + 5), checked(passed=False, action=GatingAction.QUARANTINE)]
        tables = await state(*events)
        assert (len(tables["check_results"]), tables["gating_decisions"]) == (1, [])
        assert tables["quality"][0]["status"] == "quarantined"
        replica = await replica_of(LOG, [segments_of([events])])
        assert await rows_of(replica, REJECTIONS) == []

    asyncio.run(main())


RESULTS = st.builds(
    lambda check, materialization, passed, severity, action, time: checked(
        check,
        materialization=materialization,
        passed=passed,
        severity=severity,
        action=action,
        time=START + time,
    ),
    st.sampled_from("abc"),
    st.sampled_from(["m1", "m2"]),
    st.booleans(),
    st.sampled_from(Severity),
    st.none() | st.sampled_from(GatingAction),
    st.integers(0, 3),
)


def _identity(item: Event) -> str:
    payload = LOG.registry.decode(item.type, item.version, item.data)
    return result_id(payload.check_id, payload.materialization_id)


@settings(deadline=None, max_examples=60)
@given(st.lists(RESULTS, min_size=1, max_size=6, unique_by=_identity), st.data())
def test_order_and_repetition_do_not_matter(told: list[Event], data: st.DataObject) -> None:
    """Of different results under one identity the position decides which is the first, so here there is one each."""
    repeated = data.draw(st.permutations(told + data.draw(st.lists(st.sampled_from(told), max_size=4))))

    async def main() -> None:
        assert await state(*repeated) == await state(*told)

    asyncio.run(main())


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        RESULTS
        | st.builds(
            lambda table, n: retention(table, START + n),
            st.sampled_from([CHECK_RESULTS, GATING_DECISIONS]),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=10,
    ),
    st.lists(st.integers(1, 4), max_size=6),
)
def test_any_history_folds_alike_in_any_batches_and_counts_add_up(history: list[Event], sizes: list[int]) -> None:
    async def main() -> None:
        segments = segments_of(cut(history, sizes))
        whole = await replica_of(LOG, [segments])
        steps = await replica_of(LOG, [[segment] for segment in segments])
        assert await digests(LOG, steps) == await digests(LOG, whole)
        for row in await rows_of(whole, QUALITY_TABLE):
            assert row["check_count"] == row["passed_count"] + row["failed_count"]
            assert row["failed_count"] == sum(row[f"failed_{level}"] for level in Severity)
            assert row["status"] != QualityStatus.UNKNOWN

    asyncio.run(main())


def test_a_refold_of_the_published_log_gives_the_same_tables() -> None:
    async def main() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        node, journal = await open_node(runtime, store, LOG), Journal(store, runtime)
        await journal.append(checked(passed=False, action=GatingAction.WARN))
        await node.publish()
        await runtime.sleep(1)
        fresh = await open_node(runtime, store, LOG)
        await journal.append(checked("c2"), checked())
        await fresh.publish()
        before = await fresh.digests()
        await fresh.compactor.rebuild()
        assert await fresh.digests() == before
        row = await fresh.replica.get(QUALITY_TABLE, "a1", "m1")
        assert (row.status, row.check_count) == ("failed", 2)

    run(main())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("severity", "fatal"),
        ("check_id", ""),
        ("asset_id", ""),
        ("materialization_id", ""),
        ("passed", "yes"),
        ("gating", {"action": "shrug", "policy": "p"}),
        ("gating", {"action": "warn"}),
        ("surprise", 1),
    ],
)
def test_results_that_cannot_be_are_refused_at_the_door(field: str, value: object) -> None:
    payload = {
        "check_id": "c",
        "check_name": "n",
        "check_type": "t",
        "asset_id": "a",
        "partition_id": "",
        "materialization_id": "m",
        "run_id": "",
        "task_id": "",
        "passed": True,
        "severity": "info",
        "executed_at": START,
    }
    decoded = LOG.registry.decode("CheckExecuted", 1, event("CheckExecuted", payload).data)
    assert CHECK_EXECUTED.time(decoded) == START
    with pytest.raises(Invalid):
        LOG.registry.decode("CheckExecuted", 1, event("CheckExecuted", {**payload, field: value}).data)


# Days


class Told(NamedTuple):
    """A result, and when the step of retention comes after it."""

    check: str
    materialization: str
    passed: bool
    severity: Severity
    action: GatingAction | None
    hours: int

    @property
    def time(self) -> int:
        return START + self.hours * HOUR

    @property
    def event(self) -> Event:
        return checked(
            self.check,
            materialization=self.materialization,
            passed=self.passed,
            severity=self.severity,
            action=self.action,
            time=self.time,
        )


TOLD = st.builds(
    Told,
    st.sampled_from("ab"),
    st.sampled_from(["m1", "m2", "m3", "m4"]),
    st.booleans(),
    st.sampled_from(Severity),
    st.none() | st.sampled_from(GatingAction),
    st.integers(0, 72),
)


def counted(told: Iterable[Told]) -> dict[tuple[str, str], tuple[int, ...]]:
    """Days by checks, counted from a list of results: results, passed, failed, critical, held, first and last time."""
    days: dict[tuple[str, str], list[Told]] = {}
    for one in told:
        days.setdefault((one.check, day_of(one.time)), []).append(one)
    return {
        key: (
            len(found),
            sum(one.passed for one in found),
            sum(not one.passed for one in found),
            sum(not one.passed and one.severity == Severity.CRITICAL for one in found),
            sum(one.action not in (None, GatingAction.CONTINUE, GatingAction.WARN) for one in found),
            min(one.time for one in found),
            max(one.time for one in found),
        )
        for key, found in days.items()
    }


async def days_of(replica: Replica) -> dict[tuple[str, str], tuple[int, ...]]:
    return {
        (row.check_id, row.day): (
            row.result_count,
            row.passed_count,
            row.failed_count,
            row.failed_critical,
            row.held_count,
            row.first_executed_at,
            row.last_executed_at,
        )
        for row in await replica.rows(CHECK_RESULT_DAYS, "a1")
    }


@settings(deadline=None, max_examples=30)
@given(
    st.lists(TOLD, max_size=8, unique_by=lambda one: (one.check, one.materialization)),
    st.lists(TOLD, max_size=4, unique_by=lambda one: (one.check, one.materialization)),
    st.integers(0, 72),
    st.lists(st.integers(1, 4), max_size=6),
    st.data(),
)
def test_a_day_has_every_result_once_that_was_told_before_it_expired(
    early: list[Told], late: list[Told], hours: int, sizes: list[int], data: st.DataObject
) -> None:
    """Told in any order and repeatedly, before retention and after it, cut into any batches."""
    cutoff = START + hours * HOUR
    known = {(one.check, one.materialization): one for one in early}
    # The same result has the same time whenever it is told.
    late = [known.get((one.check, one.materialization), one) for one in late]
    before = data.draw(
        st.permutations(early + data.draw(st.lists(st.sampled_from(early), max_size=3)) if early else [])
    )
    after = data.draw(st.permutations(late + early))
    wanted = counted({*early, *(one for one in late if one.time >= cutoff)})
    history = [
        *(one.event for one in before),
        retention(CHECK_RESULTS, cutoff),
        *(one.event for one in after),
    ]

    async def main() -> None:
        segments = segments_of(cut(history, sizes))
        whole = await replica_of(LOG, [segments])
        steps = await replica_of(LOG, [[segment] for segment in segments])
        assert await days_of(whole) == await days_of(steps) == wanted
        assert await digests(LOG, whole) == await digests(LOG, steps)
        refused = [one for one in after if one.time < cutoff]
        assert len(await rows_of(whole, REJECTIONS)) == len(refused)
        kept = {row["executed_at"] for row in await rows_of(whole, CHECK_RESULTS)}
        assert all(int(time.timestamp() * 1_000_000) >= cutoff for time in kept)

    asyncio.run(main())
