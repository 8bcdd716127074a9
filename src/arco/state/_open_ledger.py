"""`open_ledger`: the segments of a log, loose and packed, for whoever knows its revisions."""

from arco.core import Superseded
from arco.log import Ledger, Pack
from arco.state._layout import Layout
from arco.state._revisions import Revisions
from arco.storage import Sequence, Store

__all__ = ["open_ledger"]


def open_ledger(store: Store, revisions: Revisions, packs: tuple[Pack, ...] = ()) -> Ledger:
    """`packs` are those of a manifest that is known already; those of the newest one are looked for when needed."""
    place, runtime = revisions.place, revisions.runtime

    async def newest() -> tuple[Pack, ...]:
        try:
            return (await revisions.head()).manifest.packs
        except Superseded:  # of a deleted incarnation there are none: the segment is lost here, and its readers ask why
            return ()

    sequence = Sequence(store, Layout(place).ledger, runtime, min_age=revisions.min_age)
    return Ledger(store, sequence, place, runtime, packs, newest=newest)
