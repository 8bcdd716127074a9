"""Reading layers: from the files a manifest names to rows, verified and pruned.

Whole slices are checked against their sha256. Of a large file only the footer and the row groups that hold the wanted
buckets are fetched: the footer is checked against its own sha256 before Parquet sees it (a damaged one can end the
process), the pages against the checksums in them. A missing file is `LostObject`, never "no rows".
"""

import hashlib
import io
from collections import OrderedDict
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from arco.core import Corrupt, LostObject, Runtime, Unavailable
from arco.log import Blobs
from arco.state._beside import work_on
from arco.state._codec import conform, newest, read_parquet, sort_rows
from arco.state._manifest import File, Layer
from arco.state._table import Kind, Table
from arco.storage import ObjectMissing, Store, StoreFailed

__all__ = ["LayerReader", "keep_alive"]

FOOTERS = 256


class _Sparse(io.RawIOBase):
    """A file of which only some byte ranges are here; Parquet asks for no others."""

    def __init__(self, size: int, parts: list[tuple[int, bytes]]) -> None:
        self._size = size
        self._parts = parts
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        stop = self._size if size < 0 else min(self._at + size, self._size)
        for offset, data in self._parts:
            if offset <= self._at and stop <= offset + len(data):
                found = data[self._at - offset : stop - offset]
                self._at = stop
                return found
        raise OSError(f"bytes {self._at} to {stop} were not fetched")


class LayerReader:
    """Files of one workspace's state, with the footers of large ones remembered."""

    def __init__(self, store: Store, runtime: Runtime | None = None) -> None:
        """With a runtime, large tables are decoded and sorted beside the loop."""
        self.runtime = runtime
        self._store = store
        self._footers: OrderedDict[str, tuple[pq.FileMetaData, bytes, int]] = OrderedDict()

    async def blob(self, sha256: str) -> bytes:
        """What an event of the log refers to."""
        return await Blobs(self._store).get(sha256)

    async def bytes_of(self, file: File) -> bytes:
        """The slice, checked against its sha256."""
        return _checked(file, await self._range(file, 0, file.length))

    async def read(self, table: Table, file: File, buckets: Iterable[int] | None = None) -> pa.Table:
        """The rows of a file; of the given buckets only, if any are given."""
        if buckets is None or file.footer is None:
            found = await self._range(file, 0, file.length)
            data = await work_on(file.rows, lambda: read_parquet(table, _checked(file, found), file.path), self.runtime)
        else:
            data = await self._row_groups(table, file, file.footer, set(buckets))
        if buckets is None:
            return data
        return data.filter(pa.compute.is_in(data.column("_bucket"), pa.array(sorted(buckets), pa.uint8())))

    async def rows(
        self, table: Table, layers: Iterable[Layer], buckets: Iterable[int] | None = None, *, dead: bool = False
    ) -> pa.Table:
        """The rows of neighbouring layers: the newest of each key, tombstones only if `dead`."""
        wanted = None if buckets is None else set(buckets)
        parts, sources = [table.schema.empty_table()], 0
        for layer in layers:
            files = [file for file in layer.files if wanted is None or any(map(file.has_bucket, wanted))]
            for file in files:
                parts.append(await self.read(table, file, wanted))
                if self.runtime is not None:
                    await self.runtime.sleep(0)  # small files of a local disk are read without a pause
            sources += bool(files)

        def combine() -> pa.Table:
            data = pa.concat_tables(parts).combine_chunks()
            if sources > 1:  # one layer alone is sorted and has each key once
                data = newest(table, sort_rows(table, data))
            if table.kind is Kind.FACT or dead:
                return data
            return data.filter(pa.compute.invert(data.column("_deleted")))

        return await work_on(sum(part.num_rows for part in parts), combine, self.runtime)

    async def _row_groups(self, table: Table, file: File, promised: tuple[int, str], buckets: set[int]) -> pa.Table:
        meta, footer, start = await self._footer(file, *promised)
        column = meta.schema.names.index("_bucket")
        ranges: list[list[int]] = []
        wanted = []
        for index in range(meta.num_row_groups):
            group = meta.row_group(index)
            stats = group.column(column).statistics
            if any(stats.min <= bucket <= stats.max for bucket in buckets):
                chunks = [group.column(i) for i in range(group.num_columns)]
                begin = min(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks)
                end = begin + sum(chunk.total_compressed_size for chunk in chunks)
                if ranges and ranges[-1][1] == begin:
                    ranges[-1][1] = end  # neighbours are one request
                else:
                    ranges.append([begin, end])
                wanted.append(index)
        if not wanted:
            return table.schema.empty_table()
        parts = [(begin, await self._range(file, begin, end - begin)) for begin, end in ranges]
        try:
            source = pa.PythonFile(_Sparse(file.length, [(start, footer), *parts]), mode="r")
            # Reading ahead would ask for bytes between the parts.
            opened = pq.ParquetFile(source, metadata=meta, page_checksum_verification=True, pre_buffer=False)
            return conform(table, opened.read_row_groups(wanted, use_threads=False))
        except (pa.ArrowException, OSError) as error:
            raise Corrupt(
                f"{file.path} is not readable Parquet ({error}); run `arco doctor`", path=file.path
            ) from error

    async def _footer(self, file: File, length: int, sha256: str) -> tuple[pq.FileMetaData, bytes, int]:
        name = f"{file.path}:{file.offset}"
        found = self._footers.get(name)
        if found is None:
            data = await self._range(file, file.length - length, length)
            if hashlib.sha256(data).hexdigest() != sha256:
                raise Corrupt(f"{file.path} has a broken footer; run `arco doctor`", path=file.path)
            found = self._footers[name] = (pq.read_metadata(pa.BufferReader(data)), data, file.length - length)
            if len(self._footers) > FOOTERS:
                self._footers.popitem(last=False)
        return found

    async def _range(self, file: File, offset: int, length: int) -> bytes:
        try:
            return await self._store.get_range(file.path, file.offset + offset, length)
        except ObjectMissing:
            raise LostObject(
                f"{file.path} is missing although a manifest names it; run `arco doctor`, then `arco rebuild`",
                path=file.path,
            ) from None
        except StoreFailed as error:
            raise Unavailable(f"{file.path} cannot be read now: {error.message}; try again") from error


def _checked(file: File, data: bytes) -> bytes:
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise Corrupt(
            f"{file.path} does not have the bytes the manifest promises at {file.offset}; "
            "run `arco doctor`, then `arco rebuild`",
            path=file.path,
        )
    return data


def keep_alive(table: Table, data: pa.Table, cutoff: int | None) -> pa.Table:
    """Rows that retention has not taken."""
    if cutoff is None or table.time is None:
        return data
    column = data.column(table.time)
    limit = pa.scalar(table.limit(cutoff), pa.string() if table.expires_by_id else pa.int64()).cast(column.type)
    alive = pa.compute.greater_equal(column, limit)
    # A tombstone that does not say how old it is stays: it may hide a row that lives.
    return data.filter(pa.compute.fill_null(alive, True))
