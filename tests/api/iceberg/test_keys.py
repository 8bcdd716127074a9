"""Idempotency keys: a request is carried out once, however often it is sent, and a key is good for one request."""

from typing import Any

import pytest

from tests.api.iceberg.content import VIEW, key, table
from tests.api.iceberg.world import ask, done, error_of, namespace
from tests.api.world import World, run_world

NS = namespace("ns")
T = f"{NS}/tables/t"
SET = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"x": "1"}}]}
OTHER = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"x": "2"}}]}
RENAME = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}


def _headers(world: World, number: int) -> dict[str, str]:
    return {"Idempotency-Key": key(world.host.runtime.now(), number)}


async def _position(world: World) -> int:
    return await world.workspace().logs["catalog"].current()


REQUESTS: dict[str, tuple[str, str, Any, Any]] = {
    "create namespace": ("POST", "/namespaces", {"namespace": ["new"]}, {"namespace": ["other"]}),
    "properties": ("POST", f"{NS}/properties", {"updates": {"a": "b"}, "removals": ["c"]}, {"updates": {"a": "c"}}),
    "create": ("POST", f"{NS}/tables", table("n"), table("m")),
    "commit": ("POST", T, SET, OTHER),
    "rename": ("POST", "/tables/rename", RENAME, {**RENAME, "source": {"namespace": ["ns"], "name": "x"}}),
    "transaction": (
        "POST",
        "/transactions/commit",
        {"table-changes": [{**SET, "identifier": {"namespace": ["ns"], "name": "t"}}]},
        {"table-changes": [{**OTHER, "identifier": {"namespace": ["ns"], "name": "t"}}]},
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_repeated_request_is_answered_and_not_carried_out_again(name: str) -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"], "properties": {"c": "d"}})
        await done(world, "POST", f"{NS}/tables", table())
        method, path, body, other = REQUESTS[name]
        headers = _headers(world, 1)
        first = await ask(world, method, path, body, headers=headers)
        assert first.is_success, first.text
        before = await _position(world), (await ask(world, "GET", T)).content
        again = await ask(world, method, path, body, headers=headers)
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert (await _position(world), (await ask(world, "GET", T)).content) == before
        reused = await ask(world, method, path, other, headers=headers)
        assert error_of(reused)[:2] == (409, "CommitFailedException"), reused.text

    run_world(work)


def test_repeated_drops_succeed_though_what_they_dropped_is_gone() -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        await done(world, "POST", f"{NS}/tables", table())
        await done(world, "POST", f"{NS}/views", VIEW)
        headers = [_headers(world, number) for number in range(3)]
        for given, path in zip(headers, (T, f"{NS}/views/v", NS), strict=True):
            for _ in range(2):
                answer = await ask(world, "DELETE", path, headers=given)
                assert answer.status_code == 204, (path, answer.text)
        reused = await ask(world, "DELETE", NS, headers=headers[0])
        assert error_of(reused)[:2] == (409, "CommitFailedException")

    run_world(work)


def test_a_key_is_good_for_one_route_though_the_bodies_are_the_same() -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        await done(world, "POST", f"{NS}/tables", table())
        headers = _headers(world, 1)
        assert (await ask(world, "POST", "/tables/rename", RENAME, headers=headers)).status_code == 204
        reused = await ask(world, "POST", "/views/rename", RENAME, headers=headers)
        assert error_of(reused)[:2] == (409, "CommitFailedException")

    run_world(work)


def test_a_key_of_a_commit_is_none_for_a_name_and_the_other_way_round() -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        created, committed, moved = (_headers(world, number) for number in range(3))
        await done(world, "POST", f"{NS}/tables", table(), headers=created)
        await done(world, "POST", f"{NS}/tables", table("w"))
        change = [{**SET, "identifier": {"namespace": ["ns"], "name": name}} for name in ("t", "w")]
        await done(world, "POST", T, SET, headers=committed)
        await done(world, "POST", "/transactions/commit", {"table-changes": change}, headers=moved)
        before = await _position(world), (await ask(world, "GET", T)).content
        asked = [
            ("POST", T, OTHER, created),
            ("POST", "/transactions/commit", {"table-changes": change}, created),
            ("DELETE", T, None, committed),
            ("POST", "/tables/rename", RENAME, committed),
            ("POST", f"{NS}/tables", table("n"), moved),
        ]
        for method, path, body, headers in asked:
            reused = await ask(world, method, path, body, headers=headers)
            assert error_of(reused)[:2] == (409, "CommitFailedException"), (method, path)
        assert (await _position(world), (await ask(world, "GET", T)).content) == before

    run_world(work)


def test_a_key_that_is_too_old_is_refused() -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        old = {"Idempotency-Key": key(world.host.runtime.now() - 8 * 86_400_000_000, 1)}
        for path, body in (("/namespaces", {"namespace": ["a"]}), (f"{NS}/tables", table())):
            assert error_of(await ask(world, "POST", path, body, headers=old))[:2] == (400, "BadRequestException")

    run_world(work)


def test_a_refused_request_may_be_sent_again_under_its_key() -> None:
    async def work(world: World) -> None:
        headers = _headers(world, 1)
        assert (await ask(world, "POST", f"{NS}/tables", table(), headers=headers)).status_code == 404
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        assert (await ask(world, "POST", f"{NS}/tables", table(), headers=headers)).status_code == 200

    run_world(work)
