"""A workspace in a house, a vault beside it, and everything a backup has to bring back."""

import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import zstandard

from arco.backup import Moment, Restored, Taken, Vault, plan_restore, restore, take_backup
from arco.core import Runtime
from arco.domains.catalog import CreateNamespace
from arco.iceberg import Locations
from arco.runtime import DEFINITIONS, Workspace
from arco.state import digest_rows
from arco.storage import MemoryStore, RequestCounts, Role, RoleStore, Scope, Store
from tests.doubles import FakeRuntime, PassingStore
from tests.iceberg.house import OUTSIDE, ROOT, House, Process, in_house
from tests.runtime.world import SCOPE, made

T = TypeVar("T")

__all__ = [
    "Crash",
    "Dying",
    "back_up",
    "digests",
    "fill",
    "in_vault",
    "newer_format",
    "newest_of",
    "open_again",
    "paths",
    "put_back",
    "vault_of",
]


def vault_of(store: Store, runtime: Runtime, scope: Scope = SCOPE, role: Role = Role.BACKUP) -> Vault:
    return Vault(RoleStore(store, scope, role, RequestCounts()), scope.tenant, scope.workspace, runtime)


def in_vault(test: Callable[[House, Process, Store], Coroutine[Any, Any, None]]) -> None:
    """Run a test on a house and an empty store for its backups."""

    async def main(house: House, process: Process) -> None:
        await test(house, process, MemoryStore())

    in_house(main)


async def back_up(process: Process, store: Store, **options: Any) -> Taken:
    vault = vault_of(store, process.runtime)
    return await take_backup(process.workspace, vault, process.locations, store=ROOT, actor="ann", **options)


async def put_back(
    house: House,
    store: Store,
    *,
    into: Store | None = None,
    number: int | None = None,
    moment: Moment | None = None,
    replace: bool = True,
    scope: Scope = SCOPE,
    through: Store | None = None,
) -> Restored:
    """Restore; `into` another store than the house's, or `through` one that leads to it."""
    base, runtime = through or (house.objects if into is None else into), house.runtime
    vault = vault_of(store, runtime, scope, Role.READER)
    plan = await plan_restore(base, scope, vault, runtime, number=number, moment=moment)
    admin = RoleStore(base, scope, Role.ADMIN, RequestCounts())
    places = Locations(admin, ROOT, scope.root, allowed=[OUTSIDE], open_outside=lambda url: house.outside)
    return await restore(base, scope, vault, runtime, plan, places, actor="ann", replace=replace)


async def open_again(house: House, store: Store | None = None) -> Process:
    if store is None:
        return await house.open()
    other = House(house.runtime)
    other.objects, other.outside = store, house.outside  # type: ignore[assignment]  # any store will do
    return await other.open()


async def fill(process: Process) -> None:
    """Some of everything: names, facts, tables with commits, and a transaction over two of them."""
    runtime = process.runtime
    assert isinstance(runtime, FakeRuntime)
    for name in ("c", "d"):
        await process.decide(CreateNamespace((name,)))
    await process.workspace.record("activity", [made(runtime, n) for n in ("m1", "m2", "m3")], actor="ann")
    for name in ("a.one", "a.two"):
        await process.create(name)


async def digests(workspace: Workspace) -> dict[str, str]:
    """A digest of every table of both logs, but for what says where the workspace has been."""
    found = {}
    for definition in DEFINITIONS:
        snapshot = await workspace.logs[definition.log].frozen()
        for name, table in definition.tables.items():
            found[f"{definition.log}.{name}"] = digest_rows(table, await snapshot.scan(table))
    return found


async def paths(store: Store, folder: str = "") -> set[str]:
    return {info.path async for info in store.list(folder)}


async def newest_of(house: House, process: Process, kind: str) -> str:
    """The newest object of a sequence of the open incarnation, such as `ledger/catalog`."""
    found = await paths(house.objects, f"{SCOPE.root}/{process.workspace.incarnation.id}/{kind}")
    return max(path for path in found if path.rsplit("/", 1)[1].isdigit() and "/floor/" not in path)


def newer_format(data: bytes) -> bytes:
    """An object as a program of the future may write it."""
    packed = data.startswith(zstandard.FRAME_HEADER)
    text = zstandard.ZstdDecompressor().decompress(data) if packed else data
    changed = re.sub(rb'"format":\d+', b'"format":99', text, count=1)
    assert changed != text
    return zstandard.ZstdCompressor().compress(changed) if packed else changed


class Crash(Exception):
    """The process is no more."""


class Dying(PassingStore):
    """A store through which one process works, which ends at a request of its own: before it took effect, or after."""

    def __init__(self, inner: Store, last: int, *, applied: bool) -> None:
        super().__init__(inner)
        self.requests = 0
        self._last = last
        self._applied = applied

    async def _call(self, operation: str, path: str, action: Callable[[], Awaitable[T]]) -> T:
        if operation == "persist":
            return await action()
        self.requests += 1
        if self.requests == self._last and self._applied:
            await action()
        if self.requests >= self._last:
            raise Crash
        return await action()

    async def close(self) -> None:
        """The store outlives its processes."""
