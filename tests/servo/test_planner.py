"""The planner: what is in a plan and why, what is skipped and why, what inputs are pinned to."""

from typing import Any

import msgspec
import pytest

from arco.assets import AssetKind, Dependency, Engine, Retries, Source, SourceFormat
from arco.core import Invalid, PartitionKey
from arco.domains.orchestration.plan import Pin, plan_fingerprint, task_id_of
from arco.servo._estimates import estimate_plan
from arco.servo._planner import make_plan
from arco.servo._planning_state import QUARANTINED, PlanningState, Version
from arco.servo._reasons import SkipKind, skip_kind
from arco.servo._request import Mode, RunRequest, request_fingerprint
from tests.servo.projects import (
    AT,
    DAILY,
    REGION,
    asset,
    customers,
    day,
    dep,
    good,
    id_of,
    made_by,
    part,
    plan,
    project,
    task,
)

CHAIN = project(asset("s.a"), asset("s.b", "s.a"), asset("s.c", "s.b"))


def test_tasks_stand_in_stages_and_wait_for_each_other() -> None:
    diamond = project(asset("s.a"), asset("s.b", "s.a"), asset("s.c", "s.a"), asset("s.d", "s.b", "s.c"))
    made = plan(diamond)
    assert [(task.stage, task.task_key, task.upstream) for task in made.tasks] == [
        (0, "s.a", ()),
        (1, "s.b", ("s.a",)),
        (1, "s.c", ("s.a",)),
        (2, "s.d", ("s.b", "s.c")),
    ]
    assert (made.catalog_position, made.activity_position, made.code_version) == ("7", "9", "code_1")


def test_a_task_says_what_it_makes_and_how() -> None:
    made = project(
        asset("s.a", retries=Retries(2), timeout_seconds=30.0, heartbeat_seconds=5.0, partitions=[DAILY]),
    )
    (found,) = plan(made, partitions={"date": "2026-01-02"}).tasks
    assert found.task_key == "s.a[date=2026-01-02]"
    assert found.partition_key == "date=d:2026-01-02"
    assert found.task_id == task_id_of("s.a", "date=d:2026-01-02", "code_1")
    (output,) = found.outputs
    assert (output.asset_id, output.asset_key, output.partition_key) == (id_of("s.a"), "s.a", "date=d:2026-01-02")
    assert output.partition_id.startswith("part_")
    assert (found.retries, found.timeout_seconds, found.heartbeat_seconds) == (Retries(2), 30.0, 5.0)


def test_what_a_task_of_the_plan_writes_is_pinned_when_that_has_finished() -> None:
    (source,) = task(plan(CHAIN), "s.b").inputs
    assert (source.asset_key, source.parameter) == ("s.a", "p0")
    assert source.pins == (Pin(part("s.a")),)


def test_upstream_of_the_selection_is_pinned_and_not_run() -> None:
    made = plan(CHAIN, "s.c", good(("s.b", part("s.b"), Version("m1"))))
    (found,) = made.tasks
    assert (found.task_key, found.upstream, found.stage) == ("s.c", (), 0)
    assert found.inputs[0].pins == (Pin(part("s.b"), "", "m1"),)


def test_an_input_without_a_good_version_is_a_skip_with_its_cure() -> None:
    made = plan(CHAIN, "s.c")
    assert made.tasks == ()
    (skip,) = made.skips
    assert skip_kind(skip) is SkipKind.CANNOT_RUN
    assert skip.reason == "cannot run: it needs s.b, and no version of it exists; make that first with `arco run +s.c`"


def test_of_many_inputs_without_a_good_version_the_cure_makes_all() -> None:
    made = project(
        asset("s.a", partitions=[DAILY, REGION]),
        asset("s.all", dep("s.a")),
        asset("s.daily", "s.a", partitions=[DAILY]),
    )
    have = made_by(plan(made, "s.a", partitions={"date": "2026-01-02", "region": "*"}), made)
    (skip,) = plan(made, "s.all", have).skips
    assert skip.reason == (
        "cannot run: it needs s.a[date=2026-01-01,region=eu], and no version of it exists (15 more are missing as well)"
        "; make them all first with "
        "`arco backfill +s.a --partition date=2026-01-01..2026-01-09 --partition region=eu..us`"
    )
    (skip,) = plan(made, "s.daily", partitions={"date": "2026-01-01"}).skips
    assert skip.reason == (
        "cannot run: it needs s.a[date=2026-01-01,region=eu], and no version of it exists (1 more is missing as well); "
        "make them all first with `arco backfill +s.a --partition date=2026-01-01 --partition region=eu..us`"
    )


