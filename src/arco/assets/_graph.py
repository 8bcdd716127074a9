"""The graph: which assets are made of which, and in which order their units run.

A *unit* is what runs as one task: one function with all the assets it makes. Dependencies on assets that the project
does not have are left out here; `validate` reports them.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from arco.assets._definition import AssetDefinition, Project
from arco.core import Invalid

__all__ = ["Graph", "unit_of"]


def unit_of(asset: AssetDefinition) -> str:
    """The key under which an asset runs."""
    return asset.unit or asset.key


class Graph:
    """Neighbours by asset key and by unit. All answers are sorted."""

    def __init__(self, project: Project) -> None:
        self.assets: dict[str, AssetDefinition] = {}
        for asset in sorted(project.assets, key=lambda asset: asset.key):
            self.assets.setdefault(asset.key, asset)
        self.unit_of = {key: unit_of(asset) for key, asset in self.assets.items()}
        units: dict[str, list[AssetDefinition]] = {}
        for key, asset in self.assets.items():
            units.setdefault(self.unit_of[key], []).append(asset)
        self.units = {unit: tuple(units[unit]) for unit in sorted(units)}
        self._upstream = {
            key: tuple(sorted({other.key for other in asset.dependencies if other.key in self.assets}))
            for key, asset in self.assets.items()
        }
        self._downstream = _reversed(self._upstream)
        self._upstream_units = {
            unit: tuple(sorted({self.unit_of[other] for asset in made for other in self._upstream[asset.key]}))
            for unit, made in self.units.items()
        }
        self._downstream_units = _reversed(self._upstream_units)

    def upstream(self, key: str) -> tuple[str, ...]:
        """Assets that this one is made of, directly."""
        return self._upstream[key]

    def downstream(self, key: str) -> tuple[str, ...]:
        """Assets that are made of this one, directly."""
        return self._downstream[key]

    def upstream_units(self, unit: str) -> tuple[str, ...]:
        return self._upstream_units[unit]

    def downstream_units(self, unit: str) -> tuple[str, ...]:
        return self._downstream_units[unit]

    def ancestors(self, keys: Iterable[str], depth: int | None = None) -> set[str]:
        """The assets and all they are made of, at most so many steps away."""
        return _reach(self._upstream, keys, depth)

    def descendants(self, keys: Iterable[str], depth: int | None = None) -> set[str]:
        """The assets and all that are made of them, at most so many steps away."""
        return _reach(self._downstream, keys, depth)

    def order(self) -> tuple[tuple[str, ...], ...]:
        """The units in stages: each stage needs only earlier ones. A cycle is refused, with its path."""
        waiting = {unit: len(above) for unit, above in self._upstream_units.items()}
        stages: list[tuple[str, ...]] = []
        ready = sorted(unit for unit, count in waiting.items() if not count)
        done = 0
        while ready:
            stages.append(tuple(ready))
            done += len(ready)
            following: list[str] = []
            for unit in ready:
                for below in self._downstream_units[unit]:
                    waiting[below] -= 1
                    if not waiting[below]:
                        following.append(below)
            ready = sorted(following)
        if done < len(waiting):
            cycle = self.cycles()[0]
            raise Invalid(self.describe_cycle(cycle), cycle=list(cycle))
        return tuple(stages)

    def cycles(self) -> tuple[tuple[str, ...], ...]:
        """A shortest cycle for each knot of units. It begins and ends with the smallest unit of its knot."""
        found: list[tuple[str, ...]] = []
        knotted: set[str] = set()
        for unit in self._in_cycles():
            if unit in knotted:
                continue
            path = self._way_back(unit)
            if path is not None:
                found.append(path)
                knotted |= _reach(self._upstream_units, [unit], None) & _reach(self._downstream_units, [unit], None)
        return tuple(found)

    def describe_cycle(self, cycle: tuple[str, ...]) -> str:
        places = ", ".join(f"{unit} at {place(self.units[unit][0])}" for unit in cycle[:-1])
        return f"the assets depend on each other in a cycle: {' -> '.join(cycle)} ({places}); remove one of them"

    def _in_cycles(self) -> list[str]:
        """Units that are left when all that need nothing, or that nothing needs, are taken away again and again."""
        left = set(self.units)
        for towards, away in (
            (self._upstream_units, self._downstream_units),
            (self._downstream_units, self._upstream_units),
        ):
            counts = {unit: sum(other in left for other in towards[unit]) for unit in left}
            free = deque(unit for unit, count in counts.items() if not count)
            while free:
                unit = free.popleft()
                left.discard(unit)
                for other in away[unit]:
                    if other in left:
                        counts[other] -= 1
                        if not counts[other]:
                            free.append(other)
        return sorted(left)

    def _way_back(self, unit: str) -> tuple[str, ...] | None:
        """The shortest path of dependencies from a unit to itself."""
        before: dict[str, str] = {}
        queue = deque([unit])
        while queue:
            current = queue.popleft()
            for other in self._upstream_units[current]:
                if other == unit:
                    path = [unit, current]
                    while path[-1] != unit:
                        path.append(before[path[-1]])
                    return tuple(reversed(path))
                if other not in before:
                    before[other] = current
                    queue.append(other)
        return None


def place(asset: AssetDefinition) -> str:
    """Where an asset is written, for people."""
    return f"{asset.file or 'unknown file'}:{asset.line}"


def _reversed(edges: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    back: dict[str, list[str]] = {key: [] for key in edges}
    for key, others in edges.items():
        for other in others:
            back[other].append(key)
    return {key: tuple(sorted(others)) for key, others in back.items()}


def _reach(edges: Mapping[str, tuple[str, ...]], keys: Iterable[str], depth: int | None) -> set[str]:
    front = set(keys)
    seen = set(front)
    while front and (depth is None or depth > 0):
        front = {other for key in front for other in edges[key]} - seen
        seen |= front
        depth = None if depth is None else depth - 1
    return seen
