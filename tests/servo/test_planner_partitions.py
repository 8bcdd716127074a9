"""Partitions in plans: which ones a request means, and which ones of a dependency they need."""

import pytest

from arco.assets import All, AssetKind, Dimension, Latest, Offset, StaticPartitions, TimePartitions, Window
from arco.core import Invalid, TooLarge
from arco.domains.orchestration.plan import Plan
from arco.servo._planning_state import Version
from arco.servo._reasons import SkipKind, skip_kind
from tests.servo.projects import DAILY, REGION, asset, day, dep, good, made_by, part, plan, project, task

WEEKLY = Dimension("date", TimePartitions("0 0 * * 1", "2025-12-29"))
LATER = Dimension("date", TimePartitions("0 0 * * *", "2026-01-05"))


def keys(of: Plan) -> list[str]:
    return [task.task_key for task in of.tasks]


def test_a_partitioned_asset_needs_to_be_told_which_and_says_what_there_is() -> None:
    made = project(asset("s.a", partitions=[DAILY, REGION]), asset("s.b"))
    with pytest.raises(Invalid) as caught:
        plan(made)
    assert caught.value.message == (
        "s.a is partitioned by date, region; say which with --partition date=KEY --partition region=KEY, a range as "
        "FROM..TO, or * for all (date: 2026-01-01 to 2026-01-09 (windows that have ended); region: eu, us)"
    )
    with pytest.raises(Invalid, match="--partition region=KEY"):
        plan(made, partitions={"date": "*"})
    with pytest.raises(Invalid, match="partitioned by date, region, not by 'dat'; say which with"):
        plan(made, partitions={"dat": "*", "region": "eu"})


def test_partitions_apply_to_every_selected_asset_that_has_the_dimension() -> None:
    made = project(
        asset("s.days", partitions=[DAILY]), asset("s.regions", partitions=[DAILY, REGION]), asset("s.whole")
    )
    assert keys(plan(made, partitions={"date": "2026-01-02,2026-01-04", "region": "eu"})) == [
        "s.days[date=2026-01-02]",
        "s.days[date=2026-01-04]",
        "s.regions[date=2026-01-02,region=eu]",
        "s.regions[date=2026-01-04,region=eu]",
        "s.whole",
    ]


def test_a_range_of_time_holds_for_every_dimension_of_time() -> None:
    hours = Dimension("hour", TimePartitions("0 */12 * * *", "2026-01-01", values="time"))
    made = project(asset("s.days", partitions=[DAILY, REGION]), asset("s.hours", partitions=[hours]), asset("s.whole"))
    found = plan(made, partitions={"region": "eu"}, window="2026-01-02..")
    assert {key.partition("[")[0] for key in keys(found)} == {"s.days", "s.hours", "s.whole"}
    assert keys(plan(made, "s.days", partitions={"region": "us"}, window="..2026-01-02")) == [
        "s.days[date=2026-01-01,region=us]",
        "s.days[date=2026-01-02,region=us]",
    ]
    given = {"region": "us", "date": "2026-01-05"}
    named = plan(made, "s.days,s.hours", partitions=given, window="2026-01-08T12:00Z..2026-01-08T12:00Z")
    assert keys(named) == ["s.days[date=2026-01-05,region=us]", "s.hours[hour=2026-01-08T12:00Z]"]
    for window, said in (("2026-01-02", "no range of time"), ("2027-01-01..", "outside the range"), ("x..", "no date")):
        with pytest.raises(Invalid, match=said):
            plan(made, "s.days", partitions={"region": "us"}, window=window)
    with pytest.raises(Invalid, match="partitioned by time"):
        plan(made, "s.whole", window="2026-01-02..")
    with pytest.raises(Invalid, match="--partition region=KEY"):
        plan(made, "s.days", window="2026-01-02..")


