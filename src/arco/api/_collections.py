"""`Collections`: what a server needs to collect the workspaces that it has open."""

import logging
from dataclasses import dataclass, field
from functools import partial

from arco.backup import CollectionLoop, LastCollection
from arco.runtime import Workspace
from arco.storage import Scope, Store

__all__ = ["Collections"]

_log = logging.getLogger("arco.collect")


@dataclass(frozen=True)
class Collections:
    base: Store
    every: int
    """Microseconds from one collection of a workspace to the next."""
    always: bool = False
    """Whether or not something was appended, because this process does nothing else."""
    known: dict[Scope, LastCollection] = field(default_factory=dict)
    """Of workspaces that may be closed again."""

    def loop_of(self, workspace: Workspace) -> CollectionLoop:
        """Collections of a workspace that is open. Whoever reads the log of the server hears of each that deletes."""
        told = partial(_log.warning, "%s: %s", workspace.scope.root)
        return CollectionLoop(workspace, self.base, self.every, always=self.always, known=self.known, told=told)
