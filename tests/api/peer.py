"""One process of a deployment: `python -m tests.api.peer FOLDER SECRET ROLE`. It prints its address when it listens.

Beside the internal routes it has a few under `/test` by which a test gives commands and looks inside. `ROLE` is `api`
(owns and publishes), `writer` (owns, publishes nothing) or `compactor` (publishes, owns nothing).
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from arco.api._internal import door_of, encode_error, internal_routes
from arco.api._peers import HttpPeers
from arco.core import ArcoError, ServiceIdentity
from arco.runtime import AsyncRuntime, Workspace
from arco.state import Cadence, define_log
from arco.storage import LocalStore, Role, Scope
from tests.simulation.claims import ATTEMPTS, CLAIMS, Claim

__all__ = ["ACTIVITY", "SCOPE"]

SCOPE = Scope("acme", "prod")
ACTIVITY = define_log("activity", [CLAIMS])


class SlowStore(LocalStore):
    """A disk whose segments take as long as a test says, before they land or after."""

    before = after = 0.0

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        slow = only_if_absent and "/ledger/" in path
        await asyncio.sleep(self.before if slow else 0)
        await super().put(path, data, only_if_absent=only_if_absent)
        await asyncio.sleep(self.after if slow else 0)


def routes(workspace: Workspace, store: SlowStore) -> list[Route]:
    log = workspace.logs["activity"]

    async def claim(request: Request) -> Response:
        asked = await request.json()
        command = Claim(asked["attempt"], asked["worker"])
        receipt = await workspace.decide("activity", command, actor="test", key=asked.get("key", ""))
        return Response(msgspec.json.encode(receipt))

    async def attempts(request: Request) -> Response:
        strong = request.query_params.get("strong") == "1"
        snapshot = await log.frozen(strong=strong, min_position=int(request.query_params.get("min", 0)))
        rows = (await snapshot.scan(ATTEMPTS)).select(["attempt", "worker", "grants"]).to_pylist()
        return JSONResponse({"rows": rows, "position": snapshot.position})

    async def published(request: Request) -> Response:
        return JSONResponse(await log.published(int(request.query_params["position"])))

    async def state(request: Request) -> Response:
        counts = workspace.counts
        return JSONResponse(
            {
                "owning": log.owning,
                "tail": log.follower.tail.number,
                "source": log.feed.source if log.feed else "",
                "requests": counts.count(),
                "publishing": counts.count(Role.COMPACTOR),
            }
        )

    async def slow(request: Request) -> Response:
        asked = await request.json()
        store.before, store.after = asked.get("before", 0.0), asked.get("after", 0.0)
        return Response()

    def answering(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except ArcoError as error:
                return encode_error(error)

        return answer

    return [
        Route("/test/claim", answering(claim), methods=["POST"]),
        Route("/test/attempts", answering(attempts)),
        Route("/test/published", answering(published)),
        Route("/test/state", answering(state)),
        Route("/test/slow", answering(slow), methods=["POST"]),
    ]


class Server(uvicorn.Server):
    workspace: Workspace

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.workspace.end_streams()
        await super().shutdown(sockets)


async def leave_with_parent(server: Server) -> None:
    """A process whose test was killed must not go on alone."""
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(0.5)
    server.should_exit = True


async def main(folder: Path, secret: str, role: str) -> None:
    runtime = AsyncRuntime()
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    identity = ServiceIdentity(secret.encode(), address, runtime)
    peers, store = HttpPeers(identity, runtime), SlowStore(folder)
    workspace = await Workspace.open(
        store,
        SCOPE,
        runtime,
        definitions=[ACTIVITY],
        address=address,
        peers=peers,
        compact=role != "writer",
        may_own=role != "compactor",
        cadence=Cadence(interval=0.05),
        test_store=False,
    )
    found = {(SCOPE.tenant, SCOPE.workspace): workspace}

    async def find(request: Request, opens: bool) -> Workspace | None:
        return found.get((request.path_params["tenant"], request.path_params["workspace"]))

    app = Starlette(
        routes=[
            *internal_routes(door_of(find, identity), runtime),
            *routes(workspace, store),
        ]
    )
    server = Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=5))
    server.workspace = workspace
    watching = asyncio.create_task(leave_with_parent(server))
    signal.signal(signal.SIGTERM, lambda number, frame: None)  # uvicorn raises it again when it has shut down
    print(address, flush=True)
    async with workspace:
        await server.serve(sockets=[listener])
    watching.cancel()
    await peers.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
