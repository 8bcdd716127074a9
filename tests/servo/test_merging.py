"""Merging of Parquet files: the same rows, the same order, the same schema, or nothing at all."""

import io
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Refused
from arco.domains.execution import DataFile
from arco.servo._merging import LARGE, merge_tables, plan_merges

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "id": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "price": (pa.decimal128(9, 2), st.decimals(-1000, 1000, places=2)),
    "large": (pa.decimal128(38, 9), st.decimals(-1000, 1000, places=9)),
    "ratio": (pa.float64(), st.floats()),
    "day": (pa.date32(), st.dates(date(1, 1, 1))),
    "at": (pa.timestamp("us", "UTC"), st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))),
    "local": (pa.timestamp("us"), st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))),
    "ok": (pa.bool_(), st.booleans()),
    "name": (pa.string(), st.text(max_size=5)),
    "raw": (pa.binary(), st.binary(max_size=5)),
    "tags": (pa.list_(pa.string()), st.lists(st.none() | st.text(max_size=2), max_size=3)),
    "place": (
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int8()))]),
        st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "y": st.none() | st.lists(st.integers(0, 9))}),
    ),
    "counts": (pa.map_(pa.string(), pa.int64()), st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=2)),
}


@st.composite
def versions(draw: st.DrawFn) -> tuple[pa.Schema, list[pa.Table], dict[str, Any], list[int]]:
    """Tables of one schema, how they are written, and the rows of a row group of each."""
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, unique=True))
    metadata = {b"PARQUET:field_id": b"7"} if draw(st.booleans()) else None
    fields = [pa.field(name, KINDS[name][0], metadata=metadata if name == names[0] else None) for name in names]
    schema = pa.schema(fields, metadata={b"arco.kind": b"rows"} if draw(st.booleans()) else None)
    tables = []
    for _ in range(draw(st.integers(2, 4))):
        count = draw(st.integers(0, 6))
        columns = [
            pa.array(draw(st.lists(st.none() | KINDS[name][1], min_size=count, max_size=count)), KINDS[name][0])
            for name in names
        ]
        tables.append(pa.Table.from_arrays(columns, schema=schema))
    options = {
        "compression": draw(st.sampled_from(["none", "snappy", "zstd", "gzip"])),
        "store_schema": draw(st.booleans()),
        "store_decimal_as_integer": draw(st.booleans()),
        "use_dictionary": draw(st.booleans()),
    }
    return schema, tables, options, [draw(st.integers(1, 4)) for _ in tables]


def written(table: pa.Table, rows: int = 1000, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=rows, **options)
    return sink.getvalue()


@settings(max_examples=150, deadline=None)
@given(versions())
def test_a_merged_file_holds_the_rows_of_its_parts_in_their_order(made: Any) -> None:
    _, tables, options, groups = made
    contents = [written(table, rows, **options) for table, rows in zip(tables, groups, strict=True)]
    data, footer = merge_tables(contents)
    read = [pq.read_table(pa.BufferReader(part)) for part in contents]
    merged = pq.read_table(pa.BufferReader(data))
    assert merged.schema.equals(read[0].schema, check_metadata=True)
    assert repr(merged.to_pylist()) == repr(pa.concat_tables(read).to_pylist()), "repr: NaN is not NaN"
    first = pq.read_metadata(pa.BufferReader(contents[0]))
    assert footer.schema.equals(first.schema)
    assert footer.metadata == first.metadata
    assert footer.num_rows == sum(map(len, tables))
    assert footer.num_row_groups <= 1


def test_many_rows_come_in_several_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arco.servo._merging.GROUP_ROWS", 100)
    monkeypatch.setattr("arco.servo._merging.BATCH_ROWS", 30)
    tables = [pa.table({"id": range(start, start + 70)}) for start in range(0, 700, 70)]
    data, footer = merge_tables([written(table) for table in tables])
    assert pq.read_table(pa.BufferReader(data)).column("id").to_pylist() == list(range(700))
    assert 1 < footer.num_row_groups <= 7


def test_what_would_not_be_the_same_is_refused() -> None:
    good = written(pa.table({"id": [1]}))
    for other in (
        pa.table({"id": ["a"]}),
        pa.table({"id": [1], "more": [2]}),
        pa.table({"other": [1]}),
        pa.table({"id": [1]}).replace_schema_metadata({"arco.kind": "rows"}),
    ):
        with pytest.raises(Refused, match="same schema"):
            merge_tables([good, written(other)])
    old = written(pa.table({"at": [datetime(2026, 1, 1)]}), use_deprecated_int96_timestamps=True)
    with pytest.raises(Refused, match="96 bits"):
        merge_tables([old, old])
    for bad in (b"", b"no parquet", good[:-10], good[:4] + b"\0" * 20 + good[24:]):
        with pytest.raises(Refused):
            merge_tables([good, bad])


def test_what_this_program_writes_in_another_form_is_refused() -> None:
    """Old writers call the elements of a list `item`; readers that go by the names would miss them."""
    lists = pa.table({"tags": [["a"], ["b"]], "price": [Decimal("1.5"), None]})
    old = written(lists, use_compliant_nested_type=False)
    with pytest.raises(Refused, match="another form"):
        merge_tables([old, old])


SIZES = st.lists(st.integers(1, 150), max_size=40)


@given(SIZES, st.lists(st.sampled_from([".parquet", ".parquet", ".parquet", ".json"]), min_size=40, max_size=40))
def test_runs_are_neighbours_that_fit_into_the_target(sizes: list[int], endings: list[str]) -> None:
    files = [DataFile(f"data/a/{place}{endings[place]}", size, 1) for place, size in enumerate(sizes)]
    runs = plan_merges(files, 100)
    places = [place for run in runs for place in run]
    assert places == sorted(set(places))
    for run in runs:
        assert len(run) > 1
        assert sum(files[place].size_bytes for place in run) <= 100
        assert all(files[place].path.endswith(".parquet") and files[place].size_bytes < 100 * LARGE for place in run)


def test_what_is_merged_or_large_is_not_due_again() -> None:
    def of(*sizes: int) -> list[range]:
        return plan_merges([DataFile(f"data/a/{place}.parquet", size, 1) for place, size in enumerate(sizes)], 100)

    assert of(*[10] * 25) == [range(10), range(10, 20), range(20, 25)]
    assert of(100, 100, 50) == []
    assert of(75, 75) == []
    assert of(60, 60) == []
    assert of(60, 30, 60, 40) == [range(2), range(2, 4)]
    assert plan_merges([DataFile("elsewhere/1.parquet", 1, 1)] * 2, 100) == []
