"""Records a workspace that has lived, and the vault of its backups: what a store has that was kept for long.

    python -m tests.recorded.lived 0.2.0-lived     writes tests/recorded/0.2.0-lived.tar.xz

Three incarnations. The first one ended by an erasure: of it are left the ends, and what was too young to go. The second
one was packed and backed up twice, and ended by a restore from that: it is sealed and whole. The third one is open:
packed, its loose segments collected, with pins, an asset that was deployed with its code and is an Iceberg table, and
tables made through the REST catalog. Clock and chance are fixed, so recording twice gives the same bytes.
`expected.json` says also what the chains of the logs are, and what the last backup holds.
"""

import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from arco.assets import Project
from arco.backup import (
    Selection,
    Vault,
    collect_workspace,
    erase,
    plan_erasure,
    plan_restore,
    restore,
    take_backup,
)
from arco.core import DAY
from arco.domains.catalog import CreateNamespace
from arco.iceberg import Locations
from arco.runtime import Workspace, init_workspace
from arco.sdk import code_name, pack_code
from arco.state import Cadence, PackSize, PinRevision, verify_chain
from arco.storage import MemoryStore, RequestCounts, Role, RoleStore, Store
from tests.doubles import FakeRuntime, run
from tests.recorded.record import SCOPE
from tests.recorded.whole import ICEBERG, SCHEMA, House, Recording, commit, keep, live, served
from tests.servo.lake import PLAIN, Lake
from tests.servo.world import World

__all__ = ["TABLES", "record"]

ROOT = "s3://arco-test/lived"
"""Where the store is said to lie: the bucket of the emulator, so that commands find the files of Iceberg tables."""
TABLES = ("orders", "returns", "daily")
ERASED = "jane.roe@acme.example"
CADENCE = Cadence(fan_in=4, packs=PackSize(segments=3, keep=1))
HOURS = 3600.0

CODE = """import pyarrow as pa

from arco import asset


@asset(namespace="lake", format="iceberg")
def daily():
    return pa.table({"id": [1, 2]})
"""


def record() -> Recording:
    """The files and what they say."""
    return run(_record())


async def _record() -> Recording:
    runtime = FakeRuntime(seed=20260102)
    life = _Life(runtime, MemoryStore(runtime), MemoryStore(runtime))
    await init_workspace(life.store, SCOPE, runtime)
    await life.first()
    await life.erase()
    backed_up = await life.second()
    await life.restore()
    expected = await life.third()
    files: dict[str, bytes] = {}
    for folder, store in (("store", life.store), ("vault", life.backups)):
        files |= {f"{folder}/{info.path}": await store.get(info.path) async for info in store.list("")}
    return files, {**expected, "root": ROOT, "backed_up": backed_up}


class _Life:
    def __init__(self, runtime: FakeRuntime, store: Store, backups: Store) -> None:
        self.runtime = runtime
        self.store = store
        self.backups = backups

    def vault(self, role: Role) -> Vault:
        handle = RoleStore(self.backups, SCOPE, role, RequestCounts())
        return Vault(handle, SCOPE.tenant, SCOPE.workspace, self.runtime)

    def places(self, role: Role) -> Locations:
        return Locations(RoleStore(self.store, SCOPE, role, RequestCounts()), ROOT, SCOPE.root)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[House, Lake]]:
        async with (
            await Workspace.open(self.store, SCOPE, self.runtime, cadence=CADENCE) as workspace,
            served(workspace, ROOT) as house,
        ):
            yield house, Lake(World(workspace, self.runtime, self.store), Path(), ROOT)

    async def first(self) -> None:
        async with self.opened() as (house, lake):
            await house.ask("POST", f"{ICEBERG}/namespaces", {"namespace": ["lake"]})
            for name in TABLES[:2]:
                await house.ask("POST", f"{ICEBERG}/namespaces/lake/tables", {"name": name, "schema": SCHEMA})
            await lake.world.deploy(await self._project(house.workspace))
            await self._work(house, lake, "first", 1)
            await house.workspace.decide("catalog", CreateNamespace(("people",), f"ask {ERASED}"), actor=ERASED)

    async def second(self) -> dict[str, Any]:
        """What the last backup of it holds."""
        async with self.opened() as (house, lake):
            await self._back_up(house.workspace)
            await self._work(house, lake, "second", 2)
            await self._back_up(house.workspace)
            held = await live(house, names=TABLES)
            held["positions"] = {log: str(opened.replica.watermark) for log, opened in house.workspace.logs.items()}
            await house.workspace.decide("catalog", CreateNamespace(("left behind",)), actor="ann")
            return held

    async def third(self) -> dict[str, Any]:
        async with self.opened() as (house, lake):
            await self._work(house, lake, "third", 3)
        async with self.opened() as (house, _):
            chains = {}
            for log, opened in house.workspace.logs.items():
                chain = await verify_chain(opened.follower.ledger)
                chains[log] = {"segments": chain.segments, "events": chain.events, "sha256": chain.link.sha256}
            return {**await live(house, names=TABLES), "chains": chains}

    async def _project(self, workspace: Workspace) -> Project:
        """One asset, with its code."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "pipeline.py").write_text(CODE)
            code = pack_code(folder)
        await workspace.handle(Role.OWNER).put(f"code/{code_name(code)}.zip", code, only_if_absent=True)
        (daily,) = PLAIN.assets
        daily = msgspec.structs.replace(daily, key="lake.daily", function="pipeline:daily")
        return Project((daily,), code_sha256=code_name(code))

    async def _work(self, house: House, lake: Lake, value: str, row: int) -> None:
        """Enough for a pack of each log, of which two hours later nothing else is left."""
        workspace, tables = house.workspace, f"{ICEBERG}/namespaces/lake/tables"
        for number in range(2):
            await workspace.decide("catalog", CreateNamespace((f"{value} {number}",)), actor="ann")
            await self.runtime.sleep(60)
        for name in TABLES[:2]:
            await house.ask("POST", f"{tables}/{name}", commit("said", value))
        await lake.make(pa.table({"id": pa.array([row, row + 1], pa.int64()), "name": [value, None]}), key="lake.daily")
        await lake.sync()
        await self.runtime.sleep(60)  # receipts of commits are told a little later
        for opened in workspace.logs.values():
            await opened.compactor.compact()
        self.runtime.suspend(2 * HOURS)
        for log, opened in workspace.logs.items():
            head, expires = opened.compactor.head.manifest.number, self.runtime.now() + 29 * DAY
            await workspace.decide(log, PinRevision(value, head, "the yearly audit", expires), actor="ann")
            await opened.compactor.publish()
            await collect_workspace(self.store, SCOPE, self.runtime, log=log)

    async def _back_up(self, workspace: Workspace) -> None:
        places = self.places(Role.READER)
        await take_backup(workspace, self.vault(Role.BACKUP), places, store=ROOT, actor="ann", data=True)

    async def erase(self) -> None:
        plan = await plan_erasure(self.store, SCOPE, self.runtime, Selection(texts=(ERASED,)), "request 7")
        await erase(self.store, SCOPE, self.runtime, plan, actor="dpo")

    async def restore(self) -> None:
        vault, places = self.vault(Role.READER), self.places(Role.ADMIN)
        plan = await plan_restore(self.store, SCOPE, vault, self.runtime)
        await restore(self.store, SCOPE, vault, self.runtime, plan, places, actor="ann", replace=True)


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1:], record, "tests.recorded.lived", __doc__.split("\n")[0]))
