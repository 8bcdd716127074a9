"""Rows of a bucket: Arrow below, writes on top, and always what a plain dict would say."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import SECOND, least_ulid
from arco.state import Kind, Table
from arco.state import _bucket as module
from arco.state._bucket import Bucket, LargeGroup, Overlay, overlaid, split_buckets
from arco.state._codec import to_arrow
from arco.state._fold import Rows, Versioned
from arco.state._table import Key


class Single(msgspec.Struct, frozen=True):
    name: str
    group: str
    value: int


class Double(msgspec.Struct, frozen=True):
    group: str
    name: str
    value: int


ONE = Table("one", Single, Kind.IMAGE, ("name",), "group")
TWO = Table("two", Double, Kind.IMAGE, ("group", "name"), "group")
FACTS = Table("facts", Double, Kind.FACT, ("group", "name"), "group")

Model = dict[str, dict[Key, Versioned]]

# Characters whose order differs between UTF-16 and UTF-8, and one name that is the beginning of another.
names = st.sampled_from(["a", "b", "ab", "é", "z", "￿", "\U00010000", "n1", "n2", "n10"])
groups = st.sampled_from(["g", "g2", "￿", "\U00010000"])


def row_of(table: Table, group: str, name: str, value: int) -> Any:
    return Single(name, group, value) if table is ONE else Double(group, name, value)


def key_of(table: Table, group: str, name: str) -> Key:
    return name if table is ONE else (group, name)


def fill(table: Table, found: list[tuple[str, str, int]]) -> Model:
    model: Model = {}
    for group, name, value in found:
        model.setdefault(group, {})[key_of(table, group, name)] = (value, row_of(table, group, name, value))
    return model


def check(table: Table, bucket: Bucket, model: Model, group: str, after: Key | None) -> None:
    wanted = model.get(group, {})
    found = bucket.find(group)
    for key in [*wanted, key_of(table, group, "nothing")]:
        assert found.get(key) == wanted.get(key)
        assert (key in found) == (key in wanted)
    in_order = sorted(wanted.items(), key=lambda item: item[0])
    assert list(bucket.ordered(group)) == in_order
    assert list(bucket.ordered(group, after)) == [item for item in in_order if after is None or item[0] > after]  # type: ignore[operator]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), groups, st.lists(st.tuples(names, st.booleans()), min_size=1, max_size=6)),
        st.tuples(st.sampled_from(["check", "settle", "iterate"]), groups, st.just([("a", True)])),
    ),
    max_size=14,
)


@pytest.mark.parametrize("table", [ONE, TWO, FACTS], ids=lambda table: table.name)
@pytest.mark.parametrize("large", [1, 3, 1_000])
def test_a_bucket_says_what_a_dict_says_however_little_of_it_was_made(
    table: Table, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGE", large)
    monkeypatch.setattr(module, "FIRST_ROWS", 1)
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    monkeypatch.setattr(module, "RESORT", 3)

    @settings(deadline=None, max_examples=80)
    @given(st.lists(st.tuples(groups, names, st.integers(1, 9)), max_size=20), steps, groups, names)
    def run_steps(stored: list[tuple[str, str, int]], found: list[Any], group: str, name: str) -> None:
        model = fill(table, stored)
        bucket = Bucket(table, to_arrow(table, list(model.items())).sort_by(sort_keys(table)))
        for number, (step, where, writes) in enumerate(found, 10):
            rows = model.setdefault(where, {})
            if step == "write":
                changed: Rows = {}
                for what, alive in writes:
                    key = key_of(table, where, what)
                    if table is FACTS and (key in rows or not alive):
                        continue
                    if alive:
                        changed[key] = (number, row_of(table, where, what, number))
                    elif key in rows or key in changed:
                        changed[key] = (number, None)
                # A fold deletes only what is there before the batch; what it made and dropped within it is a tombstone.
                for key, versioned in changed.items():
                    if versioned[1] is None:
                        rows.setdefault(key, versioned)
                bucket.write(where, changed)
                rows.update(changed)
                model[where] = {key: versioned for key, versioned in rows.items() if versioned[1] is not None}
            elif step == "settle":
                bucket.settle(where)
            elif step == "iterate":
                assert dict(bucket.find(where)) == rows
                assert len(bucket.find(where)) == len(rows)
            check(table, bucket, model, where, key_of(table, where, writes[0][0]))
        for each in model:
            check(table, bucket, model, each, key_of(table, each, name))
        check(table, bucket, model, group, None)

    run_steps()


def sort_keys(table: Table) -> list[tuple[str, str]]:
    """All rows of a test lie in one bucket, whatever their hash says."""
    return [(name, "ascending") for name in dict.fromkeys([table.group, *table.key])]


def large_bucket(count: int) -> Bucket:
    rows: Rows = {("g", f"n{number:06d}"): (1, Double("g", f"n{number:06d}", number)) for number in range(count)}
    return Bucket(TWO, to_arrow(TWO, [("g", rows)]))


def test_of_a_large_group_only_the_rows_that_are_asked_for_are_made() -> None:
    bucket = large_bucket(5_000)
    found = bucket.find("g")
    assert isinstance(found, LargeGroup)
    assert bucket.held == 5_000
    assert found.get(("g", "n000007")) is found.get(("g", "n000007"))
    assert found.get(("g", "nothing")) is None
    assert bucket.held == 5_001
    page = bucket.ordered("g", ("g", "n000100"))
    assert next(page)[0] == ("g", "n000101")
    assert bucket.held == 5_001
    bucket.settle("g")
    assert bucket.held == 10_000
    assert isinstance(bucket.find("g"), dict)


def test_asking_for_groups_that_are_not_there_leaves_nothing_in_memory() -> None:
    bucket = large_bucket(10)
    for number in range(100):
        assert bucket.find(f"absent {number}") == {}
    assert bucket.groups == {}
    assert bucket.held == 10


def test_a_group_whose_stored_rows_were_all_deleted_stays_empty() -> None:
    for count in (3, 1_000):
        bucket = large_bucket(count)
        keys = list(bucket.find("g"))
        bucket.write("g", dict.fromkeys(keys, (2, None)))
        assert list(bucket.ordered("g")) == []
        assert dict(bucket.find("g")) == {}


pairs = st.dictionaries(names, st.tuples(st.integers(0, 9), st.sampled_from(["x", None])), max_size=6)


@given(pairs, pairs, st.one_of(st.none(), names))
def test_an_overlay_is_the_merged_dict_without_the_copy(above: Any, below: Any, after: str | None) -> None:
    below = {key: (position, "y") for key, (position, _) in below.items()}
    both = {**below, **above}
    overlay = Overlay(above, below)
    assert dict(overlay) == both
    assert len(overlay) == len(both)
    assert {**overlay} == both
    for key in [*both, "absent"]:
        assert overlay.get(key) == both.get(key)
        assert (key in overlay) == (key in both)
    shown = [key for key in sorted(both) if after is None or key > after]
    under = [(key, below[key]) for key in shown if key in below]
    found = overlaid(under, above, [key for key in shown if key in above])
    assert list(found) == [(key, both[key]) for key in shown if both[key][1] is not None]


def test_buckets_that_were_read_together_do_not_keep_one_another_in_memory() -> None:
    rows: dict[str, Rows] = {
        f"g{number}": {(f"g{number}", "n"): (1, Double(f"g{number}", "n", number))} for number in range(500)
    }
    data = to_arrow(TWO, rows.items())
    parts = dict(split_buckets(data))
    assert pa.concat_tables([parts[number] for number in sorted(parts)]).equals(data)
    assert len(parts) > 100
    for part in parts.values():
        assert part.get_total_buffer_size() < data.get_total_buffer_size() / 10


AGING = Table("aging", Double, Kind.IMAGE, ("group", "name"), "group", time="name")
AGES = [least_ulid(number * SECOND) for number in range(1, 6)]
"""Names of rows, each of which says when it was made."""


@pytest.mark.parametrize("large", [2, 1_000])
def test_what_expires_leaves_the_memory_and_nothing_comes_back(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE", large)
    ages = st.sampled_from(AGES)

    @settings(deadline=None, max_examples=80)
    @given(
        st.lists(st.tuples(groups, ages), max_size=20),
        st.lists(st.tuples(groups, ages, st.booleans(), st.integers(0, 6)), max_size=12),
    )
    def run_steps(stored: list[tuple[str, str]], found: list[tuple[str, str, bool, int]]) -> None:
        model = fill(AGING, [(group, name, 1) for group, name in stored])
        bucket = Bucket(AGING, to_arrow(AGING, list(model.items())).sort_by(sort_keys(AGING)))
        reached = 0
        for group, name, is_there, cutoff in found:
            key, rows = key_of(AGING, group, name), model.setdefault(group, {})
            if is_there:
                rows[key] = (9, row_of(AGING, group, name, 1))
                bucket.write(group, {key: rows[key]})
            elif rows.pop(key, None) is not None:
                bucket.write(group, {key: (9, None)})
            reached = max(reached, cutoff * SECOND)
            bucket.expire(reached)
            for known, all_rows in model.items():
                left = dict(bucket.ordered(known))
                assert alive(left, reached) == alive(all_rows, reached)
        if not stored:
            bucket.expire(6 * SECOND)
            assert large < len(AGES) or bucket.held == 0

    run_steps()


def alive(rows: Mapping[Key, Versioned], cutoff: int) -> Rows:
    return {key: versioned for key, versioned in rows.items() if not AGING.is_expired(versioned[1], cutoff)}
