"""Namespaces: what is granted, what is refused and why, and what the tables say afterwards."""

from typing import Any

import msgspec
import pytest

from arco.core import Conflict, Invalid, NotFound, PreconditionFailed, Refused, TooLarge
from arco.domains.catalog import (
    FORMER_NAMES,
    NAME_CHANGES,
    NAMES,
    NAMESPACES,
    ROOT,
    CreateNamespace,
    DropNamespace,
    Namespace,
    Ref,
    RenameNamespace,
    UpdateNamespace,
)
from arco.domains.catalog.checks import MAX_DEPTH
from arco.domains.catalog.decide_namespaces import MAX_CASCADE
from arco.log import Command, Event, position_of
from arco.state import AdvanceRetention, PinRevision, ReleasePin
from tests.domains.deciding import Catalog, at, simulate
from tests.doubles import START
from tests.state.doubles import rows_of


async def namespace(catalog: Catalog, key: str) -> Namespace:
    row: Namespace = await catalog.replica.get(NAMESPACES, key, key)
    return row


def test_a_namespace_is_created_under_an_id_of_its_operation() -> None:
    async def test(catalog: Catalog) -> None:
        events = await catalog.decide(CreateNamespace(("sales",), "all sales", {"team": "x"}), actor="ann")
        assert [event.subject for event in events] == ["sales"]
        (row,) = await rows_of(catalog.replica, NAMESPACES)
        assert row["parent_id"] == ROOT
        assert (row["name"], row["description"], row["properties"]) == ("sales", "all sales", [("team", "x")])
        assert (row["version"], row["created_by"], row["updated_by"]) == (1, "ann", "ann")
        assert row["created_at"] == row["updated_at"]
        (name,) = await rows_of(catalog.replica, NAMES)
        assert (name["object_id"], name["kind"], name["format"]) == (row["namespace_id"], "namespace", None)
        assert name["description"] == "all sales"

    simulate(test)


def test_the_same_operation_decided_twice_means_the_same_id() -> None:
    async def test(catalog: Catalog) -> None:
        data = msgspec.Raw(msgspec.json.encode(CreateNamespace(("a",))))
        command = Command(catalog.id(), "me", "CreateNamespace", data)
        first, again = [await catalog.replica.draft().decide(command, START) for _ in range(2)]
        assert first == again
        other = msgspec.structs.replace(command, operation=catalog.id())
        assert await catalog.replica.draft().decide(other, START) != first

    simulate(test)


def test_a_name_is_granted_once() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        with pytest.raises(Conflict, match=r"^the namespace a exists already; choose another name, or use if_not_exi"):
            await catalog.decide(CreateNamespace(("a",)))
        assert await catalog.decide(CreateNamespace(("a",), if_not_exists=True)) == []
        assert len(await catalog.decide(CreateNamespace(("b",), if_not_exists=True))) == 1
        assert await catalog.names() == ["a", "b"]

    simulate(test)


def test_a_nested_namespace_needs_its_parent() -> None:
    async def test(catalog: Catalog) -> None:
        with pytest.raises(NotFound, match=r"^the namespace a does not exist; check its name, or create it first$"):
            await catalog.create("a.b")
        await catalog.create("a")
        with pytest.raises(
            NotFound, match=r"^the namespace a\.b\.c does not exist: there is no namespace a\.b; create that first$"
        ):
            await catalog.create("a.b.c.d")
        await catalog.create("a.b")
        await catalog.create("a.b.c")
        assert await catalog.names() == ["a", "a.b", "a.b.c"]

    simulate(test)


def test_a_dot_in_a_name_is_not_a_level() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.create("a.b")
        events = await catalog.decide(CreateNamespace(("a.b",)))
        assert events[0].subject == '"a.b"'
        with pytest.raises(NotFound):
            await catalog.decide(DropNamespace(Ref(path=("a", "b", "c"))))
        assert await catalog.names() == ['"a.b"', "a", "a.b"]
        await catalog.decide(DropNamespace(Ref(path=("a.b",))))
        assert await catalog.names() == ["a", "a.b"]

    simulate(test)


