"""The owner: one segment for many commands, one answer for each, and never an answer that the log contradicts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from arco.core import (
    DAY,
    HOUR,
    MINUTE,
    Conflict,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Outdated,
    StoreRefused,
    Superseded,
    TooLarge,
    Unavailable,
)
from arco.domains.catalog import CATALOG, NAMES, NAMESPACES, ROOT
from arco.log import MAX_SEGMENT_BYTES, NewEvent, Owner, Receipt, number_of, position_of
from arco.log import _owner as owners
from arco.state import Decision, Definition, Domain, View, define_log
from arco.storage import Operation, StoreFailed
from tests.doubles import run
from tests.log.world import ACTIVITY_LOG, Node, World, paths, raw


async def slowly(world: World) -> None:
    await world.runtime.sleep(0.05)


def test_commands_that_arrive_during_a_put_share_the_next_segment() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        owner = node.owner()
        node.store.on("create", hook=lambda: slowly(world), times=99)
        first = asyncio.create_task(owner.submit(world.create("first")))
        await world.runtime.sleep(0.01)
        others = [asyncio.create_task(owner.submit(world.create(f"n{n:02d}"))) for n in range(40)]
        receipts = await asyncio.gather(first, *others)
        assert [len(segment.events) for segment in await world.segments()] == [1, 40]
        assert node.requests(Operation.CREATE) == 2
        assert [receipt.position for receipt in receipts[1:]] == [position_of(2, index) for index in range(40)]
        assert (await world.events())[1].operation == receipts[1].operation

    run(scenario())


def test_facts_are_grouped_too_and_keep_their_order_and_span() -> None:
    async def scenario() -> None:
        world = World(ACTIVITY_LOG)
        node = world.node()
        owner = node.owner()
        batches = [[world.materialization() for _ in range(size)] for size in (1, 3, 2)]
        receipts = await asyncio.gather(*(owner.submit(world.facts(*batch)) for batch in batches))
        assert node.requests(Operation.CREATE) == 1
        assert [(int(r.first) & 0xFFFFF, int(r.last) & 0xFFFFF) for r in receipts] == [(0, 0), (1, 3), (4, 5)]
        assert [event.span for event in await world.events()] == [1, 3, 3, 3, 2, 2]

    run(scenario())


def test_a_member_sees_the_earlier_members_of_its_group() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        owner = node.owner()
        results = await asyncio.gather(
            owner.submit(world.create("a")),
            owner.submit(world.create("a", "b")),
            owner.submit(world.create("a")),
            owner.submit(world.drop("nowhere")),
            owner.submit(world.drop("a", "b")),
            owner.submit(world.create("c", "d")),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [Receipt, Receipt, Conflict, NotFound, Receipt, NotFound]
        assert [segment.header.number for segment in await world.segments()] == [1]
        assert [event.type for event in await world.events()] == [
            "NamespaceCreated",
            "NamespaceCreated",
            "NamespaceDropped",
        ]
        assert await node.names() == ["a"]

    run(scenario())


def test_the_writer_and_its_fold_versions_stand_in_the_header() -> None:
    async def scenario() -> None:
        world = World()
        await world.node("me").owner().submit(world.create("a"))
        (segment,) = await world.segments()
        assert segment.header.writer == "me"
        assert segment.header.folds == world.definition.versions
        assert segment.header.received == world.runtime.now()

    run(scenario())


def test_times_in_the_log_do_not_go_back_with_the_clock() -> None:
    async def scenario() -> None:
        world = World()
        owner = world.node().owner()
        await owner.submit(world.create("a"))
        world.runtime.set_back(3 * MINUTE)
        await owner.submit(world.create("b"))
        first, second = await world.segments()
        assert second.header.received == first.header.received

    run(scenario())


def test_the_age_of_ids_goes_by_the_log_s_time_too() -> None:
    """Retention goes by it: with a clock that is behind, a key would be taken whose first use is forgotten."""

    async def scenario() -> None:
        world = World()
        owner, key, operation = world.node().owner(), world.ulid(), world.ulid()
        await world.runtime.sleep((7 * DAY + MINUTE) / 1_000_000)
        await owner.submit(world.create("a"))
        world.runtime.set_back(HOUR)
        with pytest.raises(Invalid, match="the request key is older than 7 days"):
            await owner.submit(world.create("b", key=key))
        with pytest.raises(Invalid, match="the operation id is older than 7 days"):
            await owner.submit(world.create("b", operation=operation))
        await owner.submit(world.create("b", key=world.ulid()))

    run(scenario())


def test_what_was_answered_is_read_at_once() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        owner = node.owner()
        for name in ("a", "b", "c"):
            receipt = await owner.submit(world.create(name))
            found = await node.replica.get(NAMES, ROOT, (ROOT, "namespace", name))
            row = await node.replica.get(NAMESPACES, found.object_id, found.object_id)
            assert row.name == name
            assert node.follower.watermark >= receipt.position

    run(scenario())


def test_a_group_that_outgrows_a_segment_goes_on_in_the_next() -> None:
    async def scenario() -> None:
        world = World(ACTIVITY_LOG)
        node = world.node()
        owner = node.owner()
        large = [world.facts(world.materialization(schema_hash="x" * 900_000)) for _ in range(10)]
        receipts = await asyncio.gather(*(owner.submit(command) for command in large))
        assert [len(segment.events) for segment in await world.segments()] == [9, 1]
        assert len({receipt.position for receipt in receipts}) == 10

    run(scenario())


# Refusals


def test_a_refusal_writes_nothing_and_costs_one_request() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        owner = node.owner()
        await owner.submit(world.create("a"))
        before = node.counts.table()
        with pytest.raises(Conflict, match="exists already"):
            await owner.submit(world.create("a"))
        assert node.requests(*Operation) - sum(before.values()) == 1
        assert len(await world.segments()) == 1

    run(scenario())


def test_a_refusal_holds_at_the_tail_not_at_an_older_state() -> None:
    """Another process dropped the name meanwhile: what the stale state would refuse is left to the next owner."""

    async def scenario() -> None:
        world = World()
        stale, other = world.node("a"), world.node("b")
        owner = stale.owner()
        await owner.submit(world.create("x"))
        await other.gateway.submit(world.drop("x"))
        with pytest.raises(Superseded):
            await owner.submit(world.create("x"))
        await stale.gateway.submit(world.create("x"))
        assert paths(await world.events()) == ["x", "x"]

    run(scenario())


def test_a_refusal_that_rests_on_a_member_falls_with_it() -> None:
    """Two creates of one name: the first one's segment loses its number, so neither answer may be given."""

    async def scenario() -> None:
        world = World()
        node, rival = world.node("a"), world.node("b")
        owner = node.owner()

        async def overtake() -> None:
            await rival.owner().submit(world.create("y"))

        node.store.on("create", hook=overtake)
        results = await asyncio.gather(
            owner.submit(world.create("x")), owner.submit(world.create("x")), return_exceptions=True
        )
        assert [type(result) for result in results] == [Superseded, Superseded]
        assert paths(await world.events()) == ["y"]

    run(scenario())


