"""Commands of the catalog and what decides them. A refusal says why; nothing is written then."""

from typing import Any

import msgspec

from arco.core import Conflict, Invalid, NotFound, Refused, check_catalog_name, parse_ulid
from arco.domains.catalog.events import (
    NAMESPACE_CREATED,
    NAMESPACE_DROPPED,
    NAMESPACE_RENAMED,
    NAMESPACE_UPDATED,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceRenamed,
    NamespaceUpdated,
)
from arco.domains.catalog.tables import NAMES, NAMESPACES, Namespace, joined
from arco.log import NewEvent
from arco.state import Decider, Decision, View, new_event

__all__ = ["COMMANDS", "CreateNamespace", "DropNamespace", "RenameNamespace", "UpdateNamespace"]

MAX_DEPTH = 16


class CreateNamespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace_id: str
    """Minted by whoever asks, so that asking twice means the same namespace."""
    path: tuple[str, ...]
    description: str | None = None
    properties: dict[str, str] = {}


class UpdateNamespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: tuple[str, ...]
    description: str | None = None
    properties: dict[str, str] = {}


class RenameNamespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: tuple[str, ...]
    new_path: tuple[str, ...]


class DropNamespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: tuple[str, ...]


def _checked(path: tuple[str, ...]) -> tuple[str, ...]:
    if not 1 <= len(path) <= MAX_DEPTH:
        raise Invalid(f"a namespace has 1 to {MAX_DEPTH} levels, this one has {len(path)}")
    for part in path:
        check_catalog_name("namespace", part)
    return path


async def _find(view: View, path: tuple[str, ...]) -> Namespace | None:
    parent = joined(path[:-1])
    name = await view.get(NAMES, parent, (parent, path[-1]))
    if name is None:
        return None
    found: Namespace | None = await view.get(NAMESPACES, name.namespace_id, name.namespace_id)
    return found


async def _known(view: View, path: tuple[str, ...]) -> Namespace:
    found = await _find(view, _checked(path))
    if found is None:
        raise NotFound(f"the namespace {'.'.join(path)} does not exist")
    return found


async def _check_free(view: View, path: tuple[str, ...]) -> None:
    if await _find(view, path) is not None:
        raise Conflict(f"the namespace {'.'.join(path)} exists already")
    if len(path) > 1 and await _find(view, path[:-1]) is None:
        raise NotFound(f"the parent namespace {'.'.join(path[:-1])} does not exist; create it first")


async def _create(command: CreateNamespace, view: View, decision: Decision) -> list[NewEvent]:
    parse_ulid(command.namespace_id)
    await _check_free(view, _checked(command.path))
    if await view.get(NAMESPACES, command.namespace_id, command.namespace_id) is not None:
        raise Conflict(f"the id {command.namespace_id} belongs to another namespace; mint a new one")
    event = NamespaceCreated(command.namespace_id, command.path, command.description, command.properties)
    return [new_event(NAMESPACE_CREATED, event, subject=".".join(command.path))]


async def _update(command: UpdateNamespace, view: View, decision: Decision) -> list[NewEvent]:
    found = await _known(view, command.path)
    event = NamespaceUpdated(found.namespace_id, command.description, command.properties)
    return [new_event(NAMESPACE_UPDATED, event, subject=".".join(command.path))]


async def _rename(command: RenameNamespace, view: View, decision: Decision) -> list[NewEvent]:
    found = await _known(view, command.path)
    await _check_empty(view, command.path, "renamed")
    await _check_free(view, _checked(command.new_path))
    if command.new_path[: len(command.path)] == command.path:
        raise Refused(f"the namespace {'.'.join(command.path)} cannot move below itself")
    event = NamespaceRenamed(found.namespace_id, command.new_path)
    return [new_event(NAMESPACE_RENAMED, event, subject=".".join(command.new_path))]


async def _drop(command: DropNamespace, view: View, decision: Decision) -> list[NewEvent]:
    found = await _known(view, command.path)
    await _check_empty(view, command.path, "dropped")
    event = NamespaceDropped(found.namespace_id)
    return [new_event(NAMESPACE_DROPPED, event, subject=".".join(command.path))]


async def _check_empty(view: View, path: tuple[str, ...], what: str) -> None:
    children: list[Any] = await view.rows(NAMES, joined(path))
    if children:
        raise Refused(
            f"the namespace {'.'.join(path)} cannot be {what}: it holds {children[0].name}"
            + (f" and {len(children) - 1} more" if len(children) > 1 else "")
        )


COMMANDS: dict[str, tuple[type[msgspec.Struct], Decider]] = {
    "CreateNamespace": (CreateNamespace, _create),
    "UpdateNamespace": (UpdateNamespace, _update),
    "RenameNamespace": (RenameNamespace, _rename),
    "DropNamespace": (DropNamespace, _drop),
}
