"""Servers of many workspaces as processes: opened by the first request, closed when idle, nothing lost by either."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from arco.storage import Scope
from tests.acceptance.bucket import Bucket, Site
from tests.acceptance.conftest import make_workspace
from tests.acceptance.deployment import Door, Process, start_many, until

COUNT = 12
IDLE = 2.0
SCOPES = [Scope(f"tenant-{index % 3}", f"w{index:02d}") for index in range(COUNT)]


class Many:
    def __init__(self, site: Site, tokens: dict[Scope, str], servers: list[Process]) -> None:
        self.site = site
        self.tokens = tokens
        self.servers = servers

    def door(self, scope: Scope, server: int = 0) -> Door:
        process = self.servers[server]
        return Door(process.url, process.http, self.tokens[scope])

    def names(self, scope: Scope, server: int = 0) -> set[str]:
        return {item["name"] for item in self.door(scope, server).done("GET", "/namespaces")["items"]}

    def published(self, scope: Scope) -> int:
        return len([info for info in Bucket(self.site, scope).objects() if "/manifests/catalog/0" in info.path])


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Many]:
    site = Site("local", f"file://{tmp_path / 'store'}", {})

    async def prepare() -> list[str]:
        store = site.open()
        try:
            return [await make_workspace(store, scope) for scope in SCOPES]
        finally:
            await store.close()

    tokens = dict(zip(SCOPES, asyncio.run(prepare()), strict=True))
    options = {"idle_seconds": IDLE, "all_workspaces": True}
    with start_many(site, tmp_path, SCOPES[:1], 1 << 26, count=2, **options) as servers:
        yield Many(site, tokens, servers)


def test_each_workspace_is_served_closed_and_served_again(many: Many) -> None:
    for scope in SCOPES:
        assert many.door(scope).ask("POST", "/namespaces", {"name": f"of_{scope.workspace}"}).status_code == 201
    for scope in SCOPES:
        assert many.names(scope) == {f"of_{scope.workspace}"}, "and of no other workspace"
    # The other server forwards while the first owns the log, and takes it over once that one has closed it.
    for scope in SCOPES[:3]:
        assert many.door(scope, 1).ask("POST", "/namespaces", {"name": "second"}).status_code == 201
    for scope in SCOPES[:3]:
        until(lambda scope=scope: many.published(scope) >= 2, "what was folded is published when it closes")  # type: ignore[misc]
        assert many.names(scope) == {f"of_{scope.workspace}", "second"}
    for server in many.servers:
        server.end()


def test_strangers_are_answered_alike_and_nothing_is_lost_by_a_kill(many: Many) -> None:
    ours = SCOPES[0]
    _, _, _, key_id, secret = many.tokens[ours].split("_", 4)
    process = many.servers[0]
    answers = [
        Door(process.url, process.http, f"arco_{tenant}_{workspace}_{key_id}_{secret}").ask("GET", "/namespaces")
        for tenant, workspace in (("tenant-1", "w01"), ("tenant-1", "absent"), ("nobody", "w01"))
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.json()["detail"] for answer in answers}) == 1
    for scope in SCOPES:
        assert many.door(scope).ask("POST", "/namespaces", {"name": "kept"}).status_code == 201
    process.signal(signal.SIGKILL)
    for scope in SCOPES:
        assert many.names(scope, 1) == {"kept"}
