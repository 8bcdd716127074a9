"""`Transactions`: changes of several tables that are committed together or not at all.

Every table gets a *prepared* pointer, which names the transaction and what held before. Then the transaction's
decision is created: that is the commit, for all tables at one moment. Nothing needs to be rolled forward or back,
because readers resolve prepared pointers by the decision. The rules:

- Pointers are prepared in the order of table ids, so that two transactions never wait for each other.
- `committed` is sent only when every pointer is known to be created. Whatever goes wrong before, the transaction is
  aborted, and nothing of it was or will be seen. Others who meet it abort it after a while.
- A lost pointer is prepared again on what the winner left, if the requirements still hold there. A transaction that
  others aborted is tried again as a new one.
- Every claim of an idempotency key names one transaction, and the next claim is made only when that one is aborted.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import msgspec

from arco.core import (
    ArcoError,
    Invalid,
    Refused,
    Runtime,
    StoreRefused,
    Superseded,
    Unavailable,
    new_ulid,
    ulid_to_uuid,
)
from arco.iceberg._commit import Committed, Committer, Edit, absent, draft_pointer, told_of
from arco.iceberg._decisions import Outcome
from arco.iceberg._documents import Document, new_location
from arco.iceberg._errors import BadRequest, CommitFailed
from arco.iceberg._keys import Claim
from arco.iceberg._pointer import Held
from arco.iceberg._pointers import Current
from arco.iceberg._turns import Work, beside, carry_out, together, unknown
from arco.iceberg._who import IdempotencyKey, Who

__all__ = ["Transactions"]

ATTEMPTS = 8
"""How often a transaction is tried again after others aborted it."""

PREPARES = 8
"""How often one of its pointers is tried again after others took the number."""

TAKEOVER_AFTER = 2.0
LOOKS = 6


@dataclass(slots=True)
class _Part:
    """One table's share."""

    table_id: str
    edit: Edit
    current: Current
    base: Document
    value: dict[str, Any]
    document: Document
    """The new metadata, once its file is written; the base if it does not change."""


@dataclass(slots=True)
class _Transaction:
    changes: list[tuple[str, Edit]]
    who: Who
    work: Work[tuple[Committed, ...]]
    claim: Claim | None = None
    fresh: bool = False
    """Whether the claim's transaction was not tried yet."""
    txn: str = ""
    prepared: list[Current] = field(default_factory=list)


