"""Versions over HTTP: what is held back and why, quarantine and release, and what follows for plans and runs."""

from typing import Any

import httpx
import msgspec
import pytest

from arco.assets import AssetDefinition, Dependency, Dimension, GatingAction, Project, Severity, StaticPartitions
from arco.core import new_ulid
from arco.domains.access import UserRole
from arco.domains.quality import CheckExecuted, Gating
from arco.servo import Envelope
from tests.api.workers import Worker, deploy, task_states, trigger
from tests.api.world import World, run_world
from tests.servo.world import chain, project, result_of

REGIONS = (Dimension("region", StaticPartitions(("eu", "us"))),)
CHAIN = project({"s.a": [], "s.b": ["s.a"], "s.c": ["s.b"]})
WHY = {"reason": "looks wrong"}


async def finish_gated(worker: Worker, envelope: Envelope, action: GatingAction) -> None:
    """End an attempt whose check asks for an action on its first output."""
    result = result_of(envelope, worker.world.host.runtime.now())
    output = result.outputs[0]
    status = "quarantined" if action is GatingAction.QUARANTINE else "published"
    check = CheckExecuted(
        check_id="check-1",
        check_name="has_rows",
        check_type="python",
        asset_id=output.asset_id,
        partition_id=output.partition_id,
        materialization_id=output.materialization_id,
        run_id=output.run_id,
        task_id=output.task_id,
        passed=False,
        severity=Severity.ERROR,
        executed_at=output.completed_at,
        expected_value="> 0",
        actual_value="0",
        message="no rows",
        gating=Gating(action, "strict", "the check has_rows failed with severity error"),
    )
    outputs = (msgspec.structs.replace(output, status=status), *result.outputs[1:])
    result = msgspec.structs.replace(result, outputs=outputs, checks=(check,), gate=action)
    answer = await worker.tell(envelope, result)
    assert answer.status_code == 200, answer.text


async def work_gated(world: World, action: GatingAction, *keys: str) -> None:
    """Do what is ready; the checks of the tasks named ask for an action."""
    worker = Worker(world)
    while claimed := await worker.claim():
        (envelope,) = claimed
        if envelope.task_key in keys:
            await finish_gated(worker, envelope, action)
        else:
            assert (await worker.finish(envelope)).status_code == 200


async def newest(world: World, asset: str, **query: Any) -> Any:
    return (await world.done("GET", f"/assets/{asset}/versions", **query))["items"][0]


async def decide(world: World, verb: str, asset: str, version: str, reason: str = "why", **more: Any) -> Any:
    return await world.done("POST", f"/assets/{asset}/versions/{version}/{verb}", {"reason": reason}, **more)


@pytest.mark.parametrize(
    ("action", "status"), [(GatingAction.QUARANTINE, "quarantined"), (GatingAction.BLOCK_DOWNSTREAM, "blocked")]
)
def test_a_version_that_checks_held_back_blocks_what_follows_until_somebody_releases_it(
    action: GatingAction, status: str
) -> None:
    async def work(world: World) -> None:
        await deploy(world, CHAIN)
        run_id = await trigger(world)
        await work_gated(world, action, "s.a")
        assert await task_states(world, run_id) == {"s.a": "SUCCEEDED", "s.b": "SKIPPED", "s.c": "SKIPPED"}
        (held,) = (await world.done("GET", "/quarantine"))["items"]
        assert (held["asset_key"], held["status"], held["current"], held["version"]) == ("s.a", status, False, 1)
        assert (await world.done("GET", "/assets/s.a"))["held_count"] == 1
        version = held["materialization_id"]

        shown = await world.done("GET", f"/assets/s.a/versions/{version}")
        (check,) = shown["checks"]
        assert (check["check_name"], check["message"], check["actual_value"]) == ("has_rows", "no rows", "0")
        assert (check["action"], check["policy"]) == (action.value, "strict")
        assert (shown["judged"], shown["set_to"], shown["readers"]) == (status, None, [])

        stuck = await world.done("POST", "/plans", {"selection": "s.b"})
        (skip,) = stuck["skips"]
        assert skip["kind"] == "cannot_run"
        assert "its newest version is" in skip["reason"]
        assert "arco quarantine show s.a" in skip["reason"]

        done = await decide(world, "release", "s.a", version, "checked by hand")
        assert (done["version"]["status"], done["version"]["current"]) == ("published", True)
        assert (done["run_state"], done["skipped_count"]) == ("FAILED", 2)
        assert done["current_materialization_id"] == version
        (task,) = (await world.done("POST", "/plans", {"selection": "s.b"}))["tasks"]
        assert task["reason"] == "selected by `s.b`; no version exists yet; s.a was released"

        again = await world.done("POST", f"/runs/{run_id}/rerun", {"from_failure": True})
        assert again["task_count"] == 2
        await Worker(world).work_off()
        assert set((await task_states(world, again["run_id"])).values()) == {"SUCCEEDED"}
        assert (await world.done("GET", "/quarantine"))["items"] == []
        (released,) = (await world.done("GET", "/quarantine", status="released"))["items"]
        assert (released["set_by"], released["reason"]) == ("developer", "checked by hand")

    run_world(work)


