"""Damage: who reads is told of it; who changes something and wrote nothing is told so, and else that nobody knows."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from arco.core import Corrupt, OutcomeUnknown
from arco.iceberg import CommitFailed
from tests.iceberg.house import House, Process, commit_of, created, in_house
from tests.runtime.world import SCOPE

T, U = ("a", "t"), ("a", "u")
SET = {"action": "set-properties", "updates": {"k": "v"}}

Change = Callable[[Process], Awaitable[Any]]
CHANGES: dict[str, Change] = {
    "commit": lambda process: process.tables.commit(T, commit_of(SET), process.who()),
    "commit with a key": lambda process: process.tables.commit(T, commit_of(SET), process.who(process.key())),
    "transaction": lambda process: process.tables.commit_all([(T, commit_of(SET)), (U, commit_of(SET))], process.who()),
    "create": lambda process: process.tables.create(T, created(), process.who()),
    "drop": lambda process: process.tables.drop(T, process.who()),
    "drop with a key": lambda process: process.tables.drop(T, process.who(process.key())),
    "rename": lambda process: process.tables.rename(T, ("b", "t"), process.who()),
    "rename to it": lambda process: process.tables.rename(U, T, process.who()),
    "unregister": lambda process: process.tables.unregister(T, process.who()),
}


async def _spoil(house: House, process: Process, table_id: str, number: int) -> None:
    """Something that is no pointer has the number."""
    path = process.iceberg.pointers.sequence(table_id).path(number)
    await house.objects.put(f"{SCOPE.root}/{path}", b"{", only_if_absent=True)


async def _objects(house: House) -> list[str]:
    return [info.path async for info in house.objects.list("")]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_meets_damage_first_is_told_that_nothing_was_written(name: str) -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.create("a.t")
        await process.create("a.u")
        await _spoil(house, process, made.table_id, 2)
        before = await _objects(house)
        with pytest.raises(CommitFailed, match=r"nothing was written.* is no pointer.*arco doctor"):
            await CHANGES[name](process)
        assert await _objects(house) == before
        with pytest.raises(Corrupt):
            await process.tables.load(T)

    in_house(test)


def test_a_number_that_was_sent_and_is_damaged_leaves_the_outcome_open() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.create("a.t")

        async def spoil() -> None:
            await _spoil(house, process, made.table_id, 2)

        process.store.before(3, spoil)  # the look for a newer pointer, the metadata file, the pointer
        with pytest.raises(OutcomeUnknown, match=r"damaged .* not known whether the commit landed"):
            await process.tables.commit(T, commit_of(SET), process.who())

    in_house(test)


def test_a_repetition_whose_first_request_may_have_committed_is_not_told_that_nothing_was_written() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.create("a.t")
        key = process.key()
        assert (await process.tables.commit(T, commit_of(SET), process.who(key))).number == 2
        await _spoil(house, process, made.table_id, 3)
        with pytest.raises(Corrupt):
            await process.tables.commit(T, commit_of(SET), process.who(key))
        with pytest.raises(CommitFailed):
            await process.tables.commit(T, commit_of(SET), process.who(process.key()))

    in_house(test)


def test_a_commit_that_landed_and_whose_metadata_is_damaged_is_not_told_as_failed() -> None:
    async def test(house: House, process: Process) -> None:
        await process.create("a.t")
        key = process.key()
        done = await process.tables.commit(T, commit_of(SET), process.who(key))
        path = (done.metadata_location or "").removeprefix("file:///store/")
        await house.objects.delete(path)
        await house.objects.put(path, b"[", only_if_absent=True)
        other = await house.open()  # which does not remember the file
        with pytest.raises((OutcomeUnknown, Corrupt)):
            await other.tables.commit(T, commit_of(SET), other.who(key))

    in_house(test)
