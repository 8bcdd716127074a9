"""Reading a log in order: each segment decoded and checked against the chain."""

from collections.abc import AsyncIterator

from arco.core import Corrupt, LostObject
from arco.log._segment import Link, Place, Segment, check_link, decode_segment, link_of
from arco.storage import Sequence, Tail

__all__ = ["Unknown", "check_segment", "read_log"]

Unknown = float("-inf")
"""The age of a tail about which nothing was proven."""


def check_segment(data: bytes, place: Place, link: Link, path: str) -> tuple[Segment, Link]:
    """The segment after `link`, or `Corrupt`."""
    segment = decode_segment(data, path)
    check_link(segment, place, link, path)
    return segment, link_of(segment, data)


async def read_log(
    sequence: Sequence, place: Place, tail: Tail, link: Link, *, through: int | None = None, at_least: int = 0
) -> AsyncIterator[tuple[Segment, Link, int] | Tail]:
    """Every segment after `tail` with its link and its size, then the tail as it was proven last.

    Stops after number `through`. Numbers up to `at_least` are known to exist: if one is absent, that is `LostObject`.
    """
    sealed = False
    while through is None or tail.number < through:
        found = await sequence.next(tail)
        if isinstance(found, Tail):
            if found.number < at_least:
                raise LostObject(
                    f"segment {found.number + 1} of the log {place.log} is missing although {at_least} was announced; "
                    "nothing is written any more: run `arco doctor`",
                    path=sequence.path(found.number + 1),
                )
            tail = found
            break
        data, tail = found
        path = sequence.path(tail.number)
        segment, link = check_segment(data, place, link, path)
        if sealed:
            raise Corrupt(f"{path} stands after the seal of its incarnation; run `arco log verify`", path=path)
        sealed = segment.header.seal
        yield segment, link, len(data)
    yield tail
