"""What a restore finds where it puts something back: a store that fails, and objects that are not what they were."""

from collections.abc import Callable

import msgspec
import pytest

from arco.backup import compare_objects
from arco.core import Conflict, Unavailable
from arco.domains.catalog import CreateNamespace
from arco.iceberg import Locations
from arco.log import Blobs
from arco.runtime import read_incarnations
from arco.state import Finding, Level
from arco.storage import MemoryStore, RequestCounts, Role, RoleStore, Store, StoreFailed
from tests.backup.world import back_up, fill, in_vault, paths, put_back, vault_of
from tests.doubles import FaultyStore
from tests.iceberg.house import OUTSIDE, ROOT, House, Process
from tests.runtime.world import SCOPE, made

DATA = "data/asset/partition/version/part-0.parquet"


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def truncated(data: bytes) -> bytes:
    return data[:-1]


async def replace(store: Store, path: str, change: Callable[[bytes], bytes]) -> None:
    path = f"{SCOPE.root}/{path}"
    await store.put(path, change(await store.get(path)), only_if_absent=False)


async def share(house: House, process: Process) -> str:
    """A blob that an event names, and a file of data; returns the blob's path."""
    sha256 = await Blobs(process.workspace.handle(Role.OWNER)).put(b'["a plan"]')
    fact = msgspec.structs.replace(made(house.runtime, "m1"), blobs=(sha256,))
    await process.workspace.record("activity", [fact], actor="ann")
    await house.objects.put(f"{SCOPE.root}/{DATA}", b"rows and rows", only_if_absent=True)
    return Blobs.path(sha256)


async def metadata_of(store: Store) -> list[str]:
    return sorted(path for path in await paths(store, f"{SCOPE.root}/warehouse") if path.endswith(".metadata.json"))


async def is_untouched(house: House, process: Process) -> bool:
    """Whether the workspace still takes writes, and no other one was opened."""
    await process.decide(CreateNamespace(("still",)))
    return len(await read_incarnations(house.objects, SCOPE, house.runtime, all_of_them=True)) == 1


@pytest.mark.parametrize("where", ["vault", "workspace"])
def test_a_store_that_fails_while_metadata_is_put_back_ends_it_before_the_seal(where: str) -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        taken = await back_up(process, store)
        [lost, *_] = await metadata_of(house.objects)
        data = await house.objects.get(lost)
        await house.objects.delete(lost)
        vault, objects = FaultyStore(store), FaultyStore(house.objects)
        if where == "vault":
            known = vault_of(store, house.runtime)
            tables = [one for part in taken.backup.lists_of("iceberg") for one in await known.tables(part)]
            [content] = [file.content for one in tables for file in one.metadata if lost.endswith(file.location[-60:])]
            vault.on("get", path=content.sha256, error=StoreFailed("busy"), times=1_000)
        else:
            objects.on("create", path=lost, error=StoreFailed("busy"), times=1_000)
        with pytest.raises(Unavailable):
            await put_back(house, vault, through=objects)
        assert await is_untouched(house, process)
        for one in (vault, objects):
            one.heal()
        done = await put_back(house, vault, through=objects)
        assert (done.elsewhere, await house.objects.get(lost)) == ((), data)

    in_vault(main)


def test_metadata_of_a_place_that_is_not_allowed_is_left_where_it_was() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await process.create("a.out", location=f"{OUTSIDE}/out")
        await back_up(process, store)
        vault = vault_of(store, house.runtime, role=Role.READER)
        from arco.backup import plan_restore, restore

        fresh = MemoryStore()
        plan = await plan_restore(fresh, SCOPE, vault, house.runtime)
        places = Locations(RoleStore(fresh, SCOPE, Role.ADMIN, RequestCounts()), ROOT, SCOPE.root)
        done = await restore(fresh, SCOPE, vault, house.runtime, plan, places, actor="ann")
        assert ["is not allowed here any more" in reason for reason in done.elsewhere] == [True]

    in_vault(main)


@pytest.mark.parametrize("change", [flipped, truncated])
def test_metadata_that_was_altered_is_named_before_anything_is_sealed(change: Callable[[bytes], bytes]) -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        [path, *_] = await metadata_of(house.objects)
        data = await house.objects.get(path)
        await replace(house.objects, path.removeprefix(f"{SCOPE.root}/"), change)
        with pytest.raises(Conflict, match=rf"{path} is there and .* delete this one object, and nothing else, then"):
            await put_back(house, store)
        assert await is_untouched(house, process)
        await house.objects.delete(path)
        await put_back(house, store)
        assert await house.objects.get(path) == data

    in_vault(main)


