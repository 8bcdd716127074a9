"""`Host`: what one process serves: its workspaces, how callers prove who they are, and the limits it keeps.

Workspaces are given open, or opened when somebody asks (`served`).

Three doors, chosen when the process starts:

- `KEYS`: every request carries an API key.
- `DEVELOPMENT`: on a loopback address only; a request without a key is the developer, who owns everything.
- `LOCAL`: no network at all; a command line that has the store itself asks the application in its own process.
"""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from arco.api._backups import Backups
from arco.api._collections import Collections
from arco.api._uses import uses_of
from arco.catalog import Points
from arco.core import LostObject, Runtime, ServiceIdentity
from arco.runtime import Workspace, Workspaces
from arco.servo import LocalMerger, Merger, Relay, Servo
from arco.storage import RequestCounts, Role, RoleStore, Scope, Store

if TYPE_CHECKING:
    from arco.api.iceberg import Warehouse

__all__ = ["Door", "Host"]


class Door(StrEnum):
    KEYS = "keys"
    DEVELOPMENT = "development"
    LOCAL = "local"


@dataclass(frozen=True)
class Host:
    runtime: Runtime
    workspaces: dict[Scope, Workspace]
    """Those that are open now."""
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
    store: str = "memory://store"
    """URL of the store, which the locations of Iceberg tables begin with."""
    store_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed_locations: tuple[str, ...] = ()
    """URLs outside of the store below which Iceberg tables may lie too."""
    warehouses: "dict[Scope, Warehouse]" = field(default_factory=dict)
    served: Workspaces | None = None
    """What opens workspaces and closes them again; None if `workspaces` are all there are."""
    base: Store | None = None
    """The store itself, if workspaces are opened here."""
    on_closed: list[Callable[[Scope], None]] = field(default_factory=list)
    """Who is told that a workspace was closed."""
    backups: Backups | None = None
    """What takes backups of the workspaces that are open here; None if nothing does."""
    collections: Collections | None = None
    """What collects the workspaces that are open here; None if nothing does."""

    async def find(self, scope: Scope, asgi: MutableMapping[str, Any]) -> Workspace | None:
        """The workspace, held open until the request is answered; None if it is not served here."""
        if self.served is None:
            return self.workspaces.get(scope)
        lease = await self.served.use(scope)
        if lease is None:
            return None
        uses_of(asgi).add(lease)
        return lease.workspace

    def lost(self, scope: Scope) -> LostObject | None:
        """What is missing of a workspace that was not found. For who has proved who they are: to others a workspace
        that is damaged is none."""
        return None if self.served is None else self.served.lost(scope)

    def reader_of(self, scope: Scope) -> RoleStore | None:
        """The objects of a workspace for reading, whether or not it is open; None if it is not served here."""
        found = self.workspaces.get(scope)
        if found is not None:
            return found.handle(Role.READER)
        if self.served is None or self.base is None or not self.served.serves(scope):
            return None
        return RoleStore(self.base, scope, Role.READER, RequestCounts())

    def points_of(self, scope: Scope) -> Points:
        """Past states of a workspace, shared by all requests because they never change."""
        if scope not in self.points:
            self.points[scope] = Points(self.workspaces[scope])
        return self.points[scope]

    def servo_of(self, scope: Scope) -> Servo:
        """Orchestration of a workspace, one for all requests."""
        if scope not in self.servos:
            secret = self.secret or self.runtime.bytes(32)
            self.servos[scope] = Servo(
                self.workspaces[scope], secret, self.relay, catalog=lambda: self.warehouse_of(scope)
            )
        return self.servos[scope]

    def warehouse_of(self, scope: Scope) -> "Warehouse":
        """The Iceberg catalog of a workspace, one for all requests."""
        found = self.warehouses.get(scope)
        if found is None:
            from arco.api.iceberg import open_warehouse  # it needs a host itself

            found = self.warehouses[scope] = open_warehouse(self, scope)
        return found

    async def close_warehouse(self, scope: Scope) -> None:
        warehouse = self.warehouses.get(scope)
        if warehouse is not None:
            await warehouse.close()
            self.warehouses.pop(scope, None)

    def forget(self, scope: Scope) -> None:
        """The workspace was closed."""
        for known in (self.workspaces, self.points, self.servos, self.warehouses):
            known.pop(scope, None)
        for told in self.on_closed:
            told(scope)

    def merger_of(self, scope: Scope) -> Merger:
        """What merges small files of a workspace's data."""
        workspace = self.workspaces[scope]
        reader, writer = workspace.handle(Role.READER), workspace.handle(Role.WORKER)
        return self.merger or LocalMerger(reader, writer, self.runtime)
