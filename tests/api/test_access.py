"""Keys, roles and settings from their making to their end, and the audit that tells of all of it."""

from typing import Any

import httpx
import pytest

from arco.api import Door
from arco.core import new_ulid
from arco.domains.access import UserRole
from tests.api.content import fill
from tests.api.world import World, run_world


def _owned(work: Any) -> Any:
    """Run a test's coroutine with the token of an owner."""

    async def main(world: World) -> Any:
        return await work(world, await world.token(UserRole.OWNER))

    return run_world(main, door=Door.KEYS)


# Keys


def test_a_key_lives_from_its_making_to_its_revocation() -> None:
    async def work(world: World, owner: str) -> list[Any]:
        made = await world.done("POST", "/keys", {"name": "ci", "role": "editor"}, token=owner)
        listed = await world.done("GET", "/keys", token=owner)
        await world.done("DELETE", f"/keys/{made['key']['id']}", token=owner)
        after = await world.done("GET", "/keys", token=owner)
        again = await world.done("POST", "/keys", {"name": "ci", "role": "viewer"}, token=owner)
        return [made, listed, after, again]

    made, listed, after, again = _owned(work)
    assert made["key"] in listed["items"]
    assert made["key"]["role"] == "editor"
    [revoked] = [key for key in after["items"] if key["id"] == made["key"]["id"]]
    assert revoked["revoked_at"] is not None
    assert revoked["revoked_by"]
    assert again["key"]["id"] != made["key"]["id"]


def test_a_token_is_shown_once_and_its_secret_is_nowhere() -> None:
    async def work(world: World, owner: str) -> tuple[str, str]:
        runtime = world.host.runtime
        headers = {"Idempotency-Key": new_ulid(runtime, runtime)}
        made = await world.done("POST", "/keys", {"name": "ci", "role": "viewer"}, token=owner, headers=headers)
        again = await world.done("POST", "/keys", {"name": "ci", "role": "viewer"}, token=owner, headers=headers)
        assert again["token"] is None
        assert again["key"] == made["key"]
        assert again["warnings"]
        paths = ("/keys", "/audit", "/diff?from=catalog:0", f"/operations/{made['operation_id']}")
        texts = [(await world.ask("GET", path, token=owner)).text for path in paths]
        everything = [bytes(data) for data, _ in world.store._objects.values()]  # type: ignore[attr-defined]
        secret = made["token"].split("_", 4)[4]
        assert not any(secret.encode() in data for data in everything)
        return secret, "".join(texts)

    secret, texts = _owned(work)
    assert secret not in texts
    assert "secret_hash" not in texts


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": ""}, 400),
        ({"name": "x" * 129, "role": "viewer"}, 400),
        ({"name": "a\x00", "role": "viewer"}, 400),
        ({"name": "a", "role": "root"}, 400),
        ({"name": "a", "role": "Viewer"}, 400),
        ({"name": "a"}, 400),
        ({"name": "a", "role": "viewer", "expires_at": "tomorrow"}, 400),
        ({"name": "a", "role": "viewer", "expires_at": "2001-01-01T00:00:00Z"}, 400),
        ({"name": "a", "role": "viewer", "expires_at": "99999-01-01T00:00:00Z"}, 400),
        ({"name": "a", "role": "viewer", "token": "mine"}, 400),
        ({"name": "a", "role": "viewer", "secret_hash": "0" * 64}, 400),
    ],
)
def test_a_key_that_cannot_be_is_refused(body: dict[str, Any], status: int) -> None:
    async def work(world: World, owner: str) -> int:
        return (await world.ask("POST", "/keys", body, token=owner)).status_code

    assert _owned(work) == status


def test_two_keys_cannot_share_a_name_and_unknown_ones_cannot_be_revoked() -> None:
    async def work(world: World, owner: str) -> list[int]:
        await world.done("POST", "/keys", {"name": "ci", "role": "viewer"}, token=owner)
        runtime = world.host.runtime
        return [
            (await world.ask("POST", "/keys", {"name": "ci", "role": "viewer"}, token=owner)).status_code,
            (await world.ask("DELETE", f"/keys/{new_ulid(runtime, runtime)}", token=owner)).status_code,
            (await world.ask("DELETE", "/keys/ci", token=owner)).status_code,
        ]

    assert _owned(work) == [409, 404, 400]


# Roles


