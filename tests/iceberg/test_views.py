"""Views by their names: created, replaced, dropped, renamed, registered, and what clients are told."""

from typing import Any

import pytest

from arco.core import ulid_to_uuid
from arco.domains.catalog import TABLES, CreateTable, TableRow
from arco.iceberg import AlreadyExists, BadRequest, CommitFailed, NoSuchNamespace, NoSuchTable, NoSuchView
from arco.iceberg.metadata import CommitRequest, parse_view_commit
from tests.iceberg.house import House, Process, created, in_house, view_of

V = ("a", "v")


def _replace(sql: str, *, uuid: str | None = None) -> CommitRequest:
    version = {
        "version-id": 2,
        "timestamp-ms": 2,
        "schema-id": -1,
        "summary": {},
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
        "default-namespace": ["a"],
    }
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
    requirements = [{"type": "assert-view-uuid", "uuid": uuid}] if uuid else []
    updates: list[Any] = [
        {"action": "add-schema", "schema": schema},
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    return parse_view_commit({"requirements": requirements, "updates": updates})


def test_a_view_is_created_loaded_replaced_and_dropped() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.views.create(V, view_of(), process.who())
        assert (made.number, made.metadata["view-uuid"]) == (1, ulid_to_uuid(made.table_id))  # type: ignore[arg-type]
        row: TableRow = await process.workspace.logs["catalog"].replica.get(TABLES, made.table_id, made.table_id)
        assert row.format == "ICEBERG_VIEW"
        assert await process.views.load(V) == made
        assert not await process.tables.exists(V)
        uuid = made.metadata["view-uuid"]
        new = await process.views.replace(V, _replace("select 2", uuid=uuid), process.who())
        assert (new.number, new.metadata["current-version-id"]) == (2, 2)
        with pytest.raises(CommitFailed, match="view UUID does not match"):
            await process.views.replace(V, _replace("select 3", uuid="0" * 36), process.who())
        await process.views.drop(V, process.who())
        assert not await process.views.exists(V)
        for gone in (
            process.views.load(V),
            process.views.drop(V, process.who()),
            process.views.replace(V, _replace("select 2"), process.who()),
            process.views.rename(V, ("a", "w"), process.who()),
        ):
            with pytest.raises(NoSuchView, match=r"^View does not exist: a\.v$"):
                await gone

    in_house(test)


def test_views_and_tables_have_one_space_of_names() -> None:
    async def test(house: House, process: Process) -> None:
        table = await process.create("a.t")
        view = await process.views.create(V, view_of(), process.who())
        await process.views.create(("a", "two"), view_of(), process.who())
        await process.decide(CreateTable(("a", "plain")))
        create, rename = process.views.create, process.views.rename
        with pytest.raises(AlreadyExists, match=r"^View already exists: a\.v$"):
            await create(V, view_of(), process.who())
        with pytest.raises(AlreadyExists, match=r"^Table with same name already exists: a\.t$"):
            await create(("a", "t"), view_of(), process.who())
        with pytest.raises(AlreadyExists, match=r"^Table with same name already exists: a\.plain$"):
            await create(("a", "plain"), view_of(), process.who())
        with pytest.raises(AlreadyExists, match=r"^Table with same name already exists: a\.t$"):
            await process.views.register(("a", "t"), str(view.metadata_location), process.who())
        with pytest.raises(NoSuchNamespace, match=r"^Namespace does not exist: no$"):
            await create(("no", "v"), view_of(), process.who())
        with pytest.raises(AlreadyExists, match=r"^Cannot rename a\.v to a\.two\. View already exists$"):
            await rename(V, ("a", "two"), process.who())
        with pytest.raises(AlreadyExists, match=r"^Cannot rename a\.v to a\.t\. Table already exists$"):
            await rename(V, ("a", "t"), process.who())
        with pytest.raises(NoSuchNamespace, match=r"^Namespace does not exist: no$"):
            await rename(V, ("no", "v"), process.who())
        with pytest.raises(NoSuchView, match=r"^View does not exist: a\.t$"):
            await process.views.load(("a", "t"))
        with pytest.raises(NoSuchTable, match=r"^Table does not exist: a\.v$"):
            await process.tables.drop(V, process.who())
        await rename(V, ("b", "v"), process.who())
        assert (await process.views.load(("b", "v"))).table_id == view.table_id
        # The metadata of a table makes no view, and the other way round.
        with pytest.raises(BadRequest):
            await process.views.register(("a", "x"), str(table.metadata_location), process.who())
        with pytest.raises(BadRequest):
            await process.tables.register(("a", "x"), str(view.metadata_location), False, process.who())

    in_house(test)


def test_a_view_is_registered_with_its_file() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.views.create(V, view_of(), process.who())
        await process.views.drop(V, process.who())
        again = await process.views.register(V, str(made.metadata_location), process.who())
        assert (again.metadata, again.metadata_location) == (made.metadata, made.metadata_location)
        with pytest.raises(AlreadyExists, match=r"^View already exists: a\.v$"):
            await process.views.register(V, str(made.metadata_location), process.who())

    in_house(test)


def test_the_metadata_path_of_a_view_is_used() -> None:
    async def test(house: House, process: Process) -> None:
        outside = "file:///outside/v"
        made = await process.views.create(
            V, view_of(location=outside, properties={"write.metadata.path": f"{outside}/custom"}), process.who()
        )
        assert str(made.metadata_location).startswith(f"{outside}/custom/")
        new = await process.views.replace(V, _replace("select 2"), process.who())
        assert str(new.metadata_location).startswith(f"{outside}/custom/")

    in_house(test)


def test_a_keyed_view_is_created_once() -> None:
    async def test(house: House, process: Process) -> None:
        key = process.key("create")
        made = await process.views.create(V, view_of(), process.who(key))
        assert await process.views.create(V, view_of(), process.who(key)) == made
        await process.tables.create(("a", "t"), created(), process.who())

    in_house(test)
