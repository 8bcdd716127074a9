"""Random graphs and what may happen to runs of them.

- `graphs`: fan-out, diamonds, chains and anything between.
- `happen`: a history as the deciders allow it: only what is ready is claimed, only what runs ends.
- `soups`: facts that contradict each other: attempts nobody claimed, two attempts of one number, two ends of one.
"""

import random
from collections.abc import Callable

from hypothesis import strategies as st

from arco.assets import GatingAction
from arco.domains.orchestration import (
    CLAIMS,
    READY_TASKS,
    RUNS,
    CancelKind,
    FailurePolicy,
    Outcome,
    Plan,
    ReadyTaskRow,
)
from tests.domains.orchestration.facts import (
    RUN,
    Fact,
    Rows,
    cancel,
    claim,
    dispatch,
    enqueue,
    finish,
    plan_of,
    planned,
    reap,
    triggered,
)
from tests.doubles import START

__all__ = ["Graph", "graphs", "happen", "shuffled", "soups", "wide_graph"]

Graph = dict[str, tuple[str, ...]]


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> Graph:
    count = draw(st.integers(0, most))
    keys = [f"t{index}" for index in range(count)]
    return {
        key: tuple(sorted(draw(st.sets(st.sampled_from(keys[:index]), max_size=3)))) if index else ()
        for index, key in enumerate(keys)
    }


def wide_graph(chance: random.Random, count: int) -> Graph:
    """Many tasks: some roots, a fan-out and back, chains and diamonds."""
    keys = [f"t{index:04d}" for index in range(count)]
    graph: Graph = {}
    for index, key in enumerate(keys):
        kind = chance.random()
        if index < 5:
            graph[key] = ()
        elif kind < 0.4:
            graph[key] = (keys[chance.randrange(5)],)
        elif kind < 0.7:
            graph[key] = (keys[index - 1],)
        else:
            graph[key] = tuple(sorted({keys[chance.randrange(index)] for _ in range(3)}))
    graph["last"] = tuple(keys[: count - 1])
    return graph


def happen(
    chance: random.Random,
    graph: Graph,
    steps: int,
    look: Callable[[Rows, list[Fact]], None] | None = None,
    trouble: float = 0.4,
) -> tuple[Plan, list[Fact]]:
    """A history of a run; `look` sees the state after every fact."""
    plan = plan_of(graph, batch=chance.choice([1, 2, 3, 8]))
    policy = chance.choice(list(FailurePolicy))
    timeout = chance.choice([None, 1_000.0])
    facts = [triggered(plan, failure_policy=policy, timeout_seconds=timeout, priority=chance.randrange(3))]
    facts.append(planned(plan, 1))
    rows = Rows()
    told = 0
    for step in range(steps):
        for end in range(told, len(facts)):
            rows.apply(facts[end : end + 1])
            if look is not None:
                look(rows, facts[: end + 1])
        told = len(facts)
        second = 2 + step // 3  # what is appended at once is received at once
        found = _next(chance, rows, second, trouble)
        if not found:
            break
        facts += found
    return plan, facts[:told]


def _next(chance: random.Random, rows: Rows, second: int, trouble: float) -> list[Fact]:
    if all(run.ended_at is not None for run in rows.table(RUNS).values()):
        return []
    ready, running = list(rows.table(READY_TASKS).values()), list(rows.table(CLAIMS).values())
    if chance.random() < trouble / 25:
        return [cancel(second, chance.choice(list(CancelKind)))]
    if ready and (not running or chance.random() < 0.5):
        task = chance.choice(ready)
        if chance.random() < trouble / 3:
            return [chance.choice([dispatch, enqueue])(task.task_key, second, task.attempt)]
        return _claim(task, ready, second)
    if not running:
        return []
    found = chance.choice(running)
    if chance.random() > trouble:
        return [finish(found.task_key, second, found.attempt)]
    if found.batch_id is not None and chance.random() < 0.5:  # its driver dies
        lost = [other for other in running if other.batch_id == found.batch_id]
        return [reap(other.task_key, second, other.attempt) for other in lost]
    return [_trouble(chance, found.task_key, second, found.attempt)]