def test_events_of_one_command_that_fit_no_segment_are_refused() -> None:
    async def scenario() -> None:
        async def decide(command: Any, view: View, decision: Decision) -> list[NewEvent]:
            return [world.namespace_event(f"n{n}", properties={"x": "y" * 900_000}) for n in range(10)]

        world = World(_with_command("Burst", decide))
        node = world.node()
        owner = node.owner()
        with pytest.raises(TooLarge, match="split the command"):
            await owner.submit(world.command(Burst()))
        await owner.submit(world.create("a"))
        assert paths(await world.events()) == ["a"]

    run(scenario())


def test_a_command_without_events_is_answered_with_everything_before_it() -> None:
    async def scenario() -> None:
        async def decide(command: Any, view: View, decision: Decision) -> list[NewEvent]:
            return []

        world = World(_with_command("Burst", decide))
        node = world.node()
        owner = node.owner()
        alone = await owner.submit(world.command(Burst()))
        assert (alone.position, await world.segments()) == (position_of(1, 0) - 1, [])
        created, after = await asyncio.gather(owner.submit(world.create("a")), owner.submit(world.command(Burst())))
        assert after.position == created.position

    run(scenario())


class Burst(msgspec.Struct):
    pass


def _with_command(name: str, decide: Callable[[Any, View, Decision], Awaitable[list[NewEvent]]]) -> Definition:
    extra = Domain("extra", "catalog", 1, (), (), {name: (Burst, decide)})
    return define_log("catalog", [CATALOG, extra])


# Other owners


