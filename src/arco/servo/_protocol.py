"""What a worker and a server say to each other, besides envelopes. Both sides use these."""

from typing import Annotated, Final

import msgspec

from arco.domains.orchestration import FinishTask
from arco.servo._queue import WorkerId

__all__ = ["CALLBACK", "RELAYED", "Beat", "Claimed", "Claims", "Progress", "Pulse", "Result", "Session"]

CALLBACK: Final = "arco-callback"
"""The header with the token of the attempt."""

RELAYED: Final = "arco-relayed"
"""Set by a server that passes a sign of life on to the one that leads the log."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]


class Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A worker, and which of its lives speaks."""

    worker: Name
    session: Name

    @property
    def id(self) -> WorkerId:
        return WorkerId(self.worker, self.session)


class Claims(Session, frozen=True, forbid_unknown_fields=True):
    slots: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0


class Result(Session, frozen=True, forbid_unknown_fields=True):
    result: FinishTask
    slots: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """Tasks to claim with the answer."""


class Claimed(msgspec.Struct, frozen=True):
    envelopes: tuple[str, ...] = ()


Count = Annotated[int, msgspec.Meta(ge=0)]


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far an attempt has come, as its driver says. Kept in memory, never in the log."""

    tasks_done: Count = 0
    tasks_total: Count = 0
    stage: Annotated[str, msgspec.Meta(max_length=100)] = ""
    rows_written: Count = 0
    bytes_written: Count = 0
    ui: Annotated[str, msgspec.Meta(max_length=300)] = ""
    """Address of the engine's own pages about it."""


class Pulse(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A sign of life. One without progress may have no body at all."""

    progress: Progress | None = None


class Beat(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a sign of life."""

    cancel: bool = False
    """The attempt shall end."""
    reason: str = ""
