"""A workspace that an interrupted restore or erasure left sealed: nothing acknowledged is left behind by mistake."""

import pytest

from arco.backup import Moment, Selection, erase, plan_erasure, plan_restore
from arco.core import ArcoError, Corrupt, Outdated, Refused, Superseded
from arco.domains.catalog import NAMESPACES, CreateNamespace
from arco.log import position_of
from arco.runtime import read_incarnations
from arco.storage import Role, Store
from tests.backup.world import Crash, back_up, in_vault, paths, put_back, vault_of
from tests.doubles import FaultyStore
from tests.iceberg.house import House, Process
from tests.runtime.world import SCOPE, made


def dying(house: House, path: str) -> Store:
    """A store whose process ends when it writes an object."""
    store = FaultyStore(house.objects)
    store.on("create", path=path, error=Crash(), times=1_000)
    return store


async def erasing(house: House, store: Store) -> None:
    plan = await plan_erasure(store, SCOPE, house.runtime, Selection(texts=("secret",)), "ticket 7")
    await erase(store, SCOPE, house.runtime, plan, actor="dpo")


async def names(process: Process) -> set[str]:
    snapshot = await process.workspace.logs["catalog"].frozen()
    return set((await snapshot.scan(NAMESPACES)).column("name").to_pylist())


async def lives(house: House) -> int:
    return len(await read_incarnations(house.objects, SCOPE, house.runtime, all_of_them=True))


def test_an_interrupted_erasure_is_no_leave_to_drop_what_came_after_the_backup() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await process.decide(CreateNamespace(("secret",)))
        await back_up(process, store)
        await process.decide(CreateNamespace(("after",)))
        with pytest.raises(Crash):
            await erasing(house, dying(house, "/begun"))
        with pytest.raises(
            Superseded, match=r"`arco erase` was interrupted: run the same command again .*, and not `arco restore`"
        ):
            await process.decide(CreateNamespace(("lost",)))
        before = await paths(house.objects)
        with pytest.raises(
            Refused, match=r"with 1 segments that would not be restored; `arco erase` sealed it .*--replace"
        ):
            await put_back(house, store, replace=False)
        assert await paths(house.objects) == before
        await erasing(house, house.objects)
        assert "after" in await names(await house.open())

    in_vault(main)


@pytest.mark.parametrize(("there", "error"), [(b'{"life":', Corrupt), (b'{"format":2,"life":[]}', Outdated)])
def test_what_comes_next_is_told_if_it_cannot_be_read(there: bytes, error: type[ArcoError]) -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await process.decide(CreateNamespace(("secret",)))
        with pytest.raises(Crash):
            await erasing(house, dying(house, "/incarnations/"))
        [path] = [path for path in await paths(house.objects) if path.endswith("/successors/next")]
        data = await house.objects.get(path)
        await house.objects.put(path, there, only_if_absent=False)
        before = await paths(house.objects)
        with pytest.raises(error, match=path.removeprefix(f"{SCOPE.root}/")):
            await erasing(house, house.objects)
        assert await paths(house.objects) == before
        await house.objects.put(path, data, only_if_absent=False)
        await erasing(house, house.objects)
        assert "secret" not in await names(await house.open())

    in_vault(main)


def test_what_an_interrupted_erasure_sealed_can_be_replaced() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await process.decide(CreateNamespace(("secret",)))
        await back_up(process, store)
        await process.decide(CreateNamespace(("after",)))
        with pytest.raises(Crash):
            await erasing(house, dying(house, "/begun"))
        await put_back(house, store, replace=True)
        assert "after" not in await names(await house.open())

    in_vault(main)


def test_an_interrupted_restore_is_no_leave_for_one_of_another_backup() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await back_up(process, store)
        await process.decide(CreateNamespace(("second",)))
        await back_up(process, store)
        begun = dying(house, "/successors/next")
        with pytest.raises(Crash):
            await put_back(house, store, number=2, through=begun)
        with pytest.raises(Superseded, match="`arco restore` was interrupted: run the same command again to finish it"):
            await process.decide(CreateNamespace(("lost",)))
        with pytest.raises(Refused, match=r"`arco restore` sealed it and was interrupted: .*--replace"):
            await put_back(house, store, number=1, replace=False)
        assert await lives(house) == 1
        done = await put_back(house, store, number=2)
        assert (done.incarnation.number, await lives(house)) == (2, 2)
        assert "second" in await names(await house.open())

    in_vault(main)


def test_what_would_be_lost_counts_no_seals_and_segments_that_are_cut() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        runtime, workspace = house.runtime, process.workspace

        async def tell(number: int) -> None:
            await workspace.record("activity", [made(runtime, f"m{number}")], actor="ann")

        tasks = [runtime.spawn(tell(number), "facts") for number in range(4)]
        for task in tasks:
            await task
        last = int(await workspace.logs["activity"].current()) >> 20
        assert last < len(tasks), "some facts share a segment"
        await back_up(process, store)
        vault = vault_of(store, runtime, role=Role.READER)
        moment = Moment(log="activity", position=position_of(last, 0))
        cut = await plan_restore(house.objects, SCOPE, vault, runtime, moment=moment)
        assert (cut.lost["activity"], cut.is_sealed) == (1, False)
        with pytest.raises(Crash):
            await put_back(house, store, through=dying(house, "/successors/next"))
        plan = await plan_restore(house.objects, SCOPE, vault, runtime)
        assert (plan.lost["activity"], plan.is_sealed, plan.sealed_by) == (0, True, "arco restore")

    in_vault(main)
