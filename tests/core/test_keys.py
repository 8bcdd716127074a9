"""Keys have one text, different keys have different texts, and ids follow from the texts alone."""

import copy
from dataclasses import FrozenInstanceError
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arco.core import (
    AssetId,
    AssetKey,
    Invalid,
    PartitionKey,
    Scalar,
    Ulid,
    canonical_json,
    dependency_fingerprint,
    edge_id,
    partition_id,
    sha256_hex,
)

A = AssetId(Ulid("01ARZ3NDEKTSV4RRFFQ69G5FAV"))
B = AssetId(Ulid("01JHMZ8Q5E8K6T1V0XW9Y2N3B4"))

names = st.from_regex(r"[a-z][a-z0-9_]{0,4}", fullmatch=True)
# Few characters, and the dangerous ones: collisions are found, not hoped for.
texts = st.text(st.sampled_from('ab,=:\\"\n\x00u002cs\u00e9\u20ac\U0001f600'), max_size=6) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=6
)
offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=offsets)
scalars: st.SearchStrategy[Scalar] = (
    texts | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.dates() | moments | st.none()
)
mappings = st.dictionaries(names, scalars, max_size=4)


def typed(values: dict[str, Scalar]) -> list[tuple[str, str, Scalar]]:
    """What the key means, types included: `True == 1`, but they are not the same partition."""
    return [(name, type(values[name]).__name__, values[name]) for name in sorted(values)]


@given(mappings)
def test_the_canonical_text_is_parsed_back_exactly(values: dict[str, Scalar]) -> None:
    key = PartitionKey(values)
    again = PartitionKey.parse(key.canonical)
    assert again == key
    assert typed(again.to_dict()) == typed(key.to_dict()) == typed(values)


@given(mappings, mappings)
@example({"a": True}, {"a": 1})
@example({"a": False}, {"a": 0})
@example({"a": "x,b=s:y"}, {"a": "x", "b": "y"})
@example({"a": "\\u002c"}, {"a": ","})
@example({"a": "null"}, {"a": None})
@example({"a": date(2025, 1, 15)}, {"a": datetime(2025, 1, 15, tzinfo=UTC)})
@example({"a": "\u00e9"}, {"a": "e\u0301"})
@example({}, {"a": ""})
def test_two_keys_share_a_text_only_if_they_are_the_same_key(one: dict[str, Scalar], other: dict[str, Scalar]) -> None:
    first, second = PartitionKey(one), PartitionKey(other)
    same = typed(one) == typed(other)
    assert (first.canonical == second.canonical) == same
    assert (first == second) == same
    assert (partition_id(A, first) == partition_id(A, second)) == same
    assert len({first, second}) == (1 if same else 2)


@given(mappings, st.randoms(use_true_random=False))
def test_the_order_in_which_dimensions_are_given_does_not_matter(values: dict[str, Scalar], random: Any) -> None:
    names = list(values)
    random.shuffle(names)
    assert PartitionKey({name: values[name] for name in names}) == PartitionKey(values)


@given(moments, offsets)
def test_one_moment_is_one_key_in_every_time_zone(moment: datetime, offset: timezone) -> None:
    assert PartitionKey({"at": moment}) == PartitionKey({"at": moment.astimezone(offset)})


@given(texts)
def test_text_is_a_canonical_json_string_without_quotes_and_separators(text: str) -> None:
    inner = canonical_json(text).decode()[1:-1]
    assert PartitionKey({"k": text}).canonical == "k=s:" + inner.replace(",", "\\u002c").replace("=", "\\u003d")


@st.composite
def nearly_canonical(draw: st.DrawFn) -> str:
    """A canonical text with one place replaced: most mistakes are near misses, which random text never finds."""
    text = PartitionKey(draw(mappings)).canonical
    start = draw(st.integers(0, len(text)))
    stop = min(len(text), start + draw(st.integers(0, 2)))
    return text[:start] + draw(st.text('k=sidbtn:,01+_ \\"uCZ\n', max_size=2)) + text[stop:]


