"""The server as a process: it ends gracefully, and what it answered is there and published afterwards."""

import asyncio
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

import arco.api
from arco.api import Door, Host, ServeOptions, _server, serve
from arco.api._server import _door, is_loopback
from arco.catalog import list_namespaces
from arco.cli._app import app
from arco.core import Invalid, Runtime
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.storage import Scope, open_store
from tests.acceptance.conftest import make_workspace
from tests.cli.server import serving

DEFAULT = Scope("default", "default")


async def _init(store: Path) -> None:
    """Make the workspace that `arco serve` serves unless told otherwise."""
    runtime = AsyncRuntime()
    base = open_store(f"file://{store}", clock=runtime)
    await init_workspace(base, DEFAULT, runtime)
    await base.close()


async def _with_keys(store: Path, scopes: list[Scope]) -> dict[Scope, str]:
    """Make workspaces; a key of each."""
    base = open_store(f"file://{store}", clock=AsyncRuntime())
    tokens = {scope: await make_workspace(base, scope) for scope in scopes}
    await base.close()
    return tokens


async def _published(store: Path) -> tuple[list[str], bool]:
    """Names in the newest revision, and whether that is all there is."""
    runtime = AsyncRuntime()
    base = open_store(f"file://{store}", clock=runtime)
    async with await Workspace.open(base, DEFAULT, runtime, compact=False) as workspace:
        opened = workspace.logs["catalog"]
        snapshot = await opened.snapshot()
        position = await opened.current()
        page = await list_namespaces(snapshot, limit=1000)
        found = [item.name for item in page.items], snapshot.position >= position
    await base.close()
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_under_way_finish_when_the_server_is_told_to_end(tmp_path: Path, number: int) -> None:
    async def writes(url: str, end: Callable[[], None]) -> tuple[list[int | None], list[int | None]]:
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:

            async def write(name: str) -> int | None:
                try:
                    return (await http.post("/api/v1/namespaces", json={"name": name})).status_code
                except httpx.TransportError:
                    return None  # it came too late to be taken

            await write("first")
            tasks = [asyncio.ensure_future(write(f"n{index}")) for index in range(60)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            end()
            under_way = [task for task in tasks if not task.done()]
            return await asyncio.gather(*tasks), [await task for task in under_way]

    asyncio.run(_init(tmp_path))
    with serving(tmp_path) as served:
        statuses, late = asyncio.run(writes(served.url, lambda: served.process.send_signal(number)))
        assert served.process.wait(30) == 0
        assert served.process.stderr is not None
        assert "Traceback" not in served.process.stderr.read()
    names, whole = asyncio.run(_published(tmp_path))
    acknowledged = {f"n{index}" for index, status in enumerate(statuses) if status == 201}
    assert set(statuses) <= {201, None}
    assert 201 in late
    assert acknowledged <= set(names)
    assert "first" in names
    assert whole


def test_a_port_in_use_is_an_error_that_says_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = ServeOptions("memory://", (DEFAULT,), port=taken.getsockname()[1])
        with pytest.raises(Invalid, match="cannot listen"):
            asyncio.run(serve(options, AsyncRuntime()))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),  # noqa: S104 - asked about, never bound
        ("192.168.1.1", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_only_loopback_addresses_open_the_door_of_development(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
    options = ServeOptions("memory://", (DEFAULT,), host=host)
    assert _door(options) is (Door.DEVELOPMENT if loopback else Door.KEYS)


def test_keys_can_be_wanted_on_a_loopback_address_too(tmp_path: Path) -> None:
    asyncio.run(_init(tmp_path))
    with serving(tmp_path, "--listen", "127.0.0.1:0", "--require-keys") as served:
        assert served.door == "keys"
        assert httpx.get(f"{served.url}/api/v1/whoami").status_code == 401
        assert httpx.get(f"{served.url}/healthz").json()["status"] == "ok"
        assert served.stop() == 0


def test_secrets_of_a_server_are_not_in_its_options_text() -> None:
    options = ServeOptions("memory://", (DEFAULT,), service_secret="hunter2", store_options={"key": "hunter2"})
    assert "hunter2" not in repr(options)


def test_what_the_command_line_says_of_many_workspaces_reaches_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names in a file, and the bound: `arco serve` in this process, asked over the network."""
    scopes = [Scope("acme", "a"), Scope("acme", "b"), Scope("globex", "c")]
    tokens = asyncio.run(_with_keys(tmp_path / "store", scopes))
    (tmp_path / "names.txt").write_text("# ours\nacme/a\n\nacme/b  # and this one\n")
    hosts: list[Host] = []
    statuses: list[int] = []
    made = _server.make_host

    def make_host(*given: Any) -> Host:
        hosts.append(made(*given))
        return hosts[0]

    async def ask_and_end(url: str, stop: asyncio.Event) -> None:
        try:
            async with httpx.AsyncClient(base_url=url) as http:
                for scope in scopes:
                    headers = {"Authorization": f"Bearer {tokens[scope]}"}
                    statuses.append((await http.get("/api/v1/whoami", headers=headers)).status_code)
        finally:
            stop.set()

    async def serve_and_ask(options: ServeOptions, runtime: Runtime, ready: Callable[[str, Door], None]) -> None:
        stop = asyncio.Event()
        asking: list[asyncio.Task[None]] = []

        def begin(url: str, door: Door) -> None:
            ready(url, door)
            asking.append(asyncio.get_running_loop().create_task(ask_and_end(url, stop)))

        with monkeypatch.context() as patched:
            patched.setattr(_server, "make_host", make_host)
            patched.setattr(_server, "_spare_the_collector", lambda: None)
            await serve(options, runtime, begin, stop)
        await asking[0]

    monkeypatch.setattr(arco.api, "serve", serve_and_ask)
    named = ["--workspaces", str(tmp_path / "names.txt"), "--tenant", "acme", "--workspace", "a"]
    ran = CliRunner().invoke(
        app,
        ["serve", "--store", f"file://{tmp_path}/store", *named, "--listen", "127.0.0.1:0", "--memory-mb", "64"],
    )
    assert ran.exit_code == 0, (ran.output, ran.exception)
    assert "Serving 2 workspaces" in ran.output
    assert statuses == [200, 200, 401]
    assert hosts[0].served is not None
    assert hosts[0].served.bounds.memory_bytes == 64 << 20
