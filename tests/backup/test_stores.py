"""A life with backups, a restore, an erasure and collections where workspaces lie: on local disk, and in an emulated
bucket of each cloud. What can go wrong in between is tried on memory."""

import asyncio
import itertools
from pathlib import Path

import msgspec
import pytest

from arco.backup import (
    Selection,
    bury,
    collect_workspace,
    compare_objects,
    compare_restored,
    erase,
    plan_erasure,
    plan_restore,
    prune,
    restore,
    take_backup,
    verify_backup,
)
from arco.core import DAY
from arco.domains.catalog import CreateNamespace
from arco.iceberg import Locations
from arco.log import Blobs
from arco.runtime import DEFINITIONS, AsyncRuntime, Workspace, init_workspace, read_incarnations
from arco.state import Cadence, Level, PackSize, packed_through
from arco.storage import LocalStore, MemoryStore, RequestCounts, Role, RoleStore, Store
from tests.backup.test_erase import MARK, holders
from tests.backup.test_restore import check_healthy
from tests.backup.world import vault_of
from tests.doubles import FakeRuntime
from tests.iceberg.house import ROOT, Mortal, Process
from tests.runtime.world import SCOPE, made

SMALL = Cadence(packs=PackSize(segments=4, keep=2))

_places = itertools.count()


@pytest.fixture(params=["local", "s3", "azure", "gcs"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Store, Store]:
    """One for the workspace and one for its backups."""
    if request.param == "local":
        return LocalStore(tmp_path / "store"), LocalStore(tmp_path / "vault")
    server, number = request.getfixturevalue(f"{request.param}_server"), next(_places)
    return server.store(f"lives-{number}"), server.store(f"vault-{number}")


def test_a_workspace_is_backed_up_restored_erased_from_and_collected(stores: tuple[Store, Store]) -> None:
    store, other = stores
    runtime = AsyncRuntime()
    vault = vault_of(other, runtime)

    async def opened() -> Process:
        workspace = await Workspace.open(store, SCOPE, runtime, cadence=SMALL)
        return Process(workspace, Mortal(store, runtime), MemoryStore())

    async def back_up(process: Process) -> int:
        places = process.locations
        taken = await take_backup(process.workspace, vault, places, store=ROOT, actor="ann", data=True)
        return taken.backup.number

    async def live() -> None:
        names = FakeRuntime(1)
        await init_workspace(store, SCOPE, runtime)
        process = await opened()
        workspace = process.workspace
        blob = await Blobs(workspace.handle(Role.OWNER)).put(msgspec.json.encode([MARK]))
        await process.decide(CreateNamespace(("a",)))
        await process.create("a.one")
        for number in range(12):
            fact = msgspec.structs.replace(made(names, f"m{number}"), blobs=(blob,) if number == 3 else ())
            await workspace.record("activity", [fact], actor=MARK if number == 5 else "ann")
        packed = await workspace.logs["activity"].compactor.compact()
        assert packed_through(packed) >= 8
        assert await back_up(process) == 1
        await workspace.record("activity", [made(names, "later")], actor="ann")
        assert await back_up(process) == 2
        cleared = await collect_workspace(store, SCOPE, runtime, min_age=0)
        assert any(done.segments for done in cleared.logs)
        await check_healthy(process)

        admin = RoleStore(store, SCOPE, Role.ADMIN, RequestCounts())
        plan = await plan_restore(store, SCOPE, vault, runtime, number=1)
        await restore(store, SCOPE, vault, runtime, plan, Locations(admin, ROOT, SCOPE.root), actor="ann", replace=True)
        await workspace.close()
        backup, life = await vault.backup(1), (await read_incarnations(store, SCOPE, runtime))[-1]
        findings = await verify_backup(vault, backup, DEFINITIONS, refold=True)
        findings += await compare_objects(vault, backup, admin, life, runtime)
        assert {found.level for found in findings} == {Level.OK}
        compared = await compare_restored(vault, admin, life, runtime, DEFINITIONS)
        assert all(one.equal for tables in compared.values() for one in tables)
        again = await opened()
        assert await again.exists("a.one")
        await again.workspace.record("activity", [made(names, "after")], actor="ann")
        await check_healthy(again)

        erasing = await plan_erasure(store, SCOPE, runtime, Selection(texts=(MARK,)), "request 7")
        await erase(store, SCOPE, runtime, erasing, actor="dpo")
        await again.workspace.close()
        last = await opened()
        await check_healthy(last)
        assert await back_up(last) == 3
        await prune(vault, runtime, keep=30 * DAY, before=3)
        assert not await holders(other)
        first, *_ = await read_incarnations(store, SCOPE, runtime, all_of_them=True)
        await bury(store, SCOPE, runtime, min_age=0)
        held = await holders(store)
        assert {path.split("/")[2] for path in held} <= {first.id}, "what a restore left goes a day later"
        await check_healthy(last)
        await last.workspace.close()

    asyncio.run(live())
