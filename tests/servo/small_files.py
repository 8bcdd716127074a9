"""Versions that have many small Parquet files, in a workspace in memory."""

import io
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from arco.assets import Project
from arco.catalog import column_facts
from arco.domains.execution import (
    COMPACTED_VERSIONS,
    MATERIALIZATIONS,
    PARTITIONS,
    ColumnStats,
    CompactedVersion,
    DataFile,
    Materialization,
    Partition,
    files_of,
)
from arco.servo import Compaction, Envelope, LocalMerger, Merger, compact_files, remove_orphans
from arco.storage import Role
from tests.doubles import FaultyStore
from tests.servo.world import ASKED, WORKER, World, project, result_of, run_world

__all__ = ["Small", "in_small", "parquet"]

CHAIN = project({"s.a": [], "s.b": ["s.a"]})


def parquet(*ids: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{number}" for number in ids]}), sink)
    return sink.getvalue()


@dataclass
class Small:
    world: World

    def __post_init__(self) -> None:
        self.store = self.world.workspace.handle(Role.WORKER)
        self.reader = FaultyStore(self.world.workspace.handle(Role.READER))
        self.writer = FaultyStore(self.store)
        self.asset_id = ""

    @property
    def merger(self) -> LocalMerger:
        return LocalMerger(self.reader, self.writer, self.world.runtime)

    async def finish(self, envelope: Envelope, parts: Sequence[Sequence[int]]) -> list[str]:
        """End an attempt with a version of one file for each part."""
        (place,) = envelope.outputs
        files = []
        for number, ids in enumerate(parts):
            data = parquet(*ids)
            path = f"{place.location}part-{number:05d}.parquet"
            await self.store.put(path, data, only_if_absent=True)
            stats = column_facts(pq.read_metadata(pa.BufferReader(data)))
            files.append(DataFile(path, len(data), len(ids), tuple(ColumnStats(*facts) for facts in stats)))
        result = result_of(envelope, self.world.runtime.now())
        output = msgspec.structs.replace(
            result.outputs[0],
            files=tuple(files),
            row_count=sum(map(len, parts)),
            byte_size=sum(file.size_bytes for file in files),
        )
        await self.world.servo.work.finish([msgspec.structs.replace(result, outputs=(output,))], WORKER)
        if envelope.task_key.startswith("s.a"):
            self.asset_id = place.asset_id
        return [file.path for file in files]

    async def make(self, *parts: Sequence[int], **fields: Any) -> str:
        """One more version of s.a; its id."""
        await self.world.trigger("s.a", mode="force", **fields)
        (envelope,) = await self.world.claim()
        await self.finish(envelope, parts or [(number,) for number in range(10)])
        return envelope.outputs[0].materialization_id

    async def compact(self, *, merger: Merger | None = None, **fields: Any) -> Compaction:
        options: dict[str, Any] = {"target": 128 << 20, "min_files": 5, "dry_run": False, **fields}
        after = options.pop("after", None)
        return await compact_files(self.world.workspace, self.asset_id, after, ASKED, merger or self.merger, **options)

    async def version(self, name: str) -> Materialization:
        row: Materialization = await self.world.workspace.logs["activity"].replica.get(
            MATERIALIZATIONS, self.asset_id, name
        )
        return row

    async def compacted(self, name: str) -> CompactedVersion | None:
        row: CompactedVersion | None = await self.world.workspace.logs["activity"].replica.get(
            COMPACTED_VERSIONS, self.asset_id, name
        )
        return row

    async def files(self, name: str) -> tuple[DataFile, ...]:
        return await files_of(self.world.workspace.logs["activity"].replica, await self.version(name))

    async def partition(self) -> Partition:
        rows: list[Partition] = await self.world.workspace.logs["activity"].replica.rows(PARTITIONS, self.asset_id)
        return rows[0]

    async def read(self, paths: Sequence[str]) -> list[int]:
        """The ids in files, in their order."""
        tables = [pq.read_table(pa.BufferReader(await self.store.get(path))) for path in paths]
        return [number for table in tables for number in table.column("id").to_pylist()]

    async def ids(self, name: str) -> list[int]:
        """The ids that a version holds, in their order."""
        return await self.read([file.path for file in await self.files(name)])

    async def paths(self) -> set[str]:
        return {info.path async for info in self.store.list("data")}

    async def sweep(self, hours: int = 24, *, dry_run: bool = False) -> set[str]:
        found = await remove_orphans(self.world.workspace, [self.asset_id], set(), hours=hours, dry_run=dry_run)
        return {info.path for info in found.files}

    def later(self, micros: int) -> None:
        self.world.runtime.suspend(micros / 1_000_000)


def in_small(work: Callable[[Small], Awaitable[None]], deployed: Project = CHAIN) -> None:
    run_world(lambda world: work(Small(world)), deployed=deployed)
