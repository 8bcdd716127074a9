"""Every error Arco raises, as one tree with a class per reaction of the caller.

    ArcoError
    ├── Invalid            the input is wrong: change it; nothing was written
    │   └── TooLarge       a size limit: split the input or use a blob
    ├── Refused            the state says no: nothing was written, look before trying again
    │   ├── NotFound       the thing named does not exist
    │   ├── Conflict       the thing exists already, or another request used the same key
    │   │   └── PreconditionFailed  it changed since you looked: read it again
    │   ├── Unauthenticated  nobody knows who asks: send a valid key
    │   └── Forbidden      this role or scope may not do that
    ├── Unavailable        nothing is decided against you: try again later
    │   ├── RateLimited    too many requests: slow down
    │   ├── OutcomeUnknown the operation may or may not have happened: ask by its operation id
    │   └── Stale          the reader is behind what was asked for
    ├── Superseded         somebody else goes on: stop writing and re-read
    │   └── Outdated       this program is older than the data: upgrade it
    ├── StoreRefused       the store will not do it at all: fix rights, space or the store itself
    └── Corrupt            what is stored is wrong: stop, run `arco doctor`
        └── LostObject     something that must exist is missing

A message says what happened, to what, and what to do. `details` carries the same for programs and never a secret.
"""

from typing import Any

__all__ = [
    "ArcoError",
    "Conflict",
    "Corrupt",
    "Forbidden",
    "Invalid",
    "LostObject",
    "NotFound",
    "OutcomeUnknown",
    "Outdated",
    "PreconditionFailed",
    "RateLimited",
    "Refused",
    "Stale",
    "StoreRefused",
    "Superseded",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
]


class ArcoError(Exception):
    """Base of all errors. `exit_code` is what a command ends with."""

    exit_code = 1

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    @property
    def name(self) -> str:
        return type(self).__name__


class Invalid(ArcoError):
    """The input is wrong. Change it; nothing was written."""

    exit_code = 2


class TooLarge(Invalid):
    """A size limit was passed. Split the input, or move the payload to a blob."""


class Refused(ArcoError):
    """The state does not allow it. Nothing was written."""

    exit_code = 3


class NotFound(Refused):
    """The thing named does not exist."""


class Conflict(Refused):
    """The thing exists already, or the request key was used for something else."""


class PreconditionFailed(Conflict):
    """The thing changed since the caller looked at it. Read it again, then decide."""


class Unauthenticated(Refused):
    """Nobody knows who asks. Send a valid key."""


class Forbidden(Refused):
    """This role or scope may not do that."""


class Unavailable(ArcoError):
    """It did not work now. Nothing is decided against the caller: try again later."""

    exit_code = 4


class RateLimited(Unavailable):
    """Too many requests. Slow down; `details["retry_after"]` says for how many seconds."""


class OutcomeUnknown(Unavailable):
    """It may or may not have happened. Ask by the operation id before trying again."""


class Stale(Unavailable):
    """The reader has not reached the position asked for."""


class Superseded(ArcoError):
    """Another process goes on with this sequence. Stop writing, re-read, then decide."""

    exit_code = 5


class Outdated(Superseded):
    """The data was written by a newer version. This program only reads until it is upgraded."""


class StoreRefused(ArcoError):
    """The store will not do it: missing rights, no space, or a store that cannot keep its promises."""

    exit_code = 6


class Corrupt(ArcoError):
    """Stored bytes are not what they must be. Stop and run `arco doctor`."""

    exit_code = 7


class LostObject(Corrupt):
    """An object that a manifest, a chain or density says exists is missing."""
