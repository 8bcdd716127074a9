"""Hints: where to look first. Plain overwrites, at most one a second, never needed for correctness."""

from collections.abc import Callable

import msgspec

from arco.core import Runtime, StoreRefused
from arco.storage import Store, StoreError

__all__ = ["Hint", "HintFile", "OwnerHint", "is_http"]


class Hint(msgspec.Struct, frozen=True):
    number: int = 0
    """A number that existed when the hint was written."""
    address: str = ""
    """Where the owner, or the publisher, listens; empty if it can only be reached in its own process."""


def is_http(address: str) -> bool:
    """Whether other processes can reach an address; any other one means something only where it was made."""
    return address.startswith(("http://", "https://"))


class HintFile:
    def __init__(self, store: Store, path: str, runtime: Runtime) -> None:
        self._store = store
        self._path = path
        self._runtime = runtime
        self._written = float("-inf")

    async def read(self) -> Hint:
        """The hint, or an empty one if there is none or it cannot be read: advice that is missing is no failure."""
        try:
            return msgspec.json.decode(await self._store.get(self._path), type=Hint)
        except (StoreError, StoreRefused, msgspec.MsgspecError, UnicodeDecodeError):
            return Hint()

    async def write(self, hint: Hint) -> None:
        now = self._runtime.boottime()
        if now - self._written < 1.0:
            return
        self._written = now
        try:
            await self._store.put(self._path, msgspec.json.encode(hint), only_if_absent=False)
        except (StoreError, StoreRefused):
            return  # advice: the next write says it again


class OwnerHint(HintFile):
    """The hint of a log. A later segment is later news: a hint that was long under way may overwrite a newer one."""

    def __init__(self, store: Store, path: str, runtime: Runtime, newest: Callable[[], Hint]) -> None:
        """`newest` tells the newest segment that is known here, and who appended it."""
        super().__init__(store, path, runtime)
        self._newest = newest

    async def read(self) -> Hint:
        hint, newest = await super().read(), self._newest()
        return newest if newest.number > hint.number else hint
