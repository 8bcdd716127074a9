"""Small-file compaction: the files of a version become fewer and larger, and nobody who reads it sees a difference.

    current versions with many small files -> merged files, in a folder of this compaction -> one event for each version

A version keeps its id, its rows and their order. The event moves it from one list of files to the other at once, and
only if the list that was read is still its list. Files that are replaced stay for those who were told of them, until
`orphans` finds that their time is over; so does what is written without an event, because somebody was faster or died.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from arco.core import Conflict, Invalid, NotFound, Refused, new_ulid
from arco.domains.execution import (
    COMPACTED_VERSIONS,
    MATERIALIZATIONS,
    PARTITIONS,
    CompactedVersion,
    CompactFiles,
    DataFile,
    Materialization,
    Partition,
)
from arco.runtime import Workspace
from arco.servo._envelope import compaction_location, version_of_path
from arco.servo._merging import Merge, Merger, NotMerged, plan_merges
from arco.servo._runs import Asked
from arco.servo._side_by_side import side_by_side
from arco.servo._withheld import personal_columns, without_withheld
from arco.state import Snapshot

__all__ = ["Compacted", "Compaction", "Unmerged", "compact_files"]

PARTITIONS_AT_ONCE: Final = 200
"""Partitions of an asset that one call looks at."""
DECIDED_AT_ONCE: Final = 32
"""Events that are under way together: the log takes them in one append."""
MAX_STATS: Final = 1_000
"""Statistics of columns that one event holds: it must fit into a segment."""


@dataclass(frozen=True)
class Compacted:
    """A version whose files were merged, or would be."""

    version: Materialization
    before: tuple[DataFile, ...]
    files_after: int
    merged_bytes: int
    """Of the files that are merged."""
    bytes_after: int | None = None
    """Of all its files; None as long as they are not written."""


@dataclass(frozen=True)
class Unmerged:
    version: Materialization
    reason: str


@dataclass
class Compaction:
    last_partition: str | None = None
    """Where to go on in the asset; None if it is done."""
    looked_at: int = 0
    """Versions."""
    compacted: list[Compacted] = field(default_factory=list)
    unmerged: list[Unmerged] = field(default_factory=list)
    """Versions that have small files and keep them, because they would not be the same."""
    changed: int = 0
    """Versions that somebody else compacted or let go meanwhile."""


@dataclass(frozen=True)
class _Due:
    """A version to compact."""

    version: Materialization
    base: str
    files: tuple[DataFile, ...]
    runs: tuple[range, ...]

    @property
    def merged_bytes(self) -> int:
        return sum(self.files[place].size_bytes for run in self.runs for place in run)

    @property
    def files_after(self) -> int:
        return len(self.files) - sum(len(run) - 1 for run in self.runs)

    def merges(self, compaction_id: str) -> list[Merge]:
        version = self.version
        location = compaction_location(version.asset_id, version.materialization_id, compaction_id)
        return [
            Merge(tuple((self.files[place].path, self.files[place].size_bytes) for place in run), location, number)
            for number, run in enumerate(self.runs)
        ]

    def with_merged(self, merged: Iterable[DataFile], personal: frozenset[str] = frozenset()) -> tuple[DataFile, ...]:
        """All files, with each run replaced by what it became. Of `personal` columns bounds are not told."""
        files: list[DataFile] = []
        place = 0
        for run, new in zip(self.runs, merged, strict=True):
            old = [self.files[place] for place in run]
            stats = without_withheld(new.stats, old, personal)
            files += [*self.files[place : run.start], msgspec.structs.replace(new, stats=stats)]
            place = run.stop
        return tuple(_fitting([*files, *self.files[place:]]))


async def compact_files(
    workspace: Workspace,
    asset_id: str,
    after: str | None,
    asked: Asked,
    merger: Merger,
    *,
    keys: Collection[str] | None = None,
    target: int,
    min_files: int,
    dry_run: bool,
) -> Compaction:
    """Merge the small files of some current versions of an asset.

    `keys` are the canonical keys of the partitions to look at; None for all. A version is due if at least `min_files`
    of its files would be merged. `target` is the size of the files that come out, at the most.
    """
    snapshot = await workspace.logs["activity"].frozen()
    rows: list[Partition] = await snapshot.page(PARTITIONS, asset_id, after, PARTITIONS_AT_ONCE)
    done = Compaction(last_partition=rows[-1].partition_id if len(rows) == PARTITIONS_AT_ONCE else None)
    due: list[_Due] = []
    for row in rows:
        if row.current_materialization_id is None or (keys is not None and row.partition_key not in keys):
            continue
        done.looked_at += 1
        found = await _look(snapshot, asset_id, row.current_materialization_id, target, min_files)
        if found is not None:
            due.append(found)
        if not dry_run and sum(one.merged_bytes for one in due) >= merger.room:
            done.last_partition = row.partition_id
            break
    if dry_run:
        done.compacted = [Compacted(one.version, one.files, one.files_after, one.merged_bytes) for one in due]
    else:
        await _compact(workspace, due, asked, merger, done)
    return done


async def _look(snapshot: Snapshot, asset_id: str, materialization_id: str, target: int, min_files: int) -> _Due | None:
    version: Materialization | None = await snapshot.get(MATERIALIZATIONS, asset_id, materialization_id)
    if version is None:
        return None
    row: CompactedVersion | None = await snapshot.get(COMPACTED_VERSIONS, asset_id, materialization_id)
    files = version.files if row is None else row.files
    if any(version_of_path(asset_id, file.path) != materialization_id for file in files):
        return None  # files of somebody else are not ours to rewrite
    runs = tuple(plan_merges(files, target))
    if sum(map(len, runs)) < min_files:
        return None
    return _Due(version, "" if row is None else row.compaction_id, files, runs)


async def _compact(workspace: Workspace, due: Sequence[_Due], asked: Asked, merger: Merger, done: Compaction) -> None:
    compaction_id = new_ulid(workspace.runtime, workspace.runtime)
    planned = [one.merges(compaction_id) for one in due]
    merged = iter(await merger.merge([merge for merges in planned for merge in merges]) if due else ())
    personal = await _personal(workspace, due)
    written: list[tuple[_Due, tuple[DataFile, ...]]] = []
    for one, merges in zip(due, planned, strict=True):
        results = [next(merged) for _ in merges]
        refused = [result.reason for result in results if isinstance(result, NotMerged)]
        if refused:
            done.unmerged.append(Unmerged(one.version, refused[0]))
        else:
            files = one.with_merged([result for result in results if isinstance(result, DataFile)], personal)
            written.append((one, files))
    commands = [
        CompactFiles(one.version.asset_id, one.version.materialization_id, compaction_id, one.base, files)
        for one, files in written
    ]
    works = [partial(_decide, workspace, command, asked) for command in commands]
    answers = await side_by_side(workspace.runtime, works, DECIDED_AT_ONCE, "record compacted files")
    for (one, files), error in zip(written, answers, strict=True):
        if isinstance(error, Conflict | NotFound | Refused):
            done.changed += 1
        elif isinstance(error, Invalid):
            done.unmerged.append(Unmerged(one.version, error.message))
        elif error is not None:
            raise error
        else:
            size = sum(file.size_bytes for file in files)
            done.compacted.append(Compacted(one.version, one.files, len(files), one.merged_bytes, size))


async def _personal(workspace: Workspace, due: Sequence[_Due]) -> frozenset[str]:
    """The personal columns of the asset whose versions these are."""
    if not due:
        return frozenset()
    version = due[0].version
    return await personal_columns(await workspace.logs["catalog"].frozen(), version.asset_id, version.asset_key)


async def _decide(workspace: Workspace, command: CompactFiles, asked: Asked) -> None:
    await workspace.decide(
        "activity", command, actor=asked.actor, correlation=asked.correlation, traceparent=asked.traceparent
    )


def _fitting(files: Iterable[DataFile]) -> Iterable[DataFile]:
    """The files with as many statistics as an event holds."""
    room = MAX_STATS
    for file in files:
        yield msgspec.structs.replace(file, stats=file.stats[:room])
        room -= min(room, len(file.stats))
