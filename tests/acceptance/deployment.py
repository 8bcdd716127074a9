"""Servers of one workspace as processes that a test starts, asks, stops and kills."""

import contextlib
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import httpx

from arco.core import new_ulid
from arco.runtime import AsyncRuntime
from arco.storage import Scope
from tests.acceptance import server
from tests.acceptance.bucket import Bucket, Site
from tests.acceptance.server import Many

__all__ = ["SECRET", "Deployment", "Door", "Process", "new_key", "start_many", "until"]

SECRET = "0123456789abcdef" * 2

_runtime = AsyncRuntime()
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.acceptance.server"])


def new_key() -> str:
    """A request key, or any other fresh ULID."""
    return new_ulid(_runtime, _runtime)


def until(holds: Callable[[], Any], what: str, seconds: float = 20.0) -> Any:
    """Wait for something that must come; what it is, once it holds."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        found = holds()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"still not: {what}")


class Door:
    """One workspace as a caller of the API sees it."""

    def __init__(self, url: str, http: httpx.Client, token: str = "") -> None:
        self.url = url
        self.token = token
        self.http = http

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str = "",
        headers: dict[str, str] | None = None,
        **q: Any,
    ) -> httpx.Response:
        """One request below /api/v1, with a request key if one is given."""
        given = {**(headers or {}), **({"Idempotency-Key": key} if key else {})}
        if self.token:
            given.setdefault("Authorization", f"Bearer {self.token}")
        return self.http.request(method, f"{self.url}/api/v1{path}", json=body, headers=given, params=q or None)

    def done(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The answer's document; the request must succeed."""
        answer = self.ask(method, path, body, **options)
        assert answer.is_success, (answer.status_code, answer.text)
        return answer.json()

    def rows(self, sql: str, **options: Any) -> list[list[Any]]:
        found: list[list[Any]] = self.done("POST", "/query", {"sql": sql, **options})["rows"]
        return found

    def values(self, *expressions: str) -> list[Any]:
        """Several single values by one query: each query starts a process of its own, which takes a second."""
        return self.rows(f"select {', '.join(f'({one})' for one in expressions)}")[0]

    def send(self, events: list[dict[str, Any]], *, key: str = "") -> dict[str, Any]:
        """Record facts; every one of them must be taken."""
        answer: dict[str, Any] = self.done("POST", "/events", {"events": events}, key=key)
        assert answer["refused"] == 0, answer
        return answer

    def create_table(self, name: str, columns: int = 1, **options: Any) -> httpx.Response:
        body = {"name": name, "columns": [{"name": f"c{n}", "type": "string"} for n in range(columns)]}
        return self.ask("POST", "/tables", body, **options)


class Process(Door):
    """A running server."""

    def __init__(self, process: ForkServerProcess, http: httpx.Client, output: Path) -> None:
        self.process = process
        self.output = output
        super().__init__(json.loads(until(self._first_line, "the server started"))["url"], http)

    def _first_line(self) -> str:
        assert self.process.is_alive(), f"the server did not start: {self.errors()[-2000:]}"
        line, newline, _ = self.output.read_text().partition("\n")
        return line if newline else ""

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """As if its power went: no handler runs."""
        self.process.kill()
        self.process.join()

    def end(self) -> None:
        """As an operator ends it; it must go by itself and without trouble."""
        self.signal(signal.SIGTERM)
        self.process.join(20)
        assert not self.process.is_alive()
        assert not self.errors(), self.errors()[-2000:]

    def errors(self) -> str:
        return self.output.with_suffix(".err").read_text()


class _Starter:
    """Starts servers, and leaves none running."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[ForkServerProcess] = []
        self.http = httpx.Client(trust_env=False, timeout=60, limits=httpx.Limits(max_connections=200))

    def launch(self, command: list[str] | Many, **environ: str) -> tuple[ForkServerProcess, Path]:
        output = self._folder / f"server-{len(self._started)}.out"
        errors = output.with_suffix(".err")
        for path in (output, errors):
            path.touch()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
        given = (command, {**inherited, **environ}, str(output), str(errors))
        process = _context.Process(target=server.run, args=given)
        process.start()
        self._started.append(process)
        return process, output

    def close(self) -> None:
        self.http.close()
        for process in self._started:
            process.kill()
            process.join()
            process.close()


class Deployment:
    """The processes of one workspace, each started as `arco serve` starts it."""

    def __init__(self, bucket: Bucket, folder: Path) -> None:
        self.bucket = bucket
        self._starter = _Starter(folder)

    @classmethod
    @contextlib.contextmanager
    def on(cls, site: Site, folder: Path, scope: Scope | None = None) -> Iterator["Deployment"]:
        """A fresh workspace that nobody serves yet."""
        deployment = cls(Bucket(site, scope or Scope("acme", "prod")), folder)
        try:
            deployment.bucket.init()
            yield deployment
        finally:
            deployment._starter.close()

    def start(self, *roles: str, **settings: object) -> list[Process]:
        """Servers with these roles and settings (`merge_fan_in=2`), started at once."""
        scope = self.bucket.scope
        environ = {
            **self.bucket.site.environ,
            "ARCO_SERVICE_SECRET": SECRET,
            "ARCO_TENANT_ID": scope.tenant,
            "ARCO_WORKSPACE_ID": scope.workspace,
            "ARCO_LISTEN": "127.0.0.1:0",
            **{f"ARCO_{name.upper()}": str(value) for name, value in settings.items()},
        }
        launched = [self._starter.launch(["serve", "--json", "--role", role], **environ) for role in roles]
        return [Process(process, self._starter.http, output) for process, output in launched]


@contextlib.contextmanager
def start_many(
    site: Site, folder: Path, scopes: list[Scope], split_bytes: int, *, count: int = 1, **options: Any
) -> Iterator[list[Process]]:
    """Servers for several workspaces, which want keys."""
    starter = _Starter(folder)
    try:
        named = tuple((scope.tenant, scope.workspace) for scope in scopes)
        config = Many(site.url, site.options, named, SECRET, split_bytes, **options)
        launched = [starter.launch(config) for _ in range(count)]
        yield [Process(process, starter.http, output) for process, output in launched]
    finally:
        starter.close()
