"""Many seeds: two workers run every seed, in other processes with other hash seeds, and must leave the same trace."""

import gc
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.simulation.commits import run_commits
from tests.simulation.probe import COMMIT_FAULTS, COMMIT_PATHS, FAULTS, PATHS, RUN_FAULTS, RUN_PATHS, Probe
from tests.simulation.runs import run_runs
from tests.simulation.world import Result, run_seed

__all__ = ["WORLDS", "Kind", "Outcome", "run_many", "work"]


@dataclass(frozen=True)
class Kind:
    """A random world: what runs a seed of it, and what must have happened in it over many seeds."""

    title: str
    run: Callable[..., Result]
    faults: dict[str, str]
    paths: dict[str, str]


WORLDS = {
    "engine": Kind("the state engine", run_seed, FAULTS, PATHS),
    "runs": Kind("whole runs", run_runs, RUN_FAULTS, RUN_PATHS),
    "commits": Kind("Iceberg commits", run_commits, COMMIT_FAULTS, COMMIT_PATHS),
}


@dataclass
class Outcome:
    """What a set of seeds came to."""

    world: str
    seeds: int = 0
    probe: Probe = field(default_factory=Probe)
    violations: list[tuple[int, str]] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)

    @property
    def operations(self) -> int:
        return sum(self.probe.operations.values())

    @property
    def faults(self) -> int:
        return sum(self.probe.faults.values())

    def missing(self) -> list[str]:
        """Faults and recovery paths that never happened."""
        known = WORLDS[self.world]
        return [f"fault: {kind}" for kind in known.faults if not self.probe.faults[kind]] + [
            f"recovery path: {kind}" for kind in known.paths if not self.probe.paths[kind]
        ]


def work(world: str, first: int, count: int, parity: int) -> None:
    """A worker: run seeds one after the other, one line of JSON each. Of a pair of workers, one judges the even seeds
    and the other one the odd ones."""
    pa.set_cpu_count(1)
    gc.collect()
    gc.freeze()
    for seed in range(first, first + count):
        judge = seed % 2 == parity
        result = WORLDS[world].run(seed, judge=judge)
        line = {
            "seed": seed,
            "judged": judge,
            "trace": result.trace,
            "violation": result.violation,
            "faults": result.probe.faults,
            "paths": result.probe.paths,
            "operations": result.probe.operations,
        }
        print(json.dumps(line), flush=True)


def run_many(first: int, count: int, jobs: int, world: str = "engine") -> Iterator[tuple[int, Outcome]]:
    """Every seed twice; yields each seed with the sum so far."""
    pairs = max(jobs // 2, 1)
    workers = []
    for index in range(pairs):
        begin, end = first + index * count // pairs, first + (index + 1) * count // pairs
        workers.append((end - begin, [_worker(world, begin, end - begin, parity) for parity in (0, 1)]))
    outcome = Outcome(world)
    try:
        for round_ in range(max(size for size, _ in workers)):
            for size, pair in workers:
                if round_ < size:
                    yield _compare([_next(worker) for worker in pair], outcome), outcome
    finally:
        for _, pair in workers:
            for worker in pair:
                worker.kill()
                worker.communicate()


def _worker(world: str, first: int, count: int, parity: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.simulation", "--work", world, str(first), str(count), str(parity)]
    environment = {**os.environ, "PYTHONHASHSEED": str(parity + 1), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def _next(worker: "subprocess.Popen[str]") -> dict[str, Any]:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise SystemExit("a worker died; its message stands above")
    found: dict[str, Any] = json.loads(line)
    return found


def _compare(twice: list[dict[str, Any]], outcome: Outcome) -> int:
    one, other = sorted(twice, key=lambda found: not found["judged"])
    seed = int(one["seed"])
    outcome.seeds += 1
    outcome.probe.add(Probe(Counter(one["faults"]), Counter(one["paths"]), Counter(one["operations"])))
    for violation in sorted({one["violation"], other["violation"]} - {""}):
        outcome.violations.append((seed, violation))
    if one["trace"] != other["trace"]:
        outcome.violations.append((seed, "the same seed took two different courses in two processes"))
    return seed
