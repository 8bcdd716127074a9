"""Which revisions are kept: all for an hour, one a minute for a day, one an hour for 30 days, and pinned ones.

The first hour can be set to another time, `keep_all`. The newest stand in the manifest itself, older ones in a file.

Pins are events, but for those that a manifest makes itself: it keeps the revision it replaces if other folds made that.
No log has these, so that each manifest takes them from the one before until they expire.
"""

import hashlib
from collections.abc import Collection, Iterable

import msgspec

from arco.core import DAY, HOUR, MINUTE
from arco.state._files import FileWriter
from arco.state._manifest import Entry, File, Manifest, PinEntry
from arco.state._revisions import Head, Revisions

__all__ = ["refold_pins", "retained", "with_history", "with_pins"]

INLINE = 256
"""Older revisions listed in the manifest itself; when they grow past it the older half moves to a file."""

REFOLD_KEPT = 30 * DAY
"""For so long the revision is kept that stood before other folds took over."""


def retained(entries: Iterable[Entry], now: int, pinned: Collection[int], keep_all: int = HOUR) -> list[Entry]:
    """The entries to keep, oldest first: of each minute or hour the newest. Thinning twice is thinning once."""
    kept: list[Entry] = []
    slot: tuple[int, int] | None = None
    for entry in sorted(entries, key=lambda entry: entry.revision, reverse=True):
        age = now - entry.published_at
        if entry.revision in pinned:
            kept.append(entry)
            continue
        if age < keep_all:
            kept.append(entry)
            continue
        if age >= 30 * DAY:
            continue
        width = MINUTE if age < DAY else HOUR
        mine = (width, entry.published_at // width)
        if mine != slot:
            kept.append(entry)
            slot = mine
    return kept[::-1]


def refold_pins(manifest: Manifest) -> list[PinEntry]:
    """Of revisions that stood before other folds took over, oldest first."""
    found = [pin for pin in manifest.pins if pin.pin_id == _refold_id(pin.revision)]
    return sorted(found, key=lambda pin: pin.revision)


def _refold_id(revision: int) -> str:
    return f"refold-{revision}"


def with_pins(manifest: Manifest, before: Manifest, *, is_refold: bool) -> Manifest:
    """The manifest that follows another one, with the pins that live: its own, which come from the log, and those of
    manifests. With `is_refold` it has other folds than the one before, and pins that."""
    now = manifest.published_at
    made = refold_pins(before)
    if is_refold and before.number:
        made.append(PinEntry(_refold_id(before.number), before.number, now + REFOLD_KEPT))
    pins = {pin.pin_id: pin for pin in (*manifest.pins, *made) if pin.expires_at > now}
    return msgspec.structs.replace(manifest, pins=tuple(pin for _, pin in sorted(pins.items())))


async def with_history(
    manifest: Manifest, head: Head, revisions: Revisions, writer: FileWriter, keep_all: int
) -> Manifest:
    """The manifest that follows a head, with the history of the head and the head itself, thinned."""
    before = head.manifest
    if before.number == 0:
        return msgspec.structs.replace(manifest, history=(), older=None)
    now = manifest.published_at
    pinned = {pin.revision for pin in manifest.pins}
    mine = Entry(before.number, before.published_at, before.watermark, head.sha256)
    history = retained((*before.history, mine), now, pinned, keep_all)
    older = before.older
    if len(history) > INLINE:
        inline = history[-INLINE // 2 :]
        known = retained(await revisions.history(before), now, pinned, keep_all)
        older = await _write(writer, [entry for entry in known if entry.revision < inline[0].revision])
        history = inline
    return msgspec.structs.replace(manifest, history=tuple(history), older=older)


async def _write(writer: FileWriter, entries: list[Entry]) -> File:
    data = msgspec.json.encode(entries)
    path = writer.path("history.json")
    await writer.put(path, data)
    return File(path, 0, len(data), hashlib.sha256(data).hexdigest(), len(entries), "")
