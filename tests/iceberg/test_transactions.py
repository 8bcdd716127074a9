"""Transactions over several tables: all or nothing, whoever dies or comes between, and how many requests they take."""

import asyncio

import msgspec
import pytest

from arco.core import LostObject, OutcomeUnknown, Unavailable
from arco.iceberg import BadRequest, CommitFailed, NoSuchTable
from arco.storage import MemoryStore, StoreFailed
from tests.doubles import FakeRuntime, FaultyStore, run
from tests.iceberg.stage import Server, marking, marking_after, marking_unless, new_key

A, B, C = (f"01K9Z00000000000000000000{letter}" for letter in "ABC")


async def open_tables(store: MemoryStore | FaultyStore, runtime: FakeRuntime) -> Server:
    server = Server(store, runtime)
    for table_id in (A, B):
        await server.create(table_id)
    server.counts._counts.clear()
    return server


def test_a_transaction_is_seen_on_all_tables() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        server = await open_tables(store, runtime)
        assert await server.mark_all([B, A], "x") == 2
        assert {str(op): n for (_, op), n in server.counts.table().items()} == {"get": 2, "create": 5}
        other = Server(store, runtime)
        for table_id in (A, B):
            assert await server.marks(table_id) == await other.marks(table_id) == ["x"]
        assert [won.number for won in server.won] == [1, 1, 2, 2]
        await other.mark(A, "y")
        assert await server.marks(A) == ["x", "y"]
        assert [pointer.number for pointer in await other.pointers.history(A)] == [1, 2, 3]

    run(story())


def test_a_hot_read_of_what_a_transaction_left_is_one_request() -> None:
    async def story() -> None:
        server = await open_tables(MemoryStore(), FakeRuntime())
        await server.mark_all([A, B], "x")
        server.counts._counts.clear()
        await server.marks(A)
        assert server.counts.count() == 1

    run(story())


def test_a_keyed_transaction_takes_one_request_more_and_is_recognised() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        server = await open_tables(store, runtime)
        key = new_key(runtime)
        assert await server.mark_all([A, B], "x", key) == 2
        assert {str(op): n for (_, op), n in server.counts.table().items()} == {"get": 2, "create": 6}
        assert await server.mark_all([A, B], "x", key) == 0
        assert await Server(store, runtime).mark_all([A, B], "x", key) == 0
        assert await server.marks(B) == ["x"]
        other = new_key(runtime)
        with pytest.raises(CommitFailed, match="reused"):
            await server.mark_all([A, B], "x", msgspec.structs.replace(other, text=key.text, request_hash="0"))

    run(story())


def test_a_keyed_transaction_that_changes_nothing_is_not_carried_out_later() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        server = await open_tables(store, runtime)
        await server.mark_all([A, B], "a")
        key = new_key(runtime)
        edits = [(table, marking_unless("b", "a")) for table in (A, B)]
        assert [done.pointer for done in await server.transactions.commit(edits, server.who(key))] == [None, None]
        await server.mark(A, "c")
        assert await server.transactions.commit(edits, server.who(key)) == ()
        assert (await server.marks(A), await server.marks(B)) == (["a", "c"], ["a"])

    run(story())


def test_one_table_is_a_plain_commit_and_none_or_one_twice_are_refused() -> None:
    async def story() -> None:
        server = await open_tables(MemoryStore(), FakeRuntime())
        assert await server.mark_all([A], "x") == 1
        assert {str(op): n for (_, op), n in server.counts.table().items()} == {"get": 1, "create": 2}
        with pytest.raises(BadRequest, match="at least one"):
            await server.mark_all([], "x")
        with pytest.raises(BadRequest, match="twice"):
            await server.mark_all([A, B, A], "x")

    run(story())


def test_a_refusal_on_one_table_leaves_all_alone() -> None:
    async def story() -> None:
        server = await open_tables(MemoryStore(), FakeRuntime())
        with pytest.raises(CommitFailed):
            await server.transactions.commit([(A, marking("x")), (B, marking_after("x", "other"))], server.who())
        with pytest.raises(NoSuchTable):
            await server.mark_all([A, C], "x")
        await server.committer.drop(B, server.who())
        with pytest.raises(NoSuchTable):
            await server.mark_all([A, B], "x")
        assert await server.marks(A) == []
        assert server.counts.count() < 20

    run(story())


def test_an_undecided_transaction_is_not_seen_and_aborted_by_a_writer_that_waited() -> None:
    async def story() -> None:
        runtime = FakeRuntime()
        faulty = FaultyStore(MemoryStore())
        slow, other = await open_tables(faulty, runtime), Server(faulty.inner, runtime)
        faulty.on("create", path="/txns/", hook=lambda: asyncio.sleep(3))
        transaction = asyncio.ensure_future(slow.mark_all([A, B], "x"))
        await asyncio.sleep(0.1)
        assert await other.marks(A) == []
        began = runtime.boottime()
        await other.mark(A, "y")
        assert 1.9 < runtime.boottime() - began < 2.2
        assert await other.marks(A) == ["y"]
        assert await transaction == 2  # as another transaction, on what it found
        assert await other.marks(A) == ["y", "x"]
        assert await other.marks(B) == ["x"]

    run(story())


