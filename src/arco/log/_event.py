"""Events, and what is asked of the log: the values that travel.

- `Event`: what is in the log. CloudEvents fields plus who did it, which command and operation it belongs to, and a
  typed, versioned payload as raw JSON. Tenant and workspace stand once in the segment's header.
- `NewEvent`: an event before the owner gave it a place.
- `Command`: what somebody wants, with the operation id minted where it entered. Its events are either given
  (`record`) or found by validating it against the state (`decide`).
- `Receipt`: the answer: where the command's events are.
- `Position`: `segment << 20 | index`, the only order. 0 is "before everything". Text in JSON, since browsers lose
  integers above 2^53.
"""

from typing import Annotated, Any, NewType

import msgspec

from arco.core import MAX_TIME, Invalid, fingerprint

__all__ = [
    "Command",
    "Event",
    "Instant",
    "NewEvent",
    "Position",
    "Receipt",
    "index_of",
    "number_of",
    "parse_position",
    "position_of",
]

Position = NewType("Position", int)

Instant = Annotated[int, msgspec.Meta(ge=0, le=MAX_TIME)]
"""A time in a payload: microseconds since 1970, within what calendars can print."""

INDEX_BITS = 20
_INDEX_MASK = (1 << INDEX_BITS) - 1


def position_of(number: int, index: int) -> Position:
    return Position(number << INDEX_BITS | index)


def number_of(position: int) -> int:
    """The number of the segment a position lies in."""
    return position >> INDEX_BITS


def index_of(position: int) -> int:
    return position & _INDEX_MASK


def parse_position(text: str) -> Position:
    """A position as people and JSON write it: the whole number, or `segment:index`."""
    head, colon, rest = text.partition(":")
    if head.isdecimal() and len(text) <= 40:
        if not colon:
            return Position(int(head))
        if rest.isdecimal() and int(rest) <= _INDEX_MASK:
            return position_of(int(head), int(rest))
    raise Invalid(f"{text!r} is not a position; write a number or segment:index, as `arco log tail` shows it")


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    id: str
    type: str
    time: str
    source: str
    actor: str
    operation: str
    data: msgspec.Raw
    version: int = 1
    subject: str = ""
    span: int = 1
    """How many events the operation has; they stand one after the other in one segment."""
    command: str = ""
    """Name of the command that decided it; empty for recorded facts."""
    key: str = ""
    """The caller's request key, if it sent one, and the fingerprint of the request made with it."""
    keyhash: str = ""
    correlation: str = ""
    causation: str = ""
    traceparent: str = ""
    blobs: tuple[str, ...] = ()
    """sha256 of each blob the payload refers to."""


class NewEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    data: msgspec.Raw
    version: int = 1
    id: str = ""
    time: str = ""
    source: str = "arco"
    subject: str = ""
    causation: str = ""
    blobs: tuple[str, ...] = ()


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    operation: str
    actor: str
    name: str = ""
    """The command to decide; empty to record `events` as they are."""
    data: msgspec.Raw = msgspec.Raw(b"null")
    events: tuple[NewEvent, ...] = ()
    key: str = ""
    correlation: str = ""
    traceparent: str = ""
    minted: dict[str, str] = {}
    """What the process where it entered made for it, such as the hash of a fresh secret. Another try would make another
    one, so it is no part of what is asked."""
    asked: str = ""
    """Fingerprint of the request as it was sent, for a command that also holds what was found out on the way here, such
    as the id a name stood for. A repetition would find out something else."""

    def request_hash(self) -> str:
        """Fingerprint of what is asked, without who asks again and under which operation id."""
        try:
            asked: dict[str, Any] = {"name": self.name, "actor": self.actor}
            if self.asked:
                return fingerprint(asked | {"asked": self.asked})
            asked["data"] = msgspec.json.decode(self.data)
            if self.events:
                asked["events"] = [
                    {
                        "type": event.type,
                        "version": event.version,
                        "data": msgspec.json.decode(event.data),
                        "time": event.time,
                        "source": event.source,
                        "subject": event.subject,
                    }
                    for event in self.events
                ]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Invalid(f"what is asked under the request key {self.key} is no JSON: {error}") from error
        return fingerprint(asked)


class Receipt(msgspec.Struct, frozen=True):
    operation: str
    first: str
    """Position of the command's first event, as text."""
    last: str
    replayed: bool = False
    """True if this command had been carried out before; nothing was appended now."""

    @property
    def position(self) -> Position:
        return Position(int(self.last))
