"""A small world for tests of state: one store, one journal, and as many nodes as a test wants, in virtual time."""

from collections.abc import Awaitable, Callable
from typing import Any

from arco.log import Event
from arco.state import (
    Collector,
    Definition,
    File,
    Finding,
    LocalRunner,
    Manifest,
    MergeJob,
    RefoldJob,
    examine_log,
    verify_revision,
)
from arco.storage import MemoryStore, RequestCounts, Role, RoleStore, Scope
from tests.doubles import FakeRuntime, FaultyStore, run
from tests.state.doubles import PLACE, ROOT, Journal, Node, open_node, rows_of
from tests.state.toy import NOTES, toy

__all__ = ["TOY", "Crash", "Recording", "World", "append", "running", "simulate"]

TOY = toy()


class World:
    def __init__(self) -> None:
        self.runtime = FakeRuntime()
        self.memory = MemoryStore(self.runtime)
        self.store = FaultyStore(self.memory)
        self.journal = Journal(self.memory, self.runtime)

    async def node(self, definition: Definition = TOY, **options: object) -> Node:
        return await open_node(self.runtime, self.store, definition, **options)  # type: ignore[arg-type]

    async def publish(self, node: Node, *events: Event) -> Manifest:
        await self.journal.append(*events)
        return await node.publish()

    def created(self) -> list[str]:
        """Every path created so far."""
        return [path.removeprefix(f"{ROOT}/") for operation, path in self.store.calls if operation == "create"]

    def handle(self, role: Role) -> RoleStore:
        return RoleStore(self.store, Scope("acme", "prod"), role, RequestCounts())

    def collector(self, **options: float) -> Collector:
        return Collector(self.handle(Role.COLLECTOR), PLACE, self.runtime, **options)

    async def examine(self, definition: Definition = TOY) -> list[Finding]:
        return await examine_log(definition, self.handle(Role.READER), PLACE, self.runtime)

    async def objects(self, folder: str = "") -> set[str]:
        """Every object of the incarnation or of one of its folders, without hints, which come when they come."""
        root = f"{ROOT}/inc-1/{folder}".rstrip("/")
        found = {info.path.removeprefix(f"{ROOT}/") async for info in self.memory.list(root)}
        return {path for path in found if not path.endswith("/hint")}

    async def texts(self, definition: Definition = TOY) -> dict[str, str]:
        """What a reader sees who comes from outside."""
        snapshot = await (await open_node(self.runtime, self.memory, definition)).snapshot()
        return {row["note"]: row["text"] for row in await rows_of(snapshot, NOTES)}

    async def equals_refold(self, node: Node) -> None:
        """What is published is what the log says."""
        manifest = (await node.snapshot()).manifest
        compared = await verify_revision(node.definition, node.store, node.follower.ledger, manifest)
        assert [found.table for found in compared if not found.equal] == []

    async def damage(self, path: str, *, at: int = -40) -> None:
        """Flip one bit of an object."""
        data = bytearray(await self.memory.get(f"{ROOT}/{path}"))
        data[at] ^= 4
        await self.memory.put(f"{ROOT}/{path}", bytes(data), only_if_absent=False)


def simulate(test: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(World())

    run(main())


async def running(world: World, **options: Any) -> Node:
    node = await world.node(**options)
    world.runtime.spawn(node.compactor.run(), "compactor")
    await world.runtime.sleep(0)
    return node


async def append(world: World, node: Node, *events: Event) -> int:
    """As the owner in this process does it: append, fold, tell the compactor."""
    position = await world.journal.append(*events)
    await node.follower.catch_up()
    node.compactor.notify(position >> 20)
    return position


class Recording(LocalRunner):
    """Notes the jobs; `hook` runs before each one is done."""

    def __init__(self, world: World) -> None:
        super().__init__(world.handle(Role.COMPACTOR), PLACE, world.runtime)
        self.merges: list[MergeJob] = []
        self.hook: Callable[[], Awaitable[None]] | None = None

    async def merge(self, job: MergeJob) -> tuple[File, ...]:
        assert len(self.merges) < 50, "a merge is tried over and over"
        self.merges.append(job)
        if self.hook:
            await self.hook()
        return await super().merge(job)

    async def refold(self, job: RefoldJob) -> Manifest:
        if self.hook:
            await self.hook()
        return await super().refold(job)


class Crash(Exception):
    """The process ends here."""
