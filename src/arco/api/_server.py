"""`serve`: opens workspaces, listens, and ends gracefully: no new requests, those under way finish, the queue is
settled, what is folded is published.

One workspace is opened at the start and stays open. Of many, each is opened when somebody asks for it and closed again
when nobody does (`arco.runtime.Workspaces`). The address is bound before any is opened, because their hints name it. On
a loopback address a key is not needed unless asked for; on any other it always is.
"""

import asyncio
import contextlib
import gc
import ipaddress
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import uvicorn

from arco.api._app import close_app, create_app
from arco.api._backups import BackupOptions, Backups
from arco.api._collections import Collections
from arco.api._connection import Connection
from arco.api._host import Door, Host
from arco.api._hosted import HostedWorkspace, announce
from arco.api._peers import HttpPeers
from arco.core import (
    Invalid,
    NotFound,
    Runtime,
    ServiceIdentity,
    StoreRefused,
    derive_secret,
    new_ulid,
)
from arco.runtime import Bounds, Workspace, Workspaces, workspace_exists
from arco.servo import Merger
from arco.state import Cadence
from arco.storage import Scope, Store, open_store

__all__ = ["ProcessRole", "ServeOptions", "config_of", "local_app", "make_host", "serve"]

DRAIN_SECONDS = 10
MAX_CONNECTIONS = 1_000
MEMORY_MB = 2048
IDLE_SECONDS = 30
"""How long a connection may rest between two requests."""


class ProcessRole(StrEnum):
    """What a process does. `all` is the embedded default."""

    ALL = "all"
    API = "api"
    COMPACTOR = "compactor"
    COLLECTOR = "collector"

    @property
    def is_public(self) -> bool:
        """Whether it answers callers, and appends for them."""
        return self in (ProcessRole.ALL, ProcessRole.API)

    @property
    def publishes(self) -> bool:
        return self in (ProcessRole.ALL, ProcessRole.COMPACTOR)

    @property
    def collects(self) -> bool:
        return self in (ProcessRole.ALL, ProcessRole.COLLECTOR)


@dataclass(frozen=True)
class ServeOptions:
    store: str
    """URL of the store, with a whole path."""
    scopes: tuple[Scope, ...]
    """The workspaces to serve; the first one is that of callers without a key."""
    all_workspaces: bool = False
    """Serve every other workspace of the store too."""
    idle_seconds: float = 600.0
    """After which one of many workspaces is closed that nobody asked for."""
    memory_mb: int | None = None
    """What open workspaces may take together, with all they hold; by default each log and each cache has its own bound
    if one workspace is served, and many share `MEMORY_MB`."""
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
    allowed_locations: tuple[str, ...] = ()
    """URLs outside of the store below which Iceberg tables may lie too."""
    backup: BackupOptions | None = None
    collect_every: int = 0
    """Microseconds from one collection of a workspace to the next; 0 for none."""

    @property
    def serves_many(self) -> bool:
        return self.all_workspaces or len(self.scopes) > 1

    @property
    def bounds(self) -> Bounds:
        memory = self.memory_mb or (MEMORY_MB if self.serves_many else None)
        return Bounds(self.idle_seconds if self.serves_many else None, None if memory is None else memory << 20)


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


