"""`Workspace`: one workspace opened in this process, with every role it needs.

The default is embedded: this process owns both logs when nobody else does, and compacts them. A workspace is created
once by `init_workspace`, which writes its first incarnation; `Workspace.open` finds the newest one.
"""

from collections.abc import Callable, Iterable

import msgspec

from arco.core import ArcoError, Conflict, Corrupt, NotFound, Outdated, Runtime, Superseded, Task, new_ulid
from arco.domains.catalog import CATALOG
from arco.domains.execution import EXECUTION
from arco.log import (
    Admission,
    Blobs,
    Command,
    Follower,
    Forwarder,
    Gateway,
    HintFile,
    InProcessForwarder,
    NewEvent,
    Place,
    Receipt,
    SegmentStream,
)
from arco.state import (
    Cadence,
    Compactor,
    Definition,
    Head,
    LayerReader,
    Layout,
    LocalRunner,
    Manifest,
    PinRevision,
    ReleasePin,
    Replica,
    Revisions,
    Runner,
    Snapshot,
    base_for,
    check_versions,
    define_log,
    snapshot_at_position,
    snapshot_at_revision,
)
from arco.storage import MIN_AGE, RequestCounts, Role, RoleStore, Scope, Sequence, Store, Won, self_test

__all__ = ["DEFINITIONS", "Incarnation", "OpenLog", "Workspace", "init_workspace", "read_incarnation"]

DEFINITIONS: tuple[Definition, ...] = (define_log("catalog", [CATALOG]), define_log("activity", [EXECUTION]))
"""The two logs of a workspace."""


class Incarnation(msgspec.Struct, frozen=True):
    """One life of a workspace; restore and erasure open the next one."""

    id: str
    """The folder of everything that belongs to it."""
    number: int
    created_at: int
    reason: str
    previous: str = ""


def _incarnations(store: Store, runtime: Runtime) -> Sequence:
    return Sequence(store, "incarnations", runtime)


async def init_workspace(base: Store, scope: Scope, runtime: Runtime) -> Incarnation:
    """Test the store and create the workspace. `Conflict` if it exists."""
    store = RoleStore(base, scope, Role.ADMIN, RequestCounts())
    await self_test(store, runtime, new_ulid(runtime, runtime))
    incarnations = _incarnations(store, runtime)
    tail = await incarnations.tail()
    if tail.number == 0:
        first = Incarnation(f"inc-{new_ulid(runtime, runtime).lower()}", 1, runtime.now(), "init")
        if isinstance(await incarnations.create(tail, msgspec.json.encode(first)), Won):
            return first
    raise Conflict(f"the workspace {scope.root} exists already; open it, or choose another name")


async def read_incarnation(base: Store, scope: Scope, runtime: Runtime) -> Incarnation:
    """The newest incarnation; `NotFound` if the workspace was never created."""
    incarnations = _incarnations(RoleStore(base, scope, Role.READER, RequestCounts()), runtime)
    tail = await incarnations.tail()
    if tail.number == 0:
        raise NotFound(f"there is no workspace {scope.root} here; create it with `arco init`")
    try:
        return msgspec.json.decode(await incarnations.read_known(tail.number), type=Incarnation)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"{incarnations.path(tail.number)} is not an incarnation: {error}; run `arco doctor`") from error


