"""`/v1/config`: which warehouses there are for whom, and that it tells exactly what exists."""

import re

import pytest

from arco.api import Door
from arco.api.iceberg import ICEBERG_ROUTES
from arco.domains.access import UserRole
from tests.api.iceberg.world import ask, done, error_of
from tests.api.world import ACME, OTHER, World, run_world


@pytest.mark.parametrize("warehouse", [None, "", "prod", "acme/prod", "acme.prod"])
def test_a_workspace_is_a_warehouse(warehouse: str | None) -> None:
    given = {} if warehouse is None else {"warehouse": warehouse}
    found = run_world(lambda world: done(world, "GET", "/v1/config", **given))
    assert found["overrides"] == {"prefix": "acme.prod", "namespace-separator": "%1F"}
    assert found["defaults"] == {}


@pytest.mark.parametrize("warehouse", ["dev", "acme/dev", "globex/prod", "x", "acme/prod/", "../prod", "*", "a" * 5000])
def test_another_warehouse_does_not_exist(warehouse: str) -> None:
    async def work(world: World) -> None:
        answer = await ask(world, "GET", "/v1/config", token=await world.token(UserRole.OWNER), warehouse=warehouse)
        status, name, message = error_of(answer)
        assert (status, name) == (404, "NoSuchWarehouseException")
        assert len(message) < 200

    run_world(work, scopes=(ACME, OTHER))


def test_a_prefix_of_another_workspace_is_answered_like_one_that_never_was() -> None:
    async def work(world: World) -> None:
        token = await world.token(UserRole.OWNER)
        answers = [
            await ask(world, "GET", f"/v1/{prefix}/namespaces", token=token)
            for prefix in ("globex.prod", "nobody.here")
        ]
        texts = [error_of(answer)[2].replace("globex.prod", "P").replace("nobody.here", "P") for answer in answers]
        assert {answer.status_code for answer in answers} == {404}
        assert texts[0] == texts[1]

    run_world(work, scopes=(ACME, OTHER))


def test_everything_that_is_listed_answers_and_everything_that_answers_is_listed() -> None:
    async def work(world: World) -> list[str]:
        listed: list[str] = (await done(world, "GET", "/v1/config"))["endpoints"]
        for endpoint in listed:
            method, path = endpoint.split(" ")
            concrete = re.sub(r"\{[\w-]+\}", "nothing", path.replace("{prefix}", "acme.prod"))
            answer = await ask(world, method, concrete)
            assert answer.status_code not in (405, 500, 501), (endpoint, answer.text)
            assert answer.status_code != 404 or "no such path" not in answer.text, endpoint
        return listed

    assert set(run_world(work)) == {f"{method} {path}" for method, path in ICEBERG_ROUTES if "{prefix}" in path}


def test_the_life_of_keys_is_a_duration_that_java_can_read() -> None:
    found = run_world(lambda world: done(world, "GET", "/v1/config"))
    assert re.fullmatch(r"P\d+D|PT\d+[HMS]", found["idempotency-key-lifetime"])


def test_without_a_key_nobody_is_told_anything() -> None:
    answer = run_world(lambda world: ask(world, "GET", "/v1/config"), door=Door.KEYS)
    assert error_of(answer)[:2] == (401, "NotAuthorizedException")
    assert answer.headers["www-authenticate"].startswith("Bearer")
