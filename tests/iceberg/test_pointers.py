"""Pointers: what is in force after others went on, after collection, and when what is stored is wrong."""

import msgspec
import pytest

from arco.core import Corrupt, OutcomeUnknown, Outdated, Unavailable
from arco.iceberg import Pointers
from arco.storage import MemoryStore, StoreFailed
from tests.doubles import FakeRuntime, FaultyStore, run
from tests.iceberg.stage import INCARNATION, Server, new_key

T = "01K9Z000000000000000000001"
U = "01K9Z000000000000000000002"


def test_many_new_pointers_are_searched_and_not_read_one_by_one() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        one, other = Server(store, runtime), Server(store, runtime)
        await one.create(T)
        await other.marks(T)
        for number in range(100):
            await one.mark(T, str(number))
        other.counts._counts.clear()
        assert len(await other.marks(T) or []) == 100
        assert other.counts.count() < 40
        other.counts._counts.clear()
        await other.marks(T)
        assert other.counts.count() == 1

    run(story())


def test_a_process_that_slept_over_a_collection_finds_what_is_there_now() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        asleep, awake = Server(store, runtime), Server(store, runtime)
        key = new_key(runtime)
        await asleep.create(T)
        await asleep.keys.claim(key, asleep.who(key), after=None, base=1)
        for mark in "abcd":
            await awake.mark(T, mark)
        runtime.suspend(2 * 3600)
        sequence = awake.pointers.sequence(T)
        await sequence.raise_floor(4, "collector")
        for number in range(1, 5):
            await store.delete(f"acme/prod/{sequence.path(number)}")
        assert await asleep.marks(T) == ["a", "b", "c", "d"]
        runtime.suspend(2 * 3600)
        await asleep.mark(T, "e")
        assert await awake.marks(T) == ["a", "b", "c", "d", "e"]
        with pytest.raises(OutcomeUnknown, match="collected"):
            await awake.mark(T, "f", key)  # it cannot be told any more whether it happened

    run(story())


def test_a_pointer_of_another_incarnation_is_corrupt() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        server = Server(store, runtime)
        await server.create(T)
        other = Pointers(server.pointers._store, f"{INCARNATION}/iceberg", runtime, "i2")
        with pytest.raises(Corrupt, match="incarnation 'i1', not 'i2'"):
            await other.current(T)

    run(story())


@pytest.mark.parametrize(
    ("data", "error"),
    [(b"{", Corrupt), (b'{"format":2}', Outdated), (b'{"format":1}', Corrupt), (b"\xff", Corrupt)],
)
def test_what_is_no_pointer_is_told(data: bytes, error: type[Exception]) -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        server = Server(store, runtime)
        await store.put(f"acme/prod/{server.pointers.sequence(T).path(1)}", data, only_if_absent=True)
        with pytest.raises(error):
            await server.pointers.current(T)

    run(story())


def test_a_newer_format_that_still_decodes_is_outdated() -> None:
    async def story() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        server = Server(store, runtime)
        await server.create(T)
        newer = msgspec.structs.replace(await server.pointers.read(T, 1), table_id=U, format=2)
        path = f"acme/prod/{server.pointers.sequence(U).path(1)}"
        await store.put(path, msgspec.json.encode(newer), only_if_absent=True)
        with pytest.raises(Outdated, match="upgrade arco"):
            await server.pointers.current(U)

    run(story())


def test_a_decision_is_made_once_and_read_back_after_a_lost_answer() -> None:
    async def story() -> None:
        faulty = FaultyStore(MemoryStore())
        server = Server(faulty, FakeRuntime())
        decisions = server.pointers.decisions
        assert await decisions.read("x") is None
        faulty.on("create", error=StoreFailed("reset"), applied=True)
        assert await decisions.decide("x", "committed") == "committed"
        assert await decisions.decide("x", "aborted") == "committed"
        assert await decisions.decide("y", "aborted") == "aborted"
        assert await decisions.decide("y", "committed") == "aborted"
        faulty.on("create", error=StoreFailed("down"), times=8)
        with pytest.raises(Unavailable, match="open"):
            await decisions.decide("z", "committed")
        await faulty.inner.put(f"acme/prod/{decisions.path('w')}", b"{}", only_if_absent=True)
        with pytest.raises(Corrupt, match="no decision"):
            await decisions.read("w")

    run(story())
