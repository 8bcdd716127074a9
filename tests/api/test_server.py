"""The server as a process: it ends gracefully, and what it answered is there and published afterwards."""

import asyncio
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from arco.api import Door, ServeOptions, serve
from arco.api._server import _door, is_loopback
from arco.catalog import list_namespaces
from arco.core import Invalid
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.storage import Scope, open_store
from tests.cli.server import serving

DEFAULT = Scope("default", "default")


async def _init(store: Path) -> None:
    """Make the workspace that `arco serve` serves unless told otherwise."""
    runtime = AsyncRuntime()
    base = open_store(f"file://{store}", clock=runtime)
    await init_workspace(base, DEFAULT, runtime)
    await base.close()


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
