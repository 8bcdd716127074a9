"""A workspace whose first incarnation was deleted is told from one that was never created."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from arco.core import Conflict, LostObject, NotFound
from arco.domains.catalog import CreateNamespace
from arco.runtime import (
    Incarnation,
    Workspace,
    init_workspace,
    open_incarnation,
    read_incarnation,
    read_incarnations,
    workspace_exists,
)
from arco.runtime import _remains as remains
from arco.storage import MemoryStore, ObjectInfo, ObjectMissing, Store
from tests.doubles import FakeRuntime, PassingStore
from tests.runtime.world import SCOPE, Counted, run

FIRST = f"{SCOPE.root}/incarnations/{0:013d}/{1:020d}"


class Listing(PassingStore):
    """A store that counts its lists, and the objects that were taken of them."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.lists = self.taken = 0

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        self.lists += 1
        async for info in self.inner.list(prefix):
            self.taken += 1
            yield info


async def opened(runtime: FakeRuntime, store: Store) -> Workspace:
    return await Workspace.open(store, SCOPE, runtime, test_store=False)


async def create(workspace: Workspace, name: str) -> None:
    await workspace.decide("catalog", CreateNamespace((name,)), actor="me")


async def check_lost(runtime: FakeRuntime, store: Store, *words: str) -> LostObject:
    """Nobody opens it, and nobody creates one over it."""
    with pytest.raises(LostObject) as raised:
        await opened(runtime, store)
    with pytest.raises(LostObject) as refused:
        await init_workspace(store, SCOPE, runtime)
    with pytest.raises(ObjectMissing):
        await store.get(FIRST)
    assert raised.value.message == refused.value.message
    assert [word for word in words if word not in raised.value.message] == []
    assert raised.value.details["path"] == FIRST.removeprefix(f"{SCOPE.root}/")
    return raised.value


def test_a_workspace_that_lost_its_first_incarnation_is_neither_missing_nor_created_again() -> None:
    async def main(runtime: FakeRuntime) -> None:
        store = MemoryStore(runtime)
        life = await init_workspace(store, SCOPE, runtime)
        async with await opened(runtime, store) as running:
            await create(running, "a")
            first = await store.get(FIRST)
            await store.delete(FIRST)
            error = await check_lost(runtime, store, FIRST.removeprefix(f"{SCOPE.root}/"), f"{life.id}/", "put the")
            assert error.details["incarnations"] == [life.id]
            await create(running, "b")
        await store.put(FIRST, first, only_if_absent=True)
        async with await opened(runtime, store) as again:
            await create(again, "c")
            assert again.incarnation == life

    run(main)


def test_the_object_can_be_written_anew_by_hand() -> None:
    """As docs/stores.md says."""

    async def main(runtime: FakeRuntime) -> None:
        store = MemoryStore(runtime)
        life = await init_workspace(store, SCOPE, runtime)
        async with await opened(runtime, store) as running:
            await create(running, "a")
        await store.delete(FIRST)
        text = f'{{"id":"{life.id}","number":1,"created_at":1794000000000000,"reason":"init"}}\n'
        await store.put(FIRST, text.encode(), only_if_absent=True)
        async with await opened(runtime, store) as again:
            assert again.incarnation.id == life.id
            with pytest.raises(Conflict):
                await create(again, "a")
        with pytest.raises(Conflict):
            await init_workspace(store, SCOPE, runtime)

    run(main)


def test_a_newer_incarnation_alone_is_a_loss_too() -> None:
    async def main(runtime: FakeRuntime) -> None:
        store = MemoryStore(runtime)
        old = await init_workspace(store, SCOPE, runtime)
        new = Incarnation("inc-next", 2, runtime.now(), "restore", old.id)
        await open_incarnation(store, SCOPE, runtime, new)
        await store.delete(FIRST)
        await check_lost(runtime, store, "incarnations/", "put the object back")
        first = msgspec.json.encode(Incarnation(new.previous, 1, runtime.now(), "init"))
        await store.put(FIRST, first, only_if_absent=True)
        assert await read_incarnation(store, SCOPE, runtime) == new

    run(main)


