"""Iceberg tables and views in the catalog: names with ids of their own, and nothing that their metadata says."""

import pytest

from arco.core import Conflict, Invalid, Refused, new_ulid
from arco.domains.catalog import (
    AddColumn,
    AlterTable,
    ColumnShape,
    CreateTable,
    DescribeColumn,
    DropNamespace,
    DropTable,
    Ref,
    RenameTable,
    ReplaceSchema,
    SetContract,
    SetSla,
    UpdateTable,
)
from tests.domains.deciding import Catalog, at, simulate


async def _made(catalog: Catalog, text: str, format: str = "ICEBERG") -> str:
    table_id = new_ulid(catalog.runtime, catalog.runtime)
    await catalog.decide(CreateTable(tuple(text.split(".")), format=format, table_id=table_id))
    return table_id


@pytest.mark.parametrize("format", ["ICEBERG", "ICEBERG_VIEW"])
def test_it_has_the_id_of_its_pointers_and_shares_names_with_all_tables(format: str) -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        table_id = await _made(catalog, "a.t", format)
        row = await catalog.table("a.t")
        assert (row.table_id, row.format, row.location, row.column_count) == (table_id, format, None, 0)
        for other in ("ICEBERG", "ICEBERG_VIEW"):
            with pytest.raises(Conflict, match=r"^the table a\.t exists already"):
                await _made(catalog, "a.t", other)
        with pytest.raises(Conflict, match=r"^the table a\.t exists already"):
            await catalog.create_table("a.t")
        await catalog.decide(RenameTable(at("a.t"), ("a", "u")))
        assert (await catalog.table("a.u")).table_id == table_id

    simulate(test)


def test_an_id_is_used_once() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        table_id = await _made(catalog, "a.t")
        again = CreateTable(("a", "u"), format="ICEBERG", table_id=table_id)
        with pytest.raises(Conflict, match=f"^the id {table_id} is or was that of another table; use a new one$"):
            await catalog.decide(again)
        await catalog.decide(DropTable(at("a.t"), fence="p"))
        with pytest.raises(Conflict, match=f"^the id {table_id} is or was"):
            await catalog.decide(again)

    simulate(test)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            CreateTable(("a", "t"), format="ICEBERG"),
            "^a table of format ICEBERG is created where its metadata is written",
        ),
        (CreateTable(("a", "t"), format="ICEBERG_VIEW"), "^a table of format ICEBERG_VIEW is created where"),
        (CreateTable(("a", "t"), table_id="0" * 26), "^the id of a table of format PARQUET is not chosen"),
        (CreateTable(("a", "t"), format="ICEBERG", table_id="no"), "is not a ULID"),
        (
            CreateTable(("a", "t"), format="ICEBERG", table_id="0" * 26, columns=(AddColumn("x", "long"),)),
            "^columns and location of a table of format ICEBERG are in its metadata",
        ),
        (
            CreateTable(("a", "t"), format="ICEBERG", table_id="0" * 26, location="x"),
            "^columns and location of a table of format ICEBERG are in its metadata",
        ),
    ],
)
def test_it_is_created_with_an_id_and_nothing_else(command: CreateTable, message: str) -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        with pytest.raises(Invalid, match=message):
            await catalog.decide(command)

    simulate(test)


def test_what_its_metadata_says_is_not_changed_here() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await _made(catalog, "a.t")
        for command in (
            AlterTable(at("a.t"), (AddColumn("x", "long"),)),
            ReplaceSchema(at("a.t"), (ColumnShape("x", "long"),)),
            DescribeColumn(at("a.t"), "x", description="y"),
        ):
            with pytest.raises(
                Refused, match=r"^the columns of the Iceberg table a\.t are in its metadata; change them"
            ):
                await catalog.decide(command)
        for location in ("data/x", None):
            with pytest.raises(Refused, match=r"^the location of the Iceberg table a\.t is in its metadata; change it"):
                await catalog.decide(UpdateTable(at("a.t"), location=location))
        with pytest.raises(Refused, match=r"^a contract on the Iceberg table a\.t would not be kept"):
            await catalog.decide(SetContract(at("a.t")))
        await catalog.decide(SetSla(at("a.t"), freshness_seconds=60))
        await catalog.decide(UpdateTable(at("a.t"), description="Orders", owners=("ann",)))
        assert (await catalog.table("a.t")).description == "Orders"

    simulate(test)


def test_only_a_fence_drops_it_and_the_event_names_it() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.create_table("a.plain")
        table_id = await _made(catalog, "a.t")
        with pytest.raises(Refused, match=r"^the Iceberg table a\.t is dropped through its pointers"):
            await catalog.decide(DropTable(at("a.t")))
        with pytest.raises(Refused, match=r"^the namespace a cannot be dropped with all it holds: a\.t is an Iceberg"):
            await catalog.decide(DropNamespace(at("a"), cascade=True))
        with pytest.raises(Invalid, match=r"^the table a\.plain is no Iceberg table"):
            await catalog.decide(DropTable(at("a.plain"), fence="p"))
        (event,) = await catalog.decide(DropTable(Ref(id=table_id), fence="pointer"))
        assert (event.type, event.causation) == ("TableDropped", "pointer")
        await catalog.decide(DropNamespace(at("a"), cascade=True))
        assert await catalog.tables() == []

    simulate(test)
