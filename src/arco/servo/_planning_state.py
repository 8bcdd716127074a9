"""`PlanningState`: what a plan depends on besides code and request, read once and frozen.

Of every asset that a plan may read or write it holds the *good* version of each partition: the newest one that is
neither quarantined nor blocked by its checks, which is the current one. Of a partition without one it says why. For a
rerun it also holds which other version the run that is repeated read.
"""

from collections.abc import Collection, Mapping
from statistics import median, median_low
from typing import Final

import msgspec

from arco.domains import execution
from arco.domains.execution import (
    MATERIALIZATIONS,
    PARTITIONS,
    PUBLISHED,
    VERSION_STATUS,
    Materialization,
    Partition,
    VersionStatus,
)
from arco.servo._repeated import Read, is_good, versions_read
from arco.state import View

__all__ = ["HELD_BACK", "PlanningState", "Size", "Version", "read_planning_state"]


class Size(msgspec.Struct, frozen=True, gc=False):
    """How much a version holds."""

    rows: int
    bytes: int


class Version(msgspec.Struct, frozen=True, gc=False):
    """A good version of a partition."""

    materialization_id: str
    code_version: str = ""
    """Of the asset, when it was made; empty if only the id was asked for, as of assets that are only read."""
    inputs_fingerprint: str = ""
    seconds: float | None = None
    """How long it took."""
    size: Size | None = None
    plan: str = ""
    """How Spark made it in a batch."""


class PlanningState(msgspec.Struct, frozen=True):
    catalog_position: str = "0"
    activity_position: str = "0"
    versions: Mapping[str, Mapping[str, Version]] = {}
    """By asset id and partition id."""
    bad: Mapping[str, Mapping[str, str]] = {}
    """Partitions that have versions, but no good one, and why; by asset id and partition id."""
    usual_seconds: Mapping[str, float] = {}
    """What versions of an asset usually take, by asset id."""
    dynamic: Mapping[str, tuple[str, ...]] = {}
    """Keys of dynamic partitions by name of the set, in the order in which they were added."""
    released: frozenset[str] = frozenset()
    """Ids of versions of these assets for which somebody vouched after they were held back."""
    usual_sizes: Mapping[str, Size] = {}
    """What versions of an asset usually hold, by asset id."""
    plans: Mapping[str, tuple[str, str]] = {}
    """How Spark made a batch of the asset last, and which code version that was, by asset id."""
    again: Mapping[str, Mapping[str, str]] = {}
    """Versions that a repeated run read, where they are not the newest good ones, by asset id and partition id; empty
    where they are not good any more."""


QUARANTINED: Final = "its newest version is quarantined"
BLOCKED: Final = "its newest version is blocked by its checks"
EXPIRED: Final = "its versions have expired"
NEVER_MADE: Final = "no attempt to make it has succeeded"
HELD_BACK: Final = frozenset({QUARANTINED, BLOCKED})
"""What a release changes."""
SAMPLE: Final = 16

_WHY: Final = {
    execution.QUARANTINED: QUARANTINED,
    execution.BLOCKED: BLOCKED,
    execution.EXPIRED: EXPIRED,
    execution.DELETED: EXPIRED,
}


