"""Views over HTTP: created, loaded, replaced, renamed, registered, dropped; one space of names with tables."""

from tests.api.iceberg.content import SCHEMA, VIEW, table
from tests.api.iceberg.world import ask, done, error_of, namespace
from tests.api.world import World, run_world

NS = namespace("ns")
V = f"{NS}/views/v"


async def _made(world: World) -> dict[str, object]:
    await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
    found: dict[str, object] = await done(world, "POST", f"{NS}/views", VIEW)
    return found


def test_a_view_is_created_loaded_listed_and_dropped() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        assert await done(world, "GET", V) == made
        assert (await ask(world, "HEAD", V)).status_code == 204
        assert (await done(world, "GET", f"{NS}/views"))["identifiers"] == [{"namespace": ["ns"], "name": "v"}]
        assert (await done(world, "GET", f"{NS}/tables"))["identifiers"] == []
        assert (await ask(world, "DELETE", V)).status_code == 204
        assert (await ask(world, "HEAD", V)).status_code == 404
        assert error_of(await ask(world, "GET", V)) == (404, "NoSuchViewException", "View does not exist: ns.v")
        assert error_of(await ask(world, "DELETE", V)) == (404, "NoSuchViewException", "View does not exist: ns.v")

    run_world(work)


def test_a_view_is_replaced() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        uuid = made["metadata"]["view-uuid"]  # type: ignore[index]
        version = {**VIEW["view-version"], "version-id": 2, "schema-id": -1}
        version["representations"] = [{"type": "sql", "sql": "SELECT 2", "dialect": "spark"}]
        body = {
            "requirements": [{"type": "assert-view-uuid", "uuid": uuid}],
            "updates": [
                {"action": "add-schema", "schema": SCHEMA},
                {"action": "add-view-version", "view-version": version},
                {"action": "set-current-view-version", "view-version-id": -1},
            ],
        }
        left = await done(world, "POST", V, body)
        assert left["metadata"]["current-version-id"] == 2
        body["requirements"] = [{"type": "assert-view-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}]
        assert error_of(await ask(world, "POST", V, body))[:2] == (409, "CommitFailedException")
        body["updates"] = [{"action": "add-snapshot", "snapshot": {}}]
        assert error_of(await ask(world, "POST", V, body))[0] == 400

    run_world(work)


def test_tables_and_views_share_their_names() -> None:
    async def work(world: World) -> None:
        await _made(world)
        answer = await ask(world, "POST", f"{NS}/tables", table("v"))
        assert error_of(answer) == (409, "AlreadyExistsException", "View with same name already exists: ns.v")
        await done(world, "POST", f"{NS}/tables", table("t"))
        answer = await ask(world, "POST", f"{NS}/views", {**VIEW, "name": "t"})
        assert error_of(answer) == (409, "AlreadyExistsException", "Table with same name already exists: ns.t")
        names = {"source": {"namespace": ["ns"], "name": "v"}, "destination": {"namespace": ["ns"], "name": "t"}}
        answer = await ask(world, "POST", "/views/rename", names)
        assert error_of(answer) == (409, "AlreadyExistsException", "Cannot rename ns.v to ns.t. Table already exists")
        assert error_of(await ask(world, "GET", f"{NS}/tables/v"))[1] == "NoSuchTableException"
        assert error_of(await ask(world, "GET", f"{NS}/views/t"))[1] == "NoSuchViewException"

    run_world(work)


def test_a_view_is_renamed_and_registered() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        names = {"source": {"namespace": ["ns"], "name": "v"}, "destination": {"namespace": ["ns"], "name": "w"}}
        assert (await ask(world, "POST", "/views/rename", names)).status_code == 204
        assert (await done(world, "GET", f"{NS}/views/w"))["metadata"] == made["metadata"]
        await done(world, "DELETE", f"{NS}/views/w")
        body = {"name": "again", "metadata-location": made["metadata-location"]}
        assert (await done(world, "POST", f"{NS}/register-view", body))["metadata"] == made["metadata"]
        assert error_of(await ask(world, "POST", f"{NS}/register-view", body))[1] == "AlreadyExistsException"

    run_world(work)
