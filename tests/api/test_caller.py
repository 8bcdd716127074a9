"""Who asks: keys good and bad, roles that change, and the door of development that no foreign page may use."""

import httpx
import pytest

from arco.api import Door
from arco.api._caller import format_token, new_secret
from arco.core import SECOND, format_time, new_ulid
from arco.domains.access import UserRole
from tests.api.world import ACME, World, run_world


async def _owner(world: World) -> str:
    return await world.token(UserRole.OWNER)


async def _status(world: World, token: str, path: str = "/whoami") -> int:
    return (await world.ask("GET", path, token=token)).status_code


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic {token}",
        "{token}",
        "Bearer {token} extra",
        "Bearer {token}x",
        "Bearer x{token}",
        "Bearer {token}, Bearer {token}",
        'Bearer "{token}"',
        "Bearer arco_acme_prod",
        "Bearer \xe9",
        "Bearer {unknown}",
        "Bearer {wrong}",
        "Bearer {elsewhere}",
    ],
)
def test_whatever_is_wrong_with_a_key_is_answered_alike(header: str) -> None:
    async def work(world: World) -> httpx.Response:
        token = await _owner(world)
        parts = token.split("_", 4)
        runtime = world.host.runtime
        filled = header.format(
            token=token,
            unknown=format_token(ACME, new_ulid(runtime, runtime), parts[4]),
            wrong=format_token(ACME, parts[3], new_secret(runtime)[0]),
            elsewhere=token.replace("acme", "globex"),
        )
        given = {"Authorization": filled.encode("latin-1"), "X-Request-Id": "same"}
        return await world.http.get("/api/v1/whoami", headers=given)  # type: ignore[arg-type]

    answer = run_world(work, door=Door.KEYS)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["detail"] == "this key is not valid here: unknown, revoked, expired, or of another workspace"


def test_the_scheme_may_be_written_in_any_case() -> None:
    async def work(world: World) -> int:
        headers = {"Authorization": f"bEaReR {await _owner(world)}"}
        return (await world.http.get("/api/v1/whoami", headers=headers)).status_code

    assert run_world(work, door=Door.KEYS) == 200


def test_a_revoked_key_is_refused_at_once() -> None:
    async def work(world: World) -> list[int]:
        owner = await _owner(world)
        made = await world.done("POST", "/keys", {"name": "ci", "role": "viewer"}, token=owner)
        before = await _status(world, made["token"])
        await world.done("DELETE", f"/keys/{made['key']['id']}", token=owner)
        return [before, await _status(world, made["token"])]

    assert run_world(work, door=Door.KEYS) == [200, 401]


def test_a_key_expires() -> None:
    async def work(world: World) -> list[int]:
        owner, runtime = await _owner(world), world.host.runtime
        expires = format_time(runtime.now() + 2 * SECOND)
        made = await world.done("POST", "/keys", {"name": "ci", "role": "viewer", "expires_at": expires}, token=owner)
        before = await _status(world, made["token"])
        await runtime.sleep(2.1)
        return [before, await _status(world, made["token"])]

    assert run_world(work, door=Door.KEYS) == [200, 401]


def test_a_key_of_a_principal_has_the_principals_role_at_the_time_of_asking() -> None:
    async def work(world: World) -> list[int]:
        owner = await _owner(world)
        await world.done("PUT", "/roles/ann@example.com", {"role": "owner"}, token=owner)
        made = await world.done("POST", "/keys", {"name": "ann", "principal": "ann@example.com"}, token=owner)
        token = made["token"]
        found = [await _status(world, token, "/keys")]
        await world.done("PUT", "/roles/ann@example.com", {"role": "viewer"}, token=owner)
        found += [await _status(world, token, "/keys"), await _status(world, token)]
        await world.done("DELETE", "/roles/ann@example.com", token=owner)
        return [*found, await _status(world, token)]

    assert run_world(work, door=Door.KEYS) == [200, 403, 200, 401]


def test_a_key_for_a_principal_without_a_role_opens_nothing() -> None:
    async def work(world: World) -> int:
        owner = await _owner(world)
        made = await world.ask("POST", "/keys", {"name": "bob", "principal": "bob@example.com"}, token=owner)
        return await _status(world, made.json()["token"]) if made.is_success else 401

    assert run_world(work, door=Door.KEYS) == 401


def test_the_actor_names_the_principal_and_the_key() -> None:
    async def work(world: World) -> list[str]:
        owner = await _owner(world)
        await world.done("PUT", "/roles/ann@example.com", {"role": "editor"}, token=owner)
        made = await world.done("POST", "/keys", {"name": "k", "principal": "ann@example.com"}, token=owner)
        who = await world.done("GET", "/whoami", token=made["token"])
        space = await world.done("POST", "/namespaces", {"name": "a"}, token=made["token"])
        return [who["actor"], space["namespace"]["created_by"], f"ann@example.com/{made['key']['id']}"]

    first, second, expected = run_world(work, door=Door.KEYS)
    assert first == second == expected


def test_a_forbidden_request_names_the_role_and_the_permission() -> None:
    async def work(world: World) -> httpx.Response:
        return await world.ask("GET", "/keys", token=await world.token(UserRole.EDITOR))

    answer = run_world(work, door=Door.KEYS)
    assert answer.status_code == 403
    assert answer.json()["details"] == {"permission": "manage_keys", "role": "editor"}


def test_health_and_the_document_need_no_key() -> None:
    async def work(world: World) -> list[int]:
        return [(await world.http.get(path)).status_code for path in ("/healthz", "/readyz", "/openapi.json")]

    assert run_world(work, door=Door.KEYS) == [200, 200, 200]


# The door of development


def _through_the_door(headers: dict[str, str]) -> int:
    async def work(world: World) -> int:
        return (await world.http.get("/api/v1/whoami", headers=headers)).status_code

    return run_world(work, door=Door.DEVELOPMENT)


@pytest.mark.parametrize("host", ["localhost", "localhost:8020", "127.0.0.1:8020", "127.9.9.9", "[::1]:8020", "[::1]"])
def test_the_developer_needs_no_key_under_a_loopback_name(host: str) -> None:
    assert _through_the_door({"Host": host}) == 200
    assert _through_the_door({"Host": host, "Origin": f"http://{host}"}) == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:8020",
        "localhost:8020@evil",
        "localhost evil",
        "192.168.0.1",
        "10.0.0.1:8020",
        "localhost:",
        "[::1",
    ],
)
def test_a_name_made_to_point_here_is_refused(host: str) -> None:
    assert _through_the_door({"Host": host}) == 401


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://localhost:9999", "http://localhost", "localhost:8020", "", "file://"],
)
def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    assert _through_the_door({"Host": "localhost:8020", "Origin": origin}) == 401


def test_a_bad_key_is_refused_where_none_is_needed() -> None:
    assert _through_the_door({"Host": "localhost", "Authorization": "Bearer x"}) == 401


def test_with_a_key_any_name_and_page_may_ask() -> None:
    async def work(world: World) -> int:
        headers = {"Host": "arco.example.com", "Origin": "https://app.example.com"}
        return (await world.ask("GET", "/whoami", token=await _owner(world), headers=headers)).status_code

    assert run_world(work, door=Door.KEYS) == 200


@pytest.mark.parametrize("name", ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP"])
def test_nobody_behind_a_proxy_is_the_developer(name: str) -> None:
    assert _through_the_door({"Host": "localhost:8020", name: "203.0.113.9"}) == 401
