"""Restoring where there is no incarnation: into an empty store, never beside a workspace that lost its first one."""

import pytest

from arco.core import LostObject, Superseded
from arco.domains.catalog import CreateNamespace
from arco.runtime import read_incarnation
from arco.storage import MemoryStore, Store
from tests.backup.test_restore import check_healthy
from tests.backup.world import Crash, Dying, back_up, fill, in_vault, open_again, paths, put_back
from tests.iceberg.house import House, Process
from tests.runtime.world import SCOPE, made

FIRST = f"{SCOPE.root}/incarnations/{0:013d}/{1:020d}"


def test_a_workspace_that_lost_its_first_incarnation_is_not_restored_over() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        first = await house.objects.get(FIRST)
        await house.objects.delete(FIRST)
        before = await paths(house.objects)
        with pytest.raises(LostObject, match=process.workspace.incarnation.id):
            await put_back(house, store, replace=True)
        assert await paths(house.objects) == before
        await process.decide(CreateNamespace(("still",)))
        await house.objects.put(FIRST, first, only_if_absent=True)
        await put_back(house, store, replace=True)
        with pytest.raises(Superseded):
            await process.decide(CreateNamespace(("lost",)))
        again = await house.open()
        assert again.workspace.incarnation.number == 2
        await check_healthy(again)

    in_vault(main)


def test_what_others_copied_back_does_not_stand_in_the_way() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        fresh = MemoryStore()
        for path in ("data/a/1.parquet", "warehouse/t/data/1.parquet", "landing/x.csv", "logs/x"):
            await fresh.put(f"{SCOPE.root}/{path}", b"x", only_if_absent=True)
        await put_back(house, store, into=fresh)
        await check_healthy(await open_again(house, fresh))

    in_vault(main)


@pytest.mark.parametrize("applied", [False, True])
def test_a_restore_into_an_empty_store_that_dies_anywhere_is_finished_by_the_next(applied: bool) -> None:
    last = 1
    while last:
        last = _dies_at(last, applied)


def _dies_at(last: int, applied: bool) -> int:
    """One try; returns the request at which the next one is to die, or 0 if this one came to its end."""
    following = 0

    async def main(house: House, process: Process, store: Store) -> None:
        nonlocal following
        await process.create("a.one")
        await process.workspace.record("activity", [made(house.runtime, "m1")], actor="ann")
        await back_up(process, store)
        fresh = MemoryStore()
        try:
            await put_back(house, store, through=Dying(fresh, last, applied=applied))
        except Crash:
            following = last + 5
            if not await paths(fresh, f"{SCOPE.root}/incarnations"):
                await put_back(house, store, into=fresh)
        again = await open_again(house, fresh)
        assert again.workspace.incarnation.number == 1
        await check_healthy(again)

    in_vault(main)
    return following


def test_what_was_restored_and_written_on_and_then_lost_is_not_restored_over() -> None:
    """The same backup makes the same folder again, which is in use by now."""

    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        fresh = MemoryStore()
        await put_back(house, store, into=fresh)
        again = await open_again(house, fresh)
        await again.decide(CreateNamespace(("after",)))
        await fresh.delete(FIRST)
        with pytest.raises(LostObject, match=again.workspace.incarnation.id):
            await put_back(house, store, into=fresh)
        assert not await paths(fresh, f"{SCOPE.root}/incarnations")

    in_vault(main)


def test_the_leftovers_of_another_restore_are_told() -> None:
    """They may as well be a workspace in use: nothing says that nobody opened it."""

    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        await process.decide(CreateNamespace(("more",)))
        await back_up(process, store)
        fresh = MemoryStore()
        with pytest.raises(Crash):
            await put_back(house, store, number=1, through=Dying(fresh, 60, applied=True))
        with pytest.raises(LostObject, match="`arco restore` into this store was interrupted, run the same one again"):
            await put_back(house, store, number=2, into=fresh)
        done = await put_back(house, store, number=1, into=fresh)
        assert await read_incarnation(fresh, SCOPE, house.runtime) == done.incarnation

    in_vault(main)
