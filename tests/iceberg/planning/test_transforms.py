"""Transforms agree with PyIceberg's, and with the examples of Iceberg's specification."""

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import transforms
from pyiceberg import types as t

from arco.iceberg import BadRequest
from arco.iceberg._planning._murmur import murmur3
from arco.iceberg._planning._transforms import Condition, parse_transform

theirs: Any = transforms


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", 34, 2017239379),
        ("long", 34, 2017239379),
        ("decimal(9,2)", 1420, -500754589),
        ("date", 17486, -653330422),
        ("time", 81068000000, -662762989),
        ("timestamp", 1510871468000000, -2047944441),
        ("timestamp", 1510871468000001, -1207196810),
        ("timestamp_ns", 1510871468000001001, -1207196810),
        ("string", "iceberg", 1210000089),
        ("uuid", UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, 1488055340),
        ("binary", b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_buckets_of_the_specification(kind: str, value: Any, expected: int) -> None:
    """Appendix B: the hash, of which a bucket is the remainder."""
    assert parse_transform(f"bucket[{10**8}]").apply(kind, value) == (expected & 0x7FFFFFFF) % 10**8


@given(st.binary(max_size=40))
def test_murmur_agrees(data: bytes) -> None:
    found = theirs.BucketTransform(2**31 - 1).transform(t.BinaryType())(data)
    assert (murmur3(data) & 0x7FFFFFFF) % (2**31 - 1) == found


@pytest.mark.parametrize("name", ["year", "month", "day"])
@given(days=st.integers(-700_000, 2_900_000))
def test_dates_agree(name: str, days: int) -> None:
    expected = theirs.parse_transform(name).transform(t.DateType())(days)
    assert parse_transform(name).apply("date", days) == expected


@pytest.mark.parametrize("name", ["year", "month", "day", "hour"])
@given(micros=st.integers(-60_000_000 * 10**9, 200_000_000 * 10**9))
def test_timestamps_agree(name: str, micros: int) -> None:
    expected = theirs.parse_transform(name).transform(t.TimestampType())(micros)
    assert parse_transform(name).apply("timestamp", micros) == expected
    assert parse_transform(name).apply("timestamptz_ns", micros * 1000 + 1) == expected


@given(value=st.integers(-(10**6), 10**6), width=st.integers(1, 1000))
def test_truncation_agrees(value: int, width: int) -> None:
    ours = parse_transform(f"truncate[{width}]")
    assert ours.apply("long", value) == theirs.TruncateTransform(width).transform(t.LongType())(value)
    cents = Decimal(value).scaleb(-2)
    expected = theirs.TruncateTransform(width).transform(t.DecimalType(9, 2))(cents)
    assert ours.apply("decimal(9,2)", value) == int(expected.scaleb(2))


@given(value=st.integers(-(10**12), 10**12))
def test_buckets_of_decimals_agree(value: int) -> None:
    expected = theirs.BucketTransform(16).transform(t.DecimalType(18, 2))(Decimal(value).scaleb(-2))
    assert parse_transform("bucket[16]").apply("decimal(18,2)", value) == expected


def test_what_says_nothing() -> None:
    for name in ("void", "zorder", "bucket[0]"):
        assert parse_transform(name).project("int", Condition("eq", (1,))) is None
    assert parse_transform("bucket[4]").project("int", Condition("lt", (1,))) is None
    assert parse_transform("day").project("timestamp", Condition("not-eq", (1,))) is None
    with pytest.raises(BadRequest, match="zorder"):
        parse_transform("zorder", strict=True)


def test_partitions_before_1970_may_be_one_too_high() -> None:
    day = parse_transform("day")
    assert day.project("timestamp", Condition("eq", (-1,))) == Condition("in", (-1, 0))
    assert day.project("timestamp", Condition("lt", (0,))) == Condition("lt-eq", (0,))
    assert day.project("timestamp", Condition("gt-eq", (-1,))) == Condition("gt-eq", (-1,))


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("lt", 10, Condition("lt-eq", (0,))),
        ("lt", 11, Condition("lt-eq", (10,))),
        ("lt-eq", 10, Condition("lt-eq", (10,))),
        ("gt", 9, Condition("gt-eq", (10,))),
        ("gt", 8, Condition("gt-eq", (0,))),
        ("gt-eq", 9, Condition("gt-eq", (0,))),
        ("eq", 19, Condition("eq", (10,))),
    ],
)
def test_whole_numbers_are_rounded_down(op: str, value: int, expected: Condition) -> None:
    assert parse_transform("truncate[10]").project("long", Condition(op, (value,))) == expected


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("lt", "abc", Condition("lt-eq", ("ab",))),
        ("gt", "abc", Condition("gt-eq", ("ab",))),
        ("eq", "abc", Condition("eq", ("ab",))),
        ("starts-with", "abc", Condition("starts-with", ("ab",))),
        ("starts-with", "a", Condition("starts-with", ("a",))),
        ("not-starts-with", "a", None),
    ],
)
def test_texts_are_cut(op: str, value: str, expected: Condition | None) -> None:
    assert parse_transform("truncate[2]").project("string", Condition(op, (value,))) == expected
