"""Differences of two states: applied to the first they give the second; counts are exact, lists bounded."""

import math
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.catalog._diff import compare, diff_snapshots, unequal
from arco.catalog._plain import plain_rows
from arco.core import NotFound
from arco.domains.access import CreateApiKey, UserRole
from arco.domains.catalog import AddColumn, Ref, UpdateTable
from arco.state import Kind, Table, Time
from arco.wire import DiffTable
from tests.catalog.world import World, in_world


class Part(msgspec.Struct, frozen=True):
    name: str
    size: int | None


class Thing(msgspec.Struct, frozen=True):
    group: str
    name: str
    number: int | None
    ratio: float | None
    flag: bool | None
    text: str | None
    when: Time | None
    tags: dict[str, str] | None
    parts: tuple[Part, ...] | None
    best: Part | None


THINGS = Table("things", Thing, Kind.IMAGE, ("group", "name"), "group")

Short = st.sampled_from(["", "a", "b", "ü"])
Parts = st.builds(Part, Short, st.none() | st.integers(0, 2))
Things = st.builds(
    Thing,
    st.sampled_from(["g", "h"]),
    st.sampled_from(["a", "b", "c"]),
    st.none() | st.integers(0, 2),
    st.none() | st.sampled_from([0.0, 1.5, math.nan]),
    st.none() | st.booleans(),
    st.none() | Short,
    st.none() | st.integers(0, 3),
    st.none() | st.dictionaries(Short, Short, max_size=2),
    st.none() | st.lists(Parts, max_size=2).map(tuple),
    st.none() | Parts,
)
States = st.dictionaries(st.tuples(st.sampled_from("gh"), st.sampled_from("abc")), Things, max_size=6).map(
    lambda found: [msgspec.structs.replace(row, group=key[0], name=key[1]) for key, row in found.items()]
)


def stored(rows: list[Thing], position: int = 1) -> pa.Table:
    """Rows as a scan returns them."""
    schema = pa.schema([field for field in THINGS.schema if field.name not in ("_bucket", "_deleted")])
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for row in rows:
        for name, value in msgspec.structs.asdict(row).items():
            columns[name].append(_arrow(value))
        columns["_position"].append(position)
    return pa.table(columns, schema=schema)


def _arrow(value: Any) -> Any:
    if isinstance(value, Part):
        return msgspec.structs.asdict(value)
    if isinstance(value, tuple):
        return [_arrow(item) for item in value]
    return sorted(value.items()) if isinstance(value, dict) else value


def by_key(rows: list[dict[str, Any]]) -> dict[tuple[str, ...], str]:
    """Texts, since a value that is no number does not equal itself."""
    return {(row["group"], row["name"]): repr({k: v for k, v in row.items() if k != "_position"}) for row in rows}


@settings(max_examples=50, deadline=None)
@given(States, States)
def test_differences_applied_to_the_first_state_give_the_second(old: list[Thing], new: list[Thing]) -> None:
    before, after = stored(old, 1), stored(new, 2)
    found = compare(THINGS, before, after)
    rows = {(row["group"], row["name"]): row for row in plain_rows(before)}
    for row in found.removed:
        del rows[row["group"], row["name"]]
    for change in found.changed:
        row = rows[change.key["group"], change.key["name"]]
        assert all(repr(row[name]) == repr(was) != repr(now) for name, (was, now) in change.columns.items())
        row.update({name: now for name, (_, now) in change.columns.items()})
    for row in found.added:
        assert (row["group"], row["name"]) not in rows
        rows[row["group"], row["name"]] = row
    assert by_key(list(rows.values())) == by_key(plain_rows(after))
    assert (found.added_count, found.removed_count, found.changed_count) == (
        len(found.added),
        len(found.removed),
        len(found.changed),
    )


@settings(max_examples=50, deadline=None)
@given(States)
def test_a_position_alone_is_no_change(rows: list[Thing]) -> None:
    assert compare(THINGS, stored(rows, 1), stored(rows[::-1], 2)).empty


