"""A whole schema as it was found elsewhere: columns are matched by name, renames that nobody declared are marked."""

import pytest

from arco.core import Invalid, Refused
from arco.domains.catalog import ColumnShape, ReplaceSchema, SetContract
from tests.domains.deciding import Catalog, at, simulate


def _specs(*texts: str) -> tuple[ColumnShape, ...]:
    """`name:type`, with `!` behind it for a required one."""
    return tuple(ColumnShape(t.split(":")[0], t.split(":")[1].rstrip("!"), not t.endswith("!")) for t in texts)


async def _made(catalog: Catalog, *columns: str) -> None:
    await catalog.create("s")
    await catalog.create_table("s.t", *columns)


def test_a_column_that_went_and_one_that_came_in_its_place_are_a_rename_that_is_marked() -> None:
    async def work(catalog: Catalog) -> None:
        await _made(catalog, "id:long", "amt:decimal(10,2)", "day:date")
        before = {column.name: column.column_id for column in await catalog.columns("s.t")}
        events = await catalog.decide(
            ReplaceSchema(at("s.t"), _specs("id:long", "amount:decimal(10,2)", "day:date", "note:string"))
        )
        assert [event.type for event in events] == ["SchemaChanged"]
        after = {column.name: column for column in await catalog.columns("s.t")}
        assert after["amount"].column_id == before["amt"]
        assert [(former.name, former.inferred) for former in after["amount"].former_names] == [("amt", True)]
        assert set(after) == {"id", "amount", "day", "note"}

    simulate(work)


def test_without_inference_or_of_another_type_it_is_a_drop_and_an_add() -> None:
    async def work(catalog: Catalog) -> None:
        await _made(catalog, "id:long", "amt:double")
        first = {column.name: column.column_id for column in await catalog.columns("s.t")}
        await catalog.decide(ReplaceSchema(at("s.t"), _specs("id:long", "amount:double"), infer_renames=False))
        second = {column.name: column.column_id for column in await catalog.columns("s.t")}
        assert second["amount"] != first["amt"]
        await catalog.decide(ReplaceSchema(at("s.t"), _specs("id:long", "price:string")))
        third = {column.name: column for column in await catalog.columns("s.t")}
        assert third["price"].column_id != second["amount"]
        assert third["price"].former_names == ()
        assert third["id"].column_id == first["id"]

    simulate(work)


def test_the_same_schema_changes_nothing_and_what_cannot_be_is_refused() -> None:
    async def work(catalog: Catalog) -> None:
        await _made(catalog, "id:int", "name:string")
        assert await catalog.decide(ReplaceSchema(at("s.t"), _specs("id:integer", "name:varchar"))) == []
        with pytest.raises(Invalid, match="names a column twice"):
            await catalog.decide(ReplaceSchema(at("s.t"), _specs("id:int", "id:int")))
        with pytest.raises(Refused, match="cannot change from string to int"):
            await catalog.decide(ReplaceSchema(at("s.t"), _specs("id:int", "name:int")))
        await catalog.decide(SetContract(at("s.t"), compatibility="forward"))
        with pytest.raises(Refused, match="the column name cannot be dropped"):
            await catalog.decide(ReplaceSchema(at("s.t"), _specs("id:int")))

    simulate(work)
