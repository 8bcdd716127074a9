"""The requests an operation makes are a promise: docs/requests.md says what is measured here, on memory and on disk."""

from itertools import count
from pathlib import Path

import pytest

from arco.runtime import Workspace, init_workspace
from arco.storage import LocalStore, MemoryStore, Operation, Role
from tests.doubles import FakeRuntime
from tests.runtime.requests import COLUMNS, IN_MEMORY, MEASURES, measure_all
from tests.runtime.world import SCOPE, made, run

DOCUMENT = Path(__file__).parents[2] / "docs" / "requests.md"


def documented() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("|")]
    head, _, *body = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    assert head == ["operation", *COLUMNS]
    for name, *cells in body:
        found[name] = {column: int(cell or 0) for column, cell in zip(COLUMNS, cells, strict=True)}
    return found


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_every_operation_makes_exactly_the_documented_requests(kind: str, tmp_path: Path) -> None:
    numbers = count()
    expected = documented()
    if kind == "memory":
        assert measure_all(MemoryStore) == expected
        return
    measured = measure_all(
        lambda runtime: LocalStore(tmp_path / str(next(numbers))), [one for one in MEASURES if one not in IN_MEMORY]
    )
    assert measured == {name: expected[name] for name in measured}


def test_the_promises_of_the_design_hold() -> None:
    """What the table must never say, whoever updates it."""
    table = documented()

    def requests(name: str) -> dict[str, int]:
        return {column: number for column, number in table[name].items() if number}

    assert requests("record") == requests("16 records at once") == requests("decide") == {"create": 1}
    assert requests("decide, refused") == {"get": 1}
    assert requests("publish") == {"create": 2}
    assert requests("publish with a private table") == {"create": 3}
    small, large = (requests(f"DDL and its publish, {existing} namespaces exist") for existing in ("10", "1,000"))
    assert small == large == {"create": 3}
    small, large = (requests(f"create a table of 20 columns, {existing} tables exist") for existing in ("10", "1,000"))
    assert small == large == {"create": 3}
    assert requests("POST /events with 100 facts") == {"create": 1}
    for append in ("claim a task", "the result of a task", "the result of a task, and the next one claimed with it"):
        assert requests(append) == {"create": 1}
    for gathered in ("claim 50 tasks", "the results of 50 tasks at once, each with the next one"):
        assert requests(gathered) == {"create": 1}
    for gathered in ("claim a batch of 50 tasks", "the results of a batch of 50 tasks", "a batch of 50 tasks is lost"):
        assert requests(gathered) == {"create": 1}
    assert requests("signs of life of a batch") == {}
    for nothing in ("a sign of life, where the log is owned", "claim, and nothing is ready"):
        assert requests(nothing) == {}
    assert requests("a worker waits ten minutes for a task, asking anew every twenty seconds") == {}
    assert requests("plan and trigger a run")["create"] == 1
    assert requests("plan and trigger a run whose plan is a blob")["create"] == 2
    assert requests("look whether a newer revision exists (strong read of what is loaded)") == {"get": 1}
    assert requests("bounded-stale read of what is loaded") == requests("publish, nothing new") == {}


def test_hints_are_written_at_most_once_a_second() -> None:
    async def test(runtime: FakeRuntime) -> None:
        store = MemoryStore(runtime)
        await init_workspace(store, SCOPE, runtime)
        async with await Workspace.open(store, SCOPE, runtime, test_store=False) as workspace:
            for number in range(100):
                await workspace.record("activity", [made(runtime, f"m{number}")], actor="w")
                await runtime.sleep(0.1)
            for role in (Role.OWNER, Role.COMPACTOR):
                assert 5 <= workspace.counts.count(role, Operation.PUT) <= 11

    run(test)


def test_the_counts_of_a_workspace_are_the_requests_it_makes() -> None:
    async def test(runtime: FakeRuntime) -> None:
        store = MemoryStore(runtime)
        await init_workspace(store, SCOPE, runtime)
        async with await Workspace.open(store, SCOPE, runtime, test_store=False, compact=False) as workspace:
            await workspace.record("activity", [made(runtime, "m")], actor="w")
            before = workspace.counts.table()
            await workspace.record("activity", [made(runtime, "n")], actor="w")
            await workspace.logs["activity"].compactor.publish()
            after = workspace.counts.table()
            made_now = {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)}
            made_now.pop((Role.OWNER, Operation.PUT), None)
            assert made_now == {(Role.OWNER, Operation.CREATE): 1, (Role.COMPACTOR, Operation.CREATE): 2}

    run(test)
