"""`MemoryStore`: a store in a dict, for tests and as the ground of the simulation.

Its coroutines never suspend, so each call is one atomic step and whoever drives them controls every interleaving.
"""

from collections.abc import AsyncIterator
from itertools import count

from arco.core import Clock, Corrupt, Invalid
from arco.storage._paths import check_folder
from arco.storage._store import ObjectExists, ObjectInfo, ObjectMissing, check_path

__all__ = ["MemoryStore"]


class MemoryStore:
    """Objects in memory, dated by `clock`; without one each write is one microsecond after the last."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._objects: dict[str, tuple[bytes, int]] = {}
        ticks = count(1)
        self._now = clock.now if clock is not None else lambda: next(ticks)

    async def get(self, path: str) -> bytes:
        return self._find(path)[0]

    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        data = self._find(path)[0]
        if offset < 0 or length < 0:
            raise Invalid(f"a range starts at 0 or later and has 0 or more bytes, not {offset} and {length}", path=path)
        if offset + length > len(data):
            raise Corrupt(f"{path} ends at {len(data)}, before {offset + length}; run `arco doctor`", path=path)
        return data[offset : offset + length]

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        if only_if_absent and check_path(path) in self._objects:
            raise ObjectExists(path)
        self._objects[check_path(path)] = (bytes(data), self._now())

    async def head(self, path: str) -> ObjectInfo:
        data, modified = self._find(path)
        return ObjectInfo(path, len(data), modified)

    async def delete(self, path: str) -> None:
        self._objects.pop(check_path(path), None)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        start = f"{check_folder(prefix)}/" if prefix else ""
        for path, (data, modified) in sorted(self._objects.items()):
            if path.startswith(start):
                yield ObjectInfo(path, len(data), modified)

    async def sign(self, path: str, *, expires_in: int) -> str:
        raise Invalid("objects in memory have no URL; use local disk or a bucket to hand out signed URLs")

    async def persist(self, path: str) -> None:
        """Nothing: memory does not survive a power loss, and nobody may rely on it to."""

    async def close(self) -> None:
        """Nothing to give back."""

    def _find(self, path: str) -> tuple[bytes, int]:
        try:
            return self._objects[check_path(path)]
        except KeyError:
            raise ObjectMissing(path) from None
