"""Columns: stable ids through every change, one new schema for each alteration, and what contracts do not allow."""

from typing import Any

import pytest

from arco.core import Conflict, Invalid, NotFound, PreconditionFailed, Refused, TooLarge
from arco.domains.catalog import (
    NAMES,
    SCHEMA_VERSIONS,
    AddColumn,
    AlterColumn,
    AlterTable,
    DescribeColumn,
    DropColumn,
    FormerColumnName,
    SetContract,
    schema_hash,
)
from tests.domains.deciding import Catalog, at, simulate


async def with_table(catalog: Catalog, *columns: str) -> str:
    await catalog.create("a")
    return await catalog.create_table("a.t", *columns)


def test_an_alteration_is_one_event_and_one_new_schema() -> None:
    async def test(catalog: Catalog) -> None:
        key = await with_table(catalog, "id:int!", "x:int", "y:string", "z:date")
        before = {column.name: column for column in await catalog.columns("a.t")}
        (event,) = await catalog.alter(
            "a.t",
            AddColumn("new", "string", description="It is new"),
            AlterColumn("x", new_name="w", data_type="long"),
            AlterColumn("id", is_nullable=True),
            DropColumn("y"),
            AddColumn("last", "double", is_nullable=False),
        )
        assert (event.type, event.subject) == ("SchemaChanged", "a.t")
        assert await catalog.schema("a.t") == ["id:int", "w:long", "z:date", "new:string", "last:double!"]
        row = await catalog.table("a.t")
        assert (row.version, row.schema_version, row.column_count) == (2, 2, 5)
        w = await catalog.column("a.t", "w")
        assert w.column_id == before["x"].column_id
        assert w.former_names == (FormerColumnName("x", 2, False),)
        assert (w.added_in_version, w.ordinal_position) == (1, 2)
        assert (await catalog.column("a.t", "z")) == before["z"], "what did not change is not written"
        (y,) = [column for column in await catalog.columns("a.t", inactive=True) if column.name == "y"]
        assert (y.status, y.dropped_in_version, y.column_id) == ("inactive", 2, before["y"].column_id)
        new = await catalog.column("a.t", "new")
        assert (new.added_in_version, new.ordinal_position, new.ui_description) == (2, 5, "It is new")
        first, second = await catalog.replica.rows(SCHEMA_VERSIONS, key)
        assert [column.name for column in first.columns] == ["id", "x", "y", "z"]
        assert [column.name for column in second.columns] == ["id", "w", "z", "new", "last"]
        assert second.schema_hash == row.schema_hash == schema_hash(second.columns) != first.schema_hash
        name = await catalog.replica.get(NAMES, row.namespace_id, (row.namespace_id, "table", "t"))
        assert name.updated_at == row.updated_at

    simulate(test)


def test_changes_are_carried_out_in_order_and_only_their_result_counts() -> None:
    async def test(catalog: Catalog) -> None:
        await with_table(catalog, "a:int", "b:int")
        ids = {column.name: column.column_id for column in await catalog.columns("a.t")}
        swap = (AlterColumn("a", new_name="tmp"), AlterColumn("b", new_name="a"), AlterColumn("tmp", new_name="b"))
        await catalog.alter("a.t", *swap)
        assert {column.name: column.column_id for column in await catalog.columns("a.t")} == {
            "a": ids["b"],
            "b": ids["a"],
        }
        version = (await catalog.table("a.t")).schema_version
        for changes in (
            (),
            (AddColumn("c", "int"), DropColumn("c")),
            (AlterColumn("a", new_name="x"), AlterColumn("x", new_name="a")),
            (AlterColumn("a", new_name="a", data_type="INTEGER", is_nullable=True),),
            (DropColumn("nothing", if_exists=True),),
        ):
            assert await catalog.alter("a.t", *changes) == []
        assert (await catalog.table("a.t")).schema_version == version
        await catalog.alter("a.t", DropColumn("a"), AddColumn("a", "string"))
        again = await catalog.column("a.t", "a")
        assert again.column_id not in ids.values(), "a new column, whatever its name"
        assert await catalog.schema("a.t") == ["b:int", "a:string"]
        await catalog.alter("a.t", AddColumn("n", "int"), AlterColumn("n", new_name="m", data_type="long"))
        assert (await catalog.column("a.t", "m")).former_names == ()

    simulate(test)


