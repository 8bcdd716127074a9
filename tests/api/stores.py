"""Stores for tests of routes: one in memory that signs as local disk does, and one that notes what it is asked."""

from collections.abc import AsyncIterator

from arco.core import Clock
from arco.storage import LocalSigner, MemoryStore, ObjectInfo, Store

__all__ = ["SECRET", "SIGNED_URL", "AskedStore", "SigningStore"]

SECRET = b"0123456789abcdef0123456789abcdef"
SIGNED_URL = "http://localhost:8020/objects"


class SigningStore(MemoryStore):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._signer = LocalSigner(SECRET, SIGNED_URL, clock)

    async def sign(self, path: str, *, expires_in: int) -> str:
        return self._signer.sign(path, expires_in)


class AskedStore:
    """Passes everything on; `asked` has each operation with its whole path."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.asked: list[tuple[str, str]] = []

    async def get(self, path: str) -> bytes:
        self.asked.append(("get", path))
        return await self.inner.get(path)

    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        self.asked.append(("get_range", path))
        return await self.inner.get_range(path, offset, length)

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        self.asked.append(("put", path))
        await self.inner.put(path, data, only_if_absent=only_if_absent)

    async def head(self, path: str) -> ObjectInfo:
        self.asked.append(("head", path))
        return await self.inner.head(path)

    async def delete(self, path: str) -> None:
        self.asked.append(("delete", path))
        await self.inner.delete(path)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        self.asked.append(("list", prefix))
        async for info in self.inner.list(prefix):
            yield info

    async def sign(self, path: str, *, expires_in: int) -> str:
        self.asked.append(("sign", path))
        return await self.inner.sign(path, expires_in=expires_in)

    async def persist(self, path: str) -> None:
        self.asked.append(("persist", path))
        await self.inner.persist(path)

    async def close(self) -> None:
        await self.inner.close()
