"""A world whose loop runs in a thread of its own, for tests that are not coroutines and ask many times."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from tests.api.world import World, world

__all__ = ["Raw", "Running", "running_world"]

T = TypeVar("T")

PATIENCE = 60.0


@dataclass(frozen=True)
class Raw:
    """An answer as it came."""

    status: int
    headers: dict[str, list[str]]
    body: bytes


class Running:
    def __init__(self, made: World, loop: asyncio.AbstractEventLoop) -> None:
        self.world = made
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Raw:
        """One request as it is, of any length and with any header; no client library looks at it."""
        return self.run(_send(self.world.app, method, url, headers, body))


async def _send(app: Any, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Raw:
    parts = urlsplit(url)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": parts.scheme,
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(b"host", parts.netloc.encode())]
        + [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": (parts.hostname, parts.port),
    }
    waiting = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    try:
        await app(scope, receive, send)
    except Exception:
        # The framework raises again what it has answered with 500, for the server's log.
        if not sent or sent[0]["status"] != 500:
            raise
    found: dict[str, list[str]] = {}
    for name, value in sent[0]["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return Raw(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))


@contextmanager
def running_world(**options: Any) -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    opened = world(**options)
    try:
        made = asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result(PATIENCE)
        try:
            yield Running(made, loop)
        finally:
            asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop).result(PATIENCE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