def test_quarantine_by_hand_brings_back_the_last_good_version_and_what_was_made_of_the_bad_one_is_made_anew() -> None:
    async def work(world: World) -> None:
        await deploy(world, CHAIN)
        for _ in range(2):
            await trigger(world, mode="force")
            await Worker(world).work_off()
        first, second = [item["materialization_id"] for item in reversed(await versions(world, "s.a"))]
        done = await decide(world, "quarantine", "s.a", second, "prices are off")
        assert (done["version"]["status"], done["version"]["reason"]) == ("quarantined", "prices are off")
        assert done["current_materialization_id"] == first
        plan = await world.done("POST", "/plans", {"selection": "s.b"})
        assert plan["tasks"][0]["reason"].startswith("selected by `s.b`; its inputs changed since materialization")
        (part,) = (await world.done("GET", "/assets/s.a/partitions"))["items"]
        assert (part["status"], part["materialization_id"], part["newest_materialization_id"]) == (
            "quarantined",
            first,
            second,
        )
        back = await decide(world, "release", "s.a", second)
        assert back["current_materialization_id"] == second
        assert (await world.done("POST", "/plans", {"selection": "s.b"}))["task_count"] == 0

    async def versions(world: World, asset: str) -> list[Any]:
        found: list[Any] = (await world.done("GET", f"/assets/{asset}/versions"))["items"]
        return found

    run_world(work)


def test_a_run_under_way_keeps_reading_a_version_that_was_quarantined_meanwhile() -> None:
    async def work(world: World) -> None:
        await deploy(world, CHAIN)
        await trigger(world)
        await Worker(world).work_off()
        version = (await newest(world, "s.a"))["materialization_id"]
        run_id = await trigger(world, "s.b", mode="force")
        done = await decide(world, "quarantine", "s.a", version)
        assert done["reading_runs"] == [run_id]
        worker = Worker(world)
        (envelope,) = await worker.claim()
        assert [pin.materialization_id for given in envelope.inputs for pin in given.pins] == [version]
        await worker.finish(envelope)
        assert await task_states(world, run_id) == {"s.b": "SUCCEEDED"}
        assert (await decide(world, "release", "s.a", version))["reading_runs"] == []

    run_world(work)


def test_tasks_that_a_run_skipped_stay_skipped_while_it_goes_on() -> None:
    """Whatever is released meanwhile: a rerun picks them up once it is over."""

    async def work(world: World) -> None:
        await deploy(world, project({"s.a": [], "s.b": ["s.a"], "s.other": []}))
        run_id = await trigger(world)
        worker = Worker(world)
        claimed = {envelope.task_key: envelope for envelope in await worker.claim(2)}
        await finish_gated(worker, claimed["s.a"], GatingAction.BLOCK_DOWNSTREAM)
        version = (await newest(world, "s.a"))["materialization_id"]
        done = await decide(world, "release", "s.a", version)
        assert (done["run_state"], done["skipped_count"]) == ("RUNNING", 1)
        assert (await task_states(world, run_id))["s.b"] == "SKIPPED"
        early = await world.ask("POST", f"/runs/{run_id}/rerun", {})
        assert early.status_code == 409, early.text
        await worker.finish(claimed["s.other"])
        again = await world.done("POST", f"/runs/{run_id}/rerun", {})
        assert again["task_count"] == 1
        assert await worker.work_off() == ["s.b"]

    run_world(work)


