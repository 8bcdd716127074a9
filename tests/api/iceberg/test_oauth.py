"""The token endpoint: a key is exchanged for itself, everything else is refused in OAuth's words."""

import base64
from typing import Any

import httpx
import pytest

from arco.api import Door
from arco.domains.access import UserRole
from tests.api.iceberg.world import ask
from tests.api.world import World, run_world

URL = "/iceberg/v1/oauth/tokens"


def _post(form: dict[str, str], **options: Any) -> httpx.Response:
    return run_world(lambda world: world.http.post(URL, data=form, **options), door=Door.KEYS)


def _check(answer: httpx.Response, status: int, error: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.json().keys() == {"error", "error_description"}
    assert answer.json()["error"] == error
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("how", ["secret", "parts", "basic", "basic parts"])
def test_a_key_is_exchanged_and_opens_the_catalog(how: str) -> None:
    async def work(world: World) -> None:
        key = await world.token(UserRole.VIEWER)
        head, secret = key[:-44], key[-43:]
        pairs = {"secret": ("somebody", key), "basic": ("somebody", key)}.get(how, (head, secret))
        form, headers = {"grant_type": "client_credentials", "scope": "catalog"}, {}
        if how.startswith("basic"):
            headers["Authorization"] = "Basic " + base64.b64encode(":".join(pairs).encode()).decode()
        else:
            form |= {"client_id": pairs[0], "client_secret": pairs[1]}
        answer = await world.http.post(URL, data=form, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.headers["cache-control"] == "no-store"
        found = answer.json()
        assert found["token_type"] == "bearer"
        assert found["issued_token_type"].endswith(":access_token")
        assert (await ask(world, "GET", "/v1/config", token=found["access_token"])).status_code == 200

    run_world(work, door=Door.KEYS)


@pytest.mark.parametrize("secret", ["", "x", "arco_acme_prod_01JCTXR7GX0000000000000000_" + "a" * 43])
def test_a_key_nobody_knows_is_refused(secret: str) -> None:
    answer = _post({"grant_type": "client_credentials", "client_id": "me", "client_secret": secret})
    _check(answer, 401, "invalid_client")
    assert "www-authenticate" in answer.headers


def test_tokens_are_not_exchanged() -> None:
    grant = "urn:ietf:params:oauth:grant-type:token-exchange"
    _check(_post({"grant_type": grant, "subject_token": "x"}), 400, "unsupported_grant_type")
    _check(_post({}), 400, "invalid_request")


def test_a_body_that_is_no_form_is_refused() -> None:
    async def work(world: World) -> None:
        _check(await world.http.post(URL, json={"grant_type": "client_credentials"}), 400, "invalid_request")
        form = {"content-type": "application/x-www-form-urlencoded"}
        _check(await world.http.post(URL, content=b"\xff=1", headers=form), 400, "invalid_request")
        _check(await world.http.post(URL, content=b"a=1&a=2", headers=form), 400, "invalid_request")
        _check(
            await world.http.post(URL, content=b"&".join([b"a%d=1" % i for i in range(50)]), headers=form),
            400,
            "invalid_request",
        )
        _check(await world.http.post(URL, content=b"a" * 20_000, headers=form), 413, "invalid_request")

    run_world(work, door=Door.KEYS)
