"""Repetition: the same operation, or the same request under its key, is one command, whoever owns the log."""

import asyncio

import msgspec
import pytest

from arco.core import (
    Conflict,
    Invalid,
    Refused,
)
from arco.log import Receipt
from tests.doubles import run
from tests.log.world import ACTIVITY_LOG, World, owned, paths


def test_the_same_operation_twice_is_one_command() -> None:
    async def scenario() -> None:
        world = World()
        node, other = await owned(world), world.node("other")
        command = world.create("x")
        first, *again = await asyncio.gather(
            node.gateway.submit(command), node.gateway.submit(command), other.gateway.submit(command)
        )
        later = await other.gateway.submit(command)
        assert not first.replayed
        for receipt in (*again, later):
            assert receipt == Receipt(first.operation, first.first, first.last, replayed=True)
        assert paths(await world.events()) == ["first", "x"]

    run(scenario())


def test_the_same_operation_is_known_after_a_change_of_owners() -> None:
    async def scenario() -> None:
        world = World()
        node, command = await owned(world), world.create("x")
        first = await node.gateway.submit(command)
        await node.gateway.close()
        later = await world.node("next").gateway.submit(command)
        assert later == Receipt(first.operation, first.first, first.last, replayed=True)

    run(scenario())


@pytest.mark.parametrize("kind", ["decided", "recorded"])
def test_the_same_key_with_the_same_request_gives_the_same_receipt(kind: str) -> None:
    async def scenario() -> None:
        world = World() if kind == "decided" else World(ACTIVITY_LOG)
        node, key = world.node(), world.ulid()
        if kind == "decided":
            original = world.create("x", key=key)
        else:
            original = world.facts(world.materialization(), world.materialization(), key=key)
        first = await node.gateway.submit(original)
        retry = msgspec.structs.replace(original, operation=world.ulid())
        again = await node.gateway.submit(retry)
        assert again == Receipt(first.operation, first.first, first.last, replayed=True)
        assert len(await world.segments()) == 1

    run(scenario())


@pytest.mark.parametrize("together", [True, False])
def test_the_same_key_with_another_request_is_a_conflict_that_names_both(together: bool) -> None:
    async def scenario() -> None:
        world = World()
        node, key = world.node(), world.ulid()
        one, two = world.create("x", key=key), world.create("y", key=key)
        if together:
            results = await asyncio.gather(*(node.gateway.submit(c) for c in (one, two)), return_exceptions=True)
            assert isinstance(results[0], Receipt)
            conflict = results[1]
        else:
            await node.gateway.submit(one)
            with pytest.raises(Conflict) as raised:
                await node.gateway.submit(two)
            conflict = raised.value
        assert isinstance(conflict, Conflict)
        assert conflict.details == {"stored": one.request_hash(), "given": two.request_hash()}
        assert one.request_hash() in conflict.message
        assert two.request_hash() in conflict.message
        assert paths(await world.events()) == ["x"]

    run(scenario())


def test_another_actor_s_key_is_not_his_key() -> None:
    async def scenario() -> None:
        world = World()
        node, key = world.node(), world.ulid()
        command = world.create("x", key=key)
        await node.gateway.submit(command)
        with pytest.raises(Conflict):
            await node.gateway.submit(msgspec.structs.replace(command, actor="bob", operation=world.ulid()))

    run(scenario())


def test_a_refused_request_does_not_use_up_its_key() -> None:
    async def scenario() -> None:
        world = World()
        node, key = world.node(), world.ulid()
        command = world.create("a", "b", key=key)
        with pytest.raises(Refused):
            await node.gateway.submit(command)
        await node.gateway.submit(world.create("a"))
        assert not (await node.gateway.submit(command)).replayed

    run(scenario())


def test_a_keyed_fact_that_the_fold_rejects_is_refused_and_does_not_use_up_its_key() -> None:
    async def scenario() -> None:
        world = World(ACTIVITY_LOG)
        node, key = world.node(), world.ulid()
        with pytest.raises(Refused, match="MaterializationCompleted cannot be folded"):
            await node.gateway.submit(world.facts(world.materialization(status="weird"), key=key))
        assert await world.events() == []
        assert not (await node.gateway.submit(world.facts(world.materialization(), key=key))).replayed

    run(scenario())


def test_a_malformed_key_is_refused_at_the_door() -> None:
    async def scenario() -> None:
        world = World()
        with pytest.raises(Invalid, match="carries no time"):
            await world.node().gateway.submit(world.create("x", key="tomorrow"))

    run(scenario())
