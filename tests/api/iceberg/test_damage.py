"""Damage over HTTP: a change that wrote nothing never ends in a bare 5xx, which clients take for an open outcome."""

from typing import Any

import pytest

from arco.domains.access import UserRole
from tests.api.iceberg.content import VIEW, key, table
from tests.api.iceberg.world import ask, done, error_of, namespace
from tests.api.world import ACME, World, run_world

COMMIT = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}

CHANGES: dict[str, tuple[str, str, Any]] = {
    "create namespace": ("POST", "/namespaces", {"namespace": ["b"]}),
    "drop namespace": ("DELETE", namespace("a"), None),
    "properties": ("POST", f"{namespace('a')}/properties", {"updates": {"k": "v"}}),
    "create": ("POST", f"{namespace('a')}/tables", table("u")),
    "create view": ("POST", f"{namespace('a')}/views", VIEW),
    "rename": (
        "POST",
        "/tables/rename",
        {"source": {"namespace": ["a"], "name": "t"}, "destination": {"namespace": ["a"], "name": "u"}},
    ),
}


async def _spoil_log(world: World) -> None:
    """Something that is no segment comes next in the catalog's log."""
    follower = world.workspace().logs["catalog"].follower
    path = follower.sequence.path(follower.tail.number + 1)
    await world.store.put(f"{ACME.root}/{path}", b"{", only_if_absent=True)


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_meets_a_damaged_log_is_told_that_nothing_was_written(name: str, keyed: bool) -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["a"]})
        await done(world, "POST", f"{namespace('a')}/tables", table("t"))
        await _spoil_log(world)
        method, path, body = CHANGES[name]
        headers = {"Idempotency-Key": key(world.host.runtime.now(), 1)} if keyed else None
        answer = await ask(world, method, path, body, headers=headers)
        status, kind, message = error_of(answer)
        assert (status, kind) in ((409, "CommitFailedException"), (503, "ServiceUnavailableException")), message
        assert "wrote nothing" in message or "nothing was written" in message
        assert ("retry-after" in answer.headers) is (status == 503)
        assert "namespace" not in name or status == 503  # 409 would say that it exists, or is not empty

    run_world(work, compact=False)


def test_a_drop_whose_pointer_is_written_is_not_told_as_failed() -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["a"]})
        await done(world, "POST", f"{namespace('a')}/tables", table("t"))
        await _spoil_log(world)
        status, kind, message = error_of(await ask(world, "DELETE", f"{namespace('a')}/tables/t"))
        assert (status, kind) == (500, "CommitStateUnknownException")
        assert "the table is dropped, but its name is not free" in message
        assert error_of(await ask(world, "GET", f"{namespace('a')}/tables/t"))[0] == 500

    run_world(work, compact=False)


def test_damage_that_is_met_before_the_request_is_even_known_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(world: World) -> None:
        token = await world.token(UserRole.OWNER)
        await done(world, "POST", "/namespaces", {"namespace": ["a"]})
        await done(world, "POST", f"{namespace('a')}/tables", table("t"))
        await _spoil_log(world)
        log = world.workspace().logs["catalog"]
        monkeypatch.setattr(type(log), "current", lambda self, *, strong=True: self.follower.catch_up())
        answer = await ask(world, "POST", f"{namespace('a')}/tables/t", COMMIT, token=token)
        assert error_of(answer)[:2] == (503, "ServiceUnavailableException")
        assert "retry-after" in answer.headers
        read = await ask(world, "GET", f"{namespace('a')}/tables/t", token=token)
        assert error_of(read)[:2] == (500, "InternalServerError")

    run_world(work, compact=False)
