"""What the checks of an output have to know besides its data: what earlier versions had, which columns are personal.

Read when a task is handed out; earlier versions only for checks that ask for them.

- *Earlier versions* are good ones: nothing that was told of them speaks against them, or somebody released them. That
  retention let go of one does not matter, because what it had is still known. Of an asset with time windows they are
  the current versions of the windows before, with the same keys in its other dimensions; of any other asset they are
  those of the same partition.
- *Personal columns* are those that the catalog's table of the asset marks as PII. They are always told: samples leave
  them out, and so do the bounds of files.
"""

from collections.abc import AsyncIterator, Sequence

import msgspec

from arco.assets import (
    Anomaly,
    AssetDefinition,
    Axis,
    CheckDefinition,
    PartitionSpace,
    TimePartitions,
)
from arco.core import DAY, AssetId, PartitionKey, Ulid, least_ulid, partition_id
from arco.domains.execution import (
    MATERIALIZATIONS,
    PARTITIONS,
    PUBLISHED,
    VERSION_STATUS,
    Materialization,
    Partition,
    VersionStatus,
)
from arco.domains.quality import CHECK_RESULTS, CheckResult, check_id, result_id
from arco.servo._envelope import Envelope, OutputPlace
from arco.servo._withheld import marked_columns
from arco.state import View

__all__ = ["with_check_facts"]

_PAGE = 1000


async def with_check_facts(envelope: Envelope, activity: View, catalog: View) -> Envelope:
    """The envelope, with what its checks have to know."""
    assets = {asset.key: asset for asset in envelope.definitions}
    outputs = []
    for place in envelope.outputs:
        asset = assets.get(place.asset_key)
        outputs.append(place if asset is None else await _with_facts(place, asset, envelope, activity, catalog))
    return msgspec.structs.replace(envelope, outputs=tuple(outputs))


async def _with_facts(
    place: OutputPlace, asset: AssetDefinition, envelope: Envelope, activity: View, catalog: View
) -> OutputPlace:
    compared = [check for check in asset.checks if isinstance(check.rule, Anomaly)]
    if compared:
        history = _History(activity, asset, place, envelope.issued_at)
        place = msgspec.structs.replace(
            place, history=await history.read(compared), window_number=history.window_number
        )
    return msgspec.structs.replace(place, pii=await marked_columns(catalog, place.asset_id, place.asset_key))


class _History:
    def __init__(self, view: View, asset: AssetDefinition, place: OutputPlace, now: int) -> None:
        self._view = view
        self._asset = asset
        self._place = place
        self._now = now
        self._axis = _time_axis(asset, now)

    async def read(self, checks: list[CheckDefinition]) -> dict[str, tuple[float | None, ...]]:
        """Numbers of earlier versions by check, newest first; of windows one for each, None for those without."""
        most = max(check.rule.versions for check in checks if isinstance(check.rule, Anomaly))
        found = self._windows(most) if self._axis is not None else self._same(most)
        versions = [version async for version in found]
        return {check.name: tuple(await self._numbers(check, versions)) for check in checks}

    @property
    def window_number(self) -> int | None:
        """Which window it is, counted from the first of the asset; None without windows."""
        if self._axis is None:
            return None
        value = PartitionKey.parse(self._place.partition_key).to_dict()[self._axis.name]
        return self._axis.index.get(PartitionKey({self._axis.name: value}).canonical, len(self._axis))

    async def _windows(self, most: int) -> AsyncIterator[Materialization | None]:
        """The current versions of the windows before. What is not good is never current."""
        assert self._axis is not None
        own = self.window_number or 0
        values = PartitionKey.parse(self._place.partition_key).to_dict()
        for value in reversed(self._axis.values[max(own - most, 0) : own]):
            before = PartitionKey({**values, self._axis.name: value})
            part = partition_id(AssetId(Ulid(self._place.asset_id)), before)
            row: Partition | None = await self._view.get(PARTITIONS, self._place.asset_id, part)
            current = None if row is None else row.current_materialization_id
            yield None if current is None else await self._view.get(MATERIALIZATIONS, self._place.asset_id, current)

    async def _same(self, most: int) -> AsyncIterator[Materialization]:
        """Good versions of the same partition. Ids begin with their time, so the newest are looked at first."""
        count, reached = 0, ""
        span = DAY
        while count < most:
            since = least_ulid(self._now - span) if span < self._now else ""
            rows = [row async for row in self._between(since, reached)]
            for row in reversed(rows):
                if count < most and await self._is_earlier(row):
                    count += 1
                    yield row
            if not since:
                return
            reached, span = since, span * 8

    async def _is_earlier(self, row: Materialization) -> bool:
        return row.partition_id == self._place.partition_id and await self._is_good(row.materialization_id)

    async def _is_good(self, materialization_id: str) -> bool:
        """Whether it stands as published, or did so when retention let go of it. Most versions have no row."""
        row: VersionStatus | None = await self._view.get(VERSION_STATUS, self._place.asset_id, materialization_id)
        return row is None or (row.set_to or row.judged) == PUBLISHED

    async def _between(self, since: str, until: str) -> AsyncIterator[Materialization]:
        after: str | None = since or None
        while True:
            page: list[Materialization] = await self._view.page(MATERIALIZATIONS, self._place.asset_id, after, _PAGE)
            for row in page:
                if until and row.materialization_id > until:
                    return
                yield row
            if len(page) < _PAGE:
                return
            after = page[-1].materialization_id

    async def _numbers(self, check: CheckDefinition, versions: Sequence[Materialization | None]) -> list[float | None]:
        numbers = [None if version is None else await self._number(check, version) for version in versions]
        while numbers and numbers[-1] is None:
            numbers.pop()
        return numbers

    async def _number(self, check: CheckDefinition, version: Materialization) -> float | None:
        assert isinstance(check.rule, Anomaly)
        if check.rule.is_row_count:
            return version.row_count
        result = result_id(check_id(self._place.asset_id, check.name), version.materialization_id)
        row: CheckResult | None = await self._view.get(CHECK_RESULTS, self._place.asset_id, result)
        try:
            return None if row is None or row.actual_value is None else float(row.actual_value)
        except ValueError:
            return None  # another rule had this name then


def _time_axis(asset: AssetDefinition, now: int) -> Axis | None:
    """The windows of an asset that have ended; None if it has none."""
    time = [part for part in asset.partitions if isinstance(part.partitions, TimePartitions)]
    return PartitionSpace((time[0],), now, {}).axes[0] if time else None
