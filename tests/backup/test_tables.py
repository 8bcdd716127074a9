"""Which pointers a backup takes and a restore puts back: a transaction is there for all of its tables or for none."""

import hashlib

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from arco.backup._cut import tables_through
from arco.backup._rewrite import rewrite_pointers
from arco.backup._tables import _Seen, included
from arco.iceberg import Pointer, check_link, decode_pointer, encode_pointer

TABLES = ("A", "B", "C")


def pointer(table_id: str, number: int, time: int, txn: str | None) -> Pointer:
    return Pointer(
        format=1,
        id=f"{table_id}{number}",
        number=number,
        previous_hash="",
        incarnation="inc",
        table_id=table_id,
        kind="table",
        state="live",
        metadata_location="file:///m",
        table_uuid="",
        operation="",
        actor="",
        source="external",
        committed_at=time,
        txn=txn,
    )


@st.composite
def histories(draw: st.DrawFn) -> dict[str, list[Pointer]]:
    """Commits and transactions one after the other; the pointers of a transaction are made one by one."""
    tables: dict[str, list[Pointer]] = {name: [] for name in TABLES}
    time = 0
    steps = draw(st.lists(st.sets(st.sampled_from(TABLES), min_size=1), max_size=12))
    for index, members in enumerate(steps):
        txn = f"t{index}" if len(members) > 1 else None
        for name in sorted(members):
            time += draw(st.integers(1, 5))
            tables[name].append(pointer(name, len(tables[name]) + 1, time, txn))
    return tables


def check_whole(tables: dict[str, list[Pointer]], through: dict[str, int]) -> None:
    members: dict[str, set[bool]] = {}
    for name, pointers in tables.items():
        for one in pointers:
            if one.txn is not None:
                members.setdefault(one.txn, set()).add(one.number <= through[name])
    assert all(len(found) == 1 for found in members.values()), members


@given(histories(), st.integers(0, 70))
def test_a_cut_in_time_leaves_transactions_whole(tables: dict[str, list[Pointer]], time: int) -> None:
    through = tables_through(tables, time, {})
    check_whole(tables, through)
    for name, pointers in tables.items():
        assert all(one.committed_at <= time for one in pointers if one.number <= through[name])
        alone = [one for one in pointers if one.committed_at <= time]
        if all(one.txn is None for one in pointers):
            assert through[name] == len(alone), "nothing is left out without a reason"


@given(histories(), st.integers(0, 70), st.sampled_from(TABLES))
def test_what_the_log_was_told_is_never_cut(tables: dict[str, list[Pointer]], time: int, name: str) -> None:
    recorded = {name: len(tables[name])}
    through = tables_through(tables, time, recorded)
    check_whole(tables, through)
    assert through[name] == len(tables[name])


@given(histories(), st.data())
def test_tables_that_are_read_one_by_one_make_a_whole(tables: dict[str, list[Pointer]], data: st.DataObject) -> None:
    """Each table is looked at some time later than the one before; then all are looked at again."""
    now, seen = 0, {}
    for name in TABLES:
        now += data.draw(st.integers(0, 30))
        there = [one for one in tables[name] if one.committed_at <= now]
        seen[name] = _Seen(1, len(there), {one.number: one.txn for one in there if one.txn is not None})
    # A transaction that a look met may not be decided yet; its pointers are all made before anybody follows them.
    begun = {txn for one in seen.values() for txn in one.txns.values()}
    end = max([now, *(one.committed_at for pointers in tables.values() for one in pointers if one.txn in begun)])
    for name in TABLES:
        later = [one for one in tables[name] if one.number > seen[name].last and one.committed_at <= end]
        seen[name].later = [(one.number, one.txn) for one in later]
    included(seen)
    check_whole(tables, {name: one.last for name, one in seen.items()})


def test_pointers_are_rewritten_as_a_chain() -> None:
    old = [msgspec.structs.replace(pointer("A", n, n, None), seal=n == 3) for n in (2, 3)]
    new = [decode_pointer(data, "p") for data in rewrite_pointers(old, "inc-2", encode_pointer)]
    first = rewrite_pointers(old, "inc-2", encode_pointer)[0]
    check_link(
        new[1], table_id="A", incarnation="inc-2", number=3, previous=hashlib.sha256(first).hexdigest(), path="p"
    )
    assert not new[1].seal
