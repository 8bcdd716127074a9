"""`Committer`: changes of one table or view, each committed by creating its next pointer.

A commit is two round trips after a probe that proves the base: the metadata file and the claim of the idempotency key
at once, then the pointer. The rules:

- `edit` is pure: it checks the requirements on the base it is given and makes the new metadata. A lost pointer means
  that somebody else committed: `edit` runs again on what is there now, and its result goes to a new file.
- Before the pointer is sent everything may be refused. Once it was sent there is success, the certainty that another
  pointer has the number, or `OutcomeUnknown`: then the task that sent it goes on with the same bytes until it knows.
- In one process the changes of a table take turns. Who waited uses what the one before it proved, without a request.
- A refusal, too, rests on a base that was proven after the request came in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from arco.core import (
    Conflict,
    Corrupt,
    Invalid,
    OutcomeUnknown,
    Refused,
    Runtime,
    StoreRefused,
    Superseded,
    Unavailable,
    new_ulid,
    ulid_to_uuid,
)
from arco.iceberg._documents import Document, Documents, new_location
from arco.iceberg._errors import ClaimedElsewhere, CommitFailed, MetadataMissing, NoSuchTable, NoSuchView
from arco.iceberg._keys import Claim, Keys
from arco.iceberg._locations import MetadataFiles
from arco.iceberg._outcomes import Outcome, Outcomes
from arco.iceberg._pointer import FORMAT, Held, Kind, Pointer, State
from arco.iceberg._pointers import Current, Pointers, Prepared
from arco.iceberg._turns import Turns, Work, beside, carry_out, unknown
from arco.iceberg._who import Who

__all__ = ["Committed", "Committer", "Edit", "absent", "draft_pointer", "told_of"]

Edit = Callable[[dict[str, Any] | None, str | None], dict[str, Any]]
"""From the base and its metadata location to the new metadata; the base itself if nothing changes. Both are None if the
table does not exist yet. It raises what refuses the change, and alters nothing it is given."""

ATTEMPTS = 20
"""How often a commit is tried on what others left before its caller has to."""

TAKEOVER_AFTER = 2.0
"""Seconds a request waits for the outcome of an earlier one with its key before it takes over."""

LOOKS = 6


@dataclass(frozen=True, slots=True)
class Committed:
    """What is in force after a change, and what the change was."""

    table_id: str
    held: Held
    document: Document | None
    """The metadata; None after a drop."""
    pointer: Pointer | None = None
    """What was created; None if nothing had to be."""
    replayed: bool = False
    """An earlier request with the same key did it."""

    @property
    def number(self) -> int:
        return self.held.number


@dataclass(slots=True)
class _Change:
    """A change that is asked for, and how far it is."""

    table_id: str
    kind: Kind
    who: Who
    work: Work[Committed]
    edit: Edit | None
    """None if the metadata stays."""
    state: State = "live"
    creates: bool = False
    """Whether the table may be absent or dropped before."""
    purge: bool = False
    hint: int = 0
    adopted: Document | None = None
    """Metadata that is to be put in force as it is, so that no file is written."""
    claim: Claim | None = None
    scanned: int = 0
    """Pointers up to this number do not carry the key."""

    @property
    def claims(self) -> bool:
        """Creates and drops are recognised by the catalog's log, which holds their key."""
        return self.who.key is not None and self.edit is not None and not self.creates


