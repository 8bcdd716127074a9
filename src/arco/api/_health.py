"""Health: `/healthz` says that the process answers, `/readyz` whether it can do its work. Neither asks the store."""

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from arco import __version__
from arco.api._host import Host
from arco.wire import Health

__all__ = ["health_routes"]


def health_routes(host: Host) -> list[Route]:
    async def alive(request: Request) -> JSONResponse:
        return JSONResponse(Health(status="ok", version=__version__, checks={}).model_dump(mode="json"))

    async def ready(request: Request) -> JSONResponse:
        """Only how many workspaces have trouble: whoever may not know their names asks this too."""
        logs = [[log.compactor for log in workspace.logs.values()] for workspace in host.workspaces.values()]
        stopped = sum(any(compactor.failed is not None for compactor in found) for found in logs)
        failing = sum(any(compactor.trouble is not None for compactor in found) for found in logs)
        checks = {
            "publishing": "ok" if not stopped else f"{stopped} of {len(logs)} workspaces stopped",
            # Whoever is not ready gets no requests, and they are answered as well without merges.
            "merging": "ok" if not failing else f"{failing} of {len(logs)} workspaces cannot merge or pack",
        }
        health = Health(status="degraded" if stopped else "ok", version=__version__, checks=checks)
        return JSONResponse(health.model_dump(mode="json"), 503 if stopped else 200)

    return [
        Route("/healthz", alive, methods=["GET"], include_in_schema=False),
        Route("/readyz", ready, methods=["GET"], include_in_schema=False),
    ]