def test_a_writer_waits_for_a_transaction_that_ends_in_time() -> None:
    async def story() -> None:
        runtime = FakeRuntime()
        faulty = FaultyStore(MemoryStore())
        slow, other = await open_tables(faulty, runtime), Server(faulty.inner, runtime)
        faulty.on("create", path="/txns/", hook=lambda: asyncio.sleep(1))
        transaction = asyncio.ensure_future(slow.mark_all([A, B], "x"))
        await asyncio.sleep(0.1)
        await other.mark(B, "y")
        await transaction
        assert await other.marks(B) == ["x", "y"]

    run(story())


def test_a_lost_prepare_goes_on_with_what_the_winner_left() -> None:
    async def story() -> None:
        runtime = FakeRuntime()
        faulty = FaultyStore(MemoryStore())
        one, other = await open_tables(faulty, runtime), Server(faulty.inner, runtime)

        async def overtake() -> None:
            await other.mark(B, "theirs")

        faulty.on("create", path=f"/pointers/{B}", hook=overtake)
        assert await one.mark_all([A, B], "x") == 2
        assert await one.marks(B) == ["theirs", "x"]
        faulty.on("create", path=f"/pointers/{B}", hook=overtake)
        with pytest.raises(CommitFailed):
            await one.transactions.commit([(A, marking("z")), (B, marking_after("z", "x"))], one.who())
        began = runtime.boottime()
        await other.mark(A, "y")  # aborted at once, nobody waits
        assert runtime.boottime() - began < 0.5
        assert await other.marks(A) == ["x", "y"]

    run(story())


def test_a_prepare_whose_fate_is_open_aborts_and_may_land_later() -> None:
    async def story() -> None:
        runtime = FakeRuntime()
        faulty = FaultyStore(MemoryStore())
        one = await open_tables(faulty, runtime)
        faulty.on("create", path=f"/pointers/{B}", error=StoreFailed("no answer"), times=8)
        with pytest.raises(Unavailable) as caught:
            await one.mark_all([A, B], "x")
        assert not isinstance(caught.value, OutcomeUnknown)
        assert await one.marks(A) == []
        assert await one.mark_all([A, B], "y") == 2

    run(story())


def test_a_decision_whose_fate_is_open_is_settled_after_the_answer() -> None:
    async def story() -> None:
        faulty = FaultyStore(MemoryStore())
        server = await open_tables(faulty, FakeRuntime())
        faulty.on("create", path="/txns/", error=StoreFailed("no answer"), times=9)
        who = server.who()
        with pytest.raises(OutcomeUnknown) as caught:
            await server.transactions.commit([(A, marking("x")), (B, marking("x"))], who)
        assert caught.value.details["operation"] == who.operation
        await asyncio.sleep(30)
        assert await server.marks(A) == await server.marks(B) == ["x"]
        assert len(server.won) == 4

    run(story())


def test_a_key_whose_transaction_died_is_taken_over() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        dead = await open_tables(store, runtime)
        key = new_key(runtime)
        await dead.keys.claim(key, dead.who(key), after=None, txn="dead")
        current = await dead.pointers.settled(A)
        assert current is not None
        draft = msgspec.structs.replace(current.pointer, txn="dead", before=current.held)
        assert await dead.pointers.create(dead.pointers.prepare(current, draft)) is not None
        other = Server(store, runtime)
        assert await other.mark_all([A, B], "x", key) == 2
        assert await other.mark_all([A, B], "x", key) == 0
        assert await other.marks(A) == await other.marks(B) == ["x"]

    run(story())


def test_a_lost_decision_under_a_superseded_pointer_is_a_lost_object() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        server = await open_tables(store, runtime)
        await server.mark_all([A, B], "x")
        txn = (await server.pointers.read(A, 2)).txn
        assert txn is not None
        await server.mark(A, "y")
        await store.delete(f"acme/prod/{server.pointers.decisions.path(txn)}")
        with pytest.raises(LostObject, match="superseded"):
            await server.pointers.history(A)

    run(story())


def test_transactions_in_both_orders_do_not_kill_each_other() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        one = await open_tables(store, runtime)
        other = Server(store, runtime)
        began = runtime.boottime()
        for turn in range(5):
            await asyncio.gather(
                one.mark_all([A, B], f"one{turn}"), other.mark_all([B, A], f"other{turn}"), one.mark(A, f"single{turn}")
            )
        assert runtime.boottime() - began < 20
        marks = await one.marks(A)
        assert marks is not None
        assert len(set(marks)) == len(marks) == 15
        assert await one.marks(B) == [mark for mark in marks if "single" not in mark]

    run(story())
