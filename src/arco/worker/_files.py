"""`Files`: objects of the workspace inside a driver, for code that does not await. The store is opened when it is first
needed, with the rights of a worker."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from arco.spark._errors import InputLost
from arco.worker._messages import Setup

__all__ = ["Files"]

PUT_ATTEMPTS: Final = 5


class Files:
    """Its requests run on a loop in a thread of their own: whoever reads may be inside a loop already."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._store: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def read(self, path: str) -> bytes:
        from arco.storage import ObjectMissing

        try:
            data: bytes = self._wait(self._opened().get(path))
        except ObjectMissing:
            raise InputLost(f"{path}, which the task reads, is gone; run what makes it again", path=path) from None
        return data

    def write(self, path: str, data: bytes) -> None:
        self._wait(self._create(path, data))

    def read_end(self, path: str, size: int, length: int) -> bytes:
        """The last so many bytes of an object of this size."""
        length = min(length, size)
        data: bytes = self._wait(self._opened().get_range(path, size - length, length))
        return data

    def listed(self, folder: str) -> list[tuple[str, int]]:
        """Path and size of what is below a folder, sorted."""
        found: list[tuple[str, int]] = self._wait(self._list(folder))
        return found

    def found(self, folder: str) -> list[tuple[str, int, int]]:
        """Path, size and time of change of what is below a folder, sorted."""
        found: list[tuple[str, int, int]] = self._wait(self._find(folder))
        return found

    def persist(self, paths: Sequence[str]) -> None:
        """Others wrote these objects; return when they would survive the loss of power."""
        self._wait(self._persisted(paths))

    async def _list(self, folder: str) -> list[tuple[str, int]]:
        return sorted([(info.path, info.size) async for info in self._opened().list(folder)])

    async def _find(self, folder: str) -> list[tuple[str, int, int]]:
        return sorted([(info.path, info.size, info.modified) async for info in self._opened().list(folder)])

    async def _persisted(self, paths: Sequence[str]) -> None:
        await asyncio.gather(*(self._opened().persist(path) for path in paths))

    async def _create(self, path: str, data: bytes) -> None:
        from arco.storage import ObjectExists, StoreFailed

        store = self._opened()
        for attempt in range(PUT_ATTEMPTS):
            try:
                await store.put(path, data, only_if_absent=True)
                return
            except ObjectExists:
                # The folder is this attempt's alone: it is ours, from a try whose answer was lost.
                if attempt and await store.get(path) == data:
                    return
                raise
            except StoreFailed:
                if attempt + 1 == PUT_ATTEMPTS:
                    raise
                await asyncio.sleep(0.2 * 2**attempt)

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="arco-store", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _opened(self) -> Any:
        if self._store is None:
            from arco.storage import RequestCounts, Role, RoleStore, Scope, open_store

            base = open_store(self._setup.store, self._setup.store_options)
            scope = Scope(self._setup.tenant, self._setup.workspace)
            self._store = RoleStore(base, scope, Role.WORKER, RequestCounts())
        return self._store
