"""Deciders of namespaces: create, update, rename with all they hold, drop."""

from msgspec import UNSET

from arco.core import Conflict, NotFound, PreconditionFailed, Refused, format_path
from arco.domains.catalog.checks import (
    MAX_DEPTH,
    changed_pairs,
    check_description,
    check_namespace_path,
    check_pairs,
    is_iceberg,
)
from arco.domains.catalog.commands import CreateNamespace, DropNamespace, RenameNamespace, UpdateNamespace
from arco.domains.catalog.events import (
    NAMESPACE_CREATED,
    NAMESPACE_DROPPED,
    NAMESPACE_RENAMED,
    NAMESPACE_UPDATED,
    TABLE_DROPPED,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceRenamed,
    NamespaceUpdated,
    TableDropped,
)
from arco.domains.catalog.resolve import NAMESPACE, TABLE, find_object_id, known_namespace, known_namespace_id
from arco.domains.catalog.tables import NAMES, NAMESPACES, ROOT, Name, Namespace
from arco.log import NewEvent
from arco.state import Decision, View, new_event

__all__ = ["check_version", "create_namespace", "drop_namespace", "rename_namespace", "update_namespace"]

MAX_CASCADE = 1_000
MAX_MOVED = 1_000
"""How many namespaces a move to a deeper level looks at, to keep within the depth."""

Path = tuple[str, ...]


def check_version(what: str, path: Path, version: int, expected: int | None) -> None:
    """Refuse to change what is no longer what the caller looked at."""
    if expected is not None and version != expected:
        raise PreconditionFailed(
            f"the {what} {format_path(path)} has version {version}, not {expected}: it changed since you looked; "
            "read it again",
            version=version,
        )


async def create_namespace(command: CreateNamespace, view: View, decision: Decision) -> list[NewEvent]:
    path = check_namespace_path(command.path)
    description, properties = check_description(command.description), check_pairs("property", command.properties)
    parent_id = await known_namespace_id(view, path[:-1])
    if await find_object_id(view, parent_id, NAMESPACE, path[-1]) is not None:
        if command.if_not_exists:
            return []
        raise Conflict(f"the namespace {format_path(path)} exists already; choose another name, or use if_not_exists")
    event = NamespaceCreated(decision.new_id("namespace"), parent_id, path[-1], description, properties)
    return [new_event(NAMESPACE_CREATED, event, subject=format_path(path))]


async def update_namespace(command: UpdateNamespace, view: View, decision: Decision) -> list[NewEvent]:
    row, path = await known_namespace(view, command.namespace)
    check_version(NAMESPACE, path, row.version, command.expected_version)
    properties = changed_pairs("property", row.properties, command.set_properties, command.remove_properties)
    description = row.description if command.description is UNSET else check_description(command.description)
    if (description, properties) == (row.description, row.properties):
        return []
    event = NamespaceUpdated(row.namespace_id, description, properties)
    return [new_event(NAMESPACE_UPDATED, event, subject=format_path(path))]


async def rename_namespace(command: RenameNamespace, view: View, decision: Decision) -> list[NewEvent]:
    row, path = await known_namespace(view, command.namespace)
    check_version(NAMESPACE, path, row.version, command.expected_version)
    new_path = check_namespace_path(command.new_path)
    if new_path == path:
        return []
    parent_id = await known_namespace_id(view, new_path[:-1])
    await _check_not_below(view, row, path, parent_id)
    if await find_object_id(view, parent_id, NAMESPACE, new_path[-1]) is not None:
        raise Conflict(f"the namespace {format_path(new_path)} exists already; choose another name")
    if len(new_path) > len(path):
        await _check_depth(view, row, len(new_path), format_path(path))
    event = NamespaceRenamed(row.namespace_id, parent_id, new_path[-1])
    return [new_event(NAMESPACE_RENAMED, event, subject=format_path(new_path))]


async def drop_namespace(command: DropNamespace, view: View, decision: Decision) -> list[NewEvent]:
    try:
        row, path = await known_namespace(view, command.namespace)
    except NotFound:
        if command.if_exists:
            return []
        raise
    check_version(NAMESPACE, path, row.version, command.expected_version)
    if not command.cascade:
        await _check_empty(view, row, path)
    events: list[NewEvent] = []
    await _drop(view, row.namespace_id, path, path, events)
    return events


async def _drop(view: View, namespace_id: str, path: Path, top: Path, events: list[NewEvent]) -> None:
    """Events that drop what a namespace holds, the deepest first, and then itself."""
    held: list[Name] = await view.page(NAMES, namespace_id, None, MAX_CASCADE + 1)
    for name in held:
        below = (*path, name.name)
        if name.kind == NAMESPACE:
            await _drop(view, name.object_id, below, top, events)
        elif is_iceberg(name.format):
            raise Refused(
                f"the namespace {format_path(top)} cannot be dropped with all it holds: {format_path(below)} is an "
                "Iceberg table or view, which is dropped by its name; drop such ones first"
            )
        else:
            events.append(new_event(TABLE_DROPPED, TableDropped(name.object_id), subject=format_path(below)))
        if len(events) > MAX_CASCADE:
            raise Refused(
                f"the namespace {format_path(top)} holds more than {MAX_CASCADE} namespaces and tables, too many to "
                "drop at once; drop parts of it first"
            )
    events.append(new_event(NAMESPACE_DROPPED, NamespaceDropped(namespace_id), subject=format_path(path)))


async def _check_empty(view: View, row: Namespace, path: Path) -> None:
    held: list[Name] = await view.page(NAMES, row.namespace_id, None, MAX_CASCADE + 1)
    if not held:
        return
    namespaces = sum(name.kind == NAMESPACE for name in held)
    counts = [(namespaces, NAMESPACE), (len(held) - namespaces, TABLE)]
    holds = " and ".join(f"{count} {what}{'s' * (count > 1)}" for count, what in counts if count)
    if len(held) > MAX_CASCADE:
        holds = f"more than {MAX_CASCADE} namespaces and tables"
    some = ", ".join(name.name for name in held[:3]) + (", ..." if len(held) > 3 else "")
    raise Refused(
        f"the namespace {format_path(path)} cannot be dropped: it holds {holds} ({some}); drop them first, "
        "or use cascade"
    )


async def _check_not_below(view: View, row: Namespace, path: Path, parent_id: str) -> None:
    at = parent_id
    while at != ROOT:
        if at == row.namespace_id:
            raise Refused(f"the namespace {format_path(path)} cannot move below itself; choose a name outside of it")
        above: Namespace = await view.get(NAMESPACES, at, at)
        at = above.parent_id


async def _check_depth(view: View, row: Namespace, depth: int, text: str) -> None:
    """What the namespace holds must not get deeper than names may be."""
    level, seen = [row.namespace_id], 0
    while level:
        if depth > MAX_DEPTH:
            raise Refused(f"the namespace {text} holds namespaces that would be deeper than {MAX_DEPTH} levels there")
        below: list[str] = []
        for namespace_id in level:
            # Namespaces come before tables, so that few rows are read however many tables there are.
            held: list[Name] = await view.page(NAMES, namespace_id, None, MAX_MOVED + 1)
            below += [name.object_id for name in held if name.kind == NAMESPACE]
        seen += len(below)
        if seen > MAX_MOVED:
            raise Refused(
                f"the namespace {text} holds more than {MAX_MOVED} namespaces, too many to move to a deeper level at "
                "once; move parts of it first"
            )
        level, depth = below, depth + 1
