"""`Uses`: the workspaces that one request holds open, from the moment it names one until its answer is sent.

A workspace counts as used once the request has shown that it may ask; who only tries names keeps nothing open.
"""

from collections.abc import MutableMapping
from typing import Any, Final

from arco.runtime import Lease

__all__ = ["WORKSPACE", "Uses", "uses_of", "whose"]

WORKSPACE: Final = "arco.workspace"
"""Where a request says whose it is, for the lines of logs."""

_KEY: Final = "arco.uses"

ASGIScope = MutableMapping[str, Any]


class Uses:
    def __init__(self) -> None:
        self._leases: list[Lease] = []

    def add(self, lease: Lease) -> None:
        self._leases.append(lease)

    def accept(self) -> None:
        """Whoever asks may."""
        for lease in self._leases:
            lease.accept()

    def release(self) -> None:
        leases, self._leases = self._leases, []
        for lease in leases:
            lease.release()


def uses_of(scope: ASGIScope) -> Uses:
    """Those of a request; the application releases them when it is answered."""
    found: Uses | None = scope.get(_KEY)
    if found is None:
        found = scope[_KEY] = Uses()
    return found


def whose(scope: ASGIScope) -> str:
    """Tenant and workspace of a request, for a line of a log; a dash if nobody has proved any."""
    return str(scope.get(WORKSPACE, "-"))
