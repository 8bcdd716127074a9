"""Partition spaces: all combinations in one order, people's texts in both directions, clear refusals."""

from datetime import UTC, date, datetime
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import (
    Dimension,
    DynamicPartitions,
    PartitionSpace,
    StaticPartitions,
    TimePartitions,
    check_partition_value,
    partition_text,
)
from arco.core import Invalid, PartitionKey, parse_time
from tests.assets.making import AT, days, keys, space

values = st.text(st.characters(exclude_characters=",=. ").filter(str.isprintable), min_size=1, max_size=8).filter(
    lambda text: text != "*" and text.strip() == text
)
statics = st.lists(values, min_size=1, max_size=5, unique=True)


def test_an_asset_without_partitions_has_one_key() -> None:
    one = space()
    assert one.keys() == (PartitionKey.empty(),)
    assert one.count() == 1
    assert one.parse({}) == PartitionKey.empty()
    assert one.select({}) == [PartitionKey.empty()]
    assert one.text(PartitionKey.empty()) == ""
    with pytest.raises(Invalid, match="it has no partitions"):
        one.parse({"date": "2025-01-01"})


@given(st.dictionaries(st.sampled_from("abc"), statics, max_size=3))
@settings(deadline=None)
def test_keys_are_all_combinations_row_by_row(dimensions: dict[str, list[str]]) -> None:
    made = space(*(keys(*texts, name=name) for name, texts in reversed(dimensions.items())))
    names = sorted(dimensions)
    expected = [
        PartitionKey(dict(zip(names, combination, strict=True)))
        for combination in product(*(dimensions[name] for name in names))
    ]
    assert list(made.keys()) == expected
    assert [key.dimensions for key in list(made.keys())] == [key.dimensions for key in expected]
    assert made.count() == len(expected)
    for key in expected:
        assert made.contains(key)
        assert PartitionKey.parse(key.canonical) == key
        assert made.parse({name: str(value) for name, value in key.dimensions}) == key


@given(statics, st.integers(0, 4), st.integers(0, 4))
@settings(deadline=None)
def test_selections_are_keys_in_order(texts: list[str], low: int, high: int) -> None:
    made = space(keys(*texts))
    low, high = sorted((low % len(texts), high % len(texts)))
    names = [str(key.dimensions[0][1]) for key in made.select({"region": f"{texts[low]}..{texts[high]}"})]
    assert names == texts[low : high + 1]
    assert made.select({"region": "*"}) == list(made.keys())
    assert made.select({"region": ",".join(reversed(texts))}) == list(made.keys())
    assert made.select({"region": f"..{texts[high]}"}) == list(made.keys())[: high + 1]
    assert made.select({"region": f"{texts[low]}.."}) == list(made.keys())[low:]


def test_dates_are_written_as_people_write_them() -> None:
    made = space(days(), keys("eu", "us"))
    key = made.parse({"date": "2025-03-01", "region": "eu"})
    assert key == PartitionKey({"date": date(2025, 3, 1), "region": "eu"})
    assert made.text(key) == partition_text(key) == "date=2025-03-01,region=eu"
    assert made.window(key) == (parse_time("2025-03-01T00:00:00Z"), parse_time("2025-03-02T00:00:00Z"))
    assert len(made.select({"date": "2025-01-01..2025-01-31", "region": "*"})) == 62
    assert len(made.select({"date": "2025-01-30..2025-02-02,2025-12-31", "region": "us"})) == 5


def test_times_are_read_in_any_zone_and_written_in_utc() -> None:
    hours = Dimension("hour", TimePartitions("0 * * * *", "2025-01-01", timezone="Europe/Berlin", values="time"))
    made = space(hours)
    key = PartitionKey({"hour": datetime(2025, 7, 1, 4, tzinfo=UTC)})
    assert made.parse({"hour": "2025-07-01T04:00Z"}) == key
    assert made.parse({"hour": "2025-07-01T06:00"}) == key
    assert made.parse({"hour": "2025-07-01T09:30+05:30"}) == key
    assert made.text(key) == "hour=2025-07-01T04:00Z"
    assert made.parse({"hour": made.text(key).partition("=")[2]}) == key


def test_the_range_of_time_need_not_end_at_windows() -> None:
    weeks = Dimension("date", TimePartitions("0 0 * * 1", "2025-01-01"))
    chosen = space(weeks).select({"date": "2025-01-07..2025-01-28"})
    assert [partition_text(key) for key in chosen] == ["date=2025-01-13", "date=2025-01-20", "date=2025-01-27"]


