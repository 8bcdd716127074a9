"""What the Iceberg table of an asset should hold, read from the rows of its versions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from arco.domains.execution import (
    COMPACTED_VERSIONS,
    HELD,
    MATERIALIZATIONS,
    PARTITIONS,
    VERSION_STATUS,
    CompactedVersion,
    DataFile,
    Materialization,
    Partition,
    VersionStatus,
)
from arco.servo._iceberg_diff import HeldBack, Wanted
from arco.state import Snapshot

__all__ = ["MAX_HELD", "AssetState", "Mark", "read_mark", "read_state"]

MAX_HELD: Final = 20
"""Held versions of an asset that have a branch: those that were held back last."""

Mark = int
"""Changes whenever the table may have to; equal marks of one process mean equal states."""


@dataclass(frozen=True)
class AssetState:
    wanted: Wanted
    files: Mapping[str, DataFile]
    """All files that are wanted, by path."""
    versions: Mapping[str, Materialization]
    """The versions they belong to, by id."""


async def read_mark(view: Snapshot, asset_id: str) -> Mark:
    """What there is, without the files: cheap enough to be asked whenever something happened."""
    partitions: list[Partition] = await view.rows(PARTITIONS, asset_id)
    compacted: list[CompactedVersion] = await view.rows(COMPACTED_VERSIONS, asset_id)
    return hash(
        (
            tuple(row.current_materialization_id for row in partitions),
            tuple((row.materialization_id, row.compaction_id) for row in compacted),
            tuple(row.materialization_id for row in await _held(view, asset_id)),
        )
    )


async def read_state(view: Snapshot, asset_id: str) -> AssetState:
    partitions: list[Partition] = await view.rows(PARTITIONS, asset_id)
    compacted: list[CompactedVersion] = await view.rows(COMPACTED_VERSIONS, asset_id)
    moved = {row.materialization_id: row.files for row in compacted}
    found = _Found(view, asset_id, moved, {}, {})
    wanted: dict[str, str] = {}
    unknown: set[str] = set()
    current: dict[str, tuple[str, ...]] = {}
    for row in partitions:
        if row.current_materialization_id is not None:
            paths = await found.files_of(row.current_materialization_id)
            current[row.partition_id] = paths
            wanted |= dict.fromkeys(paths, row.current_materialization_id)
            if row.current_materialization_id not in found.versions:
                unknown.add(row.current_materialization_id)
    held = tuple(
        [
            HeldBack(
                row.materialization_id,
                await found.files_of(row.materialization_id),
                current.get(row.partition_id, ()),
            )
            for row in await _held(view, asset_id)
        ]
    )
    return AssetState(Wanted(wanted, held, frozenset(unknown)), found.files, found.versions)


@dataclass(frozen=True)
class _Found:
    view: Snapshot
    asset_id: str
    moved: Mapping[str, tuple[DataFile, ...]]
    """Files of versions that were compacted."""
    files: dict[str, DataFile]
    versions: dict[str, Materialization]

    async def files_of(self, materialization_id: str) -> tuple[str, ...]:
        version: Materialization | None = await self.view.get(MATERIALIZATIONS, self.asset_id, materialization_id)
        if version is None:
            return ()  # retention took the fact
        self.versions[materialization_id] = version
        files = self.moved.get(materialization_id, version.files)
        self.files.update({file.path: file for file in files})
        return tuple(file.path for file in files)


async def _held(view: Snapshot, asset_id: str) -> list[VersionStatus]:
    rows: list[VersionStatus] = await view.rows(VERSION_STATUS, asset_id)
    held = [row for row in rows if row.status in HELD and row.version is not None]
    return sorted(held, key=lambda row: (-(row.held_at or 0), row.materialization_id))[:MAX_HELD]
