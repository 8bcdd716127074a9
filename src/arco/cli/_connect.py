"""`connect`: the client a command speaks through, whoever answers.

1. The server named by `--url`, `ARCO_URL` or `arco.toml`.
2. The server on this machine that the log names as its owner, if it answers and serves this very workspace.
3. Nobody: the command opens the workspace itself and asks the same API in its own process. A command that only reads
   then starts nothing and writes nothing; one that writes owns the log for as long as it takes.
"""

import getpass
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from arco.cli._command import Session
from arco.cli._open import cadence_of, open_base, reading
from arco.client import AsyncClient, is_loopback
from arco.core import ArcoError, Invalid, Unauthenticated
from arco.log import HintFile
from arco.runtime import Peers, Workspace
from arco.state import Layout

if TYPE_CHECKING:
    from fastapi import FastAPI

    from arco.servo import Merger

__all__ = ["IN_PROCESS", "TIMEOUT_SECONDS", "connect", "find_server", "open_peers", "serves", "stored_secret"]

TIMEOUT_SECONDS = 120.0
FIND_SECONDS = 2.0
IN_PROCESS = "http://embedded.localhost"


@asynccontextmanager
async def connect(session: Session, merger: "Merger | None" = None) -> AsyncIterator[AsyncClient]:
    """A client of whoever serves the workspace, while the block runs.

    With a `merger`, which merges small files of data, the command itself serves: the merger is of this process.
    """
    settings = session.project.loaded.settings
    named = settings.url if not settings.embedded else ""
    if named:
        _check_flags(session)
    if named and merger is not None:
        raise Invalid(
            "work on Spark is started by a process that has the store itself; leave out the server "
            f"({session.project.loaded.origin['url']}), or `--engine spark`"
        )
    is_here = settings.embedded or merger is not None
    url = named or (None if is_here else await find_server(session))
    async with AsyncExitStack() as stack:
        if url is None:
            client = await stack.enter_async_context(_embedded(session, merger))
        else:
            # A server that a hint named has not proved who it is, so it gets no key; one that the caller named does.
            token = settings.token or None if named else None
            client = AsyncClient(url, token, timeout=TIMEOUT_SECONDS, runtime=session.runtime)
            await stack.enter_async_context(client)
        if named:
            await client.health()  # so that a wrong address is told at once, and not after all the tries
        try:
            yield client
        except Unauthenticated as error:
            raise Unauthenticated(
                f"{error.message}; set ARCO_TOKEN to a key of {client.url}", **error.details
            ) from error


def _check_flags(session: Session) -> None:
    """A server has its workspace and its store. To name another one beside it would be ignored, so it is refused."""
    origin = session.project.loaded.origin
    given = [origin[name] for name in origin if name.startswith(("store", "tenant", "workspace"))]
    for flag in given:
        if flag.startswith("--"):
            raise Invalid(
                f"{flag} says nothing to the server named by {origin['url']}, which has a workspace of its own; "
                f"leave one of them out, or add --url embedded"
            )


async def find_server(session: Session) -> str | None:
    """The address of the process that owns the catalog's log, if it is on this machine and is what it was."""
    async with reading(session.project, session.runtime) as reader:
        path = Layout(reader.place("catalog")).ledger_hint
        address = (await HintFile(reader.handle(), path, session.runtime).read()).address
        incarnation = reader.incarnation.id
    if not address.startswith(("http://", "https://")) or not is_loopback(address):
        return None
    try:
        return address if await serves(session, address, incarnation) else None
    except Unauthenticated as error:
        raise Unauthenticated(
            f"the server at {address} seems to serve this workspace and wants a key; name it with ARCO_URL={address} "
            "and set ARCO_TOKEN, or add --url embedded to do without it",
            **error.details,
        ) from error


async def serves(session: Session, address: str, incarnation: str) -> bool:
    """Whether somebody answers there who serves this very workspace. `Unauthenticated` if that takes a key."""
    try:
        async with httpx.AsyncClient(timeout=FIND_SECONDS, trust_env=False) as http:
            if (await http.get(f"{address}/healthz")).status_code != httpx.codes.OK:
                return False
        async with AsyncClient(address, timeout=FIND_SECONDS, runtime=session.runtime) as client:
            return (await client.whoami()).incarnation == incarnation
    except Unauthenticated:
        raise
    except (ArcoError, httpx.HTTPError):
        return False  # it is gone, or its address is somebody else's by now


@asynccontextmanager
async def _embedded(session: Session, merger: "Merger | None" = None) -> AsyncIterator[AsyncClient]:
    # The server's part of the program takes longer to load than all the rest, and most commands find a server.
    from arco.api import close_app, local_app

    project, runtime = session.project, session.runtime
    async with AsyncExitStack() as stack:
        base = await stack.enter_async_context(open_base(project, runtime))
        workspace = await Workspace.open(
            base,
            project.scope,
            runtime,
            peers=await open_peers(session, stack) if session.writes else None,
            compact=session.writes,
            may_own=session.writes,
            test_store=session.writes,
            cadence=cadence_of(project),
        )
        await stack.enter_async_context(workspace)
        app = local_app(
            workspace,
            runtime,
            f"local:{_user()}",
            merger,
            store=project.store,
            store_options=project.loaded.settings.store_options,
            allowed_locations=tuple(project.loaded.settings.allowed_locations.split()),
        )
        stack.push_async_callback(close_app, app)
        transport = _InProcess(app, workspace)
        client = AsyncClient(IN_PROCESS, transport=transport, timeout=TIMEOUT_SECONDS, runtime=runtime)
        yield await stack.enter_async_context(client)


class _InProcess(httpx.ASGITransport):
    """The API in this process. A server whose incarnation is sealed opens the next one in a moment, so clients try
    again; here it stays the same one, and they shall not."""

    def __init__(self, app: "FastAPI", workspace: Workspace) -> None:
        super().__init__(app, raise_app_exceptions=False)
        self._workspace = workspace

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        is_sealed = any(log.follower.sealed for log in self._workspace.logs.values())
        if response.status_code == httpx.codes.SERVICE_UNAVAILABLE and is_sealed:
            response.status_code = httpx.codes.INTERNAL_SERVER_ERROR
        return response


async def open_peers(session: Session, stack: AsyncExitStack) -> Peers | None:
    """How a command that opened the store itself reaches an owner that answers, instead of taking the log from it."""
    from arco.api import HttpPeers, ServiceIdentity

    secret = session.project.loaded.settings.service_secret or stored_secret(session.project.store)
    if not secret:
        return None
    peers = HttpPeers(ServiceIdentity(secret.encode(), "cli", session.runtime), session.runtime)
    stack.push_async_callback(peers.close)
    return peers


def stored_secret(store: str) -> str:
    """What `arco serve` left beside the workspaces on local disk; empty if there is nothing this user may read."""
    if not store.startswith("file://"):
        return ""
    try:
        return (Path(store.removeprefix("file://")).expanduser() / ".service-secret").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user that only exists as a number
        return "unknown"
