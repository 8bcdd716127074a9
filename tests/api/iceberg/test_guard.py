"""The guard: every operation is in the table, lets in exactly the roles it names, and is refused in Iceberg's words."""

import re
from typing import Any

import httpx
import pytest

from arco.api import Door
from arco.api._limits import BODY_BYTES
from arco.api._permissions import MATRIX, Permission
from arco.api.iceberg import ICEBERG_ROUTES, PUBLIC
from arco.api.iceberg._app import COMMIT_BYTES, handlers
from arco.api.iceberg._routes import COMMITS, LARGE
from arco.domains.access import UserRole
from tests.api.iceberg.world import PREFIX, ask, error_of, namespace
from tests.api.running import running_world
from tests.api.world import World, run_world


def _concrete(path: str) -> str:
    return re.sub(r"\{[\w-]+\}", "nothing", path.replace("{prefix}", "acme.prod"))


def test_every_operation_is_carried_out_by_something_and_nothing_else_is() -> None:
    assert handlers().keys() | PUBLIC == ICEBERG_ROUTES.keys()
    assert not handlers().keys() & PUBLIC
    assert ICEBERG_ROUTES.keys() >= LARGE >= COMMITS


def test_reading_needs_no_more_than_viewing_and_writing_never_less_than_editing() -> None:
    writes = {"POST", "DELETE"}
    reading = {"credentials", "sign", "metrics", "plan", "{plan-id}", "tasks", "tokens"}
    for (method, path), permission in ICEBERG_ROUTES.items():
        last = path.rpartition("/")[2]
        changes = method in writes and last not in reading
        viewers = permission is None or UserRole.VIEWER in MATRIX[permission]
        assert viewers is not changes, (method, path)
    assert ICEBERG_ROUTES["POST", "/v1/{prefix}/namespaces/{namespace}/properties"] is Permission.EDIT_METADATA


def test_every_operation_lets_in_exactly_the_roles_its_permission_names() -> None:
    async def work(world: World) -> None:
        for (method, path), permission in ICEBERG_ROUTES.items():
            if (method, path) in PUBLIC:
                continue
            for role in UserRole:
                answer = await ask(world, method, _concrete(path), token=await world.token(role))
                may = permission is None or role in MATRIX[permission]
                assert (answer.status_code != 403) is may, (method, path, role, answer.text)
                assert answer.status_code not in (401, 405, 500), (method, path, role, answer.text)
                if answer.status_code >= 400 and method != "HEAD":
                    error_of(answer)

    run_world(work)


def test_without_a_key_nobody_is_let_in_where_keys_are_wanted() -> None:
    async def work(world: World) -> None:
        for method, path in ICEBERG_ROUTES.keys() - PUBLIC:
            for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic eA=="}):
                answer = await ask(world, method, _concrete(path), headers=headers)
                assert answer.status_code == 401, (method, path)
                if method != "HEAD":
                    assert error_of(answer)[1] == "NotAuthorizedException"

    run_world(work, door=Door.KEYS)


def test_unknown_paths_and_methods_are_refused_in_the_same_form() -> None:
    async def work(world: World) -> None:
        for path in ("/v1/nothing", "/v2/config", f"{PREFIX}/tables", f"{PREFIX}/namespaces/a/functions", "/v1/"):
            assert error_of(await ask(world, "GET", path))[0] == 404
        wrong = await ask(world, "PUT", "/namespaces")
        assert error_of(wrong)[:2] == (405, "MethodNotAllowedException")
        assert wrong.headers["allow"] == "GET, POST"
        assert "x-request-id" in wrong.headers
        answer = await ask(world, "HEAD", namespace("nothing"))
        assert (answer.status_code, answer.content) == (404, b"")

    run_world(work)


def test_who_asks_too_often_is_told_to_wait() -> None:
    async def work(world: World) -> httpx.Response:
        await world.done("PATCH", "/settings", {"values": {"rate.requests_per_minute": 1}})
        token = await world.token(UserRole.VIEWER)
        answers = [await ask(world, "GET", "/namespaces", token=token) for _ in range(3)]
        return answers[-1]

    answer = run_world(work)
    assert error_of(answer)[:2] == (429, "TooManyRequestsException")
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("path", "limit"),
    [("/namespaces", BODY_BYTES), ("/transactions/commit", COMMIT_BYTES), (f"{namespace('a')}/tables/t", COMMIT_BYTES)],
)
def test_a_body_that_is_too_large_is_refused(path: str, limit: int) -> None:
    with running_world() as running:
        url, said = f"http://localhost/iceberg{PREFIX}{path}", {"content-length": str(limit + 1)}
        for headers, body in ((said, b""), ({}, b" " * (limit + 1))):
            answer = running.send("POST", url, headers, body)
            assert answer.status == 413
            assert b'"PayloadTooLargeException"' in answer.body
        assert running.send("POST", url, {"content-length": "x"}, b"").status == 400


@pytest.mark.parametrize("body", [b"", b"{", b'{"a": NaN}', b"\xff", b"[" * 100_000, b'{"namespace": ["\\ud800"]}'])
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    answer = run_world(lambda world: world.http.post(f"/iceberg{PREFIX}/namespaces", content=body))
    assert error_of(answer)[:2] == (400, "BadRequestException")


@pytest.mark.parametrize(
    "key", ["", "x", "01930b8c-0000-4000-8000-000000000001", "01930b8c000070008000000000000001", "a" * 5000]
)
def test_a_key_that_is_no_uuid_of_version_7_is_refused(key: str) -> None:
    async def work(world: World) -> Any:
        return await ask(world, "POST", "/namespaces", {"namespace": ["a"]}, headers={"Idempotency-Key": key})

    status, name, message = error_of(run_world(work))
    assert (status, name) == (400, "BadRequestException")
    assert not key or key not in message


def test_unknown_query_parameters_are_left_aside() -> None:
    answer = run_world(lambda world: ask(world, "GET", "/namespaces", newParameter="x"))
    assert answer.status_code == 200
