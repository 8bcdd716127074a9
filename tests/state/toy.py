"""A small domain for tests of the engine: notes, and secrets that follow from them in a private table."""

import dataclasses
from collections.abc import Callable

import msgspec

from arco.log import Event, EventType, NewEvent
from arco.state import (
    Change,
    Decision,
    Definition,
    Domain,
    Group,
    Input,
    Kind,
    Reject,
    Stage,
    Table,
    Time,
    View,
    define_log,
    new_event,
)
from tests.state.doubles import event

__all__ = ["NOTES", "SECRETS", "SET", "NoteSet", "SetNote", "dropped", "noted", "shouted", "toy"]


class NoteSet(msgspec.Struct, frozen=True):
    note: str
    text: str
    whisper: str = ""


class NoteDropped(msgspec.Struct, frozen=True):
    note: str


class Note(msgspec.Struct, frozen=True):
    note: str
    text: str
    whispered: int
    made_at: Time


class Secret(msgspec.Struct, frozen=True):
    note: str
    secret: str


NOTES = Table("notes", Note, Kind.IMAGE, ("note",), "note", prune=("made_at",), audited=True)
SECRETS = Table("secrets", Secret, Kind.IMAGE, ("note",), "note", private=True)

SET = EventType("NoteSet", NoteSet, recordable=True)
DROPPED = EventType("NoteDropped", NoteDropped, recordable=True)
SHOUTED = EventType("NoteShouted", NoteSet, recordable=True)


def _note_of(item: Input) -> tuple[str, ...]:
    return (item.payload.note,)


def _changed_note(item: Input) -> tuple[str, ...]:
    change: Change = item.payload
    return ((change.after or change.before).note,)


class SetNote(msgspec.Struct, frozen=True):
    """Do nothing if the note has this text already."""

    note: str
    text: str


async def _set_note(command: SetNote, view: View, decision: Decision) -> list[NewEvent]:
    found = await view.get(NOTES, command.note, command.note)
    if found is not None and found.text == command.text:
        return []
    return [new_event(SET, NoteSet(command.note, command.text), subject=command.note)]


def toy(
    version: int = 1, *, derive: Callable[[str], str] = str, shouts: bool = False, audit: bool = False
) -> Definition:
    """The log `activity` with notes; `derive` makes the stored text, `shouts` is one more event type.

    With `audit` all its events are audited.
    """

    def fold_note(group: Group, item: Input) -> None:
        payload = item.payload
        if isinstance(payload, NoteDropped):
            if group.get(NOTES, group.key) is None:
                raise Reject("no such note")
            group.delete(NOTES, group.key)
            return
        before = group.get(NOTES, group.key)
        text = payload.text.upper() if item.event.type == SHOUTED.name else derive(payload.text)
        made_at = before.made_at if before else item.received
        group.put(NOTES, Note(payload.note, text, len(payload.whisper), made_at))

    def fold_secret(group: Group, item: Input) -> None:
        after = item.payload.after
        if after is None:
            group.delete(SECRETS, group.key)
        elif after.whispered:
            group.put(SECRETS, Secret(group.key, "hidden" * after.whispered))

    events = [SET, DROPPED, SHOUTED] if shouts else [SET, DROPPED]
    if audit:
        events = [dataclasses.replace(kind, audit=(kind.name.removeprefix("Note"), "note")) for kind in events]
    stages = (
        Stage("notes", (NOTES,), _note_of, fold_note, events=tuple(kind.name for kind in events)),
        Stage("secrets", (SECRETS,), _changed_note, fold_secret, changes=(NOTES,)),
    )
    commands = {"SetNote": (SetNote, _set_note)}
    return define_log("activity", [Domain("toy", "activity", version, tuple(events), stages, commands)])


def noted(note: str, text: str, whisper: str = "") -> Event:
    return event("NoteSet", NoteSet(note, text, whisper))


def dropped(note: str) -> Event:
    return event("NoteDropped", NoteDropped(note))


def shouted(note: str, text: str) -> Event:
    return event("NoteShouted", NoteSet(note, text))