def test_a_bad_version_is_named_as_the_reason() -> None:
    state = PlanningState(bad={id_of("s.b"): {part("s.b"): QUARANTINED}})
    (skip,) = plan(CHAIN, "s.c", state).skips
    assert skip.reason == (
        "cannot run: it needs s.b, and its newest version is quarantined; look at it with `arco quarantine show s.b` "
        "and release it if it is right, or make that first with `arco run +s.c`"
    )


def test_what_cannot_run_takes_those_with_it_that_need_it() -> None:
    more = project(*CHAIN.assets, asset("s.d", "s.c"), asset("s.e"))
    made = plan(more, "s.c,s.d,s.e")
    assert [task.task_key for task in made.tasks] == ["s.e"]
    assert [skip.asset_key for skip in made.skips] == ["s.c", "s.d"]
    older = good(("s.c", part("s.c"), Version("m1")))
    again = plan(more, "s.c,s.d,s.e", older)
    assert task(again, "s.d").inputs[0].pins[0].materialization_id == "m1"


def test_a_dependency_that_others_make_is_not_pinned() -> None:
    made = project(asset("s.ext", kind=AssetKind.EXTERNAL, function=""), asset("s.a", "s.ext"))
    found = task(plan(made, "s.a"), "s.a")
    assert found.inputs[0].pins == ()
    everything = plan(made)
    assert [(skip.asset_key, skip_kind(skip)) for skip in everything.skips] == [("s.ext", SkipKind.EXTERNAL)]
    with pytest.raises(Invalid, match="only assets that others make"):
        plan(made, "s.ext")


def test_an_observable_source_is_looked_at_before_what_depends_on_it() -> None:
    made = project(asset("s.src", kind=AssetKind.OBSERVABLE), asset("s.a", "s.src"))
    found = task(plan(made), "s.a")
    assert (found.upstream, found.stage, found.inputs[0].pins) == (("s.src",), 1, ())
    assert task(plan(made, "s.a"), "s.a").upstream == ()


def test_what_only_comes_earlier_is_ordered_and_neither_pinned_nor_needed() -> None:
    made = project(asset("s.a"), asset("s.b", dep("s.a", "")))
    found = task(plan(made), "s.b")
    assert (found.upstream, found.inputs[0].parameter, found.inputs[0].pins) == (("s.a",), "", ())
    assert task(plan(made, "s.b"), "s.b").upstream == ()


# Standard and force


def test_what_is_up_to_date_is_skipped_and_says_by_which_version() -> None:
    state = made_by(plan(CHAIN), CHAIN)
    made = plan(CHAIN, "s.b,s.c", state)
    assert made.tasks == ()
    assert [(skip.asset_key, skip.reason) for skip in made.skips] == [
        ("s.b", "up to date: same code and same inputs as materialization m"),
        ("s.c", "up to date: same code and same inputs as materialization m"),
    ]


def test_a_root_always_runs_and_then_so_does_what_is_made_of_it() -> None:
    state = made_by(plan(CHAIN), CHAIN)
    made = plan(CHAIN, "*", state)
    assert [task.reason for task in made.tasks] == [
        "selected by `*`; it has no dependencies, so it always runs",
        "selected by `*`; s.a runs before it",
        "selected by `*`; s.b runs before it",
    ]


def test_a_backfill_leaves_a_root_alone_that_has_a_version_of_the_same_code() -> None:
    state = made_by(plan(CHAIN), CHAIN)
    made = plan(CHAIN, "*", state, mode=Mode.FILL)
    assert made.tasks == ()
    assert {skip.reason for skip in made.skips} == {"up to date: same code and same inputs as materialization m"}
    edited = project(asset("s.a", code_version="2"), asset("s.b", "s.a"), asset("s.c", "s.b"))
    found = plan(edited, "*", state, mode=Mode.FILL).tasks
    assert [task.reason.partition("; ")[2] for task in found] == [
        "its code changed since materialization m",
        "s.a runs before it",
        "s.b runs before it",
    ]


