"""`CollectionLoop`: collects an open workspace every so often, as `arco gc` does.

It asks nobody while nothing happens: whether something was appended since the last collection is known in this process.
A process that does not know of one collects once, some minutes after it opened the workspace. Former incarnations have
a time of their own: that at which what is left of one may go, or a day later if they could not be buried. It is asked
for by who does not know of a collection, and when the incarnation that is open turns out to be replaced. Of several
servers each does all of it by itself: that is safe, and who comes second finds little to do.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from arco.backup._collect import Cleared, collect_logs
from arco.backup._schedule import reason_of
from arco.backup._superseded import bury
from arco.core import SECOND, ArcoError, Task
from arco.runtime import Workspace
from arco.state import Collection
from arco.storage import Scope, Store

__all__ = ["CollectionLoop", "LastCollection"]

LOOK_SECONDS = 60.0
FIRST_SECONDS = (300.0, 900.0)
"""After opening. Chance spreads what a process opens at once."""
RIPE_SECONDS = (60.0, 600.0)
"""After something of a former incarnation may go. The store dates its objects to the second at best."""
SPREAD = 0.1
"""By which part of the time between two collections one may come early."""


@dataclass(frozen=True)
class LastCollection:
    """Of a workspace, as far as a process knows."""

    incarnation: str
    began: float
    """By the clock that counts sleep."""
    covered: Mapping[str, int] = field(default_factory=dict)
    """Positions up to which nothing is a reason to collect the logs again; none if that failed."""
    bury_at: float = math.inf
    """When there is a reason to look at former incarnations again, by the same clock."""


class CollectionLoop:
    def __init__(
        self,
        workspace: Workspace,
        base: Store,
        every: int,
        *,
        always: bool = False,
        known: dict[Scope, LastCollection] | None = None,
        told: Callable[[str], None] = lambda message: None,
    ) -> None:
        """`every` is microseconds. `always` collects whether or not something was appended. `known` outlives the open
        workspace; `told` hears of what was deleted, and of what went wrong."""
        self._workspace = workspace
        self._runtime = workspace.runtime
        self._base = base
        self._every = every / SECOND
        self._always = always
        self._known = {} if known is None else known
        self._told = told
        self._task: Task | None = None
        self._opened = self._positions()
        self._first = self._runtime.boottime() + self._runtime.uniform(*FIRST_SECONDS)
        self._due = max(self._first, self._due_again())
        self._replaced = False
        """Whether it is known that the workspace goes on in another incarnation."""
        self.is_collecting = False
        """Whether a collection is under way now."""
        self.failed: Exception | None = None
        """What became of the last attempt, if it did not succeed."""

    def start(self) -> None:
        if self._task is None:
            self._task = self._runtime.spawn(self._run(), "collections")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._runtime.sleep(LOOK_SECONDS)
            try:
                if self.is_due() or await self._is_replaced():
                    await self.collect()
            except Exception as error:  # noqa: BLE001 - else the loop ends untold, and nothing goes any more
                self.failed = error
                self._told(f"the collection did not succeed, the next one tries again: {reason_of(error)}")

    def is_due(self) -> bool:
        """Whether the last collection is long enough ago and something changed since, or there is something to bury."""
        now, last = self._runtime.boottime(), self._last()
        if last is not None and now >= max(last.bury_at, self._first):
            return True
        return now >= self._due and self._is_changed()

    def owes(self) -> bool:
        """Whether a collection is due, or will be soon, because of what was appended while the workspace was open here,
        or of what there is to bury. A workspace that is open for a few minutes a day would never be collected
        otherwise."""
        now, last = self._runtime.boottime(), self._last()
        if last is None:
            return self._workspace.incarnation.number > 1 or self._is_beyond(self._opened)
        return now >= last.bury_at or (now >= self._due_again() and self._is_beyond(last.covered))

    async def _is_replaced(self) -> bool:
        """Whether this incarnation has become a former one; true once, since to bury it has a time of its own then."""
        if self._replaced or not any(log.follower.sealed for log in self._workspace.logs.values()):
            return False
        with suppress(ArcoError):  # the next look asks again
            self._replaced = await self._workspace.is_replaced()
        return self._replaced

    async def collect(self) -> Cleared:
        """Collect the logs, if something changed, and bury former incarnations."""
        workspace, began, positions = self._workspace, self._runtime.boottime(), self._positions()
        is_changed = self._is_changed()
        covered: Mapping[str, int] = {} if is_changed else positions
        last = LastCollection(workspace.incarnation.id, began, covered, began + self._every)
        self._remember(last)
        self.is_collecting = True
        try:
            logs = await self._collect_logs() if is_changed else []
            # Whatever becomes of the burial: that is no reason to collect the logs again.
            last = replace(last, covered=positions)
            self._remember(last)
            buried = await bury(
                self._base, workspace.scope, self._runtime, counts=workspace.counts, min_age=workspace.min_age
            )
        finally:
            self.is_collecting = False
        cleared = Cleared(logs, buried)
        self._remember(replace(last, bury_at=self._bury_at(cleared.due)))
        self.failed = None
        if cleared.objects:
            size = sum(info.size for info in cleared.objects)
            self._told(f"collected: {len(cleared.objects)} objects are deleted, {size} bytes")
        return cleared

    async def _collect_logs(self) -> list[Collection]:
        workspace = self._workspace
        return await collect_logs(
            self._base, workspace.scope, self._runtime, counts=workspace.counts, min_age=workspace.min_age
        )

    def _bury_at(self, due: int | None) -> float:
        if due is None:
            return math.inf
        left = max(0.0, (due - self._runtime.now()) / SECOND)
        return self._runtime.boottime() + left + self._runtime.uniform(*RIPE_SECONDS)

    def _remember(self, last: LastCollection) -> None:
        self._known[self._workspace.scope] = last
        self._due = last.began + self._every * self._runtime.uniform(1.0 - SPREAD, 1.0)

    def _last(self) -> LastCollection | None:
        last = self._known.get(self._workspace.scope)
        return last if last is not None and last.incarnation == self._workspace.incarnation.id else None

    def _due_again(self) -> float:
        last = self._last()
        return float("-inf") if last is None else last.began + self._every

    def _positions(self) -> dict[str, int]:
        return {name: log.replica.watermark for name, log in self._workspace.logs.items()}

    def _is_changed(self) -> bool:
        """Whether there is a reason to collect the logs."""
        last = self._last()
        return self._always or last is None or self._is_beyond(last.covered)

    def _is_beyond(self, positions: Mapping[str, int]) -> bool:
        return any(position > positions.get(name, 0) for name, position in self._positions().items())
