"""Rows to Parquet and back: every row class, tombstones, nulls, columns that are newer than the file."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Corrupt
from arco.domains.catalog import CATALOG, Declared, FormerColumnName, SchemaColumn
from arco.domains.execution import MATERIALIZATIONS, PARTITIONS, ColumnStats, DataFile, Materialization
from arco.state import OPERATIONS, PINS, REJECTIONS, REQUESTS, Kind, Table, _codec, bucket_of, digest_rows
from arco.state._codec import CACHED_ROWS, from_arrow, newest, read_parquet, sort_rows, to_arrow, to_parquet
from arco.state._fold import Rows
from arco.state._table import Time


class Name(msgspec.Struct, frozen=True):
    parent: str
    name: str
    owner: str


NAMES = Table("names", Name, Kind.IMAGE, ("parent", "name"), "parent")

texts = st.text(st.characters(codec="utf-8"), max_size=4)
numbers = st.integers(-(2**63), 2**63 - 1)
times = st.integers(-(10**15), 4 * 10**15)
few = st.sampled_from(["a", "b", "c"])

stats = st.builds(ColumnStats, texts, numbers, st.none() | texts, st.none() | texts, st.none() | numbers)
pairs = st.dictionaries(texts, texts, max_size=3)
declared = st.builds(Declared, st.none() | texts, st.lists(texts, max_size=2).map(tuple), pairs)
files = st.builds(DataFile, texts, numbers, numbers, st.lists(stats, max_size=2).map(tuple))


def rows_of(table: Table) -> st.SearchStrategy[msgspec.Struct]:
    """Any row of a table; keys and groups from a small space."""
    by_type = {
        "files": st.lists(files, max_size=2).map(tuple),
        "properties": pairs,
        "tags": pairs,
        "terms": pairs,
        "owners": st.lists(texts, max_size=3).map(tuple),
        "code": declared,
        "ui": declared,
        "former_names": st.lists(st.builds(FormerColumnName, texts, numbers, st.booleans()), max_size=2).map(tuple),
        "columns": st.lists(st.builds(SchemaColumn, texts, texts, texts, st.booleans()), max_size=2).map(tuple),
    }
    by_kind: list[tuple[Callable[[pa.DataType], bool], st.SearchStrategy[object]]] = [
        (pa.types.is_string, texts),
        (pa.types.is_timestamp, times),
        (pa.types.is_boolean, st.booleans()),
        (pa.types.is_floating, st.floats(allow_nan=False)),
        (pa.types.is_integer, numbers),
    ]
    hints = msgspec.structs.fields(table.row)
    columns: dict[str, st.SearchStrategy[object]] = {}
    for field in hints:
        if field.name in (*table.key, table.group):
            columns[field.name] = few
        elif field.name in by_type:
            columns[field.name] = by_type[field.name]
        else:
            kind = table.schema.field(field.name).type
            values = next(found for is_kind, found in by_kind if is_kind(kind))
            optional = type(None) in getattr(field.type, "__args__", ())
            columns[field.name] = st.none() | values if optional else values
    return st.builds(table.row, **columns)


ALL = [*CATALOG.tables, MATERIALIZATIONS, PARTITIONS, OPERATIONS, REQUESTS, PINS, REJECTIONS]


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_every_row_class_survives_a_file(table: Table) -> None:
    @settings(deadline=None, max_examples=25)
    @given(st.lists(st.tuples(rows_of(table), st.integers(1, 2**62), st.booleans()), max_size=6))
    def check(given_rows: list[tuple[msgspec.Struct, int, bool]]) -> None:
        groups: dict[str, Rows] = {}
        for row, position, deleted in given_rows:
            gone = deleted and table.kind is Kind.IMAGE
            groups.setdefault(table.group_of(row), {})[table.key_of(row)] = (position, None if gone else row)
        data = to_arrow(table, groups.items())
        read = read_parquet(table, to_parquet(table, data), "a file")
        assert read.equals(data)
        found: dict[str, Rows] = {}
        for group, key, versioned in from_arrow(table, read):
            found.setdefault(group, {})[key] = versioned
        assert found == groups
        assert digest_rows(table, read) == digest_rows(table, data)

    check()


def test_rows_are_sorted_by_bucket_group_and_key_and_carry_their_bucket() -> None:
    groups = {group: {(group, name): (7, Name(group, name, "id")) for name in "zya"} for group in "fedcba"}
    data = to_arrow(NAMES, groups.items())  # type: ignore[arg-type]
    found = list(zip(*(data.column(name).to_pylist() for name in ("_bucket", "parent", "name")), strict=True))
    assert found == sorted(found)
    assert all(bucket == bucket_of(parent) for bucket, parent, _ in found)


@pytest.mark.parametrize("count", [0, 1, CACHED_ROWS, CACHED_ROWS + 1, CACHED_ROWS * 3 // 2, 5 * CACHED_ROWS - 1])
def test_many_rows_are_taken_apart_in_equal_parts_and_none_is_lost(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    columns = _codec._columns

    def measured(rows: Sequence[Any], builders: Sequence[Callable[[Sequence[Any]], pa.Array]]) -> list[pa.Array]:
        sizes.append(len(rows))
        return columns(rows, builders)

    monkeypatch.setattr(_codec, "_columns", measured)
    rows: Rows = {("p", f"{number:05d}"): (number, Name("p", f"{number:05d}", "o")) for number in range(count)}
    data = to_arrow(NAMES, [("p", rows)])
    assert data.column("name").to_pylist() == [f"{number:05d}" for number in range(count)]
    assert sum(sizes) == count
    assert not sizes or max(sizes) <= min(CACHED_ROWS * 3 // 2, 2 * min(sizes))


def test_a_tombstone_keeps_its_key_and_group_and_nothing_else() -> None:
    data = to_arrow(NAMES, [("p", {("p", "n"): (9, None)})])
    assert data.to_pylist() == [
        {
            "parent": "p",
            "name": "n",
            "owner": None,
            "_position": 9,
            "_bucket": bucket_of("p"),
            "_deleted": True,
        }
    ]
    assert list(from_arrow(NAMES, data)) == [("p", ("p", "n"), (9, None))]


class Before(msgspec.Struct, frozen=True):
    key: str
    value: int


class After(msgspec.Struct, frozen=True):
    key: str
    value: int
    seen_at: Time | None
    tags: dict[str, str] | None


def test_a_column_added_later_reads_as_null_in_older_files() -> None:
    older = Table("grown", Before, Kind.IMAGE, ("key",), "key")
    newer = Table("grown", After, Kind.IMAGE, ("key",), "key")
    encoded = to_parquet(older, to_arrow(older, [("k", {"k": (3, Before("k", 1))})]))
    data = read_parquet(newer, encoded, "an older file")
    assert data.schema == newer.schema
    assert list(from_arrow(newer, data)) == [("k", "k", (3, After("k", 1, None, None)))]
    unread = to_arrow(older, [("k", {"k": (3, Before("k", 1))})])
    assert list(from_arrow(newer, unread)) == [("k", "k", (3, After("k", 1, None, None)))]


def test_of_images_the_newest_of_each_key_is_left() -> None:
    one = to_arrow(NAMES, [("p", {("p", "n"): (1, Name("p", "n", "old")), ("p", "m"): (1, Name("p", "m", "x"))})])
    two = to_arrow(NAMES, [("p", {("p", "n"): (2, Name("p", "n", "new"))})])
    merged = newest(NAMES, sort_rows(NAMES, pa.concat_tables([one, two]).combine_chunks()))
    assert merged.select(["name", "owner"]).to_pylist() == [
        {"name": "m", "owner": "x"},
        {"name": "n", "owner": "new"},
    ]
    assert newest(NAMES, two).equals(two)


def test_what_is_not_parquet_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="a file is not readable Parquet"):
        read_parquet(NAMES, b"not parquet at all", "a file")


def test_nested_files_come_back_with_their_statistics() -> None:
    file = DataFile("data/x", 10, 2, (ColumnStats("c", 1, "a", None, None), ColumnStats("d", 0)))
    values: dict[str, Any] = dict.fromkeys(MATERIALIZATIONS.columns, "x")
    values.update(files=(file,), version=1, schema_version=None, file_count=1, row_count=2, byte_size=3)
    values.update(started_at=5, completed_at=6)
    row = Materialization(**values)
    data = to_arrow(MATERIALIZATIONS, [("x", {"x": (1, row)})])
    ((_, _, (_, found)),) = from_arrow(
        MATERIALIZATIONS, read_parquet(MATERIALIZATIONS, to_parquet(MATERIALIZATIONS, data), "f")
    )
    assert found == row
    assert found.files[0].stats[0].min == "a"


def test_equal_rows_have_equal_digests_in_any_order_and_unequal_ones_do_not() -> None:
    rows = [Name("p", name, "id") for name in "abc"]
    data = to_arrow(NAMES, [("p", {("p", row.name): (1, row) for row in rows})])
    turned = data.take(pa.array([2, 0, 1]))
    assert digest_rows(NAMES, turned) == digest_rows(NAMES, data)
    assert digest_rows(NAMES, data.slice(1)) != digest_rows(NAMES, data)
    moved = to_arrow(NAMES, [("p", {("p", row.name): (2, row) for row in rows})])
    assert digest_rows(NAMES, moved) != digest_rows(NAMES, data)