def test_changed_code_runs_again_and_changed_inputs_too() -> None:
    state = made_by(plan(CHAIN), CHAIN)
    edited = project(asset("s.a"), asset("s.b", "s.a", code_version="2"), asset("s.c", "s.b"))
    (found,) = plan(edited, "s.b", state).tasks
    assert found.reason == "selected by `s.b`; its code changed since materialization m"
    newer = made_by(plan(CHAIN, "s.a", state), CHAIN, state)
    (found,) = plan(CHAIN, "s.b", newer).tasks
    assert found.reason == "selected by `s.b`; its inputs changed since materialization m"
    assert found.inputs[0].pins[0].materialization_id == "mm"


def test_a_version_of_which_the_inputs_are_not_known_is_made_again() -> None:
    state = good(("s.a", part("s.a"), Version("m1")), ("s.b", part("s.b"), Version("m2", "1")))
    (found,) = plan(CHAIN, "s.b", state).tasks
    assert found.reason.endswith("its inputs changed since materialization m2")


def test_first_runs_and_bad_versions_say_so() -> None:
    first = plan(CHAIN, "s.b", good(("s.a", part("s.a"), Version("m1"))))
    assert first.tasks[0].reason == "selected by `s.b`; no version exists yet"
    state = good(("s.a", part("s.a"), Version("m1")), bad={id_of("s.b"): {part("s.b"): QUARANTINED}})
    assert plan(CHAIN, "s.b", state).tasks[0].reason == f"selected by `s.b`; {QUARANTINED}"


def test_an_input_that_somebody_released_is_named_where_it_is_why() -> None:
    released = frozenset({"m2"})
    state = good(("s.a", part("s.a"), Version("m2")), released=released)
    assert plan(CHAIN, "s.b", state).tasks[0].reason == "selected by `s.b`; no version exists yet; s.a was released"
    assert plan(CHAIN, "s.b", state, mode=Mode.FORCE).tasks[0].reason == "selected by `s.b`; forced; s.a was released"
    older = good(("s.a", part("s.a"), Version("m2")), ("s.b", part("s.b"), Version("n1", "1")), released=released)
    changed = plan(CHAIN, "s.b", older).tasks[0].reason
    assert changed == "selected by `s.b`; its inputs changed since materialization n1; s.a was released"
    code = good(("s.a", part("s.a"), Version("m2")), ("s.b", part("s.b"), Version("n1", "0")), released=released)
    assert plan(CHAIN, "s.b", code).tasks[0].reason == "selected by `s.b`; its code changed since materialization n1"


def test_what_is_made_of_something_unknown_always_runs() -> None:
    made = project(asset("s.ext", kind=AssetKind.EXTERNAL, function=""), asset("s.a"), asset("s.b", "s.a", "s.ext"))
    state = made_by(plan(made), made)
    (found,) = plan(made, "s.b", state).tasks
    assert found.reason == "selected by `s.b`; whether s.ext changed is not known, so it always runs"
    assert plan(made, "s.b", state, mode=Mode.FILL).tasks == ()
    newer = made_by(plan(made, "s.a", state), made, state)
    (found,) = plan(made, "s.b", newer, mode=Mode.FILL).tasks
    assert found.reason == "selected by `s.b`; its inputs changed since materialization m"


def test_force_runs_everything_that_was_selected_and_nothing_else() -> None:
    state = made_by(plan(CHAIN), CHAIN)
    made = plan(CHAIN, "s.b", state, mode=Mode.FORCE)
    assert [(task.task_key, task.reason) for task in made.tasks] == [("s.b", "selected by `s.b`; forced")]


# Functions that make several assets


