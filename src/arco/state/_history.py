"""Which revisions are kept: all for an hour, one a minute for a day, one an hour for 30 days, and pinned ones.

The first hour can be set to another time, `keep_all`.
"""

from collections.abc import Collection, Iterable

from arco.core import DAY, HOUR, MINUTE
from arco.state._manifest import Entry

__all__ = ["retained"]


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
