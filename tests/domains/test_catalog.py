"""The catalog: what is granted, what is refused and why, and what the tables say afterwards."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from arco.core import Conflict, Invalid, NotFound, Refused, new_ulid
from arco.domains.catalog import (
    CATALOG,
    NAMES,
    NAMESPACES,
    CreateNamespace,
    DropNamespace,
    RenameNamespace,
    UpdateNamespace,
)
from arco.domains.catalog.commands import MAX_DEPTH
from arco.log import Command, Event, Place, position_of
from arco.state import (
    AdvanceRetention,
    LayerReader,
    PinRevision,
    ReleasePin,
    Replica,
    define_log,
    empty_manifest,
)
from arco.storage import MemoryStore
from tests.doubles import START, FakeRuntime, run
from tests.state.doubles import rows_of, segments_of

LOG = define_log("catalog", [CATALOG])
PLACE = Place("acme", "prod", "inc-1", "catalog")


class Decider:
    """Decides commands one by one on a replica, as an owner does, without a store."""

    def __init__(self) -> None:
        self.runtime = FakeRuntime()
        self.replica = Replica(LOG, LayerReader(MemoryStore()), empty_manifest(PLACE))
        self.batches: list[list[Event]] = []

    def id(self) -> str:
        return new_ulid(self.runtime, self.runtime)

    async def decide(self, payload: msgspec.Struct) -> None:
        draft = self.replica.draft()
        command = Command(
            operation=self.id(),
            actor="me",
            name=type(payload).__name__,
            data=msgspec.Raw(msgspec.json.encode(payload)),
        )
        new = await draft.decide(command, self.runtime.now())
        events = [
            Event(self.id(), item.type, "", "arco", "me", command.operation, item.data, command=command.name)
            for item in new
        ]
        self.batches.append(events)
        await self.replica.apply(segments_of(self.batches, PLACE)[-1:])

    async def create(self, *path: str, **more: Any) -> str:
        key = more.pop("namespace_id", None) or self.id()
        await self.decide(CreateNamespace(key, path, **more))
        return str(key)

    async def names(self) -> list[str]:
        return sorted(".".join(row["path"]) for row in await rows_of(self.replica, NAMESPACES))


def simulate(test: Callable[[Decider], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(Decider())

    run(main())


def test_a_namespace_is_created_once() -> None:
    async def test(decider: Decider) -> None:
        await decider.create("a", description="first", properties={"k": "v"})
        (row,) = await rows_of(decider.replica, NAMESPACES)
        assert (row["path"], row["description"], row["properties"]) == (["a"], "first", [("k", "v")])
        assert row["created_by"] == "me"
        with pytest.raises(Conflict, match="the namespace a exists already"):
            await decider.create("a")
        assert await decider.names() == ["a"]

    simulate(test)


def test_a_nested_namespace_needs_its_parent() -> None:
    async def test(decider: Decider) -> None:
        with pytest.raises(NotFound, match="the parent namespace a does not exist"):
            await decider.create("a", "b")
        await decider.create("a")
        await decider.create("a", "b")
        await decider.create("a", "b", "c")
        assert await decider.names() == ["a", "a.b", "a.b.c"]

    simulate(test)


def test_a_dot_in_a_name_is_not_a_level() -> None:
    async def test(decider: Decider) -> None:
        await decider.create("a")
        await decider.create("a", "b")
        await decider.create("a.b")
        with pytest.raises(NotFound):
            await decider.decide(DropNamespace(("a", "b", "c")))
        await decider.decide(DropNamespace(("a.b",)))
        assert await decider.names() == ["a", "a.b"]

    simulate(test)


def test_an_id_belongs_to_one_namespace() -> None:
    async def test(decider: Decider) -> None:
        key = await decider.create("a")
        with pytest.raises(Conflict, match="belongs to another namespace"):
            await decider.create("b", namespace_id=key)
        with pytest.raises(Invalid, match="not a ULID"):
            await decider.create("b", namespace_id="b")

    simulate(test)


@pytest.mark.parametrize(
    "path", [(), ("",), ("a", ""), ("x/y",), ("*",), ("..",), ("a\x1fb",), ("tab\t",), ("a",) * (MAX_DEPTH + 1)]
)
def test_names_that_cannot_be_are_refused_by_every_command(path: tuple[str, ...]) -> None:
    async def test(decider: Decider) -> None:
        await decider.create("a")
        for command in (
            CreateNamespace(decider.id(), path),
            UpdateNamespace(path),
            DropNamespace(path),
            RenameNamespace(path, ("b",)),
            RenameNamespace(("a",), path),
        ):
            with pytest.raises(Invalid):
                await decider.decide(command)
        assert await decider.names() == ["a"]

    simulate(test)


def test_an_update_replaces_description_and_properties() -> None:
    async def test(decider: Decider) -> None:
        await decider.create("a", description="old", properties={"k": "v"})
        await decider.runtime.sleep(5)
        await decider.decide(UpdateNamespace(("a",), None, {"l": "w"}))
        (row,) = await rows_of(decider.replica, NAMESPACES)
        assert (row["description"], row["properties"]) == (None, [("l", "w")])
        assert row["updated_at"] > row["created_at"]
        with pytest.raises(NotFound, match="the namespace b does not exist"):
            await decider.decide(UpdateNamespace(("b",)))

    simulate(test)


def test_a_rename_moves_the_name_and_keeps_the_id() -> None:
    async def test(decider: Decider) -> None:
        key = await decider.create("a")
        await decider.create("b")
        await decider.decide(RenameNamespace(("a",), ("b", "c")))
        assert await decider.names() == ["b", "b.c"]
        name = await decider.replica.get(NAMES, "b", ("b", "c"))
        assert name.namespace_id == key
        assert await decider.replica.get(NAMES, "", ("", "a")) is None

    simulate(test)


def test_renames_that_cannot_be_are_refused() -> None:
    async def test(decider: Decider) -> None:
        await decider.create("a")
        await decider.create("b")
        await decider.create("b", "c")
        refusals: list[tuple[RenameNamespace, type[Refused]]] = [
            (RenameNamespace(("x",), ("y",)), NotFound),
            (RenameNamespace(("a",), ("b",)), Conflict),
            (RenameNamespace(("a",), ("a",)), Conflict),
            (RenameNamespace(("a",), ("nowhere", "a")), NotFound),
            (RenameNamespace(("b",), ("d",)), Refused),
        ]
        for command, reason in refusals:
            with pytest.raises(reason):
                await decider.decide(command)
        assert await decider.names() == ["a", "b", "b.c"]

    simulate(test)


def test_only_an_empty_namespace_is_dropped() -> None:
    async def test(decider: Decider) -> None:
        for path in (("a",), ("a", "b"), ("a", "c")):
            await decider.create(*path)
        with pytest.raises(Refused, match=r"the namespace a cannot be dropped: it holds b and 1 more"):
            await decider.decide(DropNamespace(("a",)))
        await decider.decide(DropNamespace(("a", "b")))
        with pytest.raises(Refused, match=r"cannot be dropped: it holds c$"):
            await decider.decide(DropNamespace(("a",)))
        await decider.decide(DropNamespace(("a", "c")))
        await decider.decide(DropNamespace(("a",)))
        with pytest.raises(NotFound):
            await decider.decide(DropNamespace(("a",)))
        await decider.create("a")
        assert await decider.names() == ["a"]

    simulate(test)


def test_a_namespace_cannot_move_below_itself() -> None:
    async def test(decider: Decider) -> None:
        await decider.create("a")
        with pytest.raises(Refused):
            await decider.decide(RenameNamespace(("a",), ("a", "b")))
        assert await decider.names() == ["a"]

    simulate(test)


def test_members_of_a_group_see_the_earlier_ones() -> None:
    """A draft is what an owner validates a whole group on, before anything is appended."""

    async def test(decider: Decider) -> None:
        draft = decider.replica.draft()

        async def member(index: int, payload: msgspec.Struct) -> None:
            name, data = type(payload).__name__, msgspec.Raw(msgspec.json.encode(payload))
            command = Command(decider.id(), "me", name, data)
            events = [
                Event(decider.id(), item.type, "", "arco", "me", command.operation, item.data, command=name)
                for item in await draft.decide(command, START)
            ]
            await draft.stage(1, index, events, START)
            receipt = await draft.find(command)
            assert receipt is not None
            assert receipt.replayed
            assert int(receipt.first) == position_of(1, index)

        await member(0, CreateNamespace(decider.id(), ("a",)))
        await member(1, CreateNamespace(decider.id(), ("a", "b")))
        with pytest.raises(Conflict):
            await member(2, CreateNamespace(decider.id(), ("a",)))
        await member(2, DropNamespace(("a", "b")))
        await member(3, DropNamespace(("a",)))
        assert await decider.names() == [], "the replica itself knows nothing of a draft"

    simulate(test)


def test_a_command_nobody_knows_or_that_does_not_fit_is_refused() -> None:
    async def test(decider: Decider) -> None:
        draft = decider.replica.draft()
        with pytest.raises(Invalid, match="knows no command 'Nothing'"):
            await draft.decide(Command(decider.id(), "me", "Nothing", msgspec.Raw(b"{}")), START)
        for data in (b"{}", b"[]", b'{"path":["a"],"surprise":1}', b"\xff"):
            with pytest.raises(Invalid, match="DropNamespace does not fit"):
                await draft.decide(Command(decider.id(), "me", "DropNamespace", msgspec.Raw(data)), START)

    simulate(test)


# What every log can do


def test_pins_are_made_released_and_bounded() -> None:
    async def test(decider: Decider) -> None:
        now, day = decider.runtime.now(), 24 * 3600 * 1_000_000
        await decider.decide(PinRevision("p", 7, "audit", now + day))
        assert [pin.revision for pin in decider.replica.pins.values()] == [7]
        with pytest.raises(Conflict, match="the pin p exists already"):
            await decider.decide(PinRevision("p", 8, "", now + day))
        for expires in (now, now - 1, now + 31 * day):
            with pytest.raises(Invalid, match="within the next 30 days"):
                await decider.decide(PinRevision("q", 8, "", expires))
        await decider.decide(ReleasePin("p"))
        assert decider.replica.pins == {}
        with pytest.raises(NotFound, match="there is no pin p"):
            await decider.decide(ReleasePin("p"))

    simulate(test)


def test_retention_reaches_neither_into_the_future_nor_into_the_life_of_a_request() -> None:
    async def test(decider: Decider) -> None:
        now, day = decider.runtime.now(), 24 * 3600 * 1_000_000
        with pytest.raises(Invalid, match="'namespaces' does not expire by time; these do: operations, rejections"):
            await decider.decide(AdvanceRetention("namespaces", now))
        with pytest.raises(Refused, match="future"):
            await decider.decide(AdvanceRetention("rejections", now + 1))
        for table in ("operations", "requests"):
            with pytest.raises(Refused, match="7 days"):
                await decider.decide(AdvanceRetention(table, now - 6 * day))
            await decider.decide(AdvanceRetention(table, now - 8 * day))
        await decider.decide(AdvanceRetention("rejections", now))
        assert sorted(decider.replica.retention) == ["operations", "rejections", "requests"]

    simulate(test)
