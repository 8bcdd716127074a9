"""A host with real workspaces in memory, and callers of every kind, for tests of routes.

`World.ask` sends one request through the whole application, as a network would, but in this process.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx

from arco.api import Door, Host, close_app, create_app
from arco.api._caller import format_token, new_secret
from arco.core import ServiceIdentity, new_ulid
from arco.domains.access import KEY_NAMES, CreateApiKey, UserRole
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.state import Cadence
from arco.storage import Scope, Store
from tests.api.stores import SECRET, SIGNED_URL, SigningStore

__all__ = ["ACME", "OTHER", "SERVICE_SECRET", "SIBLING", "World", "run_world", "world"]

T = TypeVar("T")

ACME = Scope("acme", "prod")
SIBLING = Scope("acme", "dev")
OTHER = Scope("globex", "prod")

SERVICE_SECRET = b"what the processes of this world share"


class World:
    def __init__(self, host: Host, app: Any, store: Store) -> None:
        self.host = host
        self.app = app
        self.store = store
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8020")
        self.tokens: dict[tuple[Scope, UserRole], str] = {}

    def workspace(self, scope: Scope = ACME) -> Workspace:
        return self.host.workspaces[scope]

    async def token(self, role: UserRole, scope: Scope = ACME) -> str:
        """A key with a role, made once."""
        if (scope, role) not in self.tokens:
            workspace, runtime = self.workspace(scope), self.host.runtime
            secret, digest = new_secret(runtime)
            name = f"{role}-{new_ulid(runtime, runtime)}"
            await workspace.decide(
                "catalog", CreateApiKey(name, role=role), actor="test", minted={"secret_hash": digest}
            )
            row = await workspace.logs["catalog"].replica.get(KEY_NAMES, name, name)
            self.tokens[scope, role] = format_token(scope, row.key_id, secret)
        return self.tokens[scope, role]

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        **params: Any,
    ) -> httpx.Response:
        """One request below /api/v1."""
        given = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        return await self.http.request(method, f"/api/v1{path}", json=body, headers=given, params=params or None)

    async def done(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The answer's document; the request must succeed."""
        answer = await self.ask(method, path, body, **options)
        assert answer.is_success, (answer.status_code, answer.text)
        return answer.json()


@asynccontextmanager
async def world(
    *,
    door: Door = Door.DEVELOPMENT,
    scopes: tuple[Scope, ...] = (ACME,),
    store: Store | None = None,
    compact: bool = True,
) -> AsyncIterator[World]:
    runtime = AsyncRuntime()
    base = store or SigningStore(runtime)
    workspaces: dict[Scope, Workspace] = {}
    for scope in scopes:
        await init_workspace(base, scope, runtime)
        cadence = Cadence(interval=0.01)
        workspaces[scope] = await Workspace.open(base, scope, runtime, compact=compact, cadence=cadence)
    identity = ServiceIdentity(SERVICE_SECRET, "server", runtime)
    host = Host(
        runtime, workspaces, scopes[0], door, identity=identity, signing=(SECRET, SIGNED_URL), secret=SERVICE_SECRET
    )
    app = create_app(host)
    made = World(host, app, base)
    try:
        yield made
    finally:
        await made.http.aclose()
        await close_app(app)
        for workspace in workspaces.values():
            await workspace.close()


def run_world(work: Callable[[World], Awaitable[T]], **options: Any) -> T:
    """Run a test's coroutine in a world of its own."""

    async def main() -> T:
        async with world(**options) as made:
            return await work(made)

    return asyncio.run(main())
