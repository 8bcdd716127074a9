"""`Workspace`: one workspace opened in this process, with every role it needs.

The default is embedded: this process owns both logs when nobody else does, and compacts them. With an address and
`Peers` it shares them with other processes: commands go to the owner, won segments come from it. A workspace is created
once by `init_workspace`, which writes its first incarnation; `Workspace.open` finds the newest one.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from arco.core import ArcoError, Conflict, NotFound, Runtime, decode_document, new_ulid
from arco.domains.access import ACCESS
from arco.domains.catalog import CATALOG
from arco.domains.deployments import DEPLOYMENTS
from arco.domains.execution import EXECUTION
from arco.domains.lineage import LINEAGE
from arco.domains.orchestration import ORCHESTRATION
from arco.domains.quality import QUALITY
from arco.domains.tables import ICEBERG_TABLES
from arco.log import Command, Forwarder, InProcessForwarder, NewEvent, Place, Receipt
from arco.runtime._log import OpenLog
from arco.runtime._peers import Peers
from arco.runtime._remains import INCARNATIONS, look_behind
from arco.state import (
    OPERATIONS,
    REQUESTS,
    Cadence,
    Definition,
    LocalRunner,
    Manifest,
    PinRevision,
    ReleasePin,
    Replica,
    Revisions,
    Runner,
    Snapshot,
    define_log,
)
from arco.storage import MIN_AGE, Lost, RequestCounts, Role, RoleStore, Scope, Sequence, Store, Won, self_test

__all__ = [
    "DEFINITIONS",
    "Incarnation",
    "Workspace",
    "init_workspace",
    "open_incarnation",
    "read_incarnation",
    "read_incarnations",
    "workspace_exists",
]

DEFINITIONS: tuple[Definition, ...] = (
    define_log("catalog", [CATALOG, ACCESS, DEPLOYMENTS]),
    define_log("activity", [EXECUTION, LINEAGE, QUALITY, ORCHESTRATION, ICEBERG_TABLES]),
)
"""The two logs of a workspace."""


FORMAT = 1
"""Of an incarnation."""


class Incarnation(msgspec.Struct, frozen=True):
    """One life of a workspace; restore and erasure open the next one."""

    id: str
    """The folder of everything that belongs to it."""
    number: int
    created_at: int
    reason: str
    previous: str = ""
    format: int = FORMAT
    backup: str = ""
    """Id of the backup it was restored from."""
    through: dict[str, str] = {}
    """The last position of each log that came from there."""


_decoder = msgspec.json.Decoder(Incarnation)


def decode_incarnation(data: bytes, path: str) -> Incarnation:
    """The incarnation in an object; `Outdated` if a newer program wrote it."""
    return decode_document(_decoder, data, "incarnation", FORMAT, path)


def _incarnations(store: Store, runtime: Runtime) -> Sequence:
    return Sequence(store, INCARNATIONS, runtime)


async def init_workspace(base: Store, scope: Scope, runtime: Runtime) -> Incarnation:
    """Test the store and create the workspace. `Conflict` if it exists, `LostObject` if it did and is not whole."""
    store = RoleStore(base, scope, Role.ADMIN, RequestCounts())
    await self_test(store, runtime, new_ulid(runtime, runtime))
    incarnations = _incarnations(store, runtime)
    tail = await incarnations.tail()
    if tail.number == 0 and not await look_behind(base, scope, runtime):
        first = Incarnation(f"inc-{new_ulid(runtime, runtime).lower()}", 1, runtime.now(), "init")
        if isinstance(await incarnations.create(tail, msgspec.json.encode(first)), Won):
            return first
    raise Conflict(f"the workspace {scope.root} exists already; open it, or choose another name")


async def read_incarnation(
    base: Store, scope: Scope, runtime: Runtime, *, counts: RequestCounts | None = None
) -> Incarnation:
    """The newest incarnation; `NotFound` if the workspace was never created, `LostObject` if its first one is gone."""
    found = await read_incarnations(base, scope, runtime, counts=counts)
    if not found and await look_behind(base, scope, runtime):
        found = await read_incarnations(base, scope, runtime, counts=counts)
    if not found:
        raise NotFound(f"there is no workspace {scope.root} here; create it with `arco init`")
    return found[-1]


async def read_incarnations(
    base: Store,
    scope: Scope,
    runtime: Runtime,
    *,
    all_of_them: bool = False,
    counts: RequestCounts | None = None,
) -> list[Incarnation]:
    """The newest incarnation, or with `all_of_them` every one, oldest first; empty if there is no workspace.

    Empty also where the first one is lost: who takes that for a new store asks `look_behind`.
    """
    incarnations = _incarnations(RoleStore(base, scope, Role.READER, counts or RequestCounts()), runtime)
    tail = await incarnations.tail()
    first = 1 if all_of_them else max(tail.number, 1)
    return [
        decode_incarnation(await incarnations.read_known(number), incarnations.path(number))
        for number in range(first, tail.number + 1)
    ]


async def open_incarnation(base: Store, scope: Scope, runtime: Runtime, new: Incarnation) -> Incarnation:
    """Create the next incarnation, whose folder must be complete: from now on the workspace is what lies there.

    `Conflict` if another one has the number; that the very same one has it is no error.
    """
    incarnations = _incarnations(RoleStore(base, scope, Role.ADMIN, RequestCounts()), runtime)
    tail = await incarnations.tail(new.number - 1)
    outcome: Won | Lost | None = None
    if tail.number == new.number - 1:
        outcome = await incarnations.create(tail, msgspec.json.encode(new))
    if isinstance(outcome, Won):
        return new
    data = await incarnations.read(new.number)
    there = None if data is None else decode_incarnation(data, incarnations.path(new.number))
    if there is not None and there.id == new.id:
        return there
    raise Conflict(f"another incarnation of {scope.root} was opened meanwhile; look at it, then decide")


async def workspace_exists(base: Store, scope: Scope, runtime: Runtime) -> bool:
    """Whether the workspace was ever created; one request if it was. `LostObject` if its first incarnation is gone and
    the rest is easily seen: strangers make this process ask."""
    incarnations = _incarnations(RoleStore(base, scope, Role.READER, RequestCounts()), runtime)
    return await incarnations.exists(1) or await look_behind(base, scope, runtime, briefly=True)


class Workspace:
    """An open workspace. Use it as an async context manager."""

    def __init__(
        self,
        base: Store,
        scope: Scope,
        runtime: Runtime,
        incarnation: Incarnation,
        *,
        address: str,
        forwarder: Forwarder | None = None,
        peers: Peers | None = None,
        may_own: bool = True,
        cadence: Cadence | None = None,
        min_age: float = MIN_AGE,
        runner: Callable[[Store, Place], Runner] | None = None,
    ) -> None:
        self.scope = scope
        self.runtime = runtime
        self.incarnation = incarnation
        self.address = address
        self.forwarder = forwarder or InProcessForwarder()
        self.peers = peers
        self.may_own = may_own
        self.cadence = cadence or Cadence()
        self.min_age = min_age
        """Seconds after which this workspace's collectors may delete; all its processes must agree on it."""
        self.counts = RequestCounts()
        self.opened_at = runtime.now()
        self.logs: dict[str, OpenLog] = {}
        self._base = base
        self._runner = runner

    @classmethod
    async def open(
        cls,
        base: Store,
        scope: Scope,
        runtime: Runtime,
        *,
        definitions: Iterable[Definition] = DEFINITIONS,
        address: str = "",
        peers: Peers | None = None,
        test_store: bool = True,
        compact: bool = True,
        may_own: bool = True,
        cadence: Cadence | None = None,
        min_age: float = MIN_AGE,
        runner: Callable[[Store, Place], Runner] | None = None,
    ) -> "Workspace":
        """Find the newest incarnation, load the head of each log and start compacting.

        `address` is where others reach this process (http or https); `peers` is how it reaches them. A process that
        compacts and may not own publishes whatever the owners' streams bring. A writer tests the store first
        (`test_store`); a process that only looks need not.
        """
        incarnation = await read_incarnation(base, scope, runtime)
        workspace = cls(
            base,
            scope,
            runtime,
            incarnation,
            address=address or f"local:{new_ulid(runtime, runtime)}",
            peers=peers,
            may_own=may_own,
            cadence=cadence,
            min_age=min_age,
            runner=runner,
        )
        if test_store:
            await self_test(workspace.handle(Role.OWNER), runtime, new_ulid(runtime, runtime))
        for definition in definitions:
            await workspace.open_log(definition)
        if compact:
            workspace.start()
        for log in workspace.logs.values():
            log.follow()
        await runtime.sleep(0)  # let the loops begin, so that who waits for a revision finds them running
        return workspace

    async def lives(self) -> list[Incarnation]:
        """Every incarnation of the workspace, oldest first."""
        return await read_incarnations(self._base, self.scope, self.runtime, all_of_them=True)

    def handle(self, role: Role) -> RoleStore:
        """The store as a role may use it."""
        return RoleStore(self._base, self.scope, role, self.counts)

    def runner(self, store: Store, place: Place) -> Runner:
        return self._runner(store, place) if self._runner else LocalRunner(store, place, self.runtime)

    async def open_log(self, definition: Definition) -> OpenLog:
        place = Place(self.scope.tenant, self.scope.workspace, self.incarnation.id, definition.log)
        revisions = Revisions(self.handle(Role.READER), place, self.runtime, min_age=self.min_age)
        opened = OpenLog(self, definition, await revisions.head(), revisions)
        self.logs[definition.log] = opened
        if isinstance(self.forwarder, InProcessForwarder):
            self.forwarder.register(opened.gateway)
        return opened

    def start(self) -> None:
        """Publish each log until `close`."""
        for log in self.logs.values():
            log.start()

    async def is_replaced(self) -> bool:
        """Whether the workspace goes on in a newer incarnation than this one."""
        return (await read_incarnation(self._base, self.scope, self.runtime)).id != self.incarnation.id

    def end_streams(self) -> None:
        """End what is streamed to others from here, and who waits for news. The first step of a shutdown: they would
        hold it up."""
        for log in self.logs.values():
            log.stream.close()
            log.follower.end_waits()

    async def close(self) -> None:
        """Settle what is queued, publish what is folded, stop."""
        trouble: ArcoError | None = None
        for log in self.logs.values():
            try:
                await log.close()
            except ArcoError as error:
                trouble = error
        if trouble is not None:
            raise trouble

    async def __aenter__(self) -> "Workspace":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # What callers ask for

    async def record(
        self,
        log: str,
        events: Iterable[NewEvent],
        *,
        actor: str,
        key: str = "",
        operation: str = "",
        correlation: str = "",
        traceparent: str = "",
    ) -> Receipt:
        """Append facts that nobody can refuse. Returns when they are durable."""
        command = Command(
            operation=operation or new_ulid(self.runtime, self.runtime),
            actor=actor,
            events=tuple(events),
            key=key,
            correlation=correlation,
            traceparent=traceparent,
        )
        return await self.logs[log].gateway.submit(command)

    async def decide(
        self,
        log: str,
        payload: msgspec.Struct,
        *,
        actor: str,
        key: str = "",
        operation: str = "",
        correlation: str = "",
        traceparent: str = "",
        minted: Mapping[str, str] | None = None,
        asked: str = "",
    ) -> Receipt:
        """Carry out a command (named by its class) if the state allows it. Returns when it is durable and folded.

        `operation` names the outcome, which `find_operation` tells; without one it is minted here. `correlation` and
        `traceparent` stand in the events, to find what belongs together. `minted` and `asked`: see `Command`.
        """
        command = Command(
            operation=operation or new_ulid(self.runtime, self.runtime),
            actor=actor,
            name=type(payload).__name__,
            data=msgspec.Raw(msgspec.json.encode(payload)),
            key=key,
            correlation=correlation,
            traceparent=traceparent,
            minted=dict(minted or {}),
            asked=asked,
        )
        return await self.logs[log].gateway.submit(command)

    async def find_operation(self, log: str, operation: str) -> Receipt | None:
        """Where the events of an operation are; None if it is not in the log now, though it may still be on its way."""

        async def find(view: Replica | Snapshot) -> Receipt | None:
            row = await view.get(OPERATIONS, operation, operation)
            return Receipt(operation, str(row.first), str(row.last), replayed=True) if row is not None else None

        found, _ = await self.logs[log].read(find)
        return found

    async def find_request(self, log: str, key: str, keyhash: str) -> tuple[Receipt, int] | None:
        """The receipt of a request that was carried out under this key, and when that was; None if none was, or
        another one. For commands that cannot be made again because what they need is gone."""

        async def find(view: Replica | Snapshot) -> tuple[Receipt, int] | None:
            request = await view.get(REQUESTS, key, key)
            if request is None or request.keyhash != keyhash:
                return None
            row = await view.get(OPERATIONS, request.operation, request.operation)
            if row is None:
                return None
            return Receipt(row.operation, str(row.first), str(row.last), replayed=True), row.received_at

        found, _ = await self.logs[log].read(find)
        return found

    async def pin(self, log: str, pin: PinRevision, *, actor: str) -> Receipt:
        """Keep a revision until the pin expires; `NotFound` if it is not retained, and then nothing is pinned.

        A revision may be thinned while its pin is on the way, so the first manifest that has the pin is asked.
        """
        opened = self.logs[log]
        receipt = await self.decide(log, pin, actor=actor)
        head = await self.published(log, receipt.position)
        kept = {head.number, *(entry.revision for entry in await opened.revisions.history(head))}
        if pin.revision not in kept:
            await self.decide(log, ReleasePin(pin.pin_id), actor=actor)
            raise NotFound(
                f"revision {pin.revision} of {log} is not retained; `arco state history` lists those that are"
            )
        return receipt

    async def published(self, log: str, position: int) -> Manifest:
        """Wait until a revision covers a position, and return such a revision."""
        return await self.logs[log].publishing.head(position)
