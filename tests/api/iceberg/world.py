"""Requests to the Iceberg catalog of a world, for tests of its routes."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
from starlette.responses import Response

from tests.api.world import ACME, World

__all__ = ["PREFIX", "ask", "done", "error_of", "namespace"]

PREFIX = f"/v1/{ACME.tenant}.{ACME.workspace}"


async def ask(
    world: World,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    **params: str,
) -> httpx.Response:
    """One request below the warehouse's prefix; a path with `/v1/` is taken as it is."""
    given = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
    where = path if path.startswith("/v1/") else f"{PREFIX}{path}"
    return await world.http.request(method, f"/iceberg{where}", json=body, headers=given, params=params or None)


async def done(world: World, method: str, path: str, body: Any = None, **options: Any) -> Any:
    """The answer's document, None if it has none; the request must succeed."""
    answer = await ask(world, method, path, body, **options)
    assert answer.is_success, (answer.status_code, answer.text)
    return answer.json() if answer.content else None


def error_of(answer: httpx.Response | Response) -> tuple[int, str, str]:
    """Status, type and message of an error, whose form is checked."""
    document = json.loads(answer.content if isinstance(answer, httpx.Response) else bytes(answer.body))
    assert document.keys() == {"error"}
    assert document["error"].keys() == {"message", "type", "code"}
    assert document["error"]["code"] == answer.status_code
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, document["error"]["type"], document["error"]["message"]


def namespace(*levels: str) -> str:
    return f"/namespaces/{quote(chr(0x1F).join(levels), safe='')}"