def test_a_thing_is_named_by_path_or_by_id() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        key = await catalog.create("a.b")
        for ref in (Ref(), Ref(path=("a",), id=key)):
            with pytest.raises(Invalid, match="by its path or by its id, by exactly one of them"):
                await catalog.decide(DropNamespace(ref))
        with pytest.raises(Invalid, match="not a ULID"):
            await catalog.decide(DropNamespace(Ref(id=ROOT)))
        unknown = catalog.id()
        with pytest.raises(NotFound, match=f"^there is no namespace with the id {unknown}; it was dropped, or never"):
            await catalog.decide(DropNamespace(Ref(id=unknown)))
        events = await catalog.decide(UpdateNamespace(Ref(id=key), description="by id"))
        assert [event.subject for event in events] == ["a.b"]

    simulate(test)


@pytest.mark.parametrize(
    "path",
    [("",), ("a", ""), ("x/y",), ("*",), ("..",), ("a\x1fb",), ("tab\t",), ("pаypal",), ("a",) * (MAX_DEPTH + 1)],  # noqa: RUF001
)
def test_names_that_cannot_be_are_refused_by_every_command(path: tuple[str, ...]) -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        for command in (
            CreateNamespace(path),
            UpdateNamespace(Ref(path=path)),
            DropNamespace(Ref(path=path)),
            DropNamespace(Ref(path=path), if_exists=True),
            RenameNamespace(Ref(path=path), ("b",)),
            RenameNamespace(at("a"), path),
        ):
            with pytest.raises(Invalid):
                await catalog.decide(command)
        assert await catalog.names() == ["a"]

    simulate(test)


def test_the_empty_path_is_no_namespace() -> None:
    async def test(catalog: Catalog) -> None:
        for command in (CreateNamespace(()), RenameNamespace(Ref(id=await catalog.create("a")), ())):
            with pytest.raises(Invalid, match=f"a namespace has 1 to {MAX_DEPTH} levels, this one has 0"):
                await catalog.decide(command)

    simulate(test)


def test_an_update_changes_what_it_names_and_nothing_else() -> None:
    async def test(catalog: Catalog) -> None:
        key = await catalog.create("a", description="old", properties={"k": "v", "l": "w"})
        await catalog.decide(UpdateNamespace(at("a"), set_properties={"l": "x", "m": "y"}), actor="ann")
        row = await namespace(catalog, key)
        assert (row.description, row.properties) == ("old", {"k": "v", "l": "x", "m": "y"})
        assert (row.version, row.created_by, row.updated_by) == (2, "me", "ann")
        assert row.updated_at > row.created_at
        await catalog.decide(UpdateNamespace(at("a"), description=None, remove_properties=("k", "nothing")))
        row = await namespace(catalog, key)
        assert (row.description, row.properties, row.version) == (None, {"l": "x", "m": "y"}, 3)
        (name,) = await rows_of(catalog.replica, NAMES)
        assert name["description"] is None
        with pytest.raises(NotFound, match="the namespace b does not exist"):
            await catalog.decide(UpdateNamespace(at("b")))

    simulate(test)


def test_what_changes_nothing_is_no_event() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a", description="d", properties={"k": "v"})
        for command in (
            UpdateNamespace(at("a")),
            UpdateNamespace(at("a"), description="d", set_properties={"k": "v"}, remove_properties=("x",)),
            RenameNamespace(at("a"), ("a",)),
        ):
            assert await catalog.decide(command) == []

    simulate(test)


