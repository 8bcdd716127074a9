"""`Target`: the folder of an incarnation that is being written. Nobody knows it until `incarnations/{n+1}` is created.

What writes one may die and be run again: every object is made of the same input, so that what is there already is found
to be the same and is kept. The old incarnation names every folder that was begun on top of it (`successors/`), so that
the collector finds those which were never opened. Of two that are written at once the one is opened that `Next` names,
and nobody else deletes what is to be deleted before that.
"""

from collections.abc import Callable, Iterable

import msgspec

from arco.backup._rewrite import rewrite_pointers
from arco.backup._vault import in_parallel
from arco.core import Conflict, Runtime, Unavailable, decode_document, format_time, new_ulid
from arco.iceberg import Decisions, Outcome, Pointer, encode_pointer
from arco.log import SEGMENT_FORMAT, Event, EventType, Header, Link, Place, check_segment, encode_segment, segment_text
from arco.runtime import DEFINITIONS, Incarnation, Workspace
from arco.state import Layout
from arco.storage import (
    ObjectExists,
    ObjectInfo,
    ObjectMissing,
    RequestCounts,
    Role,
    RoleStore,
    Scope,
    Sequence,
    Store,
    StoreFailed,
)

__all__ = ["LOGS", "Next", "Progress", "Target"]

ATTEMPTS = 8
FORMAT = 1
"""Of what says which incarnation comes next."""
LOGS = ("catalog", "activity")

Progress = Callable[[str, int, int], None]
"""What is being written, how much is done, of how much."""


class Next(msgspec.Struct, frozen=True):
    """The incarnation that comes after another one. It is whole; created once, in the folder of the other."""

    life: Incarnation
    delete: tuple[str, ...] = ()
    """What is to be deleted before it is opened; what ends in a slash is a folder."""
    format: int = FORMAT

    @staticmethod
    def path(old: Incarnation) -> str:
        return f"{old.id}/successors/next"

    @staticmethod
    def decode(data: bytes, path: str) -> "Next":
        return decode_document(_decoder, data, "successor", FORMAT, path)


_decoder = msgspec.json.Decoder(Next)


