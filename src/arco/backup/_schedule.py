"""`BackupLoop`: takes backups of an open workspace every so often, and lets old ones go.

It asks nobody while nothing happens: whether something was appended since the last backup is known in this process.
Of several servers the one that leads the catalog's log does it; two that both believe it only waste work, because a
backup is the next number of its sequence. A workspace with changes that no backup has should stay open until it has one
(`owes`): nobody comes back for a closed one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from arco.backup._prune import prune
from arco.backup._take import ORDER, Taken, newest_to_build_on, take_backup
from arco.backup._vault import Vault
from arco.core import DAY, HOUR, SECOND, ArcoError, Task
from arco.iceberg import Locations
from arco.runtime import Workspace
from arco.storage import Scope

__all__ = ["BackupLoop", "LastBackup", "Schedule", "reason_of"]

LOOK_SECONDS = 60.0
RETRY_SECONDS = 600.0
"""After a backup that did not succeed; twice as long after each further one, up to the time between two backups."""
PRUNE_EVERY = DAY


@dataclass(frozen=True)
class Schedule:
    every: int = 6 * HOUR
    """Microseconds from one backup to the next, if something changed."""
    keep: int = 30 * 24 * HOUR
    """Microseconds for which a backup is kept."""
    data: bool = False


@dataclass(frozen=True)
class LastBackup:
    """Of a workspace, as far as a process knows."""

    incarnation: str
    """Which the process had open; the backup may be of an earlier one."""
    taken_at: int
    """0 if there is no backup."""
    covered: Mapping[str, int] = field(default_factory=dict)
    """Positions up to which nothing is a reason for another backup."""
    pruned_at: int = 0
    """When old ones were let go."""


def reason_of(error: Exception) -> str:
    """What a loop tells of an error, whether or not somebody foresaw it."""
    return error.message if isinstance(error, ArcoError) else f"{error!r}; this is a fault of arco"


class BackupLoop:
    def __init__(
        self,
        workspace: Workspace,
        vault: Vault,
        locations: Locations,
        store: str,
        schedule: Schedule,
        *,
        known: dict[Scope, LastBackup] | None = None,
        told: Callable[[str], None] = lambda message: None,
    ) -> None:
        """`known` outlives the open workspace; `told` hears of every backup, and of what went wrong with one."""
        self._workspace = workspace
        self._runtime = workspace.runtime
        self._vault = vault
        self._locations = locations
        self._store = store
        self._schedule = schedule
        self._told = told
        self._task: Task | None = None
        self._known = {} if known is None else known
        self._opened = self._positions()
        self._left: dict[str, int] = {}
        """Positions up to which the backup is left to others: to the process that leads, or, if it did not succeed for
        as long as there is between two, to whoever opens the workspace next."""
        self.is_taking = False
        """Whether a backup is being taken now."""
        self.failed: Exception | None = None
        """What became of the last attempt, if it did not succeed."""

    def start(self) -> None:
        if self._task is None:
            self._task = self._runtime.spawn(self._run(), "backups")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        pause, failing = LOOK_SECONDS, 0.0
        while True:
            await self._runtime.sleep(pause)
            try:
                if await self.is_due():
                    await self.take()
                pause, failing = LOOK_SECONDS, 0.0
            except Exception as error:  # noqa: BLE001 - else the loop ends untold, and the workspace stays open for it
                self.failed = error
                self._told(f"the backup did not succeed: {reason_of(error)}")
                every = self._schedule.every / SECOND
                pause = min(RETRY_SECONDS if not failing else 2 * pause, every)
                failing += pause
                if failing >= every:
                    self._left = self._positions()

    async def is_due(self) -> bool:
        """Whether the last backup is old enough, something changed since, and this process is the one to act."""
        last = self._last()
        if last is None and self._is_beyond({}):
            last = await self._look_up()
        if last is None or not self._is_beyond(last.covered):
            return False
        if self._runtime.now() - last.taken_at < self._schedule.every:
            return False
        positions = self._positions()
        if await self._workspace.logs["catalog"].leads():
            return True
        self._left = positions
        return False

    def owes(self) -> bool:
        """Whether something was appended that no backup has, and this process may be the one to take it. What was there
        before is none of its business as long as it did not look into the vault."""
        if any(log.follower.sealed for log in self._workspace.logs.values()):
            return False  # it goes on in another incarnation, of which there are other backups
        last = self._last()
        return self._is_beyond(self._left) and self._is_beyond(self._opened if last is None else last.covered)

    def _last(self) -> LastBackup | None:
        last = self._known.get(self._workspace.scope)
        return last if last is not None and last.incarnation == self._workspace.incarnation.id else None

    async def _look_up(self) -> LastBackup:
        newest, _, _ = await newest_to_build_on(self._vault)
        if newest is None:
            return self._remember(0, {})
        same = newest.incarnation == self._workspace.incarnation.id
        covered = {log: int(copy.watermark) for log, copy in newest.logs.items()} if same else {}
        return self._remember(newest.taken_at, covered)

    def _remember(self, taken_at: int, covered: Mapping[str, int], pruned_at: int = 0) -> LastBackup:
        last = LastBackup(self._workspace.incarnation.id, taken_at, covered, pruned_at)
        self._known[self._workspace.scope] = last
        return last

    def _positions(self) -> dict[str, int]:
        return {log: self._workspace.logs[log].replica.watermark for log in ORDER}

    def _is_beyond(self, positions: Mapping[str, int]) -> bool:
        return any(position > positions.get(log, 0) for log, position in self._positions().items())

    async def take(self) -> Taken:
        self.is_taking = True
        try:
            taken = await take_backup(
                self._workspace,
                self._vault,
                self._locations,
                store=self._store,
                actor="arco:backup",
                data=self._schedule.data,
            )
        finally:
            self.is_taking = False
        backup, last = taken.backup, self._last()
        self._remember(backup.taken_at, taken.positions, last.pruned_at if last is not None else 0)
        self.failed = None
        size = backup.copied_bytes
        self._told(f"backup {backup.number} is done: {backup.copied} new objects, {size} bytes")
        for trouble in taken.troubled:
            self._told(f"backup {backup.number}: of an Iceberg table there is no metadata to copy: {trouble}")
        for lost in taken.lost_data:
            self._told(f"backup {backup.number} lacks a file of data: {lost}")
        try:
            await self._prune()
        except ArcoError as error:  # the backup is there all the same
            self._told(f"old backups could not be let go, the next backup tries again: {error.message}")
        return taken

    async def _prune(self) -> None:
        """Once a day: it reads what every backup names."""
        last = self._last()
        if last is None or self._runtime.now() - last.pruned_at < PRUNE_EVERY:
            return
        gone = await prune(self._vault, self._runtime, keep=self._schedule.keep)
        self._remember(last.taken_at, last.covered, self._runtime.now())
        if gone.backups:
            self._told(f"let {len(gone.backups)} old backups go, and {len(gone.objects)} objects")
