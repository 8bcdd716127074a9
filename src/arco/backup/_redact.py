"""What an erasure makes of an event: nothing, another one, or what says that one stood here. Pure functions.

- *whole*: the event goes. An `EventErased` keeps its position, id, time and operation, and has neither payload nor
  actor, subject, request key or trace.
- *about an id*: payloads name things in fields that end in `_id`. An event whose payload names the id itself goes
  whole; where an event tells of several things, such as the end of a task with its outputs and checks, the parts go
  that name it. Plans stay: what a run did is another matter than what came of it. So do the columns of an asset, which
  are told with one version and are those of others too; they go with the asset.
- *a text*: wherever it stands, as or in an actor, a subject, a value or a name, a made-up word stands afterwards, and
  the same one everywhere, so that what belonged together still does.

The same input gives the same output, so that an erasure that was interrupted finds its own work.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from arco.core import Invalid, Refused
from arco.log import EventRegistry
from arco.state import EVENT_ERASED, EventErased

__all__ = ["MIN_TEXT", "Redaction", "Selection", "has_text", "redact", "replace_texts"]

MIN_TEXT = 3
"""Characters that a text has at the least: a shorter one stands everywhere."""

PLAN = "plan"
"""The field of a payload that is a plan."""

SCHEMAS = "schemas"
"""The field of a payload that has columns of assets, each with the first version that had them."""

NO_VERSION = "erased"
"""What stands for that version once it is erased."""

_FIXED = ("id", "type", "time", "operation", "version", "span", "keyhash", "blobs")
"""Fields of an event that no text is taken out of: they are made by Arco, but for times."""


@dataclass(frozen=True)
class Selection:
    """What is to be erased."""

    positions: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """First and last position of whole events, by log."""
    ids: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def holds(self, log: str, position: int) -> bool:
        return any(first <= position <= last for first, last in self.positions.get(log, ()))

    def text(self) -> str:
        """What tells one selection from another."""
        return msgspec.json.encode([self.positions, self.ids, self.texts], order="deterministic").decode()


class Redaction(msgspec.Struct, frozen=True):
    """What became of one event."""

    data: bytes
    type: str
    is_whole: bool
    """Whether the event is gone; else a part of it is."""


_PLACE = re.compile(r"(data/|warehouse/|(file|s3|s3a|gs|az|abfss?|wasbs?)://)\S+$")
"""Where a file or a table lies."""


class _Gone:
    """In the place of a part that is taken out."""


GONE = _Gone()


def has_text(data: bytes, texts: Collection[str]) -> bool:
    """Whether JSON may hold one of the texts. An escape may hide one, so JSON with escapes always may."""
    return b"\\" in data or any(text.encode() in data for text in texts)


def redact(
    data: bytes,
    position: int,
    log: str,
    selection: Selection,
    words: Mapping[str, str],
    registry: EventRegistry,
    reason: str,
) -> Redaction | None:
    """What is to stand at a position; None if the event stays as it is.

    `words` are what stands for each text afterwards; and for each hash of a blob that was rewritten, the new one.
    """
    is_chosen = selection.holds(log, position)
    if not is_chosen and not has_text(data, (*selection.ids, *words)):
        return None
    event: dict[str, Any] = msgspec.json.decode(data)
    kind = event["type"]
    if is_chosen and kind != EVENT_ERASED.name:
        return _erased(event, reason)
    before = event.get("data")
    if selection.ids and isinstance(before, dict):
        if _names(before, selection.ids):
            return _erased(event, reason)
        left = _without(before, selection.ids, is_top=True)
        if left != before:
            event["data"] = left
            if not _fits(event, registry):
                return _erased(event, reason)
    if words:
        event = {name: value if name in _FIXED else replace_texts(value, words) for name, value in event.items()}
        if "blobs" in event:
            event["blobs"] = [words.get(sha256, sha256) for sha256 in event["blobs"]]
    if event == msgspec.json.decode(data):
        return None
    if not _fits(event, registry):
        raise Refused(
            f"without the text the {kind} at {_shown(position)} of {log} cannot be read any more; erase it whole: "
            f"--event {log}={_shown(position)}"
        )
    return Redaction(msgspec.json.encode(event), kind, is_whole=False)


def _shown(position: int) -> str:
    return f"{position >> 20}:{position & (1 << 20) - 1}"


def _erased(event: Mapping[str, Any], reason: str) -> Redaction:
    kept = {name: event[name] for name in ("id", "time", "operation", "span") if name in event}
    said = EventErased(event["type"], reason)
    erased = {**kept, "type": EVENT_ERASED.name, "source": "arco", "actor": "erased", "data": said}
    return Redaction(msgspec.json.encode(erased), event["type"], is_whole=True)


def _fits(event: Mapping[str, Any], registry: EventRegistry) -> bool:
    try:
        registry.decode(event["type"], event.get("version", 1), msgspec.json.encode(event["data"]))
    except Invalid:
        return False
    return True


# Ids


def _names(value: Mapping[str, Any], ids: Collection[str]) -> bool:
    return any(name.endswith("_id") and isinstance(said, str) and said in ids for name, said in value.items())


def _without(value: Any, ids: Collection[str], *, is_top: bool = False) -> Any:
    """A payload without the parts that name an id. A part goes too if a list in it that had something has nothing."""
    left: dict[str, Any] = {}
    for name, said in value.items():
        if name == PLAN:
            left[name] = said
        elif isinstance(said, dict):
            kept = GONE if _names(said, ids) else _without(said, ids)
            if kept is not GONE:
                left[name] = kept
        elif isinstance(said, list):
            rest = [item for item in (_item(name, item, ids) for item in said) if item is not GONE]
            if said and not rest and not is_top:
                return GONE
            left[name] = rest
        else:
            left[name] = said
    return left


def _item(name: str, item: Any, ids: Collection[str]) -> Any:
    if isinstance(item, dict):
        if name == SCHEMAS and item.get("asset_id") not in ids and item.get("materialization_id") in ids:
            return {**item, "materialization_id": NO_VERSION}
        return GONE if _names(item, ids) else _without(item, ids)
    return GONE if name.endswith("_ids") and item in ids else item


# Texts


def replace_texts(value: Any, words: Mapping[str, str]) -> Any:
    """The same JSON with words in the place of texts. `Refused` where a file or a table would have another place."""
    if isinstance(value, str):
        return _text(value, words)
    if isinstance(value, list):
        return [replace_texts(item, words) for item in value]
    if isinstance(value, dict):
        return {_text(name, words): replace_texts(item, words) for name, item in value.items()}
    return value


def _text(value: str, words: Mapping[str, str]) -> str:
    for text, word in words.items():
        if text in value:
            if _PLACE.match(value):
                raise Refused(
                    "the text stands in the place of a file or a table, which cannot be renamed; erase what lies there "
                    "with --about, or move it with an engine first"
                )
            value = value.replace(text, word)
    return value
