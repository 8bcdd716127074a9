"""A catalog in memory that decides commands one by one, as an owner does, without a store."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from arco.core import format_path, new_ulid
from arco.domains.catalog import (
    CATALOG,
    COLUMNS,
    NAMES,
    NAMESPACES,
    TABLES,
    AddColumn,
    AlterTable,
    Column,
    CreateNamespace,
    CreateTable,
    Ref,
    TableRow,
    find_namespace_id,
    path_of_namespace,
    path_of_table,
)
from arco.log import Command, Event, Header, Link, NewEvent, Place, Segment
from arco.state import LayerReader, Replica, define_log, empty_manifest
from arco.storage import MemoryStore
from tests.doubles import START, FakeRuntime, run
from tests.state.doubles import replica_of, rows_of

__all__ = ["LOG", "PLACE", "Catalog", "at", "simulate"]

LOG = define_log("catalog", [CATALOG])
PLACE = Place("acme", "prod", "inc-1", "catalog")


def at(text: str) -> Ref:
    """What a path of plain names refers to."""
    return Ref(path=tuple(text.split(".")))


class Catalog:
    """Every command is decided, tried on a draft and folded; what was decided must never be rejected by the fold."""

    def __init__(self) -> None:
        self.runtime = FakeRuntime()
        self.replica = Replica(LOG, LayerReader(MemoryStore()), empty_manifest(PLACE))
        self.log: list[tuple[Segment, Link]] = []

    def id(self) -> str:
        return new_ulid(self.runtime, self.runtime)

    @property
    def now(self) -> int:
        """When the next command is received."""
        return START + (len(self.log) + 1) * 1_000_000

    async def decide(self, payload: msgspec.Struct, *, actor: str = "me") -> list[NewEvent]:
        draft = self.replica.draft()
        name = type(payload).__name__
        command = Command(self.id(), actor, name, msgspec.Raw(msgspec.json.encode(payload)))
        new = list(await draft.decide(command, self.now))
        events = [
            Event(
                self.id(),
                item.type,
                "",
                "arco",
                actor,
                command.operation,
                item.data,
                version=item.version,
                subject=item.subject,
                command=name,
                span=len(new),
            )
            for item in new
        ]
        await draft.stage(len(self.log) + 1, 0, events, self.now)
        if events:
            await self._append(events)
        return new

    async def _append(self, events: list[Event]) -> None:
        number, received = len(self.log) + 1, self.now
        header = Header(1, "catalog", number, "id", "", "inc-1", "acme", "prod", "me", received, {})
        self.log.append((Segment(header, tuple(events)), Link(number, "", received)))
        await self.replica.apply(self.log[-1:])

    async def create(self, text: str, **more: Any) -> str:
        """Create a namespace; its id."""
        await self.decide(CreateNamespace(tuple(text.split(".")), **more))
        found = await find_namespace_id(self.replica, tuple(text.split(".")))
        assert found is not None
        return found

    async def create_table(self, text: str, *columns: str, **more: Any) -> str:
        """Create a table with columns written as `name:type`, `name:type!` for required ones; its id."""
        specs = tuple(
            AddColumn(name, kind.removesuffix("!"), is_nullable=not kind.endswith("!"))
            for name, kind in (column.split(":", 1) for column in columns)
        )
        await self.decide(CreateTable(tuple(text.split(".")), columns=specs, **more))
        return (await self.table(text)).table_id

    async def alter(self, text: str, *changes: Any, **more: Any) -> list[NewEvent]:
        return await self.decide(AlterTable(at(text), changes, **more))

    async def table(self, text: str) -> TableRow:
        *above, name = text.split(".")
        parent = await find_namespace_id(self.replica, tuple(above))
        assert parent is not None
        found = await self.replica.get(NAMES, parent, (parent, "table", name))
        row: TableRow = await self.replica.get(TABLES, found.object_id, found.object_id)
        return row

    async def columns(self, text: str, *, inactive: bool = False) -> list[Column]:
        """The columns of a table in their order."""
        rows: list[Column] = await self.replica.rows(COLUMNS, (await self.table(text)).table_id)
        return sorted((row for row in rows if inactive or row.status == "active"), key=lambda row: row.ordinal_position)

    async def column(self, text: str, name: str) -> Column:
        (found,) = [column for column in await self.columns(text) if column.name == name]
        return found

    async def schema(self, text: str) -> list[str]:
        """The active columns as `name:type`, with `!` for required ones."""
        return [f"{c.name}:{c.data_type}{'' if c.is_nullable else '!'}" for c in await self.columns(text)]

    async def names(self) -> list[str]:
        """Paths of all namespaces."""
        rows = await rows_of(self.replica, NAMESPACES)
        return sorted([format_path(await path_of_namespace(self.replica, row["namespace_id"])) for row in rows])

    async def tables(self) -> list[str]:
        """Paths of all tables."""
        ids = [row["table_id"] for row in await rows_of(self.replica, TABLES)]
        found = [await self.replica.get(TABLES, key, key) for key in ids]
        return sorted([format_path(await path_of_table(self.replica, row)) for row in found])

    async def refolded(self) -> Replica:
        """The state of the whole log, folded at once."""
        return await replica_of(LOG, [self.log], PLACE)


def simulate(test: Callable[[Catalog], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(Catalog())

    run(main())