def config_of(app: Any) -> uvicorn.Config:
    """How an application is served."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        http=Connection,
        server_header=False,
        date_header=False,
        proxy_headers=False,  # nothing here asks where a request came from, and every request would be looked through
        lifespan="off",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )


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
            config = config_of(app)

            def before_shutdown() -> None:
                for workspace in found.workspaces.values():
                    workspace.end_streams()

            server = _Server(config, before_shutdown, signals=stop is None)
            task = asyncio.ensure_future(server.serve(sockets=[listener]))
            while not server.started and not task.done():
                await asyncio.sleep(0.01)
            if server.started:
                _spare_the_collector()
                for workspace in found.workspaces.values():
                    await announce(workspace)
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


@contextlib.asynccontextmanager
async def _opened(options: ServeOptions, runtime: Runtime, url: str) -> AsyncIterator[tuple[Host, Any]]:
    secret = _secret(options, runtime)
    objects = derive_secret(secret, "objects").hex()
    store_options = dict(options.store_options)
    signing = None
    if options.store.startswith("file://"):
        store_options = {"signing_secret": objects, "signing_url": f"{url}/objects", **store_options}
        signing = (store_options["signing_secret"].encode(), store_options["signing_url"])
    peers = HttpPeers(ServiceIdentity(secret, f"{options.role}", runtime), runtime)
    async with contextlib.AsyncExitStack() as stack:
        base = open_store(options.store, store_options, clock=runtime)
        stack.push_async_callback(base.close)
        stack.push_async_callback(peers.close)
        host = make_host(base, runtime, options, url, secret, peers, signing)
        app = create_app(host, public=options.role.is_public)
        stack.push_async_callback(close_app, app)
        if host.backups is not None:
            stack.push_async_callback(host.backups.target.close)
        assert host.served is not None
        stack.push_async_callback(host.served.close)
        if not options.serves_many:
            lease = await host.served.use(options.scopes[0])
            if lease is None:
                raise host.served.lost(options.scopes[0]) or NotFound(
                    f"there is no workspace {options.scopes[0].root} here; create it with `arco init`"
                )
            lease.release()
        yield host, app


def make_host(
    base: Store,
    runtime: Runtime,
    options: ServeOptions,
    url: str,
    secret: bytes,
    peers: HttpPeers,
    signing: tuple[bytes, str] | None = None,
) -> Host:
    """The host of a server at a URL, in which no workspace is open yet."""
    opener = _Opener(base, runtime, options, url, peers)
    opener.host = Host(
        runtime,
        {},
        options.scopes[0],
        _door(options),
        identity=ServiceIdentity(secret, f"{options.role}", runtime),
        signing=signing,
        secret=secret,
        relay=peers,
        store=options.store,
        store_options=options.store_options,
        allowed_locations=options.allowed_locations,
        served=Workspaces(
            runtime,
            opener.open,
            lambda scope: workspace_exists(base, scope, runtime),
            options.bounds,
            None if options.all_workspaces else options.scopes,
        ),
        base=base,
        backups=_backups(options, runtime),
        collections=_collections(options, base),
    )
    return opener.host


def _backups(options: ServeOptions, runtime: Runtime) -> Backups | None:
    backup = options.backup
    if backup is None or not options.role.is_public:
        return None
    return Backups(open_store(backup.store, backup.options, clock=runtime), backup.schedule)


def _collections(options: ServeOptions, base: Store) -> Collections | None:
    if not options.collect_every or not options.role.collects:
        return None
    return Collections(base, options.collect_every, always=options.role is ProcessRole.COLLECTOR)


class _Opener:
    """Opens workspaces for the host. The store is tested once, by the first of them: it is the same for all."""

    host: Host

    def __init__(self, base: Store, runtime: Runtime, options: ServeOptions, url: str, peers: HttpPeers) -> None:
        self._base = base
        self._runtime = runtime
        self._options = options
        self._url = url
        self._peers = peers
        self._is_tested = False

    async def open(self, scope: Scope) -> HostedWorkspace:
        role = self._options.role
        tests, self._is_tested = not self._is_tested, True
        try:
            workspace = await Workspace.open(
                self._base,
                scope,
                self._runtime,
                address=self._url,
                peers=self._peers,
                test_store=tests,
                compact=role.publishes,
                may_own=role.is_public,
                cadence=self._options.cadence,
            )
        except BaseException:
            self._is_tested = self._is_tested and not tests
            raise
        if self._options.serves_many:  # else it is opened before anybody is answered here
            self._runtime.spawn(announce(workspace), f"hints of {scope.root}")
        return HostedWorkspace(self.host, workspace, public=role.is_public)


def local_app(
    workspace: Workspace,
    runtime: Runtime,
    actor: str,
    merger: Merger | None = None,
    *,
    store: str = "memory://store",
    store_options: Mapping[str, str] | None = None,
    allowed_locations: tuple[str, ...] = (),
) -> Any:
    """The application for a program that has the store itself: no network, its user owns everything.

    `merger` merges small files of data; without one this process does. `store` and what follows: see `ServeOptions`.
    """
    host = Host(
        runtime,
        {workspace.scope: workspace},
        workspace.scope,
        Door.LOCAL,
        actor=actor,
        merger=merger,
        store=store,
        store_options=store_options or {},
        allowed_locations=allowed_locations,
    )
    return create_app(host)
