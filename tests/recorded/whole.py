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
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from arco.api import close_app, local_app
from arco.core import Runtime
from arco.runtime import DEFINITIONS, AsyncRuntime, Workspace
from arco.state import Definition, define_log
from arco.storage import LocalStore
from tests.recorded.record import HERE, SCOPE, fields_of, record, summary

__all__ = [
    "ARCHIVES",
    "ICEBERG",
    "SCHEMA",
    "House",
    "Recording",
    "commit",
    "extract",
    "keep",
    "later",
    "live",
    "opened",
    "root_of",
    "served",
]

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
async def served(workspace: Workspace, root: str) -> AsyncIterator[House]:
    """The API on an open workspace, whose Iceberg tables lie below `root`."""
    app = local_app(workspace, workspace.runtime, "recorder", store=root)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        yield House(workspace, http)
    await close_app(app)


@asynccontextmanager
async def opened(folder: Path, root: str = STORE) -> AsyncIterator[House]:
    """The workspace in a folder, owned and published by this process."""
    async with (
        await Workspace.open(LocalStore(folder), SCOPE, AsyncRuntime()) as workspace,
        served(workspace, root) as house,
    ):
        yield house


def root_of(expected: Mapping[str, Any]) -> str:
    """What locations of Iceberg tables of an archive begin with."""
    return str(expected.get("root", STORE))


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


async def live(
    house: House, columns: dict[str, Any] | None = None, names: Iterable[str] = TABLES[:2]
) -> dict[str, Any]:
    """What the workspace says now: each table of state by rows and digest, and Iceberg tables of `lake` by name."""
    logs: dict[str, Any] = {}
    for definition in DEFINITIONS:
        log = house.workspace.logs[definition.log]
        mine = columns[definition.log] if columns else fields_of(definition)
        state = await log.frozen()
        logs[definition.log] = {"columns": mine, "tables": await summary(definition, state, mine)}
    tables = {name: await house.ask("GET", f"{ICEBERG}/namespaces/lake/tables/{name}") for name in names}
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


def later(definition: Definition) -> Definition:
    """A program that folds one domain of the log in a later version."""
    _, first, *others = definition.domains
    return define_log(definition.log, [replace(first, version=first.version + 1), *others])


def _pack(files: Mapping[str, bytes], expected: dict[str, Any], archive: Path) -> None:
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path, data in [*sorted(files.items()), ("expected.json", json.dumps(expected).encode())]:
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def extract(archive: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The store of an archive below a folder, and what it must say."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / "store", json.loads((folder / "expected.json").read_text())


Recording = tuple[Mapping[str, bytes], dict[str, Any]]
"""Files by path, those of the store below `store/`, and what must be read from them for ever."""


def _whole() -> Recording:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = asyncio.run(_record(folder, record()))
        found = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {f"store/{path}": data for path, data in found.items()}, expected


def keep(arguments: Sequence[str], make: Callable[[], Recording], program: str, description: str) -> int:
    """Write an archive by the name that the command says, unless there is one."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("release", help="name of the archive, such as 0.2.0")
    parser.add_argument("--force", action="store_true", help="replace an archive that exists")
    chosen = parser.parse_args(arguments)
    archive = HERE / f"{chosen.release}.tar.xz"
    if archive.exists() and not chosen.force:
        print(f"{archive.name} is recorded already; a release that is out stays as it was")
        return 1
    _pack(*make(), archive)
    print(f"{archive.name}: {archive.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1:], _whole, "tests.recorded.whole", __doc__.split("\n")[0]))
