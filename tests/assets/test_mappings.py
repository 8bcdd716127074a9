"""Mappings: which partitions are needed, that nothing is never selected silently, and that the short ways agree."""

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import (
    All,
    Custom,
    Dependency,
    Dimension,
    Identity,
    Latest,
    Mapping,
    Offset,
    PartitionSpace,
    TimePartitions,
    Window,
    mapping_text,
    partition_text,
    upstream_keys,
)
from arco.core import Invalid, PartitionKey
from tests.assets.making import days, keys, space

WEEKS = Dimension("date", TimePartitions("0 0 * * 1", "2025-01-01"))
MONTHS = Dimension("date", TimePartitions("0 0 1 * *", "2025-01-01"))
HOURS = Dimension("date", TimePartitions("0 * * * *", "2025-01-01", values="time"))


def needed(own: PartitionSpace, theirs: PartitionSpace, values: dict[str, str], **mappings: Mapping) -> list[str]:
    found = upstream_keys(Dependency("sales.orders", mappings=mappings), own, theirs, own.parse(values))
    assert all(theirs.contains(key) for key in found)
    return [partition_text(key) for key in found]


def test_the_same_key_is_the_default() -> None:
    assert needed(space(days()), space(days()), {"date": "2025-03-01"}) == ["date=2025-03-01"]
    assert needed(space(days()), space(days("2025-02-01")), {"date": "2025-03-01"}) == ["date=2025-03-01"]
    assert needed(space(keys("eu", "us")), space(keys("us", "eu", "ap")), {"region": "eu"}) == ["region=eu"]


def test_a_dimension_the_asset_lacks_is_needed_whole() -> None:
    found = needed(space(days()), space(days(), keys("eu", "us")), {"date": "2025-03-01"})
    assert found == ["date=2025-03-01,region=eu", "date=2025-03-01,region=us"]
    assert needed(space(), space(keys("eu", "us")), {}) == ["region=eu", "region=us"]


def test_a_dimension_the_dependency_lacks_does_not_matter() -> None:
    values = {"date": "2025-03-01", "region": "eu"}
    assert needed(space(days(), keys("eu")), space(days()), values) == ["date=2025-03-01"]
    assert needed(space(days()), space(), {"date": "2025-03-01"}) == [""]


def test_windows_of_different_length_need_those_that_overlap() -> None:
    weekly = needed(space(WEEKS), space(days()), {"date": "2025-01-06"})
    assert weekly == [f"date=2025-01-{day:02}" for day in range(6, 13)]
    assert needed(space(days()), space(WEEKS), {"date": "2025-01-08"}) == ["date=2025-01-06"]
    assert len(needed(space(MONTHS), space(days()), {"date": "2025-02-01"})) == 28
    assert len(needed(space(days()), space(HOURS), {"date": "2025-02-01"})) == 24
    across = needed(space(WEEKS), space(MONTHS), {"date": "2025-01-27"})
    assert across == ["date=2025-01-01", "date=2025-02-01"]


def test_days_of_two_zones_overlap_two() -> None:
    tokyo = days(timezone="Asia/Tokyo")
    assert needed(space(tokyo), space(days()), {"date": "2025-03-02"}) == ["date=2025-03-01", "date=2025-03-02"]


def test_all_and_latest() -> None:
    own, theirs = space(days()), space(days(), at="2025-01-04T00:00:00Z")
    assert needed(own, theirs, {"date": "2025-03-01"}, date=All()) == [f"date=2025-01-0{day}" for day in (1, 2, 3)]
    assert needed(own, theirs, {"date": "2025-03-01"}, date=Latest()) == ["date=2025-01-03"]


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (Window(-2), ["03", "04", "05"]),
        (Window(-2, -1), ["03", "04"]),
        (Window(1, 2), ["06", "07"]),
        (Window(-9, 1), ["01", "02", "03", "04", "05", "06"]),
        (Window(90, 95), []),
        (Offset(-1), ["04"]),
        (Offset(2), ["07"]),
        (Offset(0), ["05"]),
    ],
)
def test_neighbours(mapping: Mapping, expected: list[str]) -> None:
    own = theirs = space(days(), at="2025-02-01T00:00:00Z")
    assert needed(own, theirs, {"date": "2025-01-05"}, date=mapping) == [f"date=2025-01-{day}" for day in expected]


def test_neighbours_of_a_longer_window_are_counted_from_its_ends() -> None:
    own, theirs = space(WEEKS), space(days())
    assert needed(own, theirs, {"date": "2025-01-13"}, date=Window(-2, -1)) == ["date=2025-01-11", "date=2025-01-12"]
    assert needed(own, theirs, {"date": "2025-01-13"}, date=Window(1, 1)) == ["date=2025-01-20"]
    assert len(needed(own, theirs, {"date": "2025-01-13"}, date=Window(-2))) == 9
    assert needed(own, theirs, {"date": "2025-01-13"}, date=Offset(-7))[0] == "date=2025-01-06"