async def read_planning_state(
    view: View,
    partitions: Mapping[str, Collection[str] | None],
    made: Collection[str] = (),
    *,
    activity_position: int = 0,
    catalog_position: int = 0,
    dynamic: Mapping[str, tuple[str, ...]] | None = None,
    rerun_of: str = "",
) -> PlanningState:
    """What is known of partitions in a view of `activity`: their ids by asset id, None for all that the asset has.

    Of assets that may be `made` it also reads how their versions came about, and what is usual. Of the others, which
    are only read, the id of the version is enough. `rerun_of` is a run whose tasks are to read what they read then.
    """
    versions: dict[str, Mapping[str, Version]] = {}
    bad: dict[str, Mapping[str, str]] = {}
    seconds: dict[str, float] = {}
    sizes: dict[str, Size] = {}
    plans: dict[str, tuple[str, str]] = {}
    released: set[str] = set()
    for asset_id in sorted(partitions):
        reader = _Reader(view, asset_id, is_made=asset_id in made)
        versions[asset_id], bad[asset_id] = await reader.read(partitions[asset_id])
        released |= await reader.released()
        if asset_id in made:
            sample = await reader.sample()
            if took := [version.seconds for version in sample if version.seconds is not None]:
                seconds[asset_id] = round(median(took), 3)
            if held := [version.size for version in sample if version.size is not None]:
                sizes[asset_id] = Size(median_low([one.rows for one in held]), median_low([one.bytes for one in held]))
            if told := [version for version in (*sample, *versions[asset_id].values()) if version.plan]:
                newest = max(told, key=lambda version: version.materialization_id)
                plans[asset_id] = (newest.code_version, newest.plan)
    return PlanningState(
        catalog_position=str(catalog_position),
        activity_position=str(activity_position),
        versions=versions,
        bad=bad,
        released=frozenset(released),
        usual_seconds=seconds,
        usual_sizes=sizes,
        plans=plans,
        dynamic=dict(dynamic or {}),
        again=await _again(view, await versions_read(view, rerun_of), versions) if rerun_of else {},
    )


async def _again(view: View, read: Read, newest: Mapping[str, Mapping[str, Version]]) -> Read:
    """Of what a run read that of which there are other versions by now: the version, or nothing if it is not good."""
    found: Read = {}
    for asset_id, versions in newest.items():
        for partition_id, name in read.get(asset_id, {}).items():
            now = versions.get(partition_id)
            if now is not None and now.materialization_id != name:
                found.setdefault(asset_id, {})[partition_id] = name if await is_good(view, asset_id, name) else ""
    return found


class _Reader:
    """Reads one asset."""

    def __init__(self, view: View, asset_id: str, *, is_made: bool) -> None:
        self._view = view
        self._asset_id = asset_id
        self._is_made = is_made

    async def read(self, wanted: Collection[str] | None) -> tuple[dict[str, Version], dict[str, str]]:
        """The good version of each partition, and why those have none that were tried and have none."""
        good: dict[str, Version] = {}
        bad: dict[str, str] = {}
        for row in await self._partitions(wanted):
            current = row.current_materialization_id
            if current is None:
                bad[row.partition_id] = _WHY.get(row.newest_status or "", NEVER_MADE)
            else:
                good[row.partition_id] = await self._version(current)
        return good, bad

    async def released(self) -> set[str]:
        """Versions for which somebody vouched. Only versions that were ever held back have rows here."""
        rows: list[VersionStatus] = await self._view.rows(VERSION_STATUS, self._asset_id)
        return {row.materialization_id for row in rows if row.set_to == PUBLISHED}

    async def sample(self) -> list[Version]:
        """Some versions of the asset. Partition ids are hashes, so the first ones are any ones."""
        sample: list[Partition] = await self._view.page(PARTITIONS, self._asset_id, None, SAMPLE)
        names = [row.current_materialization_id for row in sample]
        return [await self._version(name) for name in names if name is not None]

    async def _partitions(self, wanted: Collection[str] | None) -> list[Partition]:
        if wanted is None:
            every: list[Partition] = await self._view.rows(PARTITIONS, self._asset_id)
            return every
        rows = [await self._view.get(PARTITIONS, self._asset_id, partition_id) for partition_id in sorted(wanted)]
        return [row for row in rows if row is not None]

    async def _version(self, materialization_id: str) -> Version:
        if not self._is_made:
            return Version(materialization_id)
        row: Materialization | None = await self._view.get(MATERIALIZATIONS, self._asset_id, materialization_id)
        return Version(materialization_id) if row is None else _version_of(row)


def _version_of(row: Materialization) -> Version:
    seconds = round((row.completed_at - row.started_at) / 1_000_000, 3)
    size = Size(row.row_count, row.byte_size)
    plan = row.plan or ""
    return Version(row.materialization_id, row.code_version, row.inputs_fingerprint, max(seconds, 0.0), size, plan)
