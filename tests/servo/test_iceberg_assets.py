"""Tables of assets as PyIceberg reads them: what is published is in them, and nothing else."""

from pathlib import Path

import pyarrow as pa
import pytest

from arco.assets import SchemaColumn
from arco.core import Forbidden, Invalid
from arco.domains.catalog import CreateNamespace, CreateTable, DropTable, Ref
from arco.iceberg import MetadataMissing, open_upkeep, plan_scan
from arco.iceberg.metadata import parse_commit
from tests.servo.lake import BY_REGION, PLAIN, Lake, in_lake
from tests.servo.world import SCOPE, project


def people(*ids: int, **columns: object) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{one}" for one in ids], **columns})


def shown(*ids: int) -> list[dict[str, object]]:
    return [{"id": one, "name": f"n{one}"} for one in ids]


def test_a_published_version_is_the_table(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        version = await lake.make(people(1, 2), people(3))
        await lake.sync()
        assert await lake.rows() == shown(1, 2, 3)
        metadata = (await lake.load()).metadata
        (snapshot,) = metadata["snapshots"]
        summary = snapshot["summary"]
        assert (summary["operation"], summary["total-records"], summary["total-data-files"]) == ("append", "3", "2")
        assert summary["arco.materialization-id"] == version
        assert len(summary["arco.run-id"]) == 26
        current = await lake.iceberg.pointers.current((await lake.load()).table_id)
        assert current is not None
        pointer = current.pointer
        assert (pointer.source, pointer.materialization_id, pointer.run_id) == (
            "servo",
            version,
            summary["arco.run-id"],
        )

    in_lake(work, tmp_path)


def test_partitions_are_appended_and_overwritten(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        await lake.make(people(1), region="eu")
        await lake.sync()
        await lake.make(people(2), region="us")
        await lake.sync()
        assert await lake.rows() == shown(1, 2)
        await lake.make(people(3, 4), region="eu")
        await lake.sync()
        assert await lake.rows() == shown(2, 3, 4)
        operations = [one["summary"]["operation"] for one in (await lake.load()).metadata["snapshots"]]
        assert operations == ["append", "append", "overwrite"]
        number = (await lake.load()).number
        await lake.sync()
        assert await lake.again().assets.step() is None
        assert (await lake.load()).number == number

    in_lake(work, tmp_path, BY_REGION)


def test_a_version_that_falls_leaves_the_table(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        await lake.make(people(1))
        second = await lake.make(people(2))
        await lake.sync()
        await lake.hold(second)
        await lake.sync()
        assert await lake.rows() == shown(1)

    in_lake(work, tmp_path)


def test_a_column_comes_and_goes_and_types_widen(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        await lake.make(pa.table({"id": pa.array([1], pa.int32())}), region="eu")
        await lake.sync()
        await lake.make(pa.table({"id": pa.array([2], pa.int64()), "city": ["Rome"]}), region="us")
        await lake.sync()
        assert await lake.rows() == [{"id": 1, "city": None}, {"id": 2, "city": "Rome"}]
        await lake.make(pa.table({"id": pa.array([3], pa.int64()), "place": [{"x": 1, "tags": ["a"]}]}), region="us")
        await lake.sync()
        assert await lake.rows() == [{"id": 1, "place": None}, {"id": 3, "place": {"x": 1, "tags": ["a"]}}]
        await lake.make(pa.table({"id": ["four"], "place": [{"x": 1, "y": 2.5}]}), region="us")
        await lake.sync()
        assert "int" in lake.assets.problems[lake.asset_id] or "long" in lake.assets.problems[lake.asset_id]
        assert (await lake.rows())[1]["id"] == 3
        await lake.make(pa.table({"id": ["five"]}), region="eu")
        await lake.sync()
        assert [row["id"] for row in await lake.rows()] == ["five", "four"]
        assert lake.assets.problems == {}

    in_lake(work, tmp_path, BY_REGION)


def test_files_of_other_partitions_are_left_out_by_their_bounds(tmp_path: Path) -> None:
    """The table has no partition fields: an engine prunes by what a file holds."""

    async def work(lake: Lake) -> None:
        for number, region in enumerate(("eu", "us", "asia")):
            ids = range(10 * number, 10 * number + 10)
            await lake.make(people(*ids, place=[region] * 10), region=region)
        await lake.sync()
        table = await lake.table()
        assert len(table.spec().fields) == 0
        expected = {"place = 'us'": 1, "id = 25": 1, "id < 10 or place = 'us'": 2, "place = 'nowhere'": 0, "id >= 0": 3}
        for condition, files in expected.items():
            assert len(list(table.scan(row_filter=condition).plan_files())) == files, condition
        loaded = await lake.load()
        asked = {"filter": {"type": "eq", "term": "place", "value": "us"}}
        found = await plan_scan(loaded.metadata, asked, lake.locations, lake.world.runtime)
        assert len(found["file-scan-tasks"]) == 1

    in_lake(work, tmp_path, BY_REGION)


def test_a_held_version_has_a_branch_until_it_is_released(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        await lake.make(people(1), region="eu")
        await lake.make(people(2), region="us")
        await lake.sync()
        held = await lake.make(people(9), region="eu", status="quarantined")
        await lake.sync()
        branch = f"audit_{held}"
        assert (await lake.rows(), await lake.rows(branch)) == (shown(1, 2), shown(2, 9))
        await lake.release(held)
        await lake.sync()
        assert await lake.rows() == shown(2, 9)
        assert set((await lake.load()).metadata["refs"]) == {"main"}

    in_lake(work, tmp_path, BY_REGION)


def test_only_arco_writes_the_table_of_an_asset(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        await lake.make(people(1))
        await lake.sync()
        change = parse_commit({"updates": [{"action": "set-properties", "updates": {"a": "b"}}]})
        for attempt in (
            lake.tables.commit(("s", "a"), change, lake.who()),
            lake.tables.commit_all([(("s", "a"), change)], lake.who()),
            lake.tables.drop(("s", "a"), lake.who()),
            lake.tables.rename(("s", "a"), ("s", "b"), lake.who()),
            lake.tables.unregister(("s", "a"), lake.who()),
        ):
            with pytest.raises(Forbidden, match="only Arco writes"):
                await attempt
        assert await lake.rows() == shown(1)

    in_lake(work, tmp_path)


def test_the_table_follows_the_name_and_goes_with_the_asset(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        await lake.make(people(1))
        await lake.sync()
        table_id = (await lake.load()).table_id
        renamed = project({"t.b": []}, format=PLAIN.assets[0].format, renamed_from=("s.a",))
        await lake.world.deploy(renamed)
        await lake.sync()
        assert (await lake.load("t", "b")).table_id == table_id
        assert not await lake.tables.exists(("s", "a"))
        await lake.world.deploy(project({"t.b": []}, renamed_from=("s.a",)))
        await lake.sync()
        assert not await lake.tables.exists(("t", "b"))
        await lake.world.deploy(renamed)
        await lake.sync()
        assert (await lake.load("t", "b")).metadata["snapshots"][0]["summary"]["total-records"] == "1"

    in_lake(work, tmp_path)


def test_compaction_replaces_the_files_and_no_row(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        version = await lake.make(*(people(one) for one in range(6)))
        await lake.sync()
        done = await lake.compact()
        assert [one.version.materialization_id for one in done.compacted] == [version]
        await lake.sync()
        assert await lake.rows() == shown(*range(6))
        summary = (await lake.load()).metadata["snapshots"][-1]["summary"]
        assert (summary["operation"], summary["total-data-files"]) == ("replace", "1")
        assert "arco.materialization-id" not in summary
        lake.world.runtime.suspend(48 * 3600)
        assert len(await lake.sweep()) == 6
        assert await lake.rows() == shown(*range(6))
        assert len((await lake.load()).metadata["snapshots"]) == 1

    in_lake(work, tmp_path)


def test_retention_expires_snapshots_before_files_go(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        held = ""
        for number in range(4):
            await lake.make(people(number), region="eu")
            await lake.make(people(10 + number), region="us")
            held = held or await lake.make(people(99), region="asia", status="quarantined")
            await lake.sync()
        assert await lake.rows(f"audit_{held}") == shown(0, 10, 99)
        assert len((await lake.load()).metadata["snapshots"]) == 5
        await lake.retire()
        lake.world.runtime.suspend(25 * 3600)
        done = await lake.retire()
        assert len(done.deleted) == 6
        await lake.sync()
        assert await lake.rows() == shown(13, 3)
        assert await lake.rows(f"audit_{held}") == shown(13, 3, 99)
        table = await lake.table()
        for snapshot in table.snapshots():  # whatever is still there can be read
            table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert len(table.snapshots()) == 2
        lake.world.runtime.suspend(72 * 3600)
        await lake.retire()
        await lake.sync()
        assert set((await lake.load()).metadata["refs"]) == {"main"}

    in_lake(work, tmp_path, BY_REGION)


def test_files_that_the_current_snapshot_names_stay(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        await lake.make(people(1))
        await lake.sync()
        (path,) = [info.path async for info in lake.store.list("data")]
        assert await lake.assets.let_go(lake.asset_id, [path, "data/other"]) == {path}
        assert await lake.assets.let_go("nobody", [path]) == set()

    in_lake(work, tmp_path)


def test_a_table_that_cannot_be_read_may_need_every_file(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        await lake.make(people(1))
        await lake.sync()
        (path,) = [info.path async for info in lake.store.list("data")]
        metadata = lake.locations.path_of(str((await lake.load()).metadata_location))
        await lake.world.store.delete(f"{SCOPE.root}/{metadata}")
        with pytest.raises(MetadataMissing):
            await lake.again().assets.let_go(lake.asset_id, [path])

    in_lake(work, tmp_path)


def test_bounds_leave_files_out_and_personal_ones_are_not_told(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        text = "z" * 40
        await lake.make(people(1, 2, city=["Rome", text]), people(5, 6, city=["Oslo", "Paris"]))
        await lake.sync()
        table = await lake.table()
        (task,) = table.scan(row_filter="id > 4").plan_files()
        assert task.file.record_count == 2
        assert len(list(table.scan(row_filter=f"city = '{text}'").plan_files())) == 1
        ids = {field.name: field.field_id for field in table.schema().fields}
        for task in table.scan().plan_files():
            assert ids["id"] in task.file.lower_bounds
            assert ids["name"] not in task.file.lower_bounds
            assert ids["name"] not in task.file.upper_bounds
            assert task.file.value_counts[ids["name"]] == 2

    personal = project(
        {"s.a": []},
        format=PLAIN.assets[0].format,
        schema=(SchemaColumn("id", "long"), SchemaColumn("name", "string", pii=True)),
    )
    in_lake(work, tmp_path, personal)


def test_a_name_that_somebody_else_has_stays_theirs(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        await lake.workspace.decide("catalog", CreateNamespace(("s",)), actor="ann")
        await lake.workspace.decide("catalog", CreateTable(("s", "a"), format="PARQUET"), actor="ann")
        await lake.make(people(1))
        await lake.sync()
        assert "not of Iceberg has the name s.a" in lake.assets.problems[lake.asset_id]
        await lake.workspace.decide("catalog", DropTable(Ref(path=("s", "a"))), actor="ann")
        await lake.again().assets.step()
        assert await lake.rows() == shown(1)

    in_lake(work, tmp_path)


def test_a_deploy_says_that_the_name_is_taken(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        await lake.workspace.decide("catalog", CreateNamespace(("t",)), actor="ann")
        await lake.workspace.decide("catalog", CreateTable(("t", "b"), format="PARQUET"), actor="ann")
        with pytest.raises(Invalid, match=r"t\.b \(PARQUET\); drop or rename those tables"):
            await lake.world.deploy(project({"t.b": []}, format=PLAIN.assets[0].format))

    in_lake(work, tmp_path)


def test_the_loop_wakes_for_versions_and_deploys_and_stops_with_a_last_look(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        lake.assets.start()
        await lake.make(people(1))
        await lake.world.runtime.sleep(1)
        assert await lake.rows() == shown(1)
        await lake.world.deploy(project({"s.a": []}))
        await lake.world.runtime.sleep(1)
        assert not await lake.tables.exists(("s", "a"))
        await lake.world.deploy(PLAIN)
        await lake.world.runtime.sleep(1)
        number = (await lake.load()).number
        await lake.world.runtime.sleep(3600)
        assert (await lake.load()).number == number
        await lake.make(people(2))
        await lake.assets.stop()
        assert await lake.rows() == shown(2)

    in_lake(work, tmp_path)


def test_an_empty_version_and_a_version_without_files(tmp_path: Path) -> None:
    async def work(lake: Lake) -> None:
        await lake.make()
        await lake.sync()
        assert not await lake.tables.exists(("s", "a"))
        await lake.make(people())
        await lake.sync()
        assert await lake.rows() == []
        await lake.make(people(1))
        await lake.make()
        await lake.sync()
        assert await lake.rows() == []

    in_lake(work, tmp_path)


def test_old_snapshots_and_small_manifests_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arco.servo._iceberg_table.MAX_SNAPSHOTS", 5)
    monkeypatch.setattr("arco.iceberg._writing._snapshots.MAX_MANIFESTS", 4)

    async def work(lake: Lake) -> None:
        for number in range(12):
            await lake.make(people(number), region=("eu", "us", "asia")[number % 3])
            await lake.sync()
        assert await lake.rows() == sorted(shown(9, 10, 11), key=repr)
        table = await lake.table()
        assert len(table.snapshots()) == 5
        current = table.current_snapshot()
        assert current is not None
        assert len(current.manifests(table.io)) <= 5
        for snapshot in table.snapshots():
            table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()

    in_lake(work, tmp_path, BY_REGION)


def test_manifests_that_nobody_reads_any_more_are_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arco.servo._iceberg_table.MAX_SNAPSHOTS", 2)

    async def work(lake: Lake) -> None:
        upkeep = open_upkeep(lake.workspace, lake.iceberg.committer, lake.locations)
        for number in range(6):
            await lake.make(people(number), region=("eu", "us", "asia")[number % 3])
            await lake.sync()
        await upkeep.receipts.close()
        assert "manifest" not in {one.kind for one in (await upkeep.collector.collect()).garbage}
        lake.world.runtime.suspend(4 * 24 * 3600)
        await lake.make(people(9), region="eu")
        await lake.sync()
        # The snapshot before was current until now, so that what it names stays for a day.
        kept = await lake.table()
        # What was current lately the collector knows from the log alone: all stays until that was told of every commit.
        assert "manifest" not in {one.kind for one in (await upkeep.collector.collect()).garbage}
        await upkeep.receipts.close()
        done = await upkeep.collector.collect()
        gone = {one.info.path for one in done.garbage if one.kind == "manifest"}
        assert len(gone) >= 8
        table = await lake.table()
        for snapshot in [*table.snapshots(), *kept.snapshots()]:
            table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert await lake.rows() == shown(4, 5, 9)

    in_lake(work, tmp_path, BY_REGION)
