"""From what a server answers to the error that fits.

A problem's `type` is `urn:arco:problem:` and the error's name with hyphens. A type this client does not know, and an
answer that is no problem at all (a proxy's), is told by its status.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import httpx
from pydantic import ValidationError

from arco.core import (
    ArcoError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    PreconditionFailed,
    RateLimited,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from arco.wire import Problem

__all__ = ["error_of", "kind_of"]

_PREFIX: Final = "urn:arco:problem:"
_BY_STATUS: Final[dict[int, type[ArcoError]]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    413: TooLarge,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def kind_of(error: type[ArcoError]) -> str:
    """The name of an error class as a problem's type has it: `not-found`."""
    return re.sub("(?<!^)(?=[A-Z])", "-", error.__name__).lower()


def _classes(root: type[ArcoError]) -> Iterator[type[ArcoError]]:
    yield root
    for child in root.__subclasses__():
        yield from _classes(child)


_BY_KIND: Final = {kind_of(known): known for known in _classes(ArcoError)}


def error_of(response: httpx.Response, url: str) -> ArcoError:
    """The error for an answer that is no success."""
    status = response.status_code
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        return _without_problem(status, url, _retry_after(response))
    known = _BY_KIND.get(problem.type.removeprefix(_PREFIX)) if problem.type.startswith(_PREFIX) else None
    details: dict[str, Any] = {
        name: value for name, value in problem.details.items() if name not in ("self", "message")
    }
    details |= {"hint": problem.hint, "request_id": problem.request_id}
    if problem.operation_id is not None:
        details["operation_id"] = problem.operation_id
    if problem.errors:
        details["errors"] = [item.model_dump() for item in problem.errors]
    retry_after = _retry_after(response)
    if retry_after is not None:
        details["retry_after"] = retry_after
    return (known or _by_status(status))(problem.detail, **details)


def _by_status(status: int) -> type[ArcoError]:
    return _BY_STATUS.get(status) or (Invalid if 400 <= status < 500 else ArcoError)


def _without_problem(status: int, url: str, retry_after: float | None) -> ArcoError:
    details: dict[str, Any] = {"status": status}
    if retry_after is not None:
        details["retry_after"] = retry_after
    if 300 <= status < 400:
        return Invalid(f"{url} answers with a redirection ({status}); give the address of the server itself", **details)
    return _by_status(status)(
        f"{url} answers with status {status} and not like an Arco server; check its address and what stands in between",
        **details,
    )


def _retry_after(response: httpx.Response) -> float | None:
    """The seconds a server asks for. A date is not understood; the caller then waits as it would without."""
    text = response.headers.get("Retry-After", "")
    return float(text) if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) else None
