"""Names and ids: what resolves, under which names, and what is said of what does not."""

import contextlib
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.catalog._names import (
    Resolved,
    name_of,
    namespace_path,
    parse_ref,
    resolve_namespace,
    resolve_table,
    table_path,
)
from arco.core import ArcoError, Invalid, NotFound, format_path, parse_path
from arco.domains.catalog import ROOT, Ref
from tests.catalog.world import World, in_world

ID = "01JCR4T8K3M9ZQ2XW5V7B6N0PA"


def test_a_ref_is_a_path_or_an_id() -> None:
    assert parse_ref("sales.orders") == Ref(path=("sales", "orders"))
    assert parse_ref('"a.b".t') == Ref(path=("a.b", "t"))
    assert parse_ref(f"id:{ID}") == Ref(id=ID)
    assert parse_ref(f'"id:{ID}"') == Ref(path=(f"id:{ID}",))
    with pytest.raises(Invalid):
        parse_ref("id:nonsense")


def test_what_was_renamed_is_found_under_its_old_path() -> None:
    async def test(world: World) -> None:
        await world.namespace("sales")
        await world.table("sales.orders")
        table = await world.read(lambda view: resolve_table(view, "sales.orders"))
        await world.rename_table("sales.orders", "sales.purchases")
        await world.rename_namespace("sales", "shop")
        now = ("shop", "purchases")
        for old in ("sales.orders", "sales.purchases", "shop.orders"):
            found = await world.read(partial(resolve_table, ref=old))
            assert found == Resolved(table.id, now, parse_path(old))
        assert await world.read(lambda view: resolve_table(view, "shop.purchases")) == Resolved(table.id, now)
        assert await world.read(lambda view: resolve_table(view, f"id:{table.id}")) == Resolved(table.id, now)
        await world.table("shop.orders")  # whoever has a name now comes before whoever had it
        newer = await world.read(lambda view: resolve_table(view, "sales.orders"))
        assert newer.id != table.id
        assert newer.path == ("shop", "orders")

    in_world(test)


def test_what_is_missing_is_named_with_its_level_and_what_is_near() -> None:
    async def test(world: World) -> None:
        await world.namespace("sales")
        await world.table("sales.orders")
        for text, said in (
            ("sales.ordres", "no table sales.ordres; did you mean orders?"),
            ("sale.orders", "no namespace sale; did you mean sales?"),
            ("sales.ORDERS", "did you mean orders?"),
            ("sales.zzz", "no table sales.zzz"),
            (f"id:{ID}", f"no table with the id {ID}"),
        ):
            with pytest.raises(NotFound, match=said):
                await world.read(partial(resolve_table, ref=text))
        with pytest.raises(NotFound, match="no namespace root"):
            await world.read(lambda view: resolve_namespace(view, "root"))
        with pytest.raises(NotFound):
            await world.read(lambda view: resolve_namespace(view, Ref(id=ROOT)))
        for text in ("sales", "", "sales.", "sales.a*b", ".".join("x" * 20)):
            with pytest.raises(Invalid):
                await world.read(partial(resolve_table, ref=text))

    in_world(test)


def test_near_names_are_found_among_very_many() -> None:
    async def test(world: World) -> None:
        await world.namespace("big")
        for number in range(600):
            await world.table(f"big.a{number:04d}")
        await world.table("big.orders")
        with pytest.raises(NotFound, match="did you mean orders"):
            await world.read(lambda view: resolve_table(view, "big.orderz"))

    in_world(test)


def test_a_dropped_table_keeps_its_last_name() -> None:
    async def test(world: World) -> None:
        await world.namespace("a")
        await world.namespace("a.b")
        await world.table("a.b.t")
        table = await world.read(lambda view: resolve_table(view, "a.b.t"))
        before = await world.catalog.frozen()
        await world.rename_namespace("a", "z")
        await world.drop_namespace("z", cascade=True)
        with pytest.raises(NotFound, match=r"a\.b\.t was dropped"):
            await world.read(lambda view: resolve_table(view, "a.b.t"))
        assert await world.read(lambda view: name_of(view, table.id)) == ("z.b.t", False)
        assert await world.read(lambda view: name_of(view, ID)) == (None, False)
        assert await name_of(before, table.id) == ("a.b.t", True)
        assert await resolve_table(before, "a.b.t") == table

    in_world(test)


Names = st.sampled_from(["a", "b", "x.y"])
Paths = st.lists(Names, min_size=1, max_size=3).map(format_path)
Steps = st.lists(
    st.one_of(
        st.tuples(st.just("namespace"), Paths),
        st.tuples(st.just("table"), Paths),
        st.tuples(st.just("rename_namespace"), Paths, Paths),
        st.tuples(st.just("rename_table"), Paths, Paths),
        st.tuples(st.just("drop_table"), Paths),
        st.tuples(st.just("drop_namespace"), Paths),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(Steps)
def test_the_path_of_an_id_resolves_to_it_whatever_was_renamed(steps: list[tuple[Any, ...]]) -> None:
    async def test(world: World) -> None:
        seen: dict[str, str] = {}  # every id ever, and its kind
        for action, *paths in steps:
            with contextlib.suppress(ArcoError):
                await getattr(world, action)(*paths)
                kind, resolve = ("table", resolve_table) if "table" in action else ("namespace", resolve_namespace)
                if not action.startswith("drop"):
                    found = await world.read(partial(resolve, ref=paths[-1]))
                    assert found.path == parse_path(paths[-1])
                    assert found.renamed_from is None
                    seen[found.id] = kind
        snapshot = await world.catalog.frozen()
        for id, kind in seen.items():
            path = await (table_path if kind == "table" else namespace_path)(snapshot, id)
            if path is not None:
                resolve = resolve_table if kind == "table" else resolve_namespace
                assert await resolve(snapshot, format_path(path)) == Resolved(id, path)

    in_world(test)