def test_partitions_may_be_named_one_by_one() -> None:
    made = project(asset("s.both", partitions=[DAILY, REGION]), asset("s.days", partitions=[DAILY]), asset("s.whole"))
    found = plan(
        made, partition_keys=("region=us,date=2026-01-04", "date=2026-01-02,region=eu", "date=2026-01-02,region=us")
    )
    assert keys(found) == [
        "s.both[date=2026-01-02,region=eu]",
        "s.both[date=2026-01-02,region=us]",
        "s.both[date=2026-01-04,region=us]",
        "s.days[date=2026-01-02]",
        "s.days[date=2026-01-04]",
        "s.whole",
    ]
    assert keys(plan(made, "s.days", partition_keys=("2026-01-03", "2026-01-01"))) == [
        "s.days[date=2026-01-01]",
        "s.days[date=2026-01-03]",
    ]


@pytest.mark.parametrize(
    ("selection", "given", "said"),
    [
        ("s.both", "2026-01-02", "which date is meant; write date=KEY, region=KEY"),
        ("s.both", "date=2026-01-02", "which region is meant"),
        ("s.days", "date=2027-01-02", "outside the range"),
        ("s.days", "region=eu", "which date is meant"),
        ("s.days", "date=2026-01-02,date=2026-01-03", "names no partition"),
        ("s.days", "date=", "names no partition"),
        ("s.days", "2026-01-01,2026-01-02", "names no partition"),
        ("s.days", "", "names no partition"),
        ("s.whole", "2026-01-02", "no selected asset has partitions"),
    ],
)
def test_a_partition_of_a_list_that_is_none_is_refused(selection: str, given: str, said: str) -> None:
    made = project(asset("s.both", partitions=[DAILY, REGION]), asset("s.days", partitions=[DAILY]), asset("s.whole"))
    with pytest.raises(Invalid, match=said):
        plan(made, selection, partition_keys=(given,))


def test_a_list_stands_alone() -> None:
    made = project(asset("s.days", partitions=[DAILY]))
    for more in ({"partitions": {"date": "*"}}, {"window": "2026-01-01.."}):
        with pytest.raises(Invalid, match="one by one"):
            plan(made, partition_keys=("2026-01-02",), **more)
    with pytest.raises(TooLarge, match="one by one"):
        plan(made, partition_keys=("x",) * 100_001)


def test_each_asset_gets_those_that_exist_in_its_own_range() -> None:
    made = project(asset("s.old", partitions=[DAILY]), asset("s.young", partitions=[LATER]))
    assert keys(plan(made, partitions={"date": "2026-01-04..2026-01-05"})) == [
        "s.old[date=2026-01-04]",
        "s.old[date=2026-01-05]",
        "s.young[date=2026-01-05]",
    ]
    lone = plan(made, partitions={"date": "2026-01-04"})
    assert keys(lone) == ["s.old[date=2026-01-04]"]
    (skip,) = lone.skips
    assert (skip.asset_key, skip_kind(skip)) == ("s.young", SkipKind.CANNOT_RUN)
    assert "partition outside the range" in skip.reason


@pytest.mark.parametrize("value", ["2025-12-31", "2026-01-10", "2026-01-02,2027-01-01", "2027-01-01..2027-02-01", "x"])
def test_a_key_that_no_asset_has_is_refused(value: str) -> None:
    made = project(asset("s.a", partitions=[DAILY]), asset("s.b", partitions=[LATER]), asset("s.c"))
    with pytest.raises(Invalid, match=r"range|is no date"):
        plan(made, partitions={"date": value})


def test_a_dimension_that_no_selected_asset_has_is_refused() -> None:
    made = project(asset("s.a", partitions=[DAILY]), asset("s.b", partitions=[REGION]))
    with pytest.raises(Invalid, match="no selected asset is partitioned by region"):
        plan(made, "s.a", partitions={"date": "*", "region": "eu"})


