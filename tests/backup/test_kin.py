"""Workspaces that have a name in common and nothing else keep out of each other's backups."""

import pytest

from arco.core import Refused
from arco.domains.catalog import CreateNamespace
from arco.runtime import init_workspace
from arco.storage import MemoryStore, Store
from tests.backup.world import back_up, digests, fill, in_vault, open_again, put_back
from tests.iceberg.house import House, Process
from tests.runtime.world import SCOPE


async def namesake(house: House) -> tuple[Process, MemoryStore]:
    """A workspace of the same name in a store of its own."""
    other = MemoryStore()
    await init_workspace(other, SCOPE, house.runtime)
    process = await open_again(house, other)
    await process.decide(CreateNamespace(("theirs",)))
    return process, other


def test_a_namesake_cannot_back_up_among_the_backups_of_another() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        other, _ = await namesake(house)
        with pytest.raises(Refused, match=f"are of {process.workspace.incarnation.id} .* name another store with --to"):
            await back_up(other, store)
        assert (await back_up(process, store)).backup.number == 2

    in_vault(main)


def test_the_newest_backup_of_a_namesake_replaces_a_workspace_only_if_it_is_named() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        expected = await digests(process.workspace)
        _, other = await namesake(house)
        with pytest.raises(Refused, match="say which you mean with --backup"):
            await put_back(house, store, into=other)
        await put_back(house, store, into=other, number=1)
        found = await digests((await open_again(house, other)).workspace)
        assert found["catalog.namespaces"] == expected["catalog.namespaces"]

    in_vault(main)


def test_who_was_restored_elsewhere_goes_on_with_the_backups_it_comes_from() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        await put_back(house, store)
        process = await house.open()
        await back_up(process, store)
        moved = MemoryStore()
        await put_back(house, store, into=moved, number=1)
        elsewhere = await open_again(house, moved)
        assert (await back_up(elsewhere, store)).backup.number == 3, "the newest is of a life that it does not know of"
        assert (await back_up(process, store)).backup.number == 4
        await put_back(house, store)

    in_vault(main)
