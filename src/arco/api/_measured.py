"""`Measured`: requests as plain counts, by workspace, route and status. `/metrics` reads them when it is asked.

A route is named by its template, never by what was asked for, so that names of tables stay out and there are only so
many counts as there are routes, statuses and workspaces.
"""

from collections import Counter
from typing import Any, Final, NamedTuple

from starlette.types import Scope as Request

from arco.api._caller import ASKED
from arco.core import Histogram
from arco.storage import Scope

__all__ = ["ROUTE", "Asked", "Measured", "asked_of"]

ROUTE: Final = "arco.route"
"""Where a request of the Iceberg catalog carries the operation that it asks for."""

OTHER: Final = "other"
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""By which durations are counted."""


class Asked(NamedTuple):
    """What was asked for."""

    scope: Scope | None
    """None if the request was let into no workspace."""
    method: str
    route: str


class Measured:
    def __init__(self) -> None:
        self.statuses: Counter[tuple[Asked, int]] = Counter()
        self.durations: dict[Asked, Histogram] = {}
        """Seconds until the answer began."""

    def add(self, asked: Asked, status: int, seconds: float) -> None:
        self.statuses[asked, status] += 1
        found = self.durations.get(asked)
        if found is None:
            found = self.durations[asked] = Histogram(SECONDS)
        found.observe(seconds)


def asked_of(request: Request) -> Asked:
    operation: tuple[str, str] | None = request.get(ROUTE)
    if operation is not None:
        return Asked(request.get(ASKED), operation[0], f"/iceberg{operation[1]}")
    route: Any = request.get("route")
    method: str = request["method"]
    return Asked(request.get(ASKED), method if method in METHODS else OTHER, str(getattr(route, "path", OTHER)))
