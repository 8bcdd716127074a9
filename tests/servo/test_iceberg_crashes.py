"""A process that dies while it writes the table of an asset: whoever comes next brings it to the same end."""

from pathlib import Path

import pyarrow as pa
import pytest

from arco.core import Unavailable
from arco.runtime import Workspace, init_workspace
from arco.storage import MemoryStore
from tests.doubles import FakeRuntime, FaultyStore, run
from tests.servo.lake import BY_REGION, Lake
from tests.servo.world import SCOPE, World

PLACES = ("/metadata/", "iceberg/pointers/", "/ledger/catalog/")


class Died(Exception):
    """The process is gone."""


def people(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


async def story(lake: Lake) -> None:
    """Everything that is committed: creation, append, overwrite, a branch, its end, expiry of snapshots."""
    await lake.make(people(1), region="eu")
    await lake.make(people(2), region="us")
    await step(lake)
    await lake.make(people(3), region="eu")
    held = await lake.make(people(9), region="us", status="quarantined")
    await step(lake)
    await lake.release(held)
    await step(lake)


async def step(lake: Lake) -> None:
    """Until it is done, each time as a new process if the one before died."""
    for _ in range(4):
        try:
            if await lake.again().assets.step() is None:
                return
        except (Died, Unavailable):
            lake.world.runtime.suspend(1)
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("applied", [False, True])
def test_a_crash_at_any_write_leaves_nothing_wrong(place: str, applied: bool, tmp_path: Path) -> None:
    async def work(skip: int, folder: Path) -> bool:
        runtime = FakeRuntime(skip)
        memory = MemoryStore(runtime)
        store = FaultyStore(memory)
        await init_workspace(store, SCOPE, runtime)
        async with await Workspace.open(store, SCOPE, runtime) as workspace:
            lake = Lake(World(workspace, runtime, memory), folder)
            await lake.world.deploy(BY_REGION)
            error = Unavailable("gone") if "ledger" in place else Died()
            store.on("create", path=place, error=error, applied=applied, skip=skip)
            await story(lake)
            struck = not any(fault.left for fault in store._faults)
            store.heal()
            await step(lake)
            assert [row["id"] for row in await lake.rows()] == [3, 9]
            metadata = (await lake.load()).metadata
            assert set(metadata["refs"]) == {"main"}
            table = await lake.table()
            for snapshot in table.snapshots():
                table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
            return struck

    skip = 0
    while run(work(skip, tmp_path / str(skip))):
        skip += 1
    assert skip >= (2 if "ledger" in place else 5)