def test_a_column_is_named_by_its_name_or_its_id() -> None:
    async def test(catalog: Catalog) -> None:
        await with_table(catalog, "a:int", "b:int")
        key = (await catalog.column("a.t", "a")).column_id
        await catalog.alter("a.t", AlterColumn(key, new_name="c"))
        await catalog.alter("a.t", DropColumn((await catalog.column("a.t", "b")).column_id))
        await catalog.decide(DescribeColumn(at("a.t"), key, description="d"))
        column = await catalog.column("a.t", "c")
        assert (column.column_id, column.description) == (key, "d")

    simulate(test)


def test_column_names_have_a_history() -> None:
    async def test(catalog: Catalog) -> None:
        await with_table(catalog, "a:int")
        await catalog.alter("a.t", AlterColumn("a", new_name="b"))
        await catalog.alter("a.t", AlterColumn("b", new_name="c", inferred=True))
        await catalog.alter("a.t", AlterColumn("c", new_name="a"))
        column = await catalog.column("a.t", "a")
        assert column.former_names == (
            FormerColumnName("a", 2, False),
            FormerColumnName("b", 3, True),
            FormerColumnName("c", 4, False),
        )
        for old in "bc":
            with pytest.raises(
                NotFound, match=rf"^the column '{old}' of a\.t is called a now; use that name$"
            ) as refusal:
                await catalog.alter("a.t", DropColumn(old))
            assert refusal.value.details == {"renamed_to": "a"}
        await catalog.alter("a.t", AlterColumn("a", new_name="A"))
        assert await catalog.schema("a.t") == ["A:int"], "another case is another name"

    simulate(test)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (AddColumn("id", "int"), Conflict, r"^the table a\.t has the column id already; choose another name$"),
        (AddColumn("ID", "int"), Conflict, r"^the table a\.t has the column ID under the name id, and engines"),
        (AddColumn("x", "nothing"), Invalid, "the type 'nothing' is not known"),
        (AddColumn("x\n", "int"), Invalid, "the column name 'x.n' has U"),
        (AddColumn("x", "int", description="d" * 10_001), TooLarge, "the description has 10001 characters"),
        (AlterColumn("amount", new_name="id"), Conflict, "has the column id already"),
        (AlterColumn("amount", new_name=""), Invalid, "the column name is empty"),
        (
            AlterColumn("amuont", new_name="x"),
            NotFound,
            r"a\.t has no column 'amuont'; did you mean amount\?$",
        ),
        (AlterColumn("AMOUNT", new_name="x"), NotFound, r"did you mean amount\?$"),
        (AlterColumn("zzz", new_name="x"), NotFound, r"^the table a\.t has no column 'zzz'; list its columns$"),
        (AlterColumn("amount"), Invalid, "nothing is said of the column 'amount'; give a new name, a type or nullable"),
        (AlterColumn("amount", is_nullable=True, inferred=True), Invalid, "only a rename is inferred; give the column"),
        (
            AlterColumn("amount", data_type="float"),
            Refused,
            "cannot change from double to float: a type may only",
        ),
        (AlterColumn("amount", data_type="string"), Refused, r"the column amount of a\.t cannot change from double to"),
        (AlterColumn("day", data_type="timestamp"), Refused, "cannot change from date to timestamp"),
        (AlterColumn("amount", is_nullable=False), Refused, r"the column amount of a\.t cannot become required: data"),
        (DropColumn("gone"), NotFound, r"^the table a\.t has no column 'gone': it was dropped in schema version 2$"),
        (DropColumn("nothing"), NotFound, "has no column 'nothing'"),
    ],
)
def test_changes_that_cannot_be_are_refused(change: Any, kind: type[Exception], message: str) -> None:
    async def test(catalog: Catalog) -> None:
        await with_table(catalog, "id:int!", "amount:double", "day:date", "gone:int")
        await catalog.alter("a.t", DropColumn("gone"))
        with pytest.raises(kind, match=message):
            await catalog.alter("a.t", AddColumn("fine", "int"), change)
        assert await catalog.schema("a.t") == ["id:int!", "amount:double", "day:date"]

    simulate(test)


