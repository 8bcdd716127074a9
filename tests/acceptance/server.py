"""A server in a process of its own, which ends with the test that started it.

`run` is where such a process begins. Processes are forked from one that has loaded everything and done nothing yet
(multiprocessing's fork server), since loading takes longer than most tests; what they run is `arco serve` itself, or a
server of several workspaces (`Many`), which the command line has no options for.
"""

import asyncio
import os
import sys
import threading
import time

import msgspec

from arco.api import Door, ServeOptions, serve
from arco.cli import main as run_cli
from arco.runtime import AsyncRuntime, _publishing
from arco.state import Cadence, _files
from arco.storage import Scope

__all__ = ["Many", "run"]


class Many(msgspec.Struct, frozen=True):
    """Several workspaces behind one address, and files that are cut earlier."""

    store: str
    store_options: dict[str, str]
    workspaces: tuple[tuple[str, str], ...]
    service_secret: str
    split_bytes: int
    """Merged files are cut at this size, so that a few thousand rows make many of them."""
    idle_seconds: float = 600.0
    """After which a workspace is closed that nobody asked for."""
    all_workspaces: bool = False


def run(command: list[str] | Many, environ: dict[str, str], output: str, errors: str) -> None:
    """Be a server: what follows `arco` on a command line, or `Many`. It prints its URL as JSON."""
    os.environ.clear()
    os.environ.update(environ)
    for path, number in ((output, 1), (errors, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    leave_with_parent()
    # How long a server waits for a publisher that nobody can name.
    vars(_publishing)["PATIENCE"] = float(os.environ.pop("ACCEPTANCE_PATIENCE", _publishing.PATIENCE))
    if isinstance(command, Many):
        asyncio.run(serve_many(command))
    else:
        sys.argv = ["arco", *command]
        run_cli()


def leave_with_parent() -> None:
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


async def serve_many(config: Many) -> None:
    vars(_files)["SPLIT_BYTES"] = config.split_bytes
    options = ServeOptions(
        store=config.store,
        scopes=tuple(Scope(tenant, workspace) for tenant, workspace in config.workspaces),
        port=0,
        require_keys=True,
        service_secret=config.service_secret,
        store_options=config.store_options,
        cadence=Cadence(interval=0.05),
        idle_seconds=config.idle_seconds,
        all_workspaces=config.all_workspaces,
    )

    def ready(url: str, door: Door) -> None:
        print(msgspec.json.encode({"url": url, "door": door}).decode(), flush=True)

    await serve(options, AsyncRuntime(), ready)