def test_any_asset_of_a_function_brings_all_of_it() -> None:
    made = project(
        asset("s.a"),
        asset("s.x", "s.a", unit="s.both"),
        asset("s.y", "s.a", unit="s.both"),
        asset("s.z", "s.y"),
    )
    planned = plan(made, "+s.y")
    both = task(planned, "s.both")
    assert [output.asset_key for output in both.outputs] == ["s.x", "s.y"]
    assert both.reason == "s.y selected by `+s.y`, and with it s.x: one function makes them all; s.a runs before it"
    assert task(plan(made), "s.z").upstream == ("s.both",)
    state = made_by(plan(made), made)
    skipped = plan(made, "s.x", state).skips
    assert [skip.asset_key for skip in skipped] == ["s.x", "s.y"]


# Reruns


def test_only_the_tasks_that_are_named_are_planned() -> None:
    state = made_by(plan(CHAIN, "s.a"), CHAIN)
    made = plan(CHAIN, "*", state, only_tasks=("s.b", "s.c"), rerun_of="run")
    assert [(task.task_key, task.upstream) for task in made.tasks] == [("s.b", ()), ("s.c", ("s.b",))]
    with pytest.raises(Invalid, match=r"no task 's\.none'"):
        plan(CHAIN, "*", only_tasks=("s.a", "s.none"))


# Estimates


def test_a_task_is_estimated_from_the_same_partition_or_from_the_others() -> None:
    made = project(asset("s.a", partitions=[DAILY]))
    state = good(
        ("s.a", part("s.a", date=day(4)), Version("m3", seconds=90.0)),
        usual_seconds={id_of("s.a"): 20.0},
    )
    planned = plan(made, state=state, partitions={"date": "2026-01-04..2026-01-05"})
    assert [task.estimated_seconds for task in planned.tasks] == [90.0, 20.0]
    assert plan(made, partitions={"date": "2026-01-04"}).tasks[0].estimated_seconds is None


def test_a_plan_costs_the_sum_of_its_work_and_lasts_as_long_as_its_longest_path() -> None:
    made = project(asset("s.a"), asset("s.b", "s.a"), asset("s.c", "s.a"), asset("s.new", "s.b"))
    state = good(
        ("s.a", part("s.a"), Version("m1", seconds=1.0)),
        ("s.b", part("s.b"), Version("m2", seconds=2.0)),
        ("s.c", part("s.c"), Version("m3", seconds=5.0)),
    )
    estimate = estimate_plan(plan(made, state=state, mode=Mode.FORCE))
    assert (estimate.work_seconds, estimate.shortest_seconds, estimate.unknown_count) == (8.0, 6.0, 1)


# Requests


