"""Values: what is stored comes back as what it was, and what cannot is refused before it is lost."""

import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.assets import SchemaColumn
from arco.core import Invalid
from arco.spark._errors import InputDamaged
from arco.worker import _values
from arco.worker._errors import SchemaViolation
from arco.worker._values import Stored, load_value, store_value

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)


class Folder(dict[str, bytes]):
    """Objects that are created once."""

    def write(self, path: str, data: bytes) -> None:
        assert path not in self
        self[path] = data

    def store(self, value: Any, *columns: SchemaColumn) -> Stored:
        return store_value(value, "data/x/", self.write, columns)

    def load(self, stored: Stored) -> Any:
        return load_value([file.path for file in stored.files], self.__getitem__)


def is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


@given(JSON.filter(lambda value: not is_rows(value)))
def test_what_json_can_hold_comes_back(value: Any) -> None:
    folder = Folder()
    stored = folder.store(value)
    assert folder.load(stored) == value
    assert list(folder) == ([] if value is None else ["data/x/value.json"])
    assert [file.size_bytes for file in stored.files] == [len(data) for data in folder.values()]


@pytest.mark.parametrize("value", [{"a": 1}, [{"a": 1}], pa.table({"a": [1]})])
@pytest.mark.parametrize("harm", [bytes, lambda size: b"", lambda size: b"PAR1" * size])
def test_what_is_not_as_it_was_written_is_told_as_damaged_by_its_path(value: Any, harm: Callable[[int], bytes]) -> None:
    folder = Folder()
    stored = folder.store(value)
    (path,) = folder
    folder[path] = harm(len(folder[path]))
    with pytest.raises(InputDamaged, match=f"{path}, which the task reads, is damaged .*run what makes it again"):
        folder.load(stored)


@pytest.mark.parametrize("names", [["id", "v", "id"], ["id", "v", "ID"]])
def test_columns_of_the_same_name_are_refused(names: list[str]) -> None:
    folder = Folder()
    with pytest.raises(Invalid, match=f"columns of the same name.*: {names[0]}, {names[2]}; rename"):
        folder.store(pa.Table.from_arrays([pa.array([1])] * 3, names=names))
    assert not folder


CELLS = st.none() | st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.fixed_dictionaries({"a": CELLS, "b": st.none() | st.text()}), min_size=1, max_size=10))
def test_rows_come_back_as_rows(rows: list[dict[str, Any]]) -> None:
    folder = Folder()
    stored = folder.store(rows)
    assert folder.load(stored) == rows
    assert stored.files[0].row_count == len(rows)


def test_rows_with_other_keys_get_nulls_and_types_survive() -> None:
    folder = Folder()
    rows = [{"d": date(2025, 1, 1), "n": Decimal("1.50")}, {"t": datetime(2025, 1, 1, tzinfo=UTC), "l": [1, 2]}]
    assert folder.load(folder.store(rows)) == [
        {"d": date(2025, 1, 1), "n": Decimal("1.50"), "t": None, "l": None},
        {"d": None, "n": None, "t": datetime(2025, 1, 1, tzinfo=UTC), "l": [1, 2]},
    ]


def test_tables_and_readers_come_back_as_what_they_were() -> None:
    table = pa.table({"x": [1, 2, 3], "y": ["a", None, "c"]}).replace_schema_metadata({"mine": "kept"})
    folder = Folder()
    found = folder.load(folder.store(table))
    assert isinstance(found, pa.Table)
    assert found.equals(table, check_metadata=True)
    folder = Folder()
    reader = folder.load(folder.store(table.to_reader()))
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.read_all().equals(table)
    folder = Folder()
    assert folder.load(folder.store(table.to_batches()[0])).equals(table)


def test_an_empty_table_is_one_file_without_rows() -> None:
    schema = pa.schema([("x", pa.int64())])
    for value in (schema.empty_table(), pa.RecordBatchReader.from_batches(schema, [])):
        folder = Folder()
        stored = folder.store(value)
        assert [file.row_count for file in stored.files] == [0]
        assert folder.load(stored).schema.equals(schema)


