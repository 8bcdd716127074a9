"""From what a function returns to files, and from files to what a parameter gets.

    returned                                   stored as                handed on as
    pyarrow Table, RecordBatchReader           part-*.parquet           the same
    pandas DataFrame                           part-*.parquet           the same
    list of dicts (rows; at least one)         part-*.parquet           the same
    other values that JSON can hold            value.json               the same; tuples become lists
    None                                       nothing                  None

Parquet files tell in their metadata what they were made of. Libraries are loaded only for values that need them.
"""

import io
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from arco.assets import SchemaColumn
from arco.core import Invalid
from arco.spark._errors import InputDamaged
from arco.worker._errors import NothingReturned, SchemaViolation
from arco.worker._messages import WrittenFile, WrittenStats

__all__ = ["Stored", "described", "load_value", "null_counts", "store_value"]

VALUE: Final = "value.json"
KIND: Final = b"arco.kind"
FILE_BYTES: Final = 128 << 20
"""A file ends at this size, so that one fits into memory wherever it is read."""
GROUP_ROWS: Final = 1 << 20
GROUP_BYTES: Final = 64 << 20
MAX_STATS: Final = 200
"""Columns of a file whose statistics are told: they are part of an event."""
MAX_STAT_TEXT: Final = 100

Read = Callable[[str], bytes]
Write = Callable[[str, bytes], None]


class Stored:
    """What was written for one output."""

    def __init__(
        self, files: Sequence[WrittenFile] = (), schema: bytes = b"", table: Any = None, columns: Sequence[str] = ()
    ) -> None:
        self.files = tuple(files)
        self.schema = schema
        self.table = table
        """The Arrow table that was written; None for what is none, and for a stream."""
        self.columns = columns
        """Its names; empty for what is no table."""


def store_value(value: Any, location: str, write: Write, declared: Sequence[SchemaColumn] = ()) -> Stored:
    """Write a value below a folder. `declared` are the columns that the asset says it has."""
    if value is None:
        if declared:
            raise NothingReturned("the asset declares columns and returned None; return a table or rows")
        return Stored()
    kind = _table_kind(value)
    if kind is not None:
        return _store_table(kind, value, location, write, declared)
    if declared:
        raise SchemaViolation(
            f"the asset declares columns and returned {type(value).__name__}; return a table or a list of dicts"
        )
    _check_json(value, "the value")
    data = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    write(location + VALUE, data)
    return Stored([WrittenFile(location + VALUE, len(data), 1)])


def load_value(paths: Sequence[str], read: Read) -> Any:
    """The value of one version from its files. `InputDamaged` if they are not as they were written."""
    if not paths:
        return None
    if not paths[0].endswith(".json"):
        return _load_table(paths, read)
    data = read(paths[0])
    try:
        return json.loads(data)
    except ValueError as error:
        raise _damaged(paths[0], error) from error


def _damaged(path: str, error: Exception) -> InputDamaged:
    said = (str(error).splitlines() or [""])[0][:200]
    return InputDamaged(f"{path}, which the task reads, is damaged ({said}); run what makes it again", path=path)


# Values that JSON can hold


def _check_json(value: Any, place: str) -> None:
    """`Invalid` names the place of what would not come back as it is."""
    pending: list[tuple[Any, str]] = [(value, place)]
    while pending:
        node, where = pending.pop()
        if node is None or isinstance(node, str | bool | int):
            continue
        if isinstance(node, float):
            if not math.isfinite(node):
                raise Invalid(f"{where} is {node}, which JSON does not have; return None or text instead")
        elif isinstance(node, dict):
            for key, child in node.items():
                if not isinstance(key, str):
                    raise Invalid(f"{where} has a key of type {type(key).__name__}; use text as keys")
                pending.append((child, f"{where}[{key[:40]!r}]"))
        elif isinstance(node, list | tuple):
            pending.extend((child, f"{where}[{index}]") for index, child in enumerate(node))
        else:
            raise Invalid(
                f"{where} is of type {type(node).__module__}.{type(node).__qualname__}, which cannot be stored; return "
                "a pyarrow Table, a pandas DataFrame, a list of dicts, or what JSON can hold"
            )


# Tables


