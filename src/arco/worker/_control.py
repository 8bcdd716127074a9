"""`ControlPlane`: whom a worker asks for tasks and tells of them. A small port, so that a worker runs against a server,
against a process of its own, or against a test.

Every call may raise `Unavailable` (try again) and `Conflict` with `code="stale_attempt"` in its details (the attempt is
over for this worker: forget it). Whatever is told may be told again.
"""

from typing import Protocol

from arco.core import Conflict
from arco.domains.orchestration import STALE_ATTEMPT, FinishTask
from arco.servo import Beat, Envelope, Progress

__all__ = ["ControlPlane", "is_stale"]


class ControlPlane(Protocol):
    async def open_session(self, worker: str, session: str) -> None:
        """A worker begins. What its earlier lives claimed is lost."""
        ...

    async def claim(self, slots: int, wait_seconds: float) -> list[bytes]:
        """Signed envelopes of up to so many tasks; empty if none is ready within so many seconds."""
        ...

    async def heartbeat(self, envelope: Envelope, progress: Progress | None = None) -> Beat:
        """An attempt is alive, and has come so far."""
        ...

    async def finish(self, envelope: Envelope, result: FinishTask, claim: int) -> list[bytes]:
        """An attempt has ended; envelopes of up to `claim` tasks that are ready then."""
        ...

    async def code(self, sha256: str) -> bytes:
        """The archive of a code version."""
        ...


def is_stale(error: Conflict) -> bool:
    return error.details.get("code") == STALE_ATTEMPT
