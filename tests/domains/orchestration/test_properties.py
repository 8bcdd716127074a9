"""Whatever order, repetition and cut the facts of a run arrive in, the tables are the same, and what they say is what a
model says that knows no order at all."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from arco.domains.orchestration import RUNS, TASKS, TaskState
from tests.domains.orchestration.facts import RUN, Fact, Rows, fold
from tests.domains.orchestration.histories import Graph, graphs, happen, shuffled, soups, wide_graph
from tests.domains.orchestration.model import meaning_of
from tests.domains.orchestration.recount import check_order, check_tables


def check_meaning(rows: Rows, facts: list[Fact]) -> None:
    """The fold and the model agree; the model does not know queues outside."""
    meaning = meaning_of(facts)
    kept = {"DISPATCHED": {"READY", "RETRY_WAIT"}}
    found = rows.states(TASKS)
    assert found.keys() == meaning.tasks.keys()
    for key, state in found.items():
        assert meaning.tasks[key] in kept.get(state, {state}), key
    for run in rows.table(RUNS).values():
        assert (run.state, run.first_failure) == (meaning.run, meaning.first_failure)


def in_another_order(chance: random.Random, facts: list[Fact]) -> Rows:
    rows = Rows()
    for batch in shuffled(chance, facts):
        rows.apply(batch)
    assert rows.rejections == []
    return rows


@given(graphs(), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_a_history_means_the_same_in_every_order(graph: Graph, seed: int) -> None:
    chance = random.Random(seed)
    _, facts = happen(chance, graph, steps=40)
    rows = fold(facts)
    check_tables(rows)
    check_meaning(rows, facts)
    for _ in range(3):
        assert in_another_order(chance, facts).all() == rows.all()


@given(graphs(), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_what_is_derived_is_right_after_every_fact(graph: Graph, seed: int) -> None:
    ranks: dict[str, int] = {}

    def look(rows: Rows, facts: list[Fact]) -> None:
        check_tables(rows)
        check_order(rows)
        check_meaning(rows, facts)
        for key, state in rows.states(TASKS).items():
            rank = TaskState(state).rank
            assert rank >= ranks.get(key, 0) or ranks[key] < 10, "an end was taken back"
            ranks[key] = rank

    happen(random.Random(seed), graph, steps=40, look=look)


@given(soups(), st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
def test_facts_that_contradict_each_other_mean_the_same_in_every_order(facts: list[Fact], seed: int) -> None:
    rows = fold(facts)
    check_tables(rows)
    check_meaning(rows, facts)
    chance = random.Random(seed)
    for _ in range(3):
        assert in_another_order(chance, facts).all() == rows.all()


@given(soups(), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_what_is_derived_is_right_even_of_facts_that_contradict_each_other(facts: list[Fact], seed: int) -> None:
    random.Random(seed).shuffle(facts)
    rows = Rows()
    for count, fact in enumerate(facts, 1):
        rows.apply([fact])
        check_tables(rows)
        check_meaning(rows, facts[:count])


@given(st.integers(0, 2**32))
@settings(max_examples=3, deadline=None)
def test_a_run_of_a_thousand_tasks_means_the_same_in_every_order(seed: int) -> None:
    chance = random.Random(seed)
    _, facts = happen(chance, wide_graph(chance, 999), steps=2_500, trouble=0.02)
    rows = fold(facts)
    assert rows.table(RUNS)[RUN].task_count == 1_000
    check_tables(rows)
    check_meaning(rows, facts)
    assert in_another_order(chance, facts).all() == rows.all()
