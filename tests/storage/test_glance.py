"""Glances: what a store that is near tells without waiting is what `head` would tell."""

from pathlib import Path

import pytest

from arco.core import Invalid, StoreRefused
from arco.runtime import AsyncRuntime
from arco.storage import (
    Glance,
    LocalStore,
    MemoryStore,
    Operation,
    RequestCounts,
    Role,
    RoleStore,
    Scope,
    Sequence,
    Store,
    Tail,
    Won,
    glance_at,
)
from tests.storage.contract import run

SCOPE = Scope("acme", "prod")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


class Later(AsyncRuntime):
    """A clock that can be set ahead."""

    ahead = 0.0

    def boottime(self) -> float:
        return super().boottime() + self.ahead


def put(store: Store, path: str) -> None:
    run(store.put(path, b"data", only_if_absent=True))


def glance(store: Store, path: str) -> Glance:
    found = glance_at(store, path)
    assert found is not None
    return found


def test_it_follows_creates_and_deletes(store: LocalStore) -> None:
    put(store, "a/other")
    look = glance(store, "a/b")
    assert not look()
    put(store, "a/b")
    assert look()
    run(store.delete("a/b"))
    assert not look()


def test_a_folder_is_no_object(store: LocalStore) -> None:
    put(store, "a/b/c")
    assert not glance(store, "a/b")()


def test_a_symbolic_link_is_refused(store: LocalStore, tmp_path: Path) -> None:
    put(store, "a/b")
    (tmp_path / "store" / "a" / "link").symlink_to("b")
    with pytest.raises(StoreRefused, match="symbolic link"):
        glance(store, "a/link")()


def test_a_folder_that_is_not_there_is_asked_for_by_head(store: LocalStore, tmp_path: Path) -> None:
    put(store, "a/b")
    assert store.glance("new/b") is None
    (tmp_path / "store" / "outside").symlink_to("a")
    with pytest.raises(StoreRefused, match="symbolic link"):
        store.glance("outside/b")


def test_another_error_than_absence_is_raised(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, "a/b")
    look = glance(store, "a/b")

    def refuse(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.stat", refuse)
    with pytest.raises(StoreRefused):
        look()


def test_a_disk_in_doubt_is_refused(store: LocalStore) -> None:
    put(store, "a/b")
    look = glance(store, "a/b")
    store._broken = "a"
    with pytest.raises(StoreRefused, match="could not be synced"):
        look()


def test_a_path_that_may_not_be_is_refused(store: LocalStore) -> None:
    with pytest.raises(Invalid):
        store.glance("../b")


def test_a_store_that_is_not_near_has_none() -> None:
    assert glance_at(MemoryStore(AsyncRuntime()), "a/b") is None
    handle = RoleStore(MemoryStore(AsyncRuntime()), SCOPE, Role.READER, RequestCounts())
    assert glance_at(handle, "a/b") is None


def test_each_look_is_counted(store: LocalStore) -> None:
    counts = RequestCounts()
    handle = RoleStore(store, SCOPE, Role.READER, counts)
    put(store, f"{SCOPE.root}/a/b")
    look = glance(handle, "a/b")
    assert counts.table() == {}
    assert look()
    assert look()
    assert counts.table() == {(Role.READER, Operation.HEAD): 2}


def test_a_tail_holds_until_a_number_follows_or_the_floor_must_be_read(store: LocalStore) -> None:
    runtime = Later()
    sequence = Sequence(store, "numbers", runtime, min_age=100.0)
    won = run(sequence.create(Tail(0, runtime.boottime()), b"1"))
    assert isinstance(won, Won)
    holds = sequence.unchanged(won.tail)
    assert holds is not None
    assert holds()
    run(Sequence(store, "numbers", runtime, min_age=100.0).create(won.tail, b"2"))
    assert not holds()

    last = run(sequence.tail())
    holds = sequence.unchanged(last)
    assert holds is not None
    assert holds()
    runtime.ahead = 25.1
    assert not holds()
