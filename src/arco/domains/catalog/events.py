"""Events of the catalog: what happened to namespaces. A nested namespace is named by its whole path, `a.b.c`."""

import msgspec

from arco.log import EventType

__all__ = [
    "EVENTS",
    "NAMESPACE_CREATED",
    "NAMESPACE_DROPPED",
    "NAMESPACE_RENAMED",
    "NAMESPACE_UPDATED",
    "NamespaceCreated",
    "NamespaceDropped",
    "NamespaceRenamed",
    "NamespaceUpdated",
]


class NamespaceCreated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace_id: str
    path: tuple[str, ...]
    description: str | None = None
    properties: dict[str, str] = {}


class NamespaceUpdated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole new content of what can be updated."""

    namespace_id: str
    description: str | None
    properties: dict[str, str]


class NamespaceRenamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace_id: str
    path: tuple[str, ...]


class NamespaceDropped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace_id: str


NAMESPACE_CREATED = EventType("NamespaceCreated", NamespaceCreated)
NAMESPACE_UPDATED = EventType("NamespaceUpdated", NamespaceUpdated)
NAMESPACE_RENAMED = EventType("NamespaceRenamed", NamespaceRenamed)
NAMESPACE_DROPPED = EventType("NamespaceDropped", NamespaceDropped)

EVENTS = (NAMESPACE_CREATED, NAMESPACE_UPDATED, NAMESPACE_RENAMED, NAMESPACE_DROPPED)