def _table_kind(value: Any) -> str | None:
    """What sort of table it is; None if it is none. A library that is not loaded made none of it."""
    arrow, pandas = sys.modules.get("pyarrow"), sys.modules.get("pandas")
    if arrow is not None and isinstance(value, arrow.Table | arrow.RecordBatch):
        return "table"
    if arrow is not None and isinstance(value, arrow.RecordBatchReader):
        return "reader"
    if pandas is not None and isinstance(value, pandas.DataFrame):
        return "pandas"
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        return "rows"
    return None


def _store_table(kind: str, value: Any, location: str, write: Write, declared: Sequence[SchemaColumn]) -> Stored:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = _as_table(kind, value, declared)
    schema, batches = _streamed_batches(value) if table is None else (table.schema, _sliced(table))
    _check_names(schema.names)
    schema = schema.with_metadata({**(schema.metadata or {}), KIND: kind.encode()})
    files: list[WrittenFile] = []
    required = [column.name for column in declared if not column.nullable and column.name in schema.names]
    for data in _encoded(schema, _without_nulls(batches, required)):
        path = f"{location}part-{len(files):05d}.parquet"
        write(path, data)
        files.append(described(path, len(data), pq.read_metadata(pa.BufferReader(data))))
    return Stored(files, schema.remove_metadata().serialize().to_pybytes(), table, schema.names)


def _check_names(names: Sequence[str]) -> None:
    """SQL and Spark do not tell columns apart whose names differ in case alone."""
    counts = Counter(name.lower() for name in names)
    double = [name for name in names if counts[name.lower()] > 1]
    if double:
        raise Invalid(
            f"the table has columns of the same name, which may not differ in case alone: {', '.join(double[:10])}; "
            "rename or drop one"
        )


def _as_table(kind: str, value: Any, declared: Sequence[SchemaColumn]) -> Any:
    """The value as one table; None for a stream. Rows and frames take the declared types, which they cannot say."""
    import pyarrow as pa

    if kind == "reader":
        return None
    if kind == "table":
        return value if isinstance(value, pa.Table) else pa.Table.from_batches([value])
    if kind == "pandas":
        return _declared_types(pa.Table.from_pandas(value), declared)
    return _declared_types(_rows_table(value), declared)


def _streamed_batches(reader: Any) -> tuple[Any, Iterable[Any]]:
    import pyarrow as pa

    return reader.schema, (pa.Table.from_batches([batch]) for batch in reader)


def _rows_table(rows: list[dict[Any, Any]]) -> Any:
    import pyarrow as pa

    names: dict[str, None] = {}
    for row in rows:
        for name in row:
            if not isinstance(name, str):
                raise Invalid(f"a row has a key of type {type(name).__name__}; the keys of rows are names of columns")
            names[name] = None
    if not names:
        raise Invalid("the rows have no columns; return None if there is nothing to keep")
    arrays = []
    for name in names:
        try:
            arrays.append(pa.array([row.get(name) for row in rows]))
        except (pa.ArrowException, OverflowError) as error:
            raise Invalid(
                f"the column {name[:100]!r} holds values of different types or of one that no table has "
                f"({type(error).__name__}); make them alike, or return a pyarrow Table"
            ) from error
    return pa.Table.from_arrays(arrays, names=list(names))


def _declared_types(table: Any, declared: Sequence[SchemaColumn]) -> Any:
    import pyarrow as pa

    types = {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "UTC"),
        "string": pa.string(),
        "binary": pa.binary(),
    }
    wanted = {column.name: types[column.type] for column in declared if column.type in types}
    for index, field in enumerate(table.schema):
        target = wanted.get(field.name)
        if target is None or target == field.type:
            continue
        try:
            column = table.column(index).cast(target)
        except pa.ArrowException as error:
            raise SchemaViolation(
                f"the column {field.name} is declared as {target} and holds {field.type} that does not fit: "
                f"{str(error).splitlines()[0][:200]}"
            ) from error
        table = table.set_column(index, pa.field(field.name, target), column)
    return table


