"""Backups by the clock: every so often if something changed, nothing asked while nothing does, old ones let go."""

from collections.abc import AsyncIterator

import pytest

from arco.backup import BackupLoop, LastBackup, Schedule
from arco.core import HOUR, SECOND, StoreRefused
from arco.domains.catalog import CreateNamespace
from arco.storage import ObjectInfo, Scope, Store
from tests.backup.world import back_up, fill, in_vault, paths, vault_of
from tests.doubles import FaultyStore
from tests.iceberg.house import ROOT, House, Process

HOURS = HOUR / SECOND


def loop_of(
    process: Process,
    store: Store,
    told: list[str],
    schedule: Schedule | None = None,
    known: dict[Scope, LastBackup] | None = None,
) -> BackupLoop:
    vault, schedule = vault_of(store, process.runtime), schedule or Schedule()
    return BackupLoop(process.workspace, vault, process.locations, ROOT, schedule, known=known, told=told.append)


async def numbers(store: Store) -> set[int]:
    found = {path.rsplit("/", 1)[1] for path in await paths(store) if "/objects/" not in path and "/floor/" not in path}
    return {int(name) for name in found if name.isdigit()}


def test_a_backup_is_taken_every_six_hours_if_something_changed() -> None:
    async def work(house: House, process: Process, store: Store) -> None:
        told: list[str] = []
        await fill(process)
        loop = loop_of(process, store, told)
        loop.start()
        await process.runtime.sleep(0.1 * HOURS)
        assert await numbers(store) == {1}, "there was none, so the first one is due"
        await process.runtime.sleep(13 * HOURS)
        assert await numbers(store) == {1}, "nothing changed but for what the backup itself wrote"
        await process.decide(CreateNamespace(("later",)))
        await process.runtime.sleep(0.1 * HOURS)
        assert await numbers(store) == {1, 2}
        await process.decide(CreateNamespace(("soon after",)))
        await process.runtime.sleep(5 * HOURS)
        assert await numbers(store) == {1, 2}, "six hours have not passed"
        await process.runtime.sleep(2 * HOURS)
        assert await numbers(store) == {1, 2, 3}
        assert [text.split(" is done")[0] for text in told] == ["backup 1", "backup 2", "backup 3"]
        assert loop.failed is None
        await loop.stop()

    in_vault(work)


