"""Maintenance over HTTP: a part of the assets at a time, by the settings of the workspace, for admins only."""

from typing import Any

import httpx
import pytest

from arco.assets import Dimension, StaticPartitions
from arco.core import DAY, AssetId, PartitionKey, format_time, new_ulid, parse_ulid, partition_id
from arco.domains.access import UserRole
from arco.domains.execution import MATERIALIZATION_COMPLETED, DataFile, MaterializationCompleted
from arco.state import new_event
from arco.storage import Role
from tests.api.workers import Worker, deploy, trigger
from tests.api.world import World, run_world
from tests.servo.small_files import parquet
from tests.servo.world import project

ASSETS = project({f"n.a{number:02d}": [] for number in range(12)})
ONE = {"values": {"retention.min_versions": 1, "retention.max_versions": 1}}
RETENTION = "/maintenance/versions"
ORPHANS = "/maintenance/orphans"
STATISTICS = "/maintenance/statistics"
COMPACTION = "/maintenance/compaction"
KEYED = project({"n.days": []}, partitions=(Dimension("k", StaticPartitions(("a", "b", "c"))),))


async def made(world: World, times: int = 2) -> None:
    await deploy(world, ASSETS)
    for _ in range(times):
        await trigger(world, mode="force")
        await Worker(world).work_off()


async def whole(world: World, path: str, **body: Any) -> list[Any]:
    """All answers to a request that goes on until it is done."""
    answers = [await world.done("POST", path, body)]
    while answers[-1]["next_cursor"] is not None:
        answers.append(await world.done("POST", path, {**body, "cursor": answers[-1]["next_cursor"]}))
    return answers


def test_retention_goes_by_the_settings_and_comes_in_parts() -> None:
    async def work(world: World) -> None:
        await made(world)
        assert [one for answer in await whole(world, RETENTION) for one in answer["expired"]] == []
        await world.done("PATCH", "/settings", ONE)
        planned = await whole(world, RETENTION, dry_run=True)
        assert [answer["done_count"] for answer in planned] == [10, 12]
        assert {answer["asset_count"] for answer in planned} == {12}
        assert sum(len(answer["expired"]) for answer in planned) == 12
        assert (await world.done("GET", "/assets/n.a00/versions", status="expired"))["items"] == []
        (part,) = await whole(world, RETENTION, selection="n.a00 or n.a01")
        assert sorted(one["asset_key"] for one in part["expired"]) == ["n.a00", "n.a01"]
        assert part["expired"][0]["reason"] == "1 newer versions are kept"
        rest = await whole(world, RETENTION)
        assert sum(len(answer["expired"]) for answer in rest) == 10
        assert sum(answer["waiting_count"] for answer in rest) == 2
        (gone,) = (await world.done("GET", "/assets/n.a00/versions", status="expired"))["items"]
        refused = await world.ask(
            "POST", f"/assets/n.a00/versions/{gone['materialization_id']}/release", {"reason": "back"}
        )
        assert refused.status_code == 409, refused.text
        entry = (await world.done("GET", "/audit", log="activity", limit=1))["items"][0]
        assert (entry["action"], entry["resource_type"]) == ("ExpireVersions", "asset")

    run_world(work)


def test_assets_that_are_not_deployed_any_more_are_looked_after_too() -> None:
    async def work(world: World) -> tuple[Any, httpx.Response]:
        await made(world)
        await world.done("PATCH", "/settings", ONE)
        await deploy(world, project({"n.other": []}))
        return await whole(world, RETENTION), await world.ask("POST", RETENTION, {"selection": "n.a00"})

    answers, gone = run_world(work)
    assert sum(len(answer["expired"]) for answer in answers) == 12
    assert gone.status_code == 400


def test_orphans_are_listed_first_and_young_files_stay() -> None:
    async def work(world: World) -> list[Any]:
        await made(world, 1)
        asset = (await world.done("GET", "/assets/n.a00"))["asset_id"]
        store = world.workspace().handle(Role.WORKER)
        await store.put(f"data/{asset}/p/01ARZ3NDEKTSV4RRFFQ69G5F00/x.parquet", b"x", only_if_absent=True)
        return await whole(world, ORPHANS, dry_run=True)

    answers = run_world(work)
    assert [answer["files"] for answer in answers] == [[], []]
    assert sum(answer["kept_count"] for answer in answers) == 1


