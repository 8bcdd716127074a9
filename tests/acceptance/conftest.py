"""Each test runs on local disk and on emulated S3, against servers that are real processes.

- `deployment`: a fresh workspace, which a test starts servers for; `module_deployment`: one for a whole module.
- `workspace`: a fresh workspace of the one server that all tests share which do it no harm; `common` is not fresh.
"""

import asyncio
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from arco.api._caller import format_token, new_secret
from arco.domains.access import KEY_NAMES, CreateApiKey, UserRole
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.storage import Scope, Store
from tests.acceptance.bucket import Bucket, Site
from tests.acceptance.deployment import Deployment, Door, Process, start_many
from tests.emulators.servers import Emulator

NAMED = [Scope("acme", "prod"), Scope("acme", "dev"), Scope("globex", "prod")]
"""Workspaces of the shared server that several tests look at."""

SCOPES = [*NAMED, *(Scope("initech", f"w{number}") for number in range(5))]

SPLIT_BYTES = 32 << 10

_places = itertools.count()


@dataclass(frozen=True)
class Served:
    """A workspace of the shared server: the API with an owner's key, and the bucket behind it."""

    api: Door
    bucket: Bucket
    server: Process


@pytest.fixture(autouse=True, scope="session")
def _no_settings() -> Iterator[None]:
    """Settings of whoever runs the tests mean nothing here."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("ARCO_")]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="session", params=["local", "s3"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def _place(kind: str, request: pytest.FixtureRequest, factory: pytest.TempPathFactory) -> Site:
    if kind == "local":
        return Site("local", f"file://{factory.mktemp('store')}", {})
    emulator: Emulator = request.getfixturevalue("s3_server")
    options = {
        name: str(value).lower() if isinstance(value, bool) else value for name, value in emulator.options.items()
    }
    return Site("s3", emulator.url(f"acceptance-{next(_places)}"), options)


@pytest.fixture(scope="module")
def module_deployment(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """A workspace that the tests of a module share."""
    with Deployment.on(_place(kind, request, tmp_path_factory), tmp_path_factory.mktemp("servers")) as found:
        yield found


@pytest.fixture
def deployment(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> Iterator[Deployment]:
    with Deployment.on(_place(kind, request, tmp_path_factory), tmp_path) as found:
        yield found


async def make_workspace(store: Store, scope: Scope) -> str:
    """A workspace with one key, an owner's; its token."""
    runtime = AsyncRuntime()
    await init_workspace(store, scope, runtime)
    opened = await Workspace.open(store, scope, runtime, test_store=False)
    async with opened as workspace:
        secret, digest = new_secret(runtime)
        command = CreateApiKey("first", role=UserRole.OWNER)
        await workspace.decide("catalog", command, actor="test", minted={"secret_hash": digest})
        row = await workspace.logs["catalog"].replica.get(KEY_NAMES, "first", "first")
        return format_token(scope, row.key_id, secret)


@pytest.fixture(scope="session")
def served(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Scope, Served]]:
    """Every workspace of the shared server."""
    site = _place(kind, request, tmp_path_factory)

    async def prepare() -> list[str]:
        store = site.open()
        try:
            return await asyncio.gather(*(make_workspace(store, scope) for scope in SCOPES))
        finally:
            await store.close()

    tokens = asyncio.run(prepare())
    with start_many(site, tmp_path_factory.mktemp("shared"), SCOPES, SPLIT_BYTES) as [process]:
        yield {
            scope: Served(Door(process.url, process.http, token), Bucket(site, scope), process)
            for scope, token in zip(SCOPES, tokens, strict=True)
        }
        process.end()


@pytest.fixture(scope="session")
def _unused(served: dict[Scope, Served]) -> list[Served]:
    return [served[scope] for scope in SCOPES[len(NAMED) :]]


@pytest.fixture
def workspace(_unused: list[Served]) -> Served:
    """A workspace of the shared server that no other test has."""
    return _unused.pop()


@pytest.fixture
def common(served: dict[Scope, Served]) -> Served:
    """A workspace that other tests use too."""
    return served[NAMED[0]]


@pytest.fixture
def another(_unused: list[Served]) -> Served:
    """A second one."""
    return _unused.pop()
