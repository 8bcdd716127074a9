"""`IcebergApp`: the ASGI application below `/iceberg`. Plain functions on bytes; the framework of `/api/v1` is not
asked, because its own time is several times that of a hot read.

The guard is that of every route: who asks, in which workspace, may they, are they asking too much; only then the body
is read. A prefix of another workspace is answered like one that never was.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from arco.api._caller import Caller, authenticate, authorize
from arco.api._host import Host
from arco.api._limits import BODY_BYTES, ICEBERG, RateLimiter
from arco.api._measured import ROUTE
from arco.api._uses import whose
from arco.api.iceberg._access import ACCESS
from arco.api.iceberg._ask import KEY_HEADER, Ask
from arco.api.iceberg._config import CONFIG, prefix_of
from arco.api.iceberg._errors import UNFORESEEN, error_response, plain_error
from arco.api.iceberg._hot import Hot
from arco.api.iceberg._metrics import METRICS
from arco.api.iceberg._namespaces import NAMESPACES
from arco.api.iceberg._oauth import issue_token
from arco.api.iceberg._paths import Paths
from arco.api.iceberg._plans import PLANS
from arco.api.iceberg._routes import COMMITS, ICEBERG_ROUTES, LARGE, PUBLIC, Operation
from arco.api.iceberg._tables import TABLES
from arco.api.iceberg._views import VIEWS
from arco.core import ArcoError, shown
from arco.domains.access import read_setting
from arco.iceberg import NoSuchWarehouse, nothing_changed
from arco.storage import Scope as WorkspaceScope

__all__ = ["COMMIT_BYTES", "IcebergApp", "handlers"]

COMMIT_BYTES: Final = 32 << 20
"""For what holds parts of metadata documents."""

WRITES: Final = frozenset({"POST", "DELETE"})

Handler = Callable[[Ask], Awaitable[Response]]

_log = logging.getLogger("arco.api.iceberg")


def handlers() -> dict[Operation, Handler]:
    """What carries out each operation, but for those anybody may ask."""
    return {**CONFIG, **NAMESPACES, **TABLES, **VIEWS, **ACCESS, **PLANS, **METRICS}


class IcebergApp:
    def __init__(self, host: Host, rates: RateLimiter, hot: Hot) -> None:
        self._host = host
        self._rates = rates
        self._hot = hot
        self._allowed: dict[WorkspaceScope, tuple[int, int]] = {}  # position of the catalog -> requests a minute
        known = handlers()
        self._paths = Paths(
            (method, path, ((method, path), known.get((method, path)))) for method, path in ICEBERG_ROUTES
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        method: str = request.method
        raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        match = self._paths.match(raw.partition(ICEBERG.encode())[2])
        if match is None:
            return plain_error(404, "NotFoundException", "there is no such path", head=method == "HEAD")
        found = match.methods.get(method)
        if found is None:
            allow = {"Allow": ", ".join(sorted(match.methods))}
            text = f"this path does not know the method {shown(method)}"
            return plain_error(405, "MethodNotAllowedException", text, allow, head=method == "HEAD")
        operation, handler = found
        request.scope[ROUTE] = operation
        try:
            if operation in PUBLIC:
                return await issue_token(self._host, request)
            return await self._guarded(request, operation, handler, match.parameters)
        except ArcoError as error:
            keyed = KEY_HEADER in request.headers
            return error_response(error, commit=operation in COMMITS, keyed=keyed, head=method == "HEAD")
        except Exception:  # noqa: BLE001 - the border: whatever nobody expected is logged, and answered in form
            request_id = request.scope.get("arco.request_id")
            _log.exception("%s: %s %s failed (request %s)", whose(request.scope), method, operation[1], request_id)
            return plain_error(500, "InternalServerError", UNFORESEEN, head=method == "HEAD")

    async def _guarded(
        self, request: Request, operation: Operation, handler: Handler | None, parameters: dict[str, str]
    ) -> Response:
        with nothing_changed() if operation[0] in WRITES else nullcontext():
            caller, rate = await self._admitted(request, operation, parameters.get("prefix"))
        assert handler is not None
        limit = COMMIT_BYTES if operation in LARGE else BODY_BYTES
        answer = await handler(Ask(self._host, caller, request, " ".join(operation), parameters, limit))
        self._hot.remember(request.scope, caller, rate, answer)
        return answer

    async def _admitted(self, request: Request, operation: Operation, prefix: str | None) -> tuple[Caller, int]:
        """Who asks, and how many requests they may send in a minute."""
        caller = await authenticate(self._host, request)
        if prefix is not None and prefix != prefix_of(caller.scope):
            raise NoSuchWarehouse(f"Warehouse does not exist: {shown(prefix)}")
        authorize(caller, ICEBERG_ROUTES[operation])
        return caller, await self._count(caller)

    async def _count(self, caller: Caller) -> int:
        """Count the request, or `RateLimited`; how many its caller may send in a minute."""
        replica = caller.workspace.logs["catalog"].replica
        position, rate = self._allowed.get(caller.scope, (-1, 0))
        if position != replica.watermark:
            position, rate = replica.watermark, await read_setting(replica, "rate.requests_per_minute")
            self._allowed[caller.scope] = (position, rate)
        self._rates.take(caller.bucket, rate)
        return rate
