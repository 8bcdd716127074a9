"""The simulation as part of `make test`: some seeds of each world, every scenario, seeds that failed once.

Every mutant and the crash sweep of everything take minutes, so they are part of `make prove`, in its short form too;
here is one of each, and all of Iceberg commits, which take seconds.
"""

import pytest

from tests.simulation.commits_mutants import COMMIT_MUTANTS
from tests.simulation.commits_sweep import COMMIT_WORKS, CommitWork, sweep_commits
from tests.simulation.linear import NameOp, is_linearizable
from tests.simulation.mutants import MUTANTS, Mutant, try_mutant
from tests.simulation.runner import run_many
from tests.simulation.runs import run_runs
from tests.simulation.runs_mutants import RUN_MUTANTS
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.stage import run_scenario
from tests.simulation.sweep import WORKS, sweep
from tests.simulation.world import run_seed


def test_seeds_run_without_violation_and_alike_in_two_processes() -> None:
    outcome = None
    for _, found in run_many(1001, 20, jobs=2):
        outcome = found
    assert outcome is not None
    assert outcome.seeds == 20
    assert outcome.violations == []
    assert outcome.faults > 100


def test_whole_runs_end_without_violation_and_alike_in_two_processes() -> None:
    outcome = None
    for _, found in run_many(1001, 10, jobs=2, world="runs"):
        outcome = found
    assert outcome is not None
    assert outcome.seeds == 10
    assert outcome.violations == []
    assert outcome.faults > 30
    assert outcome.probe.operations["attempts"] > 30


def test_iceberg_commits_end_without_violation_and_alike_in_two_processes() -> None:
    outcome = None
    for _, found in run_many(1001, 30, jobs=2, world="commits"):
        outcome = found
    assert outcome is not None
    assert outcome.seeds == 30
    assert outcome.violations == []
    assert outcome.faults > 100
    assert outcome.probe.paths["transaction committed"] > 20


FAILED_ONCE = {
    "an outdated owner's word stopped a newer program": (run_seed, 178),
    "a hint that was long under way hid the owner from the signs of life": (run_runs, 751),
    "a hint of who had not looked was not believed": (run_runs, 537),
    "an owner that was replaced kept the signs of life": (run_runs, 263),
    "an owner that came back went by what it had heard before": (run_runs, 1010),
    "an owner that stood still did not see that another was named": (run_runs, 1270),
    "a task was handed out while the state was set back to a revision": (run_runs, 793),
}


@pytest.mark.parametrize("name", FAILED_ONCE)
def test_a_seed_that_failed_once_passes(name: str) -> None:
    run, seed = FAILED_ONCE[name]
    result = run(seed)
    assert not result.violation, result.violation


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_scenario(name: str) -> None:
    for seed in (1, 2):
        checker, text, _ = run_scenario(SCENARIOS[name], seed)
        assert not checker, text


PACKING = [mutant for mutant in MUTANTS if mutant.scenario in ("packed_in_an_idle_log", "sleeping_follower")]


@pytest.mark.parametrize(
    "mutant", [MUTANTS[0], *PACKING, RUN_MUTANTS[0], *COMMIT_MUTANTS], ids=lambda mutant: mutant.name
)
def test_mutant_is_caught(mutant: Mutant) -> None:
    seeds, _, _ = try_mutant(mutant)
    assert seeds, f"{mutant.name} survived: {mutant.mistake}"


def test_a_crash_at_every_storage_operation_is_recovered() -> None:
    swept = sweep(WORKS[0])
    assert swept.failures == []
    assert swept.recovered == swept.points == 2 * swept.operations > 0


@pytest.mark.parametrize("work", COMMIT_WORKS, ids=lambda work: work.name)
def test_a_crash_at_every_storage_operation_of_a_commit_is_recovered(work: CommitWork) -> None:
    swept = sweep_commits(work)
    assert swept.failures == []
    assert swept.recovered == swept.points == 2 * swept.operations > 0


def test_overlapping_creates_are_linearizable_if_one_is_refused() -> None:
    ops = [NameOp.create(1, 4, done=True), NameOp.create(2, 3, done=False), NameOp.read(5, 6, found=True)]
    assert is_linearizable(ops)


def test_two_granted_creates_of_one_name_are_not_linearizable() -> None:
    assert not is_linearizable([NameOp.create(1, 4, done=True), NameOp.create(2, 3, done=True)])


def test_an_unknown_create_explains_what_is_read_later_and_may_never_happen() -> None:
    unknown = NameOp.create(1, None, done=True)
    assert is_linearizable([unknown, NameOp.read(5, 6, found=False), NameOp.read(7, 8, found=True)])
    assert is_linearizable([unknown, NameOp.read(5, 6, found=False)])
    assert not is_linearizable([unknown, NameOp.read(5, 6, found=True), NameOp.read(7, 8, found=False)])


def test_a_read_that_goes_back_is_not_linearizable() -> None:
    ops = [NameOp.create(1, 2, done=True), NameOp.read(3, 4, found=False)]
    assert not is_linearizable(ops)