def test_a_change_of_what_has_changed_meanwhile_is_refused() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.decide(UpdateNamespace(at("a"), description="d", expected_version=1))
        stale: list[msgspec.Struct] = [
            UpdateNamespace(at("a"), description="e", expected_version=1),
            RenameNamespace(at("a"), ("b",), expected_version=1),
            DropNamespace(at("a"), expected_version=1),
        ]
        for command in stale:
            with pytest.raises(
                PreconditionFailed,
                match=r"^the namespace a has version 2, not 1: it changed since you looked; read it again$",
            ) as refusal:
                await catalog.decide(command)
            assert refusal.value.details == {"version": 2}
        await catalog.decide(RenameNamespace(at("a"), ("b",), expected_version=2))
        await catalog.decide(DropNamespace(at("b"), expected_version=3))

    simulate(test)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"set_properties": {"": "v"}}, Invalid, "has no name or spaces around it"),
        ({"set_properties": {" k": "v"}}, Invalid, "has no name or spaces around it"),
        ({"set_properties": {"k\n": "v"}}, Invalid, "spaces around it"),
        ({"set_properties": {"k\x00l": "v"}}, Invalid, r"the property has the character '\\x00' at position 1"),
        ({"set_properties": {"k": "v\x1b[1m"}}, Invalid, r"value of the property 'k' has the character '\\x1b'"),
        ({"set_properties": {"k" * 256: "v"}}, TooLarge, "256 characters, the limit is 255"),
        ({"set_properties": {"k": "v" * 4_097}}, TooLarge, "4097 characters, the limit is 4096"),
        ({"set_properties": {str(i): "" for i in range(501)}}, TooLarge, "501 properties are too many"),
        ({"set_properties": {"k": "v"}, "remove_properties": ["k"]}, Invalid, "is to be set and removed at once"),
        ({"description": "d" * 10_001}, TooLarge, "the description has 10001 characters, the limit is 10000"),
        ({"description": "a\x07"}, Invalid, r"the description has the character '\\x07' at position 1; remove it"),
    ],
)
def test_values_that_cannot_be_are_refused(changes: dict[str, Any], kind: type[Exception], message: str) -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        with pytest.raises(kind, match=message):
            await catalog.decide(UpdateNamespace(at("a"), **changes))

    simulate(test)


def test_the_limit_of_properties_counts_those_that_are_there() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a", properties={str(i): "" for i in range(500)})
        with pytest.raises(TooLarge, match="501 properties are too many, the limit is 500; remove some"):
            await catalog.decide(UpdateNamespace(at("a"), set_properties={"x": ""}))
        await catalog.decide(UpdateNamespace(at("a"), set_properties={"x": ""}, remove_properties=("1",)))

    simulate(test)


# Renames


def test_a_rename_moves_the_name_and_keeps_the_id_and_what_is_inside() -> None:
    async def test(catalog: Catalog) -> None:
        key = await catalog.create("a")
        inner = await catalog.create("a.x")
        parent = await catalog.create("b")
        await catalog.create_table("a.x.t", "id:int")
        events = await catalog.decide(RenameNamespace(at("a"), ("b", "c")))
        assert [(event.type, event.subject) for event in events] == [("NamespaceRenamed", "b.c")]
        assert await catalog.names() == ["b", "b.c", "b.c.x"]
        assert await catalog.tables() == ["b.c.x.t"]
        row = await namespace(catalog, key)
        assert (row.parent_id, row.name, row.version) == (parent, "c", 2)
        assert (await namespace(catalog, inner)).version == 1, "one row changes, however much the namespace holds"
        assert await catalog.replica.get(NAMES, ROOT, (ROOT, "namespace", "a")) is None

    simulate(test)


def test_a_former_name_says_what_it_is_called_now() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.create("a.b")
        await catalog.create_table("a.b.t")
        await catalog.decide(RenameNamespace(at("a"), ("z",)))
        with pytest.raises(NotFound, match=r"^the namespace a is called z now; use that name$") as refusal:
            await catalog.decide(UpdateNamespace(at("a"), description="d"))
        assert refusal.value.details == {"renamed_to": "z"}
        with pytest.raises(NotFound, match=r"^the namespace a\.b is called z\.b now; use that name$"):
            await catalog.decide(RenameNamespace(at("a.b"), ("z", "c")))
        with pytest.raises(NotFound, match=r"^the namespace a is called z now; use that name$"):
            await catalog.decide(CreateNamespace(("a", "c")))
        assert await catalog.decide(DropNamespace(at("a"), if_exists=True)) == []
        await catalog.decide(RenameNamespace(at("z.b"), ("c",)))
        with pytest.raises(NotFound, match=r"^the namespace a\.b is called c now"):
            await catalog.decide(DropNamespace(at("a.b")))

    simulate(test)


