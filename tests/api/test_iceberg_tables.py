"""Iceberg tables at Arco's own API: they are dropped there through their pointers, and what their metadata says is
changed elsewhere."""

from typing import Any

import msgspec

from arco.assets import AssetDefinition, DataFormat, Project
from arco.core import new_ulid
from arco.iceberg import Loaded, Locations, Tables, Who, open_iceberg
from arco.iceberg.metadata import parse_create
from arco.storage import Role
from tests.api.workers import deploy
from tests.api.world import ACME, World, run_world

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}


def _tables(world: World) -> Tables:
    workspace = world.workspace()
    return open_iceberg(workspace, Locations(workspace.handle(Role.ICEBERG), "file:///store", ACME.root)).tables


async def _create(world: World, name: str) -> Loaded:
    runtime = world.host.runtime
    who = Who("ann", new_ulid(runtime, runtime))
    return await _tables(world).create(("a", name), parse_create({"name": name, "schema": SCHEMA}), who)


def test_a_drop_fences_the_table_and_happens_once_for_a_key() -> None:
    async def work(world: World) -> None:
        await world.done("POST", "/namespaces", {"name": "a"})
        made = await _create(world, "t")
        shown = await world.done("GET", "/tables/a.t")
        assert (shown["id"], shown["format"], shown["columns"]) == (made.table_id, "ICEBERG", [])
        answer = await world.ask("DELETE", "/tables/a.t", headers={"If-Match": '"7"'})
        assert answer.status_code == 412
        assert await _tables(world).exists(("a", "t"))
        key = {"Idempotency-Key": new_ulid(world.host.runtime, world.host.runtime)}
        first = await world.done("DELETE", "/tables/a.t", headers=key)
        assert first["replayed"] is False
        assert not await _tables(world).exists(("a", "t"))
        pointer = await open_pointer(world, made.table_id)
        assert (pointer.state, pointer.source, pointer.number) == ("dropped", "admin", 2)
        again = await world.done("DELETE", "/tables/a.t", headers=key)
        assert (again["operation_id"], again["replayed"]) == (first["operation_id"], True)
        assert (await world.ask("DELETE", "/tables/a.t")).status_code == 404
        await world.done("DELETE", "/tables/a.t", if_exists="true")
        # The name is another table's now; the key still stands for the first one.
        await _create(world, "t")
        assert (await world.done("DELETE", "/tables/a.t", headers=key))["replayed"] is True
        assert await _tables(world).exists(("a", "t"))
        await world.done("DELETE", f"/tables/id:{(await world.done('GET', '/tables/a.t'))['id']}")
        assert not await _tables(world).exists(("a", "t"))

    run_world(work)


async def open_pointer(world: World, table_id: str) -> Any:
    workspace = world.workspace()
    pointers = open_iceberg(workspace, Locations(workspace.handle(Role.ICEBERG), "file:///store", ACME.root)).pointers
    current = await pointers.current(table_id)
    assert current is not None
    return current.pointer


def test_a_keyed_drop_of_another_format_is_still_recognised() -> None:
    async def work(world: World) -> None:
        await world.done("POST", "/namespaces", {"name": "a"})
        await world.done("POST", "/tables", {"name": "a.t"})
        key = {"Idempotency-Key": new_ulid(world.host.runtime, world.host.runtime)}
        first = await world.done("DELETE", "/tables/a.t", headers=key)
        await _create(world, "t")
        again = await world.done("DELETE", "/tables/a.t", headers=key)
        assert (again["operation_id"], again["replayed"]) == (first["operation_id"], True)
        assert await _tables(world).exists(("a", "t"))
        other = await world.ask("DELETE", "/tables/a.t", headers=key, if_exists="true")
        assert other.status_code == 409

    run_world(work)


def test_what_the_metadata_says_is_refused_with_a_hint() -> None:
    async def work(world: World) -> None:
        await world.done("POST", "/namespaces", {"name": "a"})
        await _create(world, "t")
        created = await world.ask("POST", "/tables", {"name": "a.u", "format": "ICEBERG"})
        assert created.status_code == 400
        assert "/iceberg" in created.json()["detail"]
        asked: list[tuple[str, str, Any]] = [
            ("PATCH", "/tables/a.t", {"location": "data/x"}),
            ("PUT", "/tables/a.t/contract", {}),
            ("DELETE", "/namespaces/a?cascade=true", None),
        ]
        for method, path, body in asked:
            answer = await world.ask(method, path, body)
            assert answer.status_code == 409, (path, answer.text)
            assert "Iceberg table" in answer.json()["detail"]
        await world.done("PATCH", "/tables/a.t", {"description": "Orders"})
        await world.done("POST", "/tables/a.t/rename", {"new_name": "a.w"})
        assert await _tables(world).exists(("a", "w"))

    run_world(work)


def test_a_namespace_keeps_its_name_while_assets_have_their_tables_in_it() -> None:
    """The table would follow the namespace, and its asset make another one in its place."""

    async def work(world: World) -> None:
        asset = AssetDefinition(key="a.orders", function="pipeline:make", code_version="1", format=DataFormat.ICEBERG)
        await deploy(world, Project((asset,)))
        for name in ("a", "a.c", "b"):
            await world.ask("POST", "/namespaces", {"name": name})
        for name, target in (("a", "z"), ("a", "b.a")):
            refused = await world.ask("POST", f"/namespaces/{name}/rename", {"new_name": target})
            assert refused.status_code == 403, refused.text
            assert "holds the tables of assets: a.orders" in refused.json()["detail"]
        await world.done("POST", "/namespaces/a.c/rename", {"new_name": "a.d"})
        assert (await world.ask("POST", "/namespaces/nothing/rename", {"new_name": "x"})).status_code == 404
        await deploy(world, Project((msgspec.structs.replace(asset, format=DataFormat.PARQUET),)))
        await world.done("POST", "/namespaces/a/rename", {"new_name": "z"})

    run_world(work)
