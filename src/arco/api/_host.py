"""`Host`: what one process serves: its open workspaces, how callers prove who they are, and the limits it keeps.

Three doors, chosen when the process starts:

- `KEYS`: every request carries an API key.
- `DEVELOPMENT`: on a loopback address only; a request without a key is the developer, who owns everything.
- `LOCAL`: no network at all; a command line that has the store itself asks the application in its own process.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from arco.catalog import Points
from arco.core import Runtime, ServiceIdentity
from arco.runtime import Workspace
from arco.servo import LocalMerger, Merger, Relay, Servo
from arco.storage import Role, Scope

__all__ = ["Door", "Host"]


class Door(StrEnum):
    KEYS = "keys"
    DEVELOPMENT = "development"
    LOCAL = "local"


@dataclass(frozen=True)
class Host:
    runtime: Runtime
    workspaces: Mapping[Scope, Workspace]
    default: Scope
    """The workspace of a caller without a key."""
    door: Door
    actor: str = "developer"
    """Who a caller without a key is."""
    identity: ServiceIdentity | None = None
    """How processes of this service prove themselves to each other; None if nobody else may ask."""
    signing: tuple[bytes, str] | None = field(default=None, repr=False)
    """Secret and base URL of the signed URLs this process serves itself, for local disk."""
    points: dict[Scope, Points] = field(default_factory=dict)
    servos: dict[Scope, Servo] = field(default_factory=dict)
    secret: bytes = field(default=b"", repr=False)
    """What the processes of this service share; without one nobody works for this process."""
    relay: Relay | None = None
    merger: Merger | None = None
    """What merges small files of data; None for this process."""

    def points_of(self, scope: Scope) -> Points:
        """Past states of a workspace, shared by all requests because they never change."""
        if scope not in self.points:
            self.points[scope] = Points(self.workspaces[scope])
        return self.points[scope]

    def servo_of(self, scope: Scope) -> Servo:
        """Orchestration of a workspace, one for all requests."""
        if scope not in self.servos:
            secret = self.secret or self.runtime.bytes(32)
            self.servos[scope] = Servo(self.workspaces[scope], secret, self.relay)
        return self.servos[scope]

    def merger_of(self, scope: Scope) -> Merger:
        """What merges small files of a workspace's data."""
        workspace = self.workspaces[scope]
        reader, writer = workspace.handle(Role.READER), workspace.handle(Role.WORKER)
        return self.merger or LocalMerger(reader, writer, self.runtime)