def test_a_name_that_is_taken_again_belongs_to_the_new_one() -> None:
    async def test(catalog: Catalog) -> None:
        old = await catalog.create("a")
        await catalog.decide(RenameNamespace(at("a"), ("b",)))
        (former,) = await rows_of(catalog.replica, FORMER_NAMES)
        assert (former["parent_id"], former["kind"], former["name"]) == (ROOT, "namespace", "a")
        assert former["object_id"] == old
        new = await catalog.create("a")
        assert await rows_of(catalog.replica, FORMER_NAMES) == []
        assert new != old
        await catalog.decide(DropNamespace(at("a")))
        (former,) = await rows_of(catalog.replica, FORMER_NAMES)
        assert former["object_id"] == new, "the object that last had the name"

    simulate(test)


def test_a_rename_back_leaves_one_former_name() -> None:
    async def test(catalog: Catalog) -> None:
        key = await catalog.create("a")
        await catalog.decide(RenameNamespace(at("a"), ("b",)))
        await catalog.decide(RenameNamespace(at("b"), ("a",)))
        (former,) = await rows_of(catalog.replica, FORMER_NAMES)
        assert (former["name"], former["object_id"]) == ("b", key)
        changes = await catalog.replica.rows(NAME_CHANGES, key)
        assert [(change.name, change.change) for change in changes] == [
            ("a", "created"),
            ("b", "renamed"),
            ("a", "renamed"),
        ]

    simulate(test)


def test_renames_that_cannot_be_are_refused() -> None:
    async def test(catalog: Catalog) -> None:
        for text in ("a", "b", "b.c", "b.c.d"):
            await catalog.create(text)
        refusals: list[tuple[RenameNamespace, type[Refused], str]] = [
            (RenameNamespace(at("x"), ("y",)), NotFound, "the namespace x does not exist"),
            (RenameNamespace(at("a"), ("b",)), Conflict, "the namespace b exists already; choose another name"),
            (RenameNamespace(at("a"), ("nowhere", "a")), NotFound, "the namespace nowhere does not exist"),
            (RenameNamespace(at("b"), ("b", "e")), Refused, "the namespace b cannot move below itself"),
            (RenameNamespace(at("b"), ("b", "c")), Refused, "the namespace b cannot move below itself"),
            (RenameNamespace(at("b"), ("b", "c", "d", "e")), Refused, "the namespace b cannot move below itself"),
            (RenameNamespace(at("b.c"), ("b", "c", "d", "e")), Refused, r"the namespace b\.c cannot move below itself"),
        ]
        for command, reason, message in refusals:
            with pytest.raises(reason, match=message):
                await catalog.decide(command)
        assert await catalog.names() == ["a", "b", "b.c", "b.c.d"]

    simulate(test)


def test_renames_may_go_round_in_a_circle() -> None:
    async def test(catalog: Catalog) -> None:
        keys = [await catalog.create(text) for text in ("a", "b")]
        for source, target in (("a", "tmp"), ("b", "a"), ("tmp", "b")):
            await catalog.decide(RenameNamespace(at(source), (target,)))
        assert [(await namespace(catalog, key)).name for key in keys] == ["b", "a"]
        with pytest.raises(NotFound, match=r"^the namespace tmp is called b now; use that name$"):
            await catalog.decide(DropNamespace(at("tmp")))

    simulate(test)


