"""What a plan knows: the newest version of each partition that is neither quarantined nor blocked."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import GatingAction, Severity
from arco.domains.execution import EXECUTION, MaterializationCompleted, MaterializationFailed
from arco.domains.quality import QUALITY, CheckExecuted, Gating
from arco.log import Event
from arco.servo._planning_state import (
    BLOCKED,
    EXPIRED,
    NEVER_MADE,
    QUARANTINED,
    SAMPLE,
    PlanningState,
    Size,
    Version,
    read_planning_state,
)
from arco.state import define_log
from tests.doubles import START, run
from tests.state.doubles import event, replica_of, segments_of

LOG = define_log("activity", [EXECUTION, QUALITY])
SECOND = 1_000_000


def made(name: str, partition: str = "p1", *, asset: str = "a1", status: str = "published", **more: Any) -> Event:
    payload = MaterializationCompleted(
        materialization_id=name,
        asset_id=asset,
        asset_key="s.a",
        partition_id=partition,
        partition_key="",
        run_id="r1",
        task_id="t1",
        files=(),
        row_count=1,
        byte_size=1,
        schema_hash="h",
        started_at=START,
        completed_at=START + more.pop("seconds", 2) * SECOND,
        status=status,
        code_version=more.pop("code_version", "c1"),
        inputs_fingerprint="f1",
        plan=more.pop("plan", ""),
    )
    return event("MaterializationCompleted", payload)


def failed(partition: str = "p1") -> Event:
    return event("MaterializationFailed", MaterializationFailed("a1", "s.a", partition, "", "r1", "t1", "no", START))


def checked(
    name: str,
    action: GatingAction | None,
    *,
    severity: Severity = Severity.ERROR,
    check: str = "c1",
    passed: bool = False,
) -> Event:
    payload = CheckExecuted(
        check_id=check,
        check_name=check,
        check_type="row_count",
        asset_id="a1",
        partition_id="p1",
        materialization_id=name,
        run_id="r1",
        task_id="t1",
        passed=passed,
        severity=severity,
        executed_at=START,
        gating=Gating(action, "policy") if action is not None else None,
    )
    return event("CheckExecuted", payload)


def read(*events: Event, detailed: bool = True, partitions: set[str] | None = None) -> PlanningState:
    async def main() -> PlanningState:
        replica = await replica_of(LOG, [segments_of([[item] for item in events])])
        return await read_planning_state(
            replica,
            {"a1": partitions, "a2": None},
            {"a1"} if detailed else (),
            activity_position=7,
            catalog_position=5,
            dynamic={"d": ("x",)},
        )

    return run(main())


def test_the_newest_version_counts_and_says_how_it_came_about() -> None:
    state = read(made("m1"), made("m2", seconds=3), made("n1", "p2"), made("o1", asset="a2"))
    size = Size(1, 1)
    assert state.versions["a1"] == {
        "p1": Version("m2", "c1", "f1", 3.0, size),
        "p2": Version("n1", "c1", "f1", 2.0, size),
    }
    assert state.usual_sizes == {"a1": size}
    assert state.versions["a2"] == {"p1": Version("o1")}
    assert (state.activity_position, state.catalog_position, state.dynamic) == ("7", "5", {"d": ("x",)})


def test_only_the_partitions_that_are_needed_are_read() -> None:
    events = [made(f"m{number}", f"p{number}", seconds=number) for number in range(1, 6)]
    state = read(*events, partitions={"p2", "p9"})
    assert set(state.versions["a1"]) == {"p2"}
    assert state.usual_seconds == {"a1": 3.0}
    assert read(*events, detailed=False).usual_seconds == {}


def test_how_a_batch_ran_last_is_known_of_all_versions_that_are_read() -> None:
    """Any few versions may all be of older code."""
    old = [made(f"m{number:03d}", f"p{number:03d}", plan="together") for number in range(3 * SAMPLE)]
    new = made("n1", "p999", code_version="c2", plan="it mixes")
    assert read(*old, new).plans == {"a1": ("c2", "it mixes")}
    assert read(*old, new, partitions={"p001"}).plans == {"a1": ("c1", "together")}
    assert read(*old, new, made("n2", "p999", code_version="c3")).plans == {"a1": ("c1", "together")}
    assert read(*old, detailed=False).plans == {}


def test_an_asset_that_nobody_made_has_nothing() -> None:
    state = read()
    assert (state.versions, state.bad) == ({"a1": {}, "a2": {}}, {"a1": {}, "a2": {}})


def test_a_quarantined_version_is_passed_over_for_an_older_one() -> None:
    assert read(made("m1"), made("m2", status="quarantined")).versions["a1"]["p1"].materialization_id == "m1"
    state = read(made("m1", status="quarantined"))
    assert (state.versions["a1"], state.bad["a1"]) == ({}, {"p1": QUARANTINED})


def test_a_released_version_is_good_and_known_as_released() -> None:
    release = event(
        "MaterializationReleased",
        {"asset_id": "a1", "materialization_id": "m1", "reason": "fine"},
        command="ReleaseVersion",
    )
    state = read(made("m1"), checked("m1", GatingAction.QUARANTINE), release, checked("m1", None, check="c2"))
    assert (state.versions["a1"]["p1"].materialization_id, state.released) == ("m1", frozenset({"m1"}))
    assert read(made("m1")).released == frozenset()


def test_a_partition_whose_versions_have_expired_says_so() -> None:
    gone = event("MaterializationsExpired", {"asset_id": "a1", "materialization_ids": ["m1"]}, command="ExpireVersions")
    assert read(made("m1", status="quarantined"), gone).bad["a1"] == {"p1": EXPIRED}


def test_a_failure_leaves_the_version_before_it_and_alone_is_no_version() -> None:
    assert read(made("m1"), failed()).versions["a1"]["p1"].materialization_id == "m1"
    assert read(failed()).bad["a1"] == {"p1": NEVER_MADE}


@pytest.mark.parametrize("action", [a for a in GatingAction if a not in (GatingAction.CONTINUE, GatingAction.WARN)])
@pytest.mark.parametrize("detailed", [True, False])
def test_a_blocked_version_is_passed_over_for_an_older_good_one(action: GatingAction, detailed: bool) -> None:
    state = read(made("m1"), made("m2"), checked("m2", action), detailed=detailed)
    assert state.versions["a1"]["p1"].materialization_id == "m1"
    assert state.versions["a1"]["p1"].code_version == ("c1" if detailed else "")
    alone = read(made("m2"), checked("m2", action), detailed=detailed)
    why = QUARANTINED if action is GatingAction.QUARANTINE else BLOCKED
    assert (alone.versions["a1"], alone.bad["a1"]) == ({}, {"p1": why})


@pytest.mark.parametrize("action", [GatingAction.CONTINUE, GatingAction.WARN])
@pytest.mark.parametrize("severity", list(Severity))
def test_a_failed_check_that_its_policy_lets_pass_does_not_block(action: GatingAction, severity: Severity) -> None:
    state = read(made("m1"), made("m2"), checked("m2", action, severity=severity))
    assert state.versions["a1"]["p1"].materialization_id == "m2"


def test_one_decision_that_blocks_is_enough_and_a_failure_that_nobody_judged_blocks_too() -> None:
    both = [checked("m2", GatingAction.WARN), checked("m2", GatingAction.BLOCK_DOWNSTREAM, check="c2")]
    assert read(made("m1"), made("m2"), *both).versions["a1"]["p1"].materialization_id == "m1"
    assert read(made("m2"), checked("m2", None)).bad["a1"] == {"p1": BLOCKED}
    assert read(made("m2"), checked("m2", None, passed=True)).versions["a1"]["p1"].materialization_id == "m2"


Made = tuple[str, bool, GatingAction | None]


@given(
    st.lists(
        st.tuples(st.sampled_from(["p1", "p2"]), st.booleans(), st.sampled_from([None, *GatingAction])),
        max_size=8,
    )
)
@settings(deadline=None, max_examples=60)
def test_the_good_version_is_the_last_that_nothing_speaks_against(history: list[Made]) -> None:
    events: list[Event] = []
    expected: dict[str, str] = {}
    for number, (partition, is_published, action) in enumerate(history):
        name = f"m{number}"
        events.append(made(name, partition, status="published" if is_published else "quarantined"))
        if action is not None:
            events.append(checked(name, action))
        if is_published and action in (None, GatingAction.CONTINUE, GatingAction.WARN):
            expected[partition] = name
    state = read(*events)
    assert {key: version.materialization_id for key, version in state.versions["a1"].items()} == expected
    assert set(state.bad["a1"]) == {partition for partition, _, _ in history} - set(expected)
