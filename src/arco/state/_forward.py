"""Folding a replica forward along its log, batch by batch: for rebuilds, verification and readers at a position."""

from collections.abc import AsyncIterator

from arco.log import Ledger, Link, Segment, Unknown, read_log
from arco.state._replica import Replica
from arco.storage import Tail

__all__ = ["fold_forward"]

BATCH_SEGMENTS = 64
BATCH_EVENTS = 20_000
"""A batch ends with whichever it reaches first: events may be many in a segment, and each may make many rows."""


async def fold_forward(
    replica: Replica,
    log: Ledger,
    through: int | None,
    *,
    at_least: int,
    position: int | None = None,
    received: int | None = None,
) -> AsyncIterator[int]:
    """Fold the segments up to `through`, or up to the tail if that comes first; yields the number after each batch.

    Numbers up to `at_least` are known to exist. With `position`, events beyond it are left out; with `received`,
    segments that came later are.
    """
    batch: list[tuple[Segment, Link]] = []
    events = 0
    link, soon = replica.link, received is not None
    tail = Tail(link.number, Unknown)
    async for found in read_log(log, tail, link, through=through, at_least=at_least, gradually=soon):
        ended = isinstance(found, Tail) or (received is not None and found[0].header.received > received)
        if not isinstance(found, Tail) and not ended:
            batch.append((found[0], found[1]))
            events += len(found[0].events)
        if batch and (ended or len(batch) == BATCH_SEGMENTS or events >= BATCH_EVENTS):
            await replica.apply(batch, through=position)
            batch, events = [], 0
            yield replica.link.number
        if ended:
            return