@pytest.mark.parametrize("kind", ["blob", "data"])
def test_a_shared_object_that_was_cut_off_is_the_one_to_delete(kind: str) -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        blob = await share(house, process)
        path = blob if kind == "blob" else DATA
        data = await house.objects.get(f"{SCOPE.root}/{path}")
        await back_up(process, store, data=True)
        await replace(house.objects, path, truncated)
        with pytest.raises(Conflict, match=rf"{path} is there and .* delete this one object, and nothing else") as said:
            await put_back(house, store)
        assert "folder" not in said.value.message
        assert await is_untouched(house, process)
        await house.objects.delete(f"{SCOPE.root}/{path}")
        await put_back(house, store)
        assert await house.objects.get(f"{SCOPE.root}/{path}") == data

    in_vault(main)


def test_what_differs_in_a_folder_that_nobody_uses_is_deleted_with_it() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        faulty = FaultyStore(house.objects)
        faulty.on("create", path="/manifests/", error=StoreFailed("busy"), times=1_000)
        with pytest.raises(Unavailable):
            await put_back(house, store, through=faulty)
        old = f"{SCOPE.root}/{process.workspace.incarnation.id}/"
        begun = [path for path in await paths(house.objects) if "/state/" in path and not path.startswith(old)]
        folder = begun[0].split("/")[2]
        await replace(house.objects, begun[0].removeprefix(f"{SCOPE.root}/"), truncated)
        with pytest.raises(Conflict, match=f"nobody uses {folder} yet: delete that folder, then run it again"):
            await put_back(house, store)
        for path in await paths(house.objects, f"{SCOPE.root}/{folder}"):
            await house.objects.delete(path)
        await put_back(house, store)

    in_vault(main)


async def compared(house: House, store: Store) -> list[Finding]:
    vault = vault_of(store, house.runtime, role=Role.READER)
    reader = RoleStore(house.objects, SCOPE, Role.READER, RequestCounts())
    life = (await read_incarnations(house.objects, SCOPE, house.runtime))[-1]
    return await compare_objects(vault, await vault.backup(None), reader, life, house.runtime)


@pytest.mark.parametrize("change", [flipped, truncated])
@pytest.mark.parametrize("kind", ["blob", "data"])
def test_a_shared_object_that_was_altered_is_found_by_its_bytes(kind: str, change: Callable[[bytes], bytes]) -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        blob = await share(house, process)
        path = blob if kind == "blob" else DATA
        await back_up(process, store, data=True)
        await put_back(house, store)
        assert {one.level for one in await compared(house, store)} == {Level.OK}
        await replace(house.objects, path, change)
        [found] = [one for one in await compared(house, store) if one.level == Level.ERROR]
        assert found.path == path
        assert f"{path} was altered or cut off: delete this one object, and nothing else" in found.message
        copy = next(word for word in found.message.split() if word.startswith("backups/objects/"))
        # As it says: what lies in the vault under that name is what belongs there.
        await replace(house.objects, path, lambda _: b"")
        data = await store.get(f"{SCOPE.root}/{copy}")
        await replace(house.objects, path, lambda _: data)
        assert {one.level for one in await compared(house, store)} == {Level.OK}

    in_vault(main)


def test_a_blob_that_is_gone_is_found() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        blob = await share(house, process)
        await back_up(process, store, data=True)
        await put_back(house, store)
        await house.objects.delete(f"{SCOPE.root}/{blob}")
        [found] = [one for one in await compared(house, store) if one.level == Level.ERROR]
        assert found.message.startswith(f"{blob} is missing: copy backups/objects/")

    in_vault(main)


def test_a_file_of_data_that_is_gone_is_a_loss_if_a_current_version_is_made_of_it() -> None:
    """And it is never counted as being the same."""

    async def main(house: House, process: Process, store: Store) -> None:
        await share(house, process)
        current = "data/x"
        for path in (current, "data/old"):
            await house.objects.put(f"{SCOPE.root}/{path}", b"ab", only_if_absent=True)
        await back_up(process, store, data=True)
        await put_back(house, store)

        async def said() -> list[tuple[Level, str]]:
            return [(one.level, one.message) for one in await compared(house, store) if "data" in one.message]

        assert await said() == [(Level.OK, "3 objects of data are what the backup has")]
        await house.objects.delete(f"{SCOPE.root}/{DATA}")
        note = (Level.NOTE, "1 files of data are gone, of which no current version is made")
        assert await said() == [(Level.OK, "2 objects of data are what the backup has"), note]
        await house.objects.delete(f"{SCOPE.root}/{current}")
        [lost, same, also] = await said()
        assert lost[0] == Level.ERROR
        assert lost[1].startswith(f"{current} of key.a1 is missing: copy backups/objects/")
        assert same == (Level.OK, "1 objects of data are what the backup has")
        assert also == note

    in_vault(main)
