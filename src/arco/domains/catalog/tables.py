"""Tables of the catalog.

`namespaces` has a row per namespace under its stable id. `names` says which namespace a path means; its group is the
parent's path, so that the children of a namespace are one group.
"""

import msgspec

from arco.state import Kind, Table, Time

__all__ = ["NAMES", "NAMESPACES", "SEPARATOR", "Name", "Namespace", "joined"]

SEPARATOR = "\x1f"
"""Between the parts of a path in keys: a character no name may have, so that `a.b` and (`a`, `b`) never collide."""


def joined(path: tuple[str, ...]) -> str:
    return SEPARATOR.join(path)


class Namespace(msgspec.Struct, frozen=True):
    namespace_id: str
    path: list[str]
    description: str | None
    properties: dict[str, str]
    created_by: str
    created_at: Time
    updated_at: Time


class Name(msgspec.Struct, frozen=True):
    parent: str
    name: str
    namespace_id: str


NAMESPACES = Table("namespaces", Namespace, Kind.IMAGE, ("namespace_id",), "namespace_id", prune=("created_at",))
NAMES = Table("names", Name, Kind.IMAGE, ("parent", "name"), "parent")
