"""`arco worker`: runs tasks, in driver processes of its own, until it is told to end."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from arco.cli._command import Session, asks
from arco.cli._connect import find_server, stored_secret
from arco.cli._open import open_base, reading, slots_of
from arco.cli._options import MasterOption, SlotsOption, SparkConfOption
from arco.cli._output import dump, say
from arco.core import Invalid, ServiceIdentity, Unavailable, check_master

__all__ = ["app"]

app = typer.Typer()


@asks(app)
async def worker(
    session: Session,
    slots: SlotsOption = None,
    name: Annotated[
        str | None, typer.Option("--name", help="What this worker is called; one of this name at a time.")
    ] = None,
    master: MasterOption = None,
    spark_conf: SparkConfOption = None,
    with_stdin: Annotated[bool, typer.Option("--with-stdin", hidden=True)] = False,
) -> None:
    """Run tasks until Ctrl-C.

    Finds the server of the workspace as other commands do, and proves itself with ARCO_SERVICE_SECRET or, on local
    disk, with the secret that lies beside the workspaces. Told to end, it lets tasks finish first.

    Assets on Spark run where --master says, else ARCO_SPARK_MASTER, else on all cores of this machine. Each slot that
    runs one keeps a Java process of its own, with the memory of spark.driver.memory (1g if it is not set).
    """
    from arco.spark import SparkSettings, parse_conf
    from arco.worker import HttpControlPlane, Worker, WorkerOptions

    project, settings = session.project, session.project.loaded.settings
    url = settings.url if settings.url and not settings.embedded else await find_server(session)
    if url is None:
        raise Unavailable("no server of this workspace was found; start one with `arco serve`, or name it with --url")
    secret = settings.service_secret or stored_secret(project.store)
    if not secret:
        raise Invalid("a worker needs the service secret of its servers; set ARCO_SERVICE_SECRET to the same as theirs")
    spark = SparkSettings(check_master(master or settings.spark_master), parse_conf(spark_conf or []))
    count = slots_of(session.project, slots)
    called = name or f"{socket.gethostname()}-{_place(project.folder)}"
    async with reading(project, session.runtime) as reader:
        place = reader.place("activity")
    control = HttpControlPlane(
        url, place, ServiceIdentity(secret.encode(), f"worker:{called}", session.runtime), session.runtime
    )
    async with open_base(project, session.runtime) as store:
        with tempfile.TemporaryDirectory(prefix="arco-worker-") as folder:
            options = WorkerOptions(
                name=called,
                tenant=project.scope.tenant,
                workspace=project.scope.workspace,
                secret=secret.encode(),
                store=project.store,
                folder=Path(folder),
                store_options=settings.store_options,
                slots=count,
                spark=spark,
            )
            working = Worker(control, store, options, session.runtime)
            _say(session, url, called, count, quiet=with_stdin)
            with _ending(working.stop, with_stdin):
                try:
                    await working.run()
                finally:
                    await control.close()


def _place(folder: Path) -> str:
    """Tells two projects of one machine apart."""
    return f"{folder.name or 'root'}-{os.getuid() if hasattr(os, 'getuid') else 0}"


def _say(session: Session, url: str, name: str, slots: int, *, quiet: bool) -> None:
    if session.output.as_json:
        session.output.line(dump({"worker": name, "url": url, "slots": slots}))
    elif not quiet:
        session.output.people.print(say(f"Worker {name} takes {slots} tasks at once from {url}", "green"))
        session.output.people.print(say("  Ctrl-C ends it; what runs is finished first.", "dim"))


@contextlib.contextmanager
def _ending(stop: Callable[[], None], with_stdin: bool) -> Iterator[None]:
    """Call `stop` at SIGINT, SIGTERM, or when whoever started this process is gone."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if with_stdin:
        loop.add_reader(sys.stdin.fileno(), _drained, loop, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        if with_stdin:
            loop.remove_reader(sys.stdin.fileno())


def _drained(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop()
