"""The `Store` port: what Arco needs of an object store, and the errors it may answer with.

Paths are relative, `/`-separated, of checked segments (`check_path`). A store promises three things and `self_test`
checks them: a create-if-absent is atomic, reads follow writes, missing is `ObjectMissing`.

    StoreError
    ├── ObjectMissing   no such object; the only answer that may mean absence
    ├── ObjectExists    a create found something there (perhaps our own bytes, applied before a lost answer)
    └── StoreFailed     anything else that may pass: time-out, 5xx, 409, 429; a write may or may not have landed

What will not pass by itself (rights, space, a broken store) is `core.StoreRefused`.
"""

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

from arco.core import ArcoError, Invalid, Unavailable

__all__ = [
    "MAX_PATH",
    "Foldered",
    "Glance",
    "Near",
    "ObjectExists",
    "ObjectInfo",
    "ObjectMissing",
    "Store",
    "StoreError",
    "StoreFailed",
    "check_path",
    "glance_at",
    "put_new",
    "remove_empty_folders",
]

MAX_PATH = 900

_UNSAFE = re.compile(r"""[^!-~]|[\\*?"<>|%#{}^\[\]`]""")
_EMPTY_OR_DOTS = frozenset(("", ".", ".."))


class StoreError(ArcoError):
    """An answer of the store other than success. Layers above turn it into their own words."""

    exit_code = 4


class ObjectMissing(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(f"no object at {path}", path=path)
        self.path = path


class ObjectExists(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(f"an object exists already at {path}", path=path)
        self.path = path


class StoreFailed(StoreError, Unavailable):
    """It did not answer, or not with a decision. After a write the outcome is unknown until it is read back."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    path: str
    size: int
    modified: int
    """Last modification by the store's clock, microseconds since 1970."""


class Store(Protocol):
    async def get(self, path: str) -> bytes:
        """The whole object. Raises `ObjectMissing`."""
        ...

    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`. Raises `ObjectMissing`; a range past the end is `core.Corrupt`."""
        ...

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        """Write the object. One request, never retried inside.

        With `only_if_absent` it raises `ObjectExists` if something is there. `StoreFailed` leaves the outcome open.
        """
        ...

    async def head(self, path: str) -> ObjectInfo:
        """Size and time. Raises `ObjectMissing`."""
        ...

    async def delete(self, path: str) -> None:
        """Remove the object; removing what is not there is no error."""
        ...

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """Every object below the folder `prefix`, in no particular order."""
        ...

    async def sign(self, path: str, *, expires_in: int) -> str:
        """A URL that reads this one object for so many seconds."""
        ...

    async def persist(self, path: str) -> None:
        """Make sure that an object another process wrote survives a power loss. A no-op where the store does so."""
        ...

    async def close(self) -> None: ...


class Glance(Protocol):
    """A look that takes microseconds, so that nobody has to wait for it; all about its path was checked before."""

    def __call__(self) -> bool:
        """Whether it is so now. One request at most; it raises what `head` raises, but for absence."""
        ...


@runtime_checkable
class Near(Protocol):
    """A store that can be looked at without waiting: a local disk."""

    def glance(self, path: str) -> Glance | None:
        """Tells whether an object is there, whenever it is called; None if it must be asked for by `head`."""
        ...

    async def put_new(self, path: str, data: bytes) -> None:
        """As `put` only if absent, of an object whose name nobody knows before this returns."""
        ...


def glance_at(store: Store, path: str) -> Glance | None:
    """A glance at an object, or None if the store is not near."""
    return store.glance(path) if isinstance(store, Near) else None


async def put_new(store: Store, path: str, data: bytes) -> None:
    """Create an object whose name was just made up, so that nobody looks for it before this returns. A create that
    fails may leave a part of it on a disk."""
    await (store.put_new(path, data) if isinstance(store, Near) else store.put(path, data, only_if_absent=True))


@runtime_checkable
class Foldered(Protocol):
    """A store in which folders are things of their own: a local disk."""

    async def remove_empty(self, folder: str, is_over: Callable[[str], bool]) -> int:
        """See `remove_empty_folders`."""
        ...


async def remove_empty_folders(store: Store, folder: str, is_over: Callable[[str], bool]) -> int:
    """Remove a folder and those below it that are empty, if `is_over` says that nobody will write into them again; how
    many. Nothing where a folder is only a part of a name.

    `delete` leaves them: a folder that comes back must be synced by everybody who writes into it, and a process that
    has done so once does not do it again.
    """
    return await store.remove_empty(folder, is_over) if isinstance(store, Foldered) else 0


@lru_cache(maxsize=8192)  # the same few paths are asked for again and again
def check_path(path: str) -> str:
    """The path itself if every segment of it is safe on every store, else `Invalid`."""
    if not path or len(path) > MAX_PATH:
        raise Invalid(f"a path must have 1 to {MAX_PATH} characters, this one has {len(path)}")
    unsafe = _UNSAFE.search(path)
    if unsafe is not None:
        raise Invalid(f"the path {path!r} has the character {unsafe[0]!r}, which is not safe on every store", path=path)
    if not _EMPTY_OR_DOTS.isdisjoint(path.split("/")):
        raise Invalid(f"the path {path!r} has an empty or dot segment; name each folder explicitly", path=path)
    return path
