"""`python -m tests.simulation`: run seeds, replay one, sweep crash points, try mutants. Exit code 1 if one fails."""

import argparse
import sys
import time
from functools import partial

from rich.console import Console
from rich.table import Table

from tests.simulation.runner import WORLDS, Outcome, run_many, work

console = Console(highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description="Simulate the state engine, whole runs and Iceberg commits."
    )
    parser.add_argument("--world", choices=tuple(WORLDS), help="only this one; a replay is of the engine by default")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes; every seed runs in two of them")
    parser.add_argument("--seed", type=int, help="replay this one")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every step of a replay")
    parser.add_argument("--mutants", action="store_true", help="apply known mistakes; each must be caught")
    parser.add_argument("--sweep", action="store_true", help="crash at every storage operation; all must recover")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        world, *numbers = options.work
        work(world, *map(int, numbers))
        return 0
    if options.seed is not None:
        return replay(options.world or "engine", options.seed, options.verbose)
    if options.mutants:
        from tests.simulation.commits_mutants import COMMIT_MUTANTS
        from tests.simulation.mutants import MUTANTS, report_mutants
        from tests.simulation.runs_mutants import RUN_MUTANTS

        return report_mutants(console, (*MUTANTS, *RUN_MUTANTS, *COMMIT_MUTANTS))
    if options.sweep:
        from tests.simulation.commits_sweep import COMMIT_WORKS, sweep_commits
        from tests.simulation.sweep import WORKS, report_sweep, sweep

        sweeps = [partial(sweep, work) for work in WORKS] + [partial(sweep_commits, work) for work in COMMIT_WORKS]
        return report_sweep(console, sweeps)
    worlds = (options.world,) if options.world else tuple(WORLDS)
    return max(simulate(world, options.start, options.seeds, options.jobs) for world in worlds)


def replay(world: str, seed: int, verbose: bool) -> int:
    result = WORLDS[world].run(seed, print if verbose else None)
    print(f"seed {seed}: {result.steps} steps, trace {result.trace[:16]}")
    print(result.violation or "0 violations")
    return 1 if result.violation else 0


def simulate(world: str, first: int, count: int, jobs: int) -> int:
    began = time.monotonic()
    known, outcome = WORLDS[world], Outcome(world)
    shown = began
    for seed, outcome in run_many(first, count, jobs, world):
        while outcome.violations and outcome.violations[-1][0] == seed:
            _, violation = outcome.violations.pop()
            print(f"seed {seed}: {violation}\n  replay it: make sim WORLD={world} SEED={seed}", flush=True)
            outcome.failed.append(seed)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(
                f"{outcome.seeds} of {count} seeds, {len(outcome.failed)} violations, {shown - began:.0f} s", flush=True
            )
    _print_counts("fault", known.faults, outcome.probe.faults)
    _print_counts("recovery path", known.paths, outcome.probe.paths)
    missing = outcome.missing() if count >= ENOUGH else []
    for kind in missing:
        print(f"never happened: {kind}")
    print(", ".join(f"{count:,} {name}" for name, count in sorted(outcome.probe.operations.items())))
    print(f"every seed ran twice, in two processes with different hash seeds; {time.monotonic() - began:.0f} s")
    found = len(outcome.failed) + len(missing)
    done = f"{outcome.seeds} seeds, {outcome.operations} operations, {outcome.faults} faults"
    print(f"{known.title}: {done}: {found} violations")
    return 1 if found else 0


ENOUGH = 100
"""From so many seeds on, everything that can happen must have happened."""


def _print_counts(title: str, known: dict[str, str], counts: dict[str, int]) -> None:
    table = Table(title, "what it is", "times")
    for kind, text in known.items():
        table.add_row(kind, text, f"{counts.get(kind, 0):,}")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
