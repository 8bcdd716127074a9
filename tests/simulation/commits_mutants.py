"""Known mistakes of Iceberg commits. Each must be caught within some seeds of the world of commits."""

from dataclasses import replace
from typing import Any

import msgspec

from arco.core import Unavailable
from arco.iceberg import (
    CommitFailed,
    Committer,
    Current,
    Decisions,
    Document,
    Documents,
    Edit,
    Pointer,
    Pointers,
    Transactions,
    _commit,
)
from arco.iceberg._commit import _Change
from arco.iceberg._pointers import Prepared
from arco.iceberg._transactions import _Part, _Transaction
from arco.storage import Lost, ObjectExists, Sequence, StoreFailed, Tail, Won
from tests.simulation.commits import run_commits
from tests.simulation.mutants import Mutant, Patch

__all__ = ["COMMIT_MUTANTS"]


def _unknown_is_refused() -> list[Patch]:
    """A pointer without an answer is taken for lost, and the number is not read."""

    original = Sequence.create

    async def create(self: Sequence, tail: Tail, data: bytes) -> Won | Lost:
        if "/pointers/" in self.prefix and tail.number:
            try:
                await self._store.put(self.path(tail.number + 1), data, only_if_absent=True)
            except StoreFailed:
                raise CommitFailed("the number was taken by others") from None
            except ObjectExists:
                return await original(self, tail, data)
            return Won(Tail(tail.number + 1, tail.proven))
        return await original(self, tail, data)

    return [(Sequence, "create", create)]


def _open_is_refused() -> list[Patch]:
    """A create whose fate stays open is told as refused."""
    original = Pointers.create

    async def create(self: Pointers, prepared: Prepared) -> Current | None:
        try:
            return await original(self, prepared)
        except Unavailable:
            raise CommitFailed("the number was taken by others") from None

    return [(Pointers, "create", create)]


def _edit_not_run_again() -> list[Patch]:
    """After a lost pointer the metadata of the first try is committed on top of the winner's."""
    original = Committer._edit
    made: dict[Any, Any] = {}

    async def run_once(self: Committer, change: _Change, edit: Edit, current: Current | None) -> Any:
        def once(base: Any, location: Any) -> Any:
            if change.work not in made:
                made[change.work] = edit(base, location)
            return made[change.work]

        return await original(self, change, once, current)

    return [(Committer, "_edit", run_once)]


def _no_key_in_pointer() -> list[Patch]:
    original = _commit._draft

    def draft(*arguments: Any) -> Pointer:
        return msgspec.structs.replace(original(*arguments), key=None)

    return [(_commit, "_draft", draft)]


def _key_not_looked_for() -> list[Patch]:
    """Who takes a key over does not look whether the one before it committed."""

    async def find_key(self: Pointers, *arguments: Any, **options: Any) -> None:
        return None

    return [(Pointers, "find_key", find_key)]


def _superseded_undecided() -> list[Patch]:
    """A writer puts its pointer after one of a transaction that is under way, and does not abort it."""

    async def settled(self: Pointers, table_id: str, **options: Any) -> Current | None:
        current = await self.current(table_id, **options)
        return None if current is None else replace(current, decided=True)

    return [(Pointers, "settled", settled)]


def _undecided_is_seen() -> list[Patch]:
    """A prepared pointer is in force as soon as it is there."""

    async def resolved(self: Pointers, current: Current) -> Current:
        return replace(current, held=current.pointer.held, decided=True)

    return [(Pointers, "_resolved", resolved)]


def _abort_ignored() -> list[Patch]:
    """The coordinator takes its transaction for committed, whatever the decision says."""
    original = Decisions.decide

    async def decide(self: Decisions, txn: str, outcome: Any) -> Any:
        found = await original(self, txn, outcome)
        return "committed" if outcome == "committed" else found

    return [(Decisions, "decide", decide)]


