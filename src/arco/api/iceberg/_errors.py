"""Errors as Iceberg's clients read them: `{"error": {"message", "type", "code"}}`, for everything below `/iceberg`.

The status is that of the rest of the API but where Iceberg names another one. What a client does on a commit follows
from the status alone, so this is what each one says:

- 409: nothing was written; read the table again and try on what it is now.
- 503 with `Retry-After`: nothing was written, or the request carries an `Idempotency-Key`; send the same again. Java's
  client does that by itself for 503 with this header, and for no other 5xx of a POST.
- 500 `CommitStateUnknownException`: it may have been written, and the request has no key. To send it again would meet
  its own commit, be told 409, and the client would delete the files of a commit that happened. So clients must stop
  here, which is what they do. The text names the operation by which the outcome can be asked.

Every other 5xx is a fault of Arco or of what is stored.
"""

import logging
from typing import Final

import msgspec
from starlette.responses import Response

from arco.api._problems import RETRY_AFTER, status_of
from arco.core import (
    ArcoError,
    Conflict,
    Corrupt,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    RateLimited,
    Refused,
    StoreRefused,
    Superseded,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from arco.iceberg import Unprocessable, Unsupported

__all__ = ["UNFORESEEN", "error_body", "error_response", "plain_error"]

_log = logging.getLogger("arco.api.iceberg")

UNFORESEEN: Final = "something happened that nobody foresaw; the server's log has it under the request id"

_STATUSES: Final[dict[type[ArcoError], int]] = {Unprocessable: 422, Unsupported: 406, PreconditionFailed: 409}

_TYPES: Final[dict[type[ArcoError], str]] = {
    Invalid: "BadRequestException",
    TooLarge: "PayloadTooLargeException",
    Unauthenticated: "NotAuthorizedException",
    Forbidden: "ForbiddenException",
    NotFound: "NotFoundException",
    Conflict: "AlreadyExistsException",
    PreconditionFailed: "CommitFailedException",
    Refused: "ConflictException",
    RateLimited: "TooManyRequestsException",
    OutcomeUnknown: "CommitStateUnknownException",
    Unavailable: "ServiceUnavailableException",
    Superseded: "ServiceUnavailableException",
    StoreRefused: "ServiceUnavailableException",
    Corrupt: "InternalServerError",
}
"""Iceberg's names for errors of Arco that do not bring their own; a class that is not here is named as its ancestor."""


def error_response(error: ArcoError, *, commit: bool, keyed: bool, head: bool = False) -> Response:
    """The answer for an error. `commit`: see `COMMITS`; `keyed`: the request can be repeated by its key."""
    kind = type(error)
    status = _STATUSES.get(kind) or status_of(kind)
    name: str = getattr(error, "type", "") or _type_of(kind, commit=commit)
    message = error.message
    if isinstance(error, OutcomeUnknown):
        operation = error.details.get("operation")
        if isinstance(operation, str) and operation not in message:
            message = f"{message} (operation {operation})"
        if not keyed:
            status = 500
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["Retry-After"] = str(max(1, int(error.details.get("retry_after", RETRY_AFTER))))
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="arco"'
    if status >= 500 and not isinstance(error, Unavailable):
        _log.error("%s", error.message)
    return plain_error(status, name, message, headers, head=head)


def _type_of(kind: type[ArcoError], *, commit: bool) -> str:
    found = next((parent for parent in kind.__mro__ if parent in _TYPES), None)
    if commit and found in (Conflict, Refused):
        return "CommitFailedException"
    return _TYPES[found] if found is not None else "InternalServerError"


def plain_error(
    status: int, name: str, message: str, headers: dict[str, str] | None = None, *, head: bool = False
) -> Response:
    body = b"" if head else error_body(status, name, message)
    return Response(body, status, headers, media_type="application/json")


def error_body(status: int, name: str, message: str) -> bytes:
    return msgspec.json.encode({"error": {"message": message, "type": name, "code": status}})
