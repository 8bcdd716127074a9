"""Writing files of state: deltas that hold a slice per table, and plain Parquet files.

Every file lies in the directory of one attempt, so that a name is never written twice with other bytes. Private tables
go to objects of their own below `private/`, because a signed URL opens a whole object.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from arco.core import Runtime, Unavailable
from arco.state._beside import work_on
from arco.state._codec import to_arrow, to_parquet
from arco.state._definition import Definition
from arco.state._fold import Rows, Writes
from arco.state._layout import Layout
from arco.state._manifest import File, Layer
from arco.state._table import Table
from arco.storage import ObjectExists, Store, StoreFailed

__all__ = ["DELTA_MAGIC", "FileWriter"]

DELTA_MAGIC = b"ARCODLT1"
"""First bytes of a delta. The slices follow one after the other; the manifest says where each one is."""

SPLIT_BYTES = 128 << 20
"""A merge writes files of about this size at the most; the cap of the format is 256 MB."""

WHOLE_BYTES = 1 << 20
"""Files up to this size are read whole: one request and a checksum of everything. Larger ones also in parts."""

ATTEMPTS = 8

YIELD_SLICES = 3
"""After so many slices of a delta whoever waits for the loop gets it."""


class FileWriter:
    """Writes into the directories of one attempt."""

    def __init__(self, store: Store, layout: Layout, directory: str, runtime: Runtime) -> None:
        self._store = store
        self._layout = layout
        self._directory = directory
        self._runtime = runtime

    def path(self, name: str, *, private: bool = False) -> str:
        return f"{self._layout.private if private else self._layout.state}/{self._directory}/{name}"

    async def delta(self, definition: Definition, writes: Writes, first: int, last: int) -> list[Layer]:
        """One object with a slice per changed table (and one more if private tables changed)."""
        layers: list[Layer] = []
        for private in (False, True):
            path = self.path("delta", private=private)
            tables = [definition.tables[name] for name in sorted(writes) if definition.tables[name].private == private]
            parts, offset = [DELTA_MAGIC], len(DELTA_MAGIC)
            for table in tables:
                if len(parts) % YIELD_SLICES == 0:
                    await self._runtime.sleep(0)  # a slice takes a millisecond or two: others may go on meanwhile
                rows = sum(map(len, writes[table.name].values()))
                encode = partial(_encode_slice, table, writes[table.name], path, offset)
                encoded, file = await work_on(rows, encode, self._runtime)
                layers.append(Layer(table.name, 0, str(first), str(last), (file,)))
                parts.append(encoded)
                offset += len(encoded)
            if tables:
                await self.put(path, b"".join(parts))
        return layers

    async def files(self, table: Table, data: pa.Table, name: str) -> tuple[File, ...]:
        """Sorted rows as plain Parquet files, split between buckets where they grow too large."""
        files = []
        for index, part in enumerate(_split(data)):
            path = self.path(f"{name}-{index:04d}.parquet", private=table.private)
            encoded, file = await work_on(part.num_rows, partial(_encode_file, table, part, path), self._runtime)
            await self.put(path, encoded)
            files.append(file)
        return tuple(files)

    async def put(self, path: str, data: bytes) -> None:
        """Write a file whose name only this attempt uses; whatever is there already is ours."""
        for attempt in range(ATTEMPTS):
            try:
                await self._store.put(path, data, only_if_absent=True)
                return
            except ObjectExists:
                return
            except StoreFailed as error:
                if attempt == ATTEMPTS - 1:
                    raise Unavailable(f"{path} cannot be written now: {error.message}; try again") from error
            await self._runtime.sleep(self._runtime.uniform(0.5, 1.0) * min(0.02 * 2**attempt, 2.0))


def _encode_slice(table: Table, groups: Mapping[str, Rows], path: str, offset: int) -> tuple[bytes, File]:
    return _encode_file(table, to_arrow(table, groups.items()), path, offset)


def _encode_file(table: Table, data: pa.Table, path: str, offset: int = 0) -> tuple[bytes, File]:
    encoded = to_parquet(table, data)
    return encoded, describe(table, data, encoded, path, offset)


def describe(table: Table, data: pa.Table, encoded: bytes, path: str, offset: int) -> File:
    """What the manifest says of a file."""
    buckets = 0
    for bucket in pc.unique(data.column("_bucket")).to_pylist():
        buckets |= 1 << bucket
    stats: dict[str, tuple[str | int, str | int]] = {}
    # The manifest is for every reader, so it tells nothing of the values in a private table.
    for name in table.measured if data.num_rows and not table.private else ():
        column = data.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        ends = pc.min_max(column).as_py()
        if ends["min"] is not None:
            stats[name] = (ends["min"], ends["max"])
    return File(
        path=path,
        offset=offset,
        length=len(encoded),
        sha256=hashlib.sha256(encoded).hexdigest(),
        rows=data.num_rows,
        buckets=f"{buckets:064x}",
        stats=stats,
        footer=_footer_of(encoded) if len(encoded) > WHOLE_BYTES else None,
    )


def _footer_of(encoded: bytes) -> tuple[int, str]:
    length = int.from_bytes(encoded[-8:-4], "little") + 8
    return length, hashlib.sha256(encoded[-length:]).hexdigest()


def _split(data: pa.Table) -> Iterable[pa.Table]:
    """Parts of about `SPLIT_BYTES` in memory, cut where a new bucket begins."""
    if data.nbytes <= SPLIT_BYTES:
        return [data] if data.num_rows else []
    counts = pc.value_counts(data.column("_bucket")).to_pylist()
    per_row = data.nbytes / data.num_rows
    parts, start, rows = [], 0, 0
    for count in sorted(counts, key=lambda found: found["values"]):
        if rows and (rows + count["counts"]) * per_row > SPLIT_BYTES:
            parts.append(data.slice(start, rows))
            start, rows = start + rows, 0
        rows += count["counts"]
    return [*parts, data.slice(start, rows)]
