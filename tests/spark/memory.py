"""Spark in memory: the few calls the runner makes, in this process, with parcels in an order that nobody promised.

For properties that need hundreds of runs. What real Spark does with the same calls is tested beside it.
"""

import pickle
import random
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

__all__ = ["memory_session"]


class Rdd:
    def __init__(self, chance: random.Random, partitions: list[list[Any]]) -> None:
        self._chance = chance
        self.partitions = partitions

    def flatMap(self, work: Callable[[Any], Iterable[Any]]) -> "Rdd":  # noqa: N802
        work = _sent(work)
        self._speculate(lambda: [list(work(item)) for part in self.partitions for item in part])
        return Rdd(self._chance, [[out for item in part for out in work(item)] for part in self.partitions])

    def mapPartitionsWithIndex(self, work: Callable[[int, Any], Iterable[Any]]) -> "Rdd":  # noqa: N802
        work = _sent(work)
        self._speculate(lambda: [list(work(index, iter(part))) for index, part in enumerate(self.partitions)])
        return Rdd(self._chance, [list(work(index, iter(part))) for index, part in enumerate(self.partitions)])

    def partitionBy(self, count: int, partition: Callable[[Any], int]) -> "Rdd":  # noqa: N802
        found: list[list[Any]] = [[] for _ in range(count)]
        for part in self.partitions:
            for item in part:
                found[partition(item[0]) % count].append(_sent(item))
        for part in found:
            self._chance.shuffle(part)
        return Rdd(self._chance, found)

    def _speculate(self, work: Callable[[], Any]) -> None:
        """Now and then every task of a stage runs once more, and what it sends is lost."""
        if self._chance.random() < 0.3:
            work()

    def collect(self) -> list[Any]:
        return [item for part in self.partitions for item in part]


class Context:
    def __init__(self, cores: int, seed: int) -> None:
        self.defaultParallelism = cores
        self._chance = random.Random(seed)

    def parallelize(self, items: Sequence[Any], count: int) -> Rdd:
        given = list(items)
        ends = [len(given) * index // count for index in range(count + 1)]
        return Rdd(self._chance, [given[ends[index] : ends[index + 1]] for index in range(count)])

    def runJob(self, rdd: Rdd, work: Callable[[Any], Any], partitions: list[int]) -> list[Any]:  # noqa: N802
        return [item for index in partitions for item in work(iter(rdd.partitions[index]))]

    def setJobGroup(self, group: str, what: str) -> None: ...  # noqa: N802

    def setLocalProperty(self, name: str, value: str | None) -> None: ...  # noqa: N802

    def cancelJobGroup(self, group: str) -> None: ...  # noqa: N802


def _sent(value: Any) -> Any:
    """As it arrives in another process."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301


def memory_session(cores: int = 2, seed: int = 0) -> Callable[[], Any]:
    session = SimpleNamespace(_jsparkSession=None, sparkContext=Context(cores, seed))
    return lambda: session
