"""`arco dev`: a server, its controllers and a worker on this machine, and the project deployed whenever it changes."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer

from arco.cli._check import ReadProject, problem_lines, read_project
from arco.cli._command import Session, listens
from arco.cli._connect import serves
from arco.cli._deploy import current_deployment, deploy_project, diff_lines
from arco.cli._open import open_base, slots_of
from arco.cli._options import FolderArgument, MasterOption, SlotsOption, SparkConfOption
from arco.cli._output import dump, say
from arco.cli._stack import Stack, running_stack, spark_arguments
from arco.client import AsyncClient, is_loopback
from arco.core import ArcoError, Invalid, NotFound, Refused, Unauthenticated, Unavailable
from arco.runtime import init_workspace, read_incarnation
from arco.wire import Deployed

__all__ = ["app"]

app = typer.Typer()

LOOK_SECONDS = 0.5
"""How often the files of the project are looked at. They are on this machine, and nobody tells when they change."""

MAX_PAUSE = 10.0
"""Seconds until something is tried again, at most, unless the server asks for more."""

SETTLE_SECONDS = 0.1
"""How long changed files must stay as they are: one that is being written is not yet what it will be."""


@listens(app, public=False)
async def dev(
    session: Session,
    folder: FolderArgument = None,
    slots: SlotsOption = None,
    master: MasterOption = None,
    spark_conf: SparkConfOption = None,
    reload: Annotated[bool, typer.Option("--reload/--no-reload", help="Deploy again when a file changes.")] = True,
) -> None:
    """Serve, work and deploy from this folder until Ctrl-C.

    Creates the workspace if there is none. What runs keeps the code it began with, whatever changes meanwhile.
    """
    place, listen = folder or session.project.folder, session.project.loaded.settings.listen
    if not is_loopback(f"http://{listen}"):
        raise Invalid(
            f"arco dev serves this machine only, not {listen}; for others there are `arco serve` and `arco worker`"
        )
    _end_at_sigterm()
    await _refuse_second(session, f"http://{listen}", await _ensure_workspace(session))
    count = slots_of(session.project, slots)
    async with running_stack(session, slots=count, listen=listen, spark=spark_arguments(master, spark_conf)) as stack:
        _welcome(session, stack, place, count)
        async for _ in deployments(session, stack.client, place):
            if not reload:
                await asyncio.Event().wait()


async def deployments(session: Session, client: AsyncClient, place: Path) -> AsyncIterator[str]:
    """Deploy at once and whenever files changed, for ever: the hash of the code that is deployed after each attempt."""
    changes, deployed, told, failures = Changes(), "", "", 0
    while True:
        pause = SETTLE_SECONDS
        if changes.are_whole(await asyncio.to_thread(_files, place)):
            try:
                deployed = await _deploy(session, client, place, deployed, is_again=failures > 0)
                told, failures = "", 0
                yield deployed
            except Unavailable as error:
                if _gist(error) != told:
                    session.output.error(error)
                told, pause = _gist(error), _pause(error, failures)
                failures += 1
                deployed = ""  # the server may have done what its answer did not say
                changes.forget()
        await asyncio.sleep(LOOK_SECONDS if changes.are_taken else pause)


def _gist(error: ArcoError) -> str:
    """What an error says without its ids and numbers, which are others at every try."""
    return " ".join(word for word in error.message.split() if not any(letter.isdecimal() for letter in word))


def _pause(error: ArcoError, failures: int) -> float:
    """Seconds until the next try after so many failures in a row: ever more, and at least what the server asks for."""
    asked = error.details.get("retry_after")
    least = float(asked) if isinstance(asked, int | float) else 0.0
    return max(min(LOOK_SECONDS * 2.0 ** min(failures, 16), MAX_PAUSE), least)


Files = dict[Path, tuple[int, int]]
"""The files of a project, and of each what changes when it does."""


class Changes:
    """Tells when files changed and then stayed as they are from one look to the next."""

    def __init__(self) -> None:
        self._taken: Files | None = None
        self._before: Files = {}

    @property
    def are_taken(self) -> bool:
        """Whether nothing has changed since."""
        return self._before == self._taken

    def forget(self) -> None:
        """What was taken last is to be taken again, because nothing came of it."""
        self._taken = {}

    def are_whole(self, found: Files) -> bool:
        """Whether there is something to take; it is taken then. At the first look there always is."""
        is_due = self._taken is None or (found != self._taken and found == self._before)
        if is_due:
            self._taken = found
        self._before = found
        return is_due


def _end_at_sigterm() -> None:
    """End as Ctrl-C does: what runs is finished first. Not by SIGINT, which a shell has jobs behind `&` ignore."""
    running = asyncio.current_task()
    assert running is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)


async def _ensure_workspace(session: Session) -> str:
    """The incarnation of the workspace, which is created if there is none."""
    project, runtime = session.project, session.runtime
    async with open_base(project, runtime) as base:
        try:
            return (await read_incarnation(base, project.scope, runtime)).id
        except NotFound:
            created = await init_workspace(base, project.scope, runtime)
    if not session.output.as_json:
        session.output.people.print(say(f"Created the workspace {project.scope.root} in {project.store}", "green"))
    return created.id


async def _refuse_second(session: Session, address: str, incarnation: str) -> None:
    """Say who has the address if it is a server of this workspace. Of any other, the attempt to listen tells."""
    with contextlib.suppress(Unauthenticated):
        if await serves(session, address, incarnation):
            raise Refused(
                f"the workspace {session.project.scope.root} is served at {address} already; "
                "use that server, or end it first"
            )


def _welcome(session: Session, stack: Stack, place: Path, slots: int) -> None:
    if session.output.as_json:
        session.output.line(dump({"url": stack.url, "workspace": session.project.scope.root, "slots": slots}))
        return
    output = session.output.people
    tasks = "1 task" if slots == 1 else f"{slots} tasks"
    output.print(say(f"Serving {session.project.scope.root} at {stack.url}, with {tasks} at once", "green"))
    output.print(say(f"  {place} is deployed whenever it changes. In another terminal: arco assets list", "dim"))
    output.print(say("  Ctrl-C ends it; what runs is finished first.", "dim"))


def _files(place: Path) -> Files:
    from arco.sdk import project_files

    found = {}
    for path in project_files(place.resolve()):
        try:
            about = path.stat()
        except OSError:
            continue  # it was there a moment ago
        found[path] = (about.st_mtime_ns, about.st_size)
    return found


async def _deploy(session: Session, client: AsyncClient, place: Path, deployed: str, *, is_again: bool) -> str:
    """Deploy what is there if it is whole; else say what is wrong and wait for the next change. `Unavailable` if it
    cannot be told now.

    `deployed` is the hash of the code that was deployed before, empty if that is not known, and the answer that of what
    is deployed now. The same code again is not even asked for: a file that is written again as it was is no change.
    """
    try:
        if deployed and await asyncio.to_thread(_hash, place) == deployed:
            return deployed
        read = await asyncio.to_thread(read_project, place)
        if read.problems:
            _show_problems(session, read)
            return deployed
        if not read.project.assets:
            session.output.warn(f"there are no assets in {place} yet; decorate a function with @asset from arco")
            return deployed
        current = await current_deployment(client)
        done = await deploy_project(client, read, current, message="arco dev")
    except Unavailable:
        raise  # nothing is wrong with the project: the same is tried again
    except ArcoError as error:
        session.output.error(error)
        return deployed
    # What is tried again may have been deployed before its answer was lost.
    if is_again or current is None or done.deployment_id != current.deployment_id:
        _show_deployed(session, done)
    return read.project.code_sha256


def _hash(place: Path) -> str:
    from arco.sdk import code_name, pack_code

    return code_name(pack_code(place))


def _show_problems(session: Session, read: ReadProject) -> None:
    if session.output.as_json:
        session.output.line(dump({"problems": [str(problem) for problem in read.problems]}))
        return
    session.output.people.print(problem_lines(read.problems), soft_wrap=True)
    session.output.people.print(say("  Nothing was deployed; correct it, and it is tried again.", "yellow"))


def _show_deployed(session: Session, done: Deployed) -> None:
    if session.output.as_json:
        session.output.line(dump({"deployment_id": done.deployment_id, "code_version": done.code_version}))
        return
    session.output.people.print(diff_lines(done.diff))
    session.output.people.print(say(f"Deployed {done.deployment_id}", "green"))
