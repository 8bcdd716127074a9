"""A workspace in memory whose asset `s.a` is an Iceberg table, and PyIceberg to read it from a copy on disk."""

import io
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from arco.assets import DataFormat, Dimension, Project, StaticPartitions
from arco.catalog import column_facts
from arco.domains.execution import ColumnStats, DataFile, QuarantineVersion, ReleaseVersion, RetentionPolicy
from arco.iceberg import Iceberg, Loaded, Locations, Who, open_iceberg
from arco.servo import (
    Compaction,
    Envelope,
    IcebergAssets,
    LocalMerger,
    Retention,
    compact_files,
    remove_orphans,
    retire_versions,
)
from arco.storage import Role
from tests.servo.world import ASKED, SCOPE, WORKER, World, project, result_of, run_world

__all__ = ["BY_REGION", "PLAIN", "Lake", "in_lake", "rows"]

T = TypeVar("T")

PLAIN = project({"s.a": []}, format=DataFormat.ICEBERG)
BY_REGION = project(
    {"s.a": []}, format=DataFormat.ICEBERG, partitions=(Dimension("region", StaticPartitions(("eu", "us", "asia"))),)
)


@dataclass
class _Catalog:
    iceberg: Iceberg
    locations: Locations

    @property
    def tables(self) -> Any:
        return self.iceberg.tables


class Lake:
    def __init__(self, world: World, folder: Path, root: str = "") -> None:
        """Locations begin with `root`; without it with the folder, from which PyIceberg reads."""
        self.world = world
        self.folder = folder
        self.workspace = world.workspace
        self.locations = Locations(self.workspace.handle(Role.ICEBERG), root or f"file://{folder}", SCOPE.root)
        self.iceberg = open_iceberg(self.workspace, self.locations)
        self.tables = self.iceberg.tables
        self.assets = IcebergAssets(self.workspace, lambda: _Catalog(self.iceberg, self.locations))
        self.store = self.workspace.handle(Role.WORKER)
        self.asset_id = ""

    def again(self) -> "Lake":
        """The same workspace as a process sees it that has just begun."""
        found = Lake(self.world, self.folder)
        found.asset_id = self.asset_id
        return found

    async def finish(self, envelope: Envelope, tables: list[pa.Table], **fields: Any) -> str:
        """End an attempt with a version of one file for each table; its id."""
        (place,) = envelope.outputs
        files = []
        for number, table in enumerate(tables):
            sink = io.BytesIO()
            pq.write_table(table, sink)
            data, path = sink.getvalue(), f"{place.location}part-{number:05d}.parquet"
            await self.store.put(path, data, only_if_absent=True)
            stats = column_facts(pq.read_metadata(pa.BufferReader(data)))
            files.append(DataFile(path, len(data), len(table), tuple(ColumnStats(*facts) for facts in stats)))
        result = result_of(envelope, self.world.runtime.now())
        output = msgspec.structs.replace(
            result.outputs[0], files=tuple(files), row_count=sum(map(len, tables)), **fields
        )
        await self.world.servo.work.finish([msgspec.structs.replace(result, outputs=(output,))], WORKER)
        self.asset_id = place.asset_id
        return place.materialization_id

    async def make(self, *tables: pa.Table, region: str = "", key: str = "s.a", **fields: Any) -> str:
        """One more version of a partition of an asset; its id."""
        await self.world.trigger(key, mode="force", partitions={"region": region} if region else {})
        (envelope,) = await self.world.claim()
        return await self.finish(envelope, list(tables), **fields)

    async def hold(self, version: str) -> None:
        await self.workspace.decide("activity", QuarantineVersion(self.asset_id, version, "looks odd"), actor="ann")

    async def release(self, version: str) -> None:
        await self.workspace.decide("activity", ReleaseVersion(self.asset_id, version, "it is fine"), actor="ann")

    async def sync(self) -> None:
        assert await self.assets.step() is None

    async def compact(self) -> Compaction:
        reader = self.workspace.handle(Role.READER)
        merger = LocalMerger(reader, self.store, self.world.runtime)
        options: dict[str, Any] = {"target": 128 << 20, "min_files": 2, "dry_run": False}
        return await compact_files(self.workspace, self.asset_id, None, ASKED, merger, **options)

    async def retire(self) -> Retention:
        policy = RetentionPolicy(min_days=3, min_versions=1, max_versions=1, grace_hours=24)
        let_go = self.assets.let_go
        return await retire_versions(self.workspace, [self.asset_id], policy, ASKED, dry_run=False, let_go=let_go)

    async def sweep(self) -> list[str]:
        let_go = self.assets.let_go
        done = await remove_orphans(self.workspace, [self.asset_id], (), hours=24, dry_run=False, let_go=let_go)
        return [info.path for info in done.files]

    async def load(self, *path: str) -> Loaded:
        return await self.tables.load(path or ("s", "a"))

    def who(self) -> Who:
        return Who("ann", "01" + "A" * 24)

    async def table(self) -> StaticTable:
        """The table as PyIceberg sees it, on a copy of the store."""
        shutil.rmtree(self.folder, ignore_errors=True)
        async for info in self.world.store.list(""):
            path = self.folder / info.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(await self.world.store.get(info.path))
        return StaticTable.from_metadata(str((await self.load()).metadata_location))

    async def rows(self, branch: str | None = None) -> list[dict[str, Any]]:
        table = await self.table()
        scan = table.scan() if branch is None else table.scan().use_ref(branch)
        return rows(scan.to_arrow())


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


def in_lake(work: Callable[[Lake], Awaitable[T]], folder: Path, deployed: Project = PLAIN) -> T:
    return run_world(lambda world: work(Lake(world, folder)), deployed=deployed)
