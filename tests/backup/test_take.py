"""A backup beside writers that never rest, in virtual time; and what keeps the revisions that it copies."""

import pytest

from arco.backup import Selection, Taken, erase, plan_erasure, take_backup
from arco.core import Superseded
from arco.domains.catalog import CreateNamespace
from arco.log import FIRST_LINK, check_segment, number_of
from arco.runtime import Workspace
from arco.storage import MemoryStore, Store
from tests.backup.test_seal import Distant
from tests.backup.world import back_up, fill, in_vault, open_again, put_back, vault_of
from tests.doubles import FakeRuntime, FaultyStore
from tests.iceberg.house import ROOT, House, Process
from tests.runtime.world import SCOPE, made

MINUTES = 60.0


async def copied(workspace: Workspace, taken: Taken) -> set[str]:
    """What the catalog's log names, as far as a backup has it."""
    ledger, link, found = workspace.logs["catalog"].follower.ledger, FIRST_LINK, set()
    async for _, data, path in ledger.known(1, taken.backup.logs["catalog"].link.number):
        segment, link = check_segment(data, ledger.place, link, path)
        found |= {event.subject for event in segment.events}
    return found


async def types(workspace: Workspace, log: str) -> list[str]:
    """The types of the events that are about pins."""
    opened = workspace.logs[log]
    await opened.current()
    ledger, link, found = opened.follower.ledger, FIRST_LINK, []
    async for _, data, path in ledger.known(1, opened.follower.tail.number):
        segment, link = check_segment(data, ledger.place, link, path)
        found += [event.type for event in segment.events if "Pin" in event.type]
    return found


@pytest.mark.parametrize(("near", "far"), [(0.02, 0.02), (0.02, 0.06)])
def test_a_backup_beside_writers_that_never_rest_ends(near: float, far: float) -> None:
    """It cannot reach them, and each request of it takes as long as theirs, or longer."""

    async def main(house: House, process: Process, store: Store) -> None:
        runtime, chance = house.runtime, FakeRuntime(1)
        distant = Distant(house.objects, runtime, lambda: chance.uniform(0.7 * near, 1.3 * near))
        busy = await Workspace.open(distant, SCOPE, runtime, test_store=False)
        acknowledged: list[str] = []
        done = False

        async def write(client: int) -> None:
            while not done:
                name = f"n{client}_{len(acknowledged)}"
                await busy.decide("catalog", CreateNamespace((name,)), actor="ann")
                acknowledged.append(name)
                assert len(acknowledged) < 2_000, "the backup does not end"

        clients = [runtime.spawn(write(client), "client") for client in range(3)]
        while len(acknowledged) < 40:
            await runtime.sleep(near)
        further = Distant(house.objects, runtime, lambda: chance.uniform(0.7 * far, 1.3 * far))
        async with await Workspace.open(further, SCOPE, runtime, test_store=False) as workspace:
            before, began = set(acknowledged), runtime.boottime()
            vault = vault_of(store, runtime)
            taken = await take_backup(workspace, vault, process.locations, store=ROOT, actor="ann")
            took = runtime.boottime() - began
        done = True
        for client in clients:
            await client
        assert took < 200 * far
        assert before <= await copied(busy, taken)
        assert await types(busy, "catalog") == [], "nothing was appended for it"
        await busy.close()

    in_vault(main)


def test_a_young_revision_is_not_pinned() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        taken = await back_up(process, store)
        assert await types(process.workspace, "catalog") == await types(process.workspace, "activity") == []
        ends = {name: number_of(log.replica.watermark) for name, log in process.workspace.logs.items()}
        assert {log: number_of(position) for log, position in taken.positions.items()} == ends

    in_vault(main)


def test_an_old_revision_is_pinned_while_it_is_copied() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await house.runtime.sleep(20 * MINUTES)
        await process.decide(CreateNamespace(("young",)))
        taken = await back_up(process, store)
        assert await types(process.workspace, "activity") == ["RevisionPinned", "PinReleased"]
        assert await types(process.workspace, "catalog") == []
        copied = number_of(int(taken.backup.logs["activity"].watermark))
        assert number_of(taken.positions["activity"]) == copied + 2, "the pins are its own"

    in_vault(main)


def test_a_revision_that_gets_old_while_it_is_copied_is_pinned() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        slow = Distant(store, house.runtime, lambda: 10 * MINUTES)
        copying = house.runtime.spawn(back_up(process, slow), "backup")  # type: ignore[arg-type]
        await house.runtime.sleep(14 * MINUTES)
        assert await types(process.workspace, "catalog") == []
        await house.runtime.sleep(30 * MINUTES)
        for log in ("activity", "catalog"):
            assert await types(process.workspace, log) == ["RevisionPinned"]
            head = (await process.workspace.logs[log].snapshot()).manifest
            assert [pin.revision for pin in head.pins] == [1 if log == "activity" else 2]
        await copying
        for log in ("activity", "catalog"):
            assert await types(process.workspace, log) == ["RevisionPinned", "PinReleased"]

    in_vault(main)


@pytest.mark.parametrize("ends", ["restored", "erased"])
def test_a_backup_that_ends_after_the_workspace_was_replaced_is_none(ends: str) -> None:
    """It would be the newest, and have what the other one left behind or let go."""

    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        told = await process.workspace.record("activity", [made(house.runtime, "m9")], actor="ann")

        async def replace() -> None:
            if ends == "restored":
                await put_back(house, store)
            else:
                chosen = Selection(positions={"activity": ((told.position, told.position),)})
                plan = await plan_erasure(house.objects, SCOPE, house.runtime, chosen, "request 7")
                await erase(house.objects, SCOPE, house.runtime, plan, actor="dpo")

        vault = FaultyStore(store)
        vault.on("head", path="/backups/objects/", hook=replace, skip=await copies(process, store) - 1)
        with pytest.raises(Superseded, match="goes on in another one"):
            await back_up(process, vault)
        assert [one.number for one in await vault_of(store, house.runtime).backups()] == [1]
        again = await open_again(house)
        assert (await back_up(again, store)).backup.number == 2

    in_vault(main)


async def copies(process: Process, store: Store) -> int:
    """How many objects the next backup looks for, so that the last of them can be told."""
    copy = MemoryStore()
    async for info in store.list(""):
        await copy.put(info.path, await store.get(info.path), only_if_absent=True)
    looked = FaultyStore(copy)
    await back_up(process, looked)
    return sum(operation == "head" and "/backups/objects/" in path for operation, path in looked.calls)
