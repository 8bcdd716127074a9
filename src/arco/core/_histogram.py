"""`Histogram`: how often a number was how large, by upper bounds that are fixed beforehand.

Whoever measures keeps one and adds to it; whoever reports reads it. Adding is a search in a short tuple.
"""

from bisect import bisect_left
from collections.abc import Iterator

__all__ = ["Histogram"]


class Histogram:
    """Counts of observed numbers, one for each bound and one for those above all of them."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        assert bounds == tuple(sorted(set(bounds))), "bounds grow"
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """Sum of all numbers."""

    def observe(self, number: float) -> None:
        self.counts[bisect_left(self.bounds, number)] += 1
        self.total += number

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """How many numbers were at most each bound, and at last how many there were."""
        below = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            below += count
            yield bound, below
