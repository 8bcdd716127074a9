"""`replay`: how layers of a log come and go, without data: what merges a mix of publishes causes, and what is left.

It follows the rules of `arco.state` (tiers of `fan_in`, one merge a table at a time, results adopted together by one
manifest), so that the model counts merges instead of guessing at them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby

__all__ = ["FAN_IN", "LENGTH", "Layers", "replay"]

FAN_IN = 8
LENGTH = 4096
"""Publishes that are replayed: four levels of merges."""


@dataclass(frozen=True)
class Layers:
    """Averages of a publish, and of a revision."""

    merges: float = 0.0
    """A publish."""
    adoptions: float = 0.0
    """Manifests a publish that do nothing but adopt merges."""
    made: Mapping[int, float] = field(default_factory=dict)
    """Files of each level that a publish causes; level 0 is the delta."""
    held: Mapping[int, float] = field(default_factory=dict)
    """Files of each level that a revision names."""
    layers: float = 0.0
    """Layers of all tables in a revision."""


def replay(mix: Mapping[str, float], tables: Mapping[str, Mapping[str, float]], length: int = LENGTH) -> Layers:
    """`mix` is how often each kind of publish happens, `tables` how often each of them changes which tables."""
    total = sum(mix.values())
    if total <= 0:
        return Layers()
    levels: dict[str, list[tuple[int, int]]] = {}  # by table, oldest first: level, and which delta
    merges = adoptions = layers = 0
    made: Counter[int] = Counter()
    held: Counter[int] = Counter()
    due = dict.fromkeys(mix, 0.0)
    changes: Counter[tuple[str, str]] = Counter()
    for number in range(length):
        for kind in mix:
            due[kind] += mix[kind] / total
        kind = max(due, key=lambda one: due[one])
        due[kind] -= 1
        for table, share in tables[kind].items():
            changes[kind, table] += share  # type: ignore[assignment]  # a sum of shares
            if changes[kind, table] >= 1 - 1e-9:
                changes[kind, table] -= 1
                levels.setdefault(table, []).append((0, number))
        made[0] += 1
        while merged := _merge(levels, made):
            merges += merged
            adoptions += 1
        held[0] += len({delta for known in levels.values() for level, delta in known if level == 0})
        for known in levels.values():
            layers += len(known)
            held.update(level for level, _ in known if level)
    return Layers(
        merges / length,
        adoptions / length,
        {level: number / length for level, number in made.items()},
        {level: number / length for level, number in held.items()},
        layers / length,
    )


def _merge(levels: dict[str, list[tuple[int, int]]], made: Counter[int]) -> int:
    """Do the merges that are due, at most one a table; how many."""
    done = 0
    for known in levels.values():
        start = 0
        for level, same in groupby(known, key=lambda layer: layer[0]):
            width = len(list(same))
            if width >= FAN_IN:
                known[start : start + FAN_IN] = [(level + 1, -1)]
                made[level + 1] += 1
                done += 1
                break
            start += width
    return done