@pytest.mark.parametrize(
    ("given_values", "words"),
    [
        ({"date": "2026-01-01", "region": "eu"}, "outside the range.*2025-01-01 to 2025-12-31.*nearest: 2025-12-31"),
        ({"date": "2024-12-31", "region": "eu"}, "outside the range.*nearest: 2025-01-01"),
        ({"date": "2025-01-01", "region": "eux"}, "outside the range.*eu, us; nearest: eu"),
        ({"date": "tomorrow", "region": "eu"}, "no date; write it as"),
        ({"date": "2025-01-01"}, "region must be given.*region=\\* for all"),
        ({}, "dimensions date, region must be given"),
        (
            {"date": "2025-01-01", "region": "eu", "zone": "x"},
            "no partition dimension 'zone'; its dimensions are date, region",
        ),
        ({"date": "2026-02-01..2026-03-01", "region": "eu"}, "outside the range: date has nothing"),
        ({"date": "2025-02-01..2025-01-01", "region": "eu"}, r"its FROM \(--from\) is after its TO \(--to\)"),
        ({"date": "2025-01-01", "region": "us..eu"}, r"its FROM \(--from\) is after its TO \(--to\)"),
        ({"date": "2024-01-01..2024-01-02", "region": "eu"}, "has nothing in '2024-01-01..2024-01-02'; it has 2025"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(given_values: dict[str, str], words: str) -> None:
    made = space(days(), keys("eu", "us"))
    with pytest.raises(Invalid, match=words):
        made.select(given_values)


def test_a_window_that_has_not_ended_is_outside_the_range() -> None:
    assert space(days(), at="2025-01-02T00:00:00Z").count() == 1
    with pytest.raises(Invalid, match="no window that has ended"):
        space(days(), at="2025-01-01T23:00:00Z").parse({"date": "2025-01-01"})


def test_dynamic_keys_are_those_given() -> None:
    dimension = Dimension("customer", DynamicPartitions("customers"))
    found = space(dimension, dynamic={"customers": ["b", "a"]}).keys()
    assert [str(key) for key in found] == ["customer=s:b", "customer=s:a"]
    assert space(dimension).keys() == ()
    assert space(dimension, dynamic={"customers": ["a"]}).count() == 1
    with pytest.raises(Invalid, match="no keys yet"):
        space(dimension).parse({"customer": "a"})


def test_a_key_of_other_dimensions_is_not_contained() -> None:
    made = space(days(), keys("eu"))
    assert made.contains(PartitionKey({"date": date(2025, 1, 1), "region": "eu"}))
    assert not made.contains(PartitionKey({"date": date(2025, 1, 1)}))
    assert not made.contains(PartitionKey({"date": "2025-01-01", "region": "eu"}))
    assert not made.contains(PartitionKey.empty())
    assert not space(days()).contains(PartitionKey({"date": date(2025, 1, 1), "region": "eu"}))


def test_answers_do_not_depend_on_what_was_asked_before() -> None:
    early, late = parse_time("2025-02-01T00:00:00Z"), AT
    counts = [space(days(), at=at).count() for at in (late, early, late, early)]
    assert counts == [365, 31, 365, 31]
    both = [PartitionSpace((days(), keys("a", "b")), at).keys() for at in (early, late, early)]
    assert both[0] == both[2]
    assert both[1][: len(both[0])] == both[0]


@given(values)
@settings(deadline=None)
def test_a_value_that_stands_for_itself_is_accepted(text: str) -> None:
    assert check_partition_value(text) == text
    assert space(keys(text)).select({"region": text}) == [PartitionKey({"region": text})]


@pytest.mark.parametrize("text", ["", "*", "a,b", "a=b", "a..b", " a", "a ", "a\nb", "a\x00", "x" * 300])
def test_a_value_that_would_mean_something_else_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="partition key"):
        check_partition_value(text)


def test_two_equal_keys_and_too_many_are_refused() -> None:
    with pytest.raises(Invalid, match="twice"):
        space(keys("a", "a"))
    many = [Dimension(name, StaticPartitions(tuple(str(n) for n in range(1001)))) for name in ("a", "b")]
    with pytest.raises(Invalid, match="1,002,001 partitions"):
        space(*many)


def test_several_keys_of_one_day_are_refused() -> None:
    with pytest.raises(Invalid, match="twice"):
        space(Dimension("date", TimePartitions("0 * * * *", "2025-01-01")))
