"""`router`: makes the router of one subject. Each of its routes is guarded before its body is even read.

The guard: who asks, may they, are they asking too much; only then the body is read, and must be JSON as it is defined.
The permission stands in `ROUTES`; a route that is not there cannot be made.
"""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from arco.api._caller import authenticate, authorize
from arco.api._permissions import ROUTES
from arco.core import Invalid, shown
from arco.domains.access import read_settings

__all__ = ["PREFIX", "router"]

PREFIX = "/api/v1"
BYTES = frozenset({"/api/v1/code/{sha256}"})
"""Routes whose body is no JSON."""


class JsonRequest(Request):
    """A request whose body is JSON and nothing near it: no NaN, no lone surrogates, no bytes that are not UTF-8.

    What is parsed here goes into the log, and whoever reads it there parses it by the same rules.
    """

    _document: Any = None

    async def parse(self) -> None:
        """Read the body, or `Invalid`. An error of the framework's own parser would not say what is wrong."""
        body = await self.body()
        if not body:
            return
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise Invalid("the body is not declared as JSON; send it with Content-Type: application/json")
        try:
            self._document = msgspec.json.decode(body)
        except RecursionError:
            raise Invalid("the body is nested too deeply; flatten it") from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Invalid(f"the body is not JSON: {error}") from None

    async def json(self) -> Any:
        return self._document


class GuardedRoute(APIRoute):
    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.permissions = {method: ROUTES[method, path] for method in self.methods or ()}
        self.query = frozenset(_query_names(self.dependant))
        self.takes_bytes = path in BYTES

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            host = request.app.state.host
            caller = await authenticate(host, request)
            authorize(caller, self.permissions[request.method])
            settings = await read_settings(caller.workspace.logs["catalog"].replica)
            request.app.state.rates.take(caller.bucket, settings["rate.requests_per_minute"])
            request.state.caller = caller
            request.state.settings = settings
            _check_query(request, self.query)
            if self.takes_bytes:
                return await handle(request)
            parsed = JsonRequest(request.scope, request.receive)
            await parsed.parse()
            return await handle(parsed)

        return guarded


def _query_names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for needed in dependant.dependencies:
        yield from _query_names(needed)


def _check_query(request: Request, known: frozenset[str]) -> None:
    """Nothing is accepted that is not acted on: a misspelt `as_of` must not be answered from the present state."""
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in known:
            raise Invalid(f"there is no parameter {shown(name)}; there are {', '.join(sorted(known)) or 'none here'}")
        if names.count(name) > 1:
            raise Invalid(f"the parameter {name} is given more than once; send one value")


def router(tag: str) -> APIRouter:
    """A router below `/api/v1`."""
    return APIRouter(prefix=PREFIX, tags=[tag], route_class=GuardedRoute)
