"""The ASGI application: public routes below `/api/v1`, signed objects, health, metrics, and what processes ask each
other."""

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as ASGIScope

from arco import __version__
from arco.api._health import health_routes
from arco.api._host import Door, Host
from arco.api._internal import door_of, internal_routes
from arco.api._limits import ICEBERG, RateLimiter, RequestIds, RequestShape
from arco.api._measured import Measured
from arco.api._metrics import metrics_route
from arco.api._objects import object_route
from arco.api._openapi import openapi_document
from arco.api._problems import install_problem_handlers
from arco.api._uses import uses_of
from arco.api._work import work_routes
from arco.api.iceberg import Hot, IcebergApp, close_warehouses
from arco.api.routes import ROUTERS
from arco.catalog import Sandbox
from arco.core import Superseded
from arco.runtime import Workspace
from arco.storage import Scope

__all__ = ["close_app", "create_app"]

DESCRIPTION = """\
The catalog of a data platform in a bucket.

Errors are RFC 9457 problems whose `type` is stable. Positions are texts of whole numbers. Times are RFC 3339 in UTC.
`{table}` and `{namespace}` are paths such as `sales.orders`, a name with a dot in double quotes (`"a.b".orders`), or
`id:` and an id. A write with an `Idempotency-Key` is carried out once, however often it is sent. Every request may name
itself in `X-Request-Id` (1 to 128 of `A-Z a-z 0-9 . _ : -`) and carry a `traceparent`; both stand in the audit.
Answers may have more fields in later versions; ignore those you do not know.
"""


class Application(FastAPI):
    """The framework's application. Requests of the Iceberg catalog go past it: its own time would be half of theirs."""

    iceberg: ASGIApp | None = None
    hot: Hot | None = None
    """Answers of the Iceberg catalog that are given again; whoever serves connections asks it first."""

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        uses = uses_of(scope)
        try:
            if self.iceberg is not None and scope["type"] == "http" and scope["path"].startswith(ICEBERG):
                await self.iceberg(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)
        finally:
            uses.release()


def create_app(host: Host, *, public: bool = True) -> FastAPI:
    """The application over open workspaces. Without `public` only health and the internal routes answer."""
    app = Application(
        title="Arco",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json" if public else None,
        generate_unique_id_function=_operation_id,
        redirect_slashes=False,
    )
    app.state.host = host
    app.state.rates = RateLimiter(host.runtime)
    app.state.sandbox = Sandbox(host.runtime)
    ids = RequestIds(host.runtime)
    measured = Measured()
    install_problem_handlers(app, logs=host.door is not Door.LOCAL)

    async def find(request: Request, opens: bool) -> Workspace | None:
        scope = Scope(request.path_params["tenant"], request.path_params["workspace"])
        if opens or host.served is None:
            found = await host.find(scope, request.scope)
        elif not host.served.serves(scope):
            found = None
        else:
            lease = await host.served.take_part(scope)
            if lease is None:
                raise Superseded("this process does not have the workspace open, so it owns none of its logs")
            uses_of(request.scope).add(lease)
            found = lease.workspace
        uses_of(request.scope).accept()
        return found

    admitted = door_of(find, host.identity)
    app.router.routes.extend(internal_routes(admitted, host.runtime))
    app.router.routes.extend(work_routes(admitted, host))
    app.router.routes.extend(health_routes(host))
    app.router.routes.append(metrics_route(host, measured, app.state.rates))
    if public:
        app.router.routes.append(object_route(host))
        for router in ROUTERS:
            app.include_router(router)
        app.hot = Hot(host.runtime, app.state.rates, ids, measured)
        host.on_closed.append(app.hot.forget)
        app.iceberg = RequestShape(IcebergApp(host, app.state.rates, app.hot), host.runtime, ids, measured)
    app.add_middleware(RequestShape, runtime=host.runtime, ids=ids, measured=measured)
    vars(app)["openapi"] = lambda: openapi_document(app)
    return app


async def close_app(app: FastAPI) -> None:
    """Give back what the application itself holds; the workspaces belong to who opened them."""
    await app.state.sandbox.close()
    await close_warehouses(app.state.host)


def _operation_id(route: APIRoute) -> str:
    return route.name.removesuffix("_route")
