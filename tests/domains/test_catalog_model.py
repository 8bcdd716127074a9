"""Random commands on the catalog and on a model of a few dictionaries: the same grants, names, columns and versions."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Invalid, NotFound, Refused
from arco.domains.catalog import (
    COLUMNS,
    FORMER_NAMES,
    NAME_CHANGES,
    NAMES,
    NAMESPACES,
    ROOT,
    SCHEMA_VERSIONS,
    TABLES,
    AddColumn,
    AlterColumn,
    AlterTable,
    CreateNamespace,
    CreateTable,
    DropColumn,
    DropNamespace,
    DropTable,
    Ref,
    RenameNamespace,
    RenameTable,
    UpdateNamespace,
    UpdateTable,
    trace,
)
from arco.log import NewEvent
from tests.domains.deciding import LOG, Catalog, simulate
from tests.state.doubles import digests, rows_of

Path = tuple[str, ...]
Key = tuple[str, str, str]
"""Parent, kind and name."""


class Model:
    """The catalog as a newcomer would write it down. An operation returns whether it is granted."""

    def __init__(self) -> None:
        self.names: dict[Key, str] = {}
        self.last: dict[Key, str] = {}
        """Who last had each name."""
        self.place: dict[str, Key] = {}
        self.version: dict[str, int] = {}
        self.columns: dict[str, dict[str, str]] = {}
        """Of each table, names to ids, in order."""
        self.schemas: dict[str, int] = {}
        self.called: dict[str, int] = {}
        """How many names each object got."""

    def find(self, kind: str, path: Path) -> str | None:
        at = ROOT
        for depth, name in enumerate(path, 1):
            found = self.names.get((at, kind if depth == len(path) else "namespace", name))
            if found is None:
                return None
            at = found
        return at

    def put(self, kind: str, path: Path, key: str) -> None:
        parent = self.find("namespace", path[:-1])
        assert parent is not None
        if key in self.place:
            del self.names[self.place[key]]
        self.place[key] = (parent, kind, path[-1])
        self.names[self.place[key]] = self.last[self.place[key]] = key
        self.version[key] = self.version.get(key, 0) + 1
        self.called[key] = self.called.get(key, 0) + 1

    def is_free(self, kind: str, path: Path) -> bool:
        return self.find("namespace", path[:-1]) is not None and self.find(kind, path) is None

    def inside(self, key: str) -> list[str]:
        return [found for (parent, _, _), found in self.names.items() if parent == key]

    def is_below(self, key: str, other: str) -> bool:
        while other != ROOT and other != key:
            other = self.place[other][0]
        return other == key

    def drop(self, key: str) -> None:
        for child in self.inside(key):
            self.drop(child)
        del self.names[self.place.pop(key)]
        self.columns.pop(key, None)


class Run:
    """A catalog and its model, given the same commands."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.model = Model()

    async def ask(self, command: Any) -> None:
        granted = self.grants(command)
        before = len(self.catalog.log)
        if granted is None:
            with pytest.raises(Refused):
                await self.catalog.decide(command)
            assert len(self.catalog.log) == before
            return
        events = await self.catalog.decide(command)
        assert bool(events) == granted
        self.note(command, events)

    def grants(self, command: Any) -> bool | None:
        """None if it is refused, else whether it changes something."""
        model = self.model
        match command:
            case CreateNamespace():
                return model.is_free("namespace", command.path) or None
            case CreateTable():
                return model.is_free("table", command.path) or None
            case UpdateNamespace() | RenameNamespace() | DropNamespace():
                key = model.find("namespace", command.namespace.path)
            case _:
                key = model.find("table", command.table.path)
        if key is None:
            return None
        match command:
            case DropNamespace():
                return (command.cascade or not model.inside(key)) or None
            case RenameNamespace():
                if command.new_path == command.namespace.path:
                    return False
                parent = model.find("namespace", command.new_path[:-1])
                below = parent is not None and model.is_below(key, parent)
                return (model.is_free("namespace", command.new_path) and not below) or None
            case RenameTable():
                return command.new_path != command.table.path and (model.is_free("table", command.new_path) or None)
            case AlterTable():
                return self._alters(model.columns[key], command.changes[0])
        return True

    @staticmethod
    def _alters(columns: dict[str, str], change: AddColumn | AlterColumn | DropColumn) -> bool | None:
        if isinstance(change, AddColumn):
            return change.name not in columns or None
        if change.column not in columns:
            return None
        if isinstance(change, DropColumn) or change.new_name not in columns:
            return True
        return False if change.new_name == change.column else None

    def note(self, command: Any, events: list[NewEvent]) -> None:
        """Write down what was granted, with the ids that it got."""
        model = self.model
        data = [msgspec.json.decode(event.data) for event in events]
        if not data:
            return
        match command:
            case CreateNamespace():
                model.put("namespace", command.path, data[0]["namespace_id"])
            case CreateTable():
                key = data[0]["table_id"]
                model.put("table", command.path, key)
                model.columns[key] = {new["name"]: new["column_id"] for new in data[0].get("columns", ())}
                model.schemas[key] = 1
            case RenameNamespace():
                model.put("namespace", command.new_path, data[0]["namespace_id"])
            case RenameTable():
                model.put("table", command.new_path, data[0]["table_id"])
            case DropNamespace():
                model.drop(data[-1]["namespace_id"])
            case DropTable():
                model.drop(data[0]["table_id"])
            case UpdateNamespace():
                model.version[data[0]["namespace_id"]] += 1
            case UpdateTable():
                model.version[data[0]["table_id"]] += 1
            case AlterTable():
                key = data[0]["table_id"]
                model.version[key] += 1
                model.schemas[key] += 1
                self._note_columns(model.columns, key, command.changes[0], data[0])

    @staticmethod
    def _note_columns(columns: dict[str, dict[str, str]], key: str, change: Any, data: dict[str, Any]) -> None:
        match change:
            case AddColumn():
                columns[key][change.name] = data["added"][0]["column_id"]
            case DropColumn():
                del columns[key][change.column]
            case _:
                columns[key] = {
                    change.new_name if name == change.column else name: found for name, found in columns[key].items()
                }

    async def check(self) -> None:
        catalog, model = self.catalog, self.model
        names = {
            (row["parent_id"], row["kind"], row["name"]): row["object_id"]
            for row in await rows_of(catalog.replica, NAMES)
        }
        assert names == model.names
        former = {
            (row["parent_id"], row["kind"], row["name"]): row["object_id"]
            for row in await rows_of(catalog.replica, FORMER_NAMES)
        }
        assert former == {key: found for key, found in model.last.items() if key not in model.names}
        rows = await rows_of(catalog.replica, NAMESPACES) + await rows_of(catalog.replica, TABLES)
        versions = {row.get("table_id") or row["namespace_id"]: row["version"] for row in rows}
        assert versions == {key: model.version[key] for key in model.place}
        for key, columns in model.columns.items():
            found = sorted(await catalog.replica.rows(COLUMNS, key), key=lambda row: row.ordinal_position)
            active = {row.name: row.column_id for row in found if row.status == "active"}
            assert list(active.items()) == list(columns.items())
            schemas = await catalog.replica.rows(SCHEMA_VERSIONS, key)
            assert [row.version for row in schemas] == list(range(1, model.schemas[key] + 1))
            assert [column.column_id for column in schemas[-1].columns] == list(columns.values())
        for key, count in model.called.items():
            changes = await catalog.replica.rows(NAME_CHANGES, key)
            assert [row.change for row in changes] == (
                ["created"] + ["renamed"] * (count - 1) + ["dropped"] * (key not in model.place)
            )
        await self._check_old_paths()
        assert await rows_of(catalog.replica, LOG.tables["rejections"]) == []
        assert await digests(LOG, catalog.replica) == await digests(LOG, await catalog.refolded())

    async def _check_old_paths(self) -> None:
        """A name leads to who has it, or to who had it last; a refusal says how that one is called now."""
        for (parent, kind, name), key in self.model.last.items():
            path = await self._path(parent)
            if path is None:
                continue
            traced = await trace(self.catalog.replica, kind, (*path, name))
            assert traced is not None
            assert traced.object_id == key
            if kind == "table" and key not in self.model.names.values():
                with pytest.raises(NotFound, match="it was dropped at"):
                    await self.catalog.decide(DropTable(Ref(path=(*path, name))))

    async def _path(self, key: str) -> Path | None:
        names: list[str] = []
        while key != ROOT:
            if key not in self.model.place:
                return None
            key, _, name = self.model.place[key]
            names.append(name)
        return tuple(reversed(names))