def test_the_audit_names_who_did_what_and_what_changed() -> None:
    async def work(world: World) -> list[Any]:
        await deploy(world, project(chain(1)))
        await trigger(world)
        await Worker(world).work_off()
        version = (await newest(world, "n.a0000"))["materialization_id"]
        admin = await world.token(UserRole.ADMIN)
        await decide(world, "quarantine", "n.a0000", version, "off", token=admin)
        await decide(world, "release", "n.a0000", version, "fine", token=admin)
        page = await world.done("GET", "/audit", log="activity", limit=2)
        return [version, *page["items"]]

    version, released, aside = run_world(work)
    assert (aside["action"], aside["resource_type"], aside["resource"]) == (
        "QuarantinePartition",
        "materialization",
        version,
    )
    assert released["action"] == "UnquarantinePartition"
    assert aside["actor"] == released["actor"] != "developer"
    assert aside["before"]["partitions"][0]["current_materialization_id"] == version
    assert "current_materialization_id" not in aside["after"]["partitions"][0]
    assert aside["after"]["version_status"][0]["reason"] == "off"
    assert released["before"]["version_status"][0]["status"] == "quarantined"
    assert released["after"]["version_status"][0]["status"] == "published"


def test_only_admins_decide_and_everybody_looks() -> None:
    async def work(world: World) -> dict[tuple[str, UserRole], int]:
        await deploy(world, project(chain(1)))
        await trigger(world)
        await Worker(world).work_off()
        version = (await newest(world, "n.a0000"))["materialization_id"]
        address = f"/assets/n.a0000/versions/{version}"
        found = {}
        for role in UserRole:
            token = await world.token(role)
            for verb in ("quarantine", "release"):
                found[verb, role] = (await world.ask("POST", f"{address}/{verb}", WHY, token=token)).status_code
            for path in ("/quarantine", address, "/assets/n.a0000/versions"):
                found[path, role] = (await world.ask("GET", path, token=token)).status_code
        return found

    for (path, role), status in run_world(work).items():
        may = path not in ("quarantine", "release") or role in (UserRole.ADMIN, UserRole.OWNER)
        assert status == (200 if may else 403), (path, role)


def test_a_decision_is_carried_out_once_under_its_key_and_refused_for_another_request() -> None:
    async def work(world: World) -> tuple[Any, Any, httpx.Response, Any]:
        await deploy(world, project(chain(1)))
        await trigger(world)
        await Worker(world).work_off()
        version = (await newest(world, "n.a0000"))["materialization_id"]
        headers = {"Idempotency-Key": new_ulid(world.host.runtime, world.host.runtime)}
        first = await decide(world, "quarantine", "n.a0000", version, headers=headers)
        await decide(world, "release", "n.a0000", version)
        again = await decide(world, "quarantine", "n.a0000", version, headers=headers)
        address = f"/assets/n.a0000/versions/{version}/quarantine"
        other = await world.ask("POST", address, {"reason": "another"}, headers=headers)
        same = await decide(world, "release", "n.a0000", version, "once more")
        return first, again, other, same

    first, again, other, same = run_world(work)
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert again["operation_id"] == first["operation_id"]
    assert again["version"]["status"] == "published", "the key repeats the answer, not the act"
    assert other.status_code == 409
    assert (same["version"]["status"], same["version"]["reason"]) == ("published", "why")