def test_an_excluded_window_is_between_its_neighbours() -> None:
    own, theirs = space(days()), space(days(exclusions=("2025-01-05",)))
    assert needed(own, theirs, {"date": "2025-01-05"}, date=Offset(-1)) == ["date=2025-01-04"]
    assert needed(own, theirs, {"date": "2025-01-05"}, date=Offset(1)) == ["date=2025-01-06"]
    assert needed(own, theirs, {"date": "2025-01-05"}, date=Window(-1, 1)) == ["date=2025-01-04", "date=2025-01-06"]
    for nothing in (Identity(), Offset(0)):
        with pytest.raises(Invalid, match="mapping selects nothing"):
            needed(own, theirs, {"date": "2025-01-05"}, date=nothing)


@given(st.integers(0, 364), st.integers(-40, 40), st.integers(0, 30), st.integers(0, 300))
@settings(deadline=None)
def test_neighbours_beyond_the_range_are_days_of_the_calendar(day: int, first: int, length: int, start: int) -> None:
    own = space(days())
    first_day = date.fromordinal(date(2025, 1, 1).toordinal() + start)
    theirs = space(days(first_day.isoformat(), end="2025-11-30"))
    key = own.keys()[day]
    found = upstream_keys(Dependency("a.b", mappings={"date": Window(first, first + length)}), own, theirs, key)
    ordinal = date(2025, 1, 1).toordinal() + day
    wanted = {date.fromordinal(ordinal + step) for step in range(first, first + length + 1)}
    assert list(found) == [one for one in list(theirs.keys()) if one.dimensions[0][1] in wanted]


@given(st.integers(0, 364), st.sampled_from([Identity(), Window(-3, 2), All(), Latest()]))
@settings(deadline=None)
def test_the_short_way_gives_what_the_long_way_gives(day: int, mapping: Mapping) -> None:
    own, longer = space(days()), space(days(), keys("x"))
    one = upstream_keys(Dependency("a.b", mappings={"date": mapping}), own, own, own.keys()[day])
    two = upstream_keys(Dependency("a.b", mappings={"date": mapping}), own, longer, own.keys()[day])
    assert [partition_text(key) for key in one] == [partition_text(key).partition(",")[0] for key in two]


def test_custom_keys() -> None:
    countries = space(keys("de", "fr", "us", name="country"))
    own = space(keys("eu", "am"))
    by_region = Custom({"eu": ("fr", "de"), "am": ("us",)})
    assert needed(own, countries, {"region": "eu"}, country=by_region) == ["country=de", "country=fr"]
    with pytest.raises(Invalid, match=r"selects nothing.*region=am.*country.*add this key"):
        needed(own, countries, {"region": "am"}, country=Custom({"eu": ("de",)}))
    with pytest.raises(Invalid, match="outside the range: country=xx"):
        needed(own, countries, {"region": "am"}, country=Custom({"am": ("xx",)}))
    quarters = Custom({"2025-01-01": ("de",)})
    assert needed(space(MONTHS), countries, {"date": "2025-01-01"}, country=quarters) == ["country=de"]


@pytest.mark.parametrize(
    ("own", "theirs", "values", "mappings"),
    [
        (space(days()), space(days("2025-06-01")), {"date": "2025-01-01"}, {}),
        (space(days()), space(days()), {"date": "2025-01-01"}, {"date": Offset(-1)}),
        (space(days()), space(days(), at="2025-01-01T00:00:00Z"), {"date": "2025-01-01"}, {"date": Latest()}),
        (space(days()), space(days(), at="2025-01-01T00:00:00Z"), {"date": "2025-01-01"}, {"date": All()}),
        (space(keys("eu")), space(keys("us")), {"region": "eu"}, {}),
        (space(keys("eu")), space(days(name="region")), {"region": "eu"}, {}),
    ],
)
def test_a_mapping_that_selects_nothing_is_refused(
    own: PartitionSpace, theirs: PartitionSpace, values: dict[str, str], mappings: dict[str, Mapping]
) -> None:
    with pytest.raises(Invalid, match=r"mapping selects nothing: partition .* of sales\.orders") as refused:
        needed(own, theirs, values, **mappings)
    assert refused.value.details["dependency"] == "sales.orders"
    assert refused.value.details["partition"] == partition_text(own.parse(values))


def test_a_key_that_does_not_exist_is_refused() -> None:
    strange = PartitionKey({"date": date(1999, 1, 1)})
    for theirs in (space(days()), space(WEEKS)):
        with pytest.raises(Invalid, match="partition outside the range: date=1999-01-01"):
            upstream_keys(Dependency("a.b"), space(days()), theirs, strange)


def test_mappings_are_written_for_people() -> None:
    mappings: dict[str, Mapping] = {"date": Offset(-1), "region": All(), "country": Window(-2, 1)}
    assert mapping_text(Dependency("a.b", mappings=mappings)) == "country: window(-2, 1), date: offset(-1), region: all"
    assert mapping_text(Dependency("a.b")) == ""