def _sliced(table: Any) -> Iterator[Any]:
    """The table in pieces of at most one row group each; one piece if it is empty."""
    rows = GROUP_ROWS
    if table.num_rows and table.nbytes > GROUP_BYTES:
        rows = max(1, min(rows, table.num_rows * GROUP_BYTES // table.nbytes))
    for start in range(0, max(table.num_rows, 1), rows):
        yield table.slice(start, rows)


def _encoded(schema: Any, tables: Iterable[Any]) -> Iterator[bytes]:
    """Parquet files that together hold all rows, each whole and at least one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink: io.BytesIO | None = None
    writer: Any = None
    for group in _grouped(tables):
        if writer is None:
            sink = io.BytesIO()
            writer = pq.ParquetWriter(sink, schema, compression="zstd")
        writer.write_table(group.cast(schema))
        if sink is not None and sink.tell() >= FILE_BYTES:
            writer.close()
            yield sink.getvalue()
            writer = None
    if sink is None:
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_batches([], schema), sink, compression="zstd")
    elif writer is None:
        return
    else:
        writer.close()
    yield sink.getvalue()


def _grouped(tables: Iterable[Any]) -> Iterator[Any]:
    """Neighbours put together until they are worth a row group."""
    import pyarrow as pa

    held: list[Any] = []
    for table in tables:
        held.append(table)
        if sum(t.num_rows for t in held) >= GROUP_ROWS or sum(t.nbytes for t in held) >= GROUP_BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _without_nulls(tables: Iterable[Any], required: Sequence[str]) -> Iterator[Any]:
    for table in tables:
        for name in required:
            nulls = table.column(name).null_count
            if nulls:
                raise SchemaViolation(f"the column {name} may not be null and is so in {nulls} rows")
        yield table


def described(path: str, size: int, footer: Any) -> WrittenFile:
    """A Parquet file by what its footer (a `pyarrow.parquet.FileMetaData`) says."""
    return WrittenFile(path, size, footer.num_rows, tuple(_stats(footer)[:MAX_STATS]))


def null_counts(footer: Any, names: Sequence[str]) -> dict[str, int]:
    """How often columns are null in a file, of those of which its footer says so."""
    places = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    found: dict[str, int] = {}
    for name in names:
        groups = range(footer.num_row_groups) if name in places else ()
        stats = [footer.row_group(group).column(places[name]).statistics for group in groups]
        if all(stat is not None and stat.has_null_count for stat in stats):
            found[name] = sum(stat.null_count for stat in stats)
    return found


def _stats(footer: Any) -> list[WrittenStats]:
    """Of the columns that are not nested: nulls, least and greatest value over all row groups."""
    found: list[WrittenStats] = []
    for index in range(footer.num_columns):
        if "." in footer.schema.column(index).path:
            continue
        parts = [footer.row_group(group).column(index) for group in range(footer.num_row_groups)]
        stats = [part.statistics for part in parts]
        if not stats or any(stat is None or not stat.has_null_count for stat in stats):
            continue
        bounds = [(stat.min, stat.max) for stat in stats if stat.has_min_max]
        low = high = None
        if bounds:
            low, high = _bound(min, (bound[0] for bound in bounds)), _bound(max, (bound[1] for bound in bounds))
        found.append(WrittenStats(footer.schema.column(index).path, sum(stat.null_count for stat in stats), low, high))
    return found


def _bound(choose: Callable[[Iterable[Any]], Any], values: Iterable[Any]) -> str | None:
    value = choose(values)
    if isinstance(value, bytes) or (isinstance(value, float) and math.isnan(value)):
        return None
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return text if len(text) <= MAX_STAT_TEXT else None


def _load_table(paths: Sequence[str], read: Read) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def table_of(path: str) -> Any:
        data = read(path)
        try:
            return pq.read_table(pa.BufferReader(data))
        except (pa.ArrowInvalid, OSError) as error:
            raise _damaged(path, error) from error

    first = table_of(paths[0])
    kind = (first.schema.metadata or {}).get(KIND, b"table")
    if kind == b"reader":
        schema = _without_kind(first.schema)
        return pa.RecordBatchReader.from_batches(schema, _streamed(schema, first, paths[1:], table_of))
    table = pa.concat_tables([first, *(table_of(path) for path in paths[1:])])
    table = table.replace_schema_metadata(_without_kind(table.schema).metadata)
    if kind == b"pandas":
        return table.to_pandas()
    return table.to_pylist() if kind == b"rows" else table


def _streamed(schema: Any, first: Any, paths: Sequence[str], table_of: Callable[[str], Any]) -> Iterator[Any]:
    yield from first.cast(schema).to_batches()
    for path in paths:
        yield from table_of(path).cast(schema).to_batches()


def _without_kind(schema: Any) -> Any:
    return schema.with_metadata({key: value for key, value in (schema.metadata or {}).items() if key != KIND})