def test_statistics_go_through_all_assets_one_by_one() -> None:
    async def work(world: World) -> list[Any]:
        await made(world, 1)
        return await whole(world, STATISTICS)

    answers = run_world(work)
    assert [answer["done_count"] for answer in answers] == list(range(1, 13))
    assert {answer["read_count"] for answer in answers} == {0}, "these versions have no files"


async def _small(world: World, key: str, **partition: str) -> str:
    """A version of an asset with ten small files; its id."""
    workspace = world.workspace()
    asset_id = (await world.done("GET", f"/assets/{key}"))["asset_id"]
    partition_key = PartitionKey(partition)
    made = new_ulid(workspace.runtime, workspace.runtime)
    files = []
    for number in range(10):
        path, data = f"data/{asset_id}/p/{made}/part-{number:05d}.parquet", parquet(number)
        await workspace.handle(Role.WORKER).put(path, data, only_if_absent=True)
        files.append(DataFile(path, len(data), 1))
    event = MaterializationCompleted(
        materialization_id=made,
        asset_id=asset_id,
        asset_key=key,
        partition_id=partition_id(AssetId(parse_ulid(asset_id)), partition_key),
        partition_key=str(partition_key),
        run_id="",
        task_id="",
        files=tuple(files),
        row_count=10,
        byte_size=sum(file.size_bytes for file in files),
        schema_hash="",
        started_at=workspace.runtime.now(),
        completed_at=workspace.runtime.now(),
    )
    await workspace.record("activity", [new_event(MATERIALIZATION_COMPLETED, event)], actor="others")
    return made


def test_small_files_are_merged_asset_by_asset_and_it_is_in_the_audit() -> None:
    async def work(world: World) -> None:
        await deploy(world, ASSETS)
        made = {key: await _small(world, key) for key in ("n.a00", "n.a05")}
        planned = await whole(world, COMPACTION, dry_run=True)
        assert [answer["done_count"] for answer in planned] == list(range(1, 13))
        found = [one for answer in planned for one in answer["compacted"]]
        assert {one["materialization_id"] for one in found} == set(made.values())
        assert {(one["files_before"], one["files_after"], one["bytes_after"]) for one in found} == {(10, 1, None)}
        done = [one for answer in await whole(world, COMPACTION) for one in answer["compacted"]]
        assert {(one["files_before"], one["files_after"], one["row_count"]) for one in done} == {(10, 1, 10)}
        shown = await world.done("GET", f"/assets/n.a00/versions/{made['n.a00']}")
        assert (shown["file_count"], len(shown["files"])) == (1, 1)
        assert shown["files"][0]["size_bytes"] == shown["byte_size"]
        entry = (await world.done("GET", "/audit", log="activity", limit=1))["items"][0]
        assert (entry["action"], entry["resource_type"]) == ("CompactFiles", "materialization")
        assert entry["resource"] in made.values()
        again = [one for answer in await whole(world, COMPACTION) for one in answer["compacted"]]
        assert again == []

    run_world(work)


def test_only_the_chosen_partitions_are_compacted() -> None:
    async def work(world: World) -> list[str]:
        await deploy(world, KEYED)
        for key in ("a", "b", "c"):
            await _small(world, "n.days", k=key)
        answers = await whole(world, COMPACTION, partitions={"k": "b..c"}, dry_run=True)
        assert [answer["looked_at_count"] for answer in answers] == [2]
        (answer,) = await whole(world, COMPACTION, selection="n.days", partitions={"k": "b"})
        return [one["partition_key"] for one in answer["compacted"]]

    assert [PartitionKey.parse(key).to_dict() for key in run_world(work)] == [{"k": "b"}]


