"""The table in `docs/traps.md` names every trap once, and only tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.sweep import WORKS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "traps.md").read_text()

TRAPS = range(1, 46)
MUTANT = "tests/simulation/test_simulation.py::test_mutant_is_caught"
CASES = {
    MUTANT: {mutant.name for mutant in MUTANTS},
    "tests/simulation/test_simulation.py::test_scenario": set(SCENARIOS),
    "tests/simulation/test_simulation.py::test_a_crash_at_every_storage_operation_is_recovered": {
        work.name for work in WORKS
    },
}
"""Tests whose cases are named in the table, with the cases there are."""


def rows() -> list[tuple[int, list[str]]]:
    """Number and test ids of every row."""
    found = []
    for line in PAGE.splitlines():
        if match := re.match(r"\| (\d+) \|", line):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert len(cells) == 4, line
            assert all(cells), line
            found.append((int(match[1]), re.findall(r"`([^`]+)`", cells[3])))
    return found


IDS = sorted({test for _, tests in rows() for test in tests})


@cache
def collected_from(path: str) -> frozenset[str]:
    """What pytest collects from a file: functions, and methods of classes with those of their bases in the file."""
    body = ast.parse((ROOT / path).read_text()).body
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}

    def methods(node: ast.ClassDef) -> set[str]:
        bases = [classes[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in classes]
        return functions(node.body).union(*(methods(base) for base in bases))

    def functions(nodes: list[ast.stmt]) -> set[str]:
        return {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}

    in_classes = {
        f"{name}::{method}" for name, node in classes.items() if name.startswith("Test") for method in methods(node)
    }
    return frozenset(functions(body) | in_classes)


def exists(test: str) -> bool:
    name, bracket, case = test.partition("[")
    path, _, inside = name.partition("::")
    if not Path(path).name.startswith("test_") or not (ROOT / path).is_file() or inside not in collected_from(path):
        return False
    return not bracket or (case.endswith("]") and case[:-1] in CASES.get(name, ()))


def test_every_trap_stands_in_one_row() -> None:
    assert [number for number, _ in rows()] == list(TRAPS)


def test_every_trap_has_one_to_three_tests_and_not_only_a_mutant() -> None:
    for number, tests in rows():
        assert 1 <= len(tests) <= 3, number
        assert len(set(tests)) == len(tests), number
        assert not all(test.startswith(MUTANT) for test in tests), f"trap {number}: a mutant proves a guard, it is none"


@pytest.mark.parametrize("test", IDS)
def test_what_the_table_names_exists(test: str) -> None:
    assert exists(test), f"docs/traps.md names {test}, which is not there; name the test that guards the trap now"


@pytest.mark.parametrize(
    "test",
    [
        "tests/test_nowhere.py::test_every_trap_stands_in_one_row_or_waits_for_its_part",
        "tests/storage/contract.py::StoreContract::test_what_was_written_is_read",
        "tests/storage/test_sequence.py::SequenceContract::test_numbers_are_dense_and_start_at_one",
        "tests/storage/test_sequence.py::test_numbers_are_dense_and_start_at_one",
        "tests/storage/test_sequence.py",
        "tests/simulation/test_simulation.py::test_scenario[nobody]",
        "tests/simulation/test_simulation.py::test_scenario[rivals",
        "tests/test_traps.py::test_what_the_table_names_exists[rivals]",
    ],
)
def test_what_pytest_does_not_collect_does_not_exist(test: str) -> None:
    assert not exists(test)
