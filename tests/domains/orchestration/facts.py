"""Facts about runs, and a fold of them in memory: rows by table and key, without positions.

The received time travels with a fact, so that facts in another order are the same facts. `Rows` folds batch by batch on
top of what it has, as a replica does.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import pytest

from arco.assets import GatingAction, Retries
from arco.domains.execution import EXECUTION
from arco.domains.orchestration import (
    ATTEMPT_REAPED,
    DISPATCH_ENQUEUED,
    DISPATCH_REQUESTED,
    ORCHESTRATION,
    PLAN_CREATED,
    RUN_CANCELLED,
    RUN_TRIGGERED,
    TASK_CLAIMED,
    TASK_FINISHED,
    AttemptReaped,
    CancelKind,
    DispatchEnqueued,
    DispatchRequested,
    FailureCategory,
    Outcome,
    Output,
    Plan,
    PlanCreated,
    RunCancelled,
    RunTriggered,
    Task,
    TaskClaimed,
    TaskFailure,
    TaskFinished,
    cloud_task_id,
    dispatch_id,
    plan_fingerprint,
)
from arco.log import Event, EventType
from arco.state import Table, define_log
from arco.state._fold import Rows as TableRows
from arco.state._fold import Versioned, fold_batch
from tests.doubles import START
from tests.state.doubles import event

__all__ = [
    "LOG",
    "RUN",
    "Fact",
    "Rows",
    "cancel",
    "claim",
    "dispatch",
    "enqueue",
    "finish",
    "fold",
    "plan_of",
    "planned",
    "planned_apart",
    "reap",
    "task_of",
    "triggered",
]

LOG = define_log("activity", [EXECUTION, ORCHESTRATION])
RUN = "run-1"
RETRIES = Retries(count=2, delay_seconds=10, jitter=0.2)


class Fact(NamedTuple):
    received: int
    event: Event


def fact(kind: EventType, payload: msgspec.Struct, second: float) -> Fact:
    return Fact(START + round(second * 1_000_000), event(kind.name, payload))


def task_of(key: str, upstream: Iterable[str] = (), stage: int = 0, retries: Retries = RETRIES) -> Task:
    output = Output(f"asset-{key}", key, f"partition-{key}")
    return Task(key, f"task-{key}", key, "", (output,), tuple(sorted(upstream)), (), stage, f"{key} is wanted", retries)


def plan_of(edges: Mapping[str, Iterable[str]], retries: Retries = RETRIES, batch: int = 1) -> Plan:
    """The plan of a graph given as what each task depends on; a task comes after those it depends on.

    With `batch` so many tasks of a stage are one batch.
    """
    stages: dict[str, int] = {}
    for key, upstream in edges.items():
        stages[key] = 1 + max((stages[up] for up in upstream), default=-1)
    tasks = [task_of(key, upstream, stages[key], retries) for key, upstream in edges.items()]
    tasks.sort(key=lambda task: (task.stage, task.task_key))
    if batch > 1:
        tasks = [
            msgspec.structs.replace(task, unit=f"u{stage}", batch=f"u{stage}#{index // batch}")
            for stage, found in groupby(tasks, lambda task: task.stage)
            for index, task in enumerate(found)
        ]
    return Plan("v1", "1", "1", "request", tuple(tasks))


def triggered(plan: Plan, second: float = 0, run: str = RUN, **more: Any) -> Fact:
    event = RunTriggered(run, plan_fingerprint(plan), "v1", "d1", "request", "*", len(plan.tasks), **more)
    return fact(RUN_TRIGGERED, event, second)


def planned(plan: Plan, second: float = 0, run: str = RUN) -> Fact:
    return fact(PLAN_CREATED, PlanCreated(run, plan_fingerprint(plan), plan), second)


def planned_apart(plan: Plan, blob: str, second: float = 0, run: str = RUN) -> Fact:
    """The plan is a blob of the event."""
    found = fact(PLAN_CREATED, PlanCreated(run, plan_fingerprint(plan)), second)
    return found._replace(event=msgspec.structs.replace(found.event, blobs=(blob,)))


def claim(
    task: str,
    second: float,
    attempt: int = 1,
    attempt_id: str = "",
    run: str = RUN,
    together: tuple[str, int] = ("", 1),
) -> Fact:
    """`together` are the id and the number of what was claimed at once."""
    payload = TaskClaimed(run, task, attempt, attempt_id or f"{run}/{task}/{attempt}", "worker", "life", *together)
    return fact(TASK_CLAIMED, payload, second)


def finish(
    task: str,
    second: float,
    attempt: int = 1,
    outcome: Outcome = Outcome.SUCCEEDED,
    *,
    retryable: bool = True,
    is_lost: bool = False,
    gate: GatingAction = GatingAction.CONTINUE,
    attempt_id: str = "",
    run: str = RUN,
) -> Fact:
    failure = None
    if outcome is Outcome.FAILED:
        category = FailureCategory.WORKER_LOST if is_lost else FailureCategory.TRANSFORM_ERROR
        failure = TaskFailure(category, "builtins.ValueError", "no", retryable=retryable)
    at = START + round(second * 1_000_000)
    attempt_id = attempt_id or f"{run}/{task}/{attempt}"
    payload = TaskFinished(run, task, attempt, attempt_id, outcome, at - 1, at, failure, gate=gate)
    return fact(TASK_FINISHED, payload, second)


def reap(task: str, second: float, attempt: int = 1, attempt_id: str = "", run: str = RUN) -> Fact:
    payload = AttemptReaped(run, task, attempt, attempt_id or f"{run}/{task}/{attempt}", "no heartbeat")
    return fact(ATTEMPT_REAPED, payload, second)


def cancel(second: float, kind: CancelKind = CancelKind.CANCELLED, run: str = RUN) -> Fact:
    return fact(RUN_CANCELLED, RunCancelled(run, kind, "enough"), second)


def dispatch(task: str, second: float, attempt: int = 1, run: str = RUN) -> Fact:
    name = dispatch_id(run, task, attempt)
    payload = DispatchRequested(run, task, attempt, name, cloud_task_id("d", name), "queue")
    return fact(DISPATCH_REQUESTED, payload, second)


def enqueue(task: str, second: float, attempt: int = 1, run: str = RUN) -> Fact:
    return fact(DISPATCH_ENQUEUED, DispatchEnqueued(run, task, attempt, dispatch_id(run, task, attempt)), second)


class Rows:
    """The state after the facts folded so far."""

    def __init__(self, blobs: Mapping[str, Plan] | None = None) -> None:
        self._blobs = blobs or {}
        self._rows: dict[str, dict[str, TableRows]] = {}
        self._position = 0
        self.rejections: list[str] = []

    async def load(self, table: Table, buckets: Iterable[int]) -> None:
        """Everything is in memory."""

    def group(self, table: Table, group: str) -> Mapping[Any, Versioned]:
        return self._rows.get(table.name, {}).get(group, {})

    async def attachment(self, event: Event) -> Any:
        return self._blobs[event.blobs[0]]

    def apply(self, facts: Sequence[Fact]) -> "Rows":
        """Fold facts as one batch. Nothing is awaited that is not there, so one step is all it takes."""
        with pytest.raises(StopIteration):
            self._apply(facts).send(None)
        return self

    async def _apply(self, facts: Sequence[Fact]) -> None:
        first = self._position + 1
        self._position += len(facts)
        events = [(position, given.received, given.event) for position, given in enumerate(facts, first)]
        folded = await fold_batch(LOG.domains, LOG.registry, self, events, {})
        for table, groups in folded.writes.items():
            for group, rows in groups.items():
                if table == "rejections":
                    self.rejections += [row.reason for _, row in rows.values()]
                else:
                    self._rows.setdefault(table, {}).setdefault(group, {}).update(rows)

    def table(self, table: Table) -> dict[Any, Any]:
        """Rows by key, without those that were deleted."""
        found = self._rows.get(table.name, {}).values()
        return {key: row for rows in found for key, (_, row) in rows.items() if row is not None}

    def all(self) -> dict[str, dict[Any, Any]]:
        """Everything the domain knows."""
        return {table.name: self.table(table) for table in ORCHESTRATION.tables}

    def states(self, table: Table) -> dict[str, str]:
        return {key if isinstance(key, str) else key[1]: row.state for key, row in self.table(table).items()}


def fold(facts: Sequence[Fact]) -> Rows:
    return Rows().apply(facts)
