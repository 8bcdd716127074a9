"""`HostedWorkspace`: an open workspace of a host with all that works on it: orchestration, Iceberg, past states."""

import contextlib
import logging
from collections.abc import Iterator
from functools import partial

from arco.api._host import Host
from arco.backup import BackupLoop
from arco.catalog import Points
from arco.core import ArcoError
from arco.runtime import ROW_BYTES, OpenLog, Workspace
from arco.servo import Servo

__all__ = ["HostedWorkspace", "announce"]

_log = logging.getLogger("arco.compactor")


async def announce(workspace: Workspace) -> None:
    """Commands look for a server where the hints say; see `OpenLog.announce`."""
    for log in workspace.logs.values():
        with contextlib.suppress(ArcoError):  # advice: a store that is in trouble will say so to whoever asks
            await log.announce()


class HostedWorkspace:
    """Implements `arco.runtime.Hosted`. With `public` it answers callers, and acts when time makes it necessary.

    It is busy as long as something was written that no backup has or no collection saw: once closed, nobody would come
    back for that.
    """

    def __init__(self, host: Host, workspace: Workspace, *, public: bool) -> None:
        self.workspace = workspace
        self._host = host
        self._public = public
        host.workspaces[workspace.scope] = workspace
        for name, log in workspace.logs.items():
            log.compactor.on_trouble = partial(self._tell, name)
        if public:
            host.servo_of(workspace.scope).start()
            host.warehouse_of(workspace.scope).upkeep.start()
        self._backups: BackupLoop | None = None
        if public and host.backups is not None:
            locations = host.warehouse_of(workspace.scope).locations
            self._backups = host.backups.loop_of(workspace, locations, host.store)
            self._backups.start()
        self._collections = None if host.collections is None else host.collections.loop_of(workspace)
        if self._collections is not None:
            self._collections.start()

    def _tell(self, log: str, trouble: ArcoError | None) -> None:
        """Whoever reads the log of the server hears of merges and packs that cannot be made: no request does."""
        root = self.workspace.scope.root
        if trouble is None:
            _log.warning("%s: merges and packs of the log %s get on again", root, log)
        else:
            _log.warning(
                "%s: merges or packs of the log %s cannot be made now: %s; reads and writes go on meanwhile, and it is "
                "tried again by itself",
                root,
                log,
                trouble.message,
            )

    def is_busy(self) -> bool:
        if any(log.is_unsettled() for log in self.workspace.logs.values()):
            return True
        if self._backups is not None and (self._backups.is_taking or self._backups.owes()):
            return True
        if self._collections is not None and (self._collections.is_collecting or self._collections.owes()):
            return True
        if not self._public:
            return False
        scope = self.workspace.scope
        waits = self._host.servo_of(scope).controllers.is_waiting()
        return waits or self._host.warehouse_of(scope).upkeep.receipts.lag().waiting > 0

    async def is_over(self) -> bool:
        """Sealed and replaced: while it is only sealed, by a restore that has not ended, there is no other life."""
        is_sealed = any(log.follower.sealed for log in self.workspace.logs.values())
        return is_sealed and await self.workspace.is_replaced()

    def bytes_held(self) -> int:
        warehouse = self._host.warehouses.get(self.workspace.scope)
        rows = sum(kept.rows_held() for kept in self._with_rows())
        return ROW_BYTES * rows + (warehouse.bytes_held() if warehouse is not None else 0)

    def shed(self) -> None:
        warehouse = self._host.warehouses.get(self.workspace.scope)
        if warehouse is not None:
            warehouse.shed()
        for kept in self._with_rows():
            kept.shed()

    def _with_rows(self) -> Iterator[OpenLog | Points | Servo]:
        scope = self.workspace.scope
        yield from self.workspace.logs.values()
        if scope in self._host.points:
            yield self._host.points[scope]
        if scope in self._host.servos:
            yield self._host.servos[scope]

    async def close(self) -> None:
        """Streams end, what is queued is settled, what is folded is published. The hints go on naming this process,
        which opens the workspace again for whoever asks."""
        scope = self.workspace.scope
        self.workspace.end_streams()
        try:
            if self._backups is not None:
                await self._backups.stop()
            if self._collections is not None:
                await self._collections.stop()
            if self._public:
                await self._host.servo_of(scope).stop()
            await self._host.close_warehouse(scope)
        finally:
            try:
                await self.workspace.close()
            finally:
                self._host.forget(scope)
