"""Deploys on a workspace: prepare, deploy, deploy again, race, roll back; and plans of what is deployed."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from arco.assets import SchemaColumn, SecretRef
from arco.core import Conflict, Invalid, NotFound, PreconditionFailed, Refused, new_ulid
from arco.domains.catalog import AddColumn, CreateNamespace, CreateTable, Ref, SetContract
from arco.domains.deployments import (
    CODE_VERSIONS,
    DEPLOYMENTS_TABLE,
    WORKSPACE,
    AddPartitions,
    Deployment,
    read_asset_ids,
    resolve_key,
)
from arco.domains.execution import MATERIALIZATION_COMPLETED, MaterializationCompleted
from arco.runtime import Workspace, init_workspace
from arco.servo._deploy import deploy, load_project, prepare_deploy, project_of_deployment
from arco.servo._deploy_diff import Renamed
from arco.servo._planning import Projects, plan_run
from arco.servo._request import RunRequest
from arco.state import View, new_event
from arco.storage import MemoryStore, Role
from tests.doubles import FakeRuntime
from tests.runtime.world import SCOPE, run
from tests.servo.projects import DAILY, asset, customers, project

FIRST = project(asset("s.a"), asset("s.b", "s.a"))
SECOND = project(asset("s.a", code_version="2"), asset("s.b", "s.a"), asset("s.c"))


def on_workspace(test: Callable[[Workspace], Coroutine[Any, Any, None]]) -> None:
    async def main(runtime: FakeRuntime) -> None:
        store = MemoryStore()
        await init_workspace(store, SCOPE, runtime)
        async with await Workspace.open(store, SCOPE, runtime) as workspace:
            await test(workspace)

    run(main)


async def see(workspace: Workspace, work: Callable[[View], Coroutine[Any, Any, Any]]) -> Any:
    found, _ = await workspace.logs["catalog"].read(work)
    return found


async def ids(workspace: Workspace) -> dict[str, str]:
    found: dict[str, str] = await see(workspace, read_asset_ids)
    return found


def test_a_deploy_makes_a_project_current_for_everybody() -> None:
    async def test(workspace: Workspace) -> None:
        plan = await prepare_deploy(workspace, FIRST)
        assert (plan.current, plan.diff.added, plan.breaking, plan.kept_ids) == (None, ("s.a", "s.b"), (), {})
        done = await deploy(workspace, plan, actor="me", message="first")
        assert done.is_new
        assert set(await ids(workspace)) == {"s.a", "s.b"}
        again = await prepare_deploy(workspace, FIRST)
        assert again.changes_nothing
        assert again.diff.is_empty
        assert again.current is not None
        assert (again.current.deployment_id, again.current.deployed_by) == (done.deployment_id, "me")
        assert await load_project(workspace, again.current.manifest) == FIRST
        assert again.kept_ids == await ids(workspace)
        repeated = await deploy(workspace, again, actor="me")
        assert (repeated.is_new, repeated.deployment_id) == (False, done.deployment_id)

    on_workspace(test)


def test_what_was_deployed_is_there_after_the_workspace_was_closed() -> None:
    rich = project(
        asset("s.a", tags={"b": "1", "a": "2"}, owners=("me",), partitions=[DAILY], **schema(("id", "long"))),
        asset("s.z", renamed_from=("s.old",)),
    )

    async def main(runtime: FakeRuntime) -> None:
        store = MemoryStore()
        await init_workspace(store, SCOPE, runtime)
        async with await Workspace.open(store, SCOPE, runtime) as workspace:
            await deploy(workspace, await prepare_deploy(workspace, rich), actor="me")
            before = await ids(workspace)
        async with await Workspace.open(store, SCOPE, runtime) as workspace:
            assert (await prepare_deploy(workspace, rich)).changes_nothing
            assert await ids(workspace) == before
            assert (await see(workspace, lambda view: resolve_key(view, "s.old"))).key == "s.z"
            edited = project(*rich.assets[:1], asset("s.z", renamed_from=("s.old",), code_version="2"))
            done = await deploy(workspace, await prepare_deploy(workspace, edited), actor="me")
            row: Deployment = await see(
                workspace, lambda view: view.get(DEPLOYMENTS_TABLE, WORKSPACE, done.deployment_id)
            )
            assert (row.added_count, row.changed_count) == (0, 1)

    run(main)


def test_the_difference_is_shown_before_and_counted_after() -> None:
    async def test(workspace: Workspace) -> None:
        await deploy(workspace, await prepare_deploy(workspace, FIRST), actor="me")
        plan = await prepare_deploy(workspace, SECOND)
        assert (plan.diff.added, [change.key for change in plan.diff.changed]) == (("s.c",), ["s.a"])
        assert [item.key for item in plan.diff.affected] == ["s.b"]
        done = await deploy(workspace, plan, actor="me")
        row: Deployment = await see(workspace, lambda view: view.get(DEPLOYMENTS_TABLE, WORKSPACE, done.deployment_id))
        assert (row.added_count, row.changed_count, row.removed_count) == (1, 1, 0)

    on_workspace(test)


def test_of_two_deploys_that_were_prepared_at_once_one_is_refused() -> None:
    async def test(workspace: Workspace) -> None:
        mine, theirs = await prepare_deploy(workspace, FIRST), await prepare_deploy(workspace, SECOND)
        await deploy(workspace, theirs, actor="they")
        with pytest.raises(PreconditionFailed, match="somebody else deployed"):
            await deploy(workspace, mine, actor="me")
        assert set(await ids(workspace)) == {"s.a", "s.b", "s.c"}

    on_workspace(test)


def test_a_repeated_request_is_recognised_whatever_was_found_out_on_the_way() -> None:
    async def test(workspace: Workspace) -> None:
        key = new_ulid(workspace.runtime, workspace.runtime)
        first = await deploy(workspace, await prepare_deploy(workspace, FIRST), actor="me", key=key)
        await deploy(workspace, await prepare_deploy(workspace, SECOND), actor="me")
        again = await deploy(workspace, await prepare_deploy(workspace, FIRST), actor="me", key=key)
        assert (again.is_new, again.deployment_id) == (False, first.deployment_id)
        assert "s.c" in await ids(workspace)
        with pytest.raises(Conflict, match="used for another request"):
            await deploy(workspace, await prepare_deploy(workspace, SECOND), actor="me", key=key)

    on_workspace(test)


def test_a_rollback_deploys_an_old_version_again() -> None:
    async def test(workspace: Workspace) -> None:
        first = await deploy(workspace, await prepare_deploy(workspace, FIRST), actor="me")
        before = await ids(workspace)
        renamed = project(asset("s.z", renamed_from=("s.a",)), asset("s.b", "s.z"))
        plan = await prepare_deploy(workspace, renamed)
        assert plan.diff.renamed == (Renamed("s.a", "s.z"),)
        await deploy(workspace, plan, actor="me")
        assert (await ids(workspace))["s.z"] == before["s.a"]
        old = await prepare_deploy(workspace, await project_of_deployment(workspace, first.deployment_id))
        assert old.diff.renamed == (Renamed("s.z", "s.a"),)
        back = await deploy(workspace, old, actor="me", message="sorry", rollback_of=first.deployment_id)
        assert back.code_version == first.code_version
        assert await ids(workspace) == before
        assert (await see(workspace, lambda view: resolve_key(view, "s.z"))).key == "s.a"
        assert len(await see(workspace, lambda view: view.rows(CODE_VERSIONS, WORKSPACE))) == 2
        with pytest.raises(NotFound, match="no deployment"):
            await project_of_deployment(workspace, new_ulid(workspace.runtime, workspace.runtime))

    on_workspace(test)


def test_everything_that_is_wrong_is_told_at_once_and_nothing_is_written() -> None:
    async def test(workspace: Workspace) -> None:
        bad = project(asset("s.a", "s.b"), asset("s.b", "s.a"), asset("s.c", "s.none"), asset("S.d"))
        with pytest.raises(Invalid) as caught:
            await prepare_deploy(workspace, bad)
        assert len(caught.value.details["problems"]) == 3
        assert workspace.logs["catalog"].replica.watermark < 1 << 20

    on_workspace(test)


def test_a_secret_in_a_definition_is_refused_before_anything_is_stored() -> None:
    async def test(workspace: Workspace) -> None:
        leaked = project(asset("s.a", description="postgres://me:hunter22@db/x"))
        plan = await prepare_deploy(workspace, leaked)
        written = workspace.counts.count(Role.OWNER)
        with pytest.raises(Invalid, match="password"):
            await deploy(workspace, plan, actor="me")
        assert workspace.counts.count(Role.OWNER) == written
        fine = project(asset("s.a", secrets=(SecretRef("token", "env", "API_TOKEN"),)))
        await deploy(workspace, await prepare_deploy(workspace, fine), actor="me")

    on_workspace(test)


def schema(*columns: tuple[str, str]) -> dict[str, Any]:
    return {"schema": tuple(SchemaColumn(name, kind) for name, kind in columns)}


async def create_table(workspace: Workspace, path: tuple[str, ...], *columns: AddColumn) -> None:
    await workspace.decide("catalog", CreateNamespace(path[:-1]), actor="me")
    await workspace.decide("catalog", CreateTable(path, columns=columns), actor="me")


def test_a_declared_schema_must_fit_the_registered_one() -> None:
    async def test(workspace: Workspace) -> None:
        await create_table(workspace, ("s", "a"), AddColumn("id", "long"), AddColumn("name", "string"))
        narrow = project(asset("s.a", **schema(("id", "int"))))
        plan = await prepare_deploy(workspace, narrow)
        assert plan.breaking == ("s.a: the column id changes from long to int, which is no wider",)
        assert plan.table_ids.keys() == {"s.a"}
        with pytest.raises(Refused, match="no wider"):
            await deploy(workspace, plan, actor="me")
        await deploy(workspace, plan, actor="me", allow_breaking=True)
        assert await ids(workspace) == plan.table_ids
        fits = project(asset("s.a", **schema(("id", "BIGINT"), ("more", "date"))))
        assert (await prepare_deploy(workspace, fits)).breaking == ()
        table = Ref(path=("s", "a"))
        await workspace.decide("catalog", SetContract(table, compatibility="full"), actor="me")
        assert (await prepare_deploy(workspace, fits)).breaking == ("s.a: the column name is gone",)

    on_workspace(test)


def test_without_a_table_the_schema_declared_before_is_what_others_rely_on() -> None:
    async def test(workspace: Workspace) -> None:
        wide = project(asset("s.a", **schema(("id", "long"))))
        await deploy(workspace, await prepare_deploy(workspace, wide), actor="me")
        narrow = project(asset("s.z", renamed_from=("s.a",), **schema(("id", "int"))))
        assert len((await prepare_deploy(workspace, narrow)).breaking) == 1
        with pytest.raises(Invalid, match="the column id of s"):
            await prepare_deploy(workspace, project(asset("s.a", **schema(("id", "nothing")))))

    on_workspace(test)


# Plans of what is deployed


def test_a_plan_reads_what_is_deployed_and_what_was_made() -> None:
    async def test(workspace: Workspace) -> None:
        projects = Projects()
        with pytest.raises(Refused, match="nothing is deployed"):
            await plan_run(workspace, RunRequest("*", at=workspace.runtime.now()), projects)
        done = await deploy(workspace, await prepare_deploy(workspace, FIRST), actor="me")
        planned = await plan_run(workspace, RunRequest("+s.b", at=workspace.runtime.now()), projects)
        assert [task.task_key for task in planned.plan.tasks] == ["s.a", "s.b"]
        assert (planned.plan.code_version, planned.deployment.deployment_id) == (done.code_version, done.deployment_id)
        output = planned.plan.tasks[0].outputs[0]
        assert output.asset_id == (await ids(workspace))["s.a"]
        receipt = await workspace.record("activity", [version("m1", output.asset_id, output.partition_id)], actor="me")
        after = await plan_run(workspace, RunRequest("s.b", at=workspace.runtime.now()), projects)
        assert after.plan.tasks[0].inputs[0].pins[0].materialization_id == "m1"
        assert int(after.plan.activity_position) >= receipt.position
        assert int(after.plan.catalog_position) >= done.receipt.position

    on_workspace(test)


def test_dynamic_partitions_that_were_added_are_planned() -> None:
    async def test(workspace: Workspace) -> None:
        made = project(asset("s.a", partitions=[customers()]), asset("s.days", partitions=[DAILY]))
        await deploy(workspace, await prepare_deploy(workspace, made), actor="me")
        await workspace.decide("catalog", AddPartitions("customers", ("zoe", "adam")), actor="me")
        request = RunRequest("s.a", {"customer": "zoe"}, at=workspace.runtime.now())
        planned = await plan_run(workspace, request, Projects())
        assert [task.task_key for task in planned.plan.tasks] == ["s.a[customer=zoe]"]

    on_workspace(test)


def version(name: str, asset_id: str, partition_id: str) -> Any:
    payload = MaterializationCompleted(
        materialization_id=name,
        asset_id=asset_id,
        asset_key="s.a",
        partition_id=partition_id,
        partition_key="",
        run_id="r1",
        task_id="t1",
        files=(),
        row_count=1,
        byte_size=1,
        schema_hash="h",
        started_at=0,
        completed_at=1_000_000,
    )
    return new_event(MATERIALIZATION_COMPLETED, payload)