def test_a_name_changed_in_the_same_alteration_is_the_new_one() -> None:
    async def test(catalog: Catalog) -> None:
        await with_table(catalog, "amount:int")
        with pytest.raises(NotFound, match=r"^the table a\.t has no column 'amount'; did you mean amounts\?$"):
            await catalog.alter("a.t", AlterColumn("amount", new_name="amounts"), DropColumn("amount"))

    simulate(test)


def test_a_dropped_column_s_name_is_free_and_the_old_row_stays() -> None:
    async def test(catalog: Catalog) -> None:
        await with_table(catalog, "a:int", "b:int")
        old = (await catalog.column("a.t", "a")).column_id
        await catalog.alter("a.t", DropColumn("a"))
        await catalog.alter("a.t", AddColumn("a", "string"))
        both = [column for column in await catalog.columns("a.t", inactive=True) if column.name == "a"]
        assert [(column.status, column.ordinal_position) for column in both] == [("inactive", 1), ("active", 3)]
        assert both[0].column_id == old
        with pytest.raises(NotFound, match="it was dropped in schema version 2"):
            await catalog.alter("a.t", DropColumn(old))

    simulate(test)


def test_what_is_seen_must_be_what_is_changed() -> None:
    async def test(catalog: Catalog) -> None:
        await with_table(catalog, "a:int")
        await catalog.alter("a.t", AddColumn("b", "int"), expected_version=1)
        for command in (
            AlterTable(at("a.t"), (AddColumn("c", "int"),), expected_version=1),
            DescribeColumn(at("a.t"), "a", description="d", expected_version=1),
        ):
            with pytest.raises(PreconditionFailed, match=r"the table a\.t has version 2, not 1"):
                await catalog.decide(command)

    simulate(test)


# Descriptions


def test_a_column_is_described_by_code_and_by_people() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.create_table("a.t", side="code")
        await catalog.alter("a.t", AddColumn("c", "int", description="by code"), side="code")
        column = await catalog.column("a.t", "c")
        assert (column.description, column.code_description, column.ui_description) == ("by code", "by code", None)
        (event,) = await catalog.decide(
            DescribeColumn(at("a.t"), "c", description="by people", pii_type="ssn", sensitivity="internal")
        )
        assert (event.type, event.subject) == ("ColumnDescribed", "a.t.c")
        column = await catalog.column("a.t", "c")
        assert (column.description, column.code_description) == ("by people", "by code")
        assert (column.pii_type, column.sensitivity) == ("SSN", "INTERNAL")
        assert (await catalog.table("a.t")).version == 3
        assert (await catalog.table("a.t")).schema_version == 2
        await catalog.decide(DescribeColumn(at("a.t"), "c", description=None, pii_type=None))
        column = await catalog.column("a.t", "c")
        assert (column.description, column.pii_type, column.sensitivity) == ("by code", None, "INTERNAL")
        for command in (
            DescribeColumn(at("a.t"), "c"),
            DescribeColumn(at("a.t"), "c", description=None, sensitivity="INTERNAL"),
            DescribeColumn(at("a.t"), "c", description="by code", side="code"),
        ):
            assert await catalog.decide(command) == []

    simulate(test)


