"""Canonical JSON: equal values have equal bytes, the bytes are the value, and what has none is named."""

import hashlib
import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import Invalid, canonical_json, fingerprint, sha256_hex

SAFE = 2**53 - 1
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = (
    st.none() | st.booleans() | st.integers(-SAFE, SAFE) | st.floats(allow_nan=False, allow_infinity=False) | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


@given(values)
def test_the_text_is_the_value(value: Any) -> None:
    # JSON has one kind of number; Python's reader takes a float such as 1e17 for an integer if it is let.
    assert json.loads(canonical_json(value), parse_int=float) == value


@given(values)
def test_the_text_is_a_fixed_point_and_ignores_the_order_of_keys(value: Any) -> None:
    text = canonical_json(value)
    assert canonical_json(reversed_keys(value)) == text
    assert fingerprint(value) == sha256_hex(text) == hashlib.sha256(text).hexdigest()


@given(values, values)
def test_different_values_have_different_texts(one: Any, other: Any) -> None:
    # Python thinks that True is 1; JSON does not.
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    if canonical_json(one) == canonical_json(other):
        assert one == other
    elif same:
        pytest.fail("one value has two texts")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r"^\$ has no canonical JSON: NaN"),
        ([0, float("inf")], r"^\$\[1\] has no canonical JSON: NaN and infinity"),
        ({"a": {"b c": [1, 2**53]}}, r"^\$\.a\['b c'\]\[1\] has no canonical JSON: the integer is beyond"),
        (-(2**53), r"the integer is beyond"),
        ([10**5000], r"the integer is beyond"),
        ("\ud800", r"lone surrogate"),
        ({"x": {"\udfff": 1}}, r"^\$\.x has no canonical JSON: an object key has a lone surrogate"),
        ({1: 2}, r"an object key is of type int"),
        ({"a": 1, 2: 3}, r"an object key is of type int"),
        ({"when": date(2025, 1, 15)}, r"^\$\.when has no canonical JSON: the type date"),
        ((b"x",), r"^\$\[0\] has no canonical JSON: the type bytes"),
        ({1, 2}, r"the type set"),
    ],
)
def test_what_is_not_json_is_refused_by_place_and_reason(value: object, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        canonical_json(value)


def test_endless_nesting_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(Invalid, match="nested too deeply"):
        canonical_json(loop)


def test_the_refused_value_is_shown_neither_by_the_error_nor_by_its_cause() -> None:
    with pytest.raises(Invalid) as refusal:
        canonical_json({"token": ["hunter2\ud800"]})
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__
    assert refusal.value.details == {"path": "$.token[0]"}
