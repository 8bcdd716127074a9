"""`HistoryKeeper`: carries out what `reconcile_history` finds, in the process that leads a log.

It looks once a day, when the first event of the day is folded: nothing is polled, and a workspace in which nothing
happens is left alone. A workspace in which nothing can be old enough costs no request either; one that has something to
let go costs one append a log.

`expire_history` does the same for somebody who asks, and tells what goes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from arco.core import DAY, ArcoError, Refused, Task
from arco.domains.access import read_settings
from arco.domains.catalog import NAME_CHANGES, TABLES, NameChange
from arco.domains.deployments import ASSETS, WORKSPACE, AssetRow, AssetStatus
from arco.domains.lineage import (
    LINEAGE_EDGES,
    LINEAGE_METADATA,
    MAX_EDGES,
    EdgeRef,
    ExpireLineageEdges,
)
from arco.log import Receipt
from arco.runtime import OpenLog, Workspace
from arco.servo._history import DELETED_EDGES, RULES, Advance, Expiring, reconcile_history
from arco.servo._loop import ACTOR
from arco.servo._runs import Asked
from arco.state import Aged, ExpireRows, View

__all__ = ["Expired", "History", "HistoryKeeper", "expire_history"]

BY_CONTROLLER: Final = Asked(ACTOR)


@dataclass(frozen=True)
class Expired:
    """What of one table goes, or went."""

    advance: Advance
    table: str
    reached: int
    """How far retention had come before."""
    aged: Aged


@dataclass
class History:
    """What went, or would go."""

    expired: list[Expired] = field(default_factory=list)
    edges: list[EdgeRef] = field(default_factory=list)
    edges_before: int = 0
    held: list[str] = field(default_factory=list)
    """What stays though it is old enough, and why."""


class HistoryKeeper:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._tasks: list[Task] = []
        self._days: dict[str, int] = {}
        """By log, the day on which this process last looked."""

    def start(self) -> None:
        if not self._tasks:
            logs = self._workspace.logs
            self._tasks = [self._workspace.runtime.spawn(self._run(log), f"history of {log}") for log in logs]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    async def _run(self, log: str) -> None:
        follower = self._workspace.logs[log].follower
        while not follower.ended:
            await follower.advanced(follower.tail.number)
            if follower.ended:
                return
            try:
                await self.step(log)
            except ArcoError:
                self._days.pop(log, None)  # with the next event; whoever asks by hand is told what is wrong

    async def step(self, log: str) -> None:
        """Let go of what is due in a log, unless that was looked at today."""
        now = self._workspace.runtime.now()
        if self._days.get(log) == now // DAY:
            return
        self._days[log] = now // DAY
        opened = self._workspace.logs[log]
        tables = [one for one in await _expiring(opened, now) if _may_be_due(one, now)]
        edges = log == "activity" and _may_have_old_edges(opened, now)
        if not (tables or edges) or not await opened.leads():
            return
        settings = await read_settings(self._workspace.logs["catalog"].replica)
        await _advance(self._workspace, reconcile_history(tables, settings, now), BY_CONTROLLER)
        if edges:
            before = DELETED_EDGES.before(settings, now)
            await _expire_edges(self._workspace, await _dead_edges(self._workspace, before), before, BY_CONTROLLER)


def _may_be_due(one: Expiring, now: int) -> bool:
    return one.oldest is not None and max(one.oldest, one.reached) < one.rule.soonest(now)


def _may_have_old_edges(opened: OpenLog, now: int) -> bool:
    oldest = opened.replica.oldest(LINEAGE_EDGES, "created_at")
    return oldest is not None and oldest < DELETED_EDGES.soonest(now)


async def _expiring(opened: OpenLog, now: int) -> list[Expiring]:
    """The tables of a log that expire, as its replica has them. What may be due is asked whether something holds it."""
    replica, log = opened.replica, opened.definition.log
    holds = {name: hold for domain in opened.definition.domains for name, hold in domain.holds.items()}
    found = []
    for rule in RULES:
        for table in rule.tables if log in rule.logs else ():
            one = Expiring(log, table.name, rule, replica.reached(table), replica.oldest(table))
            if table.name in holds and _may_be_due(one, now):
                one = replace(one, hold=await holds[table.name](replica))
            found.append(one)
    return found


async def _advance(workspace: Workspace, due: Sequence[Advance], asked: Asked) -> None:
    for log in sorted({one.log for one in due}):
        await _decide(workspace, log, ExpireRows({one.table: one.before for one in due if one.log == log}), asked)


async def _expire_edges(workspace: Workspace, edges: Sequence[EdgeRef], before: int, asked: Asked) -> None:
    for at in range(0, len(edges), MAX_EDGES):
        await _decide(workspace, "activity", ExpireLineageEdges(tuple(edges[at : at + MAX_EDGES]), before), asked)


async def _decide(workspace: Workspace, log: str, command: ExpireRows | ExpireLineageEdges, asked: Asked) -> Receipt:
    return await workspace.decide(
        log, command, actor=asked.actor, correlation=asked.correlation, traceparent=asked.traceparent
    )


async def expire_history(workspace: Workspace, settings: Mapping[str, int], asked: Asked, *, dry_run: bool) -> History:
    """Let go of everything that is due now; with `dry_run` only say what that is."""
    now, done = workspace.runtime.now(), History()
    due: list[Advance] = []
    for opened in workspace.logs.values():
        await opened.current()
        tables = await _expiring(opened, now)
        for advance in reconcile_history(tables, settings, now):
            due.append(advance)
            done.expired += await _aged(opened, advance)
        done.held += [
            f"{one.table}: {one.hold.reason}"
            for one in tables
            if one.hold is not None and one.hold.since < one.rule.before(settings, now)
        ]
    done.edges_before = DELETED_EDGES.before(settings, now)
    if _may_have_old_edges(workspace.logs["activity"], now):
        done.edges = await _dead_edges(workspace, done.edges_before)
    if not dry_run:
        try:
            await _advance(workspace, due, asked)
        except Refused as error:
            raise Refused(f"{error.message}; something changed meanwhile, ask again") from error
        await _expire_edges(workspace, done.edges, done.edges_before, asked)
    return done


async def _aged(opened: OpenLog, advance: Advance) -> list[Expired]:
    """What goes of a table and of those that expire with it."""
    snapshot = await opened.frozen()
    found = []
    for table in opened.definition.tables.values():
        if table.time is not None and (table.expires_with or table.name) == advance.table:
            aged = await snapshot.aged(table, advance.before)
            if aged.rows:
                found.append(Expired(advance, table.name, snapshot.reached(table), aged))
    return found


async def _dead_edges(workspace: Workspace, before: int) -> list[EdgeRef]:
    """Edges that nobody used or changed since a time, one of whose ends was deleted before it.

    What is not known in the catalog at all is not deleted: other programs may tell of it.
    """
    activity = await workspace.logs["activity"].frozen()
    about = await activity.scan(LINEAGE_METADATA)
    touched = dict(
        zip(about.column("edge_id").to_pylist(), about.column("updated_at").cast("int64").to_pylist(), strict=True)
    )
    edges = await activity.scan(LINEAGE_EDGES)
    columns = [edges.column(name).to_pylist() for name in ("edge_id", "source_id", "target_id")]
    updated = edges.column("updated_at").cast("int64").to_pylist()
    catalog = await workspace.logs["catalog"].frozen()
    deleted: dict[str, bool] = {}
    found = []
    for edge_id, source, target, time in zip(*columns, updated, strict=True):
        if max(time, touched.get(edge_id, 0)) >= before:
            continue
        for end in (source, target):
            if end not in deleted:
                deleted[end] = await _is_deleted(catalog, end, before)
        if deleted[source] or deleted[target]:
            found.append(EdgeRef(source, edge_id))
    return found


async def _is_deleted(catalog: View, object_id: str, before: int) -> bool:
    """Whether an asset or a table was deleted before a time, and is nothing else by now."""
    asset: AssetRow | None = await catalog.get(ASSETS, WORKSPACE, object_id)
    if await catalog.get(TABLES, object_id, object_id) is not None:
        return False
    if asset is not None:
        return asset.status == AssetStatus.REMOVED and asset.removed_at is not None and asset.removed_at < before
    changes: list[NameChange] = await catalog.rows(NAME_CHANGES, object_id)
    dropped = [change.changed_at for change in changes if change.change == "dropped"]
    return bool(dropped) and max(dropped) < before