class OpenLog:
    """One log of an open workspace: the fold, the door for commands, the publisher and the readers."""

    def __init__(self, workspace: "Workspace", definition: Definition, head: Head, revisions: Revisions) -> None:
        store, runtime = workspace.handle, workspace.runtime
        self.definition = definition
        self.place = revisions.place
        self.layout = Layout(self.place)
        self.revisions = revisions
        self._read_head = head
        self._newest: Snapshot | None = None  # readers of one revision share what was loaded of it
        self._max_rows = workspace.cadence.max_rows
        self._store = store(Role.READER)
        owning, compacting = store(Role.OWNER), store(Role.COMPACTOR)
        self.replica = Replica(definition, LayerReader(self._store), base_for(definition, head.manifest))
        ledger = Sequence(owning, self.layout.ledger, runtime, min_age=workspace.min_age)
        self.follower = Follower(self.place, ledger, self.replica, runtime, known=head.manifest.link.number)
        if head.manifest.seal:
            self.follower.seal()
        try:
            check_versions(head.manifest, definition.versions)
        except Outdated as error:
            self.follower.forbid_writing(error.message)
        self.stream = SegmentStream(runtime)
        self.gateway = Gateway(
            self.follower,
            Admission(definition.registry, Blobs(owning), runtime),
            HintFile(owning, self.layout.ledger_hint, runtime),
            workspace.forwarder,
            runtime,
            workspace.address,
            may_own=workspace.may_own,
            stream=self.stream,
            on_won=lambda tail: self.compactor.notify(),
            renew=lambda: self.compactor.renew(),
        )
        self.compactor = Compactor(
            definition,
            compacting,
            self.follower,
            self.replica,
            Revisions(compacting, self.place, runtime, min_age=workspace.min_age),
            head,
            workspace.runner(compacting, self.place),
            runtime,
            workspace.address,
            workspace.cadence,
        )

    async def snapshot(
        self,
        *,
        revision: int | None = None,
        position: int | None = None,
        min_position: int = 0,
        strong: bool = True,
    ) -> Snapshot:
        """The state at the newest revision, at a retained one, or exactly at a position.

        A strong read asks the store once whether something is newer; another one takes the newest revision this process
        knows, at no request; its `position` says how far that goes. `min_position` waits until a revision covers it.
        """
        if self.compactor.head.manifest.number > self._read_head.manifest.number:
            self._read_head = self.compactor.head
        if strong or int(self._read_head.manifest.watermark) < min_position:
            self._read_head = await self.revisions.refresh(self._read_head)
        if int(self._read_head.manifest.watermark) < min_position:
            await self.compactor.wait_for(min_position)
            self._read_head = await self.revisions.refresh(self._read_head)
        head = self._read_head.manifest
        if position is not None:
            log = self.follower.sequence
            return await snapshot_at_position(
                self.definition, self._store, self.place, self.revisions, log, head, position
            )
        if revision is not None and revision != head.number:
            manifest = await self.revisions.at_revision(head, revision)
            return snapshot_at_revision(self.definition, self._store, manifest)
        if self._newest is None or self._newest.manifest.id != head.id or self._newest.rows_held() > self._max_rows:
            self._newest = snapshot_at_revision(self.definition, self._store, head)
        return self._newest


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
        self.may_own = may_own
        self.cadence = cadence or Cadence()
        self.min_age = min_age
        """Seconds after which this workspace's collectors may delete; all its processes must agree on it."""
        self.counts = RequestCounts()
        self.logs: dict[str, OpenLog] = {}
        self._base = base
        self._runner = runner
        self._tasks: list[Task] = []

    @classmethod
    async def open(
        cls,
        base: Store,
        scope: Scope,
        runtime: Runtime,
        *,
        definitions: Iterable[Definition] = DEFINITIONS,
        test_store: bool = True,
        compact: bool = True,
        may_own: bool = True,
        cadence: Cadence | None = None,
        min_age: float = MIN_AGE,
    ) -> "Workspace":
        """Find the newest incarnation, load the head of each log and start compacting.

        A writer tests the store first (`test_store`); a process that only looks need not.
        """
        incarnation = await read_incarnation(base, scope, runtime)
        address = f"local:{new_ulid(runtime, runtime)}"
        workspace = cls(
            base, scope, runtime, incarnation, address=address, may_own=may_own, cadence=cadence, min_age=min_age
        )
        if test_store:
            await self_test(workspace.handle(Role.OWNER), runtime, new_ulid(runtime, runtime))
        for definition in definitions:
            await workspace.open_log(definition)
        if compact:
            workspace.start()
            await runtime.sleep(0)  # let the loops begin, so that who waits for a revision finds them running
        return workspace

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
        """Run a compactor for each log until `close`."""
        for log in self.logs.values():
            self._tasks.append(self.runtime.spawn(log.compactor.run(), f"compactor of {log.place.log}"))

    async def close(self) -> None:
        """Settle what is queued, publish what is folded, stop."""
        trouble: ArcoError | None = None
        for log in self.logs.values():
            await log.gateway.close()
            try:
                if self._tasks and log.compactor.failed is None:
                    await log.compactor.publish()
            except Superseded:
                pass  # this program may only read, so there is nothing of its own to publish
            except ArcoError as error:
                trouble = error
            await log.compactor.close()
        for task in self._tasks:
            await task
        self._tasks = []
        if trouble is not None:
            raise trouble

    async def __aenter__(self) -> "Workspace":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # What callers ask for

    async def record(self, log: str, events: Iterable[NewEvent], *, actor: str, key: str = "") -> Receipt:
        """Append facts that nobody can refuse. Returns when they are durable."""
        operation = new_ulid(self.runtime, self.runtime)
        command = Command(operation=operation, actor=actor, events=tuple(events), key=key)
        return await self.logs[log].gateway.submit(command)

    async def decide(self, log: str, payload: msgspec.Struct, *, actor: str, key: str = "") -> Receipt:
        """Carry out a command (named by its class) if the state allows it. Returns when it is durable and folded."""
        command = Command(
            operation=new_ulid(self.runtime, self.runtime),
            actor=actor,
            name=type(payload).__name__,
            data=msgspec.Raw(msgspec.json.encode(payload)),
            key=key,
        )
        return await self.logs[log].gateway.submit(command)

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
        """Wait until a revision covers a position."""
        return await self.logs[log].compactor.wait_for(position)
