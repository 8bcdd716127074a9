"""What the catalog's own routes show of Iceberg tables: columns, how they stand, who committed what; and SQL."""

from typing import Any

from tests.api.iceberg.content import VIEW, append, snapshot, table
from tests.api.iceberg.world import done, namespace
from tests.api.world import World, run_world


async def _orders(world: World) -> dict[str, Any]:
    await done(world, "POST", "/namespaces", {"namespace": ["shop"]})
    made: dict[str, Any] = await done(world, "POST", f"{namespace('shop')}/tables", table("orders"))
    return made


async def _settled(world: World) -> None:
    await world.host.warehouse_of(world.host.default).upkeep.receipts.close()


def test_a_table_is_shown_with_the_columns_of_its_metadata_and_its_commits() -> None:
    async def test(world: World) -> None:
        made = await _orders(world)
        uuid, now = made["metadata"]["table-uuid"], world.host.runtime.now() // 1000
        path = f"{namespace('shop')}/tables/orders"
        await done(world, "POST", path, append(uuid, snapshot(5, 1, None, now), None), headers={"User-Agent": "duck/1"})
        await _settled(world)
        info = await world.done("GET", "/tables/shop.orders")
        assert [(column["name"], column["type"], column["nullable"]) for column in info["columns"]] == [
            ("id", "long", False),
            ("name", "string", True),
        ]
        assert (info["iceberg"]["number"], info["iceberg"]["snapshot_id"], info["iceberg"]["uuid"]) == (2, "5", uuid)
        listed = await world.done("GET", "/tables/shop.orders/columns")
        assert listed["items"] == info["columns"]
        commits = await world.done("GET", "/tables/shop.orders/commits", limit=1)
        (newest,) = commits["items"]
        assert (newest["number"], newest["operation"], newest["added_rows"]) == (2, "append", 1)
        assert (newest["source"], newest["lineage_confidence"]) == ("external", "declared_unverified")
        assert (newest["client"], newest["snapshot_id"], newest["schema_changed"]) == ("duck/1", "5", False)
        older = await world.done("GET", "/tables/shop.orders/commits", limit=1, cursor=commits["next_cursor"])
        assert [one["number"] for one in older["items"]] == [1]
        assert older["next_cursor"] is None
        answer = await world.ask("GET", "/tables/shop.orders")
        again = await world.ask("GET", "/tables/shop.orders", headers={"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304

    run_world(test)


def test_a_view_is_shown_with_its_columns_and_an_ordinary_table_has_no_commits() -> None:
    async def test(world: World) -> None:
        await _orders(world)
        await done(world, "POST", f"{namespace('shop')}/views", VIEW)
        await world.done("POST", "/tables", {"name": "shop.plain", "columns": [{"name": "a", "type": "int"}]})
        await _settled(world)
        view = await world.done("GET", "/tables/shop.v")
        assert (view["format"], [column["name"] for column in view["columns"]]) == ("ICEBERG_VIEW", ["id", "name"])
        plain = await world.done("GET", "/tables/shop.plain")
        assert (plain["iceberg"], [column["name"] for column in plain["columns"]]) == (None, ["a"])
        assert (await world.done("GET", "/tables/shop.plain/commits"))["items"] == []

    run_world(test)


def test_sql_sees_the_columns_of_both_kinds_and_every_commit() -> None:
    async def test(world: World) -> None:
        await _orders(world)
        await world.done("POST", "/tables", {"name": "shop.plain", "columns": [{"name": "a", "type": "int"}]})
        await _settled(world)

        async def rows(sql: str) -> Any:
            return (await world.done("POST", "/query", {"sql": sql}))["rows"]

        ordered = "FROM system.columns ORDER BY table_name, ordinal_position"
        assert await rows(f"SELECT table_name, name, data_type, status {ordered}") == [
            ["shop.orders", "id", "long", "active"],
            ["shop.orders", "name", "string", "active"],
            ["shop.plain", "a", "int", "active"],
        ]
        assert await rows("SELECT count(*) FROM system.columns") == [[3]]
        assert await rows("SELECT name FROM system.columns WHERE NOT is_nullable") == [["id"]]
        described = [row[0] for row in await rows("DESCRIBE system.columns")]
        assert described[0] == "column_id"
        assert "field_id" not in described
        assert described[-2:] == ["table_name", "_position"]
        whole = await rows("SELECT * FROM system.columns WHERE name = 'id'")
        assert len(whole[0]) == len(described)
        lag = "SELECT number, source, recorded_at >= committed_at - INTERVAL 1 SECOND FROM system.table_commits"
        assert await rows(lag) == [[1, "external", True]]
        state = "SELECT c.name FROM system.table_columns c JOIN system.table_states s USING (table_id) ORDER BY 1"
        assert await rows(state) == [["id"], ["name"]]

    run_world(test)


def test_upkeep_over_http_tells_what_is_missing_and_says_what_it_would_remove() -> None:
    async def test(world: World) -> None:
        committer = world.host.warehouse_of(world.host.default).tables._committer
        tell, committer.on_committed = committer.on_committed, lambda committed, who: None
        await _orders(world)
        committer.on_committed = tell
        looked = await world.done("POST", "/maintenance/iceberg", {"dry_run": True})
        assert [(one["number"], one["lost"]) for one in looked["untold"]] == [(1, False)]
        assert (await world.done("GET", "/tables/shop.orders/commits"))["items"] == []
        done = await world.done("POST", "/maintenance/iceberg", {})
        assert (len(done["untold"]), done["table_count"], done["removed"], done["more"]) == (1, 1, [], False)
        assert [one["number"] for one in (await world.done("GET", "/tables/shop.orders/commits"))["items"]] == [1]
        assert (await world.done("POST", "/maintenance/iceberg", {}))["untold"] == []

    run_world(test)


def test_a_drop_by_the_catalogs_own_route_is_told_too() -> None:
    async def test(world: World) -> None:
        await _orders(world)
        await world.done("DELETE", "/tables/shop.orders")
        await _settled(world)
        sql = "SELECT state, source, number FROM system.table_commits ORDER BY number"
        rows = (await world.done("POST", "/query", {"sql": sql}))["rows"]
        assert rows == [["live", "external", 1], ["dropped", "admin", 2]]
        assert (await world.done("POST", "/query", {"sql": "FROM system.table_columns"}))["rows"] == []

    run_world(test)


def test_the_audit_has_who_made_renamed_and_dropped_tables_by_which_request() -> None:
    async def test(world: World) -> None:
        shop = namespace("shop")
        move = {
            "source": {"namespace": ["shop"], "name": "orders"},
            "destination": {"namespace": ["shop"], "name": "o"},
        }
        asked: list[tuple[str, str, Any]] = [
            ("POST", "/namespaces", {"namespace": ["shop"]}),
            ("POST", f"{shop}/tables", table("orders")),
            ("POST", "/tables/rename", move),
            ("DELETE", f"{shop}/tables/o", None),
            ("DELETE", shop, None),
        ]
        for number, (method, path, body) in enumerate(asked):
            await done(world, method, path, body, headers={"X-Request-Id": f"audited-{number}"})
        sql = "SELECT action, resource, actor FROM system.audit WHERE request_id LIKE 'audited-%' ORDER BY request_id"
        found = await world.done("POST", "/query", {"sql": sql})
        assert [row[:2] for row in found["rows"]] == [
            ["CreateNamespace", "shop"],
            ["CreateTable", "shop.orders"],
            ["RenameTable", "shop.o"],
            ["DropTable", "shop.o"],
            ["DropNamespace", "shop"],
        ]
        assert len({row[2] for row in found["rows"]}) == 1

    run_world(test)


def test_schema_versions_of_an_iceberg_table_are_not_made_up() -> None:
    async def test(world: World) -> None:
        await _orders(world)
        await done(world, "POST", f"{namespace('shop')}/views", VIEW)
        for name in ("orders", "v"):
            for path in (f"/tables/shop.{name}/versions", f"/tables/shop.{name}/versions/diff?from=1&to=1"):
                answer = await world.ask("GET", path)
                assert (answer.status_code, "/commits" in answer.json()["detail"]) == (409, True)

    run_world(test)
