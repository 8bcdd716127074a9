"""What every log knows of itself, whatever its domains: operations, request keys, pins, retention, rejections, audit.

- `operations`, `requests`: which command was carried out where, so that a repetition is recognised. Facts that may
  expire after the life of a key (7 days), because older keys are refused at the door.
- `pins`: revisions that collection must keep, each with an expiry. Images.
- `retention`: how far each table has expired, with those that expire together with it. Images; what folds and readers
  go by is in the manifest.
- `rejections`: inputs that could not be folded. Written by the fold itself.
- `erasures`: when something was taken out of the log for good, why, and how much. Facts.
- `audit`: who did what to what, with the rows before and after, of every event whose type is audited. Facts, written by
  the fold itself.

`NothingChanged` is the event of a command that had a request key and nothing to do: it makes the key known.
`IncarnationOpened` is written by a restore, which no owner takes part in; it is audited and folded by nobody else.
`WorkspaceErased` is the same for an erasure, and the row of `erasures` says why it was. `EventErased` stands where an
event stood that is gone; nobody folds it.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping

import msgspec

from arco.core import HOUR, Conflict, Invalid, NotFound, Refused, format_time
from arco.log import KEY_LIFE, MAX_AHEAD, EventType, Instant, NewEvent
from arco.state._domain import Decision, Domain, Group, Hold, Input, Stage, View, new_event
from arco.state._table import Kind, Table, Time

__all__ = [
    "AUDIT",
    "ERASURES",
    "EVENT_ERASED",
    "INCARNATION_OPENED",
    "NOTHING_CHANGED",
    "OPERATIONS",
    "PINS",
    "REJECTED",
    "REJECTIONS",
    "REQUESTS",
    "REQUEST_LIFE",
    "RETENTION",
    "WORKSPACE_ERASED",
    "AdvanceRetention",
    "Audit",
    "Erasure",
    "EventErased",
    "ExpireRows",
    "IncarnationOpened",
    "NothingChanged",
    "Operation",
    "Pin",
    "PinRevision",
    "Rejection",
    "ReleasePin",
    "RequestRow",
    "RetentionAdvanced",
    "RetentionRow",
    "WorkspaceErased",
    "system_domain",
]

VERSION = 1
MAX_PIN = 30 * 24 * HOUR
REQUEST_LIFE = KEY_LIFE + MAX_AHEAD
"""For so long a request may be repeated, so that what is known of it must be kept."""


class Operation(msgspec.Struct, frozen=True, gc=False):
    """Where a command's events stand: from `first` to `last`, always within one segment."""

    operation: str
    command: str
    actor: str
    key: str
    first: int
    last: int
    received_at: Time


class RequestRow(msgspec.Struct, frozen=True, gc=False):
    key: str
    keyhash: str
    operation: str
    received_at: Time


class Pin(msgspec.Struct, frozen=True, gc=False):
    pin_id: str
    revision: int
    reason: str
    actor: str
    expires_at: Time
    created_at: Time


class RetentionRow(msgspec.Struct, frozen=True):
    table: str
    before: Time
    actor: str
    advanced_at: Time


class Rejection(msgspec.Struct, frozen=True, gc=False):
    rejection_id: str
    position: int
    event_type: str
    domain: str
    reason: str
    received_at: Time


class Erasure(msgspec.Struct, frozen=True, gc=False):
    incarnation: str
    """The one that the erasure opened."""
    reason: str
    actor: str
    events: int
    """Events of this log that are gone."""
    edited: int
    """Events of this log of which a part is gone or was replaced."""
    types: dict[str, int]
    """Both, by type."""
    erased_at: Time


class Audit(msgspec.Struct, frozen=True, gc=False):
    audit_id: str
    """The position of the event, as text."""
    operation: str
    actor: str
    action: str
    resource_type: str
    resource: str
    request_id: str
    traceparent: str
    before: str | None
    """The rows the event changed, as JSON: a list by name of the table. None if there were none."""
    after: str | None
    recorded_at: Time


