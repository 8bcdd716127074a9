"""Columns of files as columns of a table: types, ids that stay, what may widen, what cannot be one table."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import Refused
from arco.iceberg import MixedColumns, columns_of, evolve, is_readable, name_mapping
from arco.iceberg._writing._columns import leaves_of


def fields(**types: pa.DataType) -> list[dict[str, object]]:
    return columns_of(pa.schema(list(types.items())))


def test_types_of_arrow_and_their_names() -> None:
    found = fields(
        a=pa.int8(),
        b=pa.timestamp("us", "UTC"),
        c=pa.timestamp("ms"),
        d=pa.decimal128(10, 2),
        e=pa.dictionary(pa.int32(), pa.large_string()),
        f=pa.binary(4),
        g=pa.time64("us"),
        h=pa.null(),
    )
    types = {field["name"]: field["type"] for field in found}
    expected = ["int", "timestamptz", "timestamp", "decimal(10, 2)", "string", "fixed[4]", "time"]
    assert types == dict(zip("abcdefg", expected, strict=True))


@pytest.mark.parametrize(
    ("kind", "cure"),
    [
        (pa.timestamp("ns"), "microseconds"),
        (pa.uint32(), "cast it"),
        (pa.float16(), "cast it"),
        (pa.duration("s"), "cast it"),
        (pa.list_(pa.uint8()), "cast it"),
    ],
)
def test_a_type_that_no_table_has_is_refused_by_its_column(kind: pa.DataType, cure: str) -> None:
    with pytest.raises(Refused, match=f"column 'x.*{cure}"):
        fields(x=kind)


def test_ids_stay_and_new_columns_get_new_ones() -> None:
    first, last = evolve([], 0, [fields(a=pa.int32(), s=pa.struct({"x": pa.int64()}))], ())
    assert [field["id"] for field in first] == [1, 2]
    wider = fields(s=pa.struct({"x": pa.int64(), "y": pa.string()}), a=pa.int64(), b=pa.string())
    after, last = evolve(first, last, [wider], {1, 3})
    assert [(field["name"], field["id"]) for field in after] == [("a", 1), ("s", 2), ("b", 5)]
    assert after[0]["type"] == "long"
    assert [(one["name"], one["id"]) for one in after[1]["type"]["fields"]] == [("x", 3), ("y", 4)]
    assert last == 5


def test_a_column_that_no_file_has_goes_and_its_name_is_free() -> None:
    first, last = evolve([], 0, [fields(a=pa.string(), b=pa.string())], ())
    kept, last = evolve(first, last, [fields(a=pa.string())], {1})
    assert [field["name"] for field in kept] == ["a"]
    again, _ = evolve(kept, last, [fields(a=pa.int32(), b=pa.int32())], ())
    assert [(field["id"], field["type"]) for field in again] == [(3, "int"), (4, "int")]


def test_types_that_do_not_contain_each_other_are_no_table() -> None:
    first, last = evolve([], 0, [fields(a=pa.string())], ())
    with pytest.raises(MixedColumns, match="'a' is string in some files of the table and int in others"):
        evolve(first, last, [fields(a=pa.int32())], {1})
    with pytest.raises(MixedColumns):
        evolve([], 0, [fields(a=pa.string()), fields(a=pa.int32())], ())


def test_what_can_be_read_without_a_change() -> None:
    table, _ = evolve([], 0, [fields(a=pa.int64(), d=pa.decimal128(10, 2))], ())
    assert is_readable(table, fields(a=pa.int32(), other=pa.string()))
    assert is_readable(table, fields(d=pa.decimal128(8, 2)))
    assert not is_readable(table, fields(d=pa.decimal128(12, 2)))
    assert not is_readable(table, fields(a=pa.float64()))


def test_leaves_are_in_the_order_of_parquet() -> None:
    schema = pa.schema(
        {
            "n": pa.null(),
            "m": pa.map_(pa.string(), pa.list_(pa.int32())),
            "extra": pa.struct({"x": pa.int32(), "y": pa.int32()}),
            "a": pa.int32(),
        }
    )
    table, _ = evolve([], 0, [columns_of(schema.remove(2))], ())
    assert leaves_of(schema, table) == [None, (2, "string"), (4, "int"), None, None, (5, "int")]
    (mapped, _) = name_mapping(table)
    assert mapped["fields"][1] == {
        "field-id": 3,
        "names": ["value"],
        "fields": [{"field-id": 4, "names": ["element"]}],
    }


NAMES = st.sampled_from("abcd")
TYPES = st.sampled_from([pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.struct({"x": pa.int32()})])
FILES = st.lists(st.dictionaries(NAMES, TYPES, max_size=4), max_size=8)


@given(FILES)
def test_ids_are_given_out_once(files: list[dict[str, pa.DataType]]) -> None:
    table: list[dict[str, object]] = []
    last, seen = 0, set[object]()
    for file in files:
        try:
            after, newest = evolve(table, last, [fields(**file)], ())
        except MixedColumns:
            continue
        new = {field["id"] for field in after} - {field["id"] for field in table}
        assert not new & seen
        assert all(last < number <= newest for number in new)
        assert is_readable(after, fields(**file))
        assert {field["name"] for field in after} == set(file)
        seen |= {field["id"] for field in after}
        table, last = after, newest
