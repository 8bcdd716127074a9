"""Names of tables and views: what each means in the catalog now, and what clients are told when it means nothing.

A *path* is the levels of a namespace and a name. Only present names count: Iceberg's clients know no former ones.
Tables and views share one space of names with each other and with tables of other formats; the latter take a name, but
are nothing that Iceberg could load.

A process that owns the log answers from its memory. That something does not exist is said only after a look at the
store, so that an owner who was replaced without noticing does not deny what others made; that something exists is
confirmed by its pointer, which is always asked.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from arco.core import Invalid, NotFound
from arco.domains.catalog import (
    ICEBERG,
    ICEBERG_VIEW,
    NAMES,
    TABLES,
    Name,
    TableRow,
    find_namespace_id,
    path_of_table,
)
from arco.domains.catalog.checks import check_namespace_path, check_table_path
from arco.iceberg._errors import AlreadyExists, BadRequest, NoSuchNamespace, NoSuchTable, NoSuchView
from arco.iceberg._namespaces import folder_of
from arco.iceberg._pointer import Kind
from arco.runtime import OpenLog
from arco.state import Replica, Snapshot

__all__ = [
    "FORMATS",
    "Named",
    "Names",
    "Path",
    "check_path",
    "dotted",
    "find_in",
    "is_taken",
    "no_such",
    "taken_by_rename",
]

Path = tuple[str, ...]
View = Replica | Snapshot

FORMATS: Final[dict[Kind, str]] = {"table": ICEBERG, "view": ICEBERG_VIEW}
_KINDS: Final[dict[str, Kind]] = {ICEBERG: "table", ICEBERG_VIEW: "view"}
_TABLE: Final = "table"
"""How the catalog calls all of them."""


MAX_SHOWN: Final = 1_000

MAX_FOUND: Final = 10_000
"""Names that are remembered while the catalog stays as it is."""


@dataclass(frozen=True, slots=True)
class Named:
    """What has a name now."""

    table_id: str
    path: Path
    kind: Kind | None
    """None if it is of another format, and so nothing to Iceberg."""
    version: int
    """Of its row in the catalog."""


def dotted(path: Iterable[str]) -> str:
    """A path as Iceberg's clients write it, and as they expect it in messages; a very long one is cut."""
    text = ".".join(path)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def check_path(path: Path) -> Path:
    """The path of a table or view, if it may be one."""
    try:
        return check_table_path(path)
    except Invalid as error:
        raise BadRequest(error.message, **error.details) from None


def no_such(kind: Kind, path: Path) -> NotFound:
    if kind == "view":
        return NoSuchView(f"View does not exist: {dotted(path)}")
    return NoSuchTable(f"Table does not exist: {dotted(path)}")


def is_taken(kind: Kind, named: Named) -> AlreadyExists:
    """Why a table or view cannot be created under a name; `kind` in the details is what has it."""
    holder = named.kind or "table"
    if holder == kind:
        return AlreadyExists(f"{kind.capitalize()} already exists: {dotted(named.path)}", kind=named.kind)
    return AlreadyExists(f"{holder.capitalize()} with same name already exists: {dotted(named.path)}", kind=named.kind)


def taken_by_rename(source: Path, named: Named) -> AlreadyExists:
    holder = (named.kind or "table").capitalize()
    return AlreadyExists(f"Cannot rename {dotted(source)} to {dotted(named.path)}. {holder} already exists")


class Names:
    def __init__(self, catalog: OpenLog) -> None:
        self._log = catalog
        self._found: dict[Path, Named] = {}  # what was found at this position
        self._position = -1

    async def find(self, path: Path) -> Named | None:
        """What has this name now; None if nothing has."""
        if self._log.owning:
            position = await self._log.current(strong=False)
            if position != self._position:
                self._found.clear()
                self._position = position
            known = self._found.get(path)
            if known is not None:
                return known
        (found,), position = await self._find_all([path])
        if found is not None and position == self._position and len(self._found) < MAX_FOUND:
            self._found[path] = found
        return found

    async def find_all(self, paths: Iterable[Path]) -> list[Named | None]:
        """What several names mean in one state."""
        found, _ = await self._find_all(paths)
        return found

    async def _find_all(self, paths: Iterable[Path]) -> tuple[list[Named | None], int]:
        checked = [check_path(path) for path in paths]

        async def work(view: View) -> list[Named | None]:
            return [await find_in(view, path) for path in checked]

        if self._log.owning:
            found, position = await self._log.read(work, strong=False)
            if all(found):
                return found, position
        return await self._log.read(work)

    async def find_id(self, table_id: str) -> Named | None:
        """What an id is called now."""

        async def work(view: View) -> Named | None:
            row: TableRow | None = await view.get(TABLES, table_id, table_id)
            return None if row is None else _named(row, await path_of_table(view, row))

        found, _ = await self._log.read(work)
        return found

    async def folder_of(self, namespace: Path) -> str | None:
        """Where what is created in a namespace lies, if the namespace says so; by what this process knows."""

        async def work(view: View) -> str | None:
            return await folder_of(view, namespace)

        found, _ = await self._log.read(work, strong=False)
        return found

    async def check_namespace(self, path: Path) -> None:
        """`NoSuchNamespace` unless there is such a namespace."""
        try:
            check_namespace_path(path)
        except Invalid as error:
            raise BadRequest(error.message, **error.details) from None

        async def work(view: View) -> bool:
            return await find_namespace_id(view, path) is not None

        if self._log.owning and (await self._log.read(work, strong=False))[0]:
            return
        if not (await self._log.read(work))[0]:
            raise NoSuchNamespace(f"Namespace does not exist: {dotted(path)}")


async def find_in(view: View, path: Path) -> Named | None:
    """What a name means in a state."""
    parent = await find_namespace_id(view, path[:-1])
    if parent is None:
        return None
    name: Name | None = await view.get(NAMES, parent, (parent, _TABLE, path[-1]))
    if name is None:
        return None
    row: TableRow | None = await view.get(TABLES, name.object_id, name.object_id)
    return None if row is None else _named(row, path)


def _named(row: TableRow, path: Path) -> Named:
    return Named(row.table_id, path, _KINDS.get(row.format), row.version)
