"""Small exhaustive models of Iceberg commits: transactions by a decision, and keys by claims and pointers.

In both, looking and creating are separate steps, so that everything can come between.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from tests.simulation.test_models import explore

Marks = frozenset[str]

# Transactions: two over both tables, a plain writer, a reader of one table and then the other; crashes anywhere


@dataclass(frozen=True)
class Entry:
    """A pointer; without a transaction it is in force when it is there."""

    txn: str
    before: Marks
    new: Marks


@dataclass(frozen=True)
class Coordinator:
    stage: str = "look"
    """look, create, decide, then acknowledged, failed or dead."""
    at: int = 0
    """Index of the table."""
    number: int = 0
    base: Marks = frozenset()


@dataclass(frozen=True)
class Reader:
    stage: str = "A"
    held: Entry | None = None
    seen: Marks = frozenset()
    last: Marks = frozenset()


FIRST = (Entry("", frozenset(), frozenset()),)


@dataclass(frozen=True)
class Shop:
    a: tuple[Entry, ...] = FIRST
    b: tuple[Entry, ...] = FIRST
    committed: frozenset[str] = frozenset()
    aborted: frozenset[str] = frozenset()
    t1: Coordinator = Coordinator()
    t2: Coordinator = Coordinator()
    plain: Coordinator = Coordinator()
    reader: Reader = Reader()


def _chain(shop: Shop, table: str) -> tuple[Entry, ...]:
    return shop.a if table == "A" else shop.b


def _with(shop: Shop, table: str, chain: tuple[Entry, ...]) -> Shop:
    return replace(shop, a=chain) if table == "A" else replace(shop, b=chain)


def _in_force(shop: Shop, entry: Entry, rules: str) -> Marks:
    if not entry.txn or entry.txn in shop.committed or rules in ("no gate", "seen early"):
        return entry.new
    return entry.before


def _undecided(shop: Shop, entry: Entry) -> bool:
    return bool(entry.txn) and entry.txn not in shop.committed | shop.aborted


def _set(shop: Shop, who: str, state: Coordinator) -> Shop:
    return replace(shop, **{who: state})  # type: ignore[arg-type]


def _writer(shop: Shop, who: str, tables: str, rules: str) -> Iterator[Shop]:
    me: Coordinator = getattr(shop, who)
    if me.stage in ("acknowledged", "failed", "dead"):
        return
    yield _set(shop, who, replace(me, stage="dead"))
    if me.stage == "decide":
        if who in shop.aborted:
            yield _set(shop, who, replace(me, stage="failed"))
        else:
            yield _set(replace(shop, committed=shop.committed | {who}), who, replace(me, stage="acknowledged"))
        return
    table = tables[me.at]
    chain = _chain(shop, table)
    if me.stage == "look":
        newest = chain[-1]
        if _undecided(shop, newest) and rules not in ("no gate", "supersede"):
            yield replace(shop, aborted=shop.aborted | {newest.txn})
        else:
            base = _in_force(shop, newest, rules)
            yield _set(shop, who, replace(me, stage="create", number=len(chain), base=base))
        return
    if len(chain) != me.number:
        yield _set(shop, who, replace(me, stage="look"))
        return
    single = len(tables) == 1 or rules == "no gate"
    entry = Entry("" if single else who, me.base, me.base | {who})
    after = _with(shop, table, (*chain, entry))
    if me.at + 1 < len(tables):
        yield _set(after, who, Coordinator("look", me.at + 1))
    else:
        yield _set(after, who, replace(me, stage="acknowledged" if single else "decide"))


def _reader(shop: Shop, rules: str) -> Iterator[Shop]:
    me = shop.reader
    if me.stage in ("A", "B"):
        yield replace(shop, reader=replace(me, stage=f"resolve {me.stage}", held=_chain(shop, me.stage)[-1]))
    elif me.held is not None and me.stage == "resolve A":
        yield replace(shop, reader=Reader("B", None, _in_force(shop, me.held, rules)))
    elif me.held is not None and me.stage == "resolve B":
        yield replace(shop, reader=Reader("end", None, me.seen, _in_force(shop, me.held, rules)))


def _shop_steps(rules: str, second: str) -> Callable[[Shop], Iterator[Shop]]:
    def steps(shop: Shop) -> Iterator[Shop]:
        yield from _writer(shop, "t1", "AB", rules)
        yield from _writer(shop, "t2", second, rules)
        yield from _writer(shop, "plain", "A", rules)
        yield from _reader(shop, rules)

    return steps


def _shop_wrong(rules: str) -> Callable[[Shop], str | None]:
    def wrong(shop: Shop) -> str | None:
        a, b = (_in_force(shop, chain[-1], rules) for chain in (shop.a, shop.b))
        for who in ("t1", "t2"):
            stage = getattr(shop, who).stage
            if shop.reader.stage == "end" and who in shop.reader.seen and who not in shop.reader.last:
                return "half a transaction was read"
            if stage == "acknowledged" and not (who in a and who in b):
                return "acknowledged but lost"
            if stage == "failed" and (who in a or who in b):
                return "failed but visible"
            if stage == "dead" and (who in a) != (who in b):
                return "half visible"
        return "acknowledged but lost" if shop.plain.stage == "acknowledged" and "plain" not in a else None

    return wrong


@pytest.mark.parametrize("second", ["BA", "AB"])
def test_transactions_by_a_decision_are_atomic_in_every_interleaving(second: str) -> None:
    states, found = explore(Shop(), _shop_steps("ours", second), _shop_wrong("ours"))
    assert found == set()
    assert states > 10_000


@pytest.mark.parametrize("rules", ["no gate", "supersede", "seen early"])
def test_transactions_without_one_of_the_rules_are_not(rules: str) -> None:
    _, found = explore(Shop(), _shop_steps(rules, "BA"), _shop_wrong(rules))
    assert found


# Keys: a request, its repetition, and others who make the requirement false and then true again


@dataclass(frozen=True)
class Asked:
    stage: str = "look"
    """look, claim, refuse, wait, over, check, create, then done, refused or stopped."""
    number: int = 0
    claim: int = 0


@dataclass(frozen=True)
class Table:
    chain: str = "."
    """One letter a pointer: `k` carries the key; the request is refused while the newest is `x`."""
    claims: int = 0
    base: int = 0
    first: Asked = Asked()
    again: Asked = Asked("not yet")
    fenced: bool = False
    """Whether the first request had claimed the key when its repetition began."""


def _asked(table: Table, who: str, rules: str) -> Iterator[Table]:
    me: Asked = getattr(table, who)
    tail, accepted = len(table.chain), table.chain[-1] != "x"

    def to(stage: str, after: Table = table, number: int = me.number, claim: int = me.claim) -> Table:
        return replace(after, **{who: Asked(stage, number, claim)})  # type: ignore[arg-type]

    if me.stage == "look":
        yield to("claim" if accepted else "refuse", number=tail)
    elif me.stage == "claim":
        if table.claims == 0:
            yield to("create", replace(table, claims=1, base=me.number), claim=1)
        else:
            yield to("wait", number=table.claims)
    elif me.stage == "refuse":
        yield to("wait", number=table.claims) if table.claims else to("refused")
    elif me.stage == "wait":
        if "k" in table.chain[table.base :] and rules != "not looked for":
            yield to("done")
        elif table.claims == me.number:
            yield to("over", replace(table, claims=table.claims + 1), claim=table.claims + 1)
        else:
            yield to("wait", number=table.claims)
    elif me.stage == "over" and rules == "claim before tail":
        yield to("stopped" if table.claims > me.claim else "late")
    elif me.stage in ("over", "late"):
        if "k" in table.chain[table.base :] and rules != "not looked for":
            yield to("done")
        else:
            yield to("check", number=tail)
    elif me.stage == "check":
        base_accepts = table.chain[me.number - 1] != "x"
        if table.claims > me.claim and rules not in ("not checked", "claim before tail"):
            yield to("stopped")
        else:
            yield to("create" if base_accepts else "refused")
    elif me.stage == "create":
        if tail != me.number:
            yield to("over")
        else:
            yield to("done", replace(table, chain=table.chain + "k"))


def _table_steps(rules: str) -> Callable[[Table], Iterator[Table]]:
    def steps(table: Table) -> Iterator[Table]:
        for letter in "xy":
            if letter not in table.chain and (letter == "x" or "x" in table.chain):
                yield replace(table, chain=table.chain + letter)
        yield from _asked(table, "first", rules)
        if table.again.stage == "not yet" and table.first.stage not in ("done", "refused", "stopped"):
            yield replace(table, again=Asked(), fenced=table.claims > 0)
        else:
            yield from _asked(table, "again", rules)

    return steps


def _table_wrong(table: Table) -> str | None:
    if table.chain.count("k") > 1:
        return "carried out twice"
    for asked in (table.first, table.again):
        if asked.stage == "done" and "k" not in table.chain:
            return "acknowledged but not there"
    if table.again.stage == "refused" and table.fenced and "k" in table.chain:
        return "refused but there"
    return None


def test_a_key_is_carried_out_once_and_not_after_its_repetition_was_refused() -> None:
    states, found = explore(Table(), _table_steps("ours"), _table_wrong)
    assert found == set()
    assert states > 300


@pytest.mark.parametrize("rules", ["not looked for", "not checked", "claim before tail"])
def test_a_key_without_one_of_the_rules_is_not_safe(rules: str) -> None:
    _, found = explore(Table(), _table_steps(rules), _table_wrong)
    assert found