class Committer:
    def __init__(
        self,
        pointers: Pointers,
        keys: Keys,
        files: MetadataFiles,
        runtime: Runtime,
        *,
        on_committed: Callable[[Committed, Who], None] = lambda committed, who: None,
    ) -> None:
        """`on_committed` is called for every pointer this process wins, also when its request is gone."""
        self.pointers = pointers
        self.keys = keys
        self.documents = Documents(files)
        self.turns = Turns(runtime)
        self.on_committed = on_committed
        self.outcomes = Outcomes()
        self._runtime = runtime

    async def commit(
        self, table_id: str, edit: Edit, who: Who, *, kind: Kind = "table", creates: bool = False, hint: int = 0
    ) -> Committed:
        """Edit a table or view and commit. With `creates` it may be absent or dropped; else that is `NoSuchTable`.

        Raises what `edit` raises, `CommitFailed` if others always came first, `ClaimedElsewhere` if the key stands for
        another table, `Unavailable` (nothing was committed) or `OutcomeUnknown` with the operation. `Corrupt` says that
        this request sent nothing.
        """
        return await self._carry_out(table_id, who, kind=kind, edit=edit, creates=creates, hint=hint)

    async def adopt(
        self, table_id: str, location: str, who: Who, *, kind: Kind = "table", creates: bool = False, hint: int = 0
    ) -> Committed:
        """Put a metadata file in force that is there already. With `creates` the id must have no pointer yet."""
        document = await self.documents.read(location)

        def edit(base: dict[str, Any] | None, base_location: str | None) -> dict[str, Any]:
            if creates and base is not None:
                raise Conflict(f"the id {table_id} has pointers already; use another one")
            return document.value

        options = {"kind": kind, "edit": edit, "creates": creates, "hint": hint, "adopted": document}
        return await self._carry_out(table_id, who, **options)

    async def drop(
        self, table_id: str, who: Who, *, kind: Kind = "table", purge: bool = False, hint: int = 0
    ) -> Committed:
        """Fence a table off: no commit can follow. Again is no error."""
        return await self._carry_out(table_id, who, kind=kind, edit=None, state="dropped", purge=purge, hint=hint)

    async def load(
        self, table_id: str, *, since: float | None = None, hint: int = 0
    ) -> tuple[Current, Document] | None:
        """What is in force, by a strong read, with its metadata; None if the table is absent or dropped."""
        current = await self.pointers.current(table_id, since=since, hint=hint)
        if current is None or not current.is_live:
            return None
        return current, await self.documents.read(current.metadata_location or "")

    async def claimed(self, who: Who) -> str | None:
        """The table for which an earlier request with the same key claimed it; None if none did."""
        claims = await self.keys.claims(who.key) if who.key is not None else []
        return claims[0].table_id or None if claims else None

    async def _carry_out(self, table_id: str, who: Who, **options: Any) -> Committed:
        work: Work[Committed] = Work(self._runtime, who.operation)
        change = _Change(table_id=table_id, who=who, work=work, **options)
        done = carry_out(self._runtime, work, lambda: self._change(change), f"commit to {table_id}")
        return await self.outcomes.count(who, done, told_of)

    async def _change(self, change: _Change) -> Committed:
        async with self.turns.of([change.table_id]):
            for attempt in range(ATTEMPTS):
                if change.work.is_stopped:
                    raise Unavailable("the request was given up; nothing was committed")
                if attempt > 1:
                    await self._runtime.sleep(self._runtime.uniform(0.5, 1.0) * min(0.02 * 2**attempt, 1.0))
                done = await self._attempt(change, change.work.arrived if attempt == 0 else None)
                if done is not None:
                    return done
        if change.claims and change.claim is None:
            raise Unavailable("other requests with the same Idempotency-Key are under way; try again", retry_after=1)
        raise CommitFailed(
            f"the table {change.table_id} was changed by others {ATTEMPTS} times while this commit was tried; "
            "read it again and retry"
        )

    async def _attempt(self, change: _Change, since: float | None) -> Committed | None:
        """One try on what is there now; None if another one is needed."""
        current = await self.pointers.settled(change.table_id, since=since, hint=change.hint)
        if change.edit is None:
            return await self._switch(change, current)
        done = await self._repeated(change, current)
        return done if done is not None else await self._edit(change, change.edit, current)

    async def _edit(self, change: _Change, edit: Edit, current: Current | None) -> Committed | None:
        base: Document | None = None
        try:
            if current is not None and current.is_live:
                base = await self.documents.read(current.metadata_location or "")
            elif not change.creates:
                raise absent(change.table_id, change.kind)
            value = edit(base.value if base else None, base.location if base else None)
        except (Invalid, Refused):
            if await self._is_claimed_by_another(change):
                return await self._take_over(change)
            raise
        if base is not None and value is base.value:
            assert current is not None
            return await self._unchanged(change, current, base)
        number = current.tail.number + 1 if current else 1
        location = new_location(value, number, ulid_to_uuid(new_ulid(self._runtime, self._runtime)))
        if self.pointers.is_new(change.table_id) and change.adopted is None:
            return await self._begin(change, self.documents.draft(location, value))
        document = await self._write(change, current, location, value)
        if document is None:
            return await self._take_over(change)
        draft = draft_pointer(change.table_id, change.kind, document, change.who, base.location if base else None)
        return self._done(change, await self._advance(change, current, draft, document))

    async def _begin(self, change: _Change, document: Document) -> Committed | None:
        """The first metadata and the first pointer of an id that nobody has heard of, at once: what commits them is the
        name that the catalog's log gives the id afterwards, and until then nobody looks at either."""
        draft = draft_pointer(change.table_id, change.kind, document, change.who, None)
        _, won = await beside(
            self._runtime,
            lambda: self.documents.write(document),
            lambda: self._advance(change, None, draft, document),
        )
        return self._done(change, won)

    def _done(self, change: _Change, committed: Committed | None) -> Committed | None:
        """Tell of a pointer that is won and whose metadata is there."""
        if committed is not None:
            self.on_committed(committed, change.who)
        return committed

    async def _unchanged(self, change: _Change, current: Current, base: Document) -> Committed | None:
        """There is nothing to change. A key remembers that: the same request would change something later."""
        key = change.who.key
        if key is not None and change.claims:
            before = change.claim
            scanned = before.base if before is not None else current.tail.number
            told = await self.keys.claim(
                key, change.who, after=before, table_id=change.table_id, base=scanned, unchanged=True
            )
            if told is None:
                return await self._take_over(change)
        assert current.held is not None
        return Committed(change.table_id, current.held, base)

    async def _switch(self, change: _Change, current: Current | None) -> Committed | None:
        """Change the state only; the metadata stays."""
        if current is None or current.held is None:
            raise absent(change.table_id, change.kind)
        held = current.held
        if held.state == change.state:
            return Committed(change.table_id, held, None)
        draft = _draft(change.table_id, current.kind, change.who, held.metadata_location, held.metadata_location)
        draft = msgspec.structs.replace(
            draft,
            state=change.state,
            table_uuid=held.table_uuid,
            snapshot_id=held.snapshot_id,
            sequence_number=held.sequence_number,
            schema_id=held.schema_id,
            purge=change.purge,
        )
        return self._done(change, await self._advance(change, current, draft, None))

    async def _write(
        self, change: _Change, current: Current | None, location: str, value: dict[str, Any]
    ) -> Document | None:
        """The metadata file and, at the same time, the claim of the key; None if the key is claimed already."""
        key = change.who.key
        if key is None or not change.claims or change.claim is not None:
            return await self._written(change, location, value)
        base = current.tail.number if current else 0
        document, claim = await beside(
            self._runtime,
            lambda: self._written(change, location, value),
            lambda: self.keys.claim(key, change.who, after=None, table_id=change.table_id, base=base),
        )
        change.claim, change.scanned = claim, base
        return document if claim is not None else None

    async def _written(self, change: _Change, location: str, value: dict[str, Any]) -> Document:
        return change.adopted if change.adopted is not None else await self.documents.create(location, value)

    async def _advance(
        self, change: _Change, current: Current | None, draft: Pointer, document: Document | None
    ) -> Committed | None:
        prepared = self.pointers.prepare(current, draft)
        change.work.send()
        won = await self._create(change, prepared)
        if won is None:
            change.work.lose()
            return None
        return Committed(change.table_id, prepared.pointer.held, document, prepared.pointer)

    async def _create(self, change: _Change, prepared: Prepared) -> Current | None:
        """Try until it is settled. Once the fate of a request is open, no refusal can say that it failed."""
        opened, pause = False, 1.0
        while True:
            try:
                won = await self.pointers.create(prepared)
                if opened and won is None:
                    raise unknown(change.who.operation)  # that is what was told; whoever repeats it begins anew
                return won
            except OutcomeUnknown:
                raise
            except (Unavailable, StoreRefused) as error:
                if isinstance(error, StoreRefused) and not opened:
                    raise
                opened = True
                change.work.answer.fail(unknown(change.who.operation))
                await self._runtime.sleep(self._runtime.uniform(0.5, 1.0) * pause)
                pause = min(pause * 2, 30.0)
            except Superseded as error:
                if not opened:
                    raise Unavailable(f"this process was away too long: {error.message}", retry_after=1) from error
                raise unknown(change.who.operation) from error

    # Keys

    async def _repeated(self, change: _Change, current: Current | None) -> Committed | None:
        """What an earlier request with the same key did meanwhile. Stops if a later one took over."""
        key = change.who.key
        if key is None or (change.claim is None and not change.creates):
            return None
        found = await self.pointers.find_key(change.table_id, key.hash, after=change.scanned, through=current)
        if found is not None:
            return await self._replayed(found)
        change.scanned = current.tail.number if current else 0
        # After the tail: a later request evaluates what it finds after its claim, and nothing of ours may land then.
        if change.claim is not None and await self.keys.is_taken_over(key, change.claim):
            raise Unavailable("a later request with the same Idempotency-Key has taken over", retry_after=1)
        return None

    async def _is_claimed_by_another(self, change: _Change) -> bool:
        key = change.who.key
        if key is None or not change.claims or change.claim is not None:
            return False
        return bool(await self.keys.claims(key))

    async def _take_over(self, change: _Change) -> Committed | None:
        """Somebody claimed the key: wait for its outcome, then make the next claim. None means: try again."""
        key = change.who.key
        assert key is not None
        claims = await self.keys.claims(key)
        if claims[0].table_id not in ("", change.table_id):
            raise ClaimedElsewhere(claims[0].table_id)
        if claims[-1].unchanged:
            return await self._still(change)
        scanned = claims[0].base
        for _ in range(LOOKS):
            current = await self.pointers.current(change.table_id)
            found = await self.pointers.find_key(change.table_id, key.hash, after=scanned, through=current)
            if found is not None:
                return await self._replayed(found)
            scanned = current.tail.number if current else 0
            await self._runtime.sleep(TAKEOVER_AFTER / LOOKS)
        first = claims[0]
        change.claim = await self.keys.claim(
            key, change.who, after=claims[-1], table_id=first.table_id, base=first.base
        )
        change.scanned = scanned
        return None

    async def _still(self, change: _Change) -> Committed:
        """The answer of a request that had nothing to change: what is there now."""
        loaded = await self.load(change.table_id)
        if loaded is None:
            raise absent(change.table_id, change.kind)
        current, document = loaded
        assert current.held is not None
        return Committed(change.table_id, current.held, document, replayed=True)

    async def _replayed(self, found: Pointer) -> Committed:
        """It is done, so that nothing that goes wrong now may be told as a failure of it."""
        try:
            return await self._answered(found)
        except Corrupt as error:
            raise unknown(found.operation, f"the commit landed, but its answer is damaged: {error.message}") from error

    async def _answered(self, found: Pointer) -> Committed:
        try:
            document = await self.documents.read(found.metadata_location)
        except MetadataMissing:
            loaded = await self.load(found.table_id)  # superseded and deleted by an engine: what is there now
            if loaded is None:
                return Committed(found.table_id, found.held, None, replayed=True)
            current, document = loaded
            assert current.held is not None
            return Committed(found.table_id, current.held, document, replayed=True)
        return Committed(found.table_id, found.held, document, replayed=True)


