"""What a worker and a server say to each other, besides envelopes. Both sides use these.

Whatever is said of an attempt carries its callback token. What is said of the attempts of a batch is said at once.
"""

from typing import Annotated, Final

import msgspec

from arco.core import ArcoError
from arco.domains.orchestration import FinishTask
from arco.servo._queue import WorkerId
from arco.wire import pack_error, unpack_error

__all__ = [
    "MAX_TOLD",
    "RELAYED",
    "Beat",
    "Beats",
    "Callback",
    "Claimed",
    "Claims",
    "Ended",
    "Heard",
    "Progress",
    "Refusal",
    "Results",
    "Session",
]

RELAYED: Final = "arco-relayed"
"""Set by a server that passes signs of life on to the one that leads the log."""

MAX_TOLD: Final = 1_000
"""Attempts of which one request may speak."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]
Token = Annotated[str, msgspec.Meta(max_length=200)]


class Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A worker, and which of its lives speaks."""

    worker: Name
    session: Name

    @property
    def id(self) -> WorkerId:
        return WorkerId(self.worker, self.session)


class Claims(Session, frozen=True, forbid_unknown_fields=True):
    slots: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    """Tasks and batches to claim."""
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0


class Ended(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The end of an attempt."""

    token: Token
    result: FinishTask


class Results(Session, frozen=True, forbid_unknown_fields=True):
    results: Annotated[tuple[Ended, ...], msgspec.Meta(min_length=1, max_length=MAX_TOLD)]
    slots: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """Tasks and batches to claim with the answer."""


class Refusal(msgspec.Struct, frozen=True):
    """Why the result of an attempt was not taken."""

    attempt_id: str
    error: msgspec.Raw

    @classmethod
    def of(cls, attempt_id: str, error: ArcoError) -> "Refusal":
        return cls(attempt_id, msgspec.Raw(pack_error(error)))

    @property
    def raised(self) -> ArcoError:
        return unpack_error(bytes(self.error)) or ArcoError("the result was refused")


class Claimed(msgspec.Struct, frozen=True):
    envelopes: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    """Of the results that were told: those that were not taken. All others were."""


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
    attempts: Count = 1
    """Those of a batch have come this far together."""


class Callback(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A sign of life of one attempt."""

    attempt_id: Name
    token: Token
    progress: Progress | None = None


class Beats(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Signs of life of attempts."""

    attempts: Annotated[tuple[Callback, ...], msgspec.Meta(min_length=1, max_length=MAX_TOLD)]


class Beat(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a sign of life."""

    cancel: bool = False
    """The attempt shall end."""
    reason: str = ""
    stale: bool = False
    """The attempt is over, or was never claimed: whoever has it forgets it."""


class Heard(msgspec.Struct, frozen=True):
    beats: tuple[Beat, ...]
    """In the order of the attempts."""