def test_a_move_does_not_make_names_deeper_than_they_may_be() -> None:
    async def test(catalog: Catalog) -> None:
        deep = ".".join("abcdefghijklmno")
        for depth in range(1, MAX_DEPTH):
            await catalog.create(".".join(deep.split(".")[:depth]))
        for text in ("x", "x.y"):
            await catalog.create(text)
        with pytest.raises(Refused, match=r"^the namespace x holds namespaces that would be deeper than 16 levels th"):
            await catalog.decide(RenameNamespace(at("x"), (*deep.split("."), "x")))
        await catalog.decide(RenameNamespace(at("x"), (*deep.split(".")[:-1], "x")))

    simulate(test)


# Drops


def test_only_an_empty_namespace_is_dropped() -> None:
    async def test(catalog: Catalog) -> None:
        for text in ("a", "a.b", "a.c"):
            await catalog.create(text)
        for name in "tuv":
            await catalog.create_table(f"a.{name}")
        with pytest.raises(
            Refused,
            match=r"^the namespace a cannot be dropped: it holds 2 namespaces and 3 tables \(b, c, t, \.\.\.\); "
            r"drop them first, or use cascade$",
        ):
            await catalog.decide(DropNamespace(at("a")))
        for text in ("a.b", "a.c"):
            await catalog.decide(DropNamespace(at(text)))
        with pytest.raises(Refused, match=r"it holds 3 tables \(t, u, v\); drop"):
            await catalog.decide(DropNamespace(at("a")))
        await catalog.decide(DropNamespace(at("a"), cascade=True))
        with pytest.raises(NotFound, match=r"^the namespace a does not exist: it was dropped at 2026-01-01T00:00:"):
            await catalog.decide(DropNamespace(at("a")))
        assert await catalog.decide(DropNamespace(at("a"), if_exists=True)) == []
        await catalog.create("a")
        assert await catalog.names() == ["a"]

    simulate(test)


def test_a_cascade_drops_everything_inside_first() -> None:
    async def test(catalog: Catalog) -> None:
        for text in ("a", "a.b", "a.b.c", "a.d", "z"):
            await catalog.create(text)
        for text in ("a.b.c.t", "a.b.t", "z.t"):
            await catalog.create_table(text, "id:int")
        events = await catalog.decide(DropNamespace(at("a"), cascade=True))
        assert [(event.type.removesuffix("Dropped"), event.subject) for event in events] == [
            ("Table", "a.b.c.t"),
            ("Namespace", "a.b.c"),
            ("Table", "a.b.t"),
            ("Namespace", "a.b"),
            ("Namespace", "a.d"),
            ("Namespace", "a"),
        ]
        assert (await catalog.names(), await catalog.tables()) == (["z"], ["z.t"])
        assert len(await rows_of(catalog.replica, NAMES)) == 2

    simulate(test)


def test_a_cascade_is_bounded() -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        for number in range(MAX_CASCADE):
            await catalog.create(f"a.n{number}")
        assert len(await catalog.decide(DropNamespace(at("a.n0"), cascade=True))) == 1
        await catalog.create_table("a.t")
        await catalog.create_table("a.u")
        with pytest.raises(
            Refused, match=r"^the namespace a holds more than 1000 namespaces and tables, too many to drop at once; dr"
        ):
            await catalog.decide(DropNamespace(at("a"), cascade=True))
        with pytest.raises(
            Refused, match=r"it holds more than 1000 namespaces and tables \(n1, n10, n100, \.\.\.\); drop"
        ):
            await catalog.decide(DropNamespace(at("a")))
        await catalog.create("z")
        for text in ("a.x", "a.y"):
            await catalog.create(text)
        with pytest.raises(
            Refused, match=r"^the namespace a holds more than 1000 namespaces, too many to move to a deep"
        ):
            await catalog.decide(RenameNamespace(at("a"), ("z", "a")))
        for text in ("a.x", "a.y"):
            await catalog.decide(DropNamespace(at(text)))
        await catalog.decide(RenameNamespace(at("a"), ("z", "a")))
        await catalog.decide(RenameNamespace(at("z.a"), ("a",)))
        await catalog.decide(DropNamespace(at("a.n1")))
        assert len(await catalog.decide(DropNamespace(at("a"), cascade=True))) == MAX_CASCADE + 1

    simulate(test)


