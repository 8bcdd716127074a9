"""`InOrder`: attempts of a batch are judged in the order of their windows, whatever the order in which they end.

A check may compare a window with the good versions of the windows before (`anomaly`). The control plane told of those
that there were when the batch was handed out; windows of the batch itself did not exist then. So a window waits for the
one before it in the same *series* (same asset, same keys in the other dimensions), and what earlier windows became
takes its place in the history: the result is that of one window after the other. Attempts without such checks wait for
nobody.

Pure but for what it remembers: results go in, and come out in order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Generic, TypeVar

import msgspec

from arco.assets import Anomaly, AssetDefinition, CheckDefinition, TimePartitions
from arco.core import PartitionKey
from arco.domains.execution import PUBLISHED
from arco.domains.execution.standing import judge_check
from arco.domains.orchestration import FinishTask, TaskLog
from arco.domains.quality.events import CheckExecuted
from arco.servo._envelope import Envelope, OutputPlace

__all__ = ["InOrder"]

Series = tuple[str, str]
"""Asset key, and the key of the partition without its time."""
Numbers = Mapping[str, float | None]
"""What a good version has, by check."""
Make = Callable[[TaskLog | None], FinishTask]
End = TypeVar("End")

_NOTHING: Final[Mapping[int, Numbers]] = {}


class InOrder(Generic[End]):
    def __init__(self, envelopes: Sequence[Envelope]) -> None:
        self._series: dict[Series, dict[int, Numbers]] = {}
        """What windows became that were judged and are good, by their numbers."""
        self._before = _before(envelopes)
        self._held: dict[str, tuple[Envelope, End]] = {}
        self._open = {envelope.attempt_id for envelope in envelopes}

    def ended(self, envelope: Envelope, end: End) -> None:
        self._held[envelope.attempt_id] = (envelope, end)

    def due(self, *, is_over: bool = False) -> tuple[Envelope, End] | None:
        """An attempt to judge now, with the history it has by now; None if there is none.

        Once the batch `is_over`, nobody waits for attempts of which nothing will be heard any more.
        """
        for attempt_id, (envelope, end) in self._held.items():
            before = self._before.get(attempt_id, ())
            if not any(one in self._held if is_over else one in self._open for one in before):
                del self._held[attempt_id]
                return self._with_earlier(envelope), end
        return None

    def judged(self, envelope: Envelope, make: Make | None) -> Make | None:
        """What makes the result of an attempt. If others wait for it, it is made now, but for its log."""
        self._open.discard(envelope.attempt_id)
        if make is None or all(place.window_number is None for place in envelope.outputs):
            return make
        result = make(None)
        for asset, place in _compared(envelope):
            numbers = _numbers(asset, place, result)
            if numbers is not None and place.window_number is not None:
                self._series.setdefault(_series(asset, place), {})[place.window_number] = numbers
        return lambda log: msgspec.structs.replace(result, log=log)

    def _with_earlier(self, envelope: Envelope) -> Envelope:
        found = {place.asset_key: self._history(asset, place) for asset, place in _compared(envelope)}
        outputs = tuple(
            msgspec.structs.replace(place, history=found.get(place.asset_key, place.history))
            for place in envelope.outputs
        )
        return msgspec.structs.replace(envelope, outputs=outputs)

    def _history(self, asset: AssetDefinition, place: OutputPlace) -> dict[str, tuple[float | None, ...]]:
        """By check: what was told, with what windows of this batch have become in its place."""
        most = max(rule.versions for _, rule in _anomalies(asset))
        earlier = self._series.get(_series(asset, place), _NOTHING)
        found = {}
        for check, _ in _anomalies(asset):
            numbers = dict(enumerate(place.history.get(check.name, ()), 1))
            for number, became in earlier.items():
                back = (place.window_number or 0) - number
                if 1 <= back <= most:
                    numbers[back] = became.get(check.name)
            found[check.name] = tuple(numbers.get(back) for back in range(1, max(numbers, default=0) + 1))
        return found


def _before(envelopes: Sequence[Envelope]) -> dict[str, list[str]]:
    """The attempts for which each waits: those of the nearest earlier windows of its series."""
    series: dict[Series, list[tuple[int, str]]] = {}
    for envelope in envelopes:
        for asset, place in _compared(envelope):
            if place.window_number is not None:
                series.setdefault(_series(asset, place), []).append((place.window_number, envelope.attempt_id))
    found: dict[str, list[str]] = {}
    for windows in series.values():
        windows.sort()
        for (_, earlier), (_, later) in pairwise(windows):
            found.setdefault(later, []).append(earlier)
    return found


def _compared(envelope: Envelope) -> Iterator[tuple[AssetDefinition, OutputPlace]]:
    """The outputs that are compared with windows before."""
    assets = {asset.key: asset for asset in envelope.definitions}
    for place in envelope.outputs:
        asset = assets.get(place.asset_key)
        if asset is not None and place.window_number is not None and any(_anomalies(asset)):
            yield asset, place


def _anomalies(asset: AssetDefinition) -> Iterator[tuple[CheckDefinition, Anomaly]]:
    return ((check, check.rule) for check in asset.checks if isinstance(check.rule, Anomaly))


def _series(asset: AssetDefinition, place: OutputPlace) -> Series:
    time = next(part.name for part in asset.partitions if isinstance(part.partitions, TimePartitions))
    others: dict[str, Any] = {
        name: value for name, value in PartitionKey.parse(place.partition_key).dimensions if name != time
    }
    return asset.key, PartitionKey(others).canonical


def _numbers(asset: AssetDefinition, place: OutputPlace, result: FinishTask) -> Numbers | None:
    """What a version has, as the control plane will know it; None if there is none, or none that is good."""
    output = next((one for one in result.outputs if one.asset_key == place.asset_key), None)
    checks = {check.check_name: check for check in result.checks if check.asset_id == place.asset_id}
    if output is None or output.status != PUBLISHED:
        return None
    if any(judge_check(check) != PUBLISHED for check in checks.values()):
        return None
    return {
        check.name: output.row_count if rule.is_row_count else _told(checks.get(check.name))
        for check, rule in _anomalies(asset)
    }


def _told(check: CheckExecuted | None) -> float | None:
    return None if check is None or check.actual_value is None else float(check.actual_value)
