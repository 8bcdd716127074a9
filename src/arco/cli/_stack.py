"""A server and a worker for one command: what `arco dev` keeps running, and `arco run` starts when nobody else serves.

The server listens on a loopback address in this process. The worker is a process of its own, because user code must not
run where the log is owned; it ends when its standard input does, so it never outlives the command, however that ends.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from arco.cli._command import Session
from arco.cli._connect import TIMEOUT_SECONDS
from arco.cli._open import cadence_of
from arco.client import AsyncClient
from arco.core import Unavailable, check_master

__all__ = ["END_SECONDS", "Stack", "WorkerProcess", "running_server", "running_stack", "spark_arguments"]

START_SECONDS = 60.0
END_SECONDS = 40.0


@dataclass(frozen=True)
class Stack:
    """What is running."""

    url: str
    client: AsyncClient


class WorkerProcess:
    """A worker of this machine: `arco worker` in a process of its own, started again when it dies."""

    def __init__(
        self, session: Session, url: str, *, slots: int, died: Callable[[int], None], spark: Sequence[str] = ()
    ) -> None:
        self._session = session
        self._url = url
        self._slots = slots
        self._died = died
        self._spark = spark
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._watching = asyncio.create_task(self._keep(), name="worker process")

    async def _keep(self) -> None:
        """Start it, and start it again whenever it ends by itself."""
        while True:
            self._process = await self._spawn()
            code = await self._process.wait()
            self._died(code)
            await asyncio.sleep(1.0)

    async def _spawn(self) -> asyncio.subprocess.Process:
        project = self._session.project
        arguments = [sys.executable, "-m", "arco.cli", "worker", "--slots", str(self._slots), "--with-stdin"]
        arguments += self._spark
        environment = {
            **os.environ,
            "ARCO_URL": self._url,
            "ARCO_STORE": project.store,
            "ARCO_TENANT_ID": project.scope.tenant,
            "ARCO_WORKSPACE_ID": project.scope.workspace,
        }
        return await asyncio.create_subprocess_exec(
            *arguments, env=environment, stdin=asyncio.subprocess.PIPE, start_new_session=True, cwd=project.folder
        )

    async def stop(self) -> None:
        """Let it finish what it does, within limits."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
        process = self._process
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


def spark_arguments(master: str | None, conf: Sequence[str] | None) -> list[str]:
    """What a worker is told of Spark, as its arguments."""
    from arco.spark import parse_conf

    parse_conf(conf or ())
    given = ["--master", check_master(master)] if master else []
    return [*given, *(part for pair in conf or () for part in ("--spark-conf", pair))]


@asynccontextmanager
async def running_server(session: Session, *, listen: str) -> AsyncIterator[str]:
    """A server of the workspace in this process while the block runs; its URL. `listen` as in the settings."""
    from arco.api import ServeOptions, serve

    project, settings = session.project, session.project.loaded.settings
    host, _, port = listen.rpartition(":")
    options = ServeOptions(
        store=project.store,
        scopes=(project.scope,),
        host=host.strip("[]"),
        port=int(port),
        service_secret=settings.service_secret,
        store_options=settings.store_options,
        allowed_locations=tuple(settings.allowed_locations.split()),
        cadence=cadence_of(project),
    )
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = asyncio.create_task(
        serve(options, session.runtime, lambda url, door: ready.set_result(url), stop), name="server"
    )
    try:
        first: list[asyncio.Future[Any]] = [serving, ready]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED, timeout=START_SECONDS)
        if serving.done():
            await serving  # says why
        if not ready.done():
            raise Unavailable("the server did not start in time; look at `arco doctor`")
        yield ready.result()
    finally:
        stop.set()
        await serving


@asynccontextmanager
async def running_stack(
    session: Session, *, slots: int, listen: str = "127.0.0.1:0", spark: Sequence[str] = ()
) -> AsyncIterator[Stack]:
    """A server, a worker and a client of them while the block runs. `spark` are arguments of `arco worker`."""

    def died(code: int) -> None:
        session.output.warn(f"the worker process ended with code {code}; starting it again")

    async with running_server(session, listen=listen) as url:
        worker = WorkerProcess(session, url, slots=slots, died=died, spark=spark)
        async with AsyncClient(url, timeout=TIMEOUT_SECONDS, runtime=session.runtime) as client:
            await worker.start()
            try:
                yield Stack(url, client)
            finally:
                await worker.stop()
