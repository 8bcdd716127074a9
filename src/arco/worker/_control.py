"""`ControlPlane`: whom a worker asks for tasks and tells of them. A small port, so that a worker runs against a server,
against a process of its own, or against a test.

Every call may raise `Unavailable` (try again). Whatever is told may be told again. Of an attempt that is over for this
worker a sign of life is answered with `stale`, and a result is refused by a `Conflict` with `code="stale_attempt"`.
"""

from collections.abc import Sequence
from typing import Protocol

from arco.core import ArcoError, Conflict
from arco.domains.orchestration import STALE_ATTEMPT, FinishTask
from arco.servo import Beat, Envelope, Finished, Progress

__all__ = ["ControlPlane", "Told", "is_stale"]

Told = tuple[Envelope, FinishTask]
"""An attempt and how it ended."""


class ControlPlane(Protocol):
    async def open_session(self, worker: str, session: str) -> None:
        """A worker begins. What its earlier lives claimed is lost."""
        ...

    async def claim(self, slots: int, wait_seconds: float) -> list[bytes]:
        """Signed envelopes of up to so many tasks and batches; empty if none is ready within so many seconds."""
        ...

    async def heartbeat(self, envelopes: Sequence[Envelope], progress: Progress | None = None) -> Sequence[Beat]:
        """Attempts are alive, and have come so far together. The answers are in the same order."""
        ...

    async def finish(self, told: Sequence[Told], claim: int) -> Finished:
        """Attempts have ended: which results are refused, and envelopes of up to `claim` tasks and batches."""
        ...

    async def code(self, sha256: str) -> bytes:
        """The archive of a code version."""
        ...


def is_stale(error: ArcoError) -> bool:
    return isinstance(error, Conflict) and error.details.get("code") == STALE_ATTEMPT