@pytest.mark.parametrize(
    ("selection", "more", "why"),
    [
        ("", {}, "nothing is selected"),
        ("s.none", {}, "there is no asset"),
        ("s.a and s.b", {}, "selects nothing"),
        ("*", {"max_parallelism": -1}, "max_parallelism"),
        ("*", {"priority": 10_000}, "priority"),
        ("*", {"timeout_seconds": 0.0}, "timeout_seconds"),
        ("*", {"timeout_seconds": float("nan")}, "timeout_seconds"),
        ("*", {"tags": {"a": "\x00"}}, "unseen character"),
        ("*", {"run_key": "k" * 300}, "run key"),
        ("*", {"tags": dict.fromkeys(map(str, range(51)), "x")}, "too many"),
        ("*", {"partitions": {"date": "2026-01-01"}}, "no selected asset is partitioned by date"),
    ],
)
def test_requests_that_nobody_can_mean_are_refused(selection: str, more: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        plan(CHAIN, selection, **more)


def test_a_cycle_is_refused_with_its_path() -> None:
    with pytest.raises(Invalid, match="cycle"):
        plan(project(asset("s.a", "s.b"), asset("s.b", "s.a")))


def test_an_asset_without_an_id_was_not_deployed() -> None:
    with pytest.raises(Invalid, match="not deployed"):
        make_plan(CHAIN, {}, PlanningState(), RunRequest("*", at=AT), "code_1")
    with pytest.raises(Invalid, match="arco check"):
        plan(project(asset("s.a", "s.none")))


def test_the_fingerprint_of_a_request_is_what_is_asked_and_not_when_or_under_which_name() -> None:
    request = RunRequest("s.a", {"a": "1", "b": "2"}, at=1, run_key="one", only_tasks=("x", "y"))
    same = RunRequest("s.a", {"b": "2", "a": "1"}, at=2, run_key="two", only_tasks=("y", "x", "y"))
    assert request_fingerprint(request) == request_fingerprint(same)
    others = [RunRequest("s.b"), RunRequest("s.a", mode=Mode.FORCE), RunRequest("s.a", priority=1)]
    assert len({request_fingerprint(other) for other in (RunRequest("s.a"), *others)}) == 4


def test_a_plan_depends_on_everything_it_was_made_of() -> None:
    state = made_by(plan(CHAIN), CHAIN)
    plans = [
        plan(CHAIN),
        plan(CHAIN, "s.a"),
        plan(CHAIN, "*", state),
        plan(CHAIN, "*", state, mode=Mode.FORCE),
    ]
    assert len({plan_fingerprint(made) for made in plans}) == len(plans)


def test_dynamic_partitions_are_those_of_the_state() -> None:
    made = project(asset("s.a", partitions=[customers()]))
    state = PlanningState(dynamic={"customers": ("zoe", "adam")})
    assert [task.task_key for task in plan(made, state=state, partitions={"customer": "*"}).tasks] == [
        "s.a[customer=adam]",
        "s.a[customer=zoe]",
    ]
    with pytest.raises(Invalid, match="no keys yet"):
        plan(made, partitions={"customer": "*"})


def test_of_files_of_others_the_partitions_are_planned_and_no_versions() -> None:
    files = Source("landing/{date}.csv", SourceFormat.CSV)
    raw = asset("n.raw", kind=AssetKind.EXTERNAL, function="", partitions=(DAILY,), source=files)
    made = project(raw, asset("n.a", dep("n.raw"), partitions=(DAILY,)))
    first = plan(made, "n.a", partitions={"date": "2026-01-02"})
    (given,) = first.tasks[0].inputs
    assert given.is_source
    assert given.pins == (Pin(part("n.raw", date=day(2)), PartitionKey({"date": day(2)}).canonical),)
    known = good(("n.a", part("n.a", date=day(2)), Version("m1", "1", "some")))
    again = plan(made, "n.a", known, partitions={"date": "2026-01-02"})
    assert "whether n.raw changed is not known" in again.tasks[0].reason
    assert plan(made, "n.a", known, partitions={"date": "2026-01-02"}, mode=Mode.FILL).tasks == ()
    edited = project(raw, asset("n.a", dep("n.raw"), partitions=(DAILY,), code_version="2"))
    (found,) = plan(edited, "n.a", known, partitions={"date": "2026-01-02"}, mode=Mode.FILL).tasks
    assert "its code changed" in found.reason


def test_a_backfill_makes_anew_what_is_made_of_files_and_of_versions_that_it_cannot_compare() -> None:
    files = Source("landing/{date}.csv", SourceFormat.CSV)
    raw = asset("n.raw", kind=AssetKind.EXTERNAL, function="", partitions=(DAILY,), source=files)
    made = project(raw, asset("n.b"), asset("n.a", dep("n.raw"), dep("n.b"), partitions=(DAILY,)))
    known = good(
        ("n.b", part("n.b"), Version("m0", "1")), ("n.a", part("n.a", date=day(2)), Version("m1", "1", "some"))
    )
    (found,) = plan(made, "n.a", known, partitions={"date": "2026-01-02"}, mode=Mode.FILL).tasks
    assert "whether n.raw changed is not known" in found.reason


def test_a_plan_says_when_an_incremental_task_begins_from_scratch() -> None:
    upstream = asset("n.raw", engine=Engine.SPARK)
    made = asset("n.a", Dependency("n.raw", "raw", incremental=True), engine=Engine.SPARK)
    both = project(upstream, made)
    state = made_by(plan(both), both)
    assert "from scratch" in task(plan(both, "n.a", state, mode=Mode.FORCE), "n.a").reason
    assert "from scratch" not in task(plan(both, "n.a", state, mode=Mode.FORCE, rerun_of="r"), "n.a").reason
    changed = project(upstream, msgspec.structs.replace(made, code_version="2"))
    assert "from scratch" in task(plan(changed, "n.a", state), "n.a").reason