def test_only_admins_maintain_and_bad_requests_are_refused() -> None:
    async def work(world: World) -> tuple[dict[UserRole, set[int]], list[int]]:
        await made(world, 1)
        found = {}
        for role in UserRole:
            token = await world.token(role)
            paths = (RETENTION, ORPHANS, STATISTICS, COMPACTION)
            asked = [await world.ask("POST", path, {"dry_run": True}, token=token) for path in paths]
            found[role] = {answer.status_code for answer in asked}
        bad = [
            await world.ask("POST", path, body)
            for path in (RETENTION, ORPHANS, STATISTICS, COMPACTION)
            for body in ({"selection": ""}, {"selection": "n.none"}, {"cursor": "x"}, {"selection": "n.*", "keep": 1})
        ]
        bad.append(await world.ask("POST", ORPHANS, {"older_than_hours": 0}))
        cursor = (await world.done("POST", RETENTION, {"dry_run": True}))["next_cursor"]
        bad.append(await world.ask("POST", RETENTION, {"selection": "n.a00", "cursor": cursor}))
        bad.append(await world.ask("POST", ORPHANS, {"cursor": cursor}))
        bad.append(await world.ask("POST", STATISTICS, {"cursor": cursor}))
        bad.append(await world.ask("POST", COMPACTION, {"cursor": cursor}))
        bad += [
            await world.ask("POST", COMPACTION, body)
            for body in (
                {"target_bytes": 1},
                {"target_bytes": 1 << 40},
                {"min_files": 1},
                {"partitions": {"k": "*"}},
                {"partitions": ["k=a"]},
            )
        ]
        first = (await world.done("POST", COMPACTION, {"dry_run": True}))["next_cursor"]
        bad.append(await world.ask("POST", COMPACTION, {"cursor": first, "min_files": 7}))
        return found, [answer.status_code for answer in bad]

    found, bad = run_world(work)
    assert found == {
        UserRole.VIEWER: {403},
        UserRole.EDITOR: {403},
        UserRole.ADMIN: {200},
        UserRole.OWNER: {200},
    }
    assert set(bad) == {400}


def test_history_goes_by_its_own_settings_and_only_for_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(world: World) -> None:
        await deploy(world, project({"n.a": []}))
        run_id = await trigger(world)
        await Worker(world).work_off()
        runtime, path = world.host.runtime, "/maintenance/history"
        now = runtime.now
        assert (await world.done("POST", path, {"dry_run": True}))["expired"] == []
        monkeypatch.setattr(runtime, "now", lambda: now() + 20 * DAY)
        first = await world.done("POST", path, {"dry_run": True})
        assert {one["table"] for one in first["expired"]} <= {"operations", "requests"}, "they go after eight days"
        await world.done("PATCH", "/settings", {"values": {"history.runs_days": 10}})
        planned = await world.done("POST", path, {"dry_run": True})
        rows = {one["table"]: one for one in planned["expired"] if one["log"] == "activity"}
        assert {"runs", "tasks", "attempts", "operations"} <= set(rows)
        assert (rows["tasks"]["row_count"] > 0, rows["tasks"]["byte_size"] > 0) == (True, True)
        assert rows["tasks"]["reason"] == "older than 10 days (history.runs_days)"
        assert rows["runs"]["oldest"][:10] == format_time(now())[:10]
        assert rows["runs"]["before"] == format_time((runtime.now() - 10 * DAY) // DAY * DAY)
        await world.done("GET", f"/runs/{run_id}")
        done = await world.done("POST", path, {})
        assert [one["table"] for one in done["expired"]] == [one["table"] for one in planned["expired"]]
        assert (await world.done("POST", path, {}))["expired"] == []
        gone = await world.ask("GET", f"/runs/{run_id}")
        assert gone.status_code == 404
        assert "has expired" in gone.text
        assert (await world.done("GET", "/runs"))["items"] == []
        assert len((await world.done("GET", "/assets/n.a/versions"))["items"]) == 1
        asked = {role: await world.ask("POST", path, {}, token=await world.token(role)) for role in UserRole}
        assert {role for role, answer in asked.items() if answer.status_code == 200} == {UserRole.OWNER}
        assert {answer.status_code for role, answer in asked.items() if role != UserRole.OWNER} == {403}

    run_world(work)
