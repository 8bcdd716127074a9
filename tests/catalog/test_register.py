"""Files that are there already: found, understood, counted; or refused with the file and the column at fault."""

import contextlib
import csv
import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.catalog import _register
from arco.catalog._register import Found, FoundColumn, inspect
from arco.catalog._type_text import type_text
from arco.core import ArcoError, Corrupt, Invalid, NotFound, Refused, TooLarge, Unavailable
from arco.domains.catalog import parse_type
from arco.storage import MemoryStore, ObjectMissing, Operation, RequestCounts, Role, RoleStore, StoreFailed
from tests.doubles import FakeRuntime, FaultyStore, run
from tests.runtime.world import SCOPE


class Files:
    """A workspace's data folder."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.base = MemoryStore()
        self.counts = RequestCounts()
        self.store = RoleStore(self.base, SCOPE, Role.READER, self.counts)
        self._files = files

    async def _inspect(self, location: str, format: str, at_once: bool) -> Found:
        for path, data in self._files.items():
            await self.base.put(f"{SCOPE.root}/{path}", data, only_if_absent=True)
        return await inspect(self.store, location, format, FakeRuntime() if at_once else None)

    def inspect(self, location: str, format: str = "PARQUET", *, at_once: bool = True) -> Found:
        return run(self._inspect(location, format, at_once))


def parquet(data: dict[str, Any] | pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(data if isinstance(data, pa.Table) else pa.table(data), sink, **options)
    return sink.getvalue()


@pytest.mark.parametrize("at_once", [True, False])
def test_parquet_files_become_columns_and_files(at_once: bool) -> None:
    one, two = parquet({"id": [1, 2], "name": ["a", None]}), parquet({"id": [3], "name": ["c"]})
    files = {
        "data/sales/part-1.parquet": two,
        "data/sales/part-0.parquet": one,
        "data/sales/_SUCCESS": b"",
        "data/sales/.part-0.parquet.crc": b"x",
        "data/sales/_temporary/0/part.parquet": b"half",
        "data/salesforce/part.parquet": parquet({"other": [1]}),
    }
    found = Files(files).inspect("data/sales/", at_once=at_once)
    assert found.location == "data/sales"
    assert found.columns == (FoundColumn("id", "long", True), FoundColumn("name", "string", True))
    assert [(file.path, file.size_bytes, file.row_count) for file in found.files] == [
        ("data/sales/part-0.parquet", len(one), 2),
        ("data/sales/part-1.parquet", len(two), 1),
    ]
    assert (found.row_count, found.byte_size) == (3, len(one) + len(two))
    single = Files(files).inspect("sales/part-1.parquet", at_once=at_once)
    assert single.location == "data/sales/part-1.parquet"
    assert single.row_count == 1
    assert single.schema_hash == found.schema_hash


def test_of_a_large_file_only_the_footer_is_read() -> None:
    rows = 200_000
    data = parquet({"id": pa.array(range(rows))}, use_dictionary=False, compression="none")
    assert len(data) > 1_000_000

    class Ranges(RoleStore):
        asked = 0

        async def get(self, path: str) -> bytes:
            raise AssertionError("the whole file was read")

        async def get_range(self, path: str, offset: int, length: int) -> bytes:
            self.asked += length
            return await super().get_range(path, offset, length)

    async def test() -> None:
        base = MemoryStore()
        await base.put(f"{SCOPE.root}/data/big.parquet", data, only_if_absent=True)
        store = Ranges(base, SCOPE, Role.READER, RequestCounts())
        assert (await inspect(store, "data/big.parquet", "PARQUET")).row_count == rows
        assert store.asked <= _register.TAIL

    run(test())


def test_a_footer_that_does_not_fit_the_first_read_is_read_in_a_second() -> None:
    wide = {f"column number {number} with a long name": [number] for number in range(2_000)}
    files = Files({"data/wide.parquet": parquet(wide)})
    assert len(files.inspect("data/wide.parquet").columns) == 2_000
    assert files.counts.count(operation=Operation.GET_RANGE) == 2


def test_every_type_of_arrow_has_one_of_ours_or_is_refused_with_its_column() -> None:
    for kind, text in (
        (pa.bool_(), "boolean"),
        (pa.int8(), "int"),
        (pa.uint16(), "int"),
        (pa.int32(), "int"),
        (pa.uint32(), "long"),
        (pa.int64(), "long"),
        (pa.float16(), "float"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.date32(), "date"),
        (pa.date64(), "date"),
        (pa.time32("s"), "time"),
        (pa.time64("us"), "time"),
        (pa.timestamp("ms"), "timestamp"),
        (pa.timestamp("us", tz="UTC"), "timestamptz"),
        (pa.string(), "string"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.binary(), "binary"),
        (pa.binary(16), "fixed(16)"),
        (pa.uuid(), "uuid"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.list_(pa.int32()), "list<int>"),
        (pa.map_(pa.string(), pa.list_(pa.float64())), "map<string,list<double>>"),
        (pa.struct([("a", pa.int32()), ("b c", pa.string())]), 'struct<a:int,"b c":string>'),
    ):
        assert type_text("c", kind) == text == parse_type(text)
    for kind in (
        pa.uint64(),
        pa.duration("s"),
        pa.null(),
        pa.decimal256(60, 2),
        pa.decimal128(5, -2),
        pa.list_(pa.uint64()),
        pa.struct([]),
        pa.struct([("a", pa.int32()), ("a", pa.int32())]),
        pa.month_day_nano_interval(),
    ):
        with pytest.raises(Refused, match="'size'"):
            type_text("size", kind)


def test_parquet_types_survive_the_file() -> None:
    table = pa.table(
        {
            "d": pa.array([Decimal("1.20")], pa.decimal128(12, 2)),
            "t": pa.array([1], pa.timestamp("us", tz="UTC")),
            "n": pa.array([{"x": [1]}]),
        },
        schema=pa.schema(
            [
                pa.field("d", pa.decimal128(12, 2), nullable=False),
                pa.field("t", pa.timestamp("us", tz="UTC")),
                pa.field("n", pa.struct([("x", pa.list_(pa.int64()))])),
            ]
        ),
    )
    assert Files({"data/t.parquet": parquet(table)}).inspect("data/t.parquet").columns == (
        FoundColumn("d", "decimal(12,2)", False),
        FoundColumn("t", "timestamptz", True),
        FoundColumn("n", "struct<x:list<long>>", True),
    )


def test_files_that_disagree_are_both_named() -> None:
    good = parquet({"id": [1], "name": ["a"]})
    for other, said in (
        ({"id": [1], "name": [2]}, "name string and name long"),
        ({"id": [1]}, "name string and no column 2"),
        ({"id": [1], "name": ["a"], "more": [1]}, "no column 3 and more long"),
        ({"name": ["a"], "id": [1]}, "id long and name string"),
    ):
        with pytest.raises(Refused, match=said) as error:
            Files({"data/t/0.parquet": good, "data/t/1.parquet": parquet(other)}).inspect("data/t")
        assert "data/t/0.parquet" in error.value.message
        assert "data/t/1.parquet" in error.value.message


def test_a_column_is_required_if_it_is_in_every_file() -> None:
    def file(*nullable: bool) -> bytes:
        fields = [pa.field(name, pa.int32(), nullable=null) for name, null in zip("ab", nullable, strict=True)]
        return parquet(pa.table({"a": [1], "b": [1]}, schema=pa.schema(fields)))

    found = Files({"data/t/0.parquet": file(False, False), "data/t/1.parquet": file(False, True)}).inspect("data/t")
    assert [column.is_nullable for column in found.columns] == [False, True]


@pytest.mark.parametrize(
    ("files", "location", "error"),
    [
        ({}, "data/none", NotFound),
        ({"data/t": b""}, "data/t", NotFound),
        ({"data/t/_hidden/x.parquet": b"x"}, "data/t", NotFound),
        ({"data/t/x.parquet": b"no parquet at all"}, "data/t", Refused),
        ({"data/t/x.parquet": b"PAR1"}, "data/t", Refused),
        ({"data/t/x.parquet": b"PAR1" + b"x" * 50 + (999).to_bytes(4, "little") + b"PAR1"}, "data/t", Refused),
        ({"data/t/x.parquet": b"PAR1" + b"\x15" * 50 + (40).to_bytes(4, "little") + b"PAR1"}, "data/t", Refused),
        ({"data/t/day=1/x.parquet": b"x"}, "data/t", Refused),
        ({"data/t/_delta_log/0.json": b"x", "data/t/x.parquet": b"x"}, "data/t", Refused),
        ({"data/t/x.parquet": b"x"}, "../t", Invalid),
        ({"data/t/x.parquet": b"x"}, "data/../ledger", Invalid),
        ({"data/t/x.parquet": b"x"}, "/data/t", Invalid),
        ({"data/t/x.parquet": b"x"}, "s3://bucket/data/t", Invalid),
        ({"data/t/x.parquet": b"x"}, "data/", Invalid),
        ({"data/t/x.parquet": b"x"}, "", Invalid),
    ],
)
def test_what_is_no_table_is_refused(files: dict[str, bytes], location: str, error: type[ArcoError]) -> None:
    with pytest.raises(error):
        Files(files).inspect(location)


def test_nothing_outside_the_data_folder_is_looked_at() -> None:
    files = Files({"ledger/x.parquet": parquet({"a": [1]})})
    with pytest.raises(NotFound, match="data/ledger"):
        files.inspect("ledger")


def test_there_is_a_limit_to_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_register, "MAX_FILES", 2)
    monkeypatch.setattr(_register, "MAX_LISTED", 4)
    data = parquet({"a": [1]})
    with pytest.raises(TooLarge, match="3 files"):
        Files({f"data/t/{number}.parquet": data for number in range(3)}).inspect("data/t")
    with pytest.raises(TooLarge, match="more than 4"):
        Files({f"data/t/_{number}": b"x" for number in range(5)}).inspect("data/t")
    monkeypatch.setattr(_register, "MAX_TEXT_BYTES", 10)
    with pytest.raises(TooLarge, match="convert it to Parquet"):
        Files({"data/t.csv": b"a,b\n1,2\n3,4\n"}).inspect("data/t.csv", "CSV")
    with pytest.raises(Invalid, match="DELTA"):
        Files({}).inspect("data/t", "DELTA")


def test_csv_has_a_header_and_types_that_fit_its_values() -> None:
    one = b'id,name,price,empty\n1,"a\nb",1,\n2,c,2.5,\n'
    two = b"id,name,price,empty\n3,d,7,\n"
    found = Files({"data/t/0.csv": one, "data/t/1.csv": two}).inspect("data/t", "CSV")
    assert [(column.name, column.data_type) for column in found.columns] == [
        ("id", "long"),
        ("name", "string"),
        ("price", "double"),
        ("empty", "string"),
    ]
    assert [file.row_count for file in found.files] == [2, 1]
    for other in (b"id,name\n1,a\n", b"id,name,empty,price\n1,a,,2\n", b"id,name,price,empty\nx,a,1,\n"):
        with pytest.raises(Refused, match=r"0\.csv and data/t/1\.csv"):
            Files({"data/t/0.csv": one, "data/t/1.csv": other}).inspect("data/t", "CSV")
    for wrong in (b"a,b\n1,2,3\n", b"\x1f\x8b compressed", b"\n", b"a\n\xff\xfe\xff\n" * 3):
        with pytest.raises(Refused):
            Files({"data/t.csv": wrong}).inspect("data/t.csv", "CSV")


def test_json_is_an_object_a_line() -> None:
    lines = [{"id": 1, "tags": ["a"], "at": {"x": 1.5}}, {"id": 2, "tags": [], "at": None, "new": True}]
    data = b"\n".join(json.dumps(line).encode() for line in lines) + b"\n\n"
    found = Files({"data/t/0.json": data, "data/t/1.json": b'{"id": 2.5, "more": "x"}'}).inspect("data/t", "JSON")
    assert {column.name: column.data_type for column in found.columns} == {
        "id": "double",
        "tags": "list<string>",
        "at": "struct<x:double>",
        "new": "boolean",
        "more": "string",
    }
    assert [file.row_count for file in found.files] == [2, 1]
    for wrong in (b'[{"a": 1}]', b"nonsense", b'{"a": 1}\n{"a": "x"}\n', b"{}"):
        with pytest.raises(Refused):
            Files({"data/t.json": wrong}).inspect("data/t.json", "JSON")


def test_json_that_is_nested_too_deep_ends_nothing() -> None:
    deep = 200_000
    for data in (b'{"a":' + b"[" * deep + b"]" * deep + b"}", b'{"a":' * deep + b"1" + b"}" * deep):
        with pytest.raises(Refused, match=r"nested|first line"):
            Files({"data/t.json": data}).inspect("data/t.json", "JSON")
    text = json.dumps({"a": "[" * 100 + '\\"' + "{" * 100, "b": {"c": [{"d": 1}]}}).encode()
    found = Files({"data/t.json": text}).inspect("data/t.json", "JSON")
    assert [column.data_type for column in found.columns] == ["string", "struct<c:list<struct<d:long>>>"]


@pytest.mark.parametrize(
    "data", [b"null", b"\xef\xbb\xbfnull", b' \r\n null {"a":1}', b'{"a":1}\nnull\n{"a":2}\n', b"nulls"]
)
def test_json_with_a_line_that_is_null_ends_nothing(data: bytes) -> None:
    with pytest.raises(Refused, match="a line that is null"):
        Files({"data/t.json": data}).inspect("data/t.json", "JSON")


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([*list('{}[]:,"\n \r'), "null", "1", '"a"', "true", "\ufeff"]), max_size=20).map("".join)
)
def test_no_text_breaks_it(text: str) -> None:
    with contextlib.suppress(Refused, NotFound):
        Files({"data/t": text.encode()}).inspect("data/t", "JSON", at_once=False)


Rows = st.lists(st.lists(st.text(st.sampled_from('ab",\n\r ')), min_size=2, max_size=2), max_size=8)


@settings(deadline=None)
@given(Rows, st.integers(1, 40), st.booleans())
def test_records_of_csv_are_counted_however_the_file_is_cut(rows: list[list[str]], piece: int, ended: bool) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n" if ended else "\n", quoting=csv.QUOTE_ALL).writerows(rows)
    data = text.getvalue().encode()
    data = data if ended else data.rstrip(b"\n")
    counter = _register._Lines(quoted=True)
    for start in range(0, len(data), piece):
        counter.feed(data[start : start + piece])
    assert counter.end() == len(rows)


def test_a_long_file_is_sampled_by_whole_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_register, "SAMPLE", 40)
    monkeypatch.setattr(_register, "PIECE", 7)
    data = b"id,text\n" + b"".join(b'%d,"line\nline"\n' % number for number in range(30))
    found = Files({"data/t.csv": data}).inspect("data/t.csv", "CSV")
    assert [(column.name, column.data_type) for column in found.columns] == [("id", "long"), ("text", "string")]
    assert found.row_count == 30
    with pytest.raises(Refused, match="first line"):
        Files({"data/t.csv": b'id,"' + b"x" * 100}).inspect("data/t.csv", "CSV")


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_break_it(data: bytes) -> None:
    for format in ("PARQUET", "CSV", "JSON"):
        try:
            Files({"data/t": data}).inspect("data/t", format, at_once=False)
        except (Refused, NotFound):
            continue


def test_a_store_that_fails_is_no_answer() -> None:
    async def test() -> None:
        base = MemoryStore()
        await base.put(f"{SCOPE.root}/data/t/0.parquet", parquet({"a": [1]}), only_if_absent=True)
        faulty = FaultyStore(base)
        store = RoleStore(faulty, SCOPE, Role.READER, RequestCounts())
        for error, wanted in (
            (StoreFailed("busy"), Unavailable),
            (ObjectMissing("gone"), Refused),
            (Corrupt("shorter than it was"), Refused),
        ):
            faulty.on("get_range", error=error)
            with pytest.raises(wanted):
                await inspect(store, "data/t", "PARQUET", FakeRuntime())
        assert (await inspect(store, "data/t", "PARQUET", FakeRuntime())).row_count == 1

    run(test())
