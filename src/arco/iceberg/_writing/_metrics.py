"""What a manifest says of a Parquet file, out of its footer: rows, sizes, nulls, bounds by which scans leave files out.

Bounds are those of plain columns, as single values in the binary form of the specification; text is cut as the
reference implementation cuts it. Columns that are withheld have none: bounds are values.
"""

import datetime
import math
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from arco.iceberg._writing._columns import Fields, leaves_of

__all__ = ["DataFile", "describe"]

MAX_TEXT: Final = 16
"""Characters of text, or bytes, that a bound has."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY: Final = datetime.date(1970, 1, 1)
_LAST_CHARACTER: Final = 0x10FFFF


@dataclass(frozen=True)
class DataFile:
    """A file of a table, by ids of its columns."""

    location: str
    record_count: int
    size: int
    column_sizes: dict[int, int] = field(default_factory=dict)
    value_counts: dict[int, int] = field(default_factory=dict)
    """Of every column of the table that the file has."""
    null_counts: dict[int, int] = field(default_factory=dict)
    lower: dict[int, bytes] = field(default_factory=dict)
    upper: dict[int, bytes] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()


def describe(location: str, size: int, footer: pq.FileMetaData, fields: Fields, told: Collection[str]) -> DataFile:
    """A file as the columns of a table see it. `told` are the columns of which bounds may be told."""
    schema: pa.Schema = footer.schema.to_arrow_schema()
    names = {field["id"]: field["name"] for field in fields if isinstance(field["type"], str)}
    found = DataFile(location, footer.num_rows, size, split_offsets=_offsets(footer))
    for index, leaf in enumerate(leaves_of(schema, fields)):
        if leaf is None:
            continue
        number, kind = leaf
        chunks = [footer.row_group(group).column(index) for group in range(footer.num_row_groups)]
        found.column_sizes[number] = sum(chunk.total_compressed_size for chunk in chunks)
        found.value_counts[number] = sum(chunk.num_values for chunk in chunks)
        stats = [chunk.statistics for chunk in chunks]
        if not stats or any(stat is None or not stat.has_null_count for stat in stats):
            continue
        found.null_counts[number] = sum(stat.null_count for stat in stats)
        bounds = _bounds(stats) if names.get(number) in told else None
        if bounds is not None:
            lower, upper = _encoded(kind, bounds[0]), _encoded(kind, bounds[1])
            if lower is not None and upper is not None:
                found.lower[number] = _cut(kind, lower)
                raised = _raised(kind, upper)
                if raised is not None:
                    found.upper[number] = raised
    return found


def _offsets(footer: pq.FileMetaData) -> tuple[int, ...]:
    """Where row groups begin."""
    if footer.num_columns == 0:
        return ()
    first = [footer.row_group(group).column(0) for group in range(footer.num_row_groups)]
    places = [(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset) for chunk in first]
    offsets = tuple(min(place) for place in places)
    return offsets if all(one < other for one, other in pairwise(offsets)) else ()


def _bounds(stats: Iterable[Any]) -> tuple[Any, Any] | None:
    """Least and greatest value, if every row group that has values tells its own."""
    told = [stat for stat in stats if stat.num_values > 0]
    if not told or not all(stat.has_min_max for stat in told):
        return None
    try:
        return min(stat.min for stat in told), max(stat.max for stat in told)
    except (ValueError, OverflowError, TypeError, NotImplementedError, pa.ArrowException):
        return None  # no value that Python has


def _encoded(kind: Any, value: Any) -> bytes | None:
    """A value in the binary form of the specification; None if it has none that is safe."""
    match kind, value:
        case "boolean", bool():
            return b"\x01" if value else b"\x00"
        case "int", int():
            return struct.pack("<i", value)
        case "long", int():
            return struct.pack("<q", value)
        case "float", float() if not math.isnan(value) and value != 0:
            return struct.pack("<f", value)
        case "double", float() if not math.isnan(value) and value != 0:
            return struct.pack("<d", value)
        case "date", datetime.date():
            return struct.pack("<i", (value - _DAY).days)
        case "timestamp" | "timestamptz", datetime.datetime():
            moment = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
            return struct.pack("<q", (moment - _EPOCH) // datetime.timedelta(microseconds=1))
        case "string", str():
            return value.encode()
        case _, Decimal() if kind.startswith("decimal("):
            return _decimal(value, int(kind[len("decimal(") : -1].partition(",")[2]))
    return None


def _decimal(value: Decimal, scale: int) -> bytes | None:
    unscaled = value.scaleb(scale)
    number = int(unscaled)
    if number != unscaled:
        return None
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def _cut(kind: Any, bound: bytes) -> bytes:
    return bound.decode()[:MAX_TEXT].encode() if kind == "string" else bound


def _raised(kind: Any, bound: bytes) -> bytes | None:
    """An upper bound that may be cut: then its last character is the next one, so that it still is above all values."""
    if kind != "string":
        return bound
    text = bound.decode()
    if len(text) <= MAX_TEXT:
        return bound
    for length in range(MAX_TEXT, 0, -1):
        following = ord(text[length - 1]) + 1
        if following == 0xD800:
            following = 0xE000  # halves of pairs are no characters
        if following <= _LAST_CHARACTER:
            return (text[: length - 1] + chr(following)).encode()
    return None
