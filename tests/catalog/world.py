"""A workspace with a catalog to read: commands in one line each, and views of what they left."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from arco.catalog._names import View
from arco.core import parse_path
from arco.domains.catalog import (
    AddColumn,
    CreateNamespace,
    CreateTable,
    DropNamespace,
    DropTable,
    Ref,
    RenameNamespace,
    RenameTable,
)
from arco.log import Receipt
from arco.runtime import Workspace, init_workspace
from arco.storage import MemoryStore, Store
from tests.doubles import FakeRuntime
from tests.runtime.world import SCOPE, run

__all__ = ["World", "in_world"]

T = TypeVar("T")


class World:
    """An open workspace, spoken to in path texts."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.runtime = workspace.runtime
        self.catalog = workspace.logs["catalog"]
        self.activity = workspace.logs["activity"]

    async def decide(self, payload: Any, log: str = "catalog", **more: Any) -> Receipt:
        return await self.workspace.decide(log, payload, actor="ann", **more)

    async def namespace(self, path: str) -> Receipt:
        return await self.decide(CreateNamespace(parse_path(path)))

    async def table(self, path: str, *columns: AddColumn, **more: Any) -> Receipt:
        return await self.decide(CreateTable(parse_path(path), columns=columns, **more))

    async def rename_namespace(self, path: str, to: str) -> Receipt:
        return await self.decide(RenameNamespace(Ref(path=parse_path(path)), parse_path(to)))

    async def rename_table(self, path: str, to: str) -> Receipt:
        return await self.decide(RenameTable(Ref(path=parse_path(path)), parse_path(to)))

    async def drop_table(self, path: str) -> Receipt:
        return await self.decide(DropTable(Ref(path=parse_path(path))))

    async def drop_namespace(self, path: str, *, cascade: bool = False) -> Receipt:
        return await self.decide(DropNamespace(Ref(path=parse_path(path)), cascade=cascade))

    async def read(self, work: Callable[[View], Awaitable[T]]) -> T:
        """What a reader finds in the live catalog."""
        found, _ = await self.catalog.read(work)
        return found


def in_world(
    test: Callable[[World], Coroutine[Any, Any, None]],
    store: Callable[[FakeRuntime], Store] = MemoryStore,
    **options: Any,
) -> None:
    """Run a test in a workspace of its own, in virtual time."""

    async def main(runtime: FakeRuntime) -> None:
        base = store(runtime)
        await init_workspace(base, SCOPE, runtime)
        async with await Workspace.open(base, SCOPE, runtime, test_store=False, **options) as workspace:
            await test(World(workspace))

    run(main)