def told_of(committed: Committed) -> Outcome:
    if committed.replayed:
        return "replayed"
    return "unchanged" if committed.pointer is None else "committed"


def absent(table_id: str, kind: Kind) -> Refused:
    if kind == "view":
        return NoSuchView(f"View does not exist: {table_id}")
    return NoSuchTable(f"Table does not exist: {table_id}")


def draft_pointer(table_id: str, kind: Kind, document: Document, who: Who, base_location: str | None) -> Pointer:
    """A pointer to the document, without the place it will have."""
    value = document.value
    snapshot = value.get("current-snapshot-id")
    schema = value.get("current-schema-id")
    if kind == "view":
        version = value.get("current-version-id")
        versions = [each for each in value.get("versions", ()) if each.get("version-id") == version]
        schema = versions[0].get("schema-id") if versions else None
    return msgspec.structs.replace(
        _draft(table_id, kind, who, document.location, base_location),
        table_uuid=value.get("view-uuid" if kind == "view" else "table-uuid") or "",
        snapshot_id=None if snapshot == -1 else snapshot,
        sequence_number=value.get("last-sequence-number"),
        schema_id=schema,
    )


def _draft(table_id: str, kind: Kind, who: Who, location: str, base_location: str | None) -> Pointer:
    return Pointer(
        format=FORMAT,
        id="",
        number=0,
        previous_hash="",
        incarnation="",
        table_id=table_id,
        kind=kind,
        state="live",
        metadata_location=location,
        table_uuid="",
        operation=who.operation,
        actor=who.actor,
        source=who.source,
        committed_at=0,
        base_location=base_location,
        client=who.client,
        traceparent=who.traceparent,
        run_id=who.run_id,
        materialization_id=who.materialization_id,
        key=who.key.hash if who.key else None,
        request_hash=who.key.request_hash if who.key else None,
    )
