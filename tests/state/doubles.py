"""What tests of state share: events, segments, a journal that writes a log, a node that follows it.

Time and chance come from `tests.doubles`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from arco.log import FIRST_LINK, Event, Follower, Header, Link, Place, Segment, encode_segment, link_of
from arco.state import (
    Cadence,
    Compactor,
    Definition,
    LayerReader,
    Layout,
    LocalRunner,
    Manifest,
    Replica,
    Revisions,
    Runner,
    Snapshot,
    base_for,
    digest_rows,
    empty_manifest,
    open_ledger,
    snapshot_at_position,
    snapshot_at_revision,
    snapshot_at_time,
)
from arco.storage import MemoryStore, RequestCounts, Role, RoleStore, Scope, Store
from arco.storage import Sequence as Numbers
from tests.doubles import START, FakeRuntime

__all__ = [
    "PLACE",
    "ROOT",
    "Journal",
    "Node",
    "cut",
    "digests",
    "event",
    "open_node",
    "replica_of",
    "rows_of",
    "segments_of",
]

T = TypeVar("T")

PLACE = Place("acme", "prod", "inc-1", "activity")
ROOT = "acme/prod"
"""What `RoleStore` puts before every path."""


def event(
    kind: str,
    payload: msgspec.Struct | dict[str, Any],
    *,
    operation: str = "op",
    version: int = 1,
    command: str = "",
    key: str = "",
    span: int = 1,
) -> Event:
    return Event(
        id="01ARZ3NDEKTSV4RRFFQ69G5FAV",
        type=kind,
        time="2026-01-01T00:00:00.000000Z",
        source="test",
        actor="tester",
        operation=operation,
        data=msgspec.Raw(msgspec.json.encode(payload)),
        version=version,
        command=command,
        key=key,
        span=span,
    )


def _segment(
    place: Place, link: Link, events: Iterable[Event], received: int, folds: dict[str, int], seal: bool
) -> tuple[bytes, Segment, Link]:
    number = link.number + 1
    header = Header(
        1,
        place.log,
        number,
        f"segment-{number}",
        link.sha256,
        place.incarnation,
        place.tenant,
        place.workspace,
        "journal",
        received,
        folds,
        seal,
    )
    segment = Segment(header, tuple(events))
    data = encode_segment(header, [msgspec.json.encode(event) for event in segment.events])
    return data, segment, link_of(segment, data)


def segments_of(batches: Iterable[Sequence[Event]], place: Place = PLACE) -> list[tuple[Segment, Link]]:
    """A log in memory: one segment per batch, received a second apart."""
    found: list[tuple[Segment, Link]] = []
    link = FIRST_LINK
    for batch in batches:
        _, segment, link = _segment(place, link, batch, START + (link.number + 1) * 1_000_000, {}, False)
        found.append((segment, link))
    return found


class Journal:
    """Appends segments below the workspace's root as an owner would, without deciding anything."""

    def __init__(self, store: Store, runtime: FakeRuntime, place: Place = PLACE) -> None:
        self._store = store
        self._runtime = runtime
        self._place = place
        self._sequence = Numbers(store, Layout(place).ledger, runtime)
        self.link = FIRST_LINK

    async def append(self, *events: Event, folds: dict[str, int] | None = None, seal: bool = False) -> int:
        """The position of the last event."""
        received = max(self._runtime.now(), self.link.received)
        data, _, self.link = _segment(self._place, self.link, events, received, folds or {}, seal)
        root = f"{self._place.tenant}/{self._place.workspace}"
        await self._store.put(f"{root}/{self._sequence.path(self.link.number)}", data, only_if_absent=True)
        return (self.link.number << 20) + max(len(events) - 1, 0)


class Node:
    """One process that follows a log and publishes its state."""

    def __init__(
        self,
        definition: Definition,
        runtime: FakeRuntime,
        revisions: Revisions,
        compactor: Compactor,
        replica: Replica,
        follower: Follower,
        store: RoleStore,
        counts: RequestCounts,
    ) -> None:
        self.definition = definition
        self.runtime = runtime
        self.place = revisions.place
        self.revisions = revisions
        self.compactor = compactor
        self.replica = replica
        self.follower = follower
        self.store = store
        self.counts = counts

    async def publish(self) -> Manifest:
        """Fold what the log has and publish it."""
        await self.follower.catch_up()
        return await self.compactor.publish()

    async def snapshot(self) -> Snapshot:
        """The newest revision, found from scratch."""
        head = await Revisions(self.store, self.place, self.runtime).head()
        return snapshot_at_revision(self.definition, self.store, head.manifest)

    async def at(self, position: int) -> Snapshot:
        revisions = Revisions(self.store, self.place, self.runtime)
        head = (await revisions.head()).manifest
        log = self.follower.ledger
        return await snapshot_at_position(self.definition, self.store, revisions, log, head, position)

    async def at_time(self, time: int) -> Snapshot:
        revisions = Revisions(self.store, self.place, self.runtime)
        head = (await revisions.head()).manifest
        log = self.follower.ledger
        return await snapshot_at_time(self.definition, self.store, revisions, log, head, time)

    async def digests(self) -> dict[str, str]:
        return await digests(self.definition, await self.snapshot())


async def open_node(
    runtime: FakeRuntime,
    base: Store,
    definition: Definition,
    *,
    place: Place = PLACE,
    cadence: Cadence | None = None,
    name: str = "node",
    runner: Runner | None = None,
) -> Node:
    counts = RequestCounts()
    store = RoleStore(base, Scope(place.tenant, place.workspace), Role.COMPACTOR, counts)
    revisions = Revisions(store, place, runtime)
    head = await revisions.head()
    replica = Replica(definition, LayerReader(store), base_for(definition, head.manifest))
    follower = Follower(open_ledger(store, revisions, head.manifest.packs), replica, runtime)
    compactor = Compactor(
        definition,
        store,
        follower,
        replica,
        revisions,
        head,
        runner or LocalRunner(store, place, runtime),
        runtime,
        name,
        cadence,
    )
    return Node(definition, runtime, revisions, compactor, replica, follower, store, counts)


async def digests(definition: Definition, source: Any) -> dict[str, str]:
    """Digest of every table of a replica or snapshot."""
    return {name: digest_rows(table, await source.scan(table)) for name, table in sorted(definition.tables.items())}


async def rows_of(source: Any, table: Any) -> list[dict[str, Any]]:
    """The rows of a table as dicts, without positions."""
    data: pa.Table = await source.scan(table)
    return data.drop_columns(["_position"]).to_pylist()


async def replica_of(
    definition: Definition, batches: Sequence[Sequence[tuple[Segment, Link]]], place: Place = PLACE
) -> Replica:
    """A replica that folded the batches from the beginning, on no store."""
    replica = Replica(definition, LayerReader(MemoryStore()), empty_manifest(place))
    for batch in batches:
        await replica.apply(batch)
    return replica


def cut(items: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
    """The items in batches of the given sizes, the rest in a last one."""
    batches, at = [], 0
    for size in sizes:
        batches.append(list(items[at : at + size]))
        at += size
    batches.append(list(items[at:]))
    return [batch for batch in batches if batch]