def test_a_role_is_granted_changed_and_taken_away() -> None:
    async def work(world: World, owner: str) -> list[Any]:
        found: list[Any] = []
        for method, body in (("PUT", {"role": "viewer"}), ("PUT", {"role": "admin"}), ("DELETE", None)):
            await world.done(method, "/roles/ann@example.com", body, token=owner)
            listed = await world.done("GET", "/roles", token=owner)
            found.append([(item["principal"], item["role"]) for item in listed["items"]])
        found.append((await world.ask("DELETE", "/roles/ann@example.com", token=owner)).status_code)
        return found

    assert _owned(work) == [[("ann@example.com", "viewer")], [("ann@example.com", "admin")], [], 404]


def test_the_last_owner_stays() -> None:
    async def work(world: World) -> list[int]:
        await world.done("PUT", "/roles/ann@example.com", {"role": "owner"})
        return [
            (await world.ask("DELETE", "/roles/ann@example.com")).status_code,
            (await world.ask("PUT", "/roles/ann@example.com", {"role": "viewer"})).status_code,
        ]

    assert run_world(work) == [409, 409]


@pytest.mark.parametrize("principal", ["a b", "%20a", "a%00", "a%0Ab", "x" * 257, "%E2%80%AE"])
def test_a_principal_that_is_not_seen_as_it_is_is_refused(principal: str) -> None:
    async def work(world: World, owner: str) -> httpx.Response:
        return await world.ask("PUT", f"/roles/{principal}", {"role": "viewer"}, token=owner)

    answer = _owned(work)
    assert answer.status_code == (200 if principal == "a b" else 400)


# Settings


def test_a_setting_is_changed_and_set_back() -> None:
    async def work(world: World, owner: str) -> list[Any]:
        found = []
        for value in (7, None):
            answer = await world.done("PATCH", "/settings", {"values": {"query.max_rows": value}}, token=owner)
            listed = await world.done("GET", "/settings", token=owner)
            assert answer["settings"] == listed["items"]
            [item] = [item for item in listed["items"] if item["name"] == "query.max_rows"]
            found.append((item["value"], item["default"]))
        return found

    changed, back = _owned(work)
    assert changed[0] == 7
    assert back[0] == back[1] == changed[1]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"nothing": 1},
        {"query.max_rows": 0},
        {"query.max_rows": -1},
        {"query.max_rows": 1 << 60},
        {"query.max_rows": 1 << 100},
        {"query.max_rows": 1.5},
        {"query.max_rows": "7"},
        {"query.max_rows": True},
        {"query.max_rows": 7, "nothing": 1},
    ],
)
def test_a_setting_that_cannot_be_is_refused_and_none_of_the_others_is_set(values: dict[str, Any]) -> None:
    async def work(world: World, owner: str) -> tuple[int, bool]:
        before = await world.done("GET", "/settings", token=owner)
        answer = await world.ask("PATCH", "/settings", {"values": values}, token=owner)
        after = await world.done("GET", "/settings", token=owner)
        return answer.status_code, before["items"] == after["items"]

    assert _owned(work) == (400, True)


# Audit


async def _audit(world: World, owner: str, **query: Any) -> list[Any]:
    items: list[Any] = (await world.done("GET", "/audit", token=owner, **query))["items"]
    return items


ACTIONS: list[tuple[str, str, str, str, Any]] = [
    ("UpdateContract", "contract", "PUT", "/tables/sales.orders/contract", {"description": "new"}),
    ("UpdateContract", "contract", "DELETE", "/tables/sales.orders/contract", None),
    ("UpdateSla", "sla", "PUT", "/tables/sales.orders/sla", {"freshness_seconds": 7}),
    ("UpdateSla", "sla", "DELETE", "/tables/sales.orders/sla", None),
    ("CreateApiKey", "api_key", "POST", "/keys", {"name": "audited", "role": "viewer"}),
    ("RevokeApiKey", "api_key", "DELETE", "/keys/{key_id}", None),
    ("UpdateRoles", "role", "PUT", "/roles/new@example.com", {"role": "viewer"}),
    ("UpdateRoles", "role", "DELETE", "/roles/sales@example.com", None),
    ("UpdateTenantSettings", "settings", "PATCH", "/settings", {"values": {"query.max_rows": 9}}),
]


