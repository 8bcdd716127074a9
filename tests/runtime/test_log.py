"""Reading the present: how fresh it is, what it costs, and that an answer belongs to exactly one position."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from arco.core import NotFound, Stale, Unavailable, new_ulid
from arco.log import Receipt, decode_segment, position_of
from arco.runtime import BOUND, OpenLog, Workspace, init_workspace
from arco.state import Cadence, Collector, Replica, Snapshot, define_log
from arco.storage import MemoryStore, Role, Store, StoreFailed
from tests.doubles import FakeRuntime, FaultyStore
from tests.runtime.world import SCOPE, run
from tests.simulation.claims import ATTEMPTS, CLAIMS, Claim, Finish, Release

LOG = define_log("activity", [CLAIMS])


def on_memory(test: Callable[[FakeRuntime, Store], Coroutine[Any, Any, None]]) -> None:
    async def main(runtime: FakeRuntime) -> None:
        store = MemoryStore(runtime)
        await init_workspace(store, SCOPE, runtime)
        await test(runtime, store)

    run(main)


async def opened(runtime: FakeRuntime, store: Store, **options: Any) -> Workspace:
    return await Workspace.open(store, SCOPE, runtime, definitions=[LOG], test_store=False, **options)


async def claim(workspace: Workspace, attempt: str, **more: Any) -> Receipt:
    return await workspace.decide("activity", Claim(attempt, "w"), actor="me", **more)


def worker_of(attempt: str) -> Callable[[Replica | Snapshot], Coroutine[Any, Any, str | None]]:
    async def work(view: Replica | Snapshot) -> str | None:
        row = await view.get(ATTEMPTS, attempt, attempt)
        return row.worker if row is not None else None

    return work


# How fresh


def test_a_strong_read_sees_what_another_process_appended_at_one_request_if_nothing_is_new() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        one, two = await opened(runtime, store), await opened(runtime, store, compact=False)
        log = two.logs["activity"]
        receipt = await claim(one, "a")
        found, position = await log.read(worker_of("a"))
        assert (found, position >= receipt.position) == ("w", True)
        before = two.counts.count()
        assert await log.read(worker_of("a")) == (found, position)
        assert two.counts.count() - before == 1
        await one.close()

    on_memory(test)


def test_another_read_is_behind_by_the_bound_at_most_and_makes_no_request_meanwhile() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        one, two = await opened(runtime, store), await opened(runtime, store, compact=False)
        log = two.logs["activity"]
        assert await log.read(worker_of("a"), strong=False) == (None, position_of(1, 0) - 1)
        await claim(one, "a")
        before = two.counts.count()
        assert await log.read(worker_of("a"), strong=False) == (None, position_of(1, 0) - 1)
        assert two.counts.count() == before
        await runtime.sleep(BOUND + 0.1)
        assert (await log.read(worker_of("a"), strong=False))[0] == "w"
        await one.close()

    on_memory(test)


def test_an_owner_that_was_replaced_is_behind_by_the_bound_at_most() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        one, two = await opened(runtime, store), await opened(runtime, store)
        await claim(one, "a")
        await claim(two, "b")  # no way to the first, so it takes over
        assert one.logs["activity"].owning
        await runtime.sleep(BOUND + 0.1)
        assert (await one.logs["activity"].read(worker_of("b"), strong=False))[0] == "w"
        await one.close()
        await two.close()

    on_memory(test)


def test_a_read_waits_for_the_position_it_names_and_not_for_one_that_does_not_exist() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        one, two = await opened(runtime, store), await opened(runtime, store, compact=False)
        log = two.logs["activity"]
        await log.current()
        receipt = await claim(one, "a")
        found, position = await log.read(worker_of("a"), strong=False, min_position=receipt.position)
        assert (found, position >= receipt.position) == ("w", True)
        with pytest.raises(Stale, match="ends before position"):
            await log.current(strong=False, min_position=position + 1)
        # What somebody asked for in vain is not taken for something that exists.
        await claim(two, "b")
        await one.close()
        await two.close()

    on_memory(test)


def test_many_strong_reads_at_once_share_their_looks() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        slow = FaultyStore(store)
        workspace = await opened(runtime, slow, compact=False)
        log = workspace.logs["activity"]
        await claim(workspace, "a")

        async def wait() -> None:
            await runtime.sleep(0.05)

        slow.on("get", path="/ledger/", hook=wait, times=1000)
        before, started = workspace.counts.count(), runtime.boottime()
        first = asyncio.create_task(log.current())
        await asyncio.sleep(0)
        await asyncio.gather(first, *(log.current() for _ in range(100)))
        assert workspace.counts.count() - before == 2, "one was on its way already, and serves only who asked before"
        assert runtime.boottime() - started < 0.2

    on_memory(test)


def test_a_look_that_fails_fails_who_asked_and_nobody_else() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        faulty = FaultyStore(store)
        workspace = await opened(runtime, faulty, compact=False)
        log = workspace.logs["activity"]
        faulty.on("get", path="/ledger/", error=StoreFailed("503"), times=1000)
        outcomes = await asyncio.gather(*(log.current() for _ in range(3)), return_exceptions=True)
        assert all(isinstance(found, Unavailable) for found in outcomes)
        faulty.heal()
        assert await log.current() == position_of(1, 0) - 1
        asked = asyncio.create_task(log.current())
        other = asyncio.create_task(log.current())
        await asyncio.sleep(0)
        asked.cancel()
        assert await other == position_of(1, 0) - 1, "a caller that goes away takes nobody with it"

    on_memory(test)


# One position


def test_a_read_is_repeated_when_the_state_moves_under_it() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store) as workspace:
            log = workspace.logs["activity"]
            for name in ("a", "b"):
                await claim(workspace, name)
            runs = 0

            async def both(view: Replica | Snapshot) -> tuple[str, str]:
                nonlocal runs
                runs += 1
                one = await view.get(ATTEMPTS, "a", "a")
                if runs <= 2:
                    await _swap(workspace)
                two = await view.get(ATTEMPTS, "b", "b")
                return one.state, two.state

            (one, two), position = await log.read(both)
            assert (runs, one == two) == (3, True)
            assert position == log.replica.watermark

    on_memory(test)


async def _swap(workspace: Workspace) -> None:
    """Change both attempts in one step: a reader that sees one of the changes is mixed."""
    for name in ("a", "b"):
        row = await workspace.logs["activity"].replica.get(ATTEMPTS, name, name)
        command = Release(name, "w") if row.state == "claimed" else Claim(name, "w")
        await workspace.decide("activity", command, actor="me")


def test_a_read_that_never_finds_a_quiet_moment_is_done_on_a_frozen_copy() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store) as workspace:
            log = workspace.logs["activity"]
            for name in ("a", "b"):
                await claim(workspace, name)
            views: list[Replica | Snapshot] = []

            async def both(view: Replica | Snapshot) -> tuple[str, str]:
                views.append(view)
                one = await view.get(ATTEMPTS, "a", "a")
                await _swap(workspace)
                two = await view.get(ATTEMPTS, "b", "b")
                return one.state, two.state

            (one, two), position = await log.read(both)
            assert one == two
            assert isinstance(views[-1], Snapshot)
            assert position == views[-1].position < log.replica.watermark
            assert len(views) < 20

    on_memory(test)


def test_a_refusal_counts_only_if_nothing_moved() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store) as workspace:
            log = workspace.logs["activity"]
            runs = 0

            async def must_exist(view: Replica | Snapshot) -> str:
                nonlocal runs
                runs += 1
                row = await view.get(ATTEMPTS, "a", "a")
                if runs == 1:
                    await claim(workspace, "a")
                if row is None:
                    raise NotFound("no such attempt")
                return str(row.worker)

            assert (await log.read(must_exist))[0] == "w"
            assert runs == 2

            async def refuse(view: Replica | Snapshot) -> None:
                raise NotFound("no such attempt")

            with pytest.raises(NotFound):
                await log.read(refuse)

    on_memory(test)


def test_a_read_while_the_state_is_set_back_waits_until_it_is_there_again() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        faulty = FaultyStore(store)
        async with await opened(runtime, faulty, cadence=Cadence(interval=1000)) as workspace:
            log = workspace.logs["activity"]
            last = [await claim(workspace, f"n{number}") for number in range(5)][-1]

            async def slow() -> None:
                await runtime.sleep(0.1)

            await log.current()
            faulty.on("get", path="/ledger/", hook=slow, times=100)
            base = log.replica.base
            restarting = asyncio.create_task(log.follower.restart(lambda: log.replica.reset(base)))
            while log.replica.watermark >= last.position:
                await asyncio.sleep(0)
            found, position = await log.read(worker_of("n4"), strong=False)
            assert (found, position >= last.position) == ("w", True)
            await restarting

    on_memory(test)


def test_who_idled_while_its_files_were_collected_reads_on_from_the_newest_revision() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        busy = await opened(runtime, store, cadence=Cadence(fan_in=4))
        await busy.published("activity", (await claim(busy, "a")).position)
        idle = await opened(runtime, store, compact=False)
        for number in range(12):
            await busy.published("activity", (await claim(busy, f"n{number}")).position)
        log = busy.logs["activity"]
        await log.compactor.compact()
        runtime.suspend(40 * 24 * 3600.0)
        await busy.published("activity", (await claim(busy, "later")).position)
        assert (await Collector(busy.handle(Role.COLLECTOR), log.place, runtime).collect()).files
        assert (await idle.logs["activity"].read(worker_of("a")))[0] == "w"
        assert (await idle.logs["activity"].read(worker_of("later")))[0] == "w"
        await busy.close()

    on_memory(test)


def test_a_frozen_state_stays_what_it_is() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store) as workspace:
            log = workspace.logs["activity"]
            await claim(workspace, "a")
            before = await log.frozen()
            await workspace.decide("activity", Finish("a", "w"), actor="me")
            await claim(workspace, "b")
            after = await log.frozen(strong=False)
            assert (await before.scan(ATTEMPTS)).column("state").to_pylist() == ["claimed"]
            assert sorted((await after.scan(ATTEMPTS)).column("state").to_pylist()) == ["claimed", "finished"]
            assert before.position < after.position

    on_memory(test)


def test_who_was_away_for_many_revisions_does_not_read_them_all() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        busy, away = await opened(runtime, store), await opened(runtime, store, compact=False)
        last = 0
        for number in range(200):
            last = (await claim(busy, f"n{number}")).position
            await busy.published("activity", last)
            await runtime.sleep(0.3)
        before = away.counts.count()
        assert await away.logs["activity"].is_published(last)
        assert away.counts.count() - before < 50
        await busy.close()

    on_memory(test)


# The past, and what became of an operation


def test_the_state_as_of_a_time_is_what_had_been_received_by_then() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store) as workspace:
            log = workspace.logs["activity"]
            times = []
            for name in "abc":
                await claim(workspace, name)
                times.append(runtime.now())
                await runtime.sleep(10)
            for count, time in enumerate(times, 1):
                assert (await (await log.snapshot(time=time)).scan(ATTEMPTS)).num_rows == count

    on_memory(test)


def test_an_operation_is_found_by_its_id_wherever_it_was_carried_out() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        one, two = await opened(runtime, store), await opened(runtime, store, compact=False)
        operation = new_ulid(runtime, runtime)
        receipt = await claim(one, "a", operation=operation)
        found = await two.find_operation("activity", receipt.operation)
        assert found is not None
        assert (found.operation, found.position) == (operation, receipt.position)
        assert await two.find_operation("activity", new_ulid(runtime, runtime)) is None
        await one.close()

    on_memory(test)


def test_what_belongs_together_can_be_found_by_its_correlation_and_trace() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store) as workspace:
            trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            await claim(workspace, "a", correlation="req-1", traceparent=trace)
            event = await _last_event(workspace.logs["activity"])
            assert (event.correlation, event.traceparent) == ("req-1", trace)

    on_memory(test)


async def _last_event(log: OpenLog) -> Any:
    number = log.follower.tail.number
    return decode_segment(await log.follower.sequence.read_known(number), "").events[-1]