def test_descriptions_that_cannot_be_are_refused() -> None:
    async def test(catalog: Catalog) -> None:
        await with_table(catalog, "c:int", "d:int")
        await catalog.alter("a.t", AlterColumn("c", new_name="e"), DropColumn("d"))
        refusals: list[tuple[DescribeColumn, type[Exception], str]] = [
            (DescribeColumn(at("a.x"), "c"), NotFound, r"the table a\.x does not exist"),
            (DescribeColumn(at("a.t"), "c"), NotFound, "is called e now"),
            (DescribeColumn(at("a.t"), "d"), NotFound, "it was dropped in schema version 2"),
            (DescribeColumn(at("a.t"), "e", pii_type="X"), Invalid, "the PII type 'X' is not known"),
            (DescribeColumn(at("a.t"), "e", sensitivity="X"), Invalid, "the sensitivity 'X' is not known"),
            (DescribeColumn(at("a.t"), "e", description="\x00"), Invalid, "the description has the character"),
            (DescribeColumn(at("a.t"), "e", side="both"), Invalid, "the side 'both' is not known"),
        ]
        for command, kind, message in refusals:
            with pytest.raises(kind, match=message):
                await catalog.decide(command)

    simulate(test)


# Contracts

ADD = AddColumn("n", "int")
REQUIRED = AddColumn("n", "int", is_nullable=False)
RENAME = AlterColumn("a", new_name="z")
WIDEN = AlterColumn("a", data_type="long")
LOOSEN = AlterColumn("a", is_nullable=True)
DROP = DropColumn("a")

BACKWARD = "so the column n cannot be added as required: whoever reads by the new schema must be able to read old data"
FORWARD = ": whoever reads by the old schema must be able to read new data; change the contract first, or make another"
FORBIDDEN = {
    ("backward", REQUIRED): BACKWARD,
    ("full", REQUIRED): BACKWARD,
    ("forward", WIDEN): f"so the type of a cannot widen from int to long{FORWARD}",
    ("full", WIDEN): f"so the type of a cannot widen from int to long{FORWARD}",
    ("forward", LOOSEN): f"so the column a cannot become nullable{FORWARD}",
    ("full", LOOSEN): f"so the column a cannot become nullable{FORWARD}",
    ("forward", DROP): f"so the column a cannot be dropped{FORWARD}",
    ("full", DROP): f"so the column a cannot be dropped{FORWARD}",
}


@pytest.mark.parametrize("mode", ["none", "backward", "forward", "full"])
@pytest.mark.parametrize("change", [ADD, REQUIRED, RENAME, WIDEN, LOOSEN, DROP])
def test_an_active_contract_is_enforced(mode: str, change: Any) -> None:
    async def test(catalog: Catalog) -> None:
        await with_table(catalog, "a:int!", "b:int")
        await catalog.decide(SetContract(at("a.t"), mode))
        if (mode, change) not in FORBIDDEN:
            await catalog.alter("a.t", change)
            return
        message = f"^the contract of a.t is {mode}, {FORBIDDEN[mode, change]}"
        with pytest.raises(Refused, match=message) as refusal:
            await catalog.alter("a.t", change)
        rule = "backward" if change is REQUIRED else "forward"
        assert refusal.value.details == {"compatibility": mode, "rule": rule}
        for status in ("draft", "deprecated"):
            await catalog.decide(SetContract(at("a.t"), mode, status))
        await catalog.alter("a.t", change)

    simulate(test)


def test_a_contract_looks_at_what_an_alteration_comes_to() -> None:
    async def test(catalog: Catalog) -> None:
        await with_table(catalog, "a:int!", "b:int")
        await catalog.decide(SetContract(at("a.t"), "full"))
        await catalog.alter("a.t", REQUIRED, AlterColumn("n", is_nullable=True, data_type="long"), RENAME)
        assert await catalog.schema("a.t") == ["z:int!", "b:int", "n:long"]
        await catalog.alter("a.t", AddColumn("t", "int", is_nullable=False), DropColumn("t"), AddColumn("m", "int"))
        assert await catalog.schema("a.t") == ["z:int!", "b:int", "n:long", "m:int"]

    simulate(test)
