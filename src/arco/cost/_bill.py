"""`bill`: requests and bytes × prices, line by line."""

from collections.abc import Mapping
from dataclasses import dataclass

from arco.cost._prices import CLASSES, Prices
from arco.storage import Operation

__all__ = ["DAYS_A_MONTH", "Bill", "Line", "bill"]

DAYS_A_MONTH = 30.4375
"""A year has twelve of them."""


@dataclass(frozen=True)
class Line:
    """One item of a bill; `per_day` is requests or, of storage, bytes that lie there."""

    what: str
    unit: str
    per_day: float
    dollars_a_day: float

    @property
    def dollars_a_month(self) -> float:
        return self.dollars_a_day * DAYS_A_MONTH


@dataclass(frozen=True)
class Bill:
    prices: Prices
    lines: tuple[Line, ...]

    @property
    def dollars_a_day(self) -> float:
        return sum(line.dollars_a_day for line in self.lines)

    @property
    def dollars_a_month(self) -> float:
        return self.dollars_a_day * DAYS_A_MONTH


def bill(
    requests: Mapping[str, Mapping[Operation, float]], stored: Mapping[str, float], prices: Prices, times: float = 1.0
) -> Bill:
    """Of what is asked for in a day and what lies there, `times` over."""
    lines = []
    for purpose, counts in requests.items():
        for operation, number in counts.items():
            kind = CLASSES[operation]
            if kind is not None and number:
                lines.append(
                    Line(f"{purpose}: {operation}", "requests", number * times, prices.of(kind, number * times))
                )
    for folder, size in stored.items():
        if size:
            lines.append(Line(f"stored: {folder}", "bytes", size * times, prices.storage(size * times) / DAYS_A_MONTH))
    return Bill(prices, tuple(lines))
