"""`serve`: opens the workspaces, listens, and ends gracefully: no new requests, those under way finish, the queue is
settled, what is folded is published.

The address is bound before the workspaces are opened, because their hints name it. On a loopback address a key is not
needed unless asked for; on any other it always is.
"""

import asyncio
import contextlib
import gc
import ipaddress
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from arco.api._app import close_app, create_app
from arco.api._host import Door, Host
from arco.api._peers import HttpPeers
from arco.core import ArcoError, Invalid, Runtime, ServiceIdentity, StoreRefused, derive_secret, new_ulid
from arco.runtime import Workspace
from arco.servo import Merger
from arco.state import Cadence
from arco.storage import Scope, Store, open_store

__all__ = ["ProcessRole", "ServeOptions", "local_app", "serve"]

DRAIN_SECONDS = 10
MAX_CONNECTIONS = 1_000
IDLE_SECONDS = 30
"""How long a connection may rest between two requests."""

HEAD_SECONDS = 10.0
"""How long a new connection has to send its first request."""


class ProcessRole(StrEnum):
    """What a process does. `all` is the embedded default."""

    ALL = "all"
    API = "api"
    COMPACTOR = "compactor"


@dataclass(frozen=True)
class ServeOptions:
    store: str
    """URL of the store, with a whole path."""
    scopes: tuple[Scope, ...]
    """The workspaces to serve; the first one is that of callers without a key."""
    host: str = "127.0.0.1"
    port: int = 8020
    """0 for any that is free."""
    public_url: str = ""
    """What others reach this process under; from host and port if empty."""
    role: ProcessRole = ProcessRole.ALL
    require_keys: bool = False
    service_secret: str = field(default="", repr=False)
    store_options: dict[str, str] = field(default_factory=dict, repr=False)
    cadence: Cadence = field(default_factory=Cadence)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _door(options: ServeOptions) -> Door:
    return Door.DEVELOPMENT if is_loopback(options.host) and not options.require_keys else Door.KEYS


def _bind(options: ServeOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    # Named as TCP: without the protocol asyncio does not send at once, and every answer waited 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((options.host.strip("[]"), options.port))
    except OSError as error:
        listener.close()
        raise Invalid(
            f"cannot listen on {options.host}:{options.port}: {error.strerror or error}; choose another with --listen"
        ) from error
    return listener


def _secret(options: ServeOptions, runtime: Runtime) -> bytes:
    """What the processes of this service share. On local disk it lies beside the workspaces, readable by its user."""
    if options.service_secret:
        return options.service_secret.encode()
    if not options.store.startswith("file://"):
        return runtime.bytes(32)  # good for this process alone: others need ARCO_SERVICE_SECRET to be the same
    path = Path(options.store.removeprefix("file://")).expanduser() / ".service-secret"
    try:
        with contextlib.suppress(FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".service-secret.{new_ulid(runtime, runtime)}")
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(runtime.bytes(32).hex())
            try:
                os.link(part, path)  # whole or not at all, and never over another process's
            finally:
                part.unlink()
        return path.read_text().strip().encode()
    except OSError as error:
        raise StoreRefused(f"{path} cannot be used for the service secret: {error.strerror or error}") from error


class _Protocol(HttpToolsProtocol):
    """Ends a connection that has not sent a whole request head in time: silence must not keep others out."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    """Uvicorn, whose signals end the serving and nothing more: what is queued is settled and published afterwards.

    It waits for open answers before it stops, and segment streams never end by themselves, so they are ended first.
    """

    def __init__(self, config: uvicorn.Config, before_shutdown: Callable[[], None], *, signals: bool = True) -> None:
        super().__init__(config)
        self._before_shutdown = before_shutdown
        self._signals = signals

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM) if self._signals else ()
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._before_shutdown()
        await super().shutdown(sockets)


async def serve(
    options: ServeOptions,
    runtime: Runtime,
    ready: Callable[[str, Door], None] = lambda url, door: None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, or until `stop` is set: then signals are somebody else's business.

    `ready` is called with the URL once requests are answered.
    """
    listener = _bind(options)
    bound = listener.getsockname()[1]
    host = f"[{options.host}]" if ":" in options.host else options.host
    url = options.public_url.rstrip("/") or f"http://{host}:{bound}"
    try:
        async with _opened(options, runtime, url) as (found, app):
            config = uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                http=_Protocol,
                server_header=False,
                date_header=False,
                lifespan="off",
                limit_concurrency=MAX_CONNECTIONS,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=DRAIN_SECONDS,
            )

            def before_shutdown() -> None:
                for workspace in found.workspaces.values():
                    workspace.end_streams()

            server = _Server(config, before_shutdown, signals=stop is None)
            task = asyncio.ensure_future(server.serve(sockets=[listener]))
            while not server.started and not task.done():
                await asyncio.sleep(0.01)
            if server.started:
                _spare_the_collector()
                await _announce(found)
                ready(url, found.door)
            if stop is not None:
                waiting = asyncio.ensure_future(stop.wait())
                await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                server.should_exit = True
            await task
    finally:
        listener.close()


