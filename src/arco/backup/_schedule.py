"""`BackupLoop`: takes backups of an open workspace every so often, and lets old ones go.

It asks nobody while nothing happens: whether something was appended since the last backup is known in this process.
Of several servers the one that leads the catalog's log does it; two that both believe it only waste work, because a
backup is the next number of its sequence.
"""

from collections.abc import Callable
from dataclasses import dataclass

from arco.backup._prune import prune
from arco.backup._take import ORDER, Taken, newest_to_build_on, take_backup
from arco.backup._vault import Vault
from arco.core import DAY, HOUR, ArcoError, Task
from arco.iceberg import Locations
from arco.runtime import Workspace

__all__ = ["BackupLoop", "Schedule"]

LOOK_SECONDS = 60.0
RETRY_SECONDS = 600.0
PRUNE_EVERY = DAY


@dataclass(frozen=True)
class Schedule:
    every: int = 6 * HOUR
    """Microseconds from one backup to the next, if something changed."""
    keep: int = 30 * 24 * HOUR
    """Microseconds for which a backup is kept."""
    data: bool = False


class BackupLoop:
    def __init__(
        self,
        workspace: Workspace,
        vault: Vault,
        locations: Locations,
        store: str,
        schedule: Schedule,
        *,
        told: Callable[[str], None] = lambda message: None,
    ) -> None:
        """`told` hears of every backup, and of what went wrong with one."""
        self._workspace = workspace
        self._runtime = workspace.runtime
        self._vault = vault
        self._locations = locations
        self._store = store
        self._schedule = schedule
        self._told = told
        self._task: Task | None = None
        self._covered: dict[str, int] = {}
        """Positions up to which nothing is a reason for another backup."""
        self._last: int | None = None
        self._pruned = 0
        self.is_taking = False
        """Whether a backup is being taken now."""
        self.failed: ArcoError | None = None
        """What became of the last attempt, if it did not succeed."""

    def start(self) -> None:
        if self._task is None:
            self._task = self._runtime.spawn(self._run(), "backups")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        pause = LOOK_SECONDS
        while True:
            await self._runtime.sleep(pause)
            pause = LOOK_SECONDS
            try:
                if await self.is_due():
                    await self.take()
            except ArcoError as error:
                self.failed = error
                self._told(f"the backup did not succeed: {error.message}")
                pause = RETRY_SECONDS

    async def is_due(self) -> bool:
        """Whether the last backup is old enough, something changed since, and this process is the one to act."""
        logs = self._workspace.logs
        if not any(logs[log].replica.watermark > self._covered.get(log, 0) for log in ORDER):
            return False
        if self._last is None:
            newest, _, _ = await newest_to_build_on(self._vault)
            self._last = newest.taken_at if newest is not None else 0
            if newest is not None and newest.incarnation == self._workspace.incarnation.id:
                self._covered = {log: int(copy.watermark) for log, copy in newest.logs.items()}
        if self._runtime.now() - self._last < self._schedule.every:
            return False
        changed = any(logs[log].replica.watermark > self._covered.get(log, 0) for log in ORDER)
        return changed and await logs["catalog"].leads()

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
        backup, positions = taken.backup, taken.positions
        self._last, self.failed = backup.taken_at, None
        self._covered = {log: positions[log] | 0xFFFFF for log in ORDER}  # a segment has one watermark
        size = backup.copied_bytes
        self._told(f"backup {backup.number} is done: {backup.copied} new objects, {size} bytes")
        for trouble in taken.troubled:
            self._told(f"backup {backup.number}: of an Iceberg table there is no metadata to copy: {trouble}")
        await self._prune()
        return taken

    async def _prune(self) -> None:
        """Once a day: it reads what every backup names."""
        if self._runtime.now() - self._pruned < PRUNE_EVERY:
            return
        gone = await prune(self._vault, self._runtime, keep=self._schedule.keep)
        self._pruned = self._runtime.now()
        if gone.backups:
            self._told(f"let {len(gone.backups)} old backups go, and {len(gone.objects)} objects")
