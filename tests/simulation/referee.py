"""`Referee`: reads every segment of `activity` at the moment it lands, and says at once if an event must not be there.

It keeps its own small model of runs, tasks and attempts, which knows nothing of tables. A violation is raised where the
segment is created, so that the trace of a seed ends with its cause.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from arco.assets import Backoff, GatingAction
from arco.core import SECOND
from arco.domains.orchestration import (
    LONE_LOSSES,
    MAX_LOSSES,
    AttemptReaped,
    DispatchEnqueued,
    DispatchRequested,
    FailureCategory,
    FailurePolicy,
    Outcome,
    PlanCreated,
    RunCancelled,
    RunTriggered,
    Task,
    TaskClaimed,
    TaskFinished,
)
from arco.log import Event, decode_segment
from arco.runtime import DEFINITIONS
from tests.simulation.scheduler import Scheduler, Violation

__all__ = ["Attempt", "Referee", "RunModel", "Standing", "TaskModel"]

ONE_END = "every claimed attempt ends by exactly one event"
ONE_RUNS = "at most one attempt of a task runs"
ONCE = "a task succeeds at most once"
ORDER = "nothing runs before its dependencies succeeded"
LIMITS = "capacity and parallelism are never exceeded"
STOPPED = "nothing begins in a run that was cancelled or stopped"
RETRIES = "no attempt begins before its time"
DISPATCH = "a dispatch is noted once"
BATCHES = "what is claimed together belongs together"
SPLIT = "what was lost together goes on in halves"
WHOLE = "a batch is claimed as far as it is ready"

REGISTRY = DEFINITIONS[1].registry
FINAL = (GatingAction.FAIL_TASK, GatingAction.FAIL_RUN)
BLOCKING = (GatingAction.BLOCK_DOWNSTREAM, GatingAction.QUARANTINE)


@dataclass
class Attempt:
    run_id: str
    task_key: str
    number: int
    attempt_id: str
    worker: str
    session: str
    received: int
    time: float
    """When it was claimed, in the time of the simulation."""
    end: str = ""
    """`SUCCEEDED`, `FAILED`, `CANCELLED`, `REAPED`; empty while it runs."""
    ended: int = 0
    ended_time: float = 0.0
    result: TaskFinished | None = None
    reason: str = ""
    batch_id: str = ""
    batch_tasks: int = 1

    @property
    def slot(self) -> str:
        return self.batch_id or self.attempt_id


@dataclass
class TaskModel:
    task: Task
    size: int = 1
    """Tasks of the plan in the same batch."""
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def newest(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    def count(self, end: str) -> int:
        return sum(attempt.end == end for attempt in self.attempts)

    @property
    def is_final(self) -> bool:
        """Whether its newest attempt, which failed or was lost, was the last one."""
        newest = self.newest
        assert newest is not None
        if newest.end == "REAPED":
            most = MAX_LOSSES if self.size < 2 else self.size.bit_length() - 1 + LONE_LOSSES
            return self.count("REAPED") >= most
        result = newest.result
        assert result is not None
        assert result.failure is not None
        if not result.failure.retryable or result.gate in FINAL:
            return True
        return self.count("FAILED") > self.task.retries.count


@dataclass
class RunModel:
    trigger: RunTriggered
    tasks: dict[str, TaskModel] = field(default_factory=dict)
    """In the order of the plan: what a task depends on comes before it."""
    cancelled: RunCancelled | None = None

    def states(self) -> dict[str, str]:
        """How each task stands: `RUNNING`, `READY`, `RETRY_WAIT`, `BLOCKED`, or an end."""
        stopped = self.is_stopped
        found: dict[str, str] = {}
        for key, model in self.tasks.items():
            newest = model.newest
            if newest is None:
                found[key] = self._not_begun(model, found, stopped)
            elif not newest.end:
                found[key] = "RUNNING"
            elif newest.end in ("SUCCEEDED", "CANCELLED"):
                found[key] = newest.end
            elif model.is_final or stopped or self.cancelled is not None:
                found[key] = "FAILED"
            else:
                found[key] = "RETRY_WAIT"
        return found

    @property
    def is_stopped(self) -> bool:
        """One failed for good, and that ends the run."""
        for model in self.tasks.values():
            newest = model.newest
            if newest is not None and newest.end in ("FAILED", "REAPED") and model.is_final:
                failing = newest.result is not None and newest.result.gate is GatingAction.FAIL_RUN
                if failing or self.trigger.failure_policy is FailurePolicy.FAIL_FAST:
                    return True
        return False

    def _not_begun(self, model: TaskModel, found: dict[str, str], stopped: bool) -> str:
        if self.cancelled is not None:
            return "CANCELLED"
        above = {self._edge(key, found[key]) for key in model.task.upstream}
        if above & {"FAILED", "SKIPPED", "CANCELLED"} or stopped:
            return "SKIPPED"
        return "READY" if above <= {"SUCCEEDED"} else "BLOCKED"

    def _edge(self, key: str, state: str) -> str:
        newest = self.tasks[key].newest
        gated = newest is not None and newest.result is not None and newest.result.gate in BLOCKING
        return "FAILED" if gated else state

    @property
    def is_over(self) -> bool:
        return not {"RUNNING", "READY", "RETRY_WAIT", "BLOCKED"} & set(self.states().values())


@dataclass(frozen=True)
class Standing:
    """What the tables of the workspace must say after a segment."""

    claims: frozenset[str]
    """Ids of attempts that run."""
    ready: frozenset[tuple[str, str, int]]
    """Run, task and number of the next attempt of all that may begin, now or later."""
    active: frozenset[str]


class Referee:
    def __init__(self, scheduler: Scheduler, capacity: int) -> None:
        self.scheduler = scheduler
        self.capacity = capacity
        self.runs: dict[str, RunModel] = {}
        self.attempts: dict[str, Attempt] = {}
        self.running: dict[str, Attempt] = {}
        self.dispatches: dict[str, set[str]] = {}
        self.facts: list[tuple[int, Event]] = []
        """Every event with the time its segment was received."""
        self.standings: dict[int, Standing] = {0: Standing(frozenset(), frozenset(), frozenset())}
        """After each segment."""
        self.tail = 0
        self.together: list[int] = []
        """Results in each segment."""

    def segment(self, data: bytes, path: str) -> None:
        """A segment has landed."""
        segment = decode_segment(data, path)
        batches: dict[str, list[tuple[TaskClaimed, int]]] = {}
        """What was claimed together, and how often each had been lost by then."""
        ready: dict[str, frozenset[str]] = {}
        for event in segment.events:
            self.facts.append((segment.header.received, event))
            payload = REGISTRY.decode(event.type, event.version, event.data)
            if isinstance(payload, TaskClaimed):
                slot = payload.batch_id or payload.attempt_id
                if slot not in batches:
                    ready[slot] = self._companions(payload)
                lost = self.runs[payload.run_id].tasks[payload.task_key].count("REAPED")
                batches.setdefault(slot, []).append((payload, lost))
            self._event(payload, segment.header.received)
        for slot, claimed in batches.items():
            claims, losses = zip(*claimed, strict=True)
            self._check_batch(claims, set(losses), ready[slot])
        self.together.append(sum(event.type == "TaskFinished" for event in segment.events))
        self.tail = segment.header.number
        self.standings[self.tail] = self._standing()

    def _companions(self, event: TaskClaimed) -> frozenset[str]:
        """What has never been tried and could be claimed with a task, as things stand before it is."""
        run = self.runs[event.run_id]
        model, states = run.tasks[event.task_key], run.states()
        if not model.task.batch or model.attempts:
            return frozenset()
        return frozenset(
            key
            for key, other in run.tasks.items()
            if other.task.batch == model.task.batch and states[key] == "READY" and not other.attempts
        )

    def _check_batch(self, claims: Sequence[TaskClaimed], losses: set[int], ready: frozenset[str]) -> None:
        run = self.runs[claims[0].run_id]
        models = [run.tasks[one.task_key] for one in claims]
        keys = {one.task_key for one in claims}
        names = {(one.run_id, one.worker, one.session, one.batch_tasks) for one in claims}
        planned = {model.task.batch for model in models}
        if len(names) > 1 or claims[0].batch_tasks != len(claims) or len(keys) != len(claims):
            raise Violation(BATCHES, f"{sorted(keys)} were claimed as {claims[0].batch_tasks} by {len(names)}")
        if len(claims) > 1 and (len(planned) > 1 or "" in planned):
            raise Violation(BATCHES, f"{sorted(keys)} are of the batches {sorted(planned)}")
        limit = max(1, models[0].size >> max(losses))
        if len(claims) > 1 and (len(losses) > 1 or len(claims) > limit):
            raise Violation(SPLIT, f"{len(claims)} of {models[0].size} were claimed after {sorted(losses)} losses")
        if len(claims) < limit and not ready <= keys:
            raise Violation(WHOLE, f"{sorted(ready - keys)} were left behind by {sorted(keys)}")

    def _standing(self) -> Standing:
        ready = set()
        active = set()
        for run_id, run in self.runs.items():
            states = run.states()
            if {"RUNNING", "READY", "RETRY_WAIT", "BLOCKED"} & set(states.values()):
                active.add(run_id)
            for key, state in states.items():
                if state in ("READY", "RETRY_WAIT"):
                    ready.add((run_id, key, len(run.tasks[key].attempts) + 1))
        return Standing(frozenset(self.running), frozenset(ready), frozenset(active))

    def _event(self, event: Any, received: int) -> None:
        match event:
            case RunTriggered():
                self.runs[event.run_id] = RunModel(event)
            case PlanCreated():
                assert event.plan is not None
                sizes = Counter(task.batch for task in event.plan.tasks if task.batch)
                self.runs[event.run_id].tasks = {
                    task.task_key: TaskModel(task, sizes.get(task.batch, 1)) for task in event.plan.tasks
                }
            case RunCancelled():
                self._cancelled(self.runs[event.run_id], event)
            case TaskClaimed():
                self._claimed(event, received)
            case TaskFinished():
                lost = event.failure is not None and event.failure.category is FailureCategory.WORKER_LOST
                self._ended(event, "REAPED" if lost else event.outcome.value.upper(), received)
            case AttemptReaped():
                self._ended(event, "REAPED", received)
            case DispatchRequested() | DispatchEnqueued():
                kinds = self.dispatches.setdefault(event.dispatch_id, set())
                if type(event).__name__ in kinds:
                    raise Violation(DISPATCH, f"{type(event).__name__} of {event.dispatch_id} stands in the log twice")
                kinds.add(type(event).__name__)

    def _cancelled(self, run: RunModel, event: RunCancelled) -> None:
        if run.cancelled is not None or run.is_over:
            raise Violation(STOPPED, f"the run {event.run_id} was cancelled after its end")
        run.cancelled = event

    def _claimed(self, event: TaskClaimed, received: int) -> None:
        run = self.runs[event.run_id]
        model = run.tasks[event.task_key]
        what = f"attempt {event.attempt} of {event.task_key}"
        newest = model.newest
        if newest is not None and not newest.end:
            raise Violation(ONE_RUNS, f"{what} was claimed while attempt {newest.number} runs")
        if model.count("SUCCEEDED"):
            raise Violation(ONCE, f"{what} was claimed though the task has succeeded")
        if event.attempt != len(model.attempts) + 1 or event.attempt_id in self.attempts:
            raise Violation(ONE_RUNS, f"{what} was claimed after {len(model.attempts)} attempts")
        state = run.states()[event.task_key]
        if state == "BLOCKED" or (newest is None and state == "SKIPPED" and not run.is_stopped):
            raise Violation(ORDER, f"{what} was claimed though {model.task.upstream} have not all succeeded")
        if state not in ("READY", "RETRY_WAIT"):
            raise Violation(STOPPED, f"{what} was claimed though it is {state}")
        if newest is not None and received < newest.ended + round(_least_delay(model) * SECOND):
            raise Violation(RETRIES, f"{what} was claimed {received - newest.ended} us after the last one ended")
        attempt = Attempt(
            event.run_id,
            event.task_key,
            event.attempt,
            event.attempt_id,
            event.worker,
            event.session,
            received,
            self.scheduler.time,
            batch_id=event.batch_id,
            batch_tasks=event.batch_tasks,
        )
        model.attempts.append(attempt)
        self.attempts[event.attempt_id] = self.running[event.attempt_id] = attempt
        slots = {other.slot for other in self.running.values()}
        if len(slots) > self.capacity:
            raise Violation(LIMITS, f"{len(slots)} slots are taken, the workspace allows {self.capacity}")
        beside = len({other.slot for other in self.running.values() if other.run_id == event.run_id})
        if 0 < run.trigger.max_parallelism < beside:
            raise Violation(LIMITS, f"{beside} slots of a run that allows {run.trigger.max_parallelism}")

    def _ended(self, event: TaskFinished | AttemptReaped, end: str, received: int) -> None:
        attempt = self.attempts.get(event.attempt_id)
        if attempt is None or attempt.number != event.attempt:
            raise Violation(ONE_END, f"{event.attempt_id} of {event.task_key} ended and was never claimed")
        if attempt.end:
            raise Violation(ONE_END, f"attempt {event.attempt} of {event.task_key} was {attempt.end}, now it is {end}")
        model = self.runs[event.run_id].tasks[event.task_key]
        if end == Outcome.SUCCEEDED.value.upper() and model.count(end):
            raise Violation(ONCE, f"{event.task_key} succeeded twice")
        attempt.end, attempt.ended, attempt.ended_time = end, received, self.scheduler.time
        if isinstance(event, TaskFinished):
            attempt.result = event
        else:
            attempt.reason = event.reason
        del self.running[event.attempt_id]


def _least_delay(model: TaskModel) -> float:
    """The shortest wait before the next attempt, whatever chance the jitter is."""
    retries, after = model.task.retries, len(model.attempts)
    factor = {Backoff.EXPONENTIAL: 2.0 ** (after - 1), Backoff.LINEAR: float(after), Backoff.FIXED: 1.0}
    delay = min(retries.delay_seconds * factor[retries.backoff], retries.max_delay_seconds)
    return max(0.0, delay * (1.0 - retries.jitter) - 0.001)
