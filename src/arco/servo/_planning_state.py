"""`PlanningState`: what a plan depends on besides code and request, read once and frozen.

Of every asset that a plan may read or write it holds the *good* version of each partition: the newest one that is
neither quarantined nor blocked by its checks. Of a partition whose versions are all bad it says why.
"""

from collections.abc import Collection, Mapping
from statistics import median, median_low
from typing import Final

import msgspec

from arco.assets import GatingAction
from arco.domains.execution import MATERIALIZATIONS, PARTITIONS, Materialization, Partition
from arco.domains.quality import GATING_DECISIONS, QUALITY_TABLE, GatingDecision, Quality, QualityStatus
from arco.state import View

__all__ = ["PlanningState", "Size", "Version", "read_planning_state"]


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
    usual_sizes: Mapping[str, Size] = {}
    """What versions of an asset usually hold, by asset id."""


_BLOCKING: Final = frozenset(
    {GatingAction.BLOCK_DOWNSTREAM, GatingAction.QUARANTINE, GatingAction.FAIL_TASK, GatingAction.FAIL_RUN}
)
QUARANTINED: Final = "its newest version is quarantined"
BLOCKED: Final = "its newest version is blocked by its checks"
NEVER_MADE: Final = "no attempt to make it has succeeded"
SAMPLE: Final = 16


async def read_planning_state(
    view: View,
    partitions: Mapping[str, Collection[str] | None],
    made: Collection[str] = (),
    *,
    activity_position: int = 0,
    catalog_position: int = 0,
    dynamic: Mapping[str, tuple[str, ...]] | None = None,
) -> PlanningState:
    """What is known of partitions in a view of `activity`: their ids by asset id, None for all that the asset has.

    Of assets that may be `made` it also reads how their versions came about, and what is usual. Of the others, which
    are only read, the id of the version is enough.
    """
    versions: dict[str, Mapping[str, Version]] = {}
    bad: dict[str, Mapping[str, str]] = {}
    seconds: dict[str, float] = {}
    sizes: dict[str, Size] = {}
    for asset_id in sorted(partitions):
        reader = _Reader(view, asset_id, is_made=asset_id in made)
        versions[asset_id], bad[asset_id] = await reader.read(partitions[asset_id])
        if asset_id in made:
            sample = await reader.sample()
            if took := [version.seconds for version in sample if version.seconds is not None]:
                seconds[asset_id] = round(median(took), 3)
            if held := [version.size for version in sample if version.size is not None]:
                sizes[asset_id] = Size(median_low([one.rows for one in held]), median_low([one.bytes for one in held]))
    return PlanningState(
        str(catalog_position), str(activity_position), versions, bad, seconds, dict(dynamic or {}), sizes
    )


class _Reader:
    """Reads one asset."""

    def __init__(self, view: View, asset_id: str, *, is_made: bool) -> None:
        self._view = view
        self._asset_id = asset_id
        self._is_made = is_made
        self._actions: dict[str, set[str]] | None = None

    async def read(self, wanted: Collection[str] | None) -> tuple[dict[str, Version], dict[str, str]]:
        """The good version of each partition, and why those have none that were tried and have none."""
        good: dict[str, Version] = {}
        older: dict[str, str] = {}
        for row in await self._partitions(wanted):
            current = row.current_materialization_id
            if current is None:
                older[row.partition_id] = QUARANTINED if row.version_count else NEVER_MADE
            elif await self._is_good(current):
                good[row.partition_id] = await self._version(current)
            else:
                older[row.partition_id] = BLOCKED
        for found in await self._newest_good(older):
            good[found.partition_id] = _version_of(found) if self._is_made else Version(found.materialization_id)
            del older[found.partition_id]
        return good, older

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

    async def _is_good(self, materialization_id: str) -> bool:
        """A failed check is no reason by itself: what counts is what its policy made of it, if that is known."""
        row: Quality | None = await self._view.get(QUALITY_TABLE, self._asset_id, materialization_id)
        if row is None or row.status != QualityStatus.FAILED:
            return row is None or row.status != QualityStatus.QUARANTINED
        if self._actions is None:
            self._actions = {}
            decisions: list[GatingDecision] = await self._view.rows(GATING_DECISIONS, self._asset_id)
            for decision in decisions:
                self._actions.setdefault(decision.materialization_id, set()).add(decision.action)
        actions = self._actions.get(materialization_id)
        return actions is not None and actions.isdisjoint(_BLOCKING)

    async def _version(self, materialization_id: str) -> Version:
        if not self._is_made:
            return Version(materialization_id)
        row: Materialization | None = await self._view.get(MATERIALIZATIONS, self._asset_id, materialization_id)
        return Version(materialization_id) if row is None else _version_of(row)

    async def _newest_good(self, partitions: Mapping[str, str]) -> list[Materialization]:
        """The newest good version of each of these partitions that has one, found among all versions of the asset."""
        if not any(why != NEVER_MADE for why in partitions.values()):
            return []
        rows: list[Materialization] = await self._view.rows(MATERIALIZATIONS, self._asset_id)
        newest: dict[str, Materialization] = {}
        for row in rows:
            if row.partition_id not in partitions or row.status != "published":
                continue
            known = newest.get(row.partition_id)
            if (known is None or row.version > known.version) and await self._is_good(row.materialization_id):
                newest[row.partition_id] = row
        return list(newest.values())


def _version_of(row: Materialization) -> Version:
    seconds = round((row.completed_at - row.started_at) / 1_000_000, 3)
    size = Size(row.row_count, row.byte_size)
    return Version(row.materialization_id, row.code_version, row.inputs_fingerprint, max(seconds, 0.0), size)
