"""What a live workspace is told to have done, after all that makes its revisions few."""

import pytest

from arco.cost import Usage, measure_usage
from arco.domains.catalog import CreateNamespace
from arco.runtime import DEFINITIONS
from arco.storage import Role, Store
from tests.backup.world import back_up, fill, in_vault, open_again, put_back
from tests.iceberg.house import House, Process, in_house

DAYS = 86_400.0


async def used(process: Process, days: int) -> Usage:
    workspace = process.workspace
    places = [workspace.logs[known.log].revisions.place for known in DEFINITIONS]
    reader = workspace.handle(Role.READER)
    return await measure_usage(reader, places, workspace.incarnation, process.runtime, days=days, listing=False)


async def change(process: Process, name: str) -> None:
    receipt = await process.workspace.decide("catalog", CreateNamespace((name,)), actor="ann")
    await process.workspace.published("catalog", receipt.position)


def test_a_workspace_that_rested_did_little_although_it_is_old() -> None:
    async def main(house: House, process: Process) -> None:
        for number in range(20):
            await change(process, f"n{number}")
        await house.runtime.sleep(60 * DAYS)
        await change(process, "new")
        found = await used(process, 7)
        assert [day.segments for day in found.days] == [1, 0, 0, 0, 0, 0, 0]
        assert sum(day.revisions for day in found.days) <= 2, "a merge may have been adopted"

    in_house(main)


def test_the_first_of_thirty_days_is_a_day_like_the_others() -> None:
    async def main(house: House, process: Process) -> None:
        for number in range(20):
            await change(process, f"first{number}")
        for number in range(40):
            await house.runtime.sleep(DAYS)
            await change(process, f"n{number}")
        await house.runtime.sleep(DAYS / 2)
        found = await used(process, 30)
        assert [day.segments for day in found.days] == [1] * 30

    in_house(main)


@pytest.mark.parametrize("days", [1, 7])
def test_what_a_restore_brought_along_was_not_written_since(days: int) -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        for number in range(20):
            await change(process, f"n{number}")
        await house.runtime.sleep(3 * DAYS)
        await back_up(process, store)
        await put_back(house, store)
        again = await open_again(house)
        await change(again, "new")
        found = await used(again, days)
        assert len(found.days) == 1, "it was born today"
        assert found.days[0].segments == 3, "two that say where it comes from, and a change"

    in_vault(main)
