"""A workspace with Iceberg tables that are committed to by the real committer, in no time."""

from typing import Any

from arco.core import new_ulid, ulid_to_uuid
from arco.domains.catalog import CreateNamespace, CreateTable
from arco.domains.tables import TABLE_COLUMNS, TABLE_COMMITS, TABLE_STATES, TableCommit, TableState
from arco.iceberg import (
    Committed,
    Committer,
    IdempotencyKey,
    Keys,
    Locations,
    Pointers,
    Transactions,
    Upkeep,
    Who,
    open_upkeep,
)
from arco.iceberg.metadata import apply_updates, new_table, parse_create, parse_updates
from arco.runtime import Workspace, init_workspace
from arco.storage import MemoryStore, Role, Scope, Store
from tests.doubles import FakeRuntime

__all__ = ["SCOPE", "World", "open_world", "snapshot_of"]

SCOPE = Scope("acme", "prod")
FIELDS = ({"id": 1, "name": "id", "type": "long", "required": True}, {"id": 2, "name": "note", "type": "string"})


class World:
    def __init__(self, workspace: Workspace, runtime: FakeRuntime, store: Store) -> None:
        self.workspace = workspace
        self.runtime = runtime
        self.store = store
        self.committer, self.upkeep = self.process()

    def process(self) -> tuple[Committer, Upkeep]:
        """A committer as another process would have it, and what follows its commits."""
        handle, inc = self.workspace.handle(Role.ICEBERG), self.workspace.incarnation.id
        prefix = f"{inc}/iceberg"
        self.locations = Locations(handle, "memory://acme", SCOPE.root)
        pointers = Pointers(handle, prefix, self.runtime, inc)
        committer = Committer(pointers, Keys(handle, prefix, self.runtime, inc), self.locations, self.runtime)
        return committer, open_upkeep(self.workspace, committer, self.locations)

    def who(self, **changes: Any) -> Who:
        fields: dict[str, Any] = {"actor": "ann", "operation": new_ulid(self.runtime, self.runtime), **changes}
        return Who(**fields)

    async def create(self, name: str = "orders", **properties: str) -> str:
        """A table in the catalog and its first commit; its id."""
        table_id = new_ulid(self.runtime, self.runtime)
        fields = [{"required": False, **field} for field in FIELDS]
        request = parse_create(
            {"name": name, "schema": {"type": "struct", "fields": fields}, "properties": dict(properties)}
        )
        made = new_table(
            request,
            location=self.locations.new_table(table_id),
            table_uuid=ulid_to_uuid(table_id),
            now_ms=self.runtime.now() // 1000,
        )
        await self.committer.commit(table_id, lambda base, location: made, self.who(), creates=True)
        command = CreateTable(("shop", name), format="ICEBERG", table_id=table_id)
        await self.workspace.decide("catalog", command, actor="ann")
        return table_id

    def edit(self, *updates: dict[str, Any]) -> Any:
        parsed = parse_updates(list(updates))
        now = self.runtime.now() // 1000
        return lambda base, location: apply_updates(base, parsed, now_ms=now, base_location=location)

    async def commit(
        self, table_id: str, *updates: dict[str, Any], key: IdempotencyKey | None = None, **who: Any
    ) -> Committed:
        return await self.committer.commit(table_id, self.edit(*updates), self.who(key=key, **who))

    async def set(self, table_id: str, value: str, **who: Any) -> Committed:
        return await self.commit(table_id, {"action": "set-properties", "updates": {"value": value}}, **who)

    def transactions(self) -> Transactions:
        return Transactions(self.committer, self.runtime)

    async def settle(self) -> None:
        await self.upkeep.receipts.close()

    async def state(self, table_id: str) -> TableState | None:
        found: TableState | None = await self.workspace.logs["activity"].replica.get(TABLE_STATES, table_id, table_id)
        return found

    async def commits(self, table_id: str) -> list[TableCommit]:
        return await self.workspace.logs["activity"].replica.rows(TABLE_COMMITS, table_id)

    async def columns(self, table_id: str) -> list[tuple[str, str]]:
        rows = await self.workspace.logs["activity"].replica.rows(TABLE_COLUMNS, table_id)
        return [(row.name, row.data_type) for row in sorted(rows, key=lambda row: row.ordinal_position)]

    async def paths(self, folder: str = "") -> list[str]:
        return [info.path async for info in self.workspace.handle(Role.READER).list(folder)]


def snapshot_of(number: int, parent: int | None, sequence: int, time_ms: int, **summary: str) -> dict[str, Any]:
    """Updates that append a snapshot."""
    snapshot = {
        "snapshot-id": number,
        "sequence-number": sequence,
        "timestamp-ms": time_ms,
        "manifest-list": f"memory://acme/m{number}.avro",
        "schema-id": 0,
        "summary": {"operation": "append", **summary},
    }
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent
    return {"action": "add-snapshot", "snapshot": snapshot}


async def open_world(seed: int = 0) -> World:
    runtime = FakeRuntime(seed)
    store = MemoryStore(runtime)
    await init_workspace(store, SCOPE, runtime)
    workspace = await Workspace.open(store, SCOPE, runtime, compact=False)
    await workspace.decide("catalog", CreateNamespace(("shop",)), actor="ann")
    return World(workspace, runtime, store)
