"""`model`: from a load to requests and bytes a day, and to what is stored after some time. Pure arithmetic.

    appends   one create each; those that arrive during a create share the next one (`put_seconds`)
    publishes one a moment with appends, at most one per max(0.25 s, 4 × put): delta and manifest
    merges    counted by `replay` from which tables each kind of publish changes
    hints     an overwrite with each append and each publish, at most one a second
    packing   each segment is read once more, when so many or so many bytes have gathered (`packing`)
    backups   each segment is read once, files of state that are new are copied (`backing_up`)
    quiet     whoever comes after 15 quiet minutes looks at a floor: one request more
    retention of revisions: all for an hour, one a minute for a day, one an hour for 30 days

Simulated days compare all of it with counts (`tests/cost/test_month.py`). Not in it: what assets read and write,
reads of published files by browsers and engines, and Iceberg tables, which lie in the same bucket and cost what they
cost without Arco.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from arco.cost._backups import backing_up, new_files
from arco.cost._load import Load, Scale
from arco.cost._packs import Packed, packing
from arco.cost._profile import Kind, Profile, profile
from arco.cost._replay import FAN_IN, LENGTH, Layers, replay
from arco.storage import Operation

__all__ = ["Estimate", "Stored", "model"]

DAY = 86_400.0
QUIET = 900.0
"""Seconds after which a floor is looked at again: a quarter of the minimum age."""
INLINE_HISTORY = 192
"""Retained revisions in a manifest, on average: half of them move to a file whenever they are 256."""


@dataclass(frozen=True)
class Stored:
    """What lies in one folder."""

    objects: float
    bytes: float


@dataclass(frozen=True)
class Estimate:
    """One workspace and one day of it, by operation; and what is stored of it after `days`."""

    load: Load
    scale: Scale
    events: float
    segments: float
    publishes: float
    merges: float
    requests: Mapping[str, Mapping[Operation, float]]
    """A day, by what they are for."""
    written: Mapping[str, float]
    """Bytes a day, by folder."""
    stored: Mapping[str, Stored]

    @property
    def total(self) -> Counter[Operation]:
        found: Counter[Operation] = Counter()
        for counts in self.requests.values():
            found.update(counts)
        return found


@dataclass(frozen=True)
class _Log:
    """One log's day."""

    kinds: Mapping[str, Kind]
    appends: Mapping[str, float]
    segments: float
    publishes: float
    minutes: float
    """Of a day, in which something is published."""
    hours: float
    layers: Layers
    bytes: float
    """Of its segments, a day."""
    packed: Packed


def model(load: Load, scale: Scale, known: Profile | None = None) -> Estimate:
    known = known or profile()
    logs = [_log(name, load, scale, known) for name in ("catalog", "activity")]
    requests = _requests(load, scale, logs, known)
    return Estimate(
        load,
        scale,
        load.events,
        sum(log.segments for log in logs),
        sum(log.publishes for log in logs),
        sum(log.publishes * log.layers.merges for log in logs),
        requests,
        _written(load, scale, logs, known),
        _stored(load, scale, logs, known),
    )


def _log(name: str, load: Load, scale: Scale, known: Profile) -> _Log:
    appends = {
        "post": load.posts,
        "trigger": load.runs,
        "claim": load.runs if load.tasks else 0.0,
        "result": load.runs * load.tasks,
        "change": load.changes,
    }
    kinds = {kind: known.kinds[kind] for kind in appends if known.kinds[kind].log == name and appends[kind] > 0}
    mine = {kind: appends[kind] for kind in kinds}
    total, seconds = sum(mine.values()), scale.open_hours * 3600
    segments = min(total, seconds / scale.put_seconds)
    publishes = min(total, seconds / max(0.25, 4 * scale.put_seconds))
    length = int(min(max(publishes * scale.days, 1.0), LENGTH))
    layers = replay(mine, {kind: one.tables for kind, one in kinds.items()}, length)
    single = load.changes if name == "catalog" else load.posts
    runs = load.runs if name == "activity" else 0.0
    minutes = min(single + runs * (1 + load.tasks * min(1.0, load.task_seconds / 60)), scale.open_hours * 60)
    hours = min(single + runs * max(1.0, load.tasks * load.task_seconds / 3600), scale.open_hours)
    facts = mine.get("post", 0.0) * max(load.facts - 1, 0) * known.fact_bytes
    size = sum(mine[kind] * one.segment_bytes for kind, one in kinds.items()) + facts
    packed = packing(segments, size, scale, known)
    return _Log(kinds, mine, segments, publishes, minutes, hours, layers, size, packed)


