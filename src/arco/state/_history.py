"""Which revisions are kept: all for an hour, one a minute for a day, one an hour for 30 days, and pinned ones.

The first hour can be set to another time, `keep_all`. The newest stand in the manifest itself, older ones in a file.
"""

import hashlib
from collections.abc import Collection, Iterable

import msgspec

from arco.core import DAY, HOUR, MINUTE
from arco.state._files import FileWriter
from arco.state._manifest import Entry, File, Manifest
from arco.state._revisions import Head, Revisions

__all__ = ["retained", "with_history"]

INLINE = 256
"""Older revisions listed in the manifest itself; when they grow past it the older half moves to a file."""


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
