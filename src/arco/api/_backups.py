"""`Backups`: what a server needs to take backups of the workspaces that it has open."""

import logging
from dataclasses import dataclass, field
from functools import partial

from arco.backup import BackupLoop, LastBackup, Schedule, Vault
from arco.iceberg import Locations
from arco.runtime import Workspace
from arco.storage import RequestCounts, Role, RoleStore, Scope, Store

__all__ = ["BackupOptions", "Backups"]

_log = logging.getLogger("arco.backup")


@dataclass(frozen=True)
class BackupOptions:
    """Backups that a server takes by itself."""

    store: str
    """URL of the store that they go to."""
    schedule: Schedule
    options: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Backups:
    target: Store
    schedule: Schedule
    known: dict[Scope, LastBackup] = field(default_factory=dict)
    """Of workspaces that may be closed again."""

    def loop_of(self, workspace: Workspace, locations: Locations, store: str) -> BackupLoop:
        """Backups of a workspace that is open, whose store has a URL. Whoever reads the log of the server hears of
        each."""
        scope = workspace.scope
        vault = Vault(
            RoleStore(self.target, scope, Role.BACKUP, RequestCounts()),
            scope.tenant,
            scope.workspace,
            workspace.runtime,
        )
        told = partial(_log.warning, "%s: %s", scope.root)
        return BackupLoop(workspace, vault, locations, store, self.schedule, known=self.known, told=told)
