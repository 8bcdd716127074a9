"""Names to ids and back, as readers need them.

- A *ref* is how callers name a namespace or a table: a path (`sales.orders`) or `id:` and its ULID.
- A path resolves level by level, and where a level has no such name, the object that had it before stands in: what was
  renamed is still found under its old path, and readers say so.
- The path of an id is found by walking up its parents; of something dropped, through what it was called last.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from arco.core import Corrupt, NotFound, format_path, parse_path, parse_ulid
from arco.domains.catalog import (
    NAME_CHANGES,
    NAMES,
    NAMESPACES,
    ROOT,
    TABLES,
    Name,
    NameChange,
    Namespace,
    Ref,
    TableRow,
    trace,
)
from arco.domains.catalog.checks import check_namespace_path, check_table_path, nearest
from arco.domains.deployments import ASSETS, WORKSPACE, AssetRow, AssetStatus, resolve_key
from arco.state import Replica, Snapshot, Table, bucket_of

__all__ = [
    "NAMESPACE",
    "TABLE",
    "Namer",
    "Resolved",
    "View",
    "changes_of",
    "find_asset",
    "last_path",
    "load_groups",
    "name_of",
    "namespace_path",
    "parse_ref",
    "position_of_view",
    "resolve_namespace",
    "resolve_table",
    "table_or_asset",
    "table_path",
]

View = Replica | Snapshot
"""What readers read from: the live state or a past one."""

NAMESPACE: Final = "namespace"
TABLE: Final = "table"

_ID: Final = "id:"
_SIBLINGS: Final = 500


@dataclass(frozen=True)
class Resolved:
    """An object that exists."""

    id: str
    path: tuple[str, ...]
    """What it is called now."""
    renamed_from: tuple[str, ...] | None = None
    """The path it was asked for under, if that is an old one."""


def position_of_view(view: View) -> int:
    """Everything up to this position is in the view."""
    return view.position if isinstance(view, Snapshot) else view.watermark


async def load_groups(view: View, table: Table, groups: Iterable[str]) -> None:
    """Bring groups into memory that will be read one after the other, with one read of each file."""
    await view.load(table, {bucket_of(group) for group in groups})


def parse_ref(text: str) -> Ref:
    """A path or `id:` and a ULID. A namespace that is called `id:…` is written in quotes."""
    if text.startswith(_ID):
        return Ref(id=parse_ulid(text[len(_ID) :]))
    return Ref(path=parse_path(text))


async def resolve_namespace(view: View, ref: Ref | str) -> Resolved:
    """The namespace a ref means; `NotFound` with near names if there is none."""
    ref = parse_ref(ref) if isinstance(ref, str) else ref
    found, old = (ref.id, False) if ref.id else await _trace(view, NAMESPACE, check_namespace_path(ref.path))
    path = await namespace_path(view, found) if found != ROOT else None
    return _resolved(NAMESPACE, ref, found, old, path)


async def resolve_table(view: View, ref: Ref | str) -> Resolved:
    """The table a ref means; `NotFound` with near names if there is none."""
    ref = parse_ref(ref) if isinstance(ref, str) else ref
    found, old = (ref.id, False) if ref.id else await _trace(view, TABLE, check_table_path(ref.path))
    return _resolved(TABLE, ref, found, old, await table_path(view, found))


async def find_asset(view: View, path: tuple[str, ...]) -> AssetRow | None:
    """The asset that a path means, or meant last; None if there is none."""
    try:
        return await resolve_key(view, ".".join(path))
    except NotFound:
        return None


async def table_or_asset(view: View, ref: str) -> str:
    """The id of the table that a ref means, or else of the asset with this key or id."""
    try:
        return (await resolve_table(view, ref)).id
    except NotFound:
        given = parse_ref(ref)
        asset: AssetRow | None = (
            await view.get(ASSETS, WORKSPACE, given.id) if given.id else await find_asset(view, given.path)
        )
        if asset is None:
            raise
        return asset.asset_id


def _resolved(kind: str, ref: Ref, id: str, old: bool, path: tuple[str, ...] | None) -> Resolved:
    if path is not None:
        return Resolved(id, path, ref.path if old and path != ref.path else None)
    if ref.id:
        raise NotFound(f"there is no {kind} with the id {id}; it was dropped, or never was")
    raise NotFound(f"the {kind} {format_path(ref.path)} was dropped; read the state as of before that")


async def _trace(view: View, kind: str, path: tuple[str, ...]) -> tuple[str, bool]:
    """The id a path leads to, and whether an old name was needed on the way. What it leads to may be dropped."""
    traced = await trace(view, kind, path)
    if traced is None:
        raise await _missing(view, kind, path)
    return traced.object_id, traced.renamed


async def _missing(view: View, kind: str, path: tuple[str, ...]) -> NotFound:
    """Which level of a path there is not, and what is written nearly like it."""
    parent, depth = ROOT, 1
    while depth < len(path):
        traced = await trace(view, NAMESPACE, path[:depth])
        if traced is None:
            kind = NAMESPACE
            break
        parent, depth = traced.object_id, depth + 1
    name = path[depth - 1]
    siblings = await _siblings(view, parent, kind, name)
    return NotFound(f"there is no {kind} {format_path(path[:depth])}{nearest(name, siblings)}")


async def _siblings(view: View, parent: str, kind: str, name: str) -> list[str]:
    """Names in a namespace; of very many the first ones, and those that begin like the name."""
    rows: list[Name] = await view.page(NAMES, parent, (parent, kind, ""), _SIBLINGS)
    if len(rows) == _SIBLINGS:
        rows += await view.page(NAMES, parent, (parent, kind, name[:2]), _SIBLINGS)
    return [row.name for row in rows if row.kind == kind]


# From ids to paths


async def namespace_path(view: View, namespace_id: str) -> tuple[str, ...] | None:
    """What a namespace is called now; () for `ROOT`, None if there is no such namespace."""
    names: list[str] = []
    seen: set[str] = set()
    while namespace_id != ROOT:
        row: Namespace | None = await view.get(NAMESPACES, namespace_id, namespace_id)
        if row is None:
            return None
        _once(seen, namespace_id)
        names.append(row.name)
        namespace_id = row.parent_id
    return tuple(reversed(names))


async def table_path(view: View, table_id: str) -> tuple[str, ...] | None:
    """What a table is called now, its namespace first; None if there is no such table."""
    row: TableRow | None = await view.get(TABLES, table_id, table_id)
    if row is None:
        return None
    above = await namespace_path(view, row.namespace_id)
    return None if above is None else (*above, row.name)


async def changes_of(view: View, object_id: str) -> list[NameChange]:
    """What a namespace or table was called, oldest first."""
    changes: list[NameChange] = await view.rows(NAME_CHANGES, object_id)
    return changes


async def last_path(view: View, object_id: str) -> tuple[str, ...] | None:
    """What a namespace or table is called, or was called last; None if the catalog never had it."""
    names: list[str] = []
    seen: set[str] = set()
    while object_id != ROOT:
        changes = await changes_of(view, object_id)
        if not changes:
            return None
        _once(seen, object_id)
        names.append(changes[-1].name)
        object_id = changes[-1].parent_id
    return tuple(reversed(names))


class Namer:
    """Names many tables and assets, dropped ones too: each namespace is found once, `load` reads each file once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._above: dict[str, tuple[str, ...] | None] = {}

    async def load(self, table_ids: Iterable[str]) -> None:
        await load_groups(self._view, TABLES, table_ids)

    async def __call__(self, table_id: str) -> tuple[str | None, bool]:
        """The path as text, and whether it exists; of what the catalog never had the path is None."""
        row: TableRow | None = await self._view.get(TABLES, table_id, table_id)
        if row is not None:
            if row.namespace_id not in self._above:
                self._above[row.namespace_id] = await namespace_path(self._view, row.namespace_id)
            path = self._above[row.namespace_id]
            if path is not None:
                return format_path((*path, row.name)), True
        last = await last_path(self._view, table_id)
        if last is not None:
            return format_path(last), False
        asset: AssetRow | None = await self._view.get(ASSETS, WORKSPACE, table_id)
        return (None, False) if asset is None else (asset.key, asset.status == AssetStatus.ACTIVE)


async def name_of(view: View, table_id: str) -> tuple[str | None, bool]:
    """The path of a table or asset as text, and whether it exists: lineage also names those that were dropped.

    Of a dropped one it is the last path, of one that the catalog never had it is None.
    """
    return await Namer(view)(table_id)


def _once(seen: set[str], namespace_id: str) -> None:
    if namespace_id in seen:
        raise Corrupt(f"the namespace {namespace_id} is its own parent; run `arco rebuild --verify`")
    seen.add(namespace_id)
