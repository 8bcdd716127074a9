"""`python -m tests.simulation`: run seeds, replay one, sweep crash points, try mutants. Exit code 1 if one fails."""

import argparse
import sys
import time

from rich.console import Console
from rich.table import Table

from tests.simulation.probe import FAULTS, PATHS
from tests.simulation.runner import Outcome, run_many, work
from tests.simulation.world import run_seed

console = Console(highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulate the state engine.")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes; every seed runs in two of them")
    parser.add_argument("--seed", type=int, help="replay this one")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every step of a replay")
    parser.add_argument("--mutants", action="store_true", help="apply known mistakes; each must be caught")
    parser.add_argument("--sweep", action="store_true", help="crash at every storage operation; all must recover")
    parser.add_argument("--work", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(*options.work)
        return 0
    if options.seed is not None:
        return replay(options.seed, options.verbose)
    if options.mutants:
        from tests.simulation.mutants import report_mutants

        return report_mutants(console)
    if options.sweep:
        from tests.simulation.sweep import report_sweep

        return report_sweep(console)
    return simulate(options.start, options.seeds, options.jobs)


def replay(seed: int, verbose: bool) -> int:
    result = run_seed(seed, print if verbose else None)
    print(f"seed {seed}: {result.steps} steps, trace {result.trace[:16]}")
    print(result.violation or "0 violations")
    return 1 if result.violation else 0


def simulate(first: int, count: int, jobs: int) -> int:
    began = time.monotonic()
    outcome = Outcome()
    shown = began
    for seed, outcome in run_many(first, count, jobs):
        while outcome.violations and outcome.violations[-1][0] == seed:
            _, violation = outcome.violations.pop()
            print(f"seed {seed}: {violation}\n  replay it: make sim SEED={seed}", flush=True)
            outcome.failed.append(seed)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(
                f"{outcome.seeds} of {count} seeds, {len(outcome.failed)} violations, {shown - began:.0f} s", flush=True
            )
    _print_counts("fault", FAULTS, outcome.probe.faults)
    _print_counts("recovery path", PATHS, outcome.probe.paths)
    missing = outcome.missing() if count >= ENOUGH else []
    for kind in missing:
        print(f"never happened: {kind}")
    requests, reads = outcome.probe.operations["requests"], outcome.probe.operations["reads"]
    print(f"{requests} requests and {reads} reads, {outcome.probe.operations['storage']} storage operations")
    print(f"every seed ran twice, in two processes with different hash seeds; {time.monotonic() - began:.0f} s")
    found = len(outcome.failed) + len(missing)
    print(f"{outcome.seeds} seeds, {outcome.operations} operations, {outcome.faults} faults: {found} violations")
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