def _claim(task: ReadyTaskRow, ready: list[ReadyTaskRow], second: int) -> list[Fact]:
    """Claim a task, and with it those of its batch that are due as well."""
    at = max(second, (task.not_before - START) / 1e6)
    due = [other for other in ready if other.not_before <= START + at * 1e6 and other is not task]
    batch = [task, *(other for other in due if task.batch_key is not None and other.batch_key == task.batch_key)]
    batch = batch[: task.batch_limit or 1]
    together = (f"{RUN}/{task.task_key}/{task.attempt}", len(batch)) if len(batch) > 1 else ("", 1)
    return [claim(other.task_key, at, other.attempt, together=together) for other in batch]


def _trouble(chance: random.Random, task: str, second: int, attempt: int) -> Fact:
    kind = chance.random()
    if kind < 0.2:
        return reap(task, second, attempt)
    if kind < 0.3:
        return finish(task, second, attempt, Outcome.FAILED, is_lost=True)
    if kind < 0.4:
        return finish(task, second, attempt, Outcome.CANCELLED)
    if kind < 0.6:
        gate = chance.choice([GatingAction.BLOCK_DOWNSTREAM, GatingAction.QUARANTINE, GatingAction.WARN])
        return finish(task, second, attempt, gate=gate)
    gate = chance.choice([GatingAction.CONTINUE, GatingAction.CONTINUE, GatingAction.FAIL_TASK, GatingAction.FAIL_RUN])
    return finish(task, second, attempt, Outcome.FAILED, retryable=chance.random() < 0.7, gate=gate)


@st.composite
def soups(draw: st.DrawFn) -> list[Fact]:
    """A run's facts, none of which anybody has checked; no two were received at the same time."""
    graph = draw(graphs(most=5))
    plan = plan_of(graph, batch=draw(st.integers(1, 3)))
    keys = [*graph, "stranger"]
    facts: list[Fact] = []
    if draw(st.integers(0, 9)):
        policy = draw(st.sampled_from(FailurePolicy))
        timeout, second = draw(st.sampled_from([None, 9.0])), draw(st.sampled_from([-2, 90]))
        facts.append(triggered(plan, second, failure_policy=policy, timeout_seconds=timeout))
    if draw(st.integers(0, 9)):
        facts.append(planned(plan, draw(st.sampled_from([-1, 91]))))
    for second in draw(st.permutations(range(draw(st.integers(0, 16))))):
        task, attempt = draw(st.sampled_from(keys)), draw(st.integers(1, 3))
        name = f"{task}/{attempt}/{draw(st.sampled_from('aab'))}"
        kind = draw(st.integers(0, 9))
        if kind < 3:
            together = draw(st.sampled_from([("", 1), ("batch", 2)]))
            facts.append(claim(task, second, attempt, name, together=together))
        elif kind < 8:
            outcome = draw(st.sampled_from(Outcome))
            gate = draw(st.sampled_from(GatingAction)) if outcome is Outcome.FAILED else draw(st.sampled_from(_OPEN))
            retryable, is_lost = draw(st.booleans()), draw(st.integers(0, 5)) == 0
            facts.append(
                finish(task, second, attempt, outcome, retryable=retryable, is_lost=is_lost, gate=gate, attempt_id=name)
            )
        elif kind == 8:
            facts.append(reap(task, second, attempt, name))
        else:
            made = draw(st.sampled_from([dispatch, enqueue, None]))
            facts.append(made(task, second, attempt) if made else cancel(second, draw(st.sampled_from(CancelKind))))
    return facts


_OPEN = [GatingAction.CONTINUE, GatingAction.WARN, GatingAction.BLOCK_DOWNSTREAM]


def shuffled(chance: random.Random, facts: list[Fact]) -> list[list[Fact]]:
    """The same facts in another order, some of them twice, cut into batches anywhere."""
    again = [*facts, *chance.sample(facts, len(facts) // 3)]
    chance.shuffle(again)
    cuts = sorted(chance.sample(range(len(again) + 1), min(3, len(again))))
    return [again[start:end] for start, end in zip([0, *cuts], [*cuts, len(again)], strict=True)]
