"""Admission: what an event must satisfy before it may enter a log. Everything here refuses, nothing here writes.

Known type and version, a payload that decodes, the size cap, no secret, no number that fits no table, not from the
future, its blobs present. The result is the encoded event, ready for a segment.
"""

import re
from collections.abc import Sequence

import msgspec

from arco.core import (
    MINUTE,
    Invalid,
    LostObject,
    Runtime,
    TooLarge,
    format_time,
    new_ulid,
    parse_request_key,
    parse_time,
    parse_ulid,
    request_key_time,
    ulid_time,
)
from arco.log._blobs import Blobs
from arco.log._event import Command, Event, NewEvent
from arco.log._registry import EventRegistry, EventType
from arco.log._secrets import check_no_secret, may_hold_secret
from arco.log._segment import MAX_EVENT_BYTES

__all__ = ["KEY_LIFE", "MAX_AHEAD", "Admission", "Admitted"]

MAX_AHEAD = 5 * MINUTE
KEY_LIFE = 7 * 24 * 60 * MINUTE

_encoder = msgspec.json.Encoder()

_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_MANY_DIGITS = b"0" * 19
"""Digits of the smallest number beyond 64 bits, as `_DIGITS` writes them."""
_MANY = re.compile(rb"[0-9]{19,}")
_LARGEST = b"%d" % (2**63 - 1)


class Admitted(msgspec.Struct, frozen=True):
    """An event that may be appended, with its encoding."""

    event: Event
    encoded: bytes


class Admission:
    def __init__(self, registry: EventRegistry, blobs: Blobs, runtime: Runtime) -> None:
        self._registry = registry
        self._blobs = blobs
        self._runtime = runtime

    def check_command(self, command: Command, now: int) -> None:
        """Refuse a command whose identity is malformed, too old to be told from a repetition, or from the future."""
        self._check_age("operation id", ulid_time(parse_ulid(command.operation)), now)
        if command.key:
            self._check_age("request key", request_key_time(parse_request_key(command.key)), now)
        if not command.actor:
            raise Invalid("a command must name its actor")
        if bool(command.name) == bool(command.events):
            raise Invalid(
                "a command is either decided (a name and data) or recorded (events), not both and not neither"
            )
        if len(command.data) > MAX_EVENT_BYTES:
            raise TooLarge(f"the command {command.name} has {len(command.data)} bytes, the limit is {MAX_EVENT_BYTES}")

    @staticmethod
    def _check_age(what: str, time: int, now: int) -> None:
        if time < now - KEY_LIFE:
            raise Invalid(f"the {what} is older than 7 days, so a repetition could not be recognised; use a new one")
        if time > now + MAX_AHEAD:
            raise Invalid(f"the {what} is dated {format_time(time)}, more than 5 minutes ahead; check your clock")

    async def admit(self, command: Command, new: Sequence[NewEvent], now: int) -> list[Admitted]:
        """The command's events as they will stand in the log."""
        key, keyhash = (command.key, command.request_hash()) if command.key else ("", "")
        received = format_time(now)
        admitted = []
        for event in new:
            kind, payload = self._known(event)
            if not command.name and not kind.recordable:
                raise Invalid(
                    f"the event {event.type} cannot be recorded: it follows only from a command that is decided"
                )
            full = Event(
                id=event.id or new_ulid(self._runtime, self._runtime),
                type=event.type,
                time=event.time or received,
                source=event.source,
                actor=command.actor,
                operation=command.operation,
                # Encoded anew: what decoding drops, such as the first of two equal keys, was checked by nobody.
                data=msgspec.Raw(_encoder.encode(payload)),
                version=kind.version,
                subject=event.subject,
                span=len(new),
                command=command.name,
                key=key,
                keyhash=keyhash,
                correlation=command.correlation,
                causation=event.causation,
                traceparent=command.traceparent,
                blobs=event.blobs,
            )
            encoded = _encoder.encode(full)
            self._check(full, encoded, kind.time(payload), now)
            for sha256 in event.blobs:
                await self._check_blob(event.type, sha256)
            admitted.append(Admitted(full, encoded))
        return admitted

    async def _check_blob(self, event_type: str, sha256: str) -> None:
        try:
            await self._blobs.get(sha256)
        except LostObject:
            raise Invalid(
                f"the event {event_type} names the blob {sha256}, which does not exist; store it first"
            ) from None

    def _known(self, event: NewEvent) -> tuple[EventType, object]:
        """The type of an event and its payload in the newest version."""
        if len(event.data) > MAX_EVENT_BYTES:
            raise TooLarge(
                f"the payload of {event.type} has {len(event.data)} bytes, the limit is {MAX_EVENT_BYTES}; "
                "store it as a blob and name it"
            )
        kind = self._registry.get(event.type)
        payload = self._registry.decode(event.type, event.version, event.data)
        if kind is None or payload is None:
            raise Invalid(f"event type {event.type} v{event.version} is not known here; check its name or upgrade arco")
        return kind, payload

    def _check(self, event: Event, encoded: bytes, claimed: int | None, now: int) -> None:
        if len(encoded) > MAX_EVENT_BYTES:
            raise TooLarge(
                f"the event {event.type} has {len(encoded)} bytes, the limit is {MAX_EVENT_BYTES}; "
                "store the payload as a blob and name it"
            )
        parse_ulid(event.id)
        for time in (parse_time(event.time), claimed):
            if time is not None and time > now + MAX_AHEAD:
                raise Invalid(
                    f"the event {event.type} is dated {format_time(time)}, more than 5 minutes ahead of "
                    f"{format_time(now)}; check the producer's clock"
                )
        if may_hold_secret(encoded):
            check_no_secret(f"event {event.type}", msgspec.json.decode(encoded))
        if _MANY_DIGITS in encoded.translate(_DIGITS) and _may_be_too_large(encoded):
            _check_numbers(event.type, msgspec.json.decode(encoded))


def _may_be_too_large(encoded: bytes) -> bool:
    """Whether there are digits of such a number. Ids of snapshots have as many, and are not."""
    return any(len(digits) > len(_LARGEST) or digits > _LARGEST for digits in _MANY.findall(encoded))


def _check_numbers(event_type: str, value: object) -> None:
    """A number beyond 64 bits fits no column: once it is in the log, nothing can be published any more."""
    pending: list[tuple[str, object]] = [("$", value)]
    while pending:
        path, node = pending.pop()
        if isinstance(node, dict):
            pending.extend((f"{path}.{key}", child) for key, child in node.items())
        elif isinstance(node, list):
            pending.extend((f"{path}[{index}]", child) for index, child in enumerate(node))
        elif isinstance(node, int) and not -(1 << 63) <= node < 1 << 63:
            raise Invalid(f"the event {event_type} has a number beyond 64 bits at {path}; send it as text", path=path)
