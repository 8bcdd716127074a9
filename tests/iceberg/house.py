"""A house: a workspace on memory with its Iceberg tables and views, and processes in it that can die at any request.

What a process sent before it died took effect or not; afterwards it does nothing any more. The next one opens the same
store.
"""

import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from arco.core import Runtime, new_ulid, ulid_to_uuid
from arco.domains.catalog import CreateNamespace
from arco.iceberg import Iceberg, IdempotencyKey, Loaded, Locations, Who, open_iceberg
from arco.iceberg.metadata import (
    CommitRequest,
    CreateRequest,
    CreateViewRequest,
    parse_commit,
    parse_create,
    parse_create_view,
)
from arco.runtime import Workspace, init_workspace
from arco.state import Cadence
from arco.storage import MemoryStore, Role, Store
from tests.doubles import FakeRuntime, PassingStore, run
from tests.runtime.world import SCOPE

__all__ = ["House", "Mortal", "Process", "commit_of", "created", "in_house", "new_key", "view_of"]

T = TypeVar("T")

ROOT = "file:///store"
OUTSIDE = "file:///outside"
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}


def created(**more: Any) -> CreateRequest:
    return parse_create({"name": "t", "schema": SCHEMA, **more})


def commit_of(*updates: dict[str, Any], requirements: tuple[dict[str, Any], ...] = ()) -> CommitRequest:
    return parse_commit({"requirements": list(requirements), "updates": list(updates)})


def view_of(sql: str = "select 1", **more: Any) -> CreateViewRequest:
    version = {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
        "default-namespace": ["a"],
    }
    return parse_create_view({"name": "v", "schema": SCHEMA, "view-version": version, "properties": {}, **more})


def new_key(runtime: Runtime, what: str) -> IdempotencyKey:
    bits = int(ulid_to_uuid(new_ulid(runtime, runtime)).replace("-", ""), 16)
    bits = bits & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    text = f"{bits:032x}"
    return IdempotencyKey(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}", what)


class Mortal(PassingStore):
    """A store through which a process lives. `dies_at` counts its requests from when it is set."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner)
        self.requests = 0
        self.dead = False
        self._runtime = runtime
        self._last = -1
        self._applied = False
        self._hook: Callable[[], Awaitable[None]] | None = None
        self._hooked = -1

    def before(self, request: int, hook: Callable[[], Awaitable[None]]) -> None:
        """Let something happen before a request, counted from now."""
        self.requests, self._hook, self._hooked = 0, hook, request

    def dies_at(self, request: int, *, applied: bool) -> None:
        self.requests, self._last, self._applied = 0, request, applied

    async def _call(self, operation: str, path: str, action: Callable[[], Awaitable[T]]) -> T:
        if operation == "persist":
            return await action()
        if self.dead:
            await self._runtime.future()
        self.requests += 1
        if self._hook is not None and self.requests == self._hooked:
            await self._hook()
        if self.requests == self._last:
            self.dead = True
            if self._applied:
                with contextlib.suppress(Exception):
                    await action()
            await self._runtime.future()
        return await action()

    async def close(self) -> None:
        """The store outlives its processes."""


class Process:
    """One process of the house."""

    def __init__(self, workspace: Workspace, store: Mortal, outside: Store) -> None:
        self.workspace = workspace
        self.store = store
        self.runtime = workspace.runtime
        self.locations = Locations(
            workspace.handle(Role.ICEBERG), ROOT, SCOPE.root, allowed=[OUTSIDE], open_outside=lambda url: outside
        )
        self.iceberg: Iceberg = open_iceberg(workspace, self.locations)
        self.tables = self.iceberg.tables
        self.views = self.iceberg.views

    def who(self, key: IdempotencyKey | None = None) -> Who:
        return Who("ann", new_ulid(self.runtime, self.runtime), key=key)

    def key(self, what: str = "request") -> IdempotencyKey:
        return new_key(self.runtime, what)

    async def decide(self, command: Any) -> None:
        await self.workspace.decide("catalog", command, actor="ann")

    async def create(self, text: str, **more: Any) -> Loaded:
        return await self.tables.create(tuple(text.split(".")), created(**more), self.who())

    async def exists(self, text: str) -> bool:
        return await self.tables.exists(tuple(text.split(".")))


class House:
    def __init__(self, runtime: FakeRuntime) -> None:
        self.runtime = runtime
        self.objects = MemoryStore()
        self.outside = MemoryStore()

    async def open(self, cadence: Cadence | None = None) -> Process:
        store = Mortal(self.objects, self.runtime)
        workspace = await Workspace.open(store, SCOPE, self.runtime, test_store=False, cadence=cadence)
        return Process(workspace, store, self.outside)


def in_house(test: Callable[[House, Process], Coroutine[Any, Any, None]]) -> None:
    """Run a test on a house with its first process and the namespaces `a` and `b`."""

    async def main() -> None:
        house = House(FakeRuntime())
        await init_workspace(house.objects, SCOPE, house.runtime)
        process = await house.open()
        for name in ("a", "b"):
            await process.decide(CreateNamespace((name,)))
        await test(house, process)

    run(main())
