"""What every log decides about itself: how far retention may reach, and that it never goes back."""

import pytest

from arco.core import HOUR, Refused
from arco.log import KEY_LIFE, MAX_AHEAD
from arco.state import RETENTION, AdvanceRetention
from tests.doubles import run
from tests.log.world import World


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
