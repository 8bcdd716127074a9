"""Merging small Parquet files: which ones, and one file of several, with the same rows in the same order.

Files are merged only with their neighbours, so that whoever reads a version from its first file to its last reads the
same as before. What is written has the schema of what was read, to the last detail (names, types, physical types, field
ids, key-value metadata), and this is compared before anybody is told of it; where it would not be, nothing is merged.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from arco.catalog import column_facts
from arco.core import ArcoError, Refused, Runtime, new_ulid
from arco.domains.execution import ColumnStats, DataFile
from arco.servo._side_by_side import side_by_side
from arco.storage import ObjectMissing, Store

__all__ = ["LocalMerger", "Merge", "Merger", "NotMerged", "merge_tables", "plan_merges", "write_merged"]

GROUP_ROWS: Final = 1 << 20
GROUP_BYTES: Final = 64 << 20
"""A row group ends at so many rows or bytes in memory."""
BATCH_ROWS: Final = 64 << 10
READS_AT_ONCE: Final = 16
LARGE: Final = 0.75
"""A file that has this part of the target is large enough."""

_OLD_TIMESTAMP: Final = "INT96"


@dataclass(frozen=True)
class Merge:
    """Files of a version that become one."""

    sources: tuple[tuple[str, int], ...]
    """Paths and sizes, in the order of their rows."""
    location: str
    """The folder of the new file, with a slash at its end."""
    number: int

    @property
    def size(self) -> int:
        return sum(size for _, size in self.sources)


@dataclass(frozen=True)
class NotMerged:
    """Why files stay as they are."""

    reason: str


class Merger(Protocol):
    """What merges files: in this process, or on Spark."""

    room: int
    """Bytes that one call should get."""

    async def merge(self, merges: Sequence[Merge]) -> list[DataFile | NotMerged]:
        """Write the file of each, in order. Whatever happens, files that are there are not touched."""
        ...


def plan_merges(files: Sequence[DataFile], target: int) -> list[range]:
    """Runs of two and more neighbours, by their places, that fit into one file of the target's size."""
    found: list[range] = []
    start, size = 0, 0
    for place, file in enumerate(files):
        may = file.path.endswith(".parquet") and file.path.startswith("data/") and file.size_bytes < target * LARGE
        if may and size + file.size_bytes <= target:
            size += file.size_bytes
            continue
        found.append(range(start, place))
        start, size = (place, file.size_bytes) if may else (place + 1, 0)
    found.append(range(start, len(files)))
    return [run for run in found if len(run) > 1]


class LocalMerger:
    """Merges in this process, one after the other."""

    room = 256 << 20

    def __init__(self, reader: Store, writer: Store, runtime: Runtime) -> None:
        self._reader = reader
        self._writer = writer
        self._runtime = runtime

    async def merge(self, merges: Sequence[Merge]) -> list[DataFile | NotMerged]:
        return [await write_merged(self._reader, self._writer, self._runtime, merge) for merge in merges]


async def write_merged(reader: Store, writer: Store, runtime: Runtime, merge: Merge) -> DataFile | NotMerged:
    """Read the files of a merge, one request each, and write the new one. Memory: about twice the target."""
    try:
        contents = await _read_all(reader, runtime, merge.sources)
        data, footer = await runtime.offload(lambda: merge_tables(contents))
    except Refused as error:
        return NotMerged(error.message)
    # A name of its own for each attempt: one that is repeated leaves a file that nobody names.
    path = f"{merge.location}part-{merge.number:05d}-{new_ulid(runtime, runtime)}.parquet"
    await writer.put(path, data, only_if_absent=True)
    stats = tuple(ColumnStats(*facts) for facts in column_facts(footer))
    return DataFile(path, len(data), footer.num_rows, stats)


async def _read_all(reader: Store, runtime: Runtime, sources: Sequence[tuple[str, int]]) -> list[bytes]:
    """The files in order, several at a time."""

    async def read(path: str, size: int) -> bytes:
        try:
            data = await reader.get(path)
        except ObjectMissing:
            raise Refused(f"{path} is not in the store; make its partition again") from None
        if len(data) != size:
            raise Refused(f"{path} has {len(data)} bytes instead of {size}; run `arco maintain statistics`")
        return data

    works = [partial(read, *source) for source in sources]
    found: list[bytes] = []
    for result in await side_by_side(runtime, works, READS_AT_ONCE, "read files to merge"):
        if isinstance(result, ArcoError):
            raise result
        found.append(result)
    return found


def merge_tables(contents: Sequence[bytes]) -> tuple[bytes, pq.FileMetaData]:
    """One Parquet file with the rows of several, and its footer. `Refused` if it would not be the same table."""
    try:
        files = [pq.ParquetFile(pa.BufferReader(data)) for data in contents]
        first = files[0]
        for file in files[1:]:
            if not _is_same(file, first):
                raise Refused("its files do not all have the same schema")
        if any(column.physical_type == _OLD_TIMESTAMP for column in _columns(first)):
            raise Refused("it has timestamps of 96 bits, which would lose their range")
        sink = io.BytesIO()
        with pq.ParquetWriter(sink, first.schema_arrow.remove_metadata(), **_settings(first)) as writer:
            if first.metadata.metadata:
                writer.add_key_value_metadata(first.metadata.metadata)
            for table in _grouped(first.schema_arrow, (batch for file in files for batch in _batches(file))):
                writer.write_table(table.replace_schema_metadata(), row_group_size=max(table.num_rows, 1))
        data = sink.getvalue()
        written = pq.ParquetFile(pa.BufferReader(data))
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise Refused(f"a file of it cannot be read or written as it is ({reason})") from error
    if not _is_same(written, first):
        raise Refused("it has columns that this program would write in another form")
    if written.metadata.num_rows != sum(file.metadata.num_rows for file in files):
        raise Refused("its rows are not as many as its footers say")
    return data, written.metadata


def _is_same(file: pq.ParquetFile, other: pq.ParquetFile) -> bool:
    """Whether two files hold the same table, as every engine sees it."""
    return (
        file.metadata.schema.equals(other.metadata.schema)
        and file.schema_arrow.equals(other.schema_arrow, check_metadata=True)
        and (file.metadata.metadata or {}) == (other.metadata.metadata or {})
    )


def _columns(file: pq.ParquetFile) -> Iterator[Any]:
    return (file.metadata.schema.column(place) for place in range(file.metadata.num_columns))


def _settings(file: pq.ParquetFile) -> dict[str, Any]:
    """How the file was written, as far as it must be written so again."""
    decimals = [column for column in _columns(file) if column.logical_type.type == "DECIMAL"]
    has_rows = file.metadata.num_row_groups and file.metadata.num_columns
    codec = file.metadata.row_group(0).column(0).compression if has_rows else "ZSTD"
    return {
        "compression": "none" if codec == "UNCOMPRESSED" else codec.lower(),
        "store_schema": False,  # it is in the metadata, if the file had it
        "store_decimal_as_integer": any(column.physical_type in ("INT32", "INT64") for column in decimals),
    }


def _batches(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    yield from file.iter_batches(BATCH_ROWS)


def _grouped(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Neighbours put together until they are worth a row group."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(held, schema)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held, schema)
