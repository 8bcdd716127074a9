"""What current versions are made of: told by a few reads, and without a row of what is not current any more."""

from arco.catalog import current_data
from arco.core import new_ulid
from arco.domains.execution import (
    COMPACTED_VERSIONS,
    MATERIALIZATION_COMPLETED,
    MATERIALIZATIONS,
    PARTITIONS,
    CompactFiles,
    DataFile,
    MaterializationCompleted,
)
from arco.log import NewEvent
from arco.runtime import DEFINITIONS, Workspace, init_workspace
from arco.state import new_event, snapshot_at_revision
from arco.storage import MemoryStore, RequestCounts, Role, RoleStore
from tests.doubles import FakeRuntime
from tests.runtime.world import SCOPE, run

[ACTIVITY] = [one for one in DEFINITIONS if one.log == "activity"]
ASSETS = 100


def version(runtime: FakeRuntime, asset: str, number: int, *, partition: str = "", id: str = "") -> NewEvent:
    payload = MaterializationCompleted(
        materialization_id=id or f"m{number}-{asset}",
        asset_id=asset,
        asset_key=f"key.{asset}",
        partition_id=f"p-{asset}",
        partition_key=partition,
        run_id="r1",
        task_id="t1",
        files=(DataFile(f"data/{asset}/{number}", 7, 1), DataFile(f"s3://elsewhere/{asset}/{number}", 7, 1)),
        row_count=2,
        byte_size=14,
        schema_hash="h",
        started_at=runtime.now(),
        completed_at=runtime.now(),
    )
    return new_event(MATERIALIZATION_COMPLETED, payload)


def test_what_it_takes_to_know_them_does_not_grow_with_the_number_of_assets() -> None:
    async def main(runtime: FakeRuntime) -> None:
        store = MemoryStore(runtime)
        await init_workspace(store, SCOPE, runtime)
        async with await Workspace.open(store, SCOPE, runtime, test_store=False) as workspace:
            for number in range(3):
                facts = [version(runtime, f"a{asset}", number) for asset in range(ASSETS)]
                facts.append(version(runtime, "days", number, partition="day=2025-01-01"))
                receipt = await workspace.record("activity", facts, actor="ann")
                await workspace.published("activity", receipt.position)
            small, current, merged = (new_ulid(runtime, runtime) for _ in range(3))
            files = (DataFile(f"data/{small}/{merged}", 9, 2),)
            await workspace.record("activity", [version(runtime, small, 1, id=current)], actor="ann")
            compact = CompactFiles(small, current, merged, "", files)
            receipt = await workspace.decide("activity", compact, actor="ann")
            await workspace.published("activity", receipt.position)
            manifest = workspace.logs["activity"].compactor.head.manifest
        counts = RequestCounts()
        snapshot = snapshot_at_revision(ACTIVITY, RoleStore(store, SCOPE, Role.READER, counts), manifest)
        expected = {f"data/a{asset}/2": (f"key.a{asset}", 7) for asset in range(ASSETS)}
        expected |= {files[0].path: (f"key.{small}", 9), "data/days/2": ("key.days[day=2025-01-01]", 7)}
        assert await current_data(snapshot) == expected
        tables = (PARTITIONS, MATERIALIZATIONS, COMPACTED_VERSIONS)
        assert counts.count() <= sum(len(layer.files) for table in tables for layer in manifest.layers_of(table.name))
        assert snapshot.rows_held() == 0

    run(main)
