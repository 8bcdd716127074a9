"""A workspace to query, in real time because queries run in processes."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.catalog import CatalogResolver, Limits, SystemRelations, find_table
from arco.catalog._sql import QueryResult, Sandbox
from arco.core import ArcoError, PartitionKey, Scalar, new_ulid
from arco.domains.catalog import (
    AddColumn,
    CreateTable,
)
from arco.domains.execution import MATERIALIZATION_COMPLETED, DataFile, MaterializationCompleted
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.state import Snapshot, freeze, new_event
from arco.storage import MemoryStore, Role, Scope
from tests.doubles import FaultyStore

__all__ = ["World", "in_world", "parquet"]

SCOPE = Scope("acme", "prod")


@dataclass
class World:
    """A workspace and a sandbox, in real time because queries run in processes."""

    workspace: Workspace
    sandbox: Sandbox
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.store = FaultyStore(self.workspace.handle(Role.READER))
        """Through which data is read; it notes every call."""

    async def decide(self, command: Any) -> None:
        await self.workspace.decide("catalog", command, actor="ann")

    async def table(self, path: tuple[str, ...], format: str = "PARQUET", **columns: str) -> str:
        """Create a table; its id."""
        added = tuple(AddColumn(name, kind) for name, kind in columns.items())
        await self.decide(CreateTable(path, format=format, columns=added))
        found, _ = await self.workspace.logs["catalog"].read(lambda view: find_table(view, path))
        assert found is not None
        return found[0].table_id

    async def write(self, path: str, data: bytes) -> DataFile:
        await self.workspace.handle(Role.WORKER).put(path, data, only_if_absent=True)
        return DataFile(path, len(data), 0)

    async def materialize(
        self, table_id: str, *files: DataFile, key: dict[str, Scalar] | None = None, **more: Any
    ) -> None:
        partition = PartitionKey(key or {}).canonical
        event = MaterializationCompleted(
            materialization_id=new_ulid(self.workspace.runtime, self.workspace.runtime),
            asset_id=table_id,
            asset_key="sales.orders",
            partition_id=f"part-{partition}",
            partition_key=partition,
            run_id="run-1",
            task_id="task-1",
            files=files,
            row_count=0,
            byte_size=sum(file.size_bytes for file in files),
            schema_hash="",
            started_at=1,
            completed_at=self.workspace.runtime.now(),
            **more,
        )
        await self.workspace.record("activity", [new_event(MATERIALIZATION_COMPLETED, event)], actor="ann")

    def snapshots(self) -> tuple[Snapshot, Snapshot]:
        catalog, activity = (self.workspace.logs[name] for name in ("catalog", "activity"))
        return freeze(catalog.definition, catalog.replica), freeze(activity.definition, activity.replica)

    async def query(self, sql: str, as_of: tuple[Snapshot, Snapshot] | None = None) -> QueryResult:
        catalog, activity = as_of or self.snapshots()
        resolver = CatalogResolver(
            SystemRelations(catalog, activity),
            lambda path: find_table(catalog, path),
            activity,
            self.workspace.logs["activity"].frozen,
            self.store,
            self.workspace.runtime,
            self.limits.max_input_bytes,
        )
        return await self.sandbox.run(sql, resolver, self.limits)

    async def rows(self, sql: str) -> list[list[Any]]:
        return (await self.query(sql)).rows

    async def refusal(self, sql: str) -> ArcoError:
        with pytest.raises(ArcoError) as caught:
            await self.query(sql)
        return caught.value


def in_world(test: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        runtime = AsyncRuntime()
        base = MemoryStore(runtime)
        await init_workspace(base, SCOPE, runtime)
        sandbox = Sandbox(runtime, spares=1)
        try:
            async with await Workspace.open(base, SCOPE, runtime, test_store=False) as workspace:
                await test(World(workspace, sandbox))
        finally:
            await sandbox.close()

    asyncio.run(main())


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()
