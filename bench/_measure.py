"""What a measurement is: a `Line` of the table, and the few ways to take one.

- `Line`: name, what was measured, what it is compared with, their ratio, the budget of the design and whether it holds.
- `MeteredStore`: a store that counts requests and bytes, and rows of the state files written through it.

Work of one thread is measured in CPU time: a neighbour on the machine then changes little.
"""

import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from arco.storage import ObjectInfo, Store

__all__ = ["Line", "MeteredStore", "Stopwatch", "middle", "percentile", "work_folder"]


@dataclass(frozen=True)
class Line:
    section: str
    name: str
    measured: str
    reference: str = ""
    ratio: float | None = None
    budget: str = ""
    ok: bool | None = None
    """None where the design sets no budget."""


class Stopwatch:
    """Wall and CPU seconds of a block."""

    def __enter__(self) -> "Stopwatch":
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *exc: object) -> None:
        self.wall = time.perf_counter() - self._wall
        self.cpu = time.process_time() - self._cpu


def middle(values: list[float]) -> float:
    return statistics.median(values)


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) * percent // 100, len(values) - 1)]


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder on the disk of the working directory, gone afterwards."""
    above = Path(".work")
    above.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=above))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class MeteredStore:
    """Passes everything on to another store and counts it."""

    def __init__(self, inner: Store, *, count_rows: bool = False) -> None:
        self._inner = inner
        self._count_rows = count_rows
        self.requests: Counter[str] = Counter()
        self.bytes_read = 0
        self.bytes_written: Counter[str] = Counter()
        """By kind: `delta`, `merged`, `manifest`, `other`."""
        self.rows_written: Counter[str] = Counter()

    def reset(self) -> None:
        self.requests.clear()
        self.bytes_read = 0
        self.bytes_written.clear()
        self.rows_written.clear()

    async def get(self, path: str) -> bytes:
        self.requests["get"] += 1
        data = await self._inner.get(path)
        self.bytes_read += len(data)
        return data

    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        self.requests["get_range"] += 1
        self.bytes_read += length
        return await self._inner.get_range(path, offset, length)

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        self.requests["put"] += 1
        kind = _kind(path)
        self.bytes_written[kind] += len(data)
        if self._count_rows and kind == "merged":
            self.rows_written[kind] += pq.read_metadata(pa.BufferReader(data)).num_rows
        await self._inner.put(path, data, only_if_absent=only_if_absent)

    async def head(self, path: str) -> ObjectInfo:
        self.requests["head"] += 1
        return await self._inner.head(path)

    async def delete(self, path: str) -> None:
        self.requests["delete"] += 1
        await self._inner.delete(path)

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        self.requests["list"] += 1
        return self._inner.list(prefix)

    async def sign(self, path: str, *, expires_in: int) -> str:
        return await self._inner.sign(path, expires_in=expires_in)

    async def persist(self, path: str) -> None:
        await self._inner.persist(path)

    async def close(self) -> None:
        await self._inner.close()


_KINDS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("merged", lambda path: path.endswith(".parquet")),
    ("delta", lambda path: path.endswith("/delta")),
    ("manifest", lambda path: "/manifests/" in path and not path.endswith("/hint")),
)


def _kind(path: str) -> str:
    return next((kind for kind, fits in _KINDS if fits(path)), "other")