def test_the_same_day_is_read_of_a_dependency_with_the_same_days() -> None:
    made = project(asset("s.a", partitions=[DAILY]), asset("s.b", "s.a", partitions=[DAILY]))
    planned = plan(made, partitions={"date": "2026-01-02..2026-01-03"})
    found = task(planned, "s.b[date=2026-01-03]")
    assert found.upstream == ("s.a[date=2026-01-03]",)
    assert [pin.partition_key for pin in found.inputs[0].pins] == ["date=d:2026-01-03"]
    assert found.inputs[0].is_partitioned


def test_offsets_and_windows_reach_other_days_inside_and_outside_of_the_plan() -> None:
    made = project(
        asset("s.a", partitions=[DAILY]),
        asset("s.before", dep("s.a", date=Offset(-1)), partitions=[DAILY]),
        asset("s.window", dep("s.a", date=Window(-2)), partitions=[DAILY]),
    )
    state = good(("s.a", part("s.a", date=day(3)), Version("m3")))
    planned = plan(made, state=state, partitions={"date": "2026-01-04..2026-01-05"})
    before = task(planned, "s.before[date=2026-01-04]")
    assert (before.upstream, before.inputs[0].pins[0].materialization_id) == ((), "m3")
    assert before.inputs[0].mapping == "date: offset(-1)"
    assert task(planned, "s.before[date=2026-01-05]").upstream == ("s.a[date=2026-01-04]",)
    window = task(planned, "s.window[date=2026-01-05]")
    assert window.upstream == ("s.a[date=2026-01-04]", "s.a[date=2026-01-05]")
    assert [pin.materialization_id for pin in window.inputs[0].pins] == ["m3", "", ""]
    (skip,) = planned.skips
    assert (skip.asset_key, skip.partition_key) == ("s.window", "date=d:2026-01-04")
    assert "it needs s.a[date=2026-01-02]" in skip.reason
    assert skip.reason.endswith("`arco run +s.a --partition date=2026-01-02`")


def test_a_window_may_reach_beyond_the_first_day() -> None:
    made = project(asset("s.a", partitions=[DAILY]), asset("s.b", dep("s.a", date=Window(-6)), partitions=[DAILY]))
    planned = plan(made, partitions={"date": "2026-01-01..2026-01-02"})
    assert len(task(planned, "s.b[date=2026-01-01]").inputs[0].pins) == 1
    assert len(task(planned, "s.b[date=2026-01-02]").inputs[0].pins) == 2


def test_all_and_latest_do_not_depend_on_the_own_partition() -> None:
    made = project(
        asset("s.a", partitions=[REGION]),
        asset("s.all", "s.a"),
        asset("s.latest", dep("s.a", region=Latest())),
        asset("s.each", dep("s.a", region=All()), partitions=[DAILY]),
    )
    planned = plan(made, partitions={"region": "*", "date": "2026-01-02"})
    both = ("s.a[region=eu]", "s.a[region=us]")
    assert task(planned, "s.all").upstream == both
    assert task(planned, "s.latest").upstream == both[1:]
    assert task(planned, "s.each[date=2026-01-02]").upstream == both


def test_one_missing_partition_of_all_is_enough_not_to_run() -> None:
    made = project(asset("s.a", partitions=[REGION]), asset("s.all", "s.a"))
    state = good(("s.a", part("s.a", region="eu"), Version("m1")))
    (skip,) = plan(made, "s.all", state).skips
    assert "s.a[region=us]" in skip.reason
    assert keys(plan(made, state=state, partitions={"region": "us"})) == ["s.a[region=us]", "s.all"]


def test_windows_of_other_lengths_are_read_where_they_overlap() -> None:
    made = project(asset("s.days", partitions=[DAILY]), asset("s.weeks", "s.days", partitions=[WEEKLY]))
    planned = plan(made, "s.days", partitions={"date": "*"})
    state = made_by(planned, made)
    (week,) = plan(made, "s.weeks", state, partitions={"date": "2025-12-29"}).tasks
    assert [pin.partition_key for pin in week.inputs[0].pins] == [f"date=d:2026-01-0{n}" for n in (1, 2, 3, 4)]


