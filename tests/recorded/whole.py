"""Records a whole workspace for a release: everything the program of that release leaves in a store.

    python -m tests.recorded.whole 0.2.0     writes tests/recorded/0.2.0.tar.xz

What `record` writes (catalog, deployments, runs, batches, quarantine, lineage, a published state that is a little
behind), and on top of it Iceberg tables made through the REST catalog: pointers, a claim, a transaction and its
decision, metadata files. `expected.json` in the archive has what must be read from it for ever: rows and digests of all
tables, and each Iceberg table as it is loaded. Run it once when a release is made and keep the archive.
"""

import argparse
import asyncio
import io
import json
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from arco.api import close_app, local_app
from arco.core import Runtime
from arco.runtime import DEFINITIONS, AsyncRuntime, Workspace
from arco.storage import LocalStore
from tests.recorded.record import HERE, SCOPE, fields_of, record, summary

__all__ = ["ARCHIVES", "ICEBERG", "STORE", "House", "commit", "extract", "live", "opened"]

STORE = "memory://recorded"
"""What locations of Iceberg tables begin with, so that the archive may be opened anywhere."""
ARCHIVES = sorted(HERE.glob("*.tar.xz"))
ICEBERG = f"/iceberg/v1/{SCOPE.tenant}.{SCOPE.workspace}"
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": True}]}
TABLES = ("orders", "returns", "stock")


class House:
    """A workspace, and the API on it."""

    def __init__(self, workspace: Workspace, http: httpx.AsyncClient) -> None:
        self.workspace = workspace
        self.http = http

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = await self.http.request(method, path, json=body, headers=headers)
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[House]:
    """The workspace in a folder, owned and published by this process."""
    runtime = AsyncRuntime()
    async with await Workspace.open(LocalStore(folder), SCOPE, runtime) as workspace:
        app = local_app(workspace, runtime, "recorder", store=STORE)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            yield House(workspace, http)
        await close_app(app)


def _key(runtime: Runtime) -> str:
    """A UUID of version 7, as clients send it."""
    chance = int.from_bytes(runtime.bytes(10))
    now = runtime.now() // 1000
    return str(UUID(int=now << 80 | 7 << 76 | (chance >> 68) << 64 | 2 << 62 | chance & (1 << 62) - 1))


def commit(key: str, value: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {key: value}}]}


async def _work(house: House) -> None:
    await house.ask("POST", f"{ICEBERG}/namespaces", {"namespace": ["lake"], "properties": {"owner": "ann"}})
    tables = f"{ICEBERG}/namespaces/lake/tables"
    for name in TABLES:
        await house.ask("POST", tables, {"name": name, "schema": SCHEMA})
    await house.ask(
        "POST", f"{tables}/orders", commit("colour", "green"), **{"Idempotency-Key": _key(house.workspace.runtime)}
    )
    await house.ask("POST", f"{tables}/orders", commit("colour", "blue"))
    changes = [
        {"identifier": {"namespace": ["lake"], "name": name}, **commit("together", "yes")} for name in TABLES[:2]
    ]
    await house.ask("POST", f"{ICEBERG}/transactions/commit", {"table-changes": changes})
    await house.ask("DELETE", f"{tables}/stock")


async def live(house: House, columns: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the workspace says now: each table of state by rows and digest, and each Iceberg table."""
    logs: dict[str, Any] = {}
    for definition in DEFINITIONS:
        log = house.workspace.logs[definition.log]
        mine = columns[definition.log] if columns else fields_of(definition)
        state = await log.frozen()
        logs[definition.log] = {"columns": mine, "tables": await summary(definition, state, mine)}
    tables = {name: await house.ask("GET", f"{ICEBERG}/namespaces/lake/tables/{name}") for name in TABLES[:2]}
    return {"logs": logs, "iceberg": tables}


async def _record(folder: Path, files: dict[str, bytes]) -> dict[str, Any]:
    for path, data in files.items():
        if path.startswith("store/"):
            target = folder / path.removeprefix("store/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    async with opened(folder) as house:
        await _work(house)
    async with opened(folder) as house:
        return await live(house)


def _pack(folder: Path, expected: dict[str, Any], archive: Path) -> None:
    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.mtime, info.uid, info.gid, info.uname, info.gname, info.mode = 0, 0, 0, "", "", 0o644
        return info

    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            tar.add(path, f"store/{path.relative_to(folder)}", filter=plain)
        data = json.dumps(expected).encode()
        info = tarfile.TarInfo("expected.json")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))


def extract(archive: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The store of an archive below a folder, and what it must say."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / "store", json.loads((folder / "expected.json").read_text())


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.recorded.whole", description=__doc__.split("\n")[0])
    parser.add_argument("release", help="name of the archive, such as 0.2.0")
    parser.add_argument("--force", action="store_true", help="replace an archive that exists")
    chosen = parser.parse_args(arguments)
    archive = HERE / f"{chosen.release}.tar.xz"
    if archive.exists() and not chosen.force:
        print(f"{archive.name} is recorded already; a release that is out stays as it was")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        expected = asyncio.run(_record(Path(folder), record()))
        _pack(Path(folder), expected, archive)
    print(f"{archive.name}: {archive.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
