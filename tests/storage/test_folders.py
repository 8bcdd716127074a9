"""Folders of a local disk: they go when they are empty and nobody writes into them any more, and only then."""

import asyncio
from pathlib import Path

import pytest

from arco.core import Forbidden
from arco.domains.catalog import CreateNamespace
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.state import Collector, Layout
from arco.storage import (
    LocalStore,
    MemoryStore,
    RequestCounts,
    Role,
    RoleStore,
    Scope,
    Sequence,
    StoreFailed,
    remove_empty_folders,
)
from tests.storage.contract import run

SCOPE = Scope("acme", "prod")


def folders(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()} - {".tmp"}


def fill(store: LocalStore, *paths: str) -> None:
    for path in paths:
        run(store.put(path, b"data", only_if_absent=True))


def test_empty_folders_go_if_they_are_over_and_all_others_stay(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    fill(store, "a/old/deep/1", "a/old/2", "a/new/1", "a/full/1", "b/old/1")
    for path in ("a/old/deep/1", "a/old/2", "a/new/1", "b/old/1"):
        run(store.delete(path))
    assert folders(tmp_path) == {"a", "a/old", "a/old/deep", "a/new", "a/full", "b", "b/old"}
    assert run(remove_empty_folders(store, "a", lambda path: "new" not in path)) == 2
    assert folders(tmp_path) == {"a", "a/new", "a/full", "b", "b/old"}
    assert run(remove_empty_folders(store, "b", lambda path: True)) == 2
    assert run(remove_empty_folders(store, "never", lambda path: True)) == 0
    assert run(remove_empty_folders(MemoryStore(), "a", lambda path: True)) == 0


def test_who_writes_into_a_removed_folder_all_the_same_can_try_again(tmp_path: Path) -> None:
    late = LocalStore(tmp_path)
    fill(late, "a/old/1")
    other = LocalStore(tmp_path)
    run(other.delete("a/old/1"))
    run(remove_empty_folders(other, "a", lambda path: True))
    with pytest.raises(StoreFailed):
        fill(late, "a/old/2")
    fill(late, "a/old/2")
    assert run(other.get("a/old/2")) == b"data"


def test_only_who_may_delete_in_a_folder_may_remove_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    fill(store, "acme/prod/data/x/1", "acme/prod/inc-1/state/activity/x/1")
    run(store.delete("acme/prod/data/x/1"))
    counts = RequestCounts()
    with pytest.raises(Forbidden):
        run(remove_empty_folders(RoleStore(store, SCOPE, Role.WORKER, counts), "data", lambda path: True))
    seen: list[str] = []

    def is_over(path: str) -> bool:
        seen.append(path)
        return path == "data/x"

    assert run(remove_empty_folders(RoleStore(store, SCOPE, Role.COLLECTOR, counts), "data", is_over)) == 1
    assert seen == ["data/x", "data"]
    assert counts.count() == 0


def test_a_folder_of_numbers_is_below_a_floor_only_as_a_whole() -> None:
    sequence = Sequence(MemoryStore(), "log", AsyncRuntime())
    folder = sequence.path(4096).rpartition("/")[0]
    assert [sequence.is_below(floor, folder) for floor in (4096, 8190, 8191, 9000)] == [False, False, True, True]
    assert not sequence.is_below(10**9, "log/floor")
    assert not sequence.is_below(10**9, "log")


def test_a_collection_leaves_no_folder_of_an_attempt_behind(tmp_path: Path) -> None:
    async def main() -> None:
        runtime, store = AsyncRuntime(), LocalStore(tmp_path)
        await init_workspace(store, SCOPE, runtime)
        async with await Workspace.open(store, SCOPE, runtime, test_store=False) as workspace:
            for number in range(3):
                receipt = await workspace.decide("catalog", CreateNamespace((f"n{number}",)), actor="me")
                await workspace.published("catalog", receipt.position)
            log = workspace.logs["catalog"]
            state = Layout(log.place).state
            before = folders(tmp_path / SCOPE.root / state)
            writer = workspace.handle(Role.COMPACTOR)
            for base in (0, 10**6):
                await writer.put(f"{state}/{base:020d}-crashed/deep/delta", b"left", only_if_absent=True)
            await store.delete(f"{SCOPE.root}/{state}/{10**6:020d}-crashed/deep/delta")
            await Collector(workspace.handle(Role.COLLECTOR), log.place, runtime).collect()
            left = folders(tmp_path / SCOPE.root / state) - before
            assert left == {f"{10**6:020d}-crashed", f"{10**6:020d}-crashed/deep"}, "that one may still be written"

    asyncio.run(main())
