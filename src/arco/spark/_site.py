"""`Site`: where executors find a log, its store and the code that folds it. The only thing that is sent to them.

Executors share no disk and no memory with the driver. Each of their processes opens the store for itself, because the
network threads of a store do not survive a fork, and keeps it for its next tasks.
"""

import gc
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from arco.core import ArcoError, Outdated, Unavailable
from arco.log import Ledger, Pack, Place
from arco.runtime import DEFINITIONS, AsyncRuntime
from arco.spark._course import Course
from arco.spark._parcels import Parcel, Report, report_parcel
from arco.state import Definition, FileWriter, Layer, LayerReader, Layout, Revisions, open_ledger
from arco.storage import RequestCounts, Role, RoleStore, Scope, Store, open_store

__all__ = ["Assignment", "Site", "definition_of", "drive", "perform", "reraise"]

T = TypeVar("T")
Sent = tuple[int, Parcel]

_stores: dict[tuple[str, tuple[tuple[str, str | bool], ...]], Store] = {}
_courses: dict[tuple[str, tuple[tuple[str, int], ...]], Course] = {}


def definition_of(log: str) -> Definition:
    """What this program knows of a log."""
    return next(known for known in DEFINITIONS if known.log == log)


@dataclass(frozen=True)
class Site:
    url: str
    """Of the store, as executors reach it."""
    options: tuple[tuple[str, str | bool], ...] = field(repr=False)
    place: Place
    define: Callable[[str], Definition] = definition_of
    """What an executor knows of a log; a function that it can import."""

    @classmethod
    def of(
        cls,
        url: str,
        options: Mapping[str, str | bool],
        place: Place,
        define: Callable[[str], Definition] = definition_of,
    ) -> "Site":
        return cls(url, tuple(sorted(options.items())), place, define)

    def store(self, runtime: AsyncRuntime, role: Role = Role.COMPACTOR) -> Store:
        """The workspace as a compactor, or who has another role, may use it."""
        name = (self.url, self.options)
        if name not in _stores:
            _stores[name] = open_store(self.url, dict(self.options), clock=runtime)
        scope = Scope(self.place.tenant, self.place.workspace)
        return RoleStore(_stores[name], scope, role, RequestCounts())

    def log(self, runtime: AsyncRuntime, packs: tuple[Pack, ...] = ()) -> Ledger:
        store = self.store(runtime)
        return open_ledger(store, Revisions(store, self.place, runtime), packs)

    def reader(self, runtime: AsyncRuntime) -> LayerReader:
        return LayerReader(self.store(runtime))

    def writer(self, runtime: AsyncRuntime, directory: str) -> FileWriter:
        return FileWriter(self.store(runtime), Layout(self.place), directory, runtime)

    def course(self, versions: Mapping[str, int]) -> Course:
        """The stages as this process knows them; `Outdated` if the driver knows others."""
        name = (self.place.log, tuple(sorted(versions.items())))
        if name not in _courses:
            definition = self.define(self.place.log)
            if definition.versions != dict(versions):
                raise Outdated(
                    f"an executor folds the log {self.place.log} with versions {definition.versions}, the driver with "
                    f"{dict(versions)}; install the same arco on all machines of the cluster"
                )
            _courses[name] = Course(definition)
        return _courses[name]


@dataclass(frozen=True)
class Assignment:
    """What all tasks of one refold know."""

    site: Site
    versions: tuple[tuple[str, int], ...]
    """Of the folds of each domain, as the driver has them."""
    partitions: int
    directory: str
    through: int
    layers: tuple[Layer, ...] = ()
    """What there is before the first event; none if the log is folded from its beginning."""
    packs: tuple[Pack, ...] = ()
    """Where packed segments are."""

    @property
    def course(self) -> Course:
        return self.site.course(dict(self.versions))


def perform(task: int, partitions: int, work: Callable[[AsyncRuntime, list[Sent]], Awaitable[None]]) -> Iterable[Sent]:
    """Run a task of an executor; `work` appends what it sends.

    An error that no repetition helps against is reported. Of others Spark hears, which tries the task elsewhere.
    """
    sent: list[Sent] = []
    collecting = gc.isenabled()
    gc.disable()  # events and rows have no cycles, and a collector that walks millions of them takes half of the time
    try:
        drive(work(AsyncRuntime(), sent))
    except Unavailable:
        raise
    except ArcoError as error:
        return [report_parcel(Report(task, error=(type(error).__name__, error.message)), partitions)]
    finally:
        gc.freeze()  # PySpark collects after every task, and would walk all that is kept for the next one
        if collecting:
            gc.enable()
    return sent


def drive(work: Awaitable[T]) -> T:
    """The result of a coroutine, in a process of an executor."""
    import asyncio

    async def main() -> T:
        return await work

    return asyncio.run(main())


def reraise(error: tuple[str, str]) -> None:
    """Raise what an executor reported."""
    from arco import core

    kind: Any = getattr(core, error[0], Unavailable)
    raise kind(error[1])