def test_large_tables_become_several_files_of_whole_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_values, "FILE_BYTES", 4_000)
    monkeypatch.setattr(_values, "GROUP_ROWS", 1_000)
    table = pa.table({"x": list(range(10_500))})
    for value in (table, table.to_reader(max_chunksize=300)):
        folder = Folder()
        stored = folder.store(value)
        assert len(stored.files) > 2
        assert sum(file.row_count for file in stored.files) == 10_500
        assert all(pq.read_metadata(pa.BufferReader(data)).num_rows > 500 for data in list(folder.values())[:-1])
        found = folder.load(stored)
        assert (found if isinstance(found, pa.Table) else found.read_all()).equals(table)
        assert stored.files[-1].stats[0].max == "10499"


def test_frames_of_pandas_are_recognised_when_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class DataFrame:
        """Stands for the class of a library that is not installed here."""

    pandas = ModuleType("pandas")
    pandas.DataFrame = DataFrame  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert _values._table_kind(DataFrame()) == "pandas"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": object()}, "the value['a'] is of type builtins.object"),
        ({1: 2}, "key of type int"),
        ([1.5, float("nan")], "the value[1] is nan"),
        (b"bytes", "builtins.bytes"),
        ([{"a": 1}, {"a": "x"}], "column 'a'"),
        ([{1: 2}], "keys of rows"),
        ([{}], "no columns"),
        ([{"a": 2**70}], "column 'a'"),
        ({"when": date(2025, 1, 1)}, "datetime.date"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(value: Any, said: str) -> None:
    folder = Folder()
    with pytest.raises(Invalid) as caught:
        folder.store(value)
    assert said in caught.value.message
    assert not folder


def test_rows_take_the_declared_types() -> None:
    folder = Folder()
    columns = (SchemaColumn("a", "int"), SchemaColumn("b", "double"), SchemaColumn("c", "string"))
    stored = folder.store([{"a": 1, "b": 2, "c": None}], *columns)
    schema = pa.ipc.read_schema(pa.BufferReader(stored.schema))
    assert schema.types == [pa.int32(), pa.float64(), pa.string()]


@pytest.mark.parametrize("value", [None, 5, {"a": 1}])
def test_declared_columns_need_a_table(value: Any) -> None:
    with pytest.raises(SchemaViolation, match="declares columns"):
        Folder().store(value, SchemaColumn("a", "int"))


def test_values_that_do_not_fit_the_declared_type_are_refused() -> None:
    with pytest.raises(SchemaViolation, match="a is declared as int32"):
        Folder().store([{"a": 2**40}], SchemaColumn("a", "int"))
    with pytest.raises(SchemaViolation, match="a may not be null and is so in 1 rows"):
        Folder().store([{"a": None}, {"a": 1}], SchemaColumn("a", "int", nullable=False))
    with pytest.raises(SchemaViolation, match="a may not be null"):
        Folder().store(pa.table({"a": pa.nulls(2)}), SchemaColumn("a", "string", nullable=False))


def test_statistics_are_told_for_few_short_and_comparable_values() -> None:
    folder = Folder()
    wide: dict[str, list[Any]] = {f"c{n}": [n] for n in range(300)}
    wide |= {"long": ["x" * 500], "blob": [b"x"], "nested": [{"a": 1}], "nan": [float("nan")]}
    (file,) = folder.store(pa.table({"day": [date(2025, 1, 2)], "none": pa.nulls(1, pa.int8()), **wide})).files
    assert len(file.stats) == 200
    assert (file.stats[0].min, file.stats[1].null_count) == ("2025-01-02", 1)
    folder = Folder()
    (file,) = folder.store(pa.table({name: wide[name] for name in ("long", "blob", "nested", "nan")})).files
    assert {stat.column: stat.max for stat in file.stats} == {"long": None, "blob": None, "nan": None}