@given(nearly_canonical())
@example("k=i:01")
@example("k=s:\\u002C")
@example("k=d:20250115")
@example("b=s:x,a=s:y")
@example("k=s:x,k=s:x")
def test_whatever_is_parsed_is_the_canonical_text_of_its_key(text: str) -> None:
    try:
        key = PartitionKey.parse(text)
    except Invalid:
        return
    assert PartitionKey(key.to_dict()).canonical == key.canonical == str(key) == text


def test_the_empty_key() -> None:
    assert PartitionKey.empty().canonical == ""
    assert PartitionKey.empty() == PartitionKey({}) == PartitionKey.parse("")


def test_a_key_is_frozen_and_survives_copying() -> None:
    key = PartitionKey({"region": "us-east", "date": date(2025, 1, 15)})
    with pytest.raises(FrozenInstanceError):
        key.canonical = "x"  # type: ignore[misc]
    again = copy.deepcopy(key)
    assert (again, again.dimensions) == (key, key.dimensions)


class Level(IntEnum):
    LOW = 1


class Moment(datetime):
    """Stands for a time with more digits than a datetime has."""


class NoOffset(tzinfo):
    def utcoffset(self, dt: datetime | None) -> None:
        return None

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> None:
        return None


@pytest.mark.parametrize(
    ("value", "cure"),
    [
        (1.0, "use text or an integer"),
        (float("nan"), "use text or an integer"),
        (2**63, "does not fit 64 bits"),
        (-(2**63) - 1, "does not fit 64 bits"),
        (datetime(2025, 1, 15), "attach a time zone"),
        (datetime(2025, 1, 15, tzinfo=NoOffset()), "attach a time zone"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "outside the years"),
        (datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2))), "outside the years"),
        ("\ud800", "lone surrogate"),
        (b"x", "use a plain str"),
        (["x"], "use a plain str"),
        (Level.LOW, "use a plain str"),
        (Moment(2025, 1, 15, tzinfo=UTC), "use a plain str"),
    ],
)
def test_values_without_one_exact_text_are_refused(value: Any, cure: str) -> None:
    with pytest.raises(Invalid, match=cure):
        PartitionKey({"k": value})


@given(names, names)
def test_asset_keys_are_parsed_back(namespace: str, name: str) -> None:
    key = AssetKey(namespace, name)
    assert key.canonical == str(key) == f"{namespace}.{name}"
    assert AssetKey.parse(key.canonical) == key


@pytest.mark.parametrize("text", ["orders", "a.b.c", "Sales.orders", "sales.orders\n", "../x.y"])
def test_other_asset_keys_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"namespace\.name|is not a name"):
        AssetKey.parse(text)


def test_a_partition_id_is_the_formula_of_the_specification() -> None:
    key = PartitionKey({"date": date(2025, 1, 15), "region": "us-east"})
    assert partition_id(A, key) == "part_" + sha256_hex(f"{A}:date=d:2025-01-15,region=s:us-east".encode())[:32]
    assert partition_id(B, key) != partition_id(A, key)


parts = st.text('ab:,[]"\\', max_size=4)


@given(st.tuples(parts, parts, parts), st.tuples(parts, parts, parts))
@example(("a:b", "c", "d"), ("a", "b:c", "d"))
@example(('a","b', "c", "d"), ("a", 'b","c', "d"))
def test_dependencies_and_edges_differ_if_any_part_does(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    first, second = (
        dependency_fingerprint(A, B, partition_mapping=mapping, transform=transform, parameter=parameter)
        for mapping, transform, parameter in (one, other)
    )
    assert (first == second) == (one == other)
    assert (edge_id(A, B, first) == edge_id(A, B, second)) == (one == other)
    assert edge_id(A, B, first) != edge_id(B, A, first)
