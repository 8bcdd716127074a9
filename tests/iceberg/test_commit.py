"""Commits to one table: outcomes, retries, keys, and how many requests each takes."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from arco.core import Corrupt, OutcomeUnknown, StoreRefused, Unavailable
from arco.iceberg import BadRequest, CommitFailed, NoSuchTable, parse_idempotency_key
from arco.storage import MemoryStore, StoreFailed
from tests.doubles import FakeRuntime, FaultyStore, run
from tests.iceberg.stage import Server, marking, marking_after, marking_unless, new_key

T = "01K9Z000000000000000000001"


def requests(server: Server) -> dict[str, int]:
    found = {str(operation): count for (_, operation), count in server.counts.table().items()}
    server.counts._counts.clear()
    return found


def test_a_commit_follows_another_and_both_are_there() -> None:
    async def story() -> None:
        server = Server(MemoryStore(), FakeRuntime())
        created = await server.create(T)
        assert (created.number, created.held.state) == (1, "live")
        committed = await server.mark(T, "a")
        assert committed.number == 2
        assert committed.held.snapshot_id == 1
        assert committed.pointer is not None
        assert committed.pointer.base_location == created.held.metadata_location
        assert await server.marks(T) == ["a"]
        assert [c.number for c in server.won] == [1, 2]

    run(story())


def test_requests_of_every_kind_of_commit_and_read() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        server = Server(store, runtime)
        await server.create(T)
        assert requests(server) == {"create": 2, "head": 3}
        await server.mark(T, "a")
        assert requests(server) == {"get": 1, "create": 2}
        await server.mark(T, "b", new_key(runtime))
        assert requests(server) == {"get": 1, "create": 3}
        assert await server.marks(T) == ["a", "b"]
        assert requests(server) == {"get": 1}
        cold = Server(store, runtime)
        assert await cold.marks(T) == ["a", "b"]
        assert requests(cold) == {"head": 7, "get": 2}  # floor, 1, 2, 4, 3, ..., floor; the pointer, the metadata
        hinted = Server(store, runtime)
        assert await hinted.committer.load(T, hint=3) is not None
        assert requests(hinted) == {"head": 4, "get": 2}
        await server.committer.drop(T, server.who())
        assert requests(server) == {"get": 1, "create": 1}

    run(story())


def test_writers_of_one_process_take_turns_and_probe_once() -> None:
    async def story() -> None:
        faulty = FaultyStore(MemoryStore())
        server = Server(faulty, FakeRuntime())
        await server.create(T)
        requests(server)
        faulty.on("create", hook=lambda: asyncio.sleep(0.01), times=100)
        await asyncio.gather(*(server.mark(T, f"m{i}") for i in range(8)))
        assert requests(server) == {"get": 1, "create": 16}
        assert await server.marks(T) == [f"m{i}" for i in range(8)]

    run(story())


def test_a_lost_pointer_edits_what_the_winner_left() -> None:
    async def story() -> None:
        runtime = FakeRuntime()
        faulty = FaultyStore(MemoryStore())
        one, other = Server(faulty, runtime), Server(faulty.inner, runtime)
        await one.create(T)

        async def overtake() -> None:
            await other.mark(T, "theirs")

        faulty.on("create", path="/pointers/", hook=overtake)
        requests(one)
        await one.mark(T, "mine")
        assert requests(one) == {"get": 4, "create": 4}  # probe, their pointer, probe, their metadata
        assert await one.marks(T) == ["theirs", "mine"]

    run(story())


def test_a_lost_pointer_whose_requirement_fails_now_is_refused_and_never_seen() -> None:
    async def story() -> None:
        runtime = FakeRuntime()
        faulty = FaultyStore(MemoryStore())
        one, other = Server(faulty, runtime), Server(faulty.inner, runtime)
        await one.create(T)
        faulty.on("create", path="/pointers/", hook=lambda: _ignore(other.mark(T, "theirs")))
        with pytest.raises(CommitFailed, match="branch main has changed"):
            await one.committer.commit(T, marking_after("mine", None), one.who())
        assert await other.marks(T) == ["theirs"]

    run(story())


def test_who_always_loses_is_told_so() -> None:
    async def story() -> None:
        runtime = FakeRuntime()
        faulty = FaultyStore(MemoryStore())
        one, other = Server(faulty, runtime), Server(faulty.inner, runtime)
        await one.create(T)
        faulty.on("create", path="/pointers/", hook=lambda: _ignore(other.mark(T, "theirs")), times=100)
        with pytest.raises(CommitFailed, match="changed by others 20 times"):
            await one.mark(T, "mine")
        assert "mine" not in (await other.marks(T) or [])

    run(story())


def test_an_applied_pointer_whose_answer_is_lost_is_won() -> None:
    async def story() -> None:
        faulty = FaultyStore(MemoryStore())
        server = Server(faulty, FakeRuntime())
        await server.create(T)
        faulty.on("create", path="/pointers/", error=StoreFailed("reset"), applied=True)
        assert (await server.mark(T, "a")).number == 2
        assert await server.marks(T) == ["a"]

    run(story())


def test_a_pointer_whose_fate_is_open_is_settled_after_the_answer() -> None:
    async def story() -> None:
        faulty = FaultyStore(MemoryStore())
        server = Server(faulty, FakeRuntime())
        await server.create(T)
        faulty.on("create", path="/pointers/", error=StoreFailed("no answer"), times=9)
        who = server.who()
        with pytest.raises(OutcomeUnknown) as caught:
            await server.committer.commit(T, marking("a"), who)
        assert caught.value.details["operation"] == who.operation
        await asyncio.sleep(30)
        assert await server.marks(T) == ["a"]
        assert [c.number for c in server.won] == [1, 2]

    run(story())


def test_a_cancelled_request_does_not_cancel_a_pointer_that_was_sent() -> None:
    async def story() -> None:
        faulty = FaultyStore(MemoryStore())
        server = Server(faulty, FakeRuntime())
        await server.create(T)
        faulty.on("create", path="/pointers/", error=StoreFailed("slow"), hook=lambda: asyncio.sleep(5))
        request = asyncio.ensure_future(server.mark(T, "a"))
        await asyncio.sleep(1)
        request.cancel()
        await asyncio.sleep(20)
        assert request.cancelled()
        assert await server.marks(T) == ["a"]

    run(story())


def test_a_request_that_goes_before_anything_was_sent_commits_nothing() -> None:
    async def story() -> None:
        faulty = FaultyStore(MemoryStore())
        server = Server(faulty, FakeRuntime())
        await server.create(T)
        faulty.on("create", path="/metadata/", hook=lambda: asyncio.sleep(5))
        request = asyncio.ensure_future(server.mark(T, "a"))
        await asyncio.sleep(1)
        request.cancel()
        await asyncio.sleep(20)
        assert await server.marks(T) == []
        await server.mark(T, "b")

    run(story())


def test_a_store_that_refuses_the_pointer_committed_nothing() -> None:
    async def story() -> None:
        faulty = FaultyStore(MemoryStore())
        server = Server(faulty, FakeRuntime())
        await server.create(T)
        faulty.on("create", path="/pointers/", error=StoreRefused("403"))
        with pytest.raises(StoreRefused):
            await server.mark(T, "a")
        assert await server.marks(T) == []

    run(story())


def test_a_drop_fences_commits_off() -> None:
    async def story() -> None:
        server = Server(MemoryStore(), FakeRuntime())
        await server.create(T)
        await server.mark(T, "a")
        dropped = await server.committer.drop(T, server.who(), purge=True)
        assert (dropped.held.state, dropped.held.purge, dropped.number) == ("dropped", True, 3)
        assert (await server.committer.drop(T, server.who())).number == 3
        assert await server.marks(T) is None
        with pytest.raises(NoSuchTable):
            await server.mark(T, "b")
        await server.create(T)
        assert await server.marks(T) == []

    run(story())


def test_a_table_that_never_was_is_absent() -> None:
    async def story() -> None:
        server = Server(MemoryStore(), FakeRuntime())
        assert await server.pointers.current(T) is None
        with pytest.raises(NoSuchTable):
            await server.mark(T, "a")
        with pytest.raises(NoSuchTable):
            await server.committer.drop(T, server.who())

    run(story())


def test_nothing_changed_is_no_commit() -> None:
    async def story() -> None:
        server = Server(MemoryStore(), FakeRuntime())
        await server.create(T)
        same = await server.committer.commit(T, lambda base, location: base or {}, server.who())
        assert (same.number, same.pointer) == (1, None)

    run(story())


# Keys


def test_the_same_key_again_is_answered_without_another_commit() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        one, other = Server(store, runtime), Server(store, runtime)
        await one.create(T)
        key = new_key(runtime)
        first = await one.mark(T, "a", key)
        await one.mark(T, "b")
        for server in (one, other):
            again = await server.mark(T, "a", key)
            assert again.replayed
            assert again.number == first.number
            assert again.document is not None
            assert again.document.value["marks"] == ["a"]
        assert await other.marks(T) == ["a", "b"]

    run(story())


def test_the_same_key_is_recognised_when_its_requirement_no_longer_holds() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        server = Server(store, runtime)
        await server.create(T)
        key = new_key(runtime)
        edit = marking_after("a", None)
        await server.committer.commit(T, edit, server.who(key))
        assert (await server.committer.commit(T, edit, server.who(key))).replayed
        await server.committer.drop(T, server.who())
        assert (await server.committer.commit(T, edit, server.who(key))).replayed

    run(story())


def test_a_keyed_request_that_changes_nothing_is_not_carried_out_later() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        one, other = Server(store, runtime), Server(store, runtime)
        await one.create(T)
        await one.mark(T, "a")
        key = new_key(runtime)
        requests(one)
        done = await one.committer.commit(T, marking_unless("b", "a"), one.who(key))
        assert (done.number, done.pointer, done.replayed) == (2, None, False)
        assert requests(one) == {"get": 1, "create": 1}
        await other.mark(T, "c")  # now the same request would change something
        for server in (one, other):
            again = await server.committer.commit(T, marking_unless("b", "a"), server.who(key))
            assert (again.number, again.replayed) == (3, True)
        assert await other.marks(T) == ["a", "c"]

    run(story())


def test_a_claim_whose_request_finds_nothing_left_to_change_says_so() -> None:
    """It lost the pointer to somebody who did the same; the next claim is the one that tells."""

    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        server = Server(store, runtime)
        await server.create(T)
        key = new_key(runtime)
        assert await server.keys.claim(key, server.who(key), after=None, table_id=T, base=1) is not None
        await server.mark(T, "a")
        done = await server.committer.commit(T, marking_unless("b", "a"), server.who(key))
        assert done.pointer is None
        assert [claim.unchanged for claim in await server.keys.claims(key)][-1]
        await server.mark(T, "c")
        assert (await server.committer.commit(T, marking_unless("b", "a"), server.who(key))).replayed
        assert await server.marks(T) == ["a", "c"]

    run(story())


def test_a_key_for_another_request_is_refused() -> None:
    async def story() -> None:
        runtime = FakeRuntime()
        server = Server(MemoryStore(), runtime)
        await server.create(T)
        key = new_key(runtime, {"x": 1})
        await server.mark(T, "a", key)
        other = parse_idempotency_key(key.text, what="commit", body={"x": 2}, now=runtime.now())
        with pytest.raises(CommitFailed, match="Idempotency-Key reused with different request payload"):
            await server.mark(T, "b", other)
        assert await server.marks(T) == ["a"]

    run(story())


def test_a_refusal_is_evaluated_again_and_only_success_is_final() -> None:
    async def story() -> None:
        runtime = FakeRuntime()
        server = Server(MemoryStore(), runtime)
        await server.create(T)
        key = new_key(runtime)
        edit = marking_after("b", "a")
        with pytest.raises(CommitFailed):
            await server.committer.commit(T, edit, server.who(key))
        await server.mark(T, "a")
        assert not (await server.committer.commit(T, edit, server.who(key))).replayed
        assert await server.marks(T) == ["a", "b"]

    run(story())


def test_a_claim_whose_owner_died_is_taken_over() -> None:
    async def story() -> None:
        runtime = FakeRuntime()
        server = Server(MemoryStore(), runtime)
        await server.create(T)
        key = new_key(runtime)
        assert await server.keys.claim(key, server.who(key), after=None, base=1) is not None
        began = runtime.boottime()
        await server.mark(T, "a", key)
        assert 1.9 < runtime.boottime() - began < 2.5
        assert [claim.number for claim in await server.keys.claims(key)] == [1, 2]
        assert (await server.mark(T, "a", key)).replayed
        assert await server.marks(T) == ["a"]

    run(story())


def test_whoever_was_taken_over_stops_and_the_later_one_commits_once() -> None:
    async def story() -> None:
        runtime = FakeRuntime()
        faulty = FaultyStore(MemoryStore())
        slow, quick = Server(faulty, runtime), Server(faulty.inner, runtime)
        await slow.create(T)
        key = new_key(runtime)
        faulty.on("create", path="/pointers/", hook=lambda: asyncio.sleep(10))
        first = asyncio.ensure_future(slow.mark(T, "a", key))
        await asyncio.sleep(1)
        await quick.mark(T, "b")
        assert not (await quick.mark(T, "a", key)).replayed
        assert (await first).replayed
        assert await quick.marks(T) == ["b", "a"]

    run(story())


def test_whoever_was_taken_over_by_one_that_is_refused_commits_nothing() -> None:
    async def story() -> None:
        runtime = FakeRuntime()
        faulty = FaultyStore(MemoryStore())
        slow, quick = Server(faulty, runtime), Server(faulty.inner, runtime)
        await slow.create(T)
        key = new_key(runtime)
        edit = marking_after("a", None)
        faulty.on("create", path="/pointers/", hook=lambda: asyncio.sleep(10))
        first = asyncio.ensure_future(slow.committer.commit(T, edit, slow.who(key)))
        await asyncio.sleep(1)
        await quick.mark(T, "b")
        with pytest.raises(CommitFailed):
            await quick.committer.commit(T, edit, quick.who(key))
        with pytest.raises(Unavailable, match="taken over"):
            await first
        assert await quick.marks(T) == ["b"]

    run(story())


@pytest.mark.parametrize(
    "text", ["", "abc", "0190A6B0-0000-7000-8000-000000000000", "0190a6b0-0000-4000-8000-000000000000"]
)
def test_what_is_no_uuid_v7_is_no_key(text: str) -> None:
    with pytest.raises(BadRequest, match="UUIDv7"):
        parse_idempotency_key(text, what="commit", body={}, now=0)


def test_keys_hash_bodies_with_snapshot_ids_and_tell_them_apart() -> None:
    runtime_now = 1_790_000_000_000_000
    text = f"{runtime_now // 1000:012x}"
    text = f"{text[:8]}-{text[8:]}-7000-8000-000000000000"
    hashes = {
        parse_idempotency_key(text, what=what, body={"snapshot-id": number}, now=runtime_now).request_hash
        for what in ("a", "b")
        for number in (3051729675574597004, 3051729675574597005, "3051729675574597004")
    }
    assert len(hashes) == 6
    with pytest.raises(BadRequest, match="older than 7 days"):
        parse_idempotency_key(text, what="a", body={}, now=runtime_now + 8 * 86_400_000_000)
    with pytest.raises(BadRequest, match="ahead"):
        parse_idempotency_key(text, what="a", body={}, now=runtime_now - 600_000_000)


# Chains


def test_a_pointer_that_does_not_continue_its_predecessor_is_corrupt() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        one, other = Server(store, runtime), Server(store, runtime)
        await one.create(T)
        assert await other.marks(T) == []
        prepared = one.pointers.prepare(await one.pointers.current(T), (await one.pointers.read(T, 1)))
        await store.put(
            f"acme/prod/{one.pointers.sequence(T).path(2)}",
            prepared.data.replace(prepared.pointer.previous_hash.encode(), b"0" * 64),
            only_if_absent=True,
        )
        with pytest.raises(Corrupt, match="does not continue its predecessor"):
            await other.marks(T)

    run(story())


async def _ignore(coroutine: Coroutine[Any, Any, object]) -> None:
    await coroutine
