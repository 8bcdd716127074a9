"""Statistics refresh: what the footers of files say, where it is not what was told with their version.

Only current versions are read, and of each file only its end. A file that is missing or cannot be read is told and
changes nothing: what was lost is not what maintenance decides about.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from arco.catalog import column_facts, read_footer
from arco.core import Corrupt, Refused
from arco.domains.execution import (
    FILE_STATISTICS,
    MATERIALIZATIONS,
    PARTITIONS,
    ColumnStats,
    DataFile,
    FileStatistics,
    Materialization,
    Partition,
    RefreshStatistics,
    files_of,
)
from arco.runtime import Workspace
from arco.servo._runs import Asked
from arco.servo._withheld import personal_columns, without_withheld
from arco.state import Snapshot
from arco.storage import ObjectMissing, Role, Store

__all__ = ["Refreshed", "Statistics", "refresh_statistics"]

PARTITIONS_AT_ONCE: Final = 100
"""Partitions of an asset that one call reads."""
STATS_AT_ONCE: Final = 2_000
"""Statistics of columns that one event holds: it must fit into a segment."""


@dataclass(frozen=True)
class Refreshed:
    """A file of which something else is known than before."""

    version: Materialization
    before: DataFile
    after: DataFile


@dataclass
class Statistics:
    last_partition: str | None = None
    """Where to go on in the asset; None if it is done."""
    read: int = 0
    refreshed: list[Refreshed] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


async def refresh_statistics(
    workspace: Workspace, asset_id: str, after: str | None, asked: Asked, *, dry_run: bool
) -> Statistics:
    """Read the footers of some current versions of an asset again, and note what is different."""
    snapshot = await workspace.logs["activity"].frozen()
    rows: list[Partition] = await snapshot.page(PARTITIONS, asset_id, after, PARTITIONS_AT_ONCE)
    done = Statistics(last_partition=rows[-1].partition_id if len(rows) == PARTITIONS_AT_ONCE else None)
    store = workspace.handle(Role.READER)
    catalog = await workspace.logs["catalog"].frozen()
    personal = await personal_columns(catalog, asset_id, rows[0].asset_key) if rows else frozenset()
    for row in rows:
        if row.current_materialization_id is None:
            continue
        version: Materialization | None = await snapshot.get(MATERIALIZATIONS, asset_id, row.current_materialization_id)
        if version is None:
            continue
        files = [await _known(snapshot, version, file) for file in await files_of(snapshot, version)]
        looked = [await _look(store, version, file, files, personal, done) for file in files]
        found = [one for one in looked if one is not None]
        done.refreshed += found
        if not dry_run:
            for group in _groups([one.after for one in found]):
                command = RefreshStatistics(asset_id, version.materialization_id, group)
                await workspace.decide(
                    "activity", command, actor=asked.actor, correlation=asked.correlation, traceparent=asked.traceparent
                )
    return done


async def _known(snapshot: Snapshot, version: Materialization, file: DataFile) -> DataFile:
    """A file as it was told with its version, or refreshed since."""
    row: FileStatistics | None = await snapshot.get(
        FILE_STATISTICS, version.asset_id, (version.materialization_id, file.path)
    )
    return file if row is None else DataFile(file.path, row.size_bytes, row.row_count, row.stats)


async def _look(
    store: Store,
    version: Materialization,
    file: DataFile,
    files: Sequence[DataFile],
    personal: frozenset[str],
    done: Statistics,
) -> Refreshed | None:
    """What a file says of itself, if it is not what is known. `files` are all of the version."""
    if not file.path.endswith(".parquet") or not file.path.startswith("data/"):
        return None
    try:
        info = await store.head(file.path)
        footer = await read_footer(store, info)
    except ObjectMissing:
        done.missing.append(file.path)
        return None
    except (Corrupt, Refused):
        done.unreadable.append(file.path)
        return None
    done.read += 1
    stats = without_withheld((ColumnStats(*facts) for facts in column_facts(footer)), files, personal)
    found = DataFile(file.path, info.size, footer.num_rows, stats)
    return None if _same(found, file) else Refreshed(version, file, found)


def _same(found: DataFile, known: DataFile) -> bool:
    """Whether nothing new is in a footer. Counts of distinct values stand in none, so they are not compared."""
    if (found.size_bytes, found.row_count) != (known.size_bytes, known.row_count):
        return False
    told = {(stat.column, stat.null_count, stat.min, stat.max) for stat in known.stats}
    return {(stat.column, stat.null_count, stat.min, stat.max) for stat in found.stats} == told


def _groups(files: Sequence[DataFile]) -> Iterator[tuple[DataFile, ...]]:
    """Files in groups that fit into an event each."""
    group: list[DataFile] = []
    size = 0
    for file in files:
        if group and size + len(file.stats) > STATS_AT_ONCE:
            yield tuple(group)
            group, size = [], 0
        group.append(file)
        size += len(file.stats) + 1
    if group:
        yield tuple(group)