class Transactions:
    def __init__(self, committer: Committer, runtime: Runtime) -> None:
        self._committer = committer
        self._pointers = committer.pointers
        self._decisions = committer.pointers.decisions
        self._keys = committer.keys
        self._documents = committer.documents
        self._runtime = runtime

    async def commit(self, changes: Sequence[tuple[str, Edit]], who: Who) -> tuple[Committed, ...]:
        """Edit tables, given by their ids, and commit all at once; what was committed, in the order of table ids.

        Nothing if an earlier request with the same key did it. Raises as `Committer.commit` does.
        """
        ids = [table_id for table_id, _ in changes]
        if not ids:
            raise BadRequest("a transaction needs at least one table change")
        if len(set(ids)) < len(ids):
            raise BadRequest("a transaction must not change a table twice; merge the changes of each table into one")
        if len(ids) == 1:
            committed = await self._committer.commit(ids[0], changes[0][1], who)
            return () if committed.replayed else (committed,)
        work: Work[tuple[Committed, ...]] = Work(self._runtime, who.operation)
        transaction = _Transaction(sorted(changes, key=lambda change: change[0]), who, work)
        done = carry_out(self._runtime, work, lambda: self._carry_out(transaction), "transaction")
        return await self._committer.outcomes.count(who, done, lambda all_: told_of(all_[0]) if all_ else "replayed")

    async def was_committed(self, who: Who) -> bool:
        """Whether an earlier request with the same key committed. One that is under way is aborted: what its tables are
        called has changed since."""
        claims = await self._keys.claims(who.key) if who.key is not None else []
        if not claims or claims[-1].txn is None:
            return False
        return await self._decisions.decide(claims[-1].txn, "aborted") == "committed"

    async def _carry_out(self, transaction: _Transaction) -> tuple[Committed, ...]:
        async with self._committer.turns.of(table_id for table_id, _ in transaction.changes):
            for attempt in range(ATTEMPTS):
                if transaction.work.is_stopped:
                    raise Unavailable("the request was given up; nothing was committed")
                if attempt:
                    await self._runtime.sleep(self._runtime.uniform(0.5, 1.0) * min(0.05 * 2**attempt, 1.0))
                done = await self._attempt(transaction, transaction.work.arrived if attempt == 0 else None)
                if done is not None:
                    return done
        if transaction.who.key is not None:
            raise Unavailable("other requests abort this transaction again and again; try again", retry_after=1)
        raise CommitFailed(f"the transaction was aborted by others {ATTEMPTS} times; read the tables again and retry")

    async def _attempt(self, transaction: _Transaction, since: float | None) -> tuple[Committed, ...] | None:
        """One try; None if another one is needed."""
        try:
            parts = await together(
                self._runtime, [partial(self._part, table_id, edit, since) for table_id, edit in transaction.changes]
            )
        except (Invalid, Refused) as error:
            if transaction.who.key is not None and await self._is_claimed_by_another(transaction, transaction.who.key):
                return await self._take_over(transaction, transaction.who.key)
            await self._refuse(transaction, error)
        is_same = all(part.value is part.base.value for part in parts)
        if is_same and transaction.who.key is None:
            return _unchanged(parts)
        if not await self._write(transaction, parts):
            assert transaction.who.key is not None
            return await self._take_over(transaction, transaction.who.key)
        if is_same:  # committed without a pointer: the key remembers that it was carried out
            outcome = await self._decisions.decide(transaction.txn, "committed")
            return _unchanged(parts) if outcome == "committed" else None
        try:
            transaction.prepared = [await self._prepare(transaction, part) for part in parts]
            transaction.work.send()
        except (Invalid, Refused) as error:
            await self._abort(transaction)
            await self._refuse(transaction, error)
        except Superseded as error:
            await self._abort(transaction)
            raise Unavailable(f"this process was away too long: {error.message}", retry_after=1) from error
        except ArcoError:
            await self._abort(transaction)
            raise
        return await self._decide(transaction, parts)

    async def _part(self, table_id: str, edit: Edit, since: float | None) -> _Part:
        """What a table is now and what it would be."""
        current = await self._pointers.settled(table_id, since=since)
        if current is None or not current.is_live:
            raise absent(table_id, "table")
        base = await self._documents.read(current.metadata_location or "")
        return _Part(table_id, edit, current, base, edit(base.value, base.location), base)

    async def _write(self, transaction: _Transaction, parts: list[_Part]) -> bool:
        """The metadata files and, at the same time, the claim that names the transaction; whether it is ours."""
        key = transaction.who.key
        if key is None or transaction.fresh:
            if key is None:
                transaction.txn = new_ulid(self._runtime, self._runtime)
            transaction.fresh = False
            await self._new_files(parts)
            return True
        txn = new_ulid(self._runtime, self._runtime)
        _, claim = await beside(
            self._runtime,
            lambda: self._new_files(parts),
            lambda: self._keys.claim(key, transaction.who, after=transaction.claim, txn=txn),
        )
        if claim is not None:
            transaction.claim, transaction.txn = claim, txn
        return claim is not None

    async def _new_files(self, parts: list[_Part]) -> None:
        await together(self._runtime, [partial(self._new_file, part) for part in parts])

    async def _new_file(self, part: _Part) -> None:
        if part.value is part.base.value:
            part.document = part.base
            return
        unique = ulid_to_uuid(new_ulid(self._runtime, self._runtime))
        location = new_location(part.value, part.current.tail.number + 1, unique)
        part.document = await self._documents.create(location, part.value)

    async def _prepare(self, transaction: _Transaction, part: _Part) -> Current:
        """Create the table's pointer, on what others left if need be."""
        for _ in range(PREPARES):
            draft = draft_pointer(part.table_id, part.current.kind, part.document, transaction.who, part.base.location)
            draft = msgspec.structs.replace(draft, txn=transaction.txn, before=part.current.held)
            won = await self._pointers.create(self._pointers.prepare(part.current, draft))
            if won is not None:
                return won
            again = await self._part(part.table_id, part.edit, None)
            part.current, part.base, part.value = again.current, again.base, again.value
            await self._new_file(part)
        raise CommitFailed(
            f"the table {part.table_id} was changed by others {PREPARES} times while this transaction was tried; "
            "read it again and retry"
        )

    async def _decide(self, transaction: _Transaction, parts: list[_Part]) -> tuple[Committed, ...] | None:
        """Send the commit and try until it is settled; once its fate is open nothing can say that it failed."""
        opened, pause, operation = False, 1.0, transaction.who.operation
        outcome: Outcome | None = None
        while outcome is None:
            try:
                outcome = await self._decisions.decide(transaction.txn, "committed")
            except (Unavailable, StoreRefused) as error:
                if isinstance(error, StoreRefused) and not opened:
                    await self._abort(transaction)
                    raise
                opened = True
                transaction.work.answer.fail(unknown(operation))
                await self._runtime.sleep(self._runtime.uniform(0.5, 1.0) * pause)
                pause = min(pause * 2, 30.0)
        if outcome == "aborted":
            if opened:
                raise unknown(operation)  # that is what was told; whoever repeats it begins anew
            transaction.work.lose()
            return None
        done = []
        for part, prepared in zip(parts, transaction.prepared, strict=True):
            self._pointers.put_in_force(prepared)
            committed = Committed(part.table_id, prepared.pointer.held, part.document, prepared.pointer)
            self._committer.on_committed(committed, transaction.who)
            done.append(committed)
        return tuple(done)

    async def _abort(self, transaction: _Transaction) -> None:
        """Let nobody wait for it. Nobody but us could commit it, so it does not matter if this fails."""
        with contextlib.suppress(Unavailable, StoreRefused):
            await self._decisions.decide(transaction.txn, "aborted")

    # Keys

    async def _refuse(self, transaction: _Transaction, error: ArcoError) -> NoReturn:
        """Raise the refusal, unless a later request with the same key may commit."""
        key = transaction.who.key
        if key is not None and transaction.claim is not None:
            if transaction.fresh:
                await self._abort(transaction)
            if await self._keys.is_taken_over(key, transaction.claim):
                raise Unavailable("a later request with the same Idempotency-Key has taken over", retry_after=1)
        raise error

    async def _is_claimed_by_another(self, transaction: _Transaction, key: IdempotencyKey) -> bool:
        return transaction.claim is None and bool(await self._keys.claims(key))

    async def _take_over(self, transaction: _Transaction, key: IdempotencyKey) -> tuple[Committed, ...] | None:
        """Another transaction has the key: wait for its decision, abort it, make the next claim. None: try again."""
        last = (await self._keys.claims(key))[-1]
        if last.txn is None:
            raise CommitFailed("Idempotency-Key reused with different request payload")
        outcome = await self._decisions.read(last.txn)
        for _ in range(LOOKS):
            if outcome is not None:
                break
            await self._runtime.sleep(TAKEOVER_AFTER / LOOKS)
            outcome = await self._decisions.read(last.txn)
        if outcome is None:
            outcome = await self._decisions.decide(last.txn, "aborted")
        if outcome == "committed":
            return ()
        txn = new_ulid(self._runtime, self._runtime)
        claim = await self._keys.claim(key, transaction.who, after=last, txn=txn)
        if claim is not None:
            transaction.claim, transaction.txn, transaction.fresh = claim, txn, True
        return None


def _unchanged(parts: list[_Part]) -> tuple[Committed, ...]:
    return tuple(Committed(part.table_id, _held(part.current), part.base) for part in parts)


def _held(current: Current) -> Held:
    assert current.held is not None
    return current.held
