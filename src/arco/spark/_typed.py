"""Typed events: an event together with its payload in one go, for those who read millions of them.

A typed event has the fields of `Event`, but its `data` is the payload, decoded. It takes half of the time of decoding
one after the other. Who only spreads events sees *slim* ones, which have nothing but what tells their groups; that
takes a third of it. What is not known or does not fit makes the whole text undecodable; then the ordinary way tells
what it is.
"""

from collections.abc import Collection, Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any

import msgspec

from arco.core import Corrupt
from arco.log import Event, EventRegistry, EventType, Header

__all__ = ["NOTHING", "TypedEvents", "decode_event", "decode_events", "envelope"]


class _Raws(msgspec.Struct):
    events: list[msgspec.Raw]


class TypedEvents:
    def __init__(self, registry: EventRegistry, needed: Mapping[str, Collection[str]]) -> None:
        """`needed`: by type of event, the fields of its payload that spreading needs; a type that is not there is seen
        as a whole."""
        full = {kind.name: _full(kind) for kind in registry}
        slim = {kind.name: _slim(kind, needed[kind.name]) for kind in registry if kind.name in needed}
        every: Any = reduce(or_, full.values())
        spread: Any = reduce(or_, (full | slim).values())
        segment = msgspec.defstruct("SlimSegment", [("header", Header), ("events", list[spread])])
        self._segments = msgspec.json.Decoder(segment)
        self._lists = msgspec.json.Decoder(list[every])
        self._raws = msgspec.json.Decoder(_Raws)

    def segment(self, text: bytes) -> tuple[Header, list[Any], list[msgspec.Raw]] | None:
        """Header, slim events and the texts of the events; None if they must be decoded one by one."""
        try:
            found: Any = self._segments.decode(text)
            return found.header, found.events, self._raws.decode(text).events
        except _ERRORS:
            return None

    def events(self, text: bytes) -> list[Any] | None:
        """The typed events of a JSON array; None if they must be decoded one by one."""
        try:
            return self._lists.decode(text)
        except _ERRORS:
            return None


def _full(kind: EventType) -> type[msgspec.Struct]:
    """In the order in which the log has the fields: the decoder looks for each after the one before it."""
    types = {"data": kind.payload}
    fields = [
        (field.name, types.get(field.name, field.type), *([] if field.required else [field.default]))
        for field in msgspec.structs.fields(Event)
        if field.name not in ("type", "version")
    ]
    return _tagged(kind, "Typed", fields)


def _slim(kind: EventType, needed: Collection[str]) -> type[msgspec.Struct]:
    """What tells the groups of an event, and whether somebody asked for it."""
    fields = [(field.name, field.type) for field in msgspec.structs.fields(kind.payload) if field.name in needed]
    payload = msgspec.defstruct(f"Slim{kind.name}Payload", fields, gc=False)
    return _tagged(kind, "Slim", [("data", payload), ("command", str, ""), ("key", str, "")])


def _tagged(kind: EventType, name: str, fields: list[Any]) -> type[msgspec.Struct]:
    alike = kind.alike()
    # An older payload may fit the newest class, but mean something else; then it is decoded the ordinary way.
    version = Annotated[int, msgspec.Meta(ge=alike[0], le=alike[-1])]
    given = ("version", version, 1) if 1 in alike else ("version", version)
    return msgspec.defstruct(
        f"{name}{kind.name}",
        [*fields, given],
        tag_field="type",
        tag=kind.name,
        frozen=True,
        gc=False,
        kw_only=True,
        namespace={"type": kind.name},
    )


def envelope(event: Any) -> Event:
    """A typed event, or an `Event`, without its payload."""
    return Event(
        event.id,
        event.type,
        event.time,
        event.source,
        event.actor,
        event.operation,
        NOTHING,
        event.version,
        event.subject,
        event.span,
        event.command,
        event.key,
        event.keyhash,
        event.correlation,
        event.causation,
        event.traceparent,
        event.blobs,
    )


NOTHING = msgspec.Raw(b"null")
_event, _events = msgspec.json.Decoder(Event).decode, msgspec.json.Decoder(list[Event]).decode
_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def decode_event(text: bytes | msgspec.Raw) -> Event:
    try:
        return _event(text)
    except _ERRORS as error:
        raise _corrupt(error) from error


def decode_events(text: bytes) -> list[Event]:
    """The events of a JSON array."""
    try:
        return _events(text)
    except _ERRORS as error:
        raise _corrupt(error) from error


def _corrupt(error: Exception) -> Corrupt:
    """A segment whose slim events can be decoded may hold something that is none when all of it is looked at."""
    return Corrupt(f"the log holds something that is no event ({error}); `arco log verify` says where")
