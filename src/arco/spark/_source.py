"""`Source`: what a fold on an executor reads besides events: attachments, and rows from before the first event."""

from collections.abc import Iterable, Mapping
from typing import Any

from arco.log import Blobs, Event
from arco.runtime import AsyncRuntime
from arco.spark._site import Assignment
from arco.state import Bucket, Key, Table, Versioned, bucket_of

__all__ = ["Source"]

_NO_ROWS: Mapping[Key, Versioned] = {}


class Source:
    """Holds one bucket of each table at a time. Implements `RowSource`."""

    def __init__(self, assignment: Assignment, runtime: AsyncRuntime) -> None:
        self._registry = assignment.course.definition.registry
        self._blobs = Blobs(assignment.site.store(runtime))
        self._reader = assignment.site.reader(runtime)
        self._layers = assignment.layers
        self._buckets: dict[str, tuple[int, Bucket]] = {}
        self._last: tuple[str, Any] = ("", None)

    async def attachment(self, event: Event) -> Any:
        sha256 = event.blobs[0]
        if self._last[0] != sha256:
            self._last = (sha256, self._registry.decode_attachment(event.type, await self._blobs.get(sha256)))
        return self._last[1]

    async def load(self, table: Table, buckets: Iterable[int]) -> None:
        layers = [layer for layer in self._layers if layer.table == table.name]
        for bucket in buckets if layers else ():
            if self._buckets.get(table.name, (-1, None))[0] != bucket:
                data = await self._reader.rows(table, layers, {bucket})
                self._buckets[table.name] = (bucket, Bucket(table, data))

    def group(self, table: Table, group: str) -> Mapping[Key, Versioned]:
        if not self._layers:
            return _NO_ROWS
        number, bucket = self._buckets.get(table.name, (-1, None))
        return bucket.find(group) if bucket is not None and number == bucket_of(group) else _NO_ROWS
