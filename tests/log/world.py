"""A log in memory with any number of processes around it, all real but for the clock and the store's moods.

A `World` is one bucket; a `Node` is what one process opens on one log of it: the fold is the product's own replica.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from arco.core import new_ulid
from arco.domains.catalog import CATALOG, NAMESPACES, ROOT, CreateNamespace, DropNamespace, Ref
from arco.domains.catalog.events import NAMESPACE_CREATED, NamespaceCreated
from arco.domains.execution import EXECUTION, MATERIALIZATION_COMPLETED, DataFile, MaterializationCompleted
from arco.log import (
    FIRST_LINK,
    Admission,
    Blobs,
    Command,
    Event,
    Follower,
    Gateway,
    Header,
    Hint,
    HintFile,
    InProcessForwarder,
    Ledger,
    Link,
    NewEvent,
    Owner,
    Place,
    Segment,
    SegmentStream,
    check_segment,
    decode_segment,
    encode_segment,
    link_of,
)
from arco.state import (
    Compactor,
    Definition,
    LayerReader,
    Layout,
    LocalRunner,
    Manifest,
    Replica,
    Revisions,
    define_log,
    empty_manifest,
    new_event,
)
from arco.storage import MemoryStore, Operation, RequestCounts, Role, RoleStore, Scope, Sequence
from tests.doubles import FakeRuntime, FaultyStore

__all__ = ["ACTIVITY_LOG", "CATALOG_LOG", "SCOPE", "Node", "World", "header", "owned", "paths", "raw", "sealed"]

CATALOG_LOG = define_log("catalog", [CATALOG])
ACTIVITY_LOG = define_log("activity", [EXECUTION])

SCOPE = Scope("acme", "prod")


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def header(place: Place, link: Link = FIRST_LINK, **changes: Any) -> Header:
    """The header of the segment after `link`."""
    fields: dict[str, Any] = {
        "format": 1,
        "log": place.log,
        "number": link.number + 1,
        "id": f"{link.number + 1:026d}",
        "previous": link.sha256,
        "incarnation": place.incarnation,
        "tenant": place.tenant,
        "workspace": place.workspace,
        "writer": "by hand",
        "received": link.received + 1,
        "folds": {},
    }
    return Header(**{**fields, **changes})


def sealed(place: Place, link: Link) -> bytes:
    return encode_segment(header(place, link, seal=True), [])


class World:
    """One bucket, its workspace and what everybody shares."""

    def __init__(self, definition: Definition = CATALOG_LOG, seed: int = 0) -> None:
        self.definition = definition
        self.runtime = FakeRuntime(seed)
        self.memory = MemoryStore(self.runtime)
        self.forwarder = InProcessForwarder()
        self.place = Place(SCOPE.tenant, SCOPE.workspace, "inc-1", definition.log)
        self.layout = Layout(self.place)
        self.reader = Sequence(self.handle(Role.READER), self.layout.ledger, self.runtime)

    def handle(self, role: Role) -> RoleStore:
        return RoleStore(self.memory, SCOPE, role, RequestCounts())

    def node(self, address: str = "a", **options: Any) -> "Node":
        return Node(self, address, **options)

    def ulid(self) -> str:
        return new_ulid(self.runtime, self.runtime)

    def command(self, payload: msgspec.Struct, *, key: str = "", actor: str = "ann", operation: str = "") -> Command:
        return Command(
            operation=operation or self.ulid(), actor=actor, name=type(payload).__name__, data=raw(payload), key=key
        )

    def create(self, *path: str, **options: Any) -> Command:
        """A command to create a namespace."""
        return self.command(CreateNamespace(path), **options)

    def drop(self, *path: str, **options: Any) -> Command:
        return self.command(DropNamespace(Ref(path=path)), **options)

    def facts(self, *events: NewEvent, key: str = "") -> Command:
        """A command to record events."""
        return Command(operation=self.ulid(), actor="ann", events=events, key=key)

    def namespace_event(self, name: str, properties: dict[str, str] | None = None) -> NewEvent:
        return new_event(NAMESPACE_CREATED, NamespaceCreated(self.ulid(), ROOT, name, None, properties or {}))

    def materialization(self, **changes: Any) -> NewEvent:
        return new_event(MATERIALIZATION_COMPLETED, self.completed(**changes))

    def completed(self, **changes: Any) -> MaterializationCompleted:
        fields: dict[str, Any] = {
            "materialization_id": self.ulid(),
            "asset_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "asset_key": "sales.orders",
            "partition_id": "part_1",
            "partition_key": "",
            "run_id": "run",
            "task_id": "task",
            "files": [DataFile("data/x", 10, 5)],
            "row_count": 5,
            "byte_size": 10,
            "schema_hash": "hash",
            "started_at": self.runtime.now(),
            "completed_at": self.runtime.now(),
        }
        return MaterializationCompleted(**{**fields, **changes})

    async def segments(self) -> list[Segment]:
        """The whole log, its chain checked."""
        found: list[Segment] = []
        link = FIRST_LINK
        while (data := await self.reader.read(len(found) + 1)) is not None:
            segment, link = check_segment(data, self.place, link, self.reader.path(len(found) + 1))
            found.append(segment)
        return found

    def ledger(self, place: Place | None = None) -> Ledger:
        return Ledger(self.handle(Role.READER), self.reader, place or self.place, self.runtime)

    async def events(self) -> list[Event]:
        return [event for segment in await self.segments() for event in segment.events]

    async def append(self, *encoded: bytes, **changes: Any) -> Link:
        """Write the next segment by hand, as some other program would."""
        link = FIRST_LINK
        while (data := await self.reader.read(link.number + 1)) is not None:
            link = link_of(decode_segment(data, ""), data)
        data = encode_segment(header(self.place, link, **changes), encoded)
        path = f"{SCOPE.root}/{self.reader.path(link.number + 1)}"
        await self.memory.put(path, data, only_if_absent=True)
        return link_of(decode_segment(data, path), data)


class Node:
    """One process on the log."""

    def __init__(
        self,
        world: World,
        address: str,
        *,
        definition: Definition | None = None,
        base: Manifest | None = None,
        may_own: bool = True,
    ) -> None:
        runtime = world.runtime
        self.world = world
        self.definition = definition or world.definition
        self.store = FaultyStore(world.memory)
        self.counts = RequestCounts()
        self.handle = RoleStore(self.store, SCOPE, Role.OWNER, self.counts)
        self.replica = Replica(self.definition, LayerReader(self.handle), base or empty_manifest(world.place))
        self.sequence = Sequence(self.handle, world.layout.ledger, runtime)
        self.ledger = Ledger(self.handle, self.sequence, world.place, runtime)
        self.follower = Follower(self.ledger, self.replica, runtime)
        self.blobs = Blobs(self.handle)
        self.admission = Admission(self.definition.registry, self.blobs, runtime)
        self.hint = HintFile(self.handle, world.layout.ledger_hint, runtime)
        self.stream = SegmentStream(runtime)
        self.gateway = Gateway(
            self.follower,
            self.admission,
            self.hint,
            world.forwarder,
            runtime,
            address,
            may_own=may_own,
            stream=self.stream,
        )
        self.address = address
        world.forwarder.register(self.gateway)

    def owner(self) -> Owner:
        """An owner of its own, without a gateway before it."""
        return Owner(self.follower, self.admission, self.world.runtime, self.address)

    async def publish(self) -> Manifest:
        """Publish what this process has folded."""
        store, place, runtime = self.world.handle(Role.COMPACTOR), self.world.place, self.world.runtime
        revisions = Revisions(store, place, runtime)
        compactor = Compactor(
            self.definition,
            store,
            self.follower,
            self.replica,
            revisions,
            await revisions.head(),
            LocalRunner(store, place, runtime),
            runtime,
            self.address,
        )
        return await compactor.publish()

    def requests(self, *operations: Operation) -> int:
        return sum(self.counts.count(operation=operation) for operation in operations)

    async def names(self) -> list[str]:
        """The namespaces this process sees, in order."""
        rows = {row["namespace_id"]: row for row in (await self.replica.scan(NAMESPACES)).to_pylist()}

        def path(row: dict[str, Any]) -> str:
            return row["name"] if row["parent_id"] == ROOT else f"{path(rows[row['parent_id']])}.{row['name']}"

        return sorted(map(path, rows.values()))


def paths(events: Iterable[Event]) -> list[str]:
    """The namespaces that events create, in their order."""
    return [
        event.subject or msgspec.json.decode(event.data)["name"] for event in events if event.type == "NamespaceCreated"
    ]


async def owned(world: World) -> Node:
    """A process that owns the log and is named in the hint."""
    node = world.node("owner")
    await node.gateway.submit(world.create("first"))
    await world.runtime.sleep(0.01)
    assert await node.hint.read() == Hint(1, "owner")
    return node
