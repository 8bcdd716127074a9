"""`Warehouse`: the Iceberg catalog of one workspace in this process, made when somebody first asks for it."""

import os
from collections import Counter
from dataclasses import dataclass, field

from arco.api._host import Host
from arco.api.iceberg._kept import Kept
from arco.api.iceberg._vended import Vended
from arco.iceberg import (
    Documents,
    Lifecycle,
    Locations,
    RemoteSigner,
    Tables,
    Upkeep,
    Views,
    open_iceberg,
    open_locations,
    open_upkeep,
    signer_for,
    vendor_for,
)
from arco.storage import Role, Scope

__all__ = ["Warehouse", "close_warehouses", "open_warehouse"]

ANSWER_BYTES = 128 << 20
LIST_BYTES = 32 << 20


@dataclass(frozen=True)
class Warehouse:
    locations: Locations
    tables: Tables
    views: Views
    lifecycle: Lifecycle
    upkeep: Upkeep
    """Tells the log of commits, and removes what they leave behind."""
    documents: Documents
    vendor: Vended | None = None
    """Makes credentials for a table's location; None where the store has none, or nothing was configured."""
    signer: RemoteSigner | None = None
    """Signs requests of clients; None where the store takes no signed ones."""
    answers: Kept = field(default_factory=lambda: Kept(ANSWER_BYTES))
    """Tables as they are sent, without credentials."""
    lists: Kept = field(default_factory=lambda: Kept(LIST_BYTES))
    reports: Counter[str] = field(default_factory=Counter)
    """How many reports of metrics came, by their type."""

    def bytes_held(self) -> int:
        """Bytes in memory of what is remembered."""
        return self.documents.bytes_held() + self.answers.bytes_held() + self.lists.bytes_held()

    def shed(self) -> None:
        """Let go of it: it can be read again, or made anew."""
        for kept in (self.documents, self.answers, self.lists):
            kept.shed()

    async def close(self) -> None:
        await self.upkeep.stop()
        await self.locations.close()
        if self.vendor is not None:
            await self.vendor.close()


def open_warehouse(host: Host, scope: Scope) -> Warehouse:
    workspace = host.workspaces[scope]
    root = host.store
    locations = open_locations(
        workspace.handle(Role.ICEBERG), root, scope.root, host.store_options, host.allowed_locations, host.runtime
    )
    iceberg = open_iceberg(workspace, locations)
    vendor = vendor_for(root, host.store_options, host.runtime, environ=os.environ)
    return Warehouse(
        locations,
        iceberg.tables,
        iceberg.views,
        iceberg.lifecycle,
        open_upkeep(workspace, iceberg.committer, locations),
        iceberg.committer.documents,
        Vended(vendor, host.runtime) if vendor is not None else None,
        signer_for(root, host.store_options, host.runtime, environ=os.environ),
    )


async def close_warehouses(host: Host) -> None:
    for scope in list(host.warehouses):
        await host.close_warehouse(scope)
