"""What Iceberg's clients may not do to Arco's own through metadata, and which places their requests name.

Properties that begin with `arco.` are Arco's: governance is decided in the catalog, not by whoever may write a table.
So is what begins so in the summary of a snapshot: it says which run of Arco made it.
Every place a request names must be checked before anything is written to it, or credentials are given out for it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from arco.core import shown
from arco.iceberg._errors import BadRequest
from arco.iceberg.metadata._reading import Doc
from arco.iceberg.metadata._requests import CreateRequest, CreateViewRequest, RegisterRequest
from arco.iceberg.metadata._updates import AddSnapshot, RemoveProperties, SetLocation, SetProperties, Update

__all__ = ["LOCATION_PROPERTIES", "check_guardrails", "check_property_names", "locations_in"]

LOCATION_PROPERTIES = (
    "write.metadata.path",
    "write.data.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""Properties that say where files of the table are written."""

_OURS = "arco."

Subject: TypeAlias = CreateRequest | CreateViewRequest | RegisterRequest | Doc | Iterable[Update]
"""A request, a metadata document, or the updates of a commit."""


def check_guardrails(subject: Subject) -> None:
    """`BadRequest` if a property of Arco's own would be set or removed."""
    check_property_names(_property_names(subject))


def check_property_names(names: Iterable[str]) -> None:
    """`BadRequest` if one of them is Arco's own."""
    ours = sorted({name for name in names if name.strip().lower().startswith(_OURS)})
    if ours:
        raise BadRequest(
            f"properties that begin with {_OURS} cannot be changed through Iceberg: "
            f"{', '.join(shown(name) for name in ours)}; use Arco's own API"
        )


def locations_in(subject: Subject) -> list[str]:
    """Every place the subject names, in its order; each must be one that the warehouse lets be used."""
    return list(_locations(subject))


def _locations(subject: Subject) -> Iterator[str]:
    match subject:
        case RegisterRequest():
            yield subject.metadata_location
        case CreateRequest() | CreateViewRequest():
            if subject.location is not None:
                yield subject.location
            yield from _named(subject.properties)
        case dict():
            yield subject["location"]
            yield from _named(subject.get("properties") or {})
        case _:
            for update in subject:
                if isinstance(update, SetLocation):
                    yield update.location
                elif isinstance(update, SetProperties):
                    yield from _named(update.values)


def _named(properties: Mapping[str, Any]) -> Iterator[str]:
    return (properties[name] for name in LOCATION_PROPERTIES if name in properties)


def _property_names(subject: Subject) -> Iterator[str]:
    match subject:
        case RegisterRequest():
            pass
        case CreateRequest() | CreateViewRequest():
            yield from subject.properties
        case dict():
            yield from subject.get("properties") or {}
        case _:
            for update in subject:
                if isinstance(update, SetProperties):
                    yield from update.values
                elif isinstance(update, RemoveProperties):
                    yield from update.names
                elif isinstance(update, AddSnapshot):
                    yield from update.snapshot.get("summary") or {}
