"""What may match, from what is known: in doubt, yes."""

import struct
from typing import Any

import pytest

from arco.iceberg._planning._filters import Predicate
from arco.iceberg._planning._pruning import Known, may_match, may_match_file, of_value
from arco.iceberg._planning._schema import Column
from arco.iceberg._planning._transforms import Condition

INTS = Known("int", 5, 9, null=False, nan=False)
NAN = float("nan")


def may(op: str, *values: Any, known: Known) -> bool:
    return may_match(Condition(op, values), known)


@pytest.mark.parametrize(
    ("op", "values", "expected"),
    [
        ("lt", (5,), False), ("lt", (6,), True), ("lt-eq", (4,), False), ("lt-eq", (5,), True),
        ("gt", (9,), False), ("gt", (8,), True), ("gt-eq", (10,), False), ("gt-eq", (9,), True),
        ("eq", (4,), False), ("eq", (5,), True), ("eq", (9,), True), ("eq", (10,), False),
        ("in", (1, 4, 10), False), ("in", (1, 7), True),
        ("not-eq", (5,), True), ("not-in", (5, 6, 7, 8, 9), True),
        ("is-null", (), False), ("not-null", (), True), ("is-nan", (), False), ("not-nan", (), True),
    ],
)  # fmt: skip
def test_numbers_between_bounds(op: str, values: Any, expected: bool) -> None:
    assert may(op, *values, known=INTS) == expected
    assert may(op, *values, known=Known("int", null=False)) == (op not in ("is-null", "is-nan")), "without bounds"


@pytest.mark.parametrize("op", ["lt", "lt-eq", "gt", "gt-eq", "eq", "in"])
def test_only_nulls(op: str) -> None:
    assert not may(op, 5, known=of_value("int", None))


def test_nulls_and_what_is_not_equal() -> None:
    nothing = of_value("int", None)
    assert may("is-null", known=nothing)
    assert not may("not-null", known=nothing)
    assert may("not-eq", 5, known=nothing), "engines differ in whether null is not 5"


@pytest.mark.parametrize(("op", "values"), [("not-eq", (5,)), ("not-in", (4, 5))])
def test_one_value_is_known_exactly(op: str, values: Any) -> None:
    assert not may(op, *values, known=of_value("int", 5))
    assert may(op, *values, known=of_value("int", 6))
    assert may(op, *values, known=Known("int", 5, 5, null=False, nan=False)), "bounds may be cut"


@pytest.mark.parametrize(
    ("lower", "upper", "prefix", "expected"),
    [
        ("abc", "abz", "ab", True),
        ("abc", "abz", "abm", True),
        ("abc", "abz", "abb", False),
        ("abc", "abz", "b", False),
        ("abc", "abz", "aa", False),
        ("a", "c", "bbbb", True),
        ("ab", "ab", "abc", False),
        ("abc", None, "abb", False),
        (None, "abz", "b", False),
        (None, None, "b", True),
        ("x", "x", "", True),
    ],
)
def test_prefixes(lower: str | None, upper: str | None, prefix: str, expected: bool) -> None:
    assert may("starts-with", prefix, known=Known("string", lower, upper)) == expected
    assert may("not-starts-with", prefix, known=Known("string", lower, upper))


def test_nan_may_be_above_all_numbers() -> None:
    some = Known("double", 1.0, 2.0, null=False)
    assert may("gt", 5.0, known=some)
    assert may("gt-eq", 5.0, known=some)
    assert not may("lt", 0.5, known=some)
    assert not may("gt", 5.0, known=Known("double", 1.0, 2.0, null=False, nan=False))
    assert may("is-nan", known=of_value("double", NAN))
    assert not may("lt", 5.0, known=of_value("double", NAN))
    assert may("not-null", known=of_value("double", NAN))


def test_minus_zero_may_be_below_zero() -> None:
    zero = of_value("double", -0.0)
    assert may("lt", 0.0, known=zero)
    assert may("gt", -0.0, known=of_value("double", 0.0))
    assert not may("lt", -0.5, known=zero)


def test_uuids_have_no_order_to_rely_on() -> None:
    low, high = bytes(16), b"\xff" * 16
    assert may("lt", low, known=of_value("uuid", high))
    assert may("gt", high, known=of_value("uuid", low))
    assert not may("eq", low, known=of_value("uuid", high))
    assert may("eq", low, known=of_value("uuid", low))
    assert may("eq", high, known=Known("uuid"))


def judged(op: str, *values: Any, **stats: dict[int, Any]) -> bool:
    """Whether a file of five rows with these statistics of a column may match."""
    column = Column(3, "x", "double", repeated=False)
    names = {"values": "_109", "nulls": "_110", "nans": "_137", "lower": "_125", "upper": "_128"}
    maps = {names[name]: found for name, found in stats.items()}
    node = Predicate(column, Condition(op, values))
    return may_match_file(node, {"_103": 5}, lambda name, number: maps.get(name, {}).get(number))


LOW, HIGH = {3: struct.pack("<d", 1.0)}, {3: struct.pack("<d", 2.0)}


def test_a_file_without_counts_may_hold_anything() -> None:
    for op in ("is-null", "not-null", "is-nan", "not-nan"):
        assert judged(op)
    assert judged("gt", 5.0, lower=LOW, upper=HIGH), "it may hold NaN"
    assert not judged("lt", 0.5, lower=LOW, upper=HIGH)


def test_counts_of_a_file() -> None:
    assert not judged("is-null", nulls={3: 0})
    assert not judged("not-null", values={3: 5}, nulls={3: 5}, nans={3: 0})
    assert judged("not-null", values={3: 5}, nulls={3: 4}, nans={3: 0})
    assert not judged("is-nan", nans={3: 0})
    assert not judged("gt", 5.0, nans={3: 0}, lower=LOW, upper=HIGH)
    assert not judged("lt", 5.0, values={3: 5}, nulls={3: 2}, nans={3: 3}), "nothing but null and NaN"
    assert judged("lt", 5.0, values={3: -1}, nulls={3: -1}), "not counted"


def test_a_file_without_rows() -> None:
    node = Predicate(Column(3, "x", "double", repeated=False), Condition("is-null"))
    assert not may_match_file(node, {"_103": 0}, lambda name, number: None)
    assert may_match_file(node, {"_103": -1}, lambda name, number: None), "not counted"
