"""From settings to an open workspace: which `arco.toml`, which store, and how much of the workspace to open.

- `Reader`: what a command needs that only looks. Nothing is started, nothing is written, and a damaged manifest does
  not keep anybody from reading the log.
- `writing`: the whole `Workspace`, for commands that publish.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from arco.core import Invalid, Loaded, StoreRefused, load_settings
from arco.log import HintFile, Ledger, Pack, Place
from arco.runtime import DEFINITIONS, AsyncRuntime, Incarnation, Workspace, read_incarnation
from arco.state import Cadence, Definition, Layout, PackSize, Revisions, Runner, open_ledger
from arco.storage import RequestCounts, Role, RoleStore, Scope, Store, Tail, open_store

__all__ = [
    "CONFIG_NAME",
    "Project",
    "Reader",
    "cadence_of",
    "definitions",
    "find_project",
    "open_base",
    "reading",
    "slots_of",
    "writing",
]

CONFIG_NAME = "arco.toml"

MOST_SLOTS = 4
"""Tasks at once if nobody says how many: each that runs on Spark has a Java process of its own."""


@dataclass(frozen=True)
class Project:
    """Settings, and the folder they hold in: that of `arco.toml`, or the current one if there is none."""

    loaded: Loaded
    toml: Path | None
    folder: Path

    @property
    def scope(self) -> Scope:
        settings = self.loaded.settings
        return Scope(settings.tenant_id, settings.workspace_id)

    @property
    def store(self) -> str:
        """The store's URL with a whole path. What was said here and now is relative to here, what `arco.toml` or the
        default says is relative to the project's folder."""
        url = self.loaded.settings.store
        scheme, _, rest = url.partition("://")
        if scheme == "memory":
            raise Invalid("a store in memory ends with the command that opened it; use file://, s3://, az:// or gs://")
        if scheme != "file" or not rest or rest.startswith("~"):
            return url
        here = self.loaded.origin["store"] not in ("default", CONFIG_NAME)
        return f"file://{(Path.cwd() if here else self.folder) / rest}"


def find_project(environ: Mapping[str, str], flags: Mapping[str, object]) -> Project:
    """Settings from the nearest `arco.toml` at or above the current folder, the environment and the flags."""
    here = Path.cwd()
    toml = next((found for folder in (here, *here.parents) if (found := folder / CONFIG_NAME).is_file()), None)
    return Project(load_settings(toml, environ, flags), toml, toml.parent if toml else here)


def definitions(log: str | None) -> list[Definition]:
    """What this program knows of one log, or of all."""
    return [known for known in DEFINITIONS if log in (None, known.log)]


@dataclass(frozen=True)
class Reader:
    """A workspace as somebody finds it who only looks."""

    base: Store
    scope: Scope
    incarnation: Incarnation
    runtime: AsyncRuntime
    counts: RequestCounts

    def handle(self, role: Role = Role.READER) -> RoleStore:
        return RoleStore(self.base, self.scope, role, self.counts)

    def place(self, log: str) -> Place:
        return Place(self.scope.tenant, self.scope.workspace, self.incarnation.id, log)

    def ledger(self, log: str, packs: tuple[Pack, ...] = ()) -> Ledger:
        """The segments of a log; `packs` are those of a manifest that was read already."""
        return open_ledger(self.handle(), self.revisions(log), packs)

    async def tail(self, log: str) -> Tail:
        """The newest segment of a log."""
        hint = await HintFile(self.handle(), Layout(self.place(log)).ledger_hint, self.runtime).read()
        return await self.ledger(log).sequence.tail(hint.number)

    def revisions(self, log: str) -> Revisions:
        return Revisions(self.handle(), self.place(log), self.runtime)


@asynccontextmanager
async def open_base(project: Project, runtime: AsyncRuntime) -> AsyncIterator[Store]:
    """The store itself, whether or not there is a workspace in it."""
    _check_folder(project.store)
    store = open_store(project.store, project.loaded.settings.store_options, clock=runtime)
    try:
        yield store
    finally:
        await store.close()


def _check_folder(url: str) -> None:
    """Nothing can be stored below a file, and "there is no workspace" would be the wrong thing to say about it."""
    if url.startswith("file://"):
        path = Path(url.removeprefix("file://")).expanduser()
        nearest = next(folder for folder in (path, *path.parents) if folder.exists())
        if not nearest.is_dir():
            raise StoreRefused(f"the store {url} cannot be a folder: {nearest} is a file; name another folder")


def cadence_of(project: Project) -> Cadence:
    """How often to publish, when to merge and when to pack."""
    settings = project.loaded.settings
    packs = PackSize(settings.pack_mib << 20, settings.pack_segments, settings.pack_keep)
    return Cadence(interval=settings.publish_interval_ms / 1000, fan_in=settings.merge_fan_in, packs=packs)


def slots_of(project: Project, asked: int | None = None) -> int:
    """How many tasks a worker of this machine runs at once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return asked or project.loaded.settings.slots or min(cores, MOST_SLOTS)


@asynccontextmanager
async def reading(project: Project, runtime: AsyncRuntime) -> AsyncIterator[Reader]:
    async with open_base(project, runtime) as base:
        incarnation = await read_incarnation(base, project.scope, runtime)
        yield Reader(base, project.scope, incarnation, runtime, RequestCounts())


@asynccontextmanager
async def writing(
    project: Project,
    runtime: AsyncRuntime,
    log: str | None,
    runner: Callable[[Store, Place], Runner] | None = None,
) -> AsyncIterator[Workspace]:
    """The workspace with the roles that publish. It owns no log, and no loop runs: the command says what happens.

    `runner` makes what merges and folds anew; without it that is done in this process.
    """
    async with open_base(project, runtime) as base:
        opened = await Workspace.open(
            base,
            project.scope,
            runtime,
            definitions=definitions(log),
            compact=False,
            may_own=False,
            cadence=cadence_of(project),
            runner=runner,
        )
        async with opened:
            yield opened