@pytest.mark.parametrize(
    ("version", "body", "status"),
    [
        ("nothing", WHY, 404),
        ("%00", WHY, 404),
        ("x" * 257, WHY, 400),
        ("{}", {}, 400),
        ("{}", {"reason": ""}, 400),
        ("{}", {"reason": "x" * 1001}, 400),
        ("{}", {"reason": "why", "until": "tomorrow"}, 400),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(version: str, body: Any, status: int) -> None:
    async def work(world: World) -> None:
        await deploy(world, project(chain(1)))
        await trigger(world)
        await Worker(world).work_off()
        made = (await newest(world, "n.a0000"))["materialization_id"]
        for verb in ("quarantine", "release"):
            address = f"/assets/n.a0000/versions/{version.format(made)}/{verb}"
            answer = await world.ask("POST", address, body)
            assert answer.status_code == status, answer.text
        assert (await world.ask("POST", f"/assets/n.none/versions/{made}/release", WHY)).status_code == 404
        assert (await newest(world, "n.a0000"))["status"] == "published"

    run_world(work)


def test_lists_are_filtered_and_come_by_the_page() -> None:
    async def work(world: World) -> None:
        definition = AssetDefinition(key="s.a", function="p:f", code_version="1", partitions=REGIONS)
        other = AssetDefinition(
            key="s.b",
            function="p:f",
            code_version="1",
            partitions=REGIONS,
            dependencies=(Dependency("s.a", "a"),),
        )
        await deploy(world, Project((definition, other)))
        for _ in range(2):
            await trigger(world, partitions={"region": "*"}, mode="force")
            await work_gated(world, GatingAction.QUARANTINE, "s.a[region=eu]", "s.b[region=us]")
        held = (await world.done("GET", "/quarantine"))["items"]
        assert [(item["asset_key"], item["partition_key"]) for item in held[:2]] == [
            ("s.b", "region=s:us"),
            ("s.a", "region=s:eu"),
        ]
        assert len(held) == 4
        seen, query = [], {"limit": 1}
        while True:
            page = await world.done("GET", "/quarantine", **query)
            seen += page["items"]
            if page["next_cursor"] is None:
                break
            query["cursor"] = page["next_cursor"]
        assert seen == held
        for asset, expected in (("s.a", held[1::2]), ("s.b", held[0::2])):
            assert (await world.done("GET", "/quarantine", asset=asset))["items"] == expected
            short = await world.done("GET", "/quarantine", asset=asset, limit=1)
            rest = await world.done("GET", "/quarantine", asset=asset, limit=1, cursor=short["next_cursor"])
            assert [*short["items"], *rest["items"]] == expected
            assert rest["next_cursor"] is None
        assert (await world.done("GET", "/quarantine", partition="region=us"))["items"] == held[0::2]
        assert (await world.done("GET", "/quarantine", partition="region=s:us"))["items"] == held[0::2]
        assert (await world.done("GET", "/quarantine", status="blocked"))["items"] == []
        made = (await world.done("GET", "/assets/s.a/versions"))["items"]
        assert [item["version"] for item in made] == [2, 2, 1, 1]
        us = (await world.done("GET", "/assets/s.a/versions", partition="region=us"))["items"]
        assert [(item["version"], item["current"]) for item in us] == [(2, True), (1, False)]
        bad = await world.done("GET", "/assets/s.a/versions", status="quarantined", limit=1)
        assert len(bad["items"]) == 1
        more = await world.done("GET", "/assets/s.a/versions", status="quarantined", cursor=bad["next_cursor"])
        assert {item["partition_key"] for item in (*bad["items"], *more["items"])} == {"region=s:eu"}
        assert (await world.ask("GET", "/quarantine", asset="s.none")).status_code == 404
        assert (await world.ask("GET", "/quarantine", status="lost")).status_code == 400
        assert (await world.ask("GET", "/quarantine", asset="s.a", cursor=bad["next_cursor"])).status_code == 400

    run_world(work)


def test_sql_and_the_outputs_of_a_run_say_how_versions_stand_now() -> None:
    async def work(world: World) -> tuple[Any, Any]:
        await deploy(world, project(chain(1)))
        run_id = await trigger(world)
        await Worker(world).work_off()
        version = (await newest(world, "n.a0000"))["materialization_id"]
        await decide(world, "quarantine", "n.a0000", version)
        sql = "SELECT status, written_status FROM system.materializations"
        rows = await world.done("POST", "/query", {"sql": sql})
        return rows["rows"], await world.done("GET", f"/runs/{run_id}/outputs")

    rows, outputs = run_world(work)
    assert rows == [["quarantined", "published"]]
    assert [made["status"] for made in outputs["materializations"]] == ["quarantined"]


def test_versions_that_others_made_of_a_table_can_be_set_aside_too() -> None:
    async def work(world: World) -> None:
        columns = [{"name": "id", "type": "long"}]
        await world.done("POST", "/namespaces", {"name": "shop"})
        table = (await world.done("POST", "/tables", {"name": "shop.orders", "columns": columns}))["table"]["id"]
        now = world.host.runtime.now()
        data = {
            "materialization_id": "theirs-1",
            "asset_id": table,
            "asset_key": "shop.orders",
            "partition_id": "all",
            "partition_key": "",
            "run_id": "airflow-7",
            "task_id": "load",
            "files": [],
            "row_count": 3,
            "byte_size": 10,
            "schema_hash": "0",
            "started_at": now - 10,
            "completed_at": now,
        }
        await world.done("POST", "/events", {"events": [{"type": "MaterializationCompleted", "data": data}]})
        done = await decide(world, "quarantine", "shop.orders", "theirs-1")
        assert (done["version"]["status"], done["run_state"], done["skipped_count"]) == ("quarantined", None, 0)
        (held,) = (await world.done("GET", "/quarantine", asset="shop.orders"))["items"]
        assert held["materialization_id"] == "theirs-1"

    run_world(work)