@settings(max_examples=50, deadline=None)
@given(States, States, st.integers(0, 4))
def test_lists_are_bounded_and_counts_are_not(old: list[Thing], new: list[Thing], limit: int) -> None:
    every = compare(THINGS, stored(old, 1), stored(new, 2))
    some = compare(THINGS, stored(old, 1), stored(new, 2), limit=limit, trust_positions=True)
    assert repr(some.added) == repr(every.added[:limit])
    assert repr(some.removed) == repr(every.removed[:limit])
    assert repr(some.changed) == repr(every.changed[:limit])
    assert (some.added_count, some.removed_count, some.changed_count) == (
        len(every.added),
        len(every.removed),
        len(every.changed),
    )


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | st.lists(Parts, max_size=3), st.none() | st.lists(Parts, max_size=3))))
def test_nested_values_compare_like_themselves(pairs: list[tuple[Any, Any]]) -> None:
    kind = THINGS.schema.field("parts").type
    left, right = ([_arrow(tuple(side)) if side is not None else None for side in sides] for sides in _sides(pairs))
    found = unequal(pa.array(left, kind), pa.array(right, kind)).to_pylist()
    assert found == [one != other for one, other in zip(left, right, strict=True)]


def _sides(pairs: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def tables_of(found: list[DiffTable]) -> dict[str, tuple[int, int, int]]:
    return {table.table: (table.added, table.removed, table.changed) for table in found}


def test_two_snapshots_of_a_catalog_differ_by_what_was_done() -> None:
    async def test(world: World) -> None:
        await world.namespace("sales")
        await world.table("sales.orders", AddColumn("id", "long"))
        receipt = await world.table("sales.items")
        before = await world.catalog.frozen()
        await world.workspace.published("catalog", receipt.position)
        await world.decide(UpdateTable(Ref(path=("sales", "items")), description="new"))
        await world.drop_table("sales.orders")
        await world.decide(CreateApiKey("ci", role=UserRole.VIEWER), minted={"secret_hash": "0" * 64})
        after = await world.catalog.frozen()
        found = await diff_snapshots(before, after, runtime=world.runtime)
        assert found == await diff_snapshots(before, after)
        changes = tables_of(found.tables)
        assert changes["tables"] == (0, 1, 1)
        assert changes["names"] == (0, 1, 1)
        assert changes["columns"] == (0, 1, 0)
        assert not {"api_keys", "key_names", "audit", "operations"} & set(changes)
        [noted] = (await diff_snapshots(before, after, table="operations")).tables
        assert noted.added == 3
        assert (found.from_position, found.to_position) == (str(before.position), str(after.position))
        [only] = (await diff_snapshots(before, after, table="tables", limit=1)).tables
        assert only.truncated
        assert len(only.changes) == 1
        [whole] = (await diff_snapshots(before, after, table="tables")).tables
        assert not whole.truncated
        changed = next(change for change in whole.changes if change.change == "changed")
        assert changed.before is not None
        assert changed.after is not None
        assert changed.before["description"] is None
        assert changed.after["description"] == "new"
        assert set(changed.before) == set(changed.after) <= {"description", "ui", "version", "updated_at", "updated_by"}
        assert (await diff_snapshots(after, after)).tables == []
        back = tables_of((await diff_snapshots(after, before)).tables)
        assert back["tables"] == (1, 0, 1)
        for name in ("api_keys", "nothing"):
            with pytest.raises(NotFound, match="has no table"):
                await diff_snapshots(before, after, table=name)

    in_world(test)


@settings(max_examples=6, deadline=None)
@given(st.lists(st.sampled_from(["add", "drop", "rename"]), min_size=1, max_size=8), st.integers(0, 7))
def test_it_does_not_matter_what_was_published(steps: list[str], publish_after: int) -> None:
    async def test(world: World) -> None:
        await world.namespace("s")
        receipt = await world.table("s.t0")
        before = await world.catalog.frozen()
        tables = ["s.t0"]
        for number, step in enumerate(steps, 1):
            if step == "add" or not tables:
                receipt = await world.table(f"s.t{number}")
                tables.append(f"s.t{number}")
            elif step == "drop":
                receipt = await world.drop_table(tables.pop())
            else:
                receipt = await world.rename_table(tables.pop(), f"s.r{number}")
                tables.append(f"s.r{number}")
            if number == publish_after:
                await world.workspace.published("catalog", receipt.position)
        live = await world.catalog.frozen()
        await world.workspace.published("catalog", receipt.position)
        published = await world.catalog.snapshot()
        assert (await diff_snapshots(live, published)).tables == []
        assert await diff_snapshots(before, live) == await diff_snapshots(before, published)

    in_world(test)
