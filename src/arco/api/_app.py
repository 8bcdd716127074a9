"""The ASGI application: public routes below `/api/v1`, signed objects, health, and what processes ask each other."""

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from arco import __version__
from arco.api._health import health_routes
from arco.api._host import Host
from arco.api._internal import door_of, internal_routes
from arco.api._limits import RateLimiter, RequestShape
from arco.api._objects import object_route
from arco.api._openapi import openapi_document
from arco.api._problems import install_problem_handlers
from arco.api._work import work_routes
from arco.api.routes import ROUTERS
from arco.catalog import Sandbox
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


def create_app(host: Host, *, public: bool = True) -> FastAPI:
    """The application over open workspaces. Without `public` only health and the internal routes answer."""
    app = FastAPI(
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
    install_problem_handlers(app)

    def find(tenant: str, workspace: str) -> Any:
        return host.workspaces.get(Scope(tenant, workspace))

    admitted = door_of(find, host.identity)
    app.router.routes.extend(internal_routes(admitted, host.runtime))
    app.router.routes.extend(work_routes(admitted, host))
    app.router.routes.extend(health_routes(host))
    if public:
        app.router.routes.append(object_route(host))
        for router in ROUTERS:
            app.include_router(router)
    app.add_middleware(RequestShape, runtime=host.runtime)
    vars(app)["openapi"] = lambda: openapi_document(app)
    return app


async def close_app(app: FastAPI) -> None:
    """Give back what the application itself holds; the workspaces belong to who opened them."""
    await app.state.sandbox.close()


def _operation_id(route: APIRoute) -> str:
    return route.name.removesuffix("_route")