class Target:
    def __init__(
        self, base: Store, scope: Scope, runtime: Runtime, life: Incarnation, actor: str, progress: Progress
    ) -> None:
        self.store = RoleStore(base, scope, Role.ADMIN, RequestCounts())
        self.life = life
        self._base = base
        self._scope = scope
        self._runtime = runtime
        self._actor = actor
        self._progress = progress

    def place(self, log: str) -> Place:
        return Place(self._scope.tenant, self._scope.workspace, self.life.id, log)

    def ledger(self, log: str) -> Sequence:
        return Sequence(self.store, Layout(self.place(log)).ledger, self._runtime)

    async def begin(self, old: Incarnation | None) -> None:
        if old is not None:
            await self.create(f"{old.id}/successors/{self.life.id}/begun", b"")

    async def settle(self, old: Incarnation, delete: Iterable[str] = ()) -> Next:
        """Say that this one is whole and comes next; `Conflict` if another one does."""
        mine = Next(self.life, tuple(delete))
        for attempt in range(ATTEMPTS):
            try:
                await self.store.put(Next.path(old), msgspec.json.encode(mine), only_if_absent=True)
                return mine
            except ObjectExists:
                break
            except StoreFailed as error:
                await self._pause(attempt, Next.path(old), error)
        there = await self.get(Next.path(old))
        found = mine if there is None else Next.decode(there, Next.path(old))
        if found.life.id != self.life.id:
            raise Conflict(
                f"the {found.life.reason} that opens {found.life.id} came first; run that one again, then this"
            )
        return found

    # The log

    async def same_segment(self, path: str, data: bytes) -> bytes | None:
        """What an earlier try wrote there, if it says the same: another version of zstd may have other bytes for it."""
        there = await self.get(path)
        if there is None:
            return None
        if segment_text(there, path) != segment_text(data, path):
            raise self.other(path)
        return there

    async def write_segments(self, segments: list[tuple[str, bytes]]) -> None:
        await in_parallel(self._runtime, segments, lambda item: self.create(*item))

    async def note(self, log: str, link: Link, kind: EventType, payload: msgspec.Struct) -> None:
        """The first event of the new incarnation says where it comes from; the audit lists it."""
        place, path = self.place(log), self.ledger(log).path(link.number + 1)
        there = await self.get(path)
        if there is not None:
            segment, _ = check_segment(there, place, link, path)
            if [event.type for event in segment.events] != [kind.name]:
                raise self.other(path)
            return
        now, operation = self._runtime.now(), new_ulid(self._runtime, self._runtime)
        event = Event(
            id=new_ulid(self._runtime, self._runtime),
            type=kind.name,
            version=kind.version,
            time=format_time(now),
            source="arco",
            subject=self.life.id,
            actor=self._actor,
            operation=operation,
            data=msgspec.Raw(msgspec.json.encode(payload)),
        )
        header = Header(
            format=SEGMENT_FORMAT,
            log=place.log,
            number=link.number + 1,
            id=new_ulid(self._runtime, self._runtime),
            previous=link.sha256,
            incarnation=place.incarnation,
            tenant=place.tenant,
            workspace=place.workspace,
            writer=f"{self.life.reason}:{operation}",
            received=max(now, link.received),
            folds={},
        )
        await self.create(path, encode_segment(header, [msgspec.json.encode(event)]))

    # State

    async def fold(self) -> Workspace:
        """Fold what the logs have beyond the state that is there, and publish it. The workspace owns nothing."""
        workspace = Workspace(
            self._base,
            self._scope,
            self._runtime,
            self.life,
            address=f"local:{new_ulid(self._runtime, self._runtime)}",
            may_own=False,
        )
        for definition in DEFINITIONS:
            log = await workspace.open_log(definition)
            await log.compactor.compact(progress=lambda done, total: self._progress("folding", done, total))
        return workspace

    # Iceberg

    async def write_pointers(self, pointers: list[Pointer], decisions: dict[str, Outcome]) -> None:
        """The pointers of one table, after the decisions they depend on: one that is missing was undecided, and is
        aborted. A floor says that those before them are gone."""
        table_id, first, prefix = pointers[0].table_id, pointers[0].number, f"{self.life.id}/iceberg"
        decided = Decisions(self.store, prefix, self._runtime)
        for pointer in pointers:
            if pointer.txn is not None:
                wanted = decisions.get(pointer.txn, "aborted")
                if await decided.decide(pointer.txn, wanted) != wanted:
                    raise self.other(decided.path(pointer.txn))
        sequence = Sequence(self.store, f"{prefix}/pointers/{table_id}", self._runtime)
        if first > 1:
            await sequence.raise_floor(first - 1, table_id)
        for number, data in enumerate(rewrite_pointers(pointers, self.life.id, encode_pointer), first):
            await self.create(sequence.path(number), data)

    # Objects

    async def head(self, path: str) -> ObjectInfo | None:
        for attempt in range(ATTEMPTS):
            try:
                return await self.store.head(path)
            except ObjectMissing:
                return None
            except StoreFailed as error:
                await self._pause(attempt, path, error)
        raise AssertionError

    async def get(self, path: str) -> bytes | None:
        for attempt in range(ATTEMPTS):
            try:
                return await self.store.get(path)
            except ObjectMissing:
                return None
            except StoreFailed as error:
                await self._pause(attempt, path, error)
        raise AssertionError

    async def create(self, path: str, data: bytes) -> None:
        """Write an object, or find that it is there with the same bytes."""
        for attempt in range(ATTEMPTS):
            try:
                await self.store.put(path, data, only_if_absent=True)
                return
            except ObjectExists:
                if await self.get(path) != data:
                    raise self.other(path) from None
                await self.store.persist(path)
                return
            except StoreFailed as error:
                await self._pause(attempt, path, error)

    async def _pause(self, attempt: int, path: str, error: StoreFailed) -> None:
        if attempt == ATTEMPTS - 1:
            message = f"{path} cannot be written or read now: {error.message}; run it again, it goes on from here"
            raise Unavailable(message) from error
        await self._runtime.sleep(self._runtime.uniform(0.5, 1.0) * min(0.02 * 2**attempt, 2.0))

    def other(self, path: str) -> Conflict:
        """What to do goes by where it lies: beside the incarnations everything is in use, by the old one too."""
        mine = path.startswith(f"{self.life.id}/")
        cure = (
            f"nobody uses {self.life.id} yet: delete that folder"
            if mine
            else "it was altered or cut off: delete this one object, and nothing else"
        )
        return Conflict(f"{path} is there and is not what this would write; {cure}, then run it again", path=path)