def test_a_process_that_begins_goes_by_the_backup_that_is_there() -> None:
    async def work(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        loop = loop_of(process, store, [])
        loop.start()
        await process.runtime.sleep(45 * HOURS)
        assert await numbers(store) == {1}, "nothing was appended since"
        await process.decide(CreateNamespace(("more",)))
        await process.runtime.sleep(1 * HOURS)
        assert await numbers(store) == {1, 2}
        await loop.stop()

    in_vault(work)


def test_a_process_that_begins_takes_the_pins_of_a_backup_for_changes() -> None:
    """It cannot know that all that was appended since is what that backup itself left, so it takes one more."""

    async def work(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await process.runtime.sleep(1 * HOURS)  # so that what is copied is old enough to be pinned
        await back_up(process, store)
        loop = loop_of(process, store, [])
        loop.start()
        await process.runtime.sleep(5 * HOURS)
        assert await numbers(store) == {1}, "six hours have not passed"
        await process.runtime.sleep(40 * HOURS)
        assert await numbers(store) == {1, 2}
        await loop.stop()

    in_vault(work)


def test_old_backups_go_and_the_newest_stays() -> None:
    async def work(house: House, process: Process, store: Store) -> None:
        told: list[str] = []
        loop = loop_of(process, store, told, Schedule(every=6 * HOUR, keep=24 * HOUR))
        loop.start()
        for day in range(8):
            await process.decide(CreateNamespace((f"day {day}",)))
            await process.runtime.sleep(7 * HOURS)
        there = await numbers(store)
        assert max(there) == 8
        assert 1 not in there
        assert len(there) < 8
        assert any("old backups go" in text for text in told)
        await loop.stop()

    in_vault(work)


def test_old_backups_are_looked_for_once_a_day() -> None:
    """That reads what every backup names, so it must not come with each of them."""

    async def work(house: House, process: Process, store: Store) -> None:
        listed = []

        class Listed(FaultyStore):
            def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
                listed.append(prefix)
                return super().list(prefix)

        known: dict[Scope, LastBackup] = {}
        for number in range(12):
            loop = loop_of(process, Listed(store), [], Schedule(every=2 * HOUR), known)
            loop.start()
            await process.decide(CreateNamespace((f"n{number}",)))
            await process.runtime.sleep(3 * HOURS)
            await loop.stop()  # the workspace is closed and opened again
        assert len(await numbers(store)) == 12
        assert len([prefix for prefix in listed if prefix.endswith("/objects")]) == 2
        assert len(listed) <= 2 + 12 + 3, "beside it one look for lost backups each time they are read"

    in_vault(work)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [(StoreRefused("the disk is full"), "the disk is full"), (KeyError("x"), "KeyError('x'); this is a fault of arco")],
)
def test_trouble_is_told_and_tried_again(trouble: Exception, said: str) -> None:
    async def work(house: House, process: Process, store: Store) -> None:
        told: list[str] = []
        await fill(process)
        full = FaultyStore(store)
        loop = loop_of(process, full, told)
        full.on("create", error=trouble, times=10_000)
        loop.start()
        await process.runtime.sleep(0.1 * HOURS)
        assert loop.failed is not None
        assert told == [f"the backup did not succeed: {said}"]
        assert await numbers(store) == set()
        full.heal()
        await process.runtime.sleep(0.3 * HOURS)
        assert loop.failed is None
        assert await numbers(store) == {1}
        await loop.stop()

    in_vault(work)


def test_who_fails_again_and_again_waits_longer_and_at_last_owes_nothing() -> None:
    async def work(house: House, process: Process, store: Store) -> None:
        told: list[str] = []
        full = FaultyStore(store)
        full.on("create", error=StoreRefused("the disk is full"), times=10_000)
        loop = loop_of(process, full, told)
        loop.start()
        await fill(process)
        await process.runtime.sleep(2 * HOURS)
        assert len(told) == 4, "after a minute, and 10, 20 and 40 minutes later"
        assert loop.owes()
        await process.runtime.sleep(4 * HOURS)
        assert not loop.owes(), "its own pins are no reason to go on"
        assert len(told) == 6
        await process.decide(CreateNamespace(("more",)))
        assert loop.owes()
        await process.runtime.sleep(42 * HOURS)
        assert not loop.owes()
        assert len(told) == 6 + 7, "every six hours"
        full.heal()
        await process.runtime.sleep(6.1 * HOURS)
        assert await numbers(store) == {1}
        assert not loop.owes()
        await loop.stop()

    in_vault(work)


def test_what_is_written_while_a_backup_copies_is_in_the_next_one() -> None:
    """Also if it stands between the pins of that backup, or in the same segment."""

    async def work(house: House, process: Process, store: Store) -> None:
        async def meanwhile() -> None:
            await process.decide(CreateNamespace(("meanwhile",)))

        await fill(process)
        await process.runtime.sleep(1 * HOURS)  # so that what is copied is old enough to be pinned
        vault = FaultyStore(store)
        vault.on("create", hook=meanwhile)
        loop = loop_of(process, vault, [])
        loop.start()
        await process.runtime.sleep(0.1 * HOURS)
        assert await numbers(store) == {1}
        assert loop.owes()
        await process.runtime.sleep(6 * HOURS)
        assert await numbers(store) == {1, 2}
        assert not loop.owes()
        await process.runtime.sleep(24 * HOURS)
        assert await numbers(store) == {1, 2}
        await loop.stop()

    in_vault(work)


def test_a_workspace_owes_a_backup_from_its_first_change_until_it_is_taken() -> None:
    async def work(house: House, process: Process, store: Store) -> None:
        known: dict[Scope, LastBackup] = {}
        loop = loop_of(process, store, [], known=known)
        loop.start()
        assert not loop.owes(), "nothing was appended since it was opened, and nobody looked into the vault"
        await fill(process)
        assert loop.owes()
        await process.runtime.sleep(0.1 * HOURS)
        assert not loop.owes()
        await process.decide(CreateNamespace(("later",)))
        await process.runtime.sleep(1 * HOURS)
        assert loop.owes(), "six hours have not passed"
        await loop.stop()
        again = loop_of(process, store, [], known=known)
        assert again.owes(), "it was closed and opened again meanwhile, and the process remembers"
        again.start()
        await process.runtime.sleep(6 * HOURS)
        assert await numbers(store) == {1, 2}
        assert not again.owes()
        await again.stop()
        assert not loop_of(process, store, [], known=known).owes(), "what the backup itself wrote is no change"

    in_vault(work)


def test_a_backup_that_another_process_takes_is_owed_by_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(house: House, process: Process, store: Store) -> None:
        async def leads() -> bool:
            return False

        loop = loop_of(process, store, [])
        monkeypatch.setattr(process.workspace.logs["catalog"], "leads", leads)
        loop.start()
        await fill(process)
        await process.runtime.sleep(0.1 * HOURS)
        assert await numbers(store) == set()
        assert not loop.owes()
        await process.decide(CreateNamespace(("later",)))
        assert loop.owes()
        await loop.stop()

    in_vault(work)


def test_old_backups_that_cannot_go_are_no_failure_of_the_backup() -> None:
    async def work(house: House, process: Process, store: Store) -> None:
        told: list[str] = []
        vault = FaultyStore(store)
        loop = loop_of(process, vault, told, Schedule(every=6 * HOUR, keep=24 * HOUR))
        loop.start()
        vault.on("delete", error=StoreRefused("it is locked"), times=10_000)
        for day in range(8):
            await process.decide(CreateNamespace((f"day {day}",)))
            await process.runtime.sleep(7 * HOURS)
        assert loop.failed is None
        assert not [text for text in told if "did not succeed" in text]
        assert "old backups could not be let go, the next backup tries again: it is locked" in told
        assert max(await numbers(store)) == 8, "each was taken when it was due"
        vault.heal()
        await process.decide(CreateNamespace(("more",)))
        await process.runtime.sleep(7 * HOURS)
        assert any("old backups go" in text for text in told)
        await loop.stop()

    in_vault(work)
