"""`measure_usage`: what a live workspace has been doing and what lies there, from what it has written anyway.

- Segments and revisions a day are exact to the hour: the newest manifest of each log tells number, time and position of
  every retained revision of the last 30 days. That takes two or three requests a log.
- Events a day are those segments × the events of a sample of them; with few segments the sample is all of them.
- Objects and bytes by folder are listed: one request for a thousand objects.
- Requests a day are calculated from these (`requests_a_day`); what was read is known only to the processes that read,
  which count it (`RequestCounts`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from arco.core import DAY, ArcoError, Runtime
from arco.cost._model import Stored
from arco.log import Place, decode_segment, number_of
from arco.runtime import Incarnation
from arco.state import Layout, Manifest, Revisions
from arco.storage import Operation, Store
from arco.storage import Sequence as Numbers

__all__ = ["DayUsage", "Usage", "measure_usage", "requests_a_day"]

SAMPLE = 16
"""Segments of a log that are read to see how many events they hold."""

FAN_IN = 8

KEPT = 30 * DAY
"""For so long revisions are retained; pinned ones longer, but nothing of what was published between them."""


@dataclass(frozen=True)
class DayUsage:
    """Twenty-four hours; `days_ago` 0 are the last ones."""

    days_ago: int
    segments: int
    revisions: int
    events: float


@dataclass(frozen=True)
class Usage:
    days: tuple[DayUsage, ...]
    sampled: int
    """Segments that were read."""
    stored: Mapping[str, Stored]
    """By folder; empty if nothing was listed."""
    tables: float
    """That a publish changes, on average; the newest manifests tell."""
    layers: int
    revisions: int
    """That are retained."""

    def mean(self, name: str) -> float:
        return sum(float(getattr(day, name)) for day in self.days) / len(self.days) if self.days else 0.0


@dataclass(frozen=True)
class _LogUsage:
    days: tuple[tuple[int, int], ...]
    """Segments and revisions of each, the last 24 hours first."""
    events: float
    """A segment."""
    sampled: int
    tables: float
    layers: int
    retained: int


async def measure_usage(
    store: Store,
    places: Sequence[Place],
    life: Incarnation,
    runtime: Runtime,
    *,
    days: int = 7,
    listing: bool = True,
) -> Usage:
    logs = [await _log(store, place, life, runtime, days) for place in places]
    found = []
    for index in range(days):
        counted = [(log.days[index], log.events) for log in logs if index < len(log.days)]
        if counted:
            segments = sum(day[0] for day, _ in counted)
            events = sum(day[0] * each for day, each in counted)
            found.append(DayUsage(index, segments, sum(day[1] for day, _ in counted), events))
    busy = [log for log in logs if log.tables]
    return Usage(
        tuple(found),
        sum(log.sampled for log in logs),
        await _stored(store, places[0].incarnation) if listing else {},
        sum(log.tables for log in busy) / len(busy) if busy else 0.0,
        sum(log.layers for log in logs),
        sum(log.retained for log in logs),
    )


async def _log(store: Store, place: Place, life: Incarnation, runtime: Runtime, days: int) -> _LogUsage:
    revisions = Revisions(store, place, runtime)
    head = (await revisions.head()).manifest
    if head.number == 0:
        return _LogUsage((), 0.0, 0, 0.0, 0, 0)
    entries = await revisions.history(head)
    told = [(one.published_at, one.revision, one.watermark) for one in entries]
    told.append((head.published_at, head.number, head.watermark))
    began = number_of(int(life.through.get(place.log, "0")))  # what a restore or an erasure brought along
    since = head.published_at - KEPT
    moments = [(time, revision, max(number_of(int(end)), began)) for time, revision, end in told if time > since]
    now, before = max(runtime.now(), head.published_at), (0, began)
    if life.created_at <= since and moments[0][1] > 1:  # it stands for those of its hour; older ones are thinned
        before = (moments[0][1] - 1, moments[0][2] - 1)
    # No day reaches back beyond its birth.
    known = [index for index in range(days) if index == 0 or now - index * DAY >= life.created_at]
    ends = [_at(moments, now - index * DAY, before) for index in range(len(known) + 1)]
    counted = tuple((late[1] - early[1], late[0] - early[0]) for late, early in pairwise(ends))
    newest = number_of(int(head.watermark))
    events, sampled = await _sample(store, place, runtime, max(ends[-1][1], 0), newest)
    return _LogUsage(counted, events, sampled, _tables(head), len(head.layers), len(entries) + 1)


def _at(moments: list[tuple[int, int, int]], time: int, before: tuple[int, int]) -> tuple[int, int]:
    """Revision and segment at a time: those of the newest revision before it."""
    earlier = [(revision, segment) for published, revision, segment in moments if published <= time]
    return earlier[-1] if earlier else before


async def _sample(store: Store, place: Place, runtime: Runtime, low: int, high: int) -> tuple[float, int]:
    """Mean events of some segments after `low` up to `high`; those that are packed or gone are left out."""
    sequence = Numbers(store, Layout(place).ledger, runtime)
    step = max(1, -(-(high - low) // SAMPLE))
    counts = []
    for number in range(high, low, -step):
        try:
            segment = decode_segment(await sequence.read_known(number), sequence.path(number))
        except ArcoError:
            break
        counts.append(len(segment.events))
    return (sum(counts) / len(counts) if counts else 0.0), len(counts)


def _tables(head: Manifest) -> float:
    """Slices of a delta, on average; merged ones are gone, so these are the newest."""
    slices = Counter(layer.last for layer in head.layers if layer.level == 0)
    return sum(slices.values()) / len(slices) if slices else 0.0


async def _stored(store: Store, incarnation: str) -> dict[str, Stored]:
    objects: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    async for info in store.list(""):
        first, _, rest = info.path.partition("/")
        folder = rest.partition("/")[0] if first == incarnation else first
        if first.startswith("inc-") and first != incarnation:
            folder = "earlier incarnations"
        objects[folder] += 1
        sizes[folder] += info.size
    return {folder: Stored(number, sizes[folder]) for folder, number in sorted(objects.items())}


def requests_a_day(usage: Usage) -> dict[str, dict[Operation, float]]:
    """What the writes of a mean day ask of the store. Reads of state by others are not in it."""
    segments, revisions = usage.mean("segments"), usage.mean("revisions")
    deltas = min(segments, revisions)
    merges = deltas * usage.tables / (FAN_IN - 1)
    return {
        "append": {Operation.CREATE: segments},
        "publish": {Operation.CREATE: deltas + revisions},
        "merge": {Operation.CREATE: 2 * merges, Operation.GET: merges, Operation.GET_RANGE: FAN_IN * merges},
        "hint": {Operation.PUT: min(segments + revisions, 2 * 86_400.0)},
    }
