"""`Pointers`: the sequences of pointers of all tables and views of a workspace, and what is in force by them.

A process remembers the newest pointer of each table it met, so that a strong read is one request: is there a next one?
Whoever is content with what was proven after a moment (`since`) needs none if somebody in this process asked later.

A prepared pointer is resolved by its transaction's decision, which is read *after* the pointer. Undecided under the
newest pointer means that `before` still holds at that moment: nobody puts another pointer after it without a decision.
The same absence under a superseded pointer is a `LostObject`.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from arco.core import (
    PUT_BACK,
    Corrupt,
    LostObject,
    OutcomeUnknown,
    Outdated,
    Runtime,
    Superseded,
    Unavailable,
    new_ulid,
)
from arco.iceberg._decisions import Decisions
from arco.iceberg._pointer import (
    FORMAT,
    Held,
    Kind,
    Pointer,
    State,
    check_link,
    decode_pointer,
    encode_pointer,
    sha256_of,
)
from arco.iceberg._who import Who
from arco.storage import MIN_AGE, Glance, Lost, Sequence, Store, Tail

__all__ = ["Current", "Pointers", "Prepared"]

MAX_TABLES = 10_000
"""Tables whose newest pointer is remembered."""

FOLLOWED = 16
"""So many new pointers are read one by one; beyond that the newest is searched for."""

ABORT_AFTER = 2.0
"""Seconds a writer waits for the decision of another's transaction before it aborts it."""

LOOKS = 6
"""How often it looks meanwhile."""

TRANSACTIONS_MET = 8
"""Undecided transactions a writer meets on one table, one after the other, before its caller is told to come back."""


