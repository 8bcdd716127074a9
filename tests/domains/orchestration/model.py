"""What a set of facts means, written down without any thought of cost: the fold must find the same.

Facts are put into sets first, so nothing here can depend on their order. Then every state is read off the rules.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from arco.assets import GatingAction
from arco.domains.orchestration import (
    LONE_LOSSES,
    MAX_LOSSES,
    AttemptReaped,
    CancelKind,
    FailureCategory,
    FailurePolicy,
    Outcome,
    Plan,
    PlanCreated,
    RunCancelled,
    RunTriggered,
    TaskClaimed,
    TaskFinished,
)
from tests.domains.orchestration.facts import LOG, Fact

__all__ = ["Meaning", "meaning_of"]

BLOCKS = (GatingAction.BLOCK_DOWNSTREAM, GatingAction.QUARANTINE, GatingAction.FAIL_TASK, GatingAction.FAIL_RUN)
FINAL = (GatingAction.FAIL_TASK, GatingAction.FAIL_RUN)


@dataclass
class _Attempt:
    attempt_id: str
    claimed: int | None = None
    end: tuple[int, str, Any] | None = None
    """When, in which state, by which fact."""


@dataclass
class Meaning:
    run: str
    tasks: dict[str, str] = field(default_factory=dict)
    first_failure: str | None = None
    failures: dict[str, int] = field(default_factory=dict)
    losses: dict[str, int] = field(default_factory=dict)


def _attempts(facts: Iterable[tuple[int, Any]]) -> dict[str, dict[int, _Attempt]]:
    found: dict[str, dict[int, _Attempt]] = {}
    about = [(at, fact) for at, fact in facts if isinstance(fact, TaskClaimed | TaskFinished | AttemptReaped)]
    for _, fact in about:
        numbers = found.setdefault(fact.task_key, {})
        best = max(
            other.attempt_id for _, other in about if (other.task_key, other.attempt) == (fact.task_key, fact.attempt)
        )
        numbers.setdefault(fact.attempt, _Attempt(best))
    for at, fact in about:
        attempt = found[fact.task_key][fact.attempt]
        if fact.attempt_id != attempt.attempt_id:
            continue
        if isinstance(fact, TaskClaimed):
            attempt.claimed = min(at, attempt.claimed or at)
            continue
        state = _end_state(fact)
        attempt.end = min(attempt.end or (at, state, fact), (at, state, fact), key=lambda end: end[:2])
    return found


def _end_state(fact: TaskFinished | AttemptReaped) -> str:
    if isinstance(fact, AttemptReaped):
        return "REAPED"
    is_loss = fact.failure is not None and fact.failure.category is FailureCategory.WORKER_LOST
    return "REAPED" if is_loss else fact.outcome.value.upper()


def meaning_of(facts: Iterable[Fact]) -> Meaning:
    known = [(fact.received, LOG.registry.decode(fact.event.type, 1, fact.event.data)) for fact in facts]
    trigger = next((fact for _, fact in known if isinstance(fact, RunTriggered)), None)
    cancel = min(
        ((at, fact.kind.value, fact.reason) for at, fact in known if isinstance(fact, RunCancelled)), default=None
    )
    plan = next((fact.plan for _, fact in known if isinstance(fact, PlanCreated)), None)
    attempts = _attempts(known)
    meaning = Meaning("PENDING")
    for task, numbers in attempts.items():
        ends = [attempt.end[1] for attempt in numbers.values() if attempt.end]
        meaning.failures[task], meaning.losses[task] = ends.count("FAILED"), ends.count("REAPED")
        meaning.tasks[task] = "PLANNED"
    if plan is not None:
        policy = trigger.failure_policy if trigger else FailurePolicy.CONTINUE
        _add_tasks(meaning, plan, attempts, policy, cancel)
        if trigger is not None:
            meaning.run = _run_state(meaning, plan, cancel)
    return meaning


def _add_tasks(
    meaning: Meaning,
    plan: Plan,
    attempts: dict[str, dict[int, _Attempt]],
    policy: FailurePolicy,
    cancel: tuple[int, str, str] | None,
) -> None:
    newest = {task: numbers[max(numbers)] for task, numbers in attempts.items()}
    ends: dict[str, tuple[int, str]] = {}
    """Tasks whose newest attempt decides: when and how."""
    waiting: dict[str, int] = {}
    failed: list[tuple[bool, int, str]] = []
    sizes = Counter(task.batch for task in plan.tasks if task.batch)
    for task in plan.tasks:
        key = task.task_key
        end = newest[key].end if key in newest else None
        if end is None:
            continue
        at, state, fact = end
        if state in ("SUCCEEDED", "CANCELLED"):
            ends[key] = at, state
        elif state == "REAPED":
            final = meaning.losses[key] >= _most_losses(sizes[task.batch])
            _end(ends, waiting, failed, key, at, final, GatingAction.CONTINUE)
        else:
            retryable = fact.failure is not None and fact.failure.retryable and fact.gate not in FINAL
            final = not retryable or meaning.failures[key] > task.retries.count
            _end(ends, waiting, failed, key, at, final, fact.gate)
    first = min(failed, default=None)
    meaning.first_failure = first[2] if first else None
    stopped = first[1] if first and (policy is FailurePolicy.FAIL_FAST or not first[0]) else None
    for key in waiting:
        if stopped is not None and (cancel is None or stopped < cancel[0]):
            meaning.tasks[key] = "FAILED"
        else:
            meaning.tasks[key] = "RETRY_WAIT" if cancel is None else "CANCELLED"
    for key, (_, state) in ends.items():
        meaning.tasks[key] = state
    for task in plan.tasks:
        key = task.task_key
        if key not in newest:
            meaning.tasks[key] = _not_begun(meaning, newest, task.upstream, stopped is not None, cancel is not None)
        elif newest[key].end is None:
            meaning.tasks[key] = "RUNNING"


def _most_losses(size: int) -> int:
    """Alone ten; in a batch as often as it can be halved, and then three times alone."""
    if size < 2:
        return MAX_LOSSES
    halvings = 0
    while size > 1:
        size, halvings = size // 2, halvings + 1
    return halvings + LONE_LOSSES


def _end(
    ends: dict[str, tuple[int, str]],
    waiting: dict[str, int],
    failed: list[tuple[bool, int, str]],
    key: str,
    at: int,
    final: bool,
    gate: GatingAction,
) -> None:
    if final:
        ends[key] = at, "FAILED"
        failed.append((gate is not GatingAction.FAIL_RUN, at, key))
    else:
        waiting[key] = at


def _not_begun(
    meaning: Meaning, newest: dict[str, _Attempt], upstream: Iterable[str], stopped: bool, cancelled: bool
) -> str:
    edges = set()
    for key in upstream:
        end = newest[key].end if key in newest else None
        gated = end is not None and isinstance(end[2], TaskFinished) and end[2].gate in BLOCKS
        edges.add("FAILED" if gated and meaning.tasks[key] == "SUCCEEDED" else meaning.tasks[key])
    if cancelled or "CANCELLED" in edges:
        return "CANCELLED"
    if stopped or edges & {"FAILED", "SKIPPED"}:
        return "SKIPPED"
    return "READY" if edges <= {"SUCCEEDED"} else "BLOCKED"


def _run_state(meaning: Meaning, plan: Plan, cancel: tuple[int, str, str] | None) -> str:
    states = [meaning.tasks[task.task_key] for task in plan.tasks]
    if not set(states) <= {Outcome.SUCCEEDED.name, "FAILED", "SKIPPED", "CANCELLED"}:
        return "CANCELLING" if cancel else "RUNNING"
    if "FAILED" in states or (cancel is not None and cancel[1] == CancelKind.TIMED_OUT):
        return "FAILED"
    if cancel is not None:
        return "CANCELLED"
    if "SKIPPED" in states:
        return "FAILED"
    return "CANCELLED" if "CANCELLED" in states else "SUCCEEDED"
