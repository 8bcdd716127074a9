"""Parcels: what they take of the memory of the task that made them."""

import tracemalloc

from arco.spark._parcels import Outbox, Plain, open_parcel

EVENTS = b'{"id":"a"},' * 400_000


def test_a_parcel_holds_no_more_memory_than_it_has_bytes() -> None:
    """All parcels of a task are held until it ends, and zstandard asks for as much as there is before it compresses."""
    outbox = Outbox(4)
    outbox.chunk(0, "a").plain.append(Plain(0, "a", [], memoryview(EVENTS)))
    outbox.chunk(0, "b").plain.append(Plain(0, "b", [], memoryview(EVENTS)))
    first, second = (entry.plain for entry in outbox._chunks.values())
    names = list(outbox._chunks)
    outbox.send(*names[0], 0)  # from now on the memory that all parcels are made in is there
    tracemalloc.start()
    _, parcel = outbox.send(*names[1], 0)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert first != second
    assert bytes(open_parcel(parcel).plain[0].events) == EVENTS
    assert held < 2 * len(parcel[3]) + 10_000