def test_a_lost_number_ends_the_owner_and_appends_nothing() -> None:
    async def scenario() -> None:
        world = World()
        node, rival = world.node("a"), world.node("b")
        owner = node.owner()
        await owner.submit(world.create("mine"))
        await rival.gateway.submit(world.create("theirs"))
        with pytest.raises(Superseded, match="ask the owner that the hint names"):
            await owner.submit(world.create("late"))
        assert owner.ended
        assert await node.names() == ["mine", "theirs"]
        assert [segment.header.writer for segment in await world.segments()] == ["a", "b"]
        with pytest.raises(Superseded):
            await owner.submit(world.create("later"))

    run(scenario())


def test_a_sealed_log_takes_nothing() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        owner = node.owner()
        await owner.submit(world.create("a"))
        await world.append(seal=True)
        with pytest.raises(Superseded):
            await owner.submit(world.create("b"))
        with pytest.raises(Superseded, match="reopen"):
            await node.owner().submit(world.create("b"))
        assert paths(await world.events()) == ["a"]

    run(scenario())


def test_an_outdated_program_appends_nothing() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        await world.append(folds={"catalog": 2})
        await node.follower.catch_up()
        with pytest.raises(Outdated, match="upgrade"):
            await node.owner().submit(world.create("b"))
        assert await world.events() == []

    run(scenario())


def test_a_fold_that_was_set_back_during_a_validation_is_validated_again() -> None:
    async def scenario() -> None:
        world, node, key = await published()

        async def restart() -> None:
            await node.follower.restart(lambda: node.replica.reset(node.replica.base))

        node.store.on("get_range", hook=restart)
        with pytest.raises(Conflict, match=key):
            await node.owner().submit(world.facts(world.materialization(), key=key))
        assert node.follower.epoch == 1
        assert len(await world.segments()) == 1

    run(scenario())


# Callers that go away


@pytest.mark.parametrize("moment", ["queued", "in flight"])
def test_a_cancelled_caller_neither_undoes_nor_repeats_its_command(moment: str) -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        owner = node.owner()
        node.store.on("create", hook=lambda: slowly(world), times=99)
        if moment == "queued":
            asyncio.get_running_loop().create_task(owner.submit(world.create("first")))
            await world.runtime.sleep(0.01)
        command = world.create("x")
        caller = asyncio.create_task(owner.submit(command))
        await world.runtime.sleep(0.01)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        again = await owner.submit(command)
        assert again.replayed
        assert paths(await world.events()).count("x") == 1
        assert (await world.events())[number_of(again.position) - 1].operation == command.operation

    run(scenario())


def test_closing_settles_what_is_queued() -> None:
    async def scenario() -> None:
        world = World()
        owner = world.node().owner()
        waiting = [asyncio.create_task(owner.submit(world.create(name))) for name in ("a", "b")]
        await asyncio.sleep(0)
        await owner.close()
        assert [(await task).replayed for task in waiting] == [False, False]
        assert paths(await world.events()) == ["a", "b"]
        with pytest.raises(Superseded, match="gives up the log"):
            await owner.submit(world.create("c"))

    run(scenario())


def test_closing_an_idle_owner_is_immediate() -> None:
    async def scenario() -> None:
        owner = World().node().owner()
        await asyncio.sleep(0)
        await owner.close()
        assert owner.ended

    run(scenario())


def test_only_so_many_commands_wait_for_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "MAX_QUEUE", 3)

    async def scenario() -> None:
        world = World()
        node = world.node()
        owner = node.owner()
        node.store.on("create", hook=lambda: slowly(world))
        first = asyncio.create_task(owner.submit(world.create("first")))
        await world.runtime.sleep(0.01)
        waiting = [asyncio.create_task(owner.submit(world.create(f"n{n}"))) for n in range(2)]
        await world.runtime.sleep(0.01)
        with pytest.raises(Unavailable, match="3 commands wait for the log catalog already"):
            await owner.submit(world.create("too many"))
        await asyncio.gather(first, *waiting)
        await owner.submit(world.create("later"))
        assert paths(await world.events()) == ["first", "n0", "n1", "later"]

    run(scenario())


# Stores that fail


