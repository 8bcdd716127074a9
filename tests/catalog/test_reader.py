"""Reading the catalog: what an answer holds, and that pages visit everything once while others write."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.catalog._cursors import decode_cursor, encode_cursor
from arco.catalog._names import resolve_namespace, resolve_table
from arco.catalog._reader import (
    list_columns,
    list_namespaces,
    list_tables,
    namespace_history,
    namespace_info,
    schema_diff,
    schema_versions,
    table_history,
    table_info,
)
from arco.core import Invalid, NotFound
from arco.domains.catalog import (
    AddColumn,
    AlterColumn,
    AlterTable,
    DropColumn,
    Ref,
    SetContract,
    SetSla,
    UpdateNamespace,
    UpdateTable,
)
from arco.state import snapshot_at_revision
from arco.storage import MemoryStore, Operation, Role
from arco.wire import Page
from tests.catalog.world import World, in_world
from tests.doubles import FakeRuntime, FaultyStore

ORDERS = Ref(path=("sales", "orders"))


async def orders(world: World) -> None:
    await world.namespace("sales")
    await world.table(
        "sales.orders",
        AddColumn("id", "long", is_nullable=False),
        AddColumn("email", "string", pii_type="EMAIL", sensitivity="CONFIDENTIAL", description="who"),
        description="all of them",
        owners=("ann@acme.com",),
        tags={"tier": "gold"},
    )


def test_a_table_is_shown_with_everything_that_belongs_to_it() -> None:
    async def test(world: World) -> None:
        await orders(world)
        await world.decide(UpdateTable(ORDERS, tags={"tier": "silver"}, set_properties={"k": "v"}, side="code"))
        await world.decide(SetContract(ORDERS, compatibility="backward", terms={"a": "b"}))
        await world.decide(SetSla(ORDERS, freshness_seconds=60))
        found = await world.read(lambda view: table_info(view, "sales.orders"))
        assert (found.name, found.namespace, found.format) == ("sales.orders", "sales", "PARQUET")
        assert [(column.name, column.type, column.position) for column in found.columns] == [
            ("id", "long", 1),
            ("email", "string", 2),
        ]
        assert found.pii_columns == ["email"]
        assert (found.tags, found.code.tags, found.ui.tags) == ({"tier": "gold"}, {"tier": "silver"}, {"tier": "gold"})
        assert found.properties == {"k": "v"}
        assert found.contract is not None
        assert (found.contract.compatibility, found.contract.terms) == ("backward", {"a": "b"})
        assert found.sla is not None
        assert found.sla.freshness_seconds == 60
        assert found.version > 1
        assert found.created_by == "ann"
        assert found.renamed_from is None
        await world.rename_table("sales.orders", "sales.purchases")
        again = await world.read(lambda view: table_info(view, "sales.orders"))
        assert (again.name, again.renamed_from, again.id) == ("sales.purchases", "sales.orders", found.id)

    in_world(test)


def test_a_namespace_is_shown_with_its_path() -> None:
    async def test(world: World) -> None:
        await world.namespace("a")
        await world.namespace('a."b.c"')
        await world.decide(UpdateNamespace(Ref(path=("a", "b.c")), description="deep", set_properties={"k": "v"}))
        found = await world.read(lambda view: namespace_info(view, 'a."b.c"'))
        assert (found.name, found.parent, found.description) == ('a."b.c"', "a", "deep")
        assert (found.properties, found.version) == ({"k": "v"}, 2)
        assert (await world.read(lambda view: namespace_info(view, f"id:{found.id}"))) == found
        assert (await world.read(lambda view: namespace_info(view, "a"))).parent is None

    in_world(test)


def test_schemas_are_kept_and_compared_by_column_id() -> None:
    async def test(world: World) -> None:
        await orders(world)
        changes = (
            AlterColumn("id", new_name="order_id"),
            AddColumn("amount", "int"),
            DropColumn("email"),
        )
        await world.decide(AlterTable(ORDERS, changes))
        await world.decide(AlterTable(ORDERS, (AlterColumn("amount", data_type="long", new_name="total"),)))
        versions = await world.read(lambda view: schema_versions(view, "sales.orders"))
        assert [version.version for version in versions.items] == [1, 2, 3]
        assert [column.name for column in versions.items[2].columns] == ["order_id", "total"]
        diff = await world.read(lambda view: schema_diff(view, "sales.orders", 1, 2))
        assert [column.name for column in diff.added] == ["amount"]
        assert [column.name for column in diff.removed] == ["email"]
        assert [(was.name, now.name) for was, now in diff.renamed] == [("id", "order_id")]
        assert diff.retyped == []
        diff = await world.read(lambda view: schema_diff(view, "sales.orders", 2, 3))
        assert [(was.name, now.name) for was, now in diff.renamed] == [("amount", "total")]
        assert [(was.type, now.type) for was, now in diff.retyped] == [("int", "long")]
        back = await world.read(lambda view: schema_diff(view, "sales.orders", 2, 1))
        assert [column.name for column in back.added] == ["email"]
        with pytest.raises(NotFound, match="no schema version 4; it has 1 to 3"):
            await world.read(lambda view: schema_diff(view, "sales.orders", 1, 4))
        columns = await world.read(lambda view: list_columns(view, "sales.orders"))
        assert [column.name for column in columns.items] == ["order_id", "total"]
        assert columns.items[0].former_names[0].name == "id"
        every = await world.read(lambda view: list_columns(view, "sales.orders", inactive=True))
        assert [(column.name, column.status) for column in every.items][-1] == ("email", "inactive")
        assert every.items[-1].dropped_in_version == 2

    in_world(test)


def test_history_tells_every_name_also_of_what_was_dropped() -> None:
    async def test(world: World) -> None:
        await orders(world)
        await world.namespace("shop")
        table = await world.read(lambda view: resolve_table(view, "sales.orders"))
        await world.rename_table("sales.orders", "shop.orders")
        await world.drop_table("shop.orders")
        with pytest.raises(NotFound):
            await world.read(lambda view: table_history(view, "sales.orders"))
        found = await world.read(lambda view: table_history(view, f"id:{table.id}"))
        assert [(entry.change, entry.parent, entry.name) for entry in found.items] == [
            ("created", "sales", "orders"),
            ("renamed", "shop", "orders"),
            ("dropped", "shop", "orders"),
        ]
        space = await world.read(lambda view: namespace_history(view, "sales"))
        assert [(entry.change, entry.parent) for entry in space.items] == [("created", None)]
        with pytest.raises(NotFound):
            await world.read(lambda view: namespace_history(view, f"id:{table.id}"))

    in_world(test)


def test_lists_hold_what_is_directly_inside() -> None:
    async def test(world: World) -> None:
        await orders(world)
        await world.namespace("sales.old")
        await world.table("sales.old.orders")
        await world.namespace("b")
        top = await world.read(lambda view: list_namespaces(view))
        assert [space.name for space in top.items] == ["b", "sales"]
        inner = await world.read(lambda view: list_namespaces(view, "sales"))
        assert [(space.name, space.parent) for space in inner.items] == [("sales.old", "sales")]
        tables = await world.read(lambda view: list_tables(view, "sales"))
        assert [(table.name, table.description) for table in tables.items] == [("sales.orders", "all of them")]
        assert tables.position == str(world.catalog.replica.watermark)
        await world.rename_namespace("sales", "shop")
        tables = await world.read(lambda view: list_tables(view, "sales"))
        assert [table.name for table in tables.items] == ["shop.orders"]

    in_world(test)


def test_a_page_of_a_large_namespace_costs_few_requests_and_rows() -> None:
    async def test(world: World) -> None:
        await world.namespace("big")
        receipt = await world.namespace("other")
        for number in range(300):
            receipt = await world.table(f"big.t{number:03d}", AddColumn("a", "int"))
        await world.workspace.published("catalog", receipt.position)
        await world.catalog.compactor.rebuild()
        manifest = (await world.catalog.snapshot()).manifest
        cold = snapshot_at_revision(world.catalog.definition, world.workspace.handle(Role.READER), manifest)
        before = world.workspace.counts.count(Role.READER, Operation.GET_RANGE)
        page = await list_tables(cold, "big", None, 10)
        assert [table.name for table in page.items] == [f"big.t{number:03d}" for number in range(10)]
        # The namespace's own row, its name, and one file of names that holds its tables.
        assert world.workspace.counts.count(Role.READER, Operation.GET_RANGE) - before <= 4

    in_world(test)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_pages_visit_each_table_once_while_others_write(data: st.DataObject) -> None:
    names = st.sampled_from([f"t{number}" for number in range(30)])
    there = data.draw(st.sets(names), label="there at first")
    limit = data.draw(st.integers(1, 7), label="limit")

    async def test(world: World) -> None:
        await world.namespace("s")
        for name in sorted(there):
            await world.table(f"s.{name}")
        await world.namespace("s.sub")
        stayed, ever, seen = set(there), set(there), []
        cursor: str | None = None
        while True:
            page = await world.read(partial(list_tables, namespace="s", cursor=cursor, limit=limit))
            assert len(page.items) <= limit
            seen += [table.name.removeprefix("s.") for table in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
            name = data.draw(names, label="written meanwhile")
            if name in stayed:
                await world.drop_table(f"s.{name}")
                stayed.discard(name)
            elif name not in ever:
                await world.table(f"s.{name}")
                ever.add(name)
        assert seen == sorted(set(seen))
        assert stayed <= set(seen) <= ever

    in_world(test)


def test_a_cursor_is_good_for_its_own_list_only() -> None:
    async def test(world: World) -> None:
        await world.namespace("a")
        await world.namespace("b")
        for space in ("a", "b"):
            for name in ("x", "y"):
                await world.table(f"{space}.{name}")
        cursor = (await world.read(lambda view: list_tables(view, "a", None, 1))).next_cursor
        assert cursor is not None
        rest = await world.read(lambda view: list_tables(view, "a", cursor, 1))
        assert [table.name for table in rest.items] == ["a.y"]
        lists: list[Callable[[Any], Awaitable[Page[Any]]]] = [
            lambda view: list_tables(view, "b", cursor, 1),
            lambda view: list_namespaces(view, "a", cursor, 1),
            lambda view: list_tables(view, "a", "nonsense", 1),
            lambda view: list_tables(view, "a", "", 1),
            lambda view: list_tables(view, "a", "é", 1),
            lambda view: list_tables(view, "a", None, 0),
            lambda view: list_tables(view, "a", None, 1001),
        ]
        for wrong in lists:
            with pytest.raises(Invalid):
                await world.read(wrong)

    in_world(test)


Text = st.text(st.characters(codec="utf-8"))


@settings(deadline=None)
@given(Text, st.lists(Text, max_size=3))
def test_a_cursor_holds_its_key(place: str, key: list[str]) -> None:
    assert decode_cursor(place, encode_cursor(place, key), len(key)) == tuple(key)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        decode_cursor("place", text, 1)


def test_the_past_reads_as_it_was() -> None:
    async def test(world: World) -> None:
        await orders(world)
        before = await world.catalog.frozen()
        await world.drop_table("sales.orders")
        await world.rename_namespace("sales", "shop")
        assert (await table_info(before, "sales.orders")).name == "sales.orders"
        assert (await resolve_namespace(before, "sales")).path == ("sales",)
        with pytest.raises(NotFound):
            await world.read(lambda view: table_info(view, "sales.orders"))

    in_world(test)


def test_what_moves_while_it_is_read_is_read_again() -> None:
    stores: list[FaultyStore] = []

    def store(runtime: FakeRuntime) -> FaultyStore:
        stores.append(FaultyStore(MemoryStore(runtime)))
        return stores[-1]

    async def test(world: World) -> None:
        [faulty] = stores
        for calls in range(8):  # the drop happens at each of the reads that a cold answer takes
            await world.namespace(f"s{calls}")
            receipt = await world.table(f"s{calls}.t", AddColumn("a", "int"))
            await world.workspace.published("catalog", receipt.position)
            world.catalog.replica.evict()
            # A merge reads too: then the drop may begin beside the answer and end after it.
            begun: list[int] = []
            done: list[int] = []

            async def drop(calls: int = calls, begun: list[int] = begun, done: list[int] = done) -> None:
                begun.append(calls)
                await world.drop_namespace(f"s{calls}", cascade=True)
                done.append(calls)

            faulty.on("get_range", hook=drop, skip=calls)
            try:
                found = await world.read(partial(table_info, ref=f"s{calls}.t"))
                assert not done
                assert found.columns
            except NotFound:
                assert begun
            faulty.heal()

    in_world(test, store)
