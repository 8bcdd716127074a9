"""Reading a log in order: each segment decoded and checked against the chain."""

from collections.abc import AsyncIterator

from arco.core import Corrupt
from arco.log._ledger import Ledger
from arco.log._segment import Link, Place, Segment, check_link, decode_segment, link_of
from arco.storage import Tail

__all__ = ["check_segment", "read_log"]


def check_segment(data: bytes, place: Place, link: Link, path: str) -> tuple[Segment, Link]:
    """The segment after `link`, or `Corrupt`."""
    segment = decode_segment(data, path)
    check_link(segment, place, link, path)
    return segment, link_of(segment, data)


async def read_log(
    ledger: Ledger,
    tail: Tail,
    link: Link,
    *,
    through: int | None = None,
    at_least: int = 0,
    gradually: bool = False,
) -> AsyncIterator[tuple[Segment, Link, int] | Tail]:
    """Every segment after `tail` with its link and its size, then the tail as it was proven last.

    Stops after number `through`. Numbers up to `at_least` are known to exist: if one is absent, that is `LostObject`.
    Who may have enough of it soon reads `gradually`.
    """
    sealed = False
    async for found in ledger.walk(tail, through=through, at_least=at_least, gradually=gradually):
        if isinstance(found, Tail):
            yield found
            return
        _, data, path = found
        segment, link = check_segment(data, ledger.place, link, path)
        if sealed:
            raise Corrupt(f"{path} stands after the seal of its incarnation; run `arco log verify`", path=path)
        sealed = segment.header.seal
        yield segment, link, len(data)