def test_a_full_disk_refuses_and_the_next_command_works_when_there_is_space() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        await node.gateway.submit(world.create("a"))
        node.store.on("create", error=StoreRefused("no space left; free some"), times=2)
        for _ in range(2):
            with pytest.raises(StoreRefused, match="no space left"):
                await node.gateway.submit(world.create("b"))
        await node.gateway.submit(world.create("b"))
        assert paths(await world.events()) == ["a", "b"]
        assert await node.names() == ["a", "b"]

    run(scenario())


def test_an_open_outcome_is_settled_with_the_same_bytes_before_anything_else() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        owner = node.owner()
        node.store.on("create", error=StoreFailed("503"), times=20)
        first = asyncio.create_task(owner.submit(world.create("a")))
        await world.runtime.sleep(1)
        second = asyncio.create_task(owner.submit(world.create("b")))
        await asyncio.gather(first, second)
        assert [paths(segment.events) for segment in await world.segments()] == [["a"], ["b"]]
        assert node.requests(Operation.CREATE) == 22

    run(scenario())


def test_an_open_outcome_that_landed_is_won_once() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        owner = node.owner()
        node.store.on("create", error=StoreFailed("time-out"), applied=True)
        node.store.on("get", error=StoreFailed("503"), path="ledger", times=12)
        receipt = await owner.submit(world.create("a"))
        assert receipt.position == position_of(1, 0)
        assert paths(await world.events()) == ["a"]

    run(scenario())


@pytest.mark.parametrize("applied", [True, False])
def test_a_refusal_does_not_close_an_open_outcome(applied: bool) -> None:
    """The first request may still land, so the answer cannot be "the store refuses": it is "ask by the id"."""

    async def scenario() -> None:
        world = World()
        node = world.node()
        owner = node.owner()
        command = world.create("a")
        node.store.on("create", error=StoreFailed("time-out"), applied=applied)
        node.store.on("get", error=StoreFailed("503"), path="ledger", times=8)
        node.store.on("create", error=StoreRefused("read-only"), times=99)
        if applied:
            node.store.on("get", error=StoreRefused("forbidden"), path="ledger", times=99)
        with pytest.raises(OutcomeUnknown):
            await owner.submit(command)
        assert paths(await world.events()) == (["a"] if applied else [])
        node.store.heal()
        assert (await node.gateway.submit(command)).replayed == applied
        assert paths(await world.events()) == ["a"]

    run(scenario())


def test_a_state_that_cannot_be_read_refuses_before_the_append() -> None:
    async def scenario() -> None:
        world, node, key = await published()
        node.store.on("get_range", error=StoreFailed("503"))
        with pytest.raises(Unavailable, match="503"):
            await node.owner().submit(world.facts(world.materialization(), key=key))
        assert len(await world.segments()) == 1

    run(scenario())


def test_a_state_that_cannot_be_read_after_the_append_leaves_only_the_log_to_know() -> None:
    async def scenario() -> None:
        world, node, _ = await published()
        owner = node.owner()
        node.store.on("get_range", error=StoreFailed("503"))
        with pytest.raises(OutcomeUnknown, match="appended, but"):
            await owner.submit(world.facts(world.materialization()))
        assert len(await world.segments()) == 2
        await node.follower.catch_up()
        assert node.follower.tail.number == 2

    run(scenario())


async def published() -> tuple[World, Node, str]:
    """A log with a published revision, a process that has loaded no row of it yet, and a request key used before."""
    world = World(ACTIVITY_LOG)
    first, key = world.node("first"), world.ulid()
    await first.gateway.submit(world.facts(world.materialization(), key=key))
    node = world.node("second", base=await first.publish())
    await node.follower.catch_up()
    return world, node, key


def test_a_bug_in_the_loop_leaves_only_the_log_to_know() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        owner: Owner = node.owner()
        node.store.on("create", error=ZeroDivisionError("a bug"), applied=True)
        with pytest.raises(OutcomeUnknown, match="stopped unexpectedly"):
            await owner.submit(world.create("a"))
        with pytest.raises(Superseded):
            await owner.submit(world.create("b"))
        with pytest.raises(ZeroDivisionError):
            await owner.close()

    run(scenario())


def test_an_event_of_the_largest_size_fits() -> None:
    async def scenario() -> None:
        world = World(ACTIVITY_LOG)
        event = world.materialization(schema_hash="x" * (MAX_SEGMENT_BYTES // 8 - 1_000))
        await world.node().owner().submit(world.facts(event))
        assert [raw(stored.data) for stored in await world.events()] == [raw(event.data)]

    run(scenario())
