"""Data files to Arrow, in the columns of a table. Pure functions on bytes; they belong into `Runtime.offload`.

A `Wanted` column says what it is called now, which type it has, and under which names a file may hold it. A column
that a file lacks comes from the partition's key if that has it, and is null otherwise. Files are decoded batch by
batch and decoding stops at a budget of bytes: a small file may hold very much.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from arco.catalog._json_lines import check_json_lines
from arco.core import Refused, Scalar, TooLarge

__all__ = ["Wanted", "decode_file"]

_BATCH_ROWS = 4_096
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Wanted:
    name: str
    type: pa.DataType
    is_uuid: bool
    sources: tuple[str, ...]
    """Names of it in a file, the best one first."""
    has_default: bool = False
    default: Scalar = None
    """What the partition's key says."""


def decode_file(format: str, data: bytes, wanted: Sequence[Wanted], path: str, budget: int) -> pa.Table:
    """The rows of a file. `Refused` if it cannot be read as what the catalog says it is."""
    schema = pa.schema([(column.name, column.type) for column in wanted])
    batches: list[pa.RecordBatch] = []
    size = 0
    try:
        if format == "JSON":
            check_json_lines(data, path)
        if format == "PARQUET":
            _check_footer(data, wanted, path, budget)
        for batch in _READERS[format](data, wanted):
            conformed = _conform(batch, wanted, schema, path)
            size += conformed.nbytes
            if size > budget:
                raise TooLarge(
                    f"the file {path} holds more than the {budget} bytes that may still be read; name fewer columns"
                )
            batches.append(conformed)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Refused(f"the file {path} cannot be read as {format} ({_first_line(error)}); write it again") from error
    return pa.Table.from_batches(batches, schema)


def _check_footer(data: bytes, wanted: Sequence[Wanted], path: str, budget: int) -> None:
    """Refuse a small file that says it unpacks to more than may be read, before anything is unpacked."""
    metadata = pq.read_metadata(pa.BufferReader(data))
    names = set(_source_names(wanted))
    size = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        chunks = (group.column(at) for at in range(group.num_columns))
        size += sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.split(".")[0] in names)
    if size > budget:
        raise TooLarge(f"the file {path} unpacks to {size} bytes and {budget} may still be read; name fewer columns")


def _parquet(data: bytes, wanted: Sequence[Wanted]) -> Iterator[pa.RecordBatch]:
    file = pq.ParquetFile(pa.BufferReader(data))
    held = set(file.schema_arrow.names)
    names = [name for name in _source_names(wanted) if name in held]
    if names:
        yield from file.iter_batches(_BATCH_ROWS, columns=names)
        return
    rows = file.metadata.num_rows  # nothing of it is wanted but how many rows there are
    for start in range(0, rows, _BATCH_ROWS):
        yield pa.RecordBatch.from_arrays([pa.nulls(min(_BATCH_ROWS, rows - start))], ["_"])


def _csv(data: bytes, wanted: Sequence[Wanted]) -> Iterator[pa.RecordBatch]:
    if not data.strip():
        return
    # An empty field is null, a quoted empty one is text.
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: _csv_type(column.type) for column in wanted for name in column.sources},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    yield from pyarrow.csv.open_csv(
        pa.BufferReader(data),
        read_options=pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=convert,
    )


def _csv_type(kind: pa.DataType) -> pa.DataType:
    """What Arrow reads in a field of CSV; the rest is cast afterwards."""
    return pa.string() if pa.types.is_nested(kind) or pa.types.is_time(kind) else kind


def _json(data: bytes, wanted: Sequence[Wanted]) -> Iterator[pa.RecordBatch]:
    if not data.strip():
        return
    fields = {name: _json_type(column.type) for column in wanted for name in column.sources}
    yield from pyarrow.json.open_json(
        pa.BufferReader(data),
        read_options=pyarrow.json.ReadOptions(block_size=max(_BLOCK_BYTES, _longest_line(data)), use_threads=False),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(list(fields.items())), unexpected_field_behavior="ignore"
        ),
    )


def _json_type(kind: pa.DataType) -> pa.DataType:
    """JSON has dates and times as text, which is cast afterwards. A map is a list of objects with key and value."""
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _json_type(field.type)) for field in kind])
    return pa.list_(_json_type(kind.value_type)) if pa.types.is_list(kind) else kind


def _longest_line(data: bytes) -> int:
    """Arrow refuses a JSON line that is longer than its block."""
    longest = start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        longest, start = max(longest, end - start), end + 1
    return longest + 1


_READERS = {"PARQUET": _parquet, "CSV": _csv, "JSON": _json}


def _source_names(wanted: Sequence[Wanted]) -> list[str]:
    return list(dict.fromkeys(name for column in wanted for name in column.sources))


def _conform(batch: pa.RecordBatch, wanted: Sequence[Wanted], schema: pa.Schema, path: str) -> pa.RecordBatch:
    arrays = []
    for column in wanted:
        held = [name for name in column.sources if name in batch.schema.names]
        try:
            arrays.append(_column(batch, column, held))
        except (pa.ArrowException, ValueError) as error:
            raise Refused(
                f"the column {column.name} of {path} cannot be read as {column.type} ({_first_line(error)}); "
                "change its type in the catalog, or write the file again"
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(batch: pa.RecordBatch, column: Wanted, held: Sequence[str]) -> pa.Array:
    found = [_cast(batch.column(name), column) for name in held]
    if column.has_default and not any(len(array) > array.null_count for array in found):
        value = pa.array([column.default]).cast(column.type)[0]
        return pa.repeat(value, batch.num_rows)
    if not found:
        return pa.nulls(batch.num_rows, column.type)
    return found[0] if len(found) == 1 else pc.coalesce(*found)


def _cast(array: pa.Array, column: Wanted) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if column.is_uuid and pa.types.is_fixed_size_binary(array.type) and array.type.byte_width == 16:
        return pa.array(
            [None if item is None else str(uuid.UUID(bytes=item)) for item in array.to_pylist()], pa.string()
        )
    return array if array.type == column.type else array.cast(column.type)


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200]
