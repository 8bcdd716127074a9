"""From names to objects and back, at whatever state a view shows: a decider's tail or a reader's snapshot.

A path is walked from `ROOT` by ids. `find_*` knows present names only. `trace` also follows former names, level by
level, to the object that last had the name; where it is called otherwise now, that is what a refusal says.
"""

from typing import NamedTuple

from arco.core import Invalid, NotFound, format_path, format_time, parse_ulid
from arco.domains.catalog.checks import check_namespace_path, check_table_path
from arco.domains.catalog.commands import Ref
from arco.domains.catalog.tables import (
    FORMER_NAMES,
    NAMES,
    NAMESPACES,
    ROOT,
    TABLES,
    FormerName,
    Name,
    Namespace,
    TableRow,
)
from arco.state import View

__all__ = [
    "NAMESPACE",
    "TABLE",
    "Traced",
    "find_namespace_id",
    "find_object_id",
    "known_namespace",
    "known_namespace_id",
    "known_table",
    "path_of_namespace",
    "path_of_table",
    "trace",
]

NAMESPACE = "namespace"
TABLE = "table"

Path = tuple[str, ...]


class Traced(NamedTuple):
    """What a path leads to when former names count too."""

    object_id: str
    renamed: bool
    """True if some name on the way is a former one."""
    until: int
    """When the last such name was given up; 0 if none was."""


async def find_object_id(view: View, parent_id: str, kind: str, name: str) -> str | None:
    """What a name means inside a namespace now."""
    row: Name | None = await view.get(NAMES, parent_id, (parent_id, kind, name))
    return None if row is None else row.object_id


async def find_namespace_id(view: View, path: Path) -> str | None:
    """The id of the namespace with this path now; that of the empty path is `ROOT`."""
    at: str | None = ROOT
    for name in path:
        if at is None:
            return None
        at = await find_object_id(view, at, NAMESPACE, name)
    return at


async def trace(view: View, kind: str, path: Path) -> Traced | None:
    """The object that has this path, or had it last."""
    at, renamed, until = ROOT, False, 0
    for depth, name in enumerate(path, 1):
        part = kind if depth == len(path) else NAMESPACE
        found = await find_object_id(view, at, part, name)
        if found is None:
            former: FormerName | None = await view.get(FORMER_NAMES, at, (at, part, name))
            if former is None:
                return None
            found, renamed, until = former.object_id, True, former.until
        at = found
    return Traced(at, renamed, until)


async def path_of_namespace(view: View, namespace_id: str) -> Path:
    """The names from the top down to a namespace that exists; none for `ROOT`."""
    names: list[str] = []
    while namespace_id != ROOT:
        row: Namespace = await view.get(NAMESPACES, namespace_id, namespace_id)
        names.append(row.name)
        namespace_id = row.parent_id
    return tuple(reversed(names))


async def path_of_table(view: View, row: TableRow) -> Path:
    return (*await path_of_namespace(view, row.namespace_id), row.name)


async def known_namespace(view: View, ref: Ref) -> tuple[Namespace, Path]:
    """The namespace a command names, with its path; `NotFound` says what to do instead."""
    _check_ref(ref)
    found = parse_ulid(ref.id) if ref.id else await find_namespace_id(view, check_namespace_path(ref.path))
    row: Namespace | None = await view.get(NAMESPACES, found, found) if found is not None else None
    if row is None:
        raise await _missing(view, NAMESPACE, ref)
    return row, ref.path or await path_of_namespace(view, row.namespace_id)


async def known_namespace_id(view: View, path: Path) -> str:
    """The id of the namespace in which something is to be; the empty path is the top."""
    found = await find_namespace_id(view, path)
    if found is None:
        raise await _missing(view, NAMESPACE, Ref(path=path))
    return found


async def known_table(view: View, ref: Ref) -> tuple[TableRow, Path]:
    """The table a command names, with its path; `NotFound` says what to do instead."""
    _check_ref(ref)
    found: str | None = parse_ulid(ref.id) if ref.id else None
    if found is None:
        check_table_path(ref.path)
        parent = await find_namespace_id(view, ref.path[:-1])
        found = await find_object_id(view, parent, TABLE, ref.path[-1]) if parent is not None else None
    row: TableRow | None = await view.get(TABLES, found, found) if found is not None else None
    if row is None:
        raise await _missing(view, TABLE, ref)
    return row, ref.path or await path_of_table(view, row)


def _check_ref(ref: Ref) -> None:
    if bool(ref.path) == bool(ref.id):
        raise Invalid("name a thing by its path or by its id, by exactly one of them")


async def _missing(view: View, kind: str, ref: Ref) -> NotFound:
    """Why there is nothing of this name, and what to do."""
    if ref.id:
        return NotFound(f"there is no {kind} with the id {ref.id}; it was dropped, or never was")
    text = format_path(ref.path)
    traced = await trace(view, kind, ref.path)
    if traced is not None:
        now = await _path_now(view, kind, traced.object_id)
        if now is not None:
            name = format_path(now)
            return NotFound(f"the {kind} {text} is called {name} now; use that name", renamed_to=name)
        when = format_time(traced.until)
        return NotFound(f"the {kind} {text} does not exist: it was dropped at {when}", dropped_at=when)
    for depth in range(1, len(ref.path)):
        if await find_namespace_id(view, ref.path[:depth]) is None:
            parent = format_path(ref.path[:depth])
            return NotFound(f"the {kind} {text} does not exist: there is no namespace {parent}; create that first")
    return NotFound(f"the {kind} {text} does not exist; check its name, or create it first")


async def _path_now(view: View, kind: str, object_id: str) -> Path | None:
    """What an object is called now; None if it was dropped."""
    if kind == NAMESPACE:
        exists = await view.get(NAMESPACES, object_id, object_id) is not None
        return await path_of_namespace(view, object_id) if exists else None
    row: TableRow | None = await view.get(TABLES, object_id, object_id)
    return None if row is None else await path_of_table(view, row)