@pytest.mark.parametrize(
    "path", ["data/a/1.parquet", "warehouse/t/metadata/1.json", "blobs/00/1", "code/1.zip", "logs/1"]
)
def test_what_only_a_workspace_has_is_no_new_store(path: str) -> None:
    async def main(runtime: FakeRuntime) -> None:
        store = MemoryStore(runtime)
        await store.put(f"{SCOPE.root}/{path}", b"x", only_if_absent=True)
        await check_lost(runtime, store, f"{path.partition('/')[0]}/", "the newest backup with `arco restore`")

    run(main)


@pytest.mark.parametrize("path", ["landing/orders.csv", "selftest/01ARZ3/overwrite", "backups/objects/1"])
def test_what_may_be_there_before_a_workspace_is_no_sign_of_one(path: str) -> None:
    async def main(runtime: FakeRuntime) -> None:
        store = MemoryStore(runtime)
        await store.put(f"{SCOPE.root}/{path}", b"x", only_if_absent=True)
        await store.put(f"{SCOPE.tenant}/other/data/x", b"x", only_if_absent=True)
        with pytest.raises(NotFound, match="create it with `arco init`"):
            await opened(runtime, store)
        assert await init_workspace(store, SCOPE, runtime) == await read_incarnation(store, SCOPE, runtime)

    run(main)


@pytest.mark.parametrize("how", ["read", "init"])
def test_one_that_is_created_meanwhile_is_no_loss(how: str) -> None:
    async def main(runtime: FakeRuntime) -> None:
        inner = MemoryStore(runtime)
        await inner.put(f"{SCOPE.root}/landing/x", b"x", only_if_absent=True)

        class Racing(PassingStore):
            """Another process is first when this one has seen that there is nothing."""

            async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
                await init_workspace(inner, SCOPE, runtime)
                async for info in self.inner.list(prefix):
                    yield info

        store = Racing(inner)
        if how == "read":
            found = await read_incarnation(store, SCOPE, runtime)
            assert found == await read_incarnation(inner, SCOPE, runtime)
        else:
            with pytest.raises(Conflict, match="exists already"):
                await init_workspace(store, SCOPE, runtime)

    run(main)


def test_only_who_finds_no_workspace_lists() -> None:
    async def main(runtime: FakeRuntime) -> None:
        store = Counted(MemoryStore(runtime), runtime)
        with pytest.raises(NotFound):
            await read_incarnation(store, SCOPE, runtime)
        assert store.requests["list"] == 1
        await init_workspace(store, SCOPE, runtime)
        store.requests.clear()
        assert len(await read_incarnations(store, SCOPE, runtime)) == 1
        async with await opened(runtime, store) as workspace:
            await create(workspace, "a")
        assert store.requests["list"] == 0

    run(main)


def test_the_list_of_a_loss_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remains, "ENOUGH", 3)

    async def main(runtime: FakeRuntime) -> None:
        store = Listing(MemoryStore(runtime))
        for number in range(9):
            await store.put(f"{SCOPE.root}/data/{number}", b"x", only_if_absent=True)
        with pytest.raises(LostObject):
            await read_incarnation(store, SCOPE, runtime)
        assert (store.lists, store.taken) == (1, 3)

    run(main)


def test_a_stranger_does_not_make_anybody_list_all_that_lies_under_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remains, "ENOUGH", 3)

    async def main(runtime: FakeRuntime) -> None:
        store = Listing(MemoryStore(runtime))
        for number in range(9):
            await store.put(f"{SCOPE.root}/landing/{number}", b"x", only_if_absent=True)
        assert not await workspace_exists(store, SCOPE, runtime)
        assert (store.lists, store.taken) == (1, 3)
        await store.put(f"{SCOPE.root}/warehouse/t/1.parquet", b"x", only_if_absent=True)
        with pytest.raises(LostObject):  # who creates one sees it all
            await init_workspace(store, SCOPE, runtime)

    run(main)
