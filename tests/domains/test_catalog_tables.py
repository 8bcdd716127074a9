"""Tables: created, updated by code and by people, renamed and moved, dropped; and why some are not."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import Conflict, Invalid, NotFound, PreconditionFailed, Refused, TooLarge, fingerprint
from arco.domains.catalog import (
    COLUMNS,
    CONTRACTS,
    FORMER_NAMES,
    NAME_CHANGES,
    NAMES,
    SCHEMA_VERSIONS,
    SLAS,
    TABLES,
    AddColumn,
    CreateTable,
    Declared,
    DropContract,
    DropNamespace,
    DropSla,
    DropTable,
    Ref,
    RenameNamespace,
    RenameTable,
    SchemaColumn,
    SetContract,
    SetSla,
    UpdateTable,
    schema_hash,
)
from arco.domains.catalog.checks import check_location
from tests.domains.deciding import Catalog, at, simulate
from tests.state.doubles import rows_of


def test_a_table_is_created_with_its_columns_its_first_schema_and_its_name() -> None:
    async def test(catalog: Catalog) -> None:
        namespace = await catalog.create("sales")
        columns = (
            AddColumn("id", "BIGINT", is_nullable=False),
            AddColumn("mail", "varchar", description="Where to", pii_type="email", sensitivity="restricted"),
        )
        command = CreateTable(
            ("sales", "orders"),
            format="delta",
            location="sales/orders/",
            columns=columns,
            description="Orders",
            owners=("ann", "bob", "ann"),
            tags={"tier": "gold"},
            properties={"p": "1"},
        )
        (event,) = await catalog.decide(command, actor="ann")
        assert (event.type, event.subject) == ("TableCreated", "sales.orders")
        row = await catalog.table("sales.orders")
        assert (row.namespace_id, row.name, row.format) == (namespace, "orders", "DELTA")
        assert row.location == "data/sales/orders"
        assert (row.description, row.owners, row.tags) == ("Orders", ("ann", "bob"), {"tier": "gold"})
        assert (row.ui, row.code) == (Declared("Orders", ("ann", "bob"), {"tier": "gold"}), Declared())
        assert (row.version, row.schema_version, row.column_count) == (1, 1, 2)
        assert row.created_by == row.updated_by == "ann"
        assert await catalog.schema("sales.orders") == ["id:long!", "mail:string"]
        mail = await catalog.column("sales.orders", "mail")
        assert (mail.ordinal_position, mail.status, mail.added_in_version) == (2, "active", 1)
        assert (mail.description, mail.ui_description, mail.code_description) == ("Where to", "Where to", None)
        assert (mail.pii_type, mail.sensitivity) == ("EMAIL", "RESTRICTED")
        (schema,) = await catalog.replica.rows(SCHEMA_VERSIONS, row.table_id)
        assert (schema.version, schema.schema_hash, schema.registered_by) == (1, row.schema_hash, "ann")
        assert [column.name for column in schema.columns] == ["id", "mail"]
        name = await catalog.replica.get(NAMES, namespace, (namespace, "table", "orders"))
        assert (name.object_id, name.format, name.description) == (row.table_id, "DELTA", "Orders")
        (change,) = await catalog.replica.rows(NAME_CHANGES, row.table_id)
        assert (change.name, change.kind, change.parent_id, change.change, change.changed_by) == (
            "orders",
            "table",
            namespace,
            "created",
            "ann",
        )

    simulate(test)


def test_a_table_may_have_no_column_and_the_name_of_a_namespace() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.create("a.x")
        await catalog.create_table("a.x")
        assert await catalog.schema("a.x") == []
        assert (await catalog.names(), await catalog.tables()) == (["a", "a.x"], ["a.x"])

    simulate(test)


def test_a_table_needs_a_free_name_in_a_namespace_that_exists() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.create_table("a.t")
        with pytest.raises(Conflict, match=r"^the table a\.t exists already; choose another name, or use if_not_"):
            await catalog.decide(CreateTable(("a", "t")))
        assert await catalog.decide(CreateTable(("a", "t"), if_not_exists=True)) == []
        with pytest.raises(NotFound, match=r"^the namespace b does not exist; check its name, or create it first$"):
            await catalog.decide(CreateTable(("b", "t"), if_not_exists=True))
        await catalog.decide(RenameNamespace(at("a"), ("z",)))
        with pytest.raises(NotFound, match=r"^the namespace a is called z now; use that name$"):
            await catalog.decide(CreateTable(("a", "u")))

    simulate(test)


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"path": ("t",)}, Invalid, r"a table is named with its namespace; write it as namespace\.table"),
        ({"path": ("a", "x/y")}, Invalid, "the table name 'x/y' has U"),
        ({"path": ("a",) * 18}, Invalid, "a namespace has 1 to 16 levels, this one has 17"),
        ({"format": "AVRO"}, Invalid, "the format 'AVRO' is not known; use DELTA, ICEBERG, PARQUET, CSV or JSON"),
        ({"side": "me"}, Invalid, "the side 'me' is not known; use code or ui"),
        ({"owners": ("",)}, Invalid, "an owner is empty"),
        ({"owners": ("a\nb",)}, Invalid, r"the owner has the character '\\n' at position 1; remove it"),
        ({"owners": ("o" * 256,)}, TooLarge, "the owner has 256 characters, the limit is 255"),
        ({"owners": tuple(map(str, range(101)))}, TooLarge, "101 owners are too many, the limit is 100; name a group"),
        ({"tags": {"": "x"}}, Invalid, "the tag '' has no name"),
        ({"tags": {str(i): "" for i in range(501)}}, TooLarge, "501 tags are too many"),
        ({"properties": {"k": "v" * 5_000}}, TooLarge, "value of the property 'k' has 5000 characters"),
        ({"description": "d" * 10_001}, TooLarge, "the description has 10001 characters, the limit is 10000"),
        ({"location": "s3://bucket/x"}, Invalid, "is absolute; tables are kept below the workspace's data/ folder"),
        ({"columns": (AddColumn("a b\t", "int"),)}, Invalid, "the column name 'a b.t' has U"),
        ({"columns": (AddColumn("a", "strng"),)}, Invalid, "the type 'strng' is not known; did you mean string?"),
        (
            {"columns": (AddColumn("a", "int"),) * 2},
            Conflict,
            r"the table a\.t has the column a already; choose ",
        ),
        (
            {"columns": (AddColumn("Id", "int"), AddColumn("iD", "int"))},
            Conflict,
            r"^the table a\.t has the column iD under the name Id, and engines do not tell case apart; choose another",
        ),
        (
            {"columns": (AddColumn("a", "int", sensitivity="SECRET"),)},
            Invalid,
            "the sensitivity 'SECRET' is not known; use PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED",
        ),
        (
            {"columns": (AddColumn("a", "int", pii_type="EMIAL"),)},
            Invalid,
            "the PII type 'EMIAL' is not known; use SSN, EMAIL, .* IP_ADDRESS or CUSTOM:<text>",
        ),
        ({"columns": (AddColumn("a", "int", pii_type="CUSTOM: "),)}, Invalid, "CUSTOM: names nothing"),
        ({"columns": (AddColumn("a", "int", pii_type="custom:" + "x" * 65),)}, TooLarge, "65 characters"),
    ],
)
def test_tables_that_cannot_be_are_refused(fields: dict[str, Any], kind: type[Exception], message: str) -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        with pytest.raises(kind, match=message):
            await catalog.decide(CreateTable(**{"path": ("a", "t"), **fields}))
        assert await catalog.tables() == []

    simulate(test)


def test_a_table_has_at_most_ten_thousand_columns() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        most = tuple(AddColumn(f"c{i}", "int") for i in range(10_000))
        with pytest.raises(TooLarge, match=r"the table a\.t has 10000 columns, the most there can be; drop some"):
            await catalog.decide(CreateTable(("a", "t"), columns=(*most, AddColumn("more", "int"))))
        (event,) = await catalog.decide(CreateTable(("a", "t"), columns=most))
        assert len(msgspec.json.encode(CreateTable(("a", "t"), columns=most))) < 1 << 20
        assert len(event.data) < 1 << 20, "it fits into an event"
        assert (await catalog.table("a.t")).column_count == 10_000

    simulate(test)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (None, None),
        ("data/x", "data/x"),
        ("x", "data/x"),
        ("x/y/", "data/x/y"),
        ("data/data/x", "data/data/x"),
        ("x/dt=2026-01-01/a b.csv", "data/x/dt=2026-01-01/a b.csv"),
        ("x/.hidden", "data/x/.hidden"),
    ],
)
def test_a_location_is_a_path_below_data(text: str | None, stored: str | None) -> None:
    assert check_location(text) == stored


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has a part that is empty or only dots"),
        ("data/", "has a part that is empty or only dots"),
        ("..", "has a part that is empty or only dots"),
        ("data/../ledger", "has a part that is empty or only dots"),
        ("a//b", "has a part that is empty or only dots"),
        ("a/./b", "has a part that is empty or only dots"),
        ("a/ .. /b", "has a part that is empty or only dots"),
        ("/etc/passwd", "is absolute"),
        ("~/x", "is absolute"),
        ("file:///etc", "is absolute"),
        ("gs://bucket/x", "so write it as data/sales/orders"),
        ("a\\b", "remove it"),
        ("a/*.parquet", r"has '\*' at position 2; remove it"),
        ("a/[b]", "remove it"),
        ("a/{b,c}", "remove it"),
        ("a/b?c", "remove it"),
        ("a\nb", "remove it"),
        ("a\x00b", "remove it"),
        ("a'b", "remove it"),
        ("x" * 1_025, "is longer than 1024 characters; shorten it"),
    ],
)
def test_locations_that_could_be_elsewhere_are_refused(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        check_location(text)


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_an_accepted_location_stays_below_data_and_is_stored_in_one_form(text: str) -> None:
    try:
        stored = check_location(text)
    except Invalid:
        return
    assert stored is not None
    head, *parts = stored.split("/")
    assert head == "data"
    assert parts
    assert not {"", ".", ".."} & set(parts)
    assert check_location(stored) == stored


# Code and people


def test_what_code_and_people_say_is_kept_apart_and_merged() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        code = {"description": "by code", "owners": ("ann", "bob"), "tags": {"tier": "gold", "team": "x"}}
        await catalog.create_table("a.t", "id:int", side="code", **code)
        row = await catalog.table("a.t")
        assert (row.code, row.ui) == (Declared("by code", ("ann", "bob"), {"tier": "gold", "team": "x"}), Declared())
        update = UpdateTable(at("a.t"), description="by people", owners=("eve", "ann"), tags={"tier": "silver"})
        await catalog.decide(update, actor="eve")
        row = await catalog.table("a.t")
        assert row.description == "by people", "people win"
        assert row.owners == ("ann", "bob", "eve"), "united, code first"
        assert row.tags == {"tier": "silver", "team": "x"}, "united, of two values the people's"
        assert (row.version, row.updated_by, row.created_by) == (2, "eve", "me")
        name = await catalog.replica.get(NAMES, row.namespace_id, (row.namespace_id, "table", "t"))
        assert name.description == "by people"
        await catalog.decide(UpdateTable(at("a.t"), description="new code", tags={}, side="code"))
        row = await catalog.table("a.t")
        assert (row.description, row.tags) == ("by people", {"tier": "silver"})
        await catalog.decide(UpdateTable(at("a.t"), description=None, owners=(), tags={}))
        row = await catalog.table("a.t")
        assert (row.description, row.owners, row.tags) == ("new code", ("ann", "bob"), {})

    simulate(test)


def test_an_empty_description_of_people_hides_that_of_code() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.create_table("a.t", side="code", description="by code")
        await catalog.decide(UpdateTable(at("a.t"), description=""))
        assert (await catalog.table("a.t")).description == ""

    simulate(test)


def test_an_update_changes_what_it_names_and_nothing_else() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.create_table(
            "a.t", description="d", owners=("o",), tags={"t": "1"}, properties={"k": "v"}, location="x"
        )
        before = await catalog.table("a.t")
        (event,) = await catalog.decide(
            UpdateTable(at("a.t"), set_properties={"l": "w"}, remove_properties=("k", "none"))
        )
        assert (event.type, event.subject) == ("TableUpdated", "a.t")
        row = await catalog.table("a.t")
        changes = {"properties": {"l": "w"}, "version": 2, "updated_at": row.updated_at}
        assert row == msgspec.structs.replace(before, **changes)
        await catalog.decide(UpdateTable(at("a.t"), location=None))
        assert (await catalog.table("a.t")).location is None
        unchanged = (
            UpdateTable(at("a.t")),
            UpdateTable(at("a.t"), description="d", owners=("o", "o"), tags={"t": "1"}, location=None),
            UpdateTable(at("a.t"), set_properties={"l": "w"}, remove_properties=("k",)),
            UpdateTable(at("a.t"), description=None, side="code"),
        )
        for command in unchanged:
            assert await catalog.decide(command) == []
        with pytest.raises(Invalid, match="is to be set and removed at once"):
            await catalog.decide(UpdateTable(at("a.t"), set_properties={"k": "v"}, remove_properties=("k",)))
        with pytest.raises(Invalid, match="is absolute"):
            await catalog.decide(UpdateTable(at("a.t"), location="/x"))

    simulate(test)


def test_a_change_of_what_has_changed_meanwhile_is_refused() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.create_table("a.t", "id:int")
        await catalog.decide(UpdateTable(at("a.t"), description="d", expected_version=1))
        for command in (
            UpdateTable(at("a.t"), expected_version=1),
            RenameTable(at("a.t"), ("a", "u"), expected_version=3),
            DropTable(at("a.t"), expected_version=1),
            DropTable(at("a.t"), if_exists=True, expected_version=1),
        ):
            with pytest.raises(PreconditionFailed, match=r"^the table a\.t has version 2, not [13]: it changed since"):
                await catalog.decide(command)
        await catalog.decide(RenameTable(at("a.t"), ("a", "u"), expected_version=2))
        await catalog.decide(DropTable(at("a.u"), expected_version=3))

    simulate(test)


# Names


def test_a_table_is_renamed_and_moved_and_keeps_its_id() -> None:
    async def test(catalog: Catalog) -> None:
        for text in ("a", "b"):
            await catalog.create(text)
        key = await catalog.create_table("a.t", "id:int")
        await catalog.decide(RenameTable(at("a.t"), ("a", "u")))
        (event,) = await catalog.decide(RenameTable(Ref(id=key), ("b", "v")), actor="bob")
        assert (event.type, event.subject) == ("TableRenamed", "b.v")
        row = await catalog.table("b.v")
        assert (row.table_id, row.version, row.updated_by) == (key, 3, "bob")
        assert await catalog.tables() == ["b.v"]
        assert await catalog.schema("b.v") == ["id:int"]
        for old in ("a.t", "a.u"):
            with pytest.raises(NotFound, match=rf"^the table {old} is called b\.v now; use that name$") as refusal:
                await catalog.decide(UpdateTable(at(old)))
            assert refusal.value.details == {"renamed_to": "b.v"}
        changes = await catalog.replica.rows(NAME_CHANGES, key)
        assert [(change.name, change.change) for change in changes] == [
            ("t", "created"),
            ("u", "renamed"),
            ("v", "renamed"),
        ]
        assert await catalog.decide(RenameTable(at("b.v"), ("b", "v"))) == []
        await catalog.decide(RenameNamespace(at("b"), ("c",)))
        with pytest.raises(NotFound, match=r"^the table a\.t is called c\.v now"):
            await catalog.decide(DropTable(at("a.t")))
        with pytest.raises(NotFound, match=r"^the table b\.v is called c\.v now"):
            await catalog.decide(DropTable(at("b.v")))

    simulate(test)


def test_renames_that_cannot_be_are_refused() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.create_table("a.t")
        await catalog.create_table("a.u")
        refusals: list[tuple[RenameTable, type[Exception], str]] = [
            (RenameTable(at("a.t"), ("a", "u")), Conflict, r"the table a\.u exists already; choose another name"),
            (RenameTable(at("a.t"), ("b", "t")), NotFound, "the namespace b does not exist"),
            (RenameTable(at("a.t"), ("t",)), Invalid, "named with its namespace"),
            (RenameTable(at("a.t"), ("a", "*")), Invalid, "the table name"),
            (RenameTable(at("a.x"), ("a", "y")), NotFound, r"^the table a\.x does not exist; check its name, or cre"),
            (RenameTable(at("b.x"), ("a", "y")), NotFound, r"^the table b\.x does not exist: there is no namespace b;"),
            (RenameTable(Ref(), ("a", "y")), Invalid, "by exactly one of them"),
            (RenameTable(Ref(id=catalog.id()), ("a", "y")), NotFound, "^there is no table with the id 0"),
        ]
        for command, kind, message in refusals:
            with pytest.raises(kind, match=message):
                await catalog.decide(command)

    simulate(test)


def test_an_old_name_that_is_taken_again_is_the_new_table_s() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.create_table("a.t")
        await catalog.decide(RenameTable(at("a.t"), ("a", "u")))
        new = await catalog.create_table("a.t")
        assert await rows_of(catalog.replica, FORMER_NAMES) == []
        await catalog.decide(UpdateTable(at("a.t"), description="the new one"))
        assert (await catalog.table("a.t")).table_id == new
        await catalog.decide(DropTable(at("a.t")))
        with pytest.raises(NotFound, match=r"^the table a\.t does not exist: it was dropped at 2026-01-01T"):
            await catalog.decide(UpdateTable(at("a.t")))
        await catalog.decide(RenameTable(at("a.u"), ("a", "t")))
        assert [row["name"] for row in await rows_of(catalog.replica, FORMER_NAMES)] == ["u"]

    simulate(test)


# Drops


def test_a_drop_takes_everything_of_the_table_but_its_history() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        key = await catalog.create_table("a.t", "id:int", "b:string")
        kept = await catalog.create_table("a.u", "id:int")
        for text in ("a.t", "a.u"):
            await catalog.decide(SetContract(at(text)))
            await catalog.decide(SetSla(at(text), freshness_seconds=1))
        (event,) = await catalog.decide(DropTable(at("a.t")))
        assert (event.type, event.subject) == ("TableDropped", "a.t")
        for table in (TABLES, COLUMNS, CONTRACTS, SLAS):
            assert {row["table_id"] for row in await rows_of(catalog.replica, table)} == {kept}
        assert len(await catalog.replica.rows(SCHEMA_VERSIONS, key)) == 1
        assert [c.change for c in await catalog.replica.rows(NAME_CHANGES, key)] == ["created", "dropped"]
        with pytest.raises(NotFound, match="it was dropped at"):
            await catalog.decide(DropTable(at("a.t")))
        with pytest.raises(NotFound, match="it was dropped, or never was"):
            await catalog.decide(DropTable(Ref(id=key)))
        for ref in (at("a.t"), at("nowhere.t"), Ref(id=key)):
            assert await catalog.decide(DropTable(ref, if_exists=True)) == []
        assert await catalog.create_table("a.t") != key
        with pytest.raises(Refused, match="holds 2 tables"):
            await catalog.decide(DropNamespace(at("a")))

    simulate(test)


# Contracts and SLAs


def test_a_contract_is_set_replaced_and_dropped() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        key = await catalog.create_table("a.t")
        (event,) = await catalog.decide(SetContract(at("a.t"), terms={"delay": "1h"}), actor="ann")
        assert (event.type, event.subject) == ("ContractSet", "a.t")
        contract = await catalog.replica.get(CONTRACTS, key, key)
        assert (contract.compatibility, contract.status, contract.version) == ("backward", "active", 1)
        assert (contract.terms, contract.updated_by) == ({"delay": "1h"}, "ann")
        assert await catalog.decide(SetContract(at("a.t"), "BACKWARD", "Active", terms={"delay": "1h"})) == []
        await catalog.decide(SetContract(Ref(id=key), "full", "draft", "for reports"))
        contract = await catalog.replica.get(CONTRACTS, key, key)
        assert (contract.compatibility, contract.status, contract.version, contract.terms) == ("full", "draft", 2, {})
        assert (await catalog.table("a.t")).version == 1, "a contract has a version of its own"
        await catalog.decide(DropContract(at("a.t")))
        assert await catalog.replica.get(CONTRACTS, key, key) is None
        with pytest.raises(NotFound, match=r"^the table a\.t has no contract; there is nothing to drop$"):
            await catalog.decide(DropContract(at("a.t")))
        for command, message in (
            (SetContract(at("a.t"), "sideways"), "use none, backward, forward or full"),
            (SetContract(at("a.t"), status="on"), "use draft, active or deprecated"),
            (SetContract(at("a.t"), terms={"": ""}), "the term '' has no name"),
        ):
            with pytest.raises(Invalid, match=message):
                await catalog.decide(command)
        with pytest.raises(NotFound, match=r"the table a\.x does not exist"):
            await catalog.decide(SetContract(at("a.x")))

    simulate(test)


def test_an_sla_is_set_replaced_and_dropped() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        key = await catalog.create_table("a.t")
        (event,) = await catalog.decide(SetSla(at("a.t"), freshness_seconds=60, availability_percent=99.9))
        assert (event.type, event.subject) == ("SlaSet", "a.t")
        sla = await catalog.replica.get(SLAS, key, key)
        assert (sla.freshness_seconds, sla.availability_percent, sla.version) == (60, 99.9, 1)
        assert await catalog.decide(SetSla(at("a.t"), freshness_seconds=60, availability_percent=99.9)) == []
        await catalog.decide(SetSla(at("a.t"), availability_percent=100.0))
        sla = await catalog.replica.get(SLAS, key, key)
        assert (sla.freshness_seconds, sla.availability_percent, sla.version) == (None, 100.0, 2)
        await catalog.decide(DropSla(at("a.t")))
        with pytest.raises(NotFound, match=r"^the table a\.t has no SLA; there is nothing to drop$"):
            await catalog.decide(DropSla(at("a.t")))
        for options, message in (
            ({}, "an SLA promises something; give freshness_seconds"),
            ({"freshness_seconds": 0}, "freshness_seconds is 0; give 1 to"),
            ({"freshness_seconds": 10**12}, "freshness_seconds is 1000000000000"),
            ({"availability_percent": 0.0}, r"availability_percent is 0\.0; give a number above 0"),
            ({"availability_percent": 100.1}, r"availability_percent is 100\.1"),
        ):
            with pytest.raises(Invalid, match=message):
                await catalog.decide(SetSla(at("a.t"), **options))

    simulate(test)


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=5)


@given(st.lists(st.builds(SchemaColumn, st.just("id"), names, names, st.booleans()), max_size=4))
def test_the_hash_of_a_schema_is_the_fingerprint_of_its_columns(columns: list[SchemaColumn]) -> None:
    assert schema_hash(columns) == fingerprint([[c.name, c.data_type, c.is_nullable] for c in columns])