def _commits_unprepared() -> list[Patch]:
    """A pointer whose fate is open does not keep the transaction from committing."""
    original = Transactions._prepare

    async def prepare(self: Transactions, transaction: _Transaction, part: _Part) -> Current:
        try:
            return await original(self, transaction, part)
        except Unavailable:
            return part.current

    return [(Transactions, "_prepare", prepare)]


def _txn_taken_over_alive() -> list[Patch]:
    """Who takes a key over does not abort the transaction of the claim before."""

    async def take_over(self: Transactions, transaction: _Transaction, key: Any) -> None:
        last = (await self._keys.claims(key))[-1]
        txn = f"{last.txn}x"
        claim = await self._keys.claim(key, transaction.who, after=last, txn=txn)
        if claim is not None:
            transaction.claim, transaction.txn, transaction.fresh = claim, txn, True

    return [(Transactions, "_take_over", take_over)]


def _stale_refusals() -> list[Patch]:
    """What this process remembers is good enough to refuse and to read."""
    original = Pointers.current

    async def current(self: Pointers, table_id: str, **options: Any) -> Current | None:
        known = self._entry(table_id).current
        if known is not None and known.decided:
            return known
        return await original(self, table_id, **options)

    return [(Pointers, "current", current)]


def _same_file_again() -> list[Patch]:
    """The metadata file of a number has one name, so that a crashed try is in the way of all others."""

    def location(value: dict[str, Any], number: int, unique: str) -> str:
        return f"{value['location']}/metadata/{number:05d}.metadata.json"

    return [(_commit, "new_location", location)]


def _pointer_first() -> list[Patch]:
    """The pointer is created while its metadata file is still under way."""

    async def create(self: Any, location: str, value: dict[str, Any]) -> Document:
        document: Document = self._keep(Document(location, value, msgspec.json.encode(value)))
        return document

    return [(Documents, "create", create)]


def _next_number() -> list[Patch]:
    """Whoever loses a number takes the next one with the same metadata."""
    original = Sequence.create

    async def create(self: Sequence, tail: Tail, data: bytes) -> Won | Lost:
        outcome = await original(self, tail, data)
        if isinstance(outcome, Lost) and "/pointers/" in self.prefix:
            pointer = msgspec.json.decode(data, type=Pointer)
            moved = msgspec.structs.replace(pointer, number=tail.number + 2)
            return await original(self, Tail(tail.number + 1, tail.proven), msgspec.json.encode(moved))
        return outcome

    return [(Sequence, "create", create)]


def _mutant(name: str, mistake: str, patches: Any, first: int = 1) -> Mutant:
    return Mutant(name, mistake, "", patches, run_commits, first)


COMMIT_MUTANTS = (
    _mutant("unknown pointer refused", "a pointer without an answer is not read back", _unknown_is_refused),
    _mutant("open pointer refused", "a pointer whose fate is open is told as refused", _open_is_refused, 65),
    _mutant("edit not run again", "a lost pointer's metadata is committed on top of the winner's", _edit_not_run_again),
    _mutant("no key in the pointer", "a repeated request finds no trace of the first one", _no_key_in_pointer),
    _mutant("key not looked for", "a takeover does not look for the outcome of the claim before", _key_not_looked_for),
    _mutant("undecided superseded", "a pointer follows one whose transaction is under way", _superseded_undecided),
    _mutant("undecided seen", "a prepared pointer is in force before the decision", _undecided_is_seen),
    _mutant("abort ignored", "a coordinator does not look at what was decided", _abort_ignored, 30),
    _mutant("committed unprepared", "a transaction commits though a pointer's fate is open", _commits_unprepared, 50),
    _mutant("transaction left alive", "a key is taken over and its transaction is not aborted", _txn_taken_over_alive),
    _mutant("stale base", "what a process remembers is not proven before it refuses or reads", _stale_refusals),
    _mutant("one file per number", "a crashed try leaves a file in the way", _same_file_again),
    _mutant("pointer before file", "a pointer names metadata that is not there", _pointer_first),
    _mutant("next number", "a lost commit takes the next number without another look", _next_number),
)