names = st.sampled_from("ab")
spaces = st.lists(names, min_size=1, max_size=3).map(tuple)
tables = st.tuples(names, names) | st.tuples(names, names, names)
columns = st.sampled_from(["x", "y", "z"])
changes = (
    st.builds(AddColumn, columns, st.just("int"))
    | st.builds(AlterColumn, columns, new_name=columns)
    | st.builds(DropColumn, columns)
)
at_space = spaces.map(lambda path: Ref(path=path))
at_table = tables.map(lambda path: Ref(path=path))
fresh = st.uuids().map(str)
commands = st.one_of(
    st.builds(CreateNamespace, spaces),
    st.builds(CreateNamespace, spaces),
    st.builds(UpdateNamespace, at_space, fresh),
    st.builds(RenameNamespace, at_space, spaces),
    st.builds(DropNamespace, at_space, cascade=st.booleans()),
    st.builds(CreateTable, tables, columns=st.just((AddColumn("x", "int"),))),
    st.builds(UpdateTable, at_table, fresh),
    st.builds(RenameTable, at_table, tables),
    st.builds(DropTable, at_table),
    st.builds(AlterTable, at_table, changes.map(lambda change: (change,))),
    st.builds(AlterTable, at_table, changes.map(lambda change: (change,))),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(commands, min_size=5, max_size=40))