def test_a_mapping_that_selects_nothing_is_a_skip_beside_what_runs_and_refused_alone() -> None:
    made = project(asset("s.a", partitions=[DAILY]), asset("s.b", dep("s.a", date=Offset(-1)), partitions=[DAILY]))
    planned = plan(made, partitions={"date": "2026-01-01..2026-01-02"})
    assert "s.b[date=2026-01-02]" in keys(planned)
    (skip,) = planned.skips
    assert skip.reason.startswith("cannot run: mapping selects nothing")
    with pytest.raises(Invalid, match="mapping selects nothing"):
        plan(made, "s.b", partitions={"date": "2026-01-01"})
    state = made_by(plan(made, partitions={"date": "*"}), made)
    again = plan(made, "s.b", state, partitions={"date": "*"})
    assert again.tasks == ()
    assert {skip_kind(skip) for skip in again.skips} == {SkipKind.CANNOT_RUN, SkipKind.UP_TO_DATE}


def test_a_day_is_up_to_date_for_itself() -> None:
    made = project(asset("s.a", partitions=[DAILY]), asset("s.b", "s.a", partitions=[DAILY]))
    state = made_by(plan(made, partitions={"date": "2026-01-02..2026-01-04"}), made)
    newer = made_by(plan(made, "s.a", state, partitions={"date": "2026-01-03"}), made, state)
    planned = plan(made, "s.b", newer, partitions={"date": "2026-01-02..2026-01-04"})
    assert keys(planned) == ["s.b[date=2026-01-03]"]
    assert [skip.partition_key for skip in planned.skips] == ["date=d:2026-01-02", "date=d:2026-01-04"]


def test_partitions_of_what_others_make_do_not_matter() -> None:
    made = project(
        asset("s.ext", kind=AssetKind.EXTERNAL, function="", partitions=[LATER]),
        asset("s.a", "s.ext", partitions=[DAILY]),
    )
    assert keys(plan(made, "s.a", partitions={"date": "2026-01-02"})) == ["s.a[date=2026-01-02]"]


def test_more_tasks_than_anybody_can_mean_are_refused_before_they_are_made() -> None:
    many = [Dimension(name, StaticPartitions(tuple(map(str, range(300))))) for name in ("a", "b")]
    made = project(*(asset(f"s.a{number}", partitions=many) for number in range(12)))
    with pytest.raises(TooLarge, match="1,080,000 tasks"):
        plan(made, partitions={"a": "*", "b": "*"})


def test_the_cure_is_a_command_that_makes_what_is_missing() -> None:
    odd = Dimension("name", StaticPartitions(("a b", "c")))
    made = project(
        asset("s.a", partitions=[odd, REGION]), asset("s.same", "s.a", partitions=[odd, REGION]), asset("s.all", "s.a")
    )
    (same,) = plan(made, "s.same", partitions={"name": "a b", "region": "us"}).skips
    assert same.reason.endswith("`arco run +s.same --partition 'name=a b' --partition region=us`")
    (every,) = plan(made, "s.all").skips
    assert every.reason.endswith("`arco backfill +s.a --partition 'name=a b..c' --partition region=eu..us`")
    assert len(plan(made, "+s.a", partitions={"name": "a b..c", "region": "eu..us"}).tasks) == 4


def test_values_of_static_keys_may_hold_anything_that_a_key_may() -> None:
    odd = Dimension("name", StaticPartitions(("Köln", "a b", '"q"')))
    made = project(asset("s.a", partitions=[odd]))
    assert keys(plan(made, partitions={"name": "Köln"})) == ["s.a[name=Köln]"]
    assert len(plan(made, partitions={"name": "*"}).tasks) == 3