# The draft


def test_members_of_a_group_see_the_earlier_ones() -> None:
    """A draft is what an owner validates a whole group on, before anything is appended."""

    async def test(catalog: Catalog) -> None:
        draft = catalog.replica.draft()

        async def member(index: int, payload: msgspec.Struct) -> None:
            name, data = type(payload).__name__, msgspec.Raw(msgspec.json.encode(payload))
            command = Command(catalog.id(), "me", name, data)
            events = [
                Event(
                    catalog.id(), item.type, "", "arco", "me", command.operation, item.data, item.version, command=name
                )
                for item in await draft.decide(command, START)
            ]
            await draft.stage(1, index, events, START)
            receipt = await draft.find(command)
            assert receipt is not None
            assert receipt.replayed
            assert int(receipt.first) == position_of(1, index)

        await member(0, CreateNamespace(("a",)))
        await member(1, CreateNamespace(("a", "b")))
        with pytest.raises(Conflict):
            await member(2, CreateNamespace(("a",)))
        await member(2, DropNamespace(at("a.b")))
        await member(3, DropNamespace(at("a")))
        assert await catalog.names() == [], "the replica itself knows nothing of a draft"

    simulate(test)


def test_a_command_nobody_knows_or_that_does_not_fit_is_refused() -> None:
    async def test(catalog: Catalog) -> None:
        draft = catalog.replica.draft()
        with pytest.raises(Invalid, match="knows no command 'Nothing'"):
            await draft.decide(Command(catalog.id(), "me", "Nothing", msgspec.Raw(b"{}")), START)
        for data in (b"{}", b"[]", b'{"namespace":{"path":["a"]},"surprise":1}', b"\xff"):
            with pytest.raises(Invalid, match="DropNamespace does not fit"):
                await draft.decide(Command(catalog.id(), "me", "DropNamespace", msgspec.Raw(data)), START)

    simulate(test)


# What every log can do


def test_pins_are_made_released_and_bounded() -> None:
    async def test(catalog: Catalog) -> None:
        now, day = catalog.now, 24 * 3600 * 1_000_000
        await catalog.decide(PinRevision("p", 7, "audit", now + day))
        assert [pin.revision for pin in catalog.replica.pins.values()] == [7]
        with pytest.raises(Conflict, match="the pin p exists already"):
            await catalog.decide(PinRevision("p", 8, "", now + day))
        for expires in (now, now - 1, now + 31 * day):
            with pytest.raises(Invalid, match="within the next 30 days"):
                await catalog.decide(PinRevision("q", 8, "", expires))
        await catalog.decide(ReleasePin("p"))
        assert catalog.replica.pins == {}
        with pytest.raises(NotFound, match="there is no pin p"):
            await catalog.decide(ReleasePin("p"))

    simulate(test)


def test_retention_reaches_neither_into_the_future_nor_into_the_life_of_a_request() -> None:
    async def test(catalog: Catalog) -> None:
        now, day = START, 24 * 3600 * 1_000_000
        with pytest.raises(Invalid, match=r"'namespaces' does not expire by time; these do: .*operations, rejections"):
            await catalog.decide(AdvanceRetention("namespaces", now))
        with pytest.raises(Refused, match="future"):
            await catalog.decide(AdvanceRetention("rejections", catalog.now + 1))
        for table in ("operations", "requests"):
            with pytest.raises(Refused, match="7 days"):
                await catalog.decide(AdvanceRetention(table, now - 6 * day))
            await catalog.decide(AdvanceRetention(table, now - 8 * day))
        await catalog.decide(AdvanceRetention("rejections", now))
        assert sorted(catalog.replica.retention) == ["operations", "rejections", "requests"]

    simulate(test)