def test_the_catalog_is_what_a_few_dictionaries_say(asked: list[Any]) -> None:
    async def test(catalog: Catalog) -> None:
        run = Run(catalog)
        # Without these most commands find nothing.
        for command in (CreateNamespace(("a",)), CreateNamespace(("a", "b")), CreateTable(("a", "a")), *asked):
            await run.ask(command)
        await run.check()

    simulate(test)


texts = st.text(max_size=8) | st.sampled_from(["a", "b", "..", "x/y", "*", "", "а", "\x00", "a" * 300])  # noqa: RUF001
paths = st.lists(texts, max_size=3).map(tuple)


@settings(deadline=None, max_examples=60)
@given(paths, texts, texts)
def test_whatever_is_asked_is_answered_with_a_refusal_or_done(path: Path, text: str, kind: str) -> None:
    async def test(catalog: Catalog) -> None:
        await catalog.create("a")
        await catalog.create_table("a.b", "x:int")
        for command in (
            CreateNamespace(path, text, {text: text}),
            UpdateNamespace(Ref(path=path), text, {text: text}),
            RenameNamespace(Ref(path=("a",)), path),
            CreateTable(path, kind, text, (AddColumn(text, kind),), text, (text,), {text: text}),
            UpdateTable(Ref(path=("a", "b")), text, (text,), {text: text}, text),
            RenameTable(Ref(path=path), (*path, text)),
            AlterTable(Ref(path=("a", "b")), (AlterColumn(text, new_name=kind, data_type=text), DropColumn(kind))),
            DropTable(Ref(path=path, id=text)),
            DropNamespace(Ref(id=text), cascade=True),
        ):
            try:
                await catalog.decide(command)
            except (Invalid, Refused) as refusal:
                assert refusal.message.isprintable()  # noqa: PT017 - either outcome is right
        assert await digests(LOG, catalog.replica) == await digests(LOG, await catalog.refolded())

    simulate(test)
