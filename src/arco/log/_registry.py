"""The event types a program knows: names, versions, payload classes and upcasters.

A payload is decoded to the newest version this program knows: older ones go through the upcasters one version at a
time. A type or version that is not known is `None` here; what that means is decided above (the owner refuses it, the
fold skips and notes it).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from arco.core import Invalid

__all__ = ["EventRegistry", "EventType", "Upcaster", "unchanged"]

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


def unchanged(payload: dict[str, Any]) -> dict[str, Any]:
    """The upcaster of an older payload that only lacks what has a default."""
    return payload


@dataclass(frozen=True)
class EventType:
    name: str
    payload: type[msgspec.Struct]
    version: int = 1
    upcasters: Mapping[int, Upcaster] = field(default_factory=dict)
    """From version n to n + 1, for every n below `version`."""
    recordable: bool = False
    """May be recorded as a fact; every other event comes from a decided command."""
    time: Callable[[Any], int | None] = lambda payload: None
    """The time the fact claims to have happened, for the check against the future."""
    audit: tuple[str, str] | None = None
    """Action and kind of resource under which the audit lists it; None if it is not audited."""
    parts: Callable[[Any], Iterable[tuple[str, Any]]] | None = None
    """Facts that it contains, by type: each is folded as if it had been told alone, at the same position."""
    attachment: type[msgspec.Struct] | None = None
    """What its first blob holds as JSON, if it has one; folds see it decoded beside the payload."""

    def __post_init__(self) -> None:
        missing = [n for n in range(1, self.version) if n not in self.upcasters]
        if missing:
            raise Invalid(f"event type {self.name} v{self.version} has no upcaster from v{missing[0]}")

    def alike(self) -> range:
        """The newest version and those before it that are decoded like it: they only lack what has a default."""
        first = self.version
        while first > 1 and self.upcasters[first - 1] is unchanged:
            first -= 1
        return range(first, self.version + 1)


class EventRegistry:
    """All event types of one log."""

    def __init__(self, types: Iterable[EventType]) -> None:
        self._types: dict[str, EventType] = {}
        self._decoders: dict[tuple[str, int], msgspec.json.Decoder[Any]] = {}
        for kind in types:
            if kind.name in self._types:
                raise Invalid(f"event type {kind.name} is declared twice")
            self._types[kind.name] = kind
            decoder = msgspec.json.Decoder(kind.payload)
            self._decoders |= {(kind.name, version): decoder for version in kind.alike()}
        self.composite = {kind.name: kind.parts for kind in self._types.values() if kind.parts is not None}
        """What gives the parts of an event, by type; of those types only that have parts."""
        self._attachments = {
            kind.name: msgspec.json.Decoder(kind.attachment) for kind in self._types.values() if kind.attachment
        }

    def __iter__(self) -> Iterator[EventType]:
        return iter(self._types.values())

    def get(self, name: str) -> EventType | None:
        return self._types.get(name)

    def knows(self, name: str, version: int) -> bool:
        kind = self._types.get(name)
        return kind is not None and 1 <= version <= kind.version

    def has_attachment(self, name: str) -> bool:
        """Whether folds look into the blob of such an event."""
        return name in self._attachments

    def decode_attachment(self, name: str, data: bytes) -> Any:
        try:
            return self._attachments[name].decode(data)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise Invalid(f"the attachment of {name} does not fit: {error}") from error

    def decode(self, name: str, version: int, data: bytes | msgspec.Raw) -> Any:
        """The payload, `None` if type or version is unknown, `Invalid` if it does not fit."""
        decoder = self._decoders.get((name, version))
        try:
            if decoder is not None:
                return decoder.decode(data)
            if not self.knows(name, version):
                return None
            return self._upcast(self._types[name], version, data)
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise Invalid(f"the payload of {name} v{version} does not fit: {error}") from error

    @staticmethod
    def _upcast(kind: EventType, version: int, data: bytes | msgspec.Raw) -> Any:
        value = msgspec.json.decode(data)
        for step in range(version, kind.version):
            value = kind.upcasters[step](value)
        return msgspec.convert(value, kind.payload)
