"""`collect_workspace`: what `arco gc` does, and a server by itself: each log is collected, former lives are buried.

Several at once, in whatever processes, only waste work: each deletes what nobody can reach, floors never go down, and
what is gone already is no error. One that meets what another one deleted under it stops, and the next one goes on.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from arco.backup._superseded import Buried, bury
from arco.core import Runtime
from arco.log import Place
from arco.runtime import DEFINITIONS, read_incarnation
from arco.state import Collection, Collector
from arco.storage import MIN_AGE, ObjectInfo, RequestCounts, Role, RoleStore, Scope, Store

__all__ = ["Cleared", "Watched", "collect_logs", "collect_workspace"]

Watched = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Opened for each log; hears how many objects are deleted, and of how many."""


@dataclass(frozen=True)
class Cleared:
    """What went of a workspace, or would go."""

    logs: list[Collection]
    buried: list[Buried]
    """Former incarnations."""

    @property
    def objects(self) -> list[ObjectInfo]:
        logs = [info for done in self.logs for info in done.objects]
        return logs + [info for one in self.buried for info in one.objects]

    @property
    def due(self) -> int | None:
        """When some of what is only too young of former incarnations may go; None if nothing is."""
        return min((one.due for one in self.buried if one.waiting), default=None)


def _unwatched(log: str) -> AbstractContextManager[Callable[[int, int], None]]:
    return nullcontext(lambda done, total: None)


async def collect_workspace(
    base: Store,
    scope: Scope,
    runtime: Runtime,
    *,
    log: str | None = None,
    counts: RequestCounts | None = None,
    min_age: float = MIN_AGE,
    dry_run: bool = False,
    watched: Watched = _unwatched,
) -> Cleared:
    """Delete what no reader can reach of one log, or of both and of former incarnations. What cannot be read stops it
    before anything of its log is deleted."""
    counts = counts or RequestCounts()
    found = await collect_logs(
        base, scope, runtime, log=log, counts=counts, min_age=min_age, dry_run=dry_run, watched=watched
    )
    buried: list[Buried] = []
    if log is None:
        buried = await bury(base, scope, runtime, counts=counts, min_age=min_age, dry_run=dry_run)
    return Cleared(found, buried)


async def collect_logs(
    base: Store,
    scope: Scope,
    runtime: Runtime,
    *,
    log: str | None = None,
    counts: RequestCounts,
    min_age: float = MIN_AGE,
    dry_run: bool = False,
    watched: Watched = _unwatched,
) -> list[Collection]:
    """Delete what no reader can reach of one log, or of both, of the newest incarnation."""
    incarnation = await read_incarnation(base, scope, runtime, counts=counts)
    store = RoleStore(base, scope, Role.COLLECTOR, counts)
    found: list[Collection] = []
    for definition in DEFINITIONS:
        if log in (None, definition.log):
            place = Place(scope.tenant, scope.workspace, incarnation.id, definition.log)
            with watched(definition.log) as progress:
                collector = Collector(store, place, runtime, min_age=min_age)
                found.append(await collector.collect(dry_run=dry_run, progress=progress))
    return found
