"""Stores for tests of routes: one in memory that signs as local disk does, and one that notes what it is asked."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from arco.core import Clock
from arco.storage import LocalSigner, MemoryStore, ObjectInfo, Store
from tests.doubles import PassingStore

__all__ = ["SECRET", "SIGNED_URL", "AskedStore", "SigningStore"]

T = TypeVar("T")

SECRET = b"0123456789abcdef0123456789abcdef"
SIGNED_URL = "http://localhost:8020/objects"


class SigningStore(MemoryStore):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._signer = LocalSigner(SECRET, SIGNED_URL, clock)

    async def sign(self, path: str, *, expires_in: int) -> str:
        return self._signer.sign(path, expires_in)


class AskedStore(PassingStore):
    """`asked` has each operation with its whole path."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.asked: list[tuple[str, str]] = []

    async def _call(self, operation: str, path: str, action: Callable[[], Awaitable[T]]) -> T:
        self.asked.append(("put" if operation == "create" else operation, path))
        return await action()

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        self.asked.append(("list", prefix))
        async for info in self.inner.list(prefix):
            yield info

    async def sign(self, path: str, *, expires_in: int) -> str:
        self.asked.append(("sign", path))
        return await self.inner.sign(path, expires_in=expires_in)
