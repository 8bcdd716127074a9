"""Properties of namespaces that mean something to the Iceberg catalog: `location` is the folder of what is created in
the namespace or below it and has no location of its own. All others are kept as they are."""

from collections.abc import Iterable, Mapping
from typing import Final

from arco.domains.catalog import NAMESPACES, ROOT, Namespace, find_namespace_id
from arco.iceberg._locations import Locations
from arco.iceberg.metadata import check_property_names
from arco.state import Replica, Snapshot

__all__ = ["check_namespace_properties", "folder_of"]

LOCATION: Final = "location"


def check_namespace_properties(locations: Locations, updates: Mapping[str, str], removals: Iterable[str] = ()) -> None:
    """`BadRequest` if a property of Arco's own would change, or tables would lie outside of the warehouse."""
    check_property_names([*updates, *removals])
    if LOCATION in updates:
        locations.check_folder(updates[LOCATION])


async def folder_of(view: Replica | Snapshot, path: tuple[str, ...]) -> str | None:
    """The location of a namespace, or of the nearest one above it that has any."""
    at = await find_namespace_id(view, path)
    while at is not None and at != ROOT:
        row: Namespace | None = await view.get(NAMESPACES, at, at)
        if row is None or row.properties.get(LOCATION):
            return None if row is None else row.properties[LOCATION]
        at = row.parent_id
    return None
