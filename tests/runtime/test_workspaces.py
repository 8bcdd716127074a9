"""Many workspaces in one process: opened once when asked for, closed when idle or when there is no room."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import LostObject, RateLimited, Unavailable
from arco.runtime import OPEN_BYTES, ROW_BYTES, Bounds, Lease, Workspaces
from arco.runtime._workspaces import BUSY_SECONDS, MAX_UNKNOWN, MISSES, STRANGER_SECONDS, UNKNOWN_SECONDS
from arco.storage import Scope
from tests.doubles import FakeRuntime, run

IDLE = 600.0


def scope(index: int) -> Scope:
    return Scope("acme", f"w{index}")


class Fake:
    """One that is open."""

    workspace: Any = None

    def __init__(self, house: "House", name: Scope) -> None:
        self.house = house
        self.name = name
        self.busy = self.over = False
        self.held = 0
        self.dirty = 0
        self.lost: LostObject | None = None

    def is_busy(self) -> bool:
        return self.busy

    async def is_over(self) -> bool:
        if self.lost is not None:
            raise self.lost
        return self.over

    def bytes_held(self) -> int:
        return ROW_BYTES * self.held

    def shed(self) -> None:
        self.held = self.dirty

    async def close(self) -> None:
        assert self.house.open.pop(self.name) is self
        if self.house.slow:
            await self.house.runtime.sleep(self.house.slow)
        self.house.closed.append(self.name)
        if self.house.close_error:
            raise self.house.close_error


class House:
    def __init__(self, bounds: Bounds | None = None, exists: int = 1000, named: list[Scope] | None = None) -> None:
        self.runtime = FakeRuntime()
        self.exists = {scope(index) for index in range(exists)}
        self.open: dict[Scope, Fake] = {}
        self.opened: list[Scope] = []
        self.closed: list[Scope] = []
        self.error: BaseException | None = None
        self.close_error: Unavailable | None = None
        self.slow = 0.0
        self.all = Workspaces(self.runtime, self._open, self._exists, bounds or Bounds(IDLE), named)

    async def _open(self, name: Scope) -> Fake:
        await self.runtime.sleep(self.slow)
        if self.error is not None:
            raise self.error
        assert name not in self.open, "opened twice"
        self.opened.append(name)
        self.open[name] = Fake(self, name)
        return self.open[name]

    async def _exists(self, name: Scope) -> bool:
        await self.runtime.sleep(self.slow)
        return name in self.exists

    async def use(self, index: int, rows: int = 0) -> Lease:
        lease = await self.all.use(scope(index))
        assert lease is not None
        lease.accept()
        self.open[scope(index)].held += rows
        return lease

    async def ask(self, index: int, rows: int = 0) -> Fake:
        """A request that is answered at once."""
        (await self.use(index, rows)).release()
        return self.open[scope(index)]


def played(work: Callable[[House], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        house = House(**options)
        await work(house)
        await house.all.close()
        assert not house.open

    run(main())


def test_requests_that_come_at_once_share_one_opening() -> None:
    async def work(house: House) -> None:
        house.slow = 0.5
        leases = await asyncio.gather(*(house.all.use(scope(1)) for _ in range(50)))
        assert house.opened == [scope(1)]
        assert house.all.lookups == 1
        for lease in leases:
            assert lease is not None
            lease.release()

    played(work)


def test_who_gives_up_does_not_end_the_opening_for_others() -> None:
    async def work(house: House) -> None:
        house.slow = 1.0
        first = asyncio.ensure_future(house.all.use(scope(1)))
        await asyncio.sleep(1.5)  # it exists, and is being opened
        second = asyncio.ensure_future(house.all.use(scope(1)))
        await asyncio.sleep(0.1)
        first.cancel()
        lease = await second
        assert lease is not None
        assert house.opened == [scope(1)]
        lease.release()

    played(work)


def test_a_failed_opening_is_told_to_all_who_waited_and_the_next_one_tries_anew() -> None:
    async def work(house: House) -> None:
        house.slow, house.error = 0.1, Unavailable("the store is away")
        found = await asyncio.gather(*(house.all.use(scope(1)) for _ in range(3)), return_exceptions=True)
        assert [type(error) for error in found] == [Unavailable] * 3
        assert house.all.memory == 0
        house.error = None
        assert (await house.ask(1)).name == scope(1)

    played(work)


def test_one_that_nobody_asks_for_is_closed_and_opened_again() -> None:
    async def work(house: House) -> None:
        await house.ask(1)
        await house.runtime.sleep(IDLE - 1)
        await house.ask(1)
        await house.runtime.sleep(IDLE - 1)
        assert house.closed == []
        await house.runtime.sleep(2)
        assert house.closed == [scope(1)]
        assert house.all.memory == 0
        await house.ask(1)
        assert house.opened == [scope(1), scope(1)]
        assert house.all.lookups == 1, "that it exists is known"

    played(work)


def test_one_that_is_used_or_busy_stays_open() -> None:
    async def work(house: House) -> None:
        held = await house.use(1)
        busy = await house.ask(2)
        busy.busy = True
        await house.runtime.sleep(3 * IDLE)
        assert house.closed == []
        busy.busy = False
        await house.runtime.sleep(BUSY_SECONDS + 1)
        assert house.closed == [scope(2)]
        held.release()
        await house.runtime.sleep(IDLE - 1)
        assert house.closed == [scope(2)]
        await house.runtime.sleep(IDLE)
        assert house.closed == [scope(2), scope(1)]

    played(work)


def test_who_has_no_valid_key_keeps_nothing_open() -> None:
    async def work(house: House) -> None:
        for _ in range(5):
            lease = await house.all.use(scope(1))
            assert lease is not None
            lease.release()
            await house.runtime.sleep(STRANGER_SECONDS / 6)
        assert house.opened == [scope(1)], "and does not have it opened again and again"
        await house.runtime.sleep(STRANGER_SECONDS)
        assert house.closed == [scope(1)]

    played(work)


def test_a_name_that_nobody_knows_is_asked_for_once() -> None:
    async def work(house: House) -> None:
        assert await asyncio.gather(*(house.all.use(scope(5000)) for _ in range(20))) == [None] * 20
        assert await house.all.use(scope(5000)) is None
        assert house.all.lookups == 1
        house.exists.add(scope(5000))
        await house.runtime.sleep(UNKNOWN_SECONDS)
        await house.ask(5000)
        assert house.all.lookups == 2

    played(work)


def test_one_that_cannot_be_found_any_more_is_refused_like_a_name_that_nobody_knows() -> None:
    async def work(house: House) -> None:
        held = await house.use(1)
        await house.ask(2)
        await house.runtime.sleep(IDLE + 1)
        assert house.closed == [scope(2)]
        house.slow, house.error = 0.1, LostObject("incarnations/1 is missing", path="incarnations/1")
        asked = await asyncio.gather(*(house.all.use(scope(2)) for _ in range(5)))
        assert asked == [None] * 5
        assert house.all.lost(scope(2)) is house.error
        house.error = AssertionError("it is remembered")
        assert await house.all.use(scope(2)) is None
        house.error = LostObject("ledger/catalog/7 is missing", path="ledger/catalog/7")
        with pytest.raises(LostObject):
            await house.use(3)
        held.release()

    played(work)


def test_one_that_is_over_and_cannot_be_found_any_more_is_closed() -> None:
    async def work(house: House) -> None:
        fake = await house.ask(1)
        fake.lost = LostObject("incarnations/1 is missing", path="incarnations/1")
        house.exists.clear()
        assert await house.all.use(scope(1)) is None
        await house.runtime.sleep(1)
        assert house.closed == [scope(1)]
        assert await house.all.use(scope(1)) is None

    played(work)


def test_nobody_can_make_it_search_the_bucket() -> None:
    async def work(house: House) -> None:
        await house.ask(1)
        refused = 0
        for index in range(10_000, 10_000 + 3 * MISSES):
            try:
                assert await house.all.use(scope(index)) is None
            except RateLimited:
                refused += 1
        assert house.all.lookups == MISSES + 1
        assert refused == 2 * MISSES
        await house.ask(1)
        await house.runtime.sleep(1)
        await house.ask(2)

    played(work)


def test_what_is_remembered_of_unknown_names_is_bounded() -> None:
    async def work(house: House) -> None:
        for index in range(MAX_UNKNOWN + 100):
            house.all._remember_unknown(scope(100_000 + index))
        assert len(house.all._unknown) == MAX_UNKNOWN

    played(work)


def test_with_names_given_no_other_is_asked_for() -> None:
    async def work(house: House) -> None:
        await house.ask(1)
        assert await house.all.use(scope(2)) is None
        assert house.all.lookups == 1

    played(work, named=[scope(1)])


def test_rows_go_first_and_then_whole_workspaces_the_least_recently_used_first() -> None:
    async def work(house: House) -> None:
        for index in range(4):
            await house.ask(index, rows=100)
            await house.runtime.sleep(2)
        house.open[scope(1)].dirty = 100
        await house.ask(0)
        assert house.all.memory == 4 * (OPEN_BYTES + 100 * ROW_BYTES)
        await house.runtime.sleep(2)
        await house.ask(3, rows=200)
        await house.runtime.sleep(0.1)
        # 2 was used before 0 and 3, and 1 cannot let go of what is not published.
        assert [house.open[scope(index)].held for index in (0, 1, 2, 3)] == [0, 100, 0, 300]
        assert not house.closed
        await house.runtime.sleep(2)
        lease = await house.use(4, rows=500)
        house.open[scope(4)].dirty = 500
        lease.release()
        await house.runtime.sleep(0.1)
        assert house.all.memory == 3 * OPEN_BYTES + 500 * ROW_BYTES
        assert house.closed == [scope(1), scope(2)]

    played(work, bounds=Bounds(IDLE, 4 * OPEN_BYTES + 450 * ROW_BYTES))


def test_whoever_comes_while_it_closes_waits_and_opens_it_anew() -> None:
    async def work(house: House) -> None:
        await house.ask(1)
        house.slow = 5.0
        await house.runtime.sleep(IDLE + 1)
        assert not house.open
        await house.ask(1)
        assert house.opened == [scope(1), scope(1)]

    played(work)


def test_trouble_while_closing_is_no_trouble_for_the_next_one() -> None:
    async def work(house: House) -> None:
        await house.ask(1)
        house.close_error = Unavailable("the store is away")
        await house.runtime.sleep(IDLE + 1)
        assert house.closed == [scope(1)]
        await house.ask(1)

    played(work)


def test_a_workspace_whose_life_ended_is_opened_anew_once_nobody_uses_it() -> None:
    async def work(house: House) -> None:
        held = await house.use(1)
        old = house.open[scope(1)]
        old.over = True
        assert await house.all.take_part(scope(1)) is None
        asking = asyncio.ensure_future(house.use(1))
        await house.runtime.sleep(1)
        assert not asking.done()
        held.release()
        (await asking).release()
        assert house.open[scope(1)] is not old

    played(work)


def test_one_that_is_kept_open_is_never_closed_but_lets_go_of_rows() -> None:
    async def work(house: House) -> None:
        found = await house.ask(1, rows=1000)
        await house.runtime.sleep(100 * IDLE)
        assert house.closed == []
        assert found.held == 0

    played(work, bounds=Bounds(None, 500 * ROW_BYTES))


def test_a_thousand_idle_ones_wake_nobody() -> None:
    async def work(house: House) -> None:
        for index in range(1000):
            await house.ask(index)
        swept, sweep = 0, house.all._sweep

        def counted() -> float:
            nonlocal swept
            swept += 1
            return sweep()

        house.all._sweep = counted  # type: ignore[method-assign]
        await house.runtime.sleep(IDLE - 1)
        assert swept <= 2
        await house.runtime.sleep(2)
        assert not house.open
        assert swept < 10

    played(work)


def test_nothing_is_opened_once_it_ends() -> None:
    async def work(house: House) -> None:
        house.slow = 1.0
        opening = asyncio.ensure_future(house.all.use(scope(1)))
        await asyncio.sleep(1.5)
        await house.all.close()
        with pytest.raises(Unavailable):
            await house.use(2)
        await opening
        assert not house.open

    played(work)


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["ask", "hold", "drop", "wait", "busy", "free"])), max_size=60
    )
)
def test_whatever_happens_one_that_is_held_is_open_and_memory_adds_up(steps: list[tuple[int, str]]) -> None:
    async def work(house: House) -> None:
        held: dict[int, list[Lease]] = {}
        for index, step in steps:
            match step:
                case "ask":
                    await house.ask(index, rows=30)
                case "hold":
                    held.setdefault(index, []).append(await house.use(index))
                case "drop":
                    if held.get(index):
                        held[index].pop().release()
                case "wait":
                    await house.runtime.sleep(IDLE / 3)
                case "busy" | "free":
                    if scope(index) in house.open:
                        house.open[scope(index)].busy = step == "busy"
            assert all(scope(index) in house.open for index, leases in held.items() if leases)
        for leases in held.values():
            for lease in leases:
                lease.release()
        for fake in house.open.values():
            fake.busy = False
        await house.runtime.sleep(3 * IDLE)
        assert not house.open
        assert house.all.memory == 0

    played(work, bounds=Bounds(IDLE, 3 * OPEN_BYTES + 100 * ROW_BYTES))
