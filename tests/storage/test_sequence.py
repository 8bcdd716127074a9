"""The contract of `Sequence` on every store, and its rules about time, failure and collection in memory."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Corrupt, LostObject, StoreRefused, Superseded, Unavailable
from arco.runtime import AsyncRuntime
from arco.storage import (
    MIN_AGE,
    Lost,
    MemoryStore,
    Operation,
    RequestCounts,
    Role,
    RoleStore,
    Scope,
    Sequence,
    Store,
    StoreFailed,
    Tail,
    Won,
)
from tests.doubles import FakeRuntime, FaultyStore, run
from tests.storage.conftest import OpenStore

WRITERS = 16
EMPTY = Tail(0, 0.0)


def fresh(number: int = 0) -> Tail:
    """A tail proven just now, by the clock of real runtimes."""
    return Tail(number, AsyncRuntime().boottime())


def content(number: int, writer: str = "a") -> bytes:
    return f"{number} by {writer}".encode()


async def fill(sequence: Sequence, count: int, tail: Tail = EMPTY, writer: str = "a") -> Tail:
    """Append so many numbers."""
    for number in range(tail.number + 1, tail.number + 1 + count):
        outcome = await sequence.create(tail, content(number, writer))
        assert isinstance(outcome, Won)
        tail = outcome.tail
    return tail


async def collect(sequence: Sequence, store: Store, floor: int, unique: str = "c") -> None:
    """What a collector does: the floor first, then the numbers below it."""
    await sequence.raise_floor(floor, unique)
    for number in range(1, floor + 1):
        await store.delete(sequence.path(number))


class SequenceContract:
    def test_numbers_are_dense_and_start_at_one(self, open_store: OpenStore) -> None:
        async def scenario() -> None:
            sequence = Sequence(open_store(), "s", AsyncRuntime())
            assert (await sequence.tail()).number == 0
            assert (await fill(sequence, 5, fresh())).number == 5
            other = Sequence(open_store(), "s", AsyncRuntime())
            assert [await other.read(number) for number in range(7)] == [
                None,
                *(content(number) for number in range(1, 6)),
                None,
            ]
            assert (await other.tail()).number == 5
            assert await other.read_known(5) == content(5)
            with pytest.raises(LostObject, match="arco doctor"):
                await other.read_known(6)

        asyncio.run(scenario())

    def test_one_of_many_creators_wins_each_number(self, open_store: OpenStore) -> None:
        async def scenario() -> None:
            sequences = [Sequence(open_store(), "s", AsyncRuntime()) for _ in range(WRITERS)]
            for number in range(1, 6):
                tail = fresh(number - 1)
                offers = [content(number, str(writer)) for writer in range(WRITERS)]
                outcomes = await asyncio.gather(
                    *(sequence.create(tail, data) for sequence, data in zip(sequences, offers, strict=True))
                )
                winners = [data for outcome, data in zip(outcomes, offers, strict=True) if isinstance(outcome, Won)]
                assert len(winners) == 1
                assert {outcome.data for outcome in outcomes if isinstance(outcome, Lost)} == {winners[0]}
                assert await sequences[0].read(number) == winners[0]

        asyncio.run(scenario())

    def test_racing_appenders_leave_no_gap_and_no_number_twice(self, open_store: OpenStore) -> None:
        async def append(writer: int, won: dict[int, bytes]) -> None:
            sequence = Sequence(open_store(), "s", AsyncRuntime())
            tail = await sequence.tail()
            for turn in range(3):
                data = f"{writer} {turn}".encode()
                while isinstance(outcome := await sequence.create(tail, data), Lost):
                    tail = Tail(tail.number + 1, tail.proven)
                assert outcome.tail.number not in won
                tail, won[outcome.tail.number] = outcome.tail, data

        async def scenario() -> None:
            won: dict[int, bytes] = {}
            await asyncio.gather(*(append(writer, won) for writer in range(4)))
            assert sorted(won) == list(range(1, 13))
            sequence = Sequence(open_store(), "s", AsyncRuntime())
            assert {number: await sequence.read(number) for number in won} == won

        asyncio.run(scenario())

    def test_an_answer_that_got_lost_is_still_a_win(self, open_store: OpenStore) -> None:
        async def scenario() -> None:
            store = FaultyStore(open_store())
            sequence = Sequence(store, "s", AsyncRuntime())
            store.on("create", error=StoreFailed("time-out"), applied=True)
            outcome = await sequence.create(fresh(), content(1))
            assert isinstance(outcome, Won)
            assert outcome.tail.number == 1
            assert [operation for operation, _ in store.calls] == ["create", "get"]
            assert await sequence.read(1) == content(1)

        asyncio.run(scenario())

    def test_the_same_bytes_are_sent_again_if_nothing_landed(self, open_store: OpenStore) -> None:
        async def scenario() -> None:
            store = FaultyStore(open_store())
            sequence = Sequence(store, "s", AsyncRuntime())
            store.on("create", error=StoreFailed("409, nothing applied"), times=2)
            assert isinstance(await sequence.create(fresh(), content(1)), Won)
            assert [operation for operation, _ in store.calls] == ["create", "get"] * 2 + ["create"]
            assert (await sequence.tail()).number == 1

        asyncio.run(scenario())

    def test_lost_while_the_outcome_was_unknown(self, open_store: OpenStore) -> None:
        async def scenario() -> None:
            store = FaultyStore(open_store())
            rival = Sequence(open_store(), "s", AsyncRuntime())

            async def overtake() -> None:
                await fill(rival, 1, fresh(), "rival")

            store.on("create", error=StoreFailed("reset"), hook=overtake)
            sequence = Sequence(store, "s", AsyncRuntime())
            assert await sequence.create(fresh(), content(1)) == Lost(content(1, "rival"))

        asyncio.run(scenario())

    def test_next_walks_to_the_tail_and_stays_there(self, open_store: OpenStore) -> None:
        async def scenario() -> None:
            await fill(Sequence(open_store(), "s", AsyncRuntime()), 3, fresh())
            reader = Sequence(open_store(), "s", AsyncRuntime())
            tail, seen = fresh(), []
            while not isinstance(found := await reader.next(tail), Tail):
                data, tail = found
                seen.append(data)
            assert seen == [content(1), content(2), content(3)]
            assert found.number == 3
            assert found.proven >= tail.proven

        asyncio.run(scenario())

    def test_racing_collectors_never_lower_the_floor(self, open_store: OpenStore) -> None:
        async def scenario() -> None:
            await fill(Sequence(open_store(), "s", AsyncRuntime()), 12, fresh())
            collectors = [Sequence(open_store(), "s", AsyncRuntime()) for _ in range(6)]
            wanted = [4, 9, 2, 11, 7, 3]
            floors = await asyncio.gather(
                *(one.raise_floor(floor, str(n)) for n, (one, floor) in enumerate(zip(collectors, wanted, strict=True)))
            )
            assert all(floor >= want for floor, want in zip(floors, wanted, strict=True))
            reader = Sequence(open_store(), "s", AsyncRuntime())
            assert await reader.floor() == 11
            objects = sorted([info.path async for info in open_store().list("s/floor")])
            assert objects == [reader.floor_path(k) for k in range(1, len(objects) + 1)]
            stored = [int((await open_store().get(path)).split()[0]) for path in objects]
            assert stored == sorted(set(stored))

        asyncio.run(scenario())

    def test_collection_moves_the_floor_and_keeps_the_tail(self, open_store: OpenStore) -> None:
        async def scenario() -> None:
            store = open_store()
            sequence = Sequence(store, "s", AsyncRuntime())
            tail = await fill(sequence, 8, fresh())
            await collect(sequence, store, 5)
            other = Sequence(open_store(), "s", AsyncRuntime())
            assert await other.floor() == 5
            assert (await other.tail()).number == 8
            assert (await other.tail(hint=3)).number == 8
            assert await sequence.raise_floor(4, "late") == 5
            assert (await fill(sequence, 1, tail)).number == 9

        asyncio.run(scenario())

    def test_who_was_away_too_long_neither_wins_nor_is_current(self, open_store: OpenStore) -> None:
        async def scenario() -> None:
            store, asleep = open_store(), FakeRuntime()
            sleeper = Sequence(open_store(), "s", asleep)
            old = await fill(sleeper, 3, Tail(0, asleep.boottime()))
            others = Sequence(store, "s", AsyncRuntime())
            await fill(others, 5, fresh(3))
            await collect(others, store, 7)
            asleep.suspend(2 * MIN_AGE)
            with pytest.raises(Superseded, match="away too long"):
                await sleeper.next(old)
            with pytest.raises(Superseded, match="away too long"):
                await sleeper.create(old, content(4, "sleeper"))
            assert (await sleeper.tail()).number == 8

        asyncio.run(scenario())


class TestEveryStore(SequenceContract):
    @pytest.fixture
    def open_store(self, any_store: OpenStore) -> OpenStore:
        return any_store


# Failures


def test_a_refusal_with_nothing_sent_is_raised_at_once() -> None:
    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        store.on("create", error=StoreRefused("no space"))
        sequence = Sequence(store, "s", FakeRuntime())
        with pytest.raises(StoreRefused, match="no space"):
            await sequence.create(EMPTY, content(1))
        assert store.calls == [("create", sequence.path(1))]

    run(scenario())


def test_a_refusal_after_a_lost_answer_does_not_hide_the_win() -> None:
    async def scenario() -> None:
        inner = MemoryStore()
        store = FaultyStore(inner)
        sequence = Sequence(store, "s", FakeRuntime())

        async def land_late() -> None:
            await inner.put(sequence.path(1), content(1), only_if_absent=True)

        store.on("create", error=StoreFailed("time-out"))
        store.on("create", error=StoreRefused("no space"), hook=land_late)
        assert isinstance(await sequence.create(EMPTY, content(1)), Won)

    run(scenario())


@pytest.mark.parametrize("then", ["create", "get"])
def test_a_refusal_never_decides_what_is_open(then: str) -> None:
    """The first request may still land, so the answer is "try again", not "the store refuses"."""

    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        sequence = Sequence(store, "s", FakeRuntime())
        store.on("create", error=StoreFailed("time-out"))
        store.on(then, error=StoreRefused("no rights"), times=99)
        with pytest.raises(Unavailable, match="outcome is open"):
            await sequence.create(EMPTY, content(1))
        store.heal()
        assert isinstance(await sequence.create(EMPTY, content(1)), Won)

    run(scenario())


def test_a_floor_that_cannot_be_read_leaves_a_win_open() -> None:
    async def scenario() -> None:
        store, runtime = FaultyStore(MemoryStore()), FakeRuntime()
        sequence = Sequence(store, "s", runtime)
        runtime.suspend(MIN_AGE)
        store.on("head", error=StoreRefused("no rights"), path="floor")
        with pytest.raises(Unavailable, match="outcome is open"):
            await sequence.create(EMPTY, content(1))
        assert isinstance(await sequence.create(EMPTY, content(1)), Won)

    run(scenario())


def test_a_store_that_never_settles_is_unavailable_and_the_same_bytes_win_later() -> None:
    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        sequence = Sequence(store, "s", FakeRuntime())
        store.on("create", error=StoreFailed("503"), times=8)
        with pytest.raises(Unavailable, match="outcome is open"):
            await sequence.create(EMPTY, content(1))
        assert [operation for operation, _ in store.calls].count("create") == 8
        assert isinstance(await sequence.create(EMPTY, content(1)), Won)

    run(scenario())


@pytest.mark.parametrize(("failures", "patient"), [(7, True), (8, False)])
def test_reads_are_repeated_before_the_caller_hears_of_a_failure(failures: int, patient: bool) -> None:
    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        sequence = Sequence(store, "s", FakeRuntime())
        await fill(sequence, 1)
        store.on("get", error=StoreFailed("503"), times=failures)
        if patient:
            assert await sequence.read(1) == content(1)
        else:
            with pytest.raises(Unavailable, match="503"):
                await sequence.read(1)

    run(scenario())


def test_a_read_that_is_refused_is_not_absence() -> None:
    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        sequence = Sequence(store, "s", FakeRuntime())
        for operation in ("get", "head"):
            store.on(operation, error=StoreRefused("403"))
        with pytest.raises(StoreRefused):
            await sequence.read(1)
        with pytest.raises(StoreRefused):
            await sequence.exists(1)
        await fill(sequence, 1)
        store.on("get", error=StoreRefused("403"))
        with pytest.raises(StoreRefused):
            await sequence.create(EMPTY, content(1, "b"))

    run(scenario())


def test_building_on_another_process_s_number_persists_it_first() -> None:
    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        theirs, ours = Sequence(store, "s", FakeRuntime()), Sequence(store, "s", FakeRuntime())
        tail = await fill(theirs, 2)
        store.calls.clear()
        await fill(ours, 2, tail, "b")
        assert store.calls == [
            ("persist", ours.path(2)),
            ("create", ours.path(3)),
            ("create", ours.path(4)),
        ]

    run(scenario())


def test_building_on_a_number_that_is_gone_is_superseded_before_anything_is_sent() -> None:
    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        theirs, ours = Sequence(store, "s", FakeRuntime()), Sequence(store, "s", FakeRuntime())
        tail = await fill(theirs, 2)
        await store.inner.delete(theirs.path(2))

        async def look() -> None:
            await store.inner.get(theirs.path(2))

        store.on("persist", hook=look)  # memory has nothing to persist and would not miss it
        with pytest.raises(Superseded, match="re-read the tail"):
            await ours.create(tail, content(3))
        assert ("create", ours.path(3)) not in store.calls

    run(scenario())


# The tail


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_tail_is_found_from_any_hint(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 5000), "size")
    floor = data.draw(st.integers(0, max(size - 1, 0)), "floor")
    hint = data.draw(st.one_of(st.integers(0, 2 * size + 2), st.integers(0, 2**40)), "hint")
    kept = data.draw(st.sets(st.integers(1, max(floor, 1)), max_size=10), "not yet deleted")

    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        sequence = Sequence(store, "s", FakeRuntime())
        for number in (*range(floor + 1, size + 1), *(n for n in kept if n <= floor)):
            await store.inner.put(sequence.path(number), b"", only_if_absent=False)
        if floor:
            await sequence.raise_floor(floor, "c")
        store.calls.clear()
        assert (await Sequence(store, "s", FakeRuntime()).tail(hint)).number == size
        assert len(store.calls) <= 10 + 2 * (size - floor).bit_length() + 2 * size.bit_length()

    run(scenario())


@settings(max_examples=60, deadline=None)
@given(size=st.integers(2, 300), when=st.integers(0, 30), hint=st.integers(0, 300), data=st.data())
def test_the_tail_is_right_while_numbers_are_deleted(size: int, when: int, hint: int, data: st.DataObject) -> None:
    floor = data.draw(st.integers(1, size - 1), "floor")
    grown = data.draw(st.integers(0, 5), "grown")

    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        sequence = Sequence(store, "s", FakeRuntime())
        collector = Sequence(store.inner, "s", FakeRuntime())
        for number in range(1, size + 1):
            await store.inner.put(sequence.path(number), content(number), only_if_absent=True)

        async def interfere() -> None:
            for number in range(size + 1, size + grown + 1):
                await store.inner.put(sequence.path(number), content(number), only_if_absent=True)
            await collect(collector, store.inner, floor)

        store.on("head", hook=interfere, skip=when)
        asked = len(store.calls)
        found = (await sequence.tail(hint)).number
        interfered = len(store.calls) - asked > when
        assert size <= found <= size + (grown if interfered else 0)

    run(scenario())


def test_a_tail_that_keeps_moving_is_unavailable() -> None:
    async def scenario() -> None:
        inner = MemoryStore()
        store = FaultyStore(inner)
        sequence, collector = Sequence(store, "s", FakeRuntime()), Sequence(inner, "s", FakeRuntime())
        tail = await fill(collector, 3)

        async def run_ahead() -> None:
            nonlocal tail
            tail = await fill(collector, 10, tail)
            await collect(collector, inner, tail.number - 1)

        store.on("head", hook=run_ahead, times=10_000, path="s/0")
        with pytest.raises(Unavailable, match="moves faster"):
            await sequence.tail()

    run(scenario())


def test_a_floor_without_a_number_above_it_is_a_lost_object() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        sequence = Sequence(store, "s", FakeRuntime())
        await fill(sequence, 5)
        await collect(sequence, store, 3)
        for number in (4, 5):
            await store.delete(sequence.path(number))
        with pytest.raises(LostObject, match="arco doctor"):
            await Sequence(store, "s", FakeRuntime()).tail()

    run(scenario())


# The floor


def test_a_floor_that_is_not_a_number_is_corrupt() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        sequence = Sequence(store, "s", FakeRuntime())
        await store.put(sequence.floor_path(1), b"minus one", only_if_absent=True)
        with pytest.raises(Corrupt, match="arco doctor"):
            await sequence.floor()

    run(scenario())


def test_a_floor_whose_answer_got_lost_is_raised_once() -> None:
    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        sequence = Sequence(store, "s", FakeRuntime())
        store.on("create", error=StoreFailed("time-out"), applied=True)
        assert await sequence.raise_floor(3, "c") == 3
        assert not await sequence._is_there(sequence.floor_path(2))

    run(scenario())


def test_a_floor_that_cannot_be_written_is_unavailable() -> None:
    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        sequence = Sequence(store, "s", FakeRuntime())
        store.on("create", error=StoreFailed("503"), times=8)
        with pytest.raises(Unavailable, match="nothing was deleted"):
            await sequence.raise_floor(3, "c")
        assert await sequence.floor() == 0

    run(scenario())


@pytest.mark.parametrize(("age", "asks"), [(MIN_AGE / 4, False), (MIN_AGE / 4 + 1, True)])
def test_the_floor_is_read_only_when_the_proof_is_old(age: float, asks: bool) -> None:
    async def scenario() -> None:
        store, runtime = FaultyStore(MemoryStore()), FakeRuntime()
        sequence = Sequence(store, "s", runtime)
        tail = await fill(sequence, 1)
        runtime.suspend(age)
        store.calls.clear()
        await sequence.next(tail)
        assert (("head", sequence.floor_path(1)) in store.calls) == asks
        store.calls.clear()
        await sequence.create(tail, content(2))
        assert (("head", sequence.floor_path(1)) in store.calls) == asks

    run(scenario())


def test_a_proof_counts_from_when_its_request_was_sent() -> None:
    """The machine sleeps while the store works: what it says afterwards is as old as the question."""

    async def scenario() -> None:
        store, runtime = FaultyStore(MemoryStore()), FakeRuntime()
        sequence = Sequence(store, "s", runtime)

        async def sleep() -> None:
            runtime.suspend(1000)

        store.on("create", hook=sleep, applied=True)
        tail = await fill(sequence, 1, Tail(0, runtime.boottime()))
        assert tail == Tail(1, 0.0)
        store.on("get", hook=sleep)
        assert await sequence.next(tail) == Tail(1, 1000.0)
        store.on("head", hook=sleep, path="s/0", times=2)
        assert await sequence.tail(1) == Tail(1, 2000.0)

    run(scenario())


def test_a_win_that_is_recognised_late_proves_nothing_new() -> None:
    """A create lands, its answer is lost and the machine sleeps. Meanwhile others go on, and soon after the machine
    wakes a collector deletes the next number: winning it must not count."""

    async def scenario() -> None:
        store, runtime = FaultyStore(MemoryStore()), FakeRuntime()
        sequence, others = Sequence(store, "s", runtime), Sequence(store.inner, "s", FakeRuntime())
        store.on("create", error=StoreFailed("time-out"), applied=True)
        store.on("get", error=StoreFailed("time-out"), times=8)
        with pytest.raises(Unavailable):
            await sequence.create(EMPTY, content(1))
        await fill(others, 3, Tail(1, 0.0), "others")
        runtime.suspend(2 * MIN_AGE)
        outcome = await sequence.create(EMPTY, content(1))
        assert isinstance(outcome, Won)
        await collect(others, store.inner, 3)
        with pytest.raises(Superseded):
            await sequence.create(outcome.tail, content(2))

    run(scenario())


def test_a_number_below_the_floor_is_not_won_even_if_the_create_succeeds() -> None:
    async def scenario() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        sequence = Sequence(store, "s", runtime)
        tail = await fill(sequence, 2)
        others = Sequence(store, "s", FakeRuntime())
        await fill(others, 4, tail)
        await collect(others, store, 5)
        runtime.suspend(MIN_AGE)
        with pytest.raises(Superseded, match="floor 5") as raised:
            await sequence.create(tail, content(3, "late"))
        assert raised.value.details == {"number": 3, "floor": 5}

    run(scenario())


# Requests


class Counted:
    """A workspace in memory whose requests are counted."""

    def __init__(self) -> None:
        self.faulty = FaultyStore(MemoryStore())
        self.counts = RequestCounts()
        self.runtime = FakeRuntime()
        self._before = Counter[str]()

    def handle(self, role: Role) -> Sequence:
        store = RoleStore(self.faulty, Scope("acme", "prod"), role, self.counts)
        return Sequence(store, "inc-1/ledger/catalog", self.runtime)

    def requests(self) -> dict[str, int]:
        """Those since the last call, by operation."""
        now = Counter({operation.value: self.counts.count(operation=operation) for operation in Operation})
        since = now - self._before
        self._before = now
        return dict(since)


def test_what_creating_costs() -> None:
    async def scenario() -> None:
        world = Counted()
        owner, rival = world.handle(Role.OWNER), world.handle(Role.OWNER)
        first = await fill(owner, 1, Tail(0, world.runtime.boottime()))
        assert world.requests() == {"create": 1}
        assert isinstance(await rival.create(first, content(2, "rival")), Won)
        assert world.requests() == {"create": 1}
        assert isinstance(await owner.create(first, content(2)), Lost)
        assert world.requests() == {"create": 1, "get": 1}
        second = Tail(2, first.proven)
        world.faulty.on("create", error=StoreFailed("time-out"), applied=True)
        assert isinstance(await owner.create(second, content(3)), Won)
        assert world.requests() == {"create": 1, "get": 1}
        world.runtime.suspend(MIN_AGE)
        await fill(owner, 1, Tail(3, first.proven))
        assert world.requests() == {"create": 1, "head": 1}

    run(scenario())


def test_what_following_costs() -> None:
    async def scenario() -> None:
        world = Counted()
        await fill(world.handle(Role.OWNER), 2)
        world.requests()
        reader = world.handle(Role.READER)
        found = await reader.next(Tail(1, world.runtime.boottime()))
        assert not isinstance(found, Tail)
        assert world.requests() == {"get": 1}
        tail = await reader.next(found[1])
        assert isinstance(tail, Tail)
        assert world.requests() == {"get": 1}
        world.runtime.suspend(MIN_AGE)
        await reader.next(tail)
        assert world.requests() == {"get": 1, "head": 1}

    run(scenario())


def test_what_finding_the_tail_costs() -> None:
    async def scenario() -> None:
        world = Counted()
        assert (await world.handle(Role.READER).tail()).number == 0
        assert world.requests() == {"head": 3}
        await fill(world.handle(Role.OWNER), 1000)
        world.requests()
        assert (await world.handle(Role.READER).tail(hint=1000)).number == 1000
        assert world.requests() == {"head": 4}
        assert (await world.handle(Role.READER).tail(hint=990)).number == 1000
        assert world.requests() == {"head": 10}
        assert (await world.handle(Role.READER).tail()).number == 1000
        assert world.requests() == {"head": 21}

    run(scenario())


def test_what_the_floor_costs() -> None:
    async def scenario() -> None:
        world = Counted()
        await fill(world.handle(Role.OWNER), 9)
        world.requests()
        collector = world.handle(Role.COLLECTOR)
        assert await collector.raise_floor(3, "c") == 3
        assert world.requests() == {"create": 1, "head": 4, "get": 1}
        assert await collector.raise_floor(3, "c") == 3
        assert world.requests() == {"head": 1}
        reader = world.handle(Role.READER)
        assert await reader.floor() == 3
        assert world.requests() == {"head": 3, "get": 1}
        assert await reader.floor() == 3
        assert world.requests() == {"head": 1}
        assert (await reader.tail()).number == 9
        assert world.requests() == {"head": 7}

    run(scenario())