def _spare_the_collector() -> None:
    """A replica is millions of objects that live long: walking them all held every request up for 100 ms at a time.

    What was loaded so far is never walked again, and the rest less often. Rows hold no cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _announce(host: Host) -> None:
    """Commands look for a server where the hints say; see `OpenLog.announce`."""
    for workspace in host.workspaces.values():
        for log in workspace.logs.values():
            with contextlib.suppress(ArcoError):  # advice: a store that is in trouble will say so to whoever asks
                await log.announce()


@contextlib.asynccontextmanager
async def _opened(options: ServeOptions, runtime: Runtime, url: str) -> AsyncIterator[tuple[Host, Any]]:
    secret = _secret(options, runtime)
    identity = ServiceIdentity(secret, f"{options.role}", runtime)
    objects = derive_secret(secret, "objects").hex()
    store_options = dict(options.store_options)
    signing = None
    if options.store.startswith("file://"):
        store_options = {"signing_secret": objects, "signing_url": f"{url}/objects", **store_options}
        signing = (store_options["signing_secret"].encode(), store_options["signing_url"])
    peers = HttpPeers(identity, runtime)
    async with contextlib.AsyncExitStack() as stack:
        base = open_store(options.store, store_options, clock=runtime)
        stack.push_async_callback(base.close)
        stack.push_async_callback(peers.close)
        workspaces: dict[Scope, Workspace] = {}
        for scope in options.scopes:
            workspaces[scope] = await stack.enter_async_context(await _open(base, scope, runtime, options, url, peers))
        host = Host(
            runtime,
            workspaces,
            options.scopes[0],
            _door(options),
            identity=identity,
            signing=signing,
            secret=secret,
            relay=peers,
        )
        app = create_app(host, public=options.role is not ProcessRole.COMPACTOR)
        stack.push_async_callback(close_app, app)
        if options.role is not ProcessRole.COMPACTOR:
            for scope in workspaces:
                host.servo_of(scope).start()
                stack.push_async_callback(host.servo_of(scope).stop)
        yield host, app


async def _open(
    base: Store, scope: Scope, runtime: Runtime, options: ServeOptions, url: str, peers: HttpPeers
) -> Workspace:
    return await Workspace.open(
        base,
        scope,
        runtime,
        address=url,
        peers=peers,
        compact=options.role is not ProcessRole.API,
        may_own=options.role is not ProcessRole.COMPACTOR,
        cadence=options.cadence,
    )


def local_app(workspace: Workspace, runtime: Runtime, actor: str, merger: Merger | None = None) -> Any:
    """The application for a program that has the store itself: no network, its user owns everything.

    `merger` merges small files of data; without one this process does.
    """
    host = Host(runtime, {workspace.scope: workspace}, workspace.scope, Door.LOCAL, actor=actor, merger=merger)
    return create_app(host)
