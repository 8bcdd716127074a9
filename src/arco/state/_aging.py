"""How old the rows of a table are: by what the manifest says of its files, and of few of them by reading them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from arco.state._fold import Rows
from arco.state._layers import LayerReader
from arco.state._manifest import File, Layer
from arco.state._table import Table

__all__ = ["Aged", "count_aged", "oldest_time"]


class Aged(NamedTuple):
    """Stored rows of some age; of an image every version of it that is stored counts."""

    rows: int
    bytes: int
    oldest: int | None
    """The time of the oldest; None if there are none, or if an id that says it is no ULID."""


def oldest_time(table: Table, layers: Iterable[Layer], dirty: Iterable[Rows], column: str = "") -> int | None:
    """A time before which the table has no row; None if it has no rows. Nothing is read.

    By the column rows expire by, or another one of times whose ends stand in the manifest.
    """
    name = column or table.time or ""
    files = [file for layer in layers for file in layer.files if file.rows]
    found = [_time(table, name, file.stats[name][0]) if name in file.stats else 0 for file in files]
    for rows in dirty:
        found += [_time(table, name, getattr(row, name)) for _, row in rows.values() if row is not None]
    return min(found, default=None)


def _time(table: Table, name: str, value: Any) -> int:
    """The time of a value; what does not say it may be of any."""
    time = table.time_in(value) if name == table.time else int(value)
    return 0 if time is None else time


async def count_aged(reader: LayerReader, table: Table, layers: Iterable[Layer], since: int, until: int) -> Aged:
    """The rows from one time on up to another. Only files that hold others too are read."""
    low, high = table.limit(since), table.limit(until)
    rows, size, oldest = 0, 0, list[int]()
    for file in (file for layer in layers for file in layer.files):
        first, last = file.stats.get(table.time or "", (None, None))
        count = file.rows
        if first is None or first < low or last >= high:
            if first is not None and (last < low or first >= high):
                continue
            first, count = await _count(reader, table, file, low, high)
        if count:
            rows += count
            size += file.length * count // file.rows
            time = table.time_in(first)
            oldest += [] if time is None else [time]
    return Aged(rows, size, min(oldest, default=None))


async def _count(reader: LayerReader, table: Table, file: File, low: Any, high: Any) -> tuple[Any, int]:
    """The least value within the ends that a file has, and how many."""
    column = (await reader.read(table, file)).column(table.time or "")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    found = column.filter(pc.and_(pc.greater_equal(column, low), pc.less(column, high)))
    return pc.min(found).as_py(), len(found)