@pytest.mark.parametrize(
    ("action", "resource_type", "method", "path", "body"), ACTIONS, ids=[f"{a[2]} {a[3]}" for a in ACTIONS]
)
def test_every_audited_action_leaves_one_row_that_names_actor_resource_and_request(
    action: str, resource_type: str, method: str, path: str, body: Any
) -> None:
    async def work(world: World, owner: str) -> tuple[Any, list[Any], str, list[Any]]:
        content = await fill(world, token=owner)
        concrete = path.format(key_id=content.key_id)
        before = await _audit(world, owner)
        done = await world.done(method, concrete, body, token=owner, headers={"X-Request-Id": "audited-1"})
        refused = await world.ask("PATCH", "/settings", {"values": {"nothing": 1}}, token=owner)
        assert refused.status_code == 400
        after = await _audit(world, owner)
        who = await world.done("GET", "/whoami", token=owner)
        sql = "SELECT action, resource_type, actor, request_id, log FROM system.audit WHERE request_id = 'audited-1'"
        rows = await world.done("POST", "/query", {"sql": sql}, token=owner)
        return done, after[: len(after) - len(before)], who["actor"], rows["rows"]

    done, new, actor, rows = _owned(work)
    [entry] = new
    assert (entry["action"], entry["resource_type"]) == (action, resource_type)
    assert (entry["actor"], entry["request_id"], entry["log"]) == (actor, "audited-1", "catalog")
    assert entry["operation_id"] == done["operation_id"]
    assert entry["resource"]
    assert rows == [[action, resource_type, actor, "audited-1", "catalog"]]


def test_what_is_private_is_in_no_audit_row_and_what_is_not_is_there_before_and_after() -> None:
    async def work(world: World, owner: str) -> dict[str, Any]:
        await fill(world, token=owner)
        await world.done("PATCH", "/tables/sales.orders", {"description": "newer"}, token=owner)
        return {entry["action"]: entry for entry in await _audit(world, owner, limit=1000)}

    found = _owned(work)
    for action in ("CreateApiKey", "UpdateRoles", "UpdateTenantSettings"):
        assert (found[action]["before"], found[action]["after"]) == (None, None)
    [before], [after] = found["UpdateTable"]["before"]["tables"], found["UpdateTable"]["after"]["tables"]
    assert (before["description"], after["description"]) == ("sales", "newer")


def test_the_audit_of_both_logs_is_one_list_newest_first_in_pages() -> None:
    async def work(world: World, owner: str) -> tuple[list[Any], list[Any]]:
        await fill(world, token=owner)
        whole = await _audit(world, owner, limit=1000)
        paged: list[Any] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await world.done("GET", "/audit", token=owner, limit=3, **cursor)
            paged += page["items"]
            if page["next_cursor"] is None:
                return whole, paged
            cursor = {"cursor": page["next_cursor"]}

    whole, paged = _owned(work)
    assert paged == whole
    assert {entry["log"] for entry in whole} == {"catalog", "activity"}
    times = [entry["recorded_at"] for entry in whole]
    assert times == sorted(times, reverse=True)


def test_the_audit_of_one_log_and_of_the_past() -> None:
    async def work(world: World, owner: str) -> list[Any]:
        content = await fill(world, token=owner)
        one = await _audit(world, owner, log="activity", limit=1000)
        past = await _audit(world, owner, as_of=f"catalog:{content.position}", limit=1000)
        now = await _audit(world, owner, limit=1000)
        return [{entry["log"] for entry in one}, len(past) < len(now), past[0]["action"]]

    assert _owned(work) == [{"activity"}, True, "CreateTable"]


def test_requests_of_the_process_are_counted_by_role_and_operation() -> None:
    async def work(world: World, owner: str) -> tuple[Any, Any, int]:
        before = await world.done("GET", "/requests", token=owner)
        await fill(world, token=owner)
        viewer = await world.done("POST", "/keys", {"name": "v", "role": "viewer"}, token=owner)
        refused = await world.ask("GET", "/requests", token=viewer["token"])
        return before, await world.done("GET", "/requests", token=owner), refused.status_code

    before, after, refused = _owned(work)
    assert refused == 403

    def creates(answer: Any) -> int:
        return sum(one["count"] for one in answer["requests"] if one["operation"] == "create")

    assert creates(after) > creates(before)
    assert before["since"] == after["since"]
    assert {one["role"] for one in after["requests"]} >= {"owner", "reader"}
