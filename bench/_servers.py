"""Servers as processes of their own, and a small HTTP client that costs little CPU beside them."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from arco.storage import Scope

__all__ = ["Answer", "Client", "servers"]

PATIENCE = 60.0


@contextmanager
def servers(folder: Path, scope: Scope, count: int) -> Iterator[list[str]]:
    """So many servers of one workspace on local disk, each as `arco serve` starts it; their URLs."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    environ = {
        **clean,
        "ARCO_STORE": f"file://{folder.absolute()}",
        "ARCO_TENANT_ID": scope.tenant,
        "ARCO_WORKSPACE_ID": scope.workspace,
        "ARCO_LISTEN": "127.0.0.1:0",
    }
    started: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryFile("w+") as errors:
        try:
            for _ in range(count):
                command = [sys.executable, "-m", "arco.cli", "serve", "--json"]
                started.append(
                    subprocess.Popen(
                        command,
                        env=environ,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        text=True,
                    )
                )
            yield [_url(process, errors) for process in started]
        finally:
            for process in started:
                process.terminate()
            for process in started:
                try:
                    process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                if process.stdout is not None:
                    process.stdout.close()


def _url(process: subprocess.Popen[str], errors: Any) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        errors.seek(0)
        raise RuntimeError(f"a server did not start: {errors.read()[-2_000:]}")
    url: str = json.loads(line)["url"]
    return url


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any


class Client:
    """One connection to a server that stays open. An answer must say how long it is, as this API's all do."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(
        self, method: str, path: str, body: Any = None, *, key: str = "", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request below /api/v1."""
        data = b"" if body is None else msgspec.json.encode(body)
        given = {"Host": f"{self._host}:{self._port}", "Content-Length": str(len(data)), **(headers or {})}
        if data:
            given["Content-Type"] = "application/json"
        if key:
            given["Idempotency-Key"] = key
        lines = [f"{method} /api/v1{path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        async with asyncio.timeout(PATIENCE):
            if self._streams is not None and self._streams[0].at_eof():
                await self.close()  # the server ended a connection that was idle for long
            if self._streams is None:
                self._streams = await asyncio.open_connection(self._host, self._port)
            reader, writer = self._streams
            writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data)
            first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
            text = await reader.readexactly(int(found.get("content-length", "0")))
        return Answer(int(first.split()[1]), found, msgspec.json.decode(text) if text else None)

    async def done(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The document of an answer that must be one of success."""
        answer = await self.ask(method, path, body, **options)
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path} was answered {answer.status}: {answer.body}")
        return answer.body

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            await self._streams[1].wait_closed()
            self._streams = None
