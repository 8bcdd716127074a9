"""The stream carries won segments to other replicas; whoever is slow reads what it missed from the store."""

import asyncio

import pytest

from arco.core import Unavailable
from arco.log import SegmentStream, follow
from arco.storage import Operation, Tail
from tests.doubles import FakeRuntime, run
from tests.log.world import World


def test_what_is_published_arrives_in_order() -> None:
    async def scenario() -> None:
        runtime = FakeRuntime()
        stream = SegmentStream(runtime)
        early = stream.subscribe()
        waiting = asyncio.create_task(early.next())
        await asyncio.sleep(0)
        for number in (1, 2):
            stream.publish(Tail(number, 0.0), b"%d" % number)
        assert await waiting == (Tail(1, 0.0), b"1")
        late = stream.subscribe()
        stream.publish(Tail(3, 0.0), b"3")
        assert await early.next() == (Tail(2, 0.0), b"2")
        assert await early.next() == (Tail(3, 0.0), b"3")
        assert await late.next() == (Tail(3, 0.0), b"3")

    run(scenario())


def test_a_closed_subscription_gets_nothing_more() -> None:
    async def scenario() -> None:
        world = World()
        stream = world.node().stream
        subscription = stream.subscribe()
        subscription.close()
        subscription.close()
        stream.publish(Tail(1, 0.0), b"1")
        done, _ = await asyncio.wait([asyncio.create_task(subscription.next())], timeout=1)
        assert not done

    run(scenario())


def test_a_stream_that_ends_hands_over_what_it_has_and_sends_everybody_away() -> None:
    async def scenario() -> None:
        stream = SegmentStream(FakeRuntime())
        waiting, behind = stream.subscribe(), stream.subscribe()
        stream.publish(Tail(1, 0.0), b"1")
        assert await waiting.next() == (Tail(1, 0.0), b"1")
        asked = asyncio.create_task(waiting.next())
        await asyncio.sleep(0)
        stream.close()
        with pytest.raises(Unavailable, match="has ended"):
            await asked
        assert await behind.next() == (Tail(1, 0.0), b"1")
        with pytest.raises(Unavailable, match="has ended"):
            await behind.next()
        with pytest.raises(Unavailable, match="has ended"):
            await stream.subscribe().next()

    run(scenario())


def test_a_follower_on_the_stream_needs_no_request() -> None:
    async def scenario() -> None:
        world = World()
        owner, reader = world.node("a"), world.node("b")
        task = world.runtime.spawn(follow(owner.stream.subscribe(), reader.follower), "follow")
        for name in ("x", "y", "z"):
            await owner.gateway.submit(world.create(name))
        await world.runtime.sleep(0.01)
        assert await reader.names() == ["x", "y", "z"]
        assert reader.requests(*Operation) == 0
        task.cancel()

    run(scenario())


def test_a_slow_subscriber_reads_what_it_missed_from_the_store() -> None:
    async def scenario() -> None:
        world = World()
        owner, reader = world.node("a"), world.node("b")
        subscription = owner.stream.subscribe()
        for number in range(300):  # more than a subscription keeps
            await owner.gateway.submit(world.create(f"n{number:03d}"))
        kept = 0
        while reader.follower.tail.number < 300:
            tail, data = await subscription.next()
            await reader.follower.accept(data, tail)
            kept += 1
        assert kept <= 256
        assert await reader.names() == [f"n{number:03d}" for number in range(300)]
        assert reader.requests(Operation.GET) > 40

    run(scenario())


def test_the_owner_s_proof_of_the_tail_is_not_taken_over() -> None:
    """Another process has another clock, so its follower must look itself before it calls a number absent."""

    async def scenario() -> None:
        world = World()
        owner, reader = world.node("a"), world.node("b")
        task = world.runtime.spawn(follow(owner.stream.subscribe(), reader.follower), "follow")
        await owner.gateway.submit(world.create("x"))
        await world.runtime.sleep(0.01)
        assert reader.follower.tail == Tail(1, float("-inf"))
        task.cancel()

    run(scenario())
