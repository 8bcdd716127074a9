"""Small exhaustive models of the protocols: our rules have no violation in any interleaving, the rejected ones do.

Each model is a set of frozen states and a function from a state to its successors; `explore` visits all of them.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import pytest

S = TypeVar("S", bound=Hashable)


def explore(first: S, successors: Callable[[S], Iterator[S]], wrong: Callable[[S], str | None]) -> tuple[int, set[str]]:
    """How many states there are, and everything that is wrong in one of them."""
    seen, queue, found = {first}, [first], set()
    while queue:
        state = queue.pop()
        problem = wrong(state)
        if problem:
            found.add(problem)
        for after in successors(state):
            if after not in seen:
                seen.add(after)
                queue.append(after)
    return len(seen), found


# Collection: a compactor that sleeps, one that works, a collector that deletes in any order, a reader


@dataclass(frozen=True)
class Shelf:
    alive: frozenset[int] = frozenset({1})
    chain: int = 1
    floor: int = 0
    sleeper: str = "holds"
    held: int = 1
    zombie: bool = False
    reader: str = "holds"
    head_at_probe: int = 0


LAST, KEPT = 4, 1


def _shelf_steps(check: str) -> Callable[[Shelf], Iterator[Shelf]]:
    def current(state: Shelf, number: int) -> bool:
        return check == "none" or state.floor <= number

    def steps(state: Shelf) -> Iterator[Shelf]:
        following = state.chain + 1
        if state.chain < LAST and following not in state.alive:
            yield replace(state, alive=state.alive | {following}, chain=following)
        mine = state.held + 1
        if state.sleeper == "holds" and mine in state.alive:
            yield replace(state, sleeper="lost")
        elif state.sleeper == "holds":
            real = mine == state.chain + 1
            chain = mine if real else state.chain
            yield replace(state, alive=state.alive | {mine}, chain=chain, sleeper="created", zombie=not real)
        elif state.sleeper == "created":
            yield replace(state, sleeper="won" if current(state, state.held) else "fenced")
        if state.reader == "holds" and 2 not in state.alive:
            yield replace(state, reader="absent", head_at_probe=state.chain)
        elif state.reader == "absent":
            yield replace(state, reader="current" if current(state, 1) else "reloads")
        yield from _collections(state)

    def _collections(state: Shelf) -> Iterator[Shelf]:
        limit = state.chain - KEPT
        if check != "none":
            yield from (replace(state, floor=floor) for floor in range(state.floor + 1, limit + 1))
            limit = min(limit, state.floor)
        if check == "hint":  # whoever writes its address writes the floor it read when it started
            yield replace(state, floor=0)
        yield from (replace(state, alive=state.alive - {number}) for number in state.alive if number <= limit)

    return steps


def _shelf_wrong(state: Shelf) -> str | None:
    if state.sleeper == "won" and state.zombie:
        return "a publish that nobody will ever see is acknowledged"
    if state.reader == "current" and state.head_at_probe > 1:
        return "a reader believes an old revision to be the newest"
    return None


def test_a_floor_that_only_grows_fences_sleepers_and_readers() -> None:
    states, wrong = explore(Shelf(), _shelf_steps("floor"), _shelf_wrong)
    assert states > 500
    assert wrong == set()


@pytest.mark.parametrize("check", ["none", "hint"])
def test_without_a_floor_or_with_one_that_is_overwritten_acknowledged_publishes_vanish(check: str) -> None:
    _, wrong = explore(Shelf(), _shelf_steps(check), _shelf_wrong)
    assert len(wrong) == 2


# Deciding: two processes create the same table


@dataclass(frozen=True)
class Writer:
    step: str = "validate"
    base: int = 0
    answer: str = ""


@dataclass(frozen=True)
class Ledger:
    log: tuple[int, ...] = ()
    writers: tuple[Writer, Writer] = (Writer(), Writer())
    newest_token: int = 0
    tokens: tuple[int, int] = (0, 0)


def _ledger_steps(append: str, fencing: bool) -> Callable[[Ledger], Iterator[Ledger]]:
    def steps(state: Ledger) -> Iterator[Ledger]:
        for index in (0, 1):
            yield from _writer_steps(state, index)

    def put(state: Ledger, index: int, writer: Writer) -> tuple[Writer, Writer]:
        return (writer, state.writers[1]) if index == 0 else (state.writers[0], writer)

    def _writer_steps(state: Ledger, index: int) -> Iterator[Ledger]:
        writer, tail = state.writers[index], len(state.log)
        if writer.step == "validate":
            tokens = tuple(tail + 1 if i == index else token for i, token in enumerate(state.tokens))
            after = Writer("done", tail, "refused") if state.log else Writer("append", tail)
            yield replace(state, writers=put(state, index, after), tokens=(tokens[0], tokens[1]))
        elif writer.step == "append" and append == "base" and writer.base != tail:
            yield replace(state, writers=put(state, index, Writer()))  # lost: fold, validate again
        elif writer.step == "append":
            yield replace(state, log=(*state.log, index), writers=put(state, index, Writer("answer", writer.base)))
        elif writer.step == "answer":
            token = state.tokens[index]
            refused = fencing and token < state.newest_token
            answer = "refused" if refused else "granted"
            newest = max(token, state.newest_token)
            yield replace(state, writers=put(state, index, Writer("done", writer.base, answer)), newest_token=newest)
            yield replace(state, writers=put(state, index, Writer("done", writer.base, "unknown")))
        if fencing and writer.step in ("append", "answer"):  # the other one takes the lock over with a newer token
            yield replace(state, newest_token=max(state.tokens) + 1)

    return steps


def _ledger_wrong(state: Ledger) -> str | None:
    owner = state.log[0] if state.log else None
    for index, writer in enumerate(state.writers):
        if writer.answer == "granted" and owner != index:
            return "granted, but somebody else has it"
        if writer.answer == "refused" and index in state.log:
            return "refused, but it is in the log"
    return None


def test_validating_at_the_tail_and_creating_the_next_number_gives_one_answer() -> None:
    states, wrong = explore(Ledger(), _ledger_steps("base", fencing=False), _ledger_wrong)
    assert states > 10
    assert wrong == set()


@pytest.mark.parametrize(("append", "fencing"), [("next", False), ("next", True), ("base", True)])
def test_taking_the_next_number_or_refusing_after_the_append_gives_two_answers(append: str, fencing: bool) -> None:
    _, wrong = explore(Ledger(), _ledger_steps(append, fencing), _ledger_wrong)
    assert wrong


# Transactions over two tables: numbered pointers and one decision object, as Iceberg commits will use them


@dataclass(frozen=True)
class Tables:
    pointers: tuple[tuple[tuple[str, frozenset[str]], ...], ...] = ((("", frozenset()),), (("", frozenset()),))
    decisions: tuple[tuple[str, bool], ...] = ()
    steps: tuple[tuple[str, str], ...] = (("T1", "0"), ("T2", "0"))


ORDERS = {"T1": (0, 1), "T2": (1, 0)}


def _visible(state: Tables, table: int, gate: bool) -> frozenset[str]:
    """What a reader resolves a table to: undecided and aborted versions are passed over."""
    decided = dict(state.decisions)
    for txn, content in reversed(state.pointers[table]):
        if not gate or txn == "" or decided.get(txn):
            return content
    return frozenset()


def _table_steps(gate: bool) -> Callable[[Tables], Iterator[Tables]]:
    def steps(state: Tables) -> Iterator[Tables]:
        for txn, at in state.steps:
            if at in ("0", "1"):
                yield moved(state, txn, "dead")
                yield from prepare(state, txn, int(at))
            elif at == "decide":
                yield moved(state, txn, "dead")
                yield decide(state, txn)

    def moved(state: Tables, txn: str, to: str) -> Tables:
        return replace(state, steps=tuple((name, to if name == txn else at) for name, at in state.steps))

    def prepare(state: Tables, txn: str, turn: int) -> Iterator[Tables]:
        table, decided = ORDERS[txn][turn], dict(state.decisions)
        newest = state.pointers[table][-1][0]
        if gate and newest not in ("", txn) and newest not in decided:
            yield replace(state, decisions=tuple(sorted({**decided, newest: False}.items())))
            return
        if gate and decided.get(txn) is False:
            yield moved(state, txn, "failed")
            return
        version = (txn, _visible(state, table, gate) | {txn})
        pointers = tuple((*chain, version) if i == table else chain for i, chain in enumerate(state.pointers))
        done = "decide" if gate else "acknowledged"
        yield moved(replace(state, pointers=pointers), txn, "1" if turn == 0 else done)

    def decide(state: Tables, txn: str) -> Tables:
        decided = dict(state.decisions)
        if txn in decided:
            return moved(state, txn, "acknowledged" if decided[txn] else "failed")
        return moved(replace(state, decisions=tuple(sorted({**decided, txn: True}.items()))), txn, "acknowledged")

    return steps


def _tables_wrong(gate: bool) -> Callable[[Tables], str | None]:
    def wrong(state: Tables) -> str | None:
        one, two = _visible(state, 0, gate), _visible(state, 1, gate)
        for txn, at in state.steps:
            if at == "acknowledged" and not (txn in one and txn in two):
                return "an acknowledged transaction is lost"
            if at in ("failed", "dead") and (txn in one) != (txn in two):
                return "a transaction is half there"
        return None

    return wrong


def test_a_decision_object_makes_a_transaction_over_two_tables_atomic() -> None:
    states, wrong = explore(Tables(), _table_steps(True), _tables_wrong(True))
    assert states > 50
    assert wrong == set()


def test_swapping_pointers_one_after_the_other_is_not_atomic() -> None:
    _, wrong = explore(Tables(), _table_steps(False), _tables_wrong(False))
    assert "a transaction is half there" in wrong