@dataclass(frozen=True, slots=True)
class Current:
    """What is in force for a table, proven when its tail was."""

    tail: Tail
    pointer: Pointer
    """The newest one."""
    sha256: str
    held: Held | None
    """What is in force; None if only an undecided or aborted transaction ever created the table."""
    decided: bool
    """Whether the newest pointer is in force or aborted for good; else its transaction is under way."""

    @property
    def table_id(self) -> str:
        return self.pointer.table_id

    @property
    def kind(self) -> Kind:
        return self.pointer.kind

    @property
    def state(self) -> State | None:
        return self.held.state if self.held else None

    @property
    def is_live(self) -> bool:
        return self.state == "live"

    @property
    def number(self) -> int:
        """Number of the pointer in force; 0 if none is."""
        return self.held.number if self.held else 0

    @property
    def metadata_location(self) -> str | None:
        return self.held.metadata_location if self.held else None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A pointer that is ready to be created. However often that is tried, the bytes stay the same."""

    pointer: Pointer
    data: bytes
    tail: Tail


class _Entry:
    __slots__ = ("current", "is_new", "sequence")

    def __init__(self, sequence: Sequence) -> None:
        self.sequence = sequence
        self.current: Current | None = None
        self.is_new = False  # nobody but this process has ever heard of the table


class Pointers:
    def __init__(
        self, store: Store, prefix: str, runtime: Runtime, incarnation: str, *, min_age: float = MIN_AGE
    ) -> None:
        """`prefix` is the Iceberg folder of the incarnation, `{inc}/iceberg`."""
        self.decisions = Decisions(store, prefix, runtime)
        self._store = store
        self._prefix = prefix
        self._runtime = runtime
        self._incarnation = incarnation
        self._min_age = min_age
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self.on_met: Callable[[Pointer], None] = lambda pointer: None
        """Called with the newest pointer of a table when this process meets one that it did not create."""

    async def current(self, table_id: str, *, since: float | None = None, hint: int = 0) -> Current | None:
        """What is in force, by a strong read; None if the table never had a pointer.

        `Superseded` if the table was sealed: the workspace goes on in another incarnation. With `since`, a boot time,
        what was proven after it is good enough. `hint` is where a process that does not know the table begins to look;
        it need not be right.
        """
        current = await self._current(table_id, since, hint)
        if current is not None and current.pointer.seal:
            raise Superseded(
                f"the table {table_id} is sealed in {self._incarnation}: the workspace was restored; reopen it"
            )
        return current

    async def _current(self, table_id: str, since: float | None, hint: int) -> Current | None:
        entry = self._entry(table_id)
        known = entry.current
        if known is None and entry.is_new:
            return None
        if known is None:
            return await self._load(entry, table_id, hint)
        if since is not None and known.tail.proven > since and known.decided:
            return known
        try:
            return await self._follow(entry, known)
        except Superseded:  # this process was away so long that its numbers may be deleted
            return await self._load(entry, table_id, 0)

    def new_id(self) -> str:
        """An id for a new table. Until its first pointer is sent nobody has to be asked whether it has one."""
        table_id = new_ulid(self._runtime, self._runtime)
        self._entry(table_id).is_new = True
        return table_id

    def is_new(self, table_id: str) -> bool:
        """Whether nobody but this process has heard of an id, and nothing was sent for it."""
        entry = self._entries.get(table_id)
        return entry is not None and entry.is_new

    async def seal(self, table_id: str, who: Who, *, newest: int = 0) -> bool:
        """Put a last pointer after the newest one, so that nobody can commit here any more. Whether this call did.

        It stays when everything else of the incarnation is deleted, so it says nothing of the table. A transaction that
        is under way gets some time to end, then it is aborted. `newest` is a number that a listing showed: with it what
        is damaged can be sealed too, and what has a hole.
        """
        while True:
            try:
                current = await self.settled(table_id, hint=newest)
            except Outdated:
                raise
            except Superseded:
                return False
            except Corrupt:
                if not newest:
                    raise
                current = await self._damaged(table_id, newest)
            if current is None:
                return False
            again = msgspec.structs.replace(
                current.pointer,
                operation=who.operation,
                actor=who.actor,
                source=who.source,
                client=who.client,
                traceparent=who.traceparent,
                metadata_location="",
                base_location=None,
                snapshot_id=None,
                sequence_number=None,
                schema_id=None,
                run_id="",
                materialization_id="",
                key=None,
                request_hash=None,
                txn=None,
                before=None,
                seal=True,
            )
            if await self.create(self.prepare(current, again)) is not None:
                return True

    async def _damaged(self, table_id: str, number: int) -> Current:
        """A pointer that says nothing, as something to put a seal after."""
        sequence, asked = self._entry(table_id).sequence, self._runtime.boottime()
        data = await sequence.read_known(number)
        nothing = Pointer(
            format=FORMAT,
            id="",
            number=number,
            previous_hash="",
            incarnation=self._incarnation,
            table_id=table_id,
            kind="table",
            state="live",
            metadata_location="",
            table_uuid="",
            operation="",
            actor="",
            source="admin",
            committed_at=0,
        )
        return Current(Tail(number, asked), nothing, sha256_of(data), None, True)

    def remembered(self, table_id: str) -> Current | None:
        """What was in force when somebody in this process last looked; no request, and no proof."""
        entry = self._entries.get(table_id)
        return entry.current if entry is not None else None

    def unchanged(self, current: Current) -> Glance | None:
        """A glance that tells whether something is still in force; None if the store is not near, or if that depends
        on a transaction."""
        return self._entry(current.table_id).sequence.unchanged(current.tail) if current.decided else None

    async def settled(self, table_id: str, *, since: float | None = None, hint: int = 0) -> Current | None:
        """As `current`, but decided: what a writer may put its pointer after.

        A transaction that is under way gets some time to end, then it is aborted.
        """
        for _ in range(TRANSACTIONS_MET):
            current = await self.current(table_id, since=since, hint=hint)
            if current is None or current.decided:
                return current
            met = current.pointer
            for _ in range(LOOKS):
                await self._runtime.sleep(ABORT_AFTER / LOOKS)
                current = await self.current(table_id)
                if current is None or current.decided:
                    return current
                if current.pointer.id != met.id:
                    break
            else:
                assert met.txn is not None
                await self.decisions.decide(met.txn, "aborted")
            since = None
        raise Unavailable(f"transactions follow one another on the table {table_id}; try again", retry_after=1)

    def prepare(self, current: Current | None, draft: Pointer) -> Prepared:
        """The draft as the next pointer after `current`, or as the first one. No request."""
        if current is None:
            tail, previous, floor = Tail(0, self._runtime.boottime()), "", 0
        else:
            assert current.decided, "the newest pointer is undecided: wait for its transaction, or abort it"
            tail, previous, floor = current.tail, current.sha256, current.pointer.committed_at + 1
        pointer = msgspec.structs.replace(
            draft,
            id=new_ulid(self._runtime, self._runtime),
            number=tail.number + 1,
            previous_hash=previous,
            incarnation=self._incarnation,
            committed_at=max(self._runtime.now(), floor),
        )
        return Prepared(pointer, encode_pointer(pointer), tail)

    async def create(self, prepared: Prepared) -> Current | None:
        """Create the pointer; None if another one has the number. The caller owns this call to its end.

        `Unavailable` leaves the outcome open: the same must be tried again until it is settled.
        """
        pointer = prepared.pointer
        entry = self._entry(pointer.table_id)
        entry.is_new = False
        outcome = await entry.sequence.create(prepared.tail, prepared.data)
        if isinstance(outcome, Lost):
            self._meet(entry, prepared, outcome.data)
            return None
        prepares = pointer.txn is not None
        held = pointer.before if prepares else pointer.held
        current = Current(outcome.tail, pointer, sha256_of(prepared.data), held, not prepares)
        self._keep(entry, current)
        return current

    def put_in_force(self, prepared: Current) -> None:
        """Remember that the transaction of a pointer is committed."""
        decided = replace(prepared, held=prepared.pointer.held, decided=True)
        self._keep(self._entry(prepared.table_id), decided)

    async def read(self, table_id: str, number: int) -> Pointer:
        """A pointer that is known to exist. `OutcomeUnknown` if it may have been collected."""
        sequence = self._entry(table_id).sequence
        data = await sequence.read(number)
        if data is None:
            if number <= await sequence.floor():
                raise OutcomeUnknown(
                    f"pointer {number} of the table {table_id} is collected; what it said is not known"
                )
            data = await sequence.read_known(number)
        return self._decoded(sequence, data, table_id, number, None)

    async def find_key(self, table_id: str, key: str, *, after: int, through: Current | None) -> Pointer | None:
        """The pointer with an idempotency key's hash, among the numbers after one up to the newest."""
        if through is None:
            return None
        for number in range(after + 1, through.tail.number + 1):
            newest = number == through.tail.number
            pointer = through.pointer if newest else await self.read(table_id, number)
            if pointer.key == key:
                return pointer
        return None

    async def history(self, table_id: str, *, after: int = 0, limit: int = 1000) -> list[Pointer]:
        """Pointers that were or are in force, oldest first, among the `limit` numbers after one."""
        current = await self.current(table_id, hint=after)
        if current is None:
            return []
        found = []
        for number in range(after + 1, min(current.tail.number, after + limit) + 1):
            newest = number == current.tail.number
            pointer = current.pointer if newest else await self.read(table_id, number)
            if pointer.txn is None or (current.number == number if newest else await self._was_committed(pointer)):
                found.append(pointer)
        return found

    async def _was_committed(self, superseded: Pointer) -> bool:
        assert superseded.txn is not None
        outcome = await self.decisions.read(superseded.txn)
        if outcome is None:
            path = self.decisions.path(superseded.txn)
            raise LostObject(
                f"{path} is missing although pointer {superseded.number} of the table {superseded.table_id}, which it "
                f"decides, is superseded; run `arco doctor`, then {PUT_BACK}",
                path=path,
            )
        return outcome == "committed"

    def sequence(self, table_id: str) -> Sequence:
        """The numbered objects themselves, for who collects or checks them."""
        return self._entry(table_id).sequence

    async def _load(self, entry: _Entry, table_id: str, hint: int) -> Current | None:
        tail = await entry.sequence.tail(hint)
        if tail.number == 0:
            return None
        data = await entry.sequence.read_known(tail.number)
        pointer = self._decoded(entry.sequence, data, table_id, tail.number, None)
        found = Current(tail, pointer, sha256_of(data), None, False)
        self.on_met(pointer)
        return self._keep(entry, await self._resolved(found))

    async def _follow(self, entry: _Entry, known: Current) -> Current | None:
        for _ in range(FOLLOWED):
            answer = await entry.sequence.next(known.tail)
            if isinstance(answer, Tail):
                proven = Current(answer, known.pointer, known.sha256, known.held, known.decided)
                return self._keep(entry, proven if proven.decided else await self._resolved(proven))
            data, tail = answer
            pointer = self._decoded(entry.sequence, data, known.table_id, tail.number, known.sha256)
            known = Current(tail, pointer, sha256_of(data), None, False)
            self.on_met(pointer)
        return await self._load(entry, known.table_id, known.tail.number)

    async def _resolved(self, current: Current) -> Current:
        pointer = current.pointer
        if current.decided:
            return current
        if pointer.txn is None:
            return replace(current, held=pointer.held, decided=True)
        outcome = await self.decisions.read(pointer.txn)
        held = pointer.held if outcome == "committed" else pointer.before
        return replace(current, held=held, decided=outcome is not None)

    def _meet(self, entry: _Entry, prepared: Prepared, data: bytes) -> None:
        """Remember the pointer that has the number we wanted; whoever asks next goes on from it."""
        number = prepared.pointer.number
        pointer = self._decoded(entry.sequence, data, prepared.pointer.table_id, number, prepared.pointer.previous_hash)
        self._keep(entry, Current(Tail(number, prepared.tail.proven), pointer, sha256_of(data), None, False))
        self.on_met(pointer)

    def _decoded(self, sequence: Sequence, data: bytes, table_id: str, number: int, previous: str | None) -> Pointer:
        path = sequence.path(number)
        pointer = decode_pointer(data, path)
        check_link(
            pointer, table_id=table_id, incarnation=self._incarnation, number=number, previous=previous, path=path
        )
        return pointer

    def _keep(self, entry: _Entry, current: Current) -> Current:
        """Remember it unless somebody found out more meanwhile."""
        known = entry.current
        if known is None or _rank(current) >= _rank(known):
            entry.current = current
        return current

    def _entry(self, table_id: str) -> _Entry:
        entry = self._entries.get(table_id)
        if entry is None:
            prefix = f"{self._prefix}/pointers/{table_id}"
            entry = self._entries[table_id] = _Entry(
                Sequence(self._store, prefix, self._runtime, min_age=self._min_age)
            )
            if len(self._entries) > MAX_TABLES:
                self._entries.popitem(last=False)
        self._entries.move_to_end(table_id)
        return entry


def _rank(current: Current) -> tuple[int, bool, float]:
    return current.tail.number, current.decided, current.tail.proven
