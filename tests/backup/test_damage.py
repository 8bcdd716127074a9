"""A vault that lost something, or in which something was altered: what can still be done, and what is said."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from arco.backup import Backup, Moment, Schedule, Vault, prune, shown_numbers, verify_backup
from arco.backup._format import Content
from arco.backup._schedule import BackupLoop
from arco.core import DAY, Corrupt, LostObject
from arco.domains.catalog import NAMESPACES, CreateNamespace
from arco.log import Blobs, position_of
from arco.runtime import DEFINITIONS, open_incarnation, read_incarnations
from arco.storage import MemoryStore, Role, Store
from tests.backup.test_restore import check_healthy
from tests.backup.world import back_up, fill, in_vault, open_again, paths, put_back, vault_of
from tests.iceberg.house import ROOT, House, Process
from tests.runtime.world import SCOPE, made


def where(number: int) -> str:
    return f"{SCOPE.root}/backups/{0:013d}/{number:020d}"


async def back_up_often(process: Process, store: Store, times: int) -> None:
    for number in range(times):
        await process.decide(CreateNamespace((f"n{number}",)))
        await back_up(process, store)


async def own_names(process: Process) -> set[str]:
    """The namespaces that a test created."""
    snapshot = await process.workspace.logs["catalog"].frozen()
    names = (await snapshot.scan(NAMESPACES)).column("name").to_pylist()
    return {name for name in names if name.startswith("n")}


async def alter(store: Store, path: str) -> None:
    data = await store.get(path)
    await store.put(path, data.replace(b'"actor":"ann"', b'"actor":"eve"'), only_if_absent=False)


async def remove(store: Store, path: str) -> None:
    await store.delete(path)


@pytest.mark.parametrize(("lost", "there"), [([1], "2 to 4"), ([1, 2, 3], "4"), ([3], "4"), ([1, 2], "3 to 4")])
def test_a_vault_that_lost_backups_is_not_taken_for_an_empty_one(lost: list[int], there: str) -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await back_up_often(process, store, 4)
        for number in lost:
            await store.delete(where(number))
        before = await paths(store)
        says = rf"{lost[0]:020d} is missing, .*newer backups: {there}; something deletes .*--backup 4.*--to"
        with pytest.raises(LostObject, match=says):
            await back_up(process, store)
        with pytest.raises(LostObject, match=says):
            await put_back(house, store, into=MemoryStore())
        assert await paths(store) == before
        survey = await vault_of(store, house.runtime).survey()
        assert survey.missing == sorted(survey.unreadable) == lost
        assert [one.number for one in survey.backups] == [number for number in range(1, 5) if number not in lost]
        await put_back(house, store, into=MemoryStore(), number=4)

    in_vault(main)


def test_pruning_what_is_lost_makes_a_vault_whole_again() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        vault = vault_of(store, house.runtime)
        await back_up_often(process, store, 4)
        await store.delete(where(1))
        await store.delete(where(3))
        with pytest.raises(Corrupt, match=r"backup 3 .* is missing, .*prune --before 4"):
            await prune(vault, house.runtime, keep=DAY, before=2)
        assert (await prune(vault, house.runtime, keep=DAY, before=4)).backups == [2]
        assert (await back_up(process, store)).backup.number == 5
        assert [one.number for one in await vault.backups()] == [4, 5]
        for backup in await vault.backups():
            assert not [one for one in await verify_backup(vault, backup, DEFINITIONS) if one.level == "error"]

    in_vault(main)


def test_a_pruned_vault_that_lost_the_rest_is_not_taken_for_an_empty_one() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        vault = vault_of(store, house.runtime)
        await back_up_often(process, store, 3)
        await prune(vault, house.runtime, keep=DAY, before=3)
        await store.delete(where(3))
        assert (await vault.survey()).missing == [3]
        with pytest.raises(LostObject, match=r"3 is missing although older backups were let go.*--to"):
            await back_up(process, store)
        with pytest.raises(Corrupt, match="the newest"):
            await prune(vault, house.runtime, keep=DAY)

    in_vault(main)


def test_a_pruned_vault_is_no_damaged_one() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        vault = vault_of(store, house.runtime)
        await back_up_often(process, store, 3)
        await prune(vault, house.runtime, keep=DAY, before=3)
        survey = await vault.survey()
        assert ([one.number for one in survey.backups], survey.unreadable) == ([3], {})
        assert (await back_up(process, store)).backup.number == 4

    in_vault(main)


@pytest.mark.parametrize("damage", [alter, remove], ids=lambda damage: damage.__name__)
def test_one_damaged_backup_leaves_the_others_usable(damage: Callable[[Store, str], Awaitable[None]]) -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        vault = vault_of(store, house.runtime)
        await back_up_often(process, store, 4)
        await damage(store, where(2))
        survey = await vault.survey()
        assert [one.number for one in survey.backups] == [1, 3, 4]
        assert list(survey.unreadable) == [2]
        with pytest.raises(Corrupt):
            await vault.backups()
        fresh = MemoryStore()
        third = survey.backups[1].logs["catalog"].link.number
        await put_back(house, store, into=fresh, moment=Moment(log="catalog", position=position_of(third, 0)))
        again = await open_again(house, fresh)
        assert await own_names(again) == {"n0", "n1", "n2"}
        with pytest.raises(Corrupt, match="prune --before 3"):
            await prune(vault, house.runtime, keep=DAY)
        await prune(vault, house.runtime, keep=DAY, before=3)
        assert [one.number for one in await vault.backups()] == [3, 4]
        assert (await back_up(process, store)).backup.number == 5

    in_vault(main)


def test_a_damaged_backup_goes_when_those_after_it_are_old() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        vault = vault_of(store, house.runtime)
        await back_up_often(process, store, 3)
        await alter(store, where(2))
        await house.runtime.sleep(3 * 86_400)
        await process.decide(CreateNamespace(("later",)))
        await back_up(process, store)
        assert (await prune(vault, house.runtime, keep=DAY)).backups == [1, 2, 3]

    in_vault(main)


def test_a_state_that_cannot_be_read_is_folded_instead() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        vault = vault_of(store, house.runtime)
        await back_up_often(process, store, 2)
        first = await vault.backup(1)
        await store.delete(f"{SCOPE.root}/{vault.path(first.logs['catalog'].manifest)}")
        end = position_of(first.logs["catalog"].link.number, 0)
        fresh = MemoryStore()
        await put_back(house, store, into=fresh, number=2, moment=Moment(log="catalog", position=end))
        again = await open_again(house, fresh)
        assert await own_names(again) == {"n0"}

    in_vault(main)


async def content_of(vault: Vault, backup: Backup, kind: str) -> Content:
    """Some object that a backup names."""
    if kind == "manifest":
        return backup.logs["catalog"].manifest
    if kind == "list":
        return backup.lists_of("state", "activity")[0].content
    if kind == "chunk":
        return (await vault.chunks(backup, "activity"))[0].content
    if kind == "metadata":
        return (await vault.tables(backup.lists_of("iceberg")[0]))[0].metadata[0].content
    return (await vault.entries(backup.lists_of(kind)[0]))[0].content


@pytest.mark.parametrize("kind", ["chunk", "state", "blobs", "metadata", "manifest", "list"])
def test_what_was_copied_by_halves_is_named_before_anything_is_sealed(kind: str) -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        sha256 = await Blobs(process.workspace.handle(Role.OWNER)).put(b'["a blob"]')
        fact = msgspec.structs.replace(made(house.runtime, "m4"), blobs=(sha256,))
        await process.workspace.record("activity", [fact], actor="ann")
        backup, vault = (await back_up(process, store)).backup, vault_of(store, house.runtime)
        path = vault.path(await content_of(vault, backup, kind))
        data = await store.get(f"{SCOPE.root}/{path}")
        await store.delete(f"{SCOPE.root}/{path}")
        blob = f"{SCOPE.root}/{Blobs.path(sha256)}"
        if kind == "blobs":  # else the one that is there is taken
            await house.objects.delete(blob)

        found = await verify_backup(vault, backup, DEFINITIONS)
        assert {one.path for one in found if one.level == "error"} == {path}

        before = {info.path: await house.objects.get(info.path) async for info in house.objects.list("")}
        says = f"{path} is missing although a backup names it; use another backup"
        with pytest.raises(LostObject, match=says):
            await put_back(house, store)
        after = {info.path: await house.objects.get(info.path) async for info in house.objects.list("")}
        [begun] = [one for one in after if one.endswith("/begun")]
        folder = begun.split("/")[-2]
        assert {one: after[one] for one in after if one != begun and f"/{folder}/" not in one} == before
        [life] = await read_incarnations(house.objects, SCOPE, house.runtime, all_of_them=True)
        assert life.id == process.workspace.incarnation.id
        await process.decide(CreateNamespace(("still",)))

        fresh = MemoryStore()
        with pytest.raises(LostObject, match=says):
            await put_back(house, store, into=fresh)
        assert await read_incarnations(fresh, SCOPE, house.runtime, all_of_them=True) == []

        await store.put(f"{SCOPE.root}/{path}", data, only_if_absent=True)
        for into in (fresh, None):
            await put_back(house, store, into=into)
            await check_healthy(await open_again(house, into))

    in_vault(main)


def test_a_newest_backup_that_was_altered_can_be_moved_aside() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        vault = vault_of(store, house.runtime)
        await back_up_often(process, store, 2)
        await alter(store, where(2))
        path = vault.sequence.path(2)
        says = f"{path}, the newest .* with --to, or move {path} aside"
        with pytest.raises(Corrupt, match=says):
            await back_up(process, store)
        loop = BackupLoop(process.workspace, vault, process.locations, ROOT, Schedule())
        with pytest.raises(Corrupt, match=says):
            await loop.is_due()
        with pytest.raises(Corrupt, match=r"2 .* cannot be read, and it is the newest"):
            await prune(vault, house.runtime, keep=DAY, before=2)
        await store.delete(where(2))
        taken = await back_up(process, store)
        assert taken.backup.number == 2
        findings = await verify_backup(vault, taken.backup, DEFINITIONS, refold=True)
        assert not [one for one in findings if one.level == "error"], findings

    in_vault(main)


def test_moving_aside_is_no_advice_where_nothing_is_before_it() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await back_up_often(process, store, 2)
        await prune(vault_of(store, house.runtime), house.runtime, keep=DAY, before=2)
        await alter(store, where(2))
        with pytest.raises(Corrupt, match=r"with --to$"):
            await back_up(process, store)
        assert (await back_up(process, MemoryStore())).backup.number == 1

    in_vault(main)


@pytest.mark.parametrize("again", [False, True])
def test_a_damaged_former_incarnation_keeps_nothing_from_a_restore(again: bool) -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await back_up(process, store)
        await put_back(house, store)
        later = await open_again(house)
        await later.decide(CreateNamespace(("n1",)))
        await back_up(later, store)
        first = f"{SCOPE.root}/incarnations/{0:013d}/{1:020d}"
        await house.objects.put(first, b"{", only_if_absent=False)
        number = 1 if again else None
        done = await put_back(house, store, number=number)
        assert done.incarnation.number == 3
        if again:
            assert await open_incarnation(house.objects, SCOPE, house.runtime, done.incarnation) == done.incarnation

    in_vault(main)


def test_a_list_that_the_next_backup_needs_is_missing() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        vault = vault_of(store, house.runtime)
        await back_up_often(process, store, 2)
        (listing,) = (await vault.backup(2)).lists_of("state", "catalog")
        path = vault.path(listing.content)
        await store.delete(f"{SCOPE.root}/{path}")
        with pytest.raises(LostObject, match=f"{path} is damaged or missing, and backup 2, .*--to"):
            await back_up(process, store)

    in_vault(main)


def test_a_log_without_a_revision_has_no_state_to_compare() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await process.decide(CreateNamespace(("n",)))
        taken = await back_up(process, store)
        assert taken.backup.logs["activity"].revision == 0
        findings = await verify_backup(vault_of(store, house.runtime), taken.backup, DEFINITIONS, refold=True)
        assert [one.log for one in findings if one.check == "refold"] == ["catalog"]
        assert {one.level.value for one in findings} == {"ok"}

    in_vault(main)


def test_a_first_backup_holds_what_was_new() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await process.decide(CreateNamespace(("n",)))
        first = (await back_up(process, store)).backup
        assert (first.objects, first.bytes) == (first.copied, first.copied_bytes)
        await process.decide(CreateNamespace(("m",)))
        second = (await back_up(process, store)).backup
        assert second.objects > second.copied
        assert second.bytes > second.copied_bytes

    in_vault(main)


def test_numbers_are_shown_in_runs() -> None:
    assert shown_numbers([5, 1, 4, 6, 9]) == "1, 4 to 6, 9"
    assert shown_numbers([]) == ""
