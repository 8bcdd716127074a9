"""Problems: how each error of Arco looks over HTTP (RFC 9457).

One table says the status, the title and the hint of each class of the error tree; a class that is not in it is answered
like its nearest ancestor. `type` is `urn:arco:problem:` and the class in kebab case; it never changes. What nobody
foresaw is a 500 that tells nothing of its inside but the request id, under which the server's log has the rest.
"""

import logging
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path

from arco.api._permissions import ROUTES
from arco.api._uses import whose
from arco.core import (
    ArcoError,
    Conflict,
    Corrupt,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Outdated,
    PreconditionFailed,
    RateLimited,
    Refused,
    Stale,
    StoreRefused,
    Superseded,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from arco.wire import Problem, ProblemItem

__all__ = ["MEDIA_TYPE", "install_problem_handlers", "problem_kind", "problem_response", "status_of", "title_of"]

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER: Final = 1
MAX_ITEMS: Final = 20

_PATHS: Final = {(method, path): compile_path(path)[0] for method, path in ROUTES}

_log = logging.getLogger("arco.api")


class _Shape(NamedTuple):
    status: int
    title: str
    hint: str


_SHAPES: Final[dict[type[ArcoError], _Shape]] = {
    Invalid: _Shape(400, "The request is wrong", "Change the request; nothing was written."),
    TooLarge: _Shape(413, "The request is too large", "Split it, or ask for less."),
    Unauthenticated: _Shape(401, "Nobody knows who asks", "Send a valid key: `Authorization: Bearer arco_...`."),
    Forbidden: _Shape(403, "This role may not do that", "Ask somebody with a higher role, or for one."),
    NotFound: _Shape(404, "It does not exist", "Check the name; a list shows what there is."),
    Conflict: _Shape(409, "It conflicts with what is there", "Look at what is there, then decide."),
    PreconditionFailed: _Shape(412, "It changed since you looked", "Read it again and send its new ETag."),
    Refused: _Shape(409, "The state does not allow it", "Look at what is there, then decide."),
    RateLimited: _Shape(429, "Too many requests", "Wait as long as Retry-After says."),
    OutcomeUnknown: _Shape(
        503,
        "The outcome is not known",
        "Ask GET /api/v1/operations/{id}, or send the same request key again.",
    ),
    Stale: _Shape(503, "The state is behind", "Try again after Retry-After."),
    Unavailable: _Shape(503, "It does not work now", "Try again after Retry-After; nothing was written."),
    Outdated: _Shape(503, "This server is older than the data", "Upgrade the server; until then it only reads."),
    Superseded: _Shape(503, "Another process goes on", "Try again after Retry-After."),
    StoreRefused: _Shape(503, "The store refuses", "Fix the rights, the space or the store, then try again."),
    Corrupt: _Shape(500, "Stored data is wrong or missing", "Run `arco doctor` where the store can be reached."),
}

_FAULT: Final = _Shape(500, "A fault of arco", "Try again; if it stays, report it with the request id.")
"""For what no layer should have let through."""


def _shape_of(kind: type[ArcoError]) -> _Shape:
    return next((_SHAPES[parent] for parent in kind.__mro__ if parent in _SHAPES), _FAULT)


def status_of(kind: type[ArcoError]) -> int:
    return _shape_of(kind).status


def title_of(kind: type[ArcoError]) -> tuple[int, str]:
    """The status of an error class, and what it means in words."""
    shape = _shape_of(kind)
    return shape.status, shape.title


def problem_kind(name: str) -> str:
    """The stable type of an error class: `NotFound` is `urn:arco:problem:not-found`."""
    return "urn:arco:problem:" + re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def problem_response(error: ArcoError, request_id: str, items: Sequence[ProblemItem] = ()) -> Response:
    shape = _shape_of(type(error))
    operation = error.details.get("operation")
    problem = Problem(
        type=problem_kind(error.name),
        title=shape.title,
        status=shape.status,
        detail=error.message,
        hint=shape.hint,
        request_id=request_id,
        operation_id=operation if isinstance(operation, str) else None,
        errors=list(items),
        details={name: _plain(value) for name, value in error.details.items() if name != "operation"},
    )
    headers: dict[str, str] = {}
    if shape.status in (429, 503):
        headers["Retry-After"] = str(max(1, int(error.details.get("retry_after", RETRY_AFTER))))
    if shape.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="arco"'
    return JSONResponse(problem.model_dump(mode="json"), shape.status, headers, MEDIA_TYPE)


def _plain(value: Any) -> Any:
    """What JSON can carry; an error must not fail because of what it tells."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(found) for key, found in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(found) for found in value]
    return str(value)


def install_problem_handlers(app: FastAPI, *, logs: bool = True) -> None:
    """With `logs` what fails is told to who keeps the server too; a command tells its only user itself."""

    async def arco_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ArcoError)
        if logs and status_of(type(error)) >= 500 and not isinstance(error, Unavailable):
            _log.error("%s: %s %s: %s", whose(request.scope), request.method, request.url.path, error.message)
        return problem_response(error, _id_of(request))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        items = [_item(found) for found in error.errors()[:MAX_ITEMS]]
        first = f"{items[0].where}: {items[0].message}" if items else "it does not fit the schema"
        more = f" (and {len(error.errors()) - 1} more)" if len(error.errors()) > 1 else ""
        return problem_response(Invalid(f"the request does not fit: {first}{more}"), _id_of(request), items)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _http_problem(error, request)

    async def unexpected(request: Request, error: Exception) -> Response:
        _log.exception(
            "%s: %s %s failed (request %s)", whose(request.scope), request.method, request.url.path, _id_of(request)
        )
        problem = Problem(
            type="urn:arco:problem:internal",
            title=_FAULT.title,
            status=_FAULT.status,
            detail="something happened that nobody foresaw; the server's log has it under the request id",
            hint=_FAULT.hint,
            request_id=_id_of(request),
        )
        # This answer is made outside of the middleware that names requests.
        headers = {"X-Request-Id": _id_of(request)}
        return JSONResponse(problem.model_dump(mode="json"), problem.status, headers, MEDIA_TYPE)

    app.add_exception_handler(ArcoError, arco_error)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)


def _item(found: dict[str, Any]) -> ProblemItem:
    """One complaint of the validation. The value itself is not repeated: it may be a secret."""
    return ProblemItem(where=".".join(str(part) for part in found["loc"]), message=str(found["msg"]))


def _http_problem(error: HTTPException, request: Request) -> Response:
    """What the router itself refuses: an unknown path, a method a path does not have."""
    titles = {404: ("no-such-path", "There is no such path", "GET /openapi.json lists them.")}
    titles[405] = ("method-not-allowed", "This path does not know the method", "The Allow header lists those it knows.")
    kind, title, hint = titles.get(error.status_code, ("http", "The request is refused", "Change the request."))
    problem = Problem(
        type=f"urn:arco:problem:{kind}",
        title=title,
        status=error.status_code,
        detail=str(error.detail),
        hint=hint,
        request_id=_id_of(request),
    )
    headers = dict(error.headers or {})
    if error.status_code == 405 and (methods := _methods_of(request.scope["path"])):
        headers["Allow"] = ", ".join(methods)
    return JSONResponse(problem.model_dump(mode="json"), error.status_code, headers, MEDIA_TYPE)


def _methods_of(path: str) -> list[str]:
    """Every method of a public path: the router itself names only those of the first route that has it.

    `/tables/register` is a path of its own, and none of a table called `register`.
    """
    own = [method for method, known in ROUTES if known == path]
    return sorted(own or (method for (method, _), pattern in _PATHS.items() if pattern.fullmatch(path)))


def _id_of(request: Request) -> str:
    return str(request.scope.get("arco.request_id", ""))
