"""`price_counts`: what a server counted of its own requests × prices, by class, so far and a day.

It stands beside what is calculated from the log: the calculation knows only what was written, the count knows all that
one process asked for, and nothing of the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from arco.cost._prices import CLASSES, Class, Prices
from arco.storage import Operation

__all__ = ["Counted", "Share", "by_class", "price_counts"]

DAY = 86_400.0
ENOUGH = 3600.0
"""Seconds. In less than that, opening the workspace is most of what was counted, and a day is nothing like it."""


@dataclass(frozen=True)
class Share:
    """Requests of one class."""

    kind: Class
    requests: float
    dollars: float

    def times(self, factor: float) -> "Share":
        return Share(self.kind, self.requests * factor, self.dollars * factor)


@dataclass(frozen=True)
class Counted:
    """What was asked for in so many seconds."""

    seconds: float
    shares: tuple[Share, ...]

    @property
    def requests(self) -> float:
        return sum(share.requests for share in self.shares)

    @property
    def dollars(self) -> float:
        return sum(share.dollars for share in self.shares)

    @property
    def a_day(self) -> tuple[Share, ...] | None:
        """The same pace for a day; None as long as it is too early to tell."""
        if self.seconds < ENOUGH:
            return None
        return tuple(share.times(DAY / self.seconds) for share in self.shares)


def by_class(requests: Mapping[Operation, float], prices: Prices) -> tuple[Share, ...]:
    """Every class, also one that was not asked for; what is no request is in none."""
    return tuple(
        Share(kind, number, prices.of(kind, number))
        for kind in Class
        for number in [sum(count for operation, count in requests.items() if CLASSES[operation] is kind)]
    )


def price_counts(requests: Mapping[Operation, float], seconds: float, prices: Prices) -> Counted:
    return Counted(seconds, by_class(requests, prices))