def _requests(load: Load, scale: Scale, logs: list[_Log], known: Profile) -> dict[str, Mapping[Operation, float]]:
    found: dict[str, Mapping[Operation, float]] = {}
    publish, merge = known.requests["publish"], _merge_requests(known)
    beside: Counter[str] = Counter()
    for log in logs:
        for kind, one in log.kinds.items():
            for name, number in known.requests.get(one.requests, {}).items():
                beside[name] += log.appends[kind] * (number - (name == "create"))  # type: ignore[assignment]
    segments = sum(log.segments for log in logs)
    publishes = sum(log.publishes for log in logs)
    merges = sum(log.publishes * log.layers.merges for log in logs)
    adoptions = sum(log.publishes * log.layers.adoptions for log in logs)
    seconds = scale.open_hours * 3600
    found["append"] = {Operation.CREATE: segments, Operation.GET: float(beside["get"])}
    found["publish"] = {Operation.CREATE: publishes * publish["create"]}
    found["merge"] = {
        Operation.CREATE: merges * merge["create"] + adoptions,
        Operation.GET: merges * merge["get"],
        Operation.GET_RANGE: merges * merge["range"],
    }
    found["hint"] = {
        Operation.PUT: sum(min(log.segments, seconds) + min(log.publishes, seconds) for log in logs),
    }
    found["read"] = {Operation.GET: load.reads * known.requests["show a table, strong"]["get"]}
    found["quiet"] = {Operation.HEAD: _quiet(load, logs)}
    found["idle"] = _idle(logs, scale, known)
    found["collect"] = _collections(logs, scale, known)
    found["pack"] = {kind: sum(log.packed.requests[kind] for log in logs) for kind in logs[0].packed.requests}
    found["backup"] = _backups(logs, scale, known)
    return found


def _merge_requests(known: Profile) -> dict[str, float]:
    """Of one merge: the row of two merges and the publish that adopts them, less the publish and the manifest."""
    row = known.requests["compact: publish the 8th delta, merge 8 deltas of 2 tables, adopt both"]
    publish = known.requests["publish"]
    creates = row["create"] - publish["create"] - 1
    return {"create": creates / 2, "get": (row["get"] - 1) / 2, "range": row["range"] / 2}


def _quiet(load: Load, logs: list[_Log]) -> float:
    """Appends and publishes after a silence; reads look at the log of the catalog, which has its own silences."""
    looks = 0.0
    for log in logs:
        for number in (log.segments, log.publishes):
            looks += number * math.exp(-QUIET * number / DAY)
    return looks + load.reads * math.exp(-QUIET * (load.reads + load.changes) / DAY)


def _idle(logs: list[_Log], scale: Scale, known: Profile) -> dict[Operation, float]:
    """Hours in which nothing is published: one look at each log."""
    row = known.requests["an idle hour of an open workspace (two logs)"]
    hours = sum(scale.open_hours * math.exp(-log.publishes / 24) for log in logs) / 2
    return {Operation.GET: hours * row["get"], Operation.HEAD: hours * row["head"]}


def _collections(logs: list[_Log], scale: Scale, known: Profile) -> dict[Operation, float]:
    """A collection reads every retained revision and the new packs, and deletes what has been superseded or packed."""
    both = known.requests[
        "collect a workspace of 2 logs as a server does, 2 older revisions retained of each, nothing to delete"
    ]
    few = known.requests["collect, 5 older revisions retained, nothing to delete"]
    some = known.requests["collect, 6 older revisions expired"]
    times = scale.collections
    gets, heads = (both["get"] - 2 * len(logs)) * times, both["head"] * times
    floors = deletes = 0.0
    for log in logs:
        packs, packed = log.packed.packs / scale.days, log.packed.segments / scale.days
        gets += (_retained(log, scale.days) + log.packed.lists) * times + (packs if times else 0.0)
        manifests, files = _garbage(log, scale.days)
        if times:
            floors += min(manifests, times) + min(packs, times)
            deletes += manifests + files + packed
    return {
        Operation.GET: gets,
        Operation.HEAD: heads + floors * (some["head"] - few["head"]),
        Operation.LIST: both["list"] * times,
        Operation.CREATE: floors * some["create"],
        Operation.DELETE: deletes,
    }


def _backups(logs: list[_Log], scale: Scale, known: Profile) -> Mapping[Operation, float]:
    """A head older than a quarter of an hour is pinned until it is copied; one that made a backup due is younger."""
    times = min(scale.backups, sum(log.publishes for log in logs))
    if not times:
        return {}
    files = sum(new_files(log.layers, log.publishes / times) for log in logs)
    pins = times * min(1.0, sum(math.exp(-QUIET * log.publishes / DAY) for log in logs))
    kept = times * min(scale.days, scale.backup_days)
    segments, size = sum(log.segments for log in logs), sum(log.bytes for log in logs)
    return backing_up(times, kept, pins, segments, size, files, known)


def _garbage(log: _Log, days: float) -> tuple[float, float]:
    """Manifests and files that a day supersedes."""
    before = max(days - 1, 0.0)
    manifests = log.publishes * (1 + log.layers.adoptions) - (_retained(log, days) - _retained(log, before))
    made = (sum(log.layers.made.values()) + log.layers.merges) * log.publishes  # files, and results of merges
    files = made - (sum(_files(log, days).values()) - sum(_files(log, before).values()))
    return max(0.0, manifests), max(0.0, files)


