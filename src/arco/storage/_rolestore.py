"""`RoleStore`: the handle a process gets. It can name nothing outside its workspace and write nothing outside its role.

Paths are relative to the workspace. Every request is counted by role and operation (`RequestCounts`), so that what an
operation costs is a tested number. A call that is refused here makes no request and is not counted.
"""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from enum import StrEnum

from arco.core import Forbidden
from arco.storage._paths import below, check_folder
from arco.storage._role import Action, Role, may
from arco.storage._scope import Scope
from arco.storage._store import (
    Glance,
    ObjectExists,
    ObjectInfo,
    ObjectMissing,
    Store,
    check_path,
    glance_at,
    put_new,
    remove_empty_folders,
)

__all__ = ["Operation", "RequestCounts", "RoleStore"]


class Operation(StrEnum):
    """What is counted. `create` is a put with `only_if_absent`; `list` counts once however many pages it takes;
    `persist` is no request."""

    GET = "get"
    GET_RANGE = "get_range"
    PUT = "put"
    CREATE = "create"
    HEAD = "head"
    DELETE = "delete"
    LIST = "list"
    SIGN = "sign"


class RequestCounts:
    """Requests so far, by role and operation. One may be shared by all handles of a process."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Role, Operation]] = Counter()

    def add(self, role: Role, operation: Operation) -> None:
        self._counts[role, operation] += 1

    def count(self, role: Role | None = None, operation: Operation | None = None) -> int:
        """How many, of one role or operation if given."""
        return sum(
            number for (by, what), number in self._counts.items() if role in (None, by) and operation in (None, what)
        )

    def table(self) -> dict[tuple[Role, Operation], int]:
        """A copy of all counts, to compare with a later one."""
        return dict(self._counts)


class RoleStore:
    """A `Store` whose paths are relative to one workspace and whose writes are those of one role."""

    def __init__(self, inner: Store, scope: Scope, role: Role, counts: RequestCounts, *, former: str = "") -> None:
        """`former` names the one former incarnation that the handle may end, if its role does that."""
        self.scope = scope
        self.role = role
        self._inner = inner
        self._counts = counts
        self._former = former

    async def get(self, path: str) -> bytes:
        full = self._full(path)
        self._count(Operation.GET)
        try:  # as in `_named`, which takes as long as the look for a file
            return await self._inner.get(full)
        except ObjectMissing:
            raise ObjectMissing(path) from None

    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        full = self._full(path)
        self._count(Operation.GET_RANGE)
        with _named(path):
            return await self._inner.get_range(full, offset, length)

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        full = self._allowed(Action.CREATE if only_if_absent else Action.OVERWRITE, path)
        self._count(Operation.CREATE if only_if_absent else Operation.PUT)
        with _named(path):
            await self._inner.put(full, data, only_if_absent=only_if_absent)

    async def put_new(self, path: str, data: bytes) -> None:
        full = self._allowed(Action.CREATE, path)
        self._count(Operation.CREATE)
        with _named(path):
            await put_new(self._inner, full, data)

    async def head(self, path: str) -> ObjectInfo:
        full = self._full(path)
        self._count(Operation.HEAD)
        try:
            info = await self._inner.head(full)
        except ObjectMissing:
            raise ObjectMissing(path) from None
        return ObjectInfo(path, info.size, info.modified)

    def glance(self, path: str) -> Glance | None:
        """Each look is counted like a `head`."""
        inner = glance_at(self._inner, self._full(path))
        if inner is None:
            return None
        look, counts, role = inner, self._counts, self.role

        def counted() -> bool:
            counts.add(role, Operation.HEAD)
            return look()

        return counted

    async def delete(self, path: str) -> None:
        full = self._allowed(Action.DELETE, path)
        self._count(Operation.DELETE)
        await self._inner.delete(full)

    async def remove_empty(self, folder: str, is_over: Callable[[str], bool]) -> int:
        """Who may delete what lies in a folder may remove it. No request: only a local disk has folders."""
        full, start = self._allowed(Action.DELETE, f"{folder}/any"), len(self.scope.root) + 1
        return await remove_empty_folders(self._inner, full.removesuffix("/any"), lambda path: is_over(path[start:]))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        root = self.scope.root
        folder = below(root, check_folder(prefix))
        self._count(Operation.LIST)
        async for info in self._inner.list(folder):
            yield ObjectInfo(info.path[len(root) + 1 :], info.size, info.modified)

    async def sign(self, path: str, *, expires_in: int) -> str:
        full = self._allowed(Action.SIGN, path)
        self._count(Operation.SIGN)
        return await self._inner.sign(full, expires_in=expires_in)

    async def persist(self, path: str) -> None:
        full = self._full(path)
        with _named(path):
            await self._inner.persist(full)

    async def close(self) -> None:
        """Nothing: the inner store belongs to whoever opened it, and other handles may share it."""

    def _full(self, path: str) -> str:
        return below(self.scope.root, check_path(path))

    def _allowed(self, action: Action, path: str) -> str:
        full = self._full(path)
        if not may(self.role, action, path, self._former):
            raise Forbidden(
                f"the role {self.role} may not {action} {path}; use a handle of the role that may",
                role=self.role.value,
                operation=action.value,
                path=path,
            )
        return full

    def _count(self, operation: Operation) -> None:
        self._counts.add(self.role, operation)


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Errors speak of paths as this handle names them."""
    try:
        yield
    except ObjectMissing:
        raise ObjectMissing(path) from None
    except ObjectExists:
        raise ObjectExists(path) from None
