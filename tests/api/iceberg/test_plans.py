"""Scan planning over HTTP: answered at once; what would be fetched later does not exist."""

from tests.api.iceberg.content import table
from tests.api.iceberg.world import ask, done, error_of, namespace
from tests.api.world import World, run_world

NS = namespace("ns")
T = f"{NS}/tables/t"


def test_an_empty_table_is_planned_at_once() -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        await done(world, "POST", f"{NS}/tables", table())
        plan = await done(world, "POST", f"{T}/plan", {})
        assert plan["status"] == "completed"
        assert plan.get("file-scan-tasks", []) == []
        assert (await ask(world, "DELETE", f"{T}/plan/{plan['plan-id']}")).status_code == 204
        assert error_of(await ask(world, "GET", f"{T}/plan/{plan['plan-id']}"))[:2] == (404, "NoSuchPlanIdException")
        missing = await ask(world, "POST", f"{T}/tasks", {"plan-task": "x"})
        assert error_of(missing)[:2] == (404, "NoSuchPlanTaskException")
        assert error_of(await ask(world, "POST", f"{T}/plan", {"snapshot-id": 7}))[0] in (400, 404)
        assert error_of(await ask(world, "POST", f"{T}/plan", []))[0] == 400

    run_world(work)


def test_no_table_has_no_plan() -> None:
    async def work(world: World) -> None:
        for method, path, body in (
            ("POST", f"{T}/plan", {}),
            ("GET", f"{T}/plan/x", None),
            ("DELETE", f"{T}/plan/x", None),
            ("POST", f"{T}/tasks", {"plan-task": "x"}),
        ):
            assert error_of(await ask(world, method, path, body))[:2] == (404, "NoSuchTableException"), path

    run_world(work)
