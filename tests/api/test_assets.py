"""Assets over HTTP: what is deployed, under which names, and how their partitions stand."""

from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from arco.assets import AssetDefinition, Dependency, Dimension, Project, StaticPartitions
from arco.domains.orchestration import Outcome
from tests.api.workers import Worker, deploy
from tests.api.world import World, run_world
from tests.servo.world import chain, project

REGIONS = (Dimension("region", StaticPartitions(("eu", "us", "asia"))),)
ORDERS = AssetDefinition(
    key="sales.orders",
    function="pipeline:make",
    code_version="1",
    description="What was ordered",
    owners=("ann",),
    tags={"tier": "gold"},
    partitions=REGIONS,
)
DAILY = AssetDefinition(
    key="sales.daily",
    function="pipeline:make",
    code_version="1",
    dependencies=(Dependency("sales.orders", "orders"),),
    partitions=REGIONS,
)


def _renamed(definition: AssetDefinition, key: str) -> AssetDefinition:
    return msgspec.structs.replace(definition, key=key, renamed_from=(definition.key,))


def test_assets_are_listed_and_shown_as_they_are_deployed() -> None:
    async def work(world: World) -> tuple[Any, Any, Any, httpx.Response]:
        empty = await world.done("GET", "/assets")
        await deploy(world, Project((ORDERS, DAILY)))
        return (
            empty,
            await world.done("GET", "/assets"),
            await world.done("GET", "/assets/sales.orders"),
            await world.ask("GET", "/assets/sales.nothing"),
        )

    empty, listed, shown, missing = run_world(work)
    assert empty["items"] == []
    assert [asset["key"] for asset in listed["items"]] == ["sales.daily", "sales.orders"]
    assert listed["items"][1] == {name: shown[name] for name in listed["items"][1]}
    assert (shown["owners"], shown["tags"], shown["partitions"]) == (["ann"], {"tier": "gold"}, ["region"])
    assert (shown["upstream"], shown["downstream"]) == ([], ["sales.daily"])
    assert (shown["partition_count"], shown["materialized_count"], shown["last_materialized_at"]) == (3, 0, None)
    assert missing.status_code == 404


def test_assets_are_found_by_what_is_said_of_them() -> None:
    async def work(world: World) -> list[list[str]]:
        await deploy(world, Project((ORDERS, DAILY)))
        found = []
        for said in ("description ilike '%ORDERED%'", "tags['tier'] = 'gold'", "tags['tier'] = 'tin'"):
            sql = f"select key from system.assets where {said}"
            found.append([key for [key] in (await world.done("POST", "/query", {"sql": sql}))["rows"]])
        return found

    assert run_world(work) == [["sales.orders"], ["sales.orders"], []]


def test_an_asset_is_found_by_the_key_it_had_before_and_keeps_what_was_made() -> None:
    async def work(world: World) -> tuple[Any, Any, Any, Any]:
        await deploy(world, Project((ORDERS, DAILY)))
        await world.done("POST", "/runs", {"selection": "sales.orders", "partitions": {"region": "eu"}})
        await Worker(world).work_off()
        before = await world.done("GET", "/assets/sales.orders")
        dependent = msgspec.structs.replace(DAILY, dependencies=(Dependency("shop.orders", "orders"),))
        await deploy(world, Project((_renamed(ORDERS, "shop.orders"), dependent)))
        return (
            before,
            await world.done("GET", "/assets/sales.orders"),
            await world.done("GET", "/assets/sales.orders/partitions"),
            await world.done("GET", "/assets"),
        )

    before, after, partitions, listed = run_world(work)
    assert after["asset_id"] == before["asset_id"]
    assert (after["key"], after["former_keys"]) == ("shop.orders", ["sales.orders"])
    assert after["materialized_count"] == 1
    assert [part["partition_key"] for part in partitions["items"]] == ["region=s:eu"]
    assert [asset["key"] for asset in listed["items"]] == ["sales.daily", "shop.orders"]


def test_an_asset_that_was_removed_says_so_and_comes_back_with_its_id() -> None:
    async def work(world: World) -> tuple[Any, Any, Any, Any]:
        done = await deploy(world, project({"n.a": [], "n.b": []}))
        before = await world.done("GET", "/assets/n.a")
        await deploy(world, project({"n.b": []}))
        gone = await world.done("GET", "/assets/n.a")
        assert [one["key"] for one in (await world.done("GET", "/assets"))["items"]] == ["n.b"]
        past = await world.done("GET", "/assets/n.a", as_of=done["position"])
        await deploy(world, project({"n.a": [], "n.b": []}))
        return before, gone, past, await world.done("GET", "/assets/n.a")

    before, gone, past, back = run_world(work)
    assert gone["status"] == "removed"
    assert gone | {"status": "active"} == before
    assert past == before
    assert back["asset_id"] == before["asset_id"]


def test_partitions_are_listed_by_the_page_whether_they_went_well_or_not() -> None:
    async def work(world: World) -> tuple[list[Any], Any, Any]:
        await deploy(world, Project((ORDERS,)))
        run = await world.done("POST", "/runs", {"selection": "sales.orders", "partitions": {"region": "*"}})
        worker = Worker(world)
        for envelope in await worker.claim(3):
            failed = "us" in envelope.task_key
            await worker.finish(envelope, Outcome.FAILED if failed else Outcome.SUCCEEDED)
        found: list[Any] = []
        query: dict[str, Any] = {"limit": 1}
        while True:
            page = await world.done("GET", "/assets/sales.orders/partitions", **query)
            assert len(page["items"]) == 1
            found += page["items"]
            if page["next_cursor"] is None:
                break
            query["cursor"] = page["next_cursor"]
        before = await world.done("GET", "/assets/sales.orders/partitions", as_of=f"activity:{run['position']}")
        return found, await world.done("GET", "/assets/sales.orders"), before

    found, shown, before = run_world(work)
    states = {part["partition_key"]: (part["status"], part["version"]) for part in found}
    assert states["region=s:eu"] == states["region=s:asia"] == ("complete", 1)
    assert shown["materialized_count"] == 2
    assert before["items"] == []


def test_assets_are_listed_by_the_page_without_those_that_are_gone() -> None:
    async def work(world: World) -> list[list[str]]:
        await deploy(world, project(chain(9)))
        await deploy(world, project({f"n.a{number:04d}": [] for number in range(1, 9, 2)}))
        found = []
        query: dict[str, Any] = {"limit": 2}
        while True:
            page = await world.done("GET", "/assets", **query)
            found.append([asset["key"] for asset in page["items"]])
            if page["next_cursor"] is None:
                return found
            query["cursor"] = page["next_cursor"]

    pages = run_world(work)
    assert [key for page in pages for key in page] == ["n.a0001", "n.a0003", "n.a0005", "n.a0007"]
    assert all(len(page) <= 2 for page in pages)


def test_keys_that_are_none_are_refused_or_unknown() -> None:
    keys = ["a", "a/b", "a..b", "a\u202eb", "%", "id:x", '"a.b".c', "a" * 512, "a" * 513, "a\x00b", " "]

    async def work(world: World) -> dict[str, int]:
        await deploy(world, project(chain(1)))
        paths = [quote(key, safe="") + rest for key in keys for rest in ("", "/partitions")]
        return {path: (await world.ask("GET", f"/assets/{path}")).status_code for path in paths}

    assert {path: status for path, status in run_world(work).items() if status not in (400, 404)} == {}
