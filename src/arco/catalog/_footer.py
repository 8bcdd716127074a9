"""Footers of Parquet files: how many rows a file has and what its columns hold, without reading the data."""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from arco.core import Refused
from arco.storage import ObjectInfo, Store

__all__ = ["ColumnFacts", "column_facts", "read_footer"]

TAIL: Final = 64 << 10
MAX_FOOTER: Final = 64 << 20
MAX_COLUMNS: Final = 200
"""Columns of a file whose statistics are told: they are part of an event."""
MAX_TEXT: Final = 100


class ColumnFacts(NamedTuple):
    name: str
    null_count: int
    least: str | None
    greatest: str | None


async def read_footer(store: Store, info: ObjectInfo) -> pq.FileMetaData:
    """The footer of a file, by one or two reads of its end. `Refused` says what is wrong with the file."""
    tail = await store.get_range(info.path, max(info.size - TAIL, 0), min(info.size, TAIL))
    if len(tail) < 12 or tail[-4:] != b"PAR1":
        raise Refused(f"{info.path} is not a Parquet file; make its version again")
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if length > min(info.size, MAX_FOOTER):
        raise Refused(f"{info.path} has a footer of {length} bytes, which cannot be; make its version again")
    footer = tail[-length:] if length <= len(tail) else await store.get_range(info.path, info.size - length, length)
    try:
        return pq.read_metadata(pa.BufferReader(footer))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Refused(
            f"{info.path} has a footer that cannot be read ({type(error).__name__}); make it again"
        ) from error


def column_facts(footer: pq.FileMetaData) -> list[ColumnFacts]:
    """Of columns that are not nested: nulls, least and greatest value over all row groups, as far as they are told."""
    found: list[ColumnFacts] = []
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        if "." in name or len(found) == MAX_COLUMNS:
            continue
        stats = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        if not stats or any(stat is None or not stat.has_null_count for stat in stats):
            continue
        bounds = [(stat.min, stat.max) for stat in stats if stat.has_min_max]
        least = _bound(min, [bound[0] for bound in bounds]) if bounds else None
        greatest = _bound(max, [bound[1] for bound in bounds]) if bounds else None
        found.append(ColumnFacts(name, sum(stat.null_count for stat in stats), least, greatest))
    return found


def _bound(choose: Callable[[Iterable[Any]], Any], values: list[Any]) -> str | None:
    value = choose(values)
    if isinstance(value, bytes) or (isinstance(value, float) and math.isnan(value)):
        return None
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return text if len(text) <= MAX_TEXT else None
