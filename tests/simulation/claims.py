"""A small decided domain on the log `activity` that stands for attempts: an attempt is granted to one worker at a time.

`RESERVING` is the same domain one release later: it also knows `AttemptReserved`, an event that `CLAIMS` skips.
"""

import msgspec

from arco.core import Conflict, Refused
from arco.log import EventType, NewEvent
from arco.state import Decider, Decision, Domain, Group, Input, Kind, Reject, Stage, Table, View, new_event

__all__ = ["ATTEMPTS", "CLAIMS", "RESERVING", "Claim", "Finish", "Release", "Reserve"]


class Attempt(msgspec.Struct, frozen=True):
    attempt: str
    worker: str
    state: str
    grants: int


ATTEMPTS = Table("attempts", Attempt, Kind.IMAGE, ("attempt",), "attempt")


class AttemptClaimed(msgspec.Struct, frozen=True):
    attempt: str
    worker: str


class AttemptFinished(msgspec.Struct, frozen=True):
    attempt: str
    worker: str


class AttemptReleased(msgspec.Struct, frozen=True):
    attempt: str
    worker: str


class AttemptReserved(msgspec.Struct, frozen=True):
    attempt: str
    worker: str


CLAIMED = EventType("AttemptClaimed", AttemptClaimed)
FINISHED = EventType("AttemptFinished", AttemptFinished)
RELEASED = EventType("AttemptReleased", AttemptReleased)
RESERVED = EventType("AttemptReserved", AttemptReserved)


class Claim(msgspec.Struct, frozen=True):
    attempt: str
    worker: str


class Reserve(msgspec.Struct, frozen=True):
    attempt: str
    worker: str


class Finish(msgspec.Struct, frozen=True):
    attempt: str
    worker: str


class Release(msgspec.Struct, frozen=True):
    attempt: str
    worker: str


async def _check_free(command: Claim | Reserve, view: View) -> None:
    row: Attempt | None = await view.get(ATTEMPTS, command.attempt, command.attempt)
    if row is not None and row.state != "free":
        raise Conflict(f"the attempt {command.attempt} is {row.state} by {row.worker}")


async def _claim(command: Claim, view: View, decision: Decision) -> list[NewEvent]:
    await _check_free(command, view)
    return [new_event(CLAIMED, AttemptClaimed(command.attempt, command.worker))]


async def _reserve(command: Reserve, view: View, decision: Decision) -> list[NewEvent]:
    await _check_free(command, view)
    return [new_event(RESERVED, AttemptReserved(command.attempt, command.worker))]


async def _check_held(command: Finish | Release, view: View) -> None:
    row: Attempt | None = await view.get(ATTEMPTS, command.attempt, command.attempt)
    if row is None or row.state != "claimed" or row.worker != command.worker:
        raise Refused(f"the attempt {command.attempt} is not held by {command.worker}")


async def _finish(command: Finish, view: View, decision: Decision) -> list[NewEvent]:
    await _check_held(command, view)
    return [new_event(FINISHED, AttemptFinished(command.attempt, command.worker))]


async def _release(command: Release, view: View, decision: Decision) -> list[NewEvent]:
    await _check_held(command, view)
    return [new_event(RELEASED, AttemptReleased(command.attempt, command.worker))]


def _fold(group: Group, item: Input) -> None:
    event = item.payload
    row: Attempt | None = group.get(ATTEMPTS, group.key)
    grants = row.grants if row else 0
    if isinstance(event, AttemptClaimed | AttemptReserved):
        if row is not None and row.state != "free":
            raise Reject(f"the attempt {group.key} is {row.state}")
        group.put(ATTEMPTS, Attempt(group.key, event.worker, "claimed", grants + 1))
    elif row is None or row.state != "claimed" or row.worker != event.worker:
        raise Reject(f"the attempt {group.key} is not held by {event.worker}")
    elif isinstance(event, AttemptFinished):
        group.put(ATTEMPTS, msgspec.structs.replace(row, state="finished"))
    else:
        group.put(ATTEMPTS, msgspec.structs.replace(row, state="free"))


def _domain(events: tuple[EventType, ...], commands: dict[str, tuple[type[msgspec.Struct], Decider]]) -> Domain:
    stage = Stage(
        "attempts", (ATTEMPTS,), lambda item: (item.payload.attempt,), _fold, events=tuple(e.name for e in events)
    )
    return Domain("claims", "activity", 1, events, (stage,), commands)


_COMMANDS: dict[str, tuple[type[msgspec.Struct], Decider]] = {
    "Claim": (Claim, _claim),
    "Finish": (Finish, _finish),
    "Release": (Release, _release),
}

CLAIMS = _domain((CLAIMED, FINISHED, RELEASED), _COMMANDS)
RESERVING = _domain((CLAIMED, FINISHED, RELEASED, RESERVED), {**_COMMANDS, "Reserve": (Reserve, _reserve)})
