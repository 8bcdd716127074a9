"""INV-1, 2, 4, 6, 8 and 10 of the orchestration spec, by name. Those about controllers stand with the controllers.

Where the design replaces a mechanism, the test says how the guarantee is shown here.
"""

import itertools
import random

from arco.domains.orchestration import (
    ATTEMPTS,
    CLAIMS,
    DEP_SATISFACTION,
    DISPATCH_OUTBOX,
    ORCHESTRATION,
    READY_TASKS,
    TASKS,
    ConfirmDispatch,
    Outcome,
    RequestDispatch,
    Resolution,
    TaskState,
    cloud_task_id,
    dispatch_id,
)
from tests.domains.decider import Decider, deciding
from tests.domains.orchestration.deciding import claim_all, trigger
from tests.domains.orchestration.facts import (
    LOG,
    RUN,
    claim,
    dispatch,
    enqueue,
    finish,
    fold,
    plan_of,
    planned,
    triggered,
)

CHAIN = plan_of({"A": (), "B": ("A",), "C": ("B",)})
BEGIN = [triggered(CHAIN), planned(CHAIN, 0.5)]


def test_inv_1_order_independence() -> None:
    """The log has one order, so no two folds differ in it. What remains of the guarantee: a finish before its claim,
    its plan or its trigger gives the same rows; times belong to the facts and not to their places."""
    for batch in (1, 3):
        wide = plan_of({"A": (), "B": (), "C": (), "D": ("A", "B", "C")}, batch=batch)
        begun = claim("A", 1, together=("batch", 3))
        facts = [triggered(wide), planned(wide, 0.5), begun, finish("A", 2), finish("B", 3), finish("C", 4)]
        expected = fold(facts).all()
        assert expected[READY_TASKS.name]
        for order in itertools.permutations(facts):
            assert fold(order).all() == expected


def test_inv_2_duplicate_safety() -> None:
    """Told again, at once or later, no fact changes any row."""
    failed = finish("B", 4, outcome=Outcome.FAILED)
    facts = [*BEGIN, claim("A", 1), finish("A", 2), dispatch("B", 2.2), enqueue("B", 2.4), claim("B", 3), failed]
    facts += [claim("B", 60, 2), finish("B", 61, 2), claim("C", 62)]
    for count in range(1, len(facts) + 1):
        once = fold(facts[:count])
        assert fold([*facts[:count], facts[count - 1]]).all() == once.all()
        later = [fact._replace(received=fact.received + 10**9) for fact in facts[:count]]
        assert once.apply(later).all() == fold(facts[:count]).all()
        assert once.rejections == []


def test_inv_4_side_effect_idempotency() -> None:
    """A queue outside knows its tasks by name. The name is a function of run, task and attempt alone, so that whoever
    dispatches twice names the same task and the queue drops the second; the second intent and the second
    acknowledgement are no events at all."""
    name = dispatch_id("run", "task[date=2025-01-01]", 1)
    assert name == "dispatch:run:task[date=2025-01-01]:1"
    assert cloud_task_id("d", name) == cloud_task_id("d", name)
    assert cloud_task_id("d", name) != cloud_task_id("d", dispatch_id("run", "task[date=2025-01-01]", 2))
    assert cloud_task_id("d", "dispatch:run123:extract:1") == "d_yymvjig75h4ygvjip4w7bynyf2"

    async def main(decider: Decider) -> None:
        run = await trigger(decider, CHAIN)
        asked = RequestDispatch(run, "A", 1, "queue")
        assert len(await decider.decide(asked)) == 1
        assert await decider.decide(asked) == []
        (row,) = await decider.rows(DISPATCH_OUTBOX)
        assert (row["status"], row["cloud_task_id"]) == ("PENDING", cloud_task_id("d", dispatch_id(run, "A", 1)))
        confirmed = ConfirmDispatch(run, row["dispatch_id"])
        assert len(await decider.decide(confirmed)) == 1
        assert await decider.decide(confirmed) == []
        task = (await decider.rows(TASKS))[0]
        assert task["state"] == "DISPATCHED"
        assert len(await claim_all(decider)) == 1
        assert await claim_all(decider) == [], "what the queue delivers twice is claimed once"
        assert (await decider.rows(DISPATCH_OUTBOX))[0]["status"] == "ACKED"

    deciding(LOG, main)


def test_inv_6_dependency_correctness() -> None:
    rows = fold(BEGIN)
    assert rows.states(TASKS) == {"A": "READY", "B": "BLOCKED", "C": "BLOCKED"}
    rows.apply([claim("A", 1), finish("A", 2)])
    assert rows.states(TASKS) == {"A": "SUCCEEDED", "B": "READY", "C": "BLOCKED"}

    async def main(decider: Decider) -> None:
        await trigger(decider, CHAIN)
        assert [event.task_key for event in await claim_all(decider)] == ["A"]
        assert await claim_all(decider) == []

    deciding(LOG, main)


def test_inv_8_stale_attempt_event() -> None:
    """A late end of an earlier attempt changes neither the task nor what is dispatched; the decider refuses it with
    `stale_attempt` (test_commands), so this is about facts that got into the log all the same."""
    facts = [*BEGIN, claim("A", 1, 1), claim("A", 2, 2)]
    before = fold(facts)
    rows = fold([*facts, finish("A", 3, 1, Outcome.FAILED)])
    task = rows.table(TASKS)[RUN, "A"]
    assert (task.state, task.attempt, task.attempt_id) == ("RUNNING", 2, f"{RUN}/A/2")
    assert rows.table(ATTEMPTS)[RUN, "A", "000001"].state == "FAILED"
    assert rows.table(CLAIMS) == before.table(CLAIMS)
    assert rows.table(READY_TASKS) == {}
    assert rows.table(DISPATCH_OUTBOX) == {}


def test_inv_10_failure_propagation() -> None:
    rows = fold([*BEGIN, claim("A", 1), finish("A", 2, outcome=Outcome.FAILED, retryable=False)])
    assert rows.states(TASKS) == {"A": "FAILED", "B": "SKIPPED", "C": "SKIPPED"}
    edges = {key[1:]: row.resolution for key, row in rows.table(DEP_SATISFACTION).items()}
    assert edges == {("A", "B"): Resolution.FAILED, ("B", "C"): Resolution.SKIPPED}


def test_ranks_rise_towards_the_end() -> None:
    order = [TaskState.BLOCKED, TaskState.READY, TaskState.RUNNING, TaskState.SKIPPED, TaskState.SUCCEEDED]
    assert [state.rank for state in order] == sorted(state.rank for state in order)
    assert [state for state in TaskState if state.is_terminal] == [
        TaskState.SKIPPED,
        TaskState.CANCELLED,
        TaskState.FAILED,
        TaskState.SUCCEEDED,
    ]


def test_every_table_of_the_domain_takes_part_in_these_properties() -> None:
    chance = random.Random(7)
    plan = plan_of({"A": (), "B": ("A",), "C": ("A",)}, batch=2)
    facts = [triggered(plan), planned(plan, 0.5), claim("A", 1), finish("A", 2)]
    facts += [claim("B", 3), finish("B", 4, outcome=Outcome.FAILED)]
    facts += [dispatch("B", 5, 2), enqueue("B", 6, 2)]
    chance.shuffle(facts)
    empty = {table.name for table in ORCHESTRATION.tables if not fold(facts).table(table)}
    assert empty == {"run_keys", "claims"}