def _retained(log: _Log, days: float) -> float:
    """Revisions that are kept: of an hour all, of a day one a minute, of 30 days one an hour."""
    first, later = min(days, 1.0), max(0.0, min(days, 30.0) - 1)
    return first * (log.publishes * (1 + log.layers.adoptions) / 24 + log.minutes * 23 / 24) + later * log.hours


def _files(log: _Log, days: float) -> dict[int, float]:
    """Files of each level that some retained revision names."""
    first, later = min(days, 1.0), max(0.0, min(days, 30.0) - 1)
    found = {}
    for level, rate in log.layers.made.items():
        held = log.layers.held.get(level, 0.0)
        of_minute, of_hour = (_surviving(log.publishes, windows, rate, held) for windows in (log.minutes, log.hours))
        found[level] = held + first * (rate * log.publishes / 24 + of_minute * log.minutes * 23 / 24)
        found[level] += later * of_hour * log.hours
    return found


def _surviving(publishes: float, windows: float, rate: float, held: float) -> float:
    """Files made between two retained revisions that the later one still names: the others were merged meanwhile."""
    if not windows:
        return 0.0
    each = publishes / windows
    return min(rate * each * (1 - min(each, FAN_IN) / (2 * FAN_IN)), held)


def _rows(load: Load, log: _Log, known: Profile) -> float:
    """A day."""
    facts = log.appends.get("post", 0.0) * max(load.facts - 1, 0) * known.rows["fact"]
    return sum(log.appends[kind] * known.rows[kind] for kind in log.kinds) + facts


def _delta_bytes(load: Load, log: _Log, known: Profile) -> float:
    """Of one delta, on average."""
    if not log.publishes:
        return 0.0
    whole = sum(log.appends[kind] * one.delta_bytes for kind, one in log.kinds.items())
    facts = log.appends.get("post", 0.0) * max(load.facts - 1, 0) * known.rows["fact"] * known.row_bytes
    shared = min(1.0, log.publishes / max(sum(log.appends.values()), 1e-9))  # many appends in one delta
    return (whole * shared + facts) / log.publishes


def _file_bytes(load: Load, log: _Log, level: int, known: Profile) -> float:
    """Of one merged file of a level."""
    made = log.layers.made.get(level, 0.0) * log.publishes
    return known.file_bytes + (_rows(load, log, known) / made * known.row_bytes if made else 0.0)


def _manifest_bytes(log: _Log, days: float, known: Profile) -> float:
    entries = min(INLINE_HISTORY, _retained(log, days))
    return known.manifest_bytes + log.layers.layers * known.layer_bytes + entries * known.entry_bytes


def _written(load: Load, scale: Scale, logs: list[_Log], known: Profile) -> dict[str, float]:
    state = 0.0
    for log in logs:
        state += _delta_bytes(load, log, known) * log.publishes
        for level, rate in log.layers.made.items():
            if level:
                state += rate * log.publishes * _file_bytes(load, log, level, known)
    manifests = sum(log.publishes * (1 + log.layers.adoptions) * _manifest_bytes(log, 30, known) for log in logs)
    packs = sum(log.packed.bytes for log in logs) / scale.days
    return {"ledger": sum(log.bytes for log in logs), "state": state, "manifests": manifests, "packs": packs}


def _stored(load: Load, scale: Scale, logs: list[_Log], known: Profile) -> dict[str, Stored]:
    """After so many days: packs grow, state grows with its rows, everything else levels off after 30 days.

    What the next collection will delete is there too, on average half of it.
    """
    days = scale.days
    left = 0.5 / scale.collections if scale.collections else days
    objects = size = manifests = manifest_size = 0.0
    for log in logs:
        files = _files(log, days)
        objects += sum(files.values())
        size += files.get(0, 0.0) * _delta_bytes(load, log, known)
        size += sum(count * _file_bytes(load, log, level, known) for level, count in files.items() if level)
        size += _rows(load, log, known) * days * known.row_bytes
        superseded, garbage = (left * number for number in _garbage(log, days))
        objects += garbage
        size += garbage * known.file_bytes
        retained = _retained(log, days) + superseded
        manifests += retained
        manifest_size += retained * _manifest_bytes(log, days, known)
    ledger = [_loose(log, days, left) for log in logs]
    return {
        "ledger": Stored(sum(number for number, _ in ledger), sum(count for _, count in ledger)),
        "state": Stored(objects, size),
        "manifests": Stored(manifests, manifest_size),
        "packs": Stored(
            sum(log.packed.packs + log.packed.lists for log in logs), sum(log.packed.bytes for log in logs)
        ),
    }


def _loose(log: _Log, days: float, left: float) -> tuple[float, float]:
    """Segments, and their bytes, that are in no pack or wait for the collection of `left` days."""
    waiting = log.packed.segments * min(left / days, 1.0)
    number = log.segments * days - log.packed.segments + waiting
    return number, number * log.bytes / log.segments if log.segments else 0.0
