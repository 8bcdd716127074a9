"""Clients and readers: what they ask, what they are told, and the history of both.

An `Ask` is one request with its operation id; it may be tried several times, by several processes. Its answer is

    acknowledged   with a receipt
    refused        by the state or as invalid: nothing may be in the log
    unavailable    not done: nothing may be in the log
    unknown        the caller was told so, went away, or died

A refusal after an unknown try is `unknown` too: the earlier one may still be on its way.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from arco.core import (
    HOUR,
    Corrupt,
    Invalid,
    LostObject,
    NotFound,
    OutcomeUnknown,
    Outdated,
    Refused,
    Stale,
    Unavailable,
    new_ulid,
)
from arco.domains.catalog import (
    NAMES,
    ROOT,
    AddColumn,
    AlterColumn,
    AlterTable,
    CreateNamespace,
    CreateTable,
    DropColumn,
    DropNamespace,
    DropTable,
    Ref,
    RenameNamespace,
    RenameTable,
    UpdateNamespace,
)
from arco.domains.execution import MATERIALIZATION_COMPLETED, DataFile, MaterializationCompleted
from arco.log import Command, NewEvent, Receipt
from arco.state import AdvanceRetention, PinRevision, ReleasePin, Snapshot, new_event
from tests.simulation.claims import Claim, Finish, Release, Reserve
from tests.simulation.look import true_head
from tests.simulation.node import Cluster, Node
from tests.simulation.oracle import WATCHED
from tests.simulation.scheduler import Violation

__all__ = ["Ask", "Asking", "History", "NameRead", "Reading", "TableRead"]

KINDS = {
    "create": 8,
    "drop": 6,
    "rename": 2,
    "update": 2,
    "table": 2,
    "alter": 3,
    "move": 1,
    "remove": 1,
    "claim": 6,
    "reserve": 2,
    "finish": 3,
    "release": 3,
    "record": 8,
    "pin": 2,
    "unpin": 1,
    "retention": 1,
    "misuse": 1,
}
"""Requests and how often each is drawn."""

NAMES_USED = ("n0", "n1", "n2")
RENAMED = ("r0", "r1")
"""Never dropped, so that they may hold tables."""
COLUMNS_USED = ("a", "b", "c")
ATTEMPTS_USED = ("t0", "t1", "t2", "t3")
ASSETS = tuple(f"01ARZ3NDEKTSV4RRFFQ69G5F{index:02d}" for index in range(2))


@dataclass(eq=False)
class Ask:
    log: str
    kind: str
    subject: str
    command: Command
    invoked: int
    returned: int = 0
    answer: str = "pending"
    receipt: Receipt | None = None
    doubt: bool = False
    cancelled: bool = False
    told_unknown: bool = False
    asked_at: list[str] = field(default_factory=list)
    reason: str = ""
    misuse: bool = False
    """Its key belongs to another request."""


@dataclass
class NameRead:
    """A strong read of one name."""

    name: str
    invoked: int
    returned: int
    found: bool


@dataclass
class TableRead:
    """Rows of a table as a reader saw them at a position."""

    log: str
    position: int
    table: str
    rows: list[dict[str, Any]]


@dataclass
class History:
    asks: list[Ask] = field(default_factory=list)
    names: list[NameRead] = field(default_factory=list)
    tables: list[TableRead] = field(default_factory=list)
    operations: set[str] = field(default_factory=set)
    """Every operation id under which something was asked."""
    clock: int = 0

    def tick(self) -> int:
        self.clock += 1
        return self.clock


class Asking:
    """Draws requests and carries them out."""

    def __init__(self, cluster: Cluster, history: History, random: Random, *, patience: bool = True) -> None:
        self.cluster = cluster
        self.history = history
        self.random = random
        self._patience = patience
        self._sent: list[NewEvent] = []

    def draw(self, node: Node) -> Ask:
        """A new request of some kind."""
        kind = self.random.choices(list(KINDS), list(KINDS.values()))[0]
        if kind == "record":
            return self._record(node)
        if kind == "misuse":
            return self._misuse(node)
        log, subject, payload = self._payload(kind, node)
        return self.ask(node, log, kind, subject, payload)

    def ask(self, node: Node, log: str, kind: str, subject: str, payload: msgspec.Struct) -> Ask:
        keyed = self.random.random() < 0.3
        command = Command(
            operation=self._ulid(node),
            actor=node.name,
            name=type(payload).__name__,
            data=msgspec.Raw(msgspec.json.encode(payload)),
            key=self._ulid(node) if keyed else "",
        )
        return self._note(Ask(log, kind, subject, command, self.history.tick()))

    def record(self, node: Node, events: tuple[NewEvent, ...], *, key: str = "") -> Ask:
        command = Command(operation=self._ulid(node), actor=node.name, events=events, key=key)
        return self._note(Ask("activity", "record", "", command, self.history.tick()))

    def _note(self, ask: Ask) -> Ask:
        self.history.asks.append(ask)
        return ask

    def _ulid(self, node: Node) -> str:
        return new_ulid(node.runtime, node.runtime)

    def _payload(self, kind: str, node: Node) -> tuple[str, str, msgspec.Struct]:
        name = self.random.choice(NAMES_USED)
        first, second = self.random.sample(RENAMED, 2)
        attempt = self.random.choice(ATTEMPTS_USED)
        worker = self.random.choice(("w0", "w1"))
        now = node.runtime.now()
        log = self.random.choice(("catalog", "activity"))
        pin = self.random.choice(("pin0", "pin1"))
        head = node.log(log).compactor.head.manifest.number
        match kind:
            case "create":
                path = (first,) if self.random.random() < 0.2 else (name,)
                return "catalog", path[0], CreateNamespace(path, self._ulid(node))
            case "drop":
                return "catalog", name, DropNamespace(Ref(path=(name,)))
            case "rename":
                return "catalog", first, RenameNamespace(Ref(path=(first,)), (second,))
            case "update":
                return "catalog", name, UpdateNamespace(Ref(path=(name,)), self._ulid(node))
            case "table":
                return "catalog", "t", CreateTable((first, "t"), columns=(AddColumn("a", "int"),))
            case "alter":
                return "catalog", "t", AlterTable(Ref(path=(first, "t")), (self._column_change(),))
            case "move":
                return "catalog", "t", RenameTable(Ref(path=(first, "t")), (second, "t"))
            case "remove":
                return "catalog", "t", DropTable(Ref(path=(first, "t")))
            case "claim":
                return "activity", attempt, Claim(attempt, worker)
            case "reserve":
                return "activity", attempt, Reserve(attempt, worker)
            case "finish":
                return "activity", attempt, Finish(attempt, worker)
            case "release":
                return "activity", attempt, Release(attempt, worker)
            case "pin":
                return log, pin, PinRevision(pin, head, "simulated", now + self.random.randrange(HOUR, 24 * HOUR))
            case "unpin":
                return log, pin, ReleasePin(pin)
            case _:
                before = now - self.random.randrange(HOUR)
                return "activity", "", AdvanceRetention("materializations", before)

    def _column_change(self) -> AddColumn | AlterColumn | DropColumn:
        one, other = self.random.sample(COLUMNS_USED, 2)
        changes = (AddColumn(one, "int"), AlterColumn(one, new_name=other), DropColumn(one))
        return self.random.choice(changes)

    def materialization(self, node: Node) -> NewEvent:
        now = node.runtime.now()
        return new_event(
            MATERIALIZATION_COMPLETED,
            MaterializationCompleted(
                materialization_id=self._ulid(node),
                asset_id=self.random.choice(ASSETS),
                asset_key="sales.orders",
                partition_id=f"part_{self.random.randrange(3)}",
                partition_key="",
                run_id="run",
                task_id="task",
                files=(DataFile("data/x", 1, 2),),
                row_count=self.random.randrange(100),
                byte_size=10,
                schema_hash="h",
                started_at=now,
                completed_at=now,
                status="quarantined" if self.random.random() < 0.2 else "published",
            ),
        )

    def _record(self, node: Node) -> Ask:
        events = [self.materialization(node) for _ in range(self.random.randrange(1, 3))]
        if self._sent and self.random.random() < 0.3:
            events.append(self.random.choice(self._sent))
        self._sent += events[:1]
        return self.record(node, tuple(events), key=self._ulid(node) if self.random.random() < 0.3 else "")

    def _misuse(self, node: Node) -> Ask:
        """Another request under a key that was used before."""
        used = [ask for ask in self.history.asks if ask.command.key and ask.answer == "acknowledged"]
        if not used:
            return self._record(node)
        before = self.random.choice(used)
        command = Command(
            operation=self._ulid(node),
            actor="somebody else",
            name="ReleasePin",
            data=msgspec.Raw(msgspec.json.encode(ReleasePin("other"))),
            key=before.command.key,
        )
        return self._note(Ask(before.log, "misuse", "", command, self.history.tick(), misuse=True))

    async def perform(self, node: Node, ask: Ask) -> None:
        """Try it once, at this node. A caller may lose patience; its command goes on without it."""
        self.cluster.probe.operations["requests"] += 1
        ask.doubt = ask.doubt or bool(ask.asked_at and ask.answer in ("pending", "unknown"))
        command = ask.command
        if ask.asked_at and command.key and self.random.random() < 0.5:
            command = msgspec.structs.replace(command, operation=self._ulid(node))  # the key alone must do
        ask.asked_at.append(node.name)
        self.history.operations.add(command.operation)
        ask.answer = "pending"
        work = node.log(ask.log).gateway.submit(command)
        try:
            if self._patience and self.random.random() < 0.15:
                receipt = await node.runtime.timeout(self.random.uniform(0.001, 2.0), work)
            else:
                receipt = await work
        except TimeoutError:
            ask.answer, ask.cancelled = "unknown", True
            self.cluster.probe.fault("request cancelled")
        except OutcomeUnknown as error:
            ask.answer, ask.told_unknown, ask.reason = "unknown", True, str(error)
            self.cluster.probe.path("answered unknown")
        except (Refused, Invalid) as error:
            ask.answer, ask.reason = "unknown" if ask.doubt else "refused", str(error)
            if "request key" in str(error):
                self.cluster.probe.path("key conflict")
        except Outdated as error:
            ask.answer, ask.reason = "unknown" if ask.doubt else "unavailable", str(error)
            self.cluster.probe.path("outdated only reads")
        except Unavailable as error:
            ask.answer, ask.reason = "unknown" if ask.doubt else "unavailable", str(error)
        except Corrupt as error:
            ask.answer, ask.reason = "unknown", str(error)
        else:
            ask.answer, ask.receipt = "acknowledged", receipt
            if receipt.replayed:
                self.cluster.probe.path(
                    "replayed by operation" if receipt.operation == command.operation else "replayed by key"
                )
        ask.returned = self.history.tick()
        self.cluster.scheduler.note("answer", ask.kind, ask.subject, command.operation, ask.answer)


class Reading:
    """Reads in every way there is."""

    def __init__(self, cluster: Cluster, history: History, random: Random) -> None:
        self.cluster = cluster
        self.history = history
        self.random = random
        self._seen: dict[tuple[str, str], tuple[int, int]] = {}

    async def perform(self, node: Node) -> None:
        self.cluster.probe.operations["reads"] += 1
        kind = self.random.choices(("name", "head", "revision", "position"), (5, 3, 1, 1))[0]
        try:
            if kind == "name":
                await self.read_name(node, self.random.choice(NAMES_USED))
            else:
                await self._read_table(node, kind)
        except (Unavailable, Outdated):
            self.cluster.scheduler.note(node.name, "read not possible now")

    async def read_name(self, node: Node, name: str) -> None:
        """A strong read: everything that was appended before is in it."""
        log = node.log("catalog")
        invoked = self.history.tick()
        await log.follower.catch_up()
        found = await log.replica.get(NAMES, ROOT, (ROOT, "namespace", name))
        self.history.names.append(NameRead(name, invoked, self.history.tick(), found is not None))
        self._forward_only(node, "catalog", 0, log.replica.watermark)

    async def _read_table(self, node: Node, kind: str) -> None:
        name = self.random.choice(("catalog", "activity"))
        log = node.log(name)
        snapshot = await log.snapshot()
        head = snapshot.manifest
        self._forward_only(node, name, head.number, 0)
        if kind == "revision" and head.history:
            entry = self.random.choice(head.history)
            try:
                snapshot = await log.snapshot(revision=entry.revision)
            except NotFound:
                return  # thinned since
            self.cluster.probe.path("history read")
        elif kind == "position":
            tail = log.follower.tail.number
            try:
                snapshot = await log.snapshot(position=self.random.randrange(1, tail + 2) << 20)
            except Stale:
                return
            self.cluster.probe.path("position read")
        await self._note(snapshot, name)

    async def _note(self, snapshot: Snapshot, log: str) -> None:
        table = self.random.choice(WATCHED[log])
        try:
            data = await snapshot.scan(snapshot.table(table))
        except LostObject as error:
            if self._still_retained(snapshot, log):
                raise Violation("collection never removes the reachable", str(error)) from error
            return  # a slow reader of a revision that is no longer kept
        if not snapshot._replica.skips:  # else a type was skipped, which the state notes and the next release refolds
            self.history.tables.append(TableRead(log, snapshot.position, table, data.to_pylist()))

    def _still_retained(self, snapshot: Snapshot, log: str) -> bool:
        head = true_head(self.cluster, log)
        kept = {head.number, *(entry.revision for entry in head.history)}
        return snapshot.manifest.number in kept

    def _forward_only(self, node: Node, log: str, revision: int, position: int) -> None:
        before = self._seen.get((node.name, log), (0, 0))
        if (revision and revision < before[0]) or (position and position < before[1]):
            raise Violation("readers never go back", f"{node.name} saw {before} of {log}, then {(revision, position)}")
        self._seen[node.name, log] = (max(revision, before[0]), max(position, before[1]))