OPERATIONS = Table("operations", Operation, Kind.FACT, ("operation",), "operation", time="received_at")
REQUESTS = Table("requests", RequestRow, Kind.FACT, ("key",), "key", time="received_at")
PINS = Table("pins", Pin, Kind.IMAGE, ("pin_id",), "pin_id")
RETENTION = Table("retention", RetentionRow, Kind.IMAGE, ("table",), "table")
REJECTIONS = Table("rejections", Rejection, Kind.FACT, ("rejection_id",), "rejection_id", time="received_at")
ERASURES = Table("erasures", Erasure, Kind.FACT, ("incarnation",), "incarnation", audited=True)
AUDIT = Table("audit", Audit, Kind.FACT, ("audit_id",), "audit_id", time="recorded_at", prune=("recorded_at",))


class RevisionPinned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pin_id: str
    revision: int
    reason: str
    expires_at: Instant


class PinReleased(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pin_id: str


class RetentionAdvanced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table: str
    before: Instant
    """Rows whose time lies before this (microseconds) are gone, and so are those of tables that expire with it."""


class NothingChanged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: str


class IncarnationOpened(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first event of an incarnation that goes on from another one."""

    incarnation: str
    previous: str
    reason: str
    """`restore`."""
    backup: str
    """Id of the backup; empty if there was none."""
    through: str
    """The last segment that came from before, as text."""


class WorkspaceErased(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first event of an incarnation that goes on from another one without some of its events."""

    incarnation: str
    previous: str
    reason: str
    through: str
    """The last segment that came from before, as text."""
    events: int
    edited: int
    types: dict[str, int]


class EventErased(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands where an event stood that is gone. The event keeps its position, id, time and operation."""

    type: str
    """Of the event that is gone."""
    reason: str


REVISION_PINNED = EventType("RevisionPinned", RevisionPinned)
PIN_RELEASED = EventType("PinReleased", PinReleased)
RETENTION_ADVANCED = EventType("RetentionAdvanced", RetentionAdvanced)
NOTHING_CHANGED = EventType("NothingChanged", NothingChanged)
INCARNATION_OPENED = EventType("IncarnationOpened", IncarnationOpened, audit=("restore", "workspace"))
WORKSPACE_ERASED = EventType("WorkspaceErased", WorkspaceErased, audit=("erase", "workspace"))
EVENT_ERASED = EventType("EventErased", EventErased)


def _operation_of(item: Input) -> tuple[str, ...]:
    return (item.event.operation,)


def _fold_operation(group: Group, item: Input) -> None:
    """An operation's first event makes its row; the same operation appended once more changes nothing."""
    event = item.event
    if group.get(OPERATIONS, event.operation) is None:
        last = item.position + event.span - 1
        group.put(
            OPERATIONS,
            Operation(event.operation, event.command, event.actor, event.key, item.position, last, item.received),
        )


def _request_of(item: Input) -> tuple[str, ...]:
    return (item.event.key,) if item.event.key else ()


def _fold_request(group: Group, item: Input) -> None:
    event = item.event
    if group.get(REQUESTS, event.key) is None:
        group.put(REQUESTS, RequestRow(event.key, event.keyhash, event.operation, item.received))


def _fold_pin(group: Group, item: Input) -> None:
    payload = item.payload
    if isinstance(payload, RevisionPinned):
        group.put(
            PINS,
            Pin(payload.pin_id, payload.revision, payload.reason, item.event.actor, payload.expires_at, item.received),
        )
    else:
        group.delete(PINS, payload.pin_id)


def _fold_retention(group: Group, item: Input) -> None:
    before = group.get(RETENTION, group.key)
    if before is None or item.payload.before > before.before:
        group.put(RETENTION, RetentionRow(group.key, item.payload.before, item.event.actor, item.received))


def _fold_erasure(group: Group, item: Input) -> None:
    said = item.payload
    if group.get(ERASURES, said.incarnation) is None:
        told = (said.reason, item.event.actor, said.events, said.edited, said.types)
        group.put(ERASURES, Erasure(said.incarnation, *told, item.received))


def _fold_rejection(group: Group, item: Input) -> None:
    if group.get(REJECTIONS, item.payload.rejection_id) is None:
        group.put(REJECTIONS, item.payload)


REJECTED = Stage("rejections", (REJECTIONS,), lambda item: (item.payload.rejection_id,), _fold_rejection)
"""Run by the fold after all domains, over what they rejected."""


class PinRevision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pin_id: str
    revision: int
    reason: str
    expires_at: Instant


class ReleasePin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pin_id: str


class AdvanceRetention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table: str
    before: Instant


class ExpireRows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Advances the retention of several tables in one go; what has been reached already is left out."""

    before: dict[str, Instant]
    """By table."""


async def _pin(command: PinRevision, view: View, decision: Decision) -> list[NewEvent]:
    if await view.get(PINS, command.pin_id, command.pin_id) is not None:
        raise Conflict(f"the pin {command.pin_id} exists already; release it or use another id")
    if not decision.received < command.expires_at <= decision.received + MAX_PIN:
        raise Invalid("a pin must expire within the next 30 days; pin again before it does")
    payload = RevisionPinned(command.pin_id, command.revision, command.reason, command.expires_at)
    return [new_event(REVISION_PINNED, payload, subject=command.pin_id)]


async def _release(command: ReleasePin, view: View, decision: Decision) -> list[NewEvent]:
    if await view.get(PINS, command.pin_id, command.pin_id) is None:
        raise NotFound(f"there is no pin {command.pin_id}")
    return [new_event(PIN_RELEASED, PinReleased(command.pin_id), subject=command.pin_id)]


Holds = Mapping[str, Callable[[View], Awaitable[Hold | None]]]


def system_domain(log: str, expiring: Collection[str], holds: Holds) -> Domain:
    """The system's part of a log; `expiring` are the tables that retention may name, `holds` what keeps it back."""

    async def check(table: str, before: int, view: View, decision: Decision) -> None:
        if table not in expiring:
            names = ", ".join(sorted(expiring))
            raise Invalid(f"the table {table!r} does not expire by time; these do: {names}")
        if before > decision.received:
            raise Refused("retention cannot reach into the future")
        if table in (OPERATIONS.name, REQUESTS.name) and before > decision.received - REQUEST_LIFE:
            raise Refused(f"{table} must be kept for the 7 days in which a request may be repeated")
        hold = await holds[table](view) if table in holds else None
        if hold is not None and before > hold.since:
            raise Refused(f"{table} from {format_time(hold.since)} on must be kept: {hold.reason}")

    async def reached(table: str, view: View) -> int | None:
        row: RetentionRow | None = await view.get(RETENTION, table, table)
        return None if row is None else row.before

    async def advance(command: AdvanceRetention, view: View, decision: Decision) -> list[NewEvent]:
        table, before = command.table, command.before
        await check(table, before, view, decision)
        known = await reached(table, view)
        if known is not None and before <= known:
            raise Refused(f"the retention of {table} has reached {format_time(known)} already")
        return [_advanced(table, before)]

    async def expire(command: ExpireRows, view: View, decision: Decision) -> list[NewEvent]:
        events = []
        for table, before in sorted(command.before.items()):
            await check(table, before, view, decision)
            if before > (await reached(table, view) or 0):
                events.append(_advanced(table, before))
        return events

    return Domain(
        name="system",
        log=log,
        version=VERSION,
        events=(
            REVISION_PINNED,
            PIN_RELEASED,
            RETENTION_ADVANCED,
            NOTHING_CHANGED,
            INCARNATION_OPENED,
            WORKSPACE_ERASED,
            EVENT_ERASED,
        ),
        stages=(
            Stage("operations", (OPERATIONS,), _operation_of, _fold_operation, events=("*",)),
            Stage("requests", (REQUESTS,), _request_of, _fold_request, events=("*",)),
            Stage(
                "pins",
                (PINS,),
                lambda item: (item.payload.pin_id,),
                _fold_pin,
                events=(REVISION_PINNED.name, PIN_RELEASED.name),
            ),
            Stage(
                "retention",
                (RETENTION,),
                lambda item: (item.payload.table,),
                _fold_retention,
                events=(RETENTION_ADVANCED.name,),
            ),
            Stage(
                "erasures",
                (ERASURES,),
                lambda item: (item.payload.incarnation,),
                _fold_erasure,
                events=(WORKSPACE_ERASED.name,),
            ),
        ),
        commands={
            "PinRevision": (PinRevision, _pin),
            "ReleasePin": (ReleasePin, _release),
            "AdvanceRetention": (AdvanceRetention, advance),
            "ExpireRows": (ExpireRows, expire),
        },
    )


def _advanced(table: str, before: int) -> NewEvent:
    return new_event(RETENTION_ADVANCED, RetentionAdvanced(table, before), subject=table)
