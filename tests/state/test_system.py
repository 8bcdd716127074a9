"""What every log decides about itself: how far retention may reach, and which request keys it knows."""

import asyncio

import pytest

from arco.core import HOUR, Conflict, Refused
from arco.log import KEY_LIFE, MAX_AHEAD
from arco.state import AUDIT, OPERATIONS, REQUESTS, RETENTION, AdvanceRetention
from tests.doubles import run
from tests.log.world import World
from tests.state.toy import SetNote, toy


@pytest.mark.parametrize("table", ["operations", "requests"])
def test_what_recognises_repetitions_outlives_every_id_that_is_still_accepted(table: str) -> None:
    """An id may be dated `MAX_AHEAD` into the future and is then accepted that much longer."""

    async def scenario() -> None:
        world = World()
        node = world.node()
        limit = world.runtime.now() - KEY_LIFE - MAX_AHEAD
        with pytest.raises(Refused, match=f"{table} must be kept for the 7 days"):
            await node.gateway.submit(world.command(AdvanceRetention(table, limit + 1)))
        await node.gateway.submit(world.command(AdvanceRetention(table, limit)))
        assert node.replica.retention[table][-1][1] == limit

    run(scenario())


def test_retention_is_known_by_table_and_does_not_go_back() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        now = world.runtime.now()
        for before in (now - HOUR, now):
            await node.gateway.submit(world.command(AdvanceRetention("rejections", before)))
        for before in (now, now - 1, 1):
            with pytest.raises(Refused, match="has reached 2026-01-01T00:00"):
                await node.gateway.submit(world.command(AdvanceRetention("rejections", before)))
        row = await node.replica.get(RETENTION, "rejections", "rejections")
        assert (row.before, row.actor) == (now, "ann")
        assert await node.replica.get(RETENTION, "operations", "operations") is None
        assert len(await world.events()) == 2

    run(scenario())


def test_a_command_that_changes_nothing_is_known_by_its_key_although_the_state_changes_later() -> None:
    async def scenario() -> None:
        world = World(toy(audit=True))
        node = world.node()
        await node.gateway.submit(world.command(SetNote("a", "x")))
        key = world.ulid()
        idle = world.command(SetNote("a", "x"), key=key)
        first = await node.gateway.submit(idle)
        assert [event.type for event in await world.events()] == ["NoteSet", "NothingChanged"]
        await node.gateway.submit(world.command(SetNote("a", "y")))
        again = await node.gateway.submit(world.command(SetNote("a", "x"), key=key))
        assert (again.operation, again.first, again.replayed) == (first.operation, first.first, True)
        assert (await node.replica.get(REQUESTS, key, key)).operation == idle.operation
        assert (await node.replica.get(OPERATIONS, idle.operation, idle.operation)).command == "SetNote"
        with pytest.raises(Conflict, match="was used for another request"):
            await node.gateway.submit(world.command(SetNote("a", "z"), key=key))
        assert len(await world.events()) == 3
        assert (await node.replica.scan(AUDIT)).column("action").to_pylist() == ["Set", "Set"]

    run(scenario())


def test_a_command_that_changes_nothing_and_has_no_key_leaves_nothing() -> None:
    async def scenario() -> None:
        world = World(toy())
        node = world.node()
        await node.gateway.submit(world.command(SetNote("a", "x")))
        receipt = await node.gateway.submit(world.command(SetNote("a", "x")))
        assert not receipt.replayed
        assert receipt.position < 2 << 20
        assert len(await world.events()) == 1

    run(scenario())


def test_of_two_equal_commands_in_one_group_the_second_leaves_only_its_key() -> None:
    async def scenario() -> None:
        world = World(toy())
        node = world.node()
        one, two = (world.command(SetNote("a", "x"), key=world.ulid()) for _ in range(2))
        answers = await asyncio.gather(node.gateway.submit(one), node.gateway.submit(two))
        assert [event.type for event in await world.events()] == ["NoteSet", "NothingChanged"]
        assert [answer.operation for answer in answers] == [one.operation, two.operation]

    run(scenario())
