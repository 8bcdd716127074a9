"""A real server and a real worker as processes of their own, and what the bench asks of them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx
import msgspec

from arco.core import sha256_hex
from arco.sdk import load_project, pack_code
from arco.storage import Scope
from bench._servo_projects import MARKS, read_marks

__all__ = ["Fleet", "Load", "fleet"]

PATIENCE = 900.0
POLL_SECONDS = 0.2
"""Few questions, so that asking costs the server nothing; when a run ended stands in its row."""
COUNTS, CALLS = "counts", "calls"


@dataclass(frozen=True)
class Load:
    """What the processes have used so far: CPU seconds of each, and requests to the store."""

    server: float
    worker: float
    requests: Counter[str]


class Fleet:
    def __init__(self, url: str, server: int, worker: int, aside: Path) -> None:
        self._server, self._worker = server, worker
        self._counts, self._marks = aside / COUNTS, aside / CALLS
        self._client = httpx.AsyncClient(base_url=f"{url}/api/v1", timeout=PATIENCE, trust_env=False)

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, method: str, path: str, **options: Any) -> Any:
        answer = await self._client.request(method, path, **options)
        if not answer.is_success:
            raise RuntimeError(f"{method} {path} was answered {answer.status_code}: {answer.text[:1000]}")
        return answer.json()

    async def deploy(self, folder: Path) -> None:
        loaded = load_project(folder)
        if loaded.problems:
            raise RuntimeError(f"a project of the bench is wrong: {loaded.problems[0]}")
        code = pack_code(folder)
        project = msgspec.structs.replace(loaded.project, code_sha256=sha256_hex(code))
        name = f"/code/{project.code_sha256}"
        answer = await self._client.put(name, content=code, headers={"content-type": "application/zip"})
        answer.raise_for_status()
        await self.ask("POST", "/deployments", json={"project": msgspec.to_builtins(project)})

    async def finished(self, run_id: str) -> Any:
        """The run, when it has ended."""
        async with asyncio.timeout(PATIENCE):
            while True:
                await asyncio.sleep(POLL_SECONDS)
                run = await self.ask("GET", f"/runs/{run_id}")
                if run["state"] not in ("PENDING", "RUNNING", "CANCELLING"):
                    break
        if run["state"] != "SUCCEEDED":
            raise RuntimeError(f"the run {run_id} is {run['state']}")
        return run

    def marks(self) -> list[float]:
        """When functions were called since this was last asked, in seconds."""
        return read_marks(self._marks)

    async def load(self) -> Load:
        self._counts.unlink(missing_ok=True)
        os.kill(self._server, signal.SIGUSR1)
        async with asyncio.timeout(PATIENCE):
            while not self._counts.exists():
                await asyncio.sleep(0.01)
        return Load(_cpu(self._server), _cpu(self._worker), Counter(json.loads(self._counts.read_text())))


def _cpu(pid: int) -> float:
    """CPU seconds of a process so far; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def fleet(folder: Path, scope: Scope, slots: int, options: Sequence[str] = ()) -> Iterator[Fleet]:
    """One server, as `arco serve` starts it but with its requests counted, and one worker of so many slots."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    environ = {
        **clean,
        "ARCO_STORE": f"file://{folder.absolute()}",
        "ARCO_TENANT_ID": scope.tenant,
        "ARCO_WORKSPACE_ID": scope.workspace,
        "ARCO_LISTEN": "127.0.0.1:0",
    }
    with tempfile.TemporaryDirectory(prefix="arco-bench-") as aside, tempfile.TemporaryFile("w+") as errors:
        environ[MARKS] = str(Path(aside) / CALLS)
        started: list[subprocess.Popen[str]] = []
        try:
            server = _start(
                ["bench._servo_counted", str(Path(aside) / COUNTS), "serve", "--json"], environ, errors, started
            )
            url = _line(server, errors)["url"]
            command = ["arco.cli", "worker", "--json", "--slots", str(slots), *options]
            worker = _start(command, {**environ, "ARCO_URL": url}, errors, started)
            _line(worker, errors)
            yield Fleet(url, server.pid, worker.pid, Path(aside))
        finally:
            for process in reversed(started):
                _end(process)


def _start(
    command: list[str], environ: dict[str, str], errors: IO[str], started: list[subprocess.Popen[str]]
) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    started.append(process)
    return process


def _line(process: subprocess.Popen[str], errors: IO[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    found = json.loads(line) if line else {"error": ""}
    if "error" in found:
        errors.seek(0)
        raise RuntimeError(f"a process of the bench did not start: {line}{errors.read()[-2_000:]}")
    return found


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
