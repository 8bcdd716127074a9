"""Deciders of attempts: claim, give up; and of dispatches into queues outside.

`claims` and `active_runs` are the few rows of the workspace that a claim needs, and of each run it reads no more ready
tasks than it can take.
"""

from collections import Counter
from collections.abc import AsyncIterator

from arco.core import Conflict, NotFound
from arco.domains.orchestration.commands import (
    STALE_ATTEMPT,
    ClaimTasks,
    ConfirmDispatch,
    ReapAttempt,
    ReapWorker,
    RequestDispatch,
)
from arco.domains.orchestration.derive import ready_row
from arco.domains.orchestration.events import (
    ATTEMPT_REAPED,
    DISPATCH_ENQUEUED,
    DISPATCH_REQUESTED,
    TASK_CLAIMED,
    AttemptReaped,
    DispatchEnqueued,
    DispatchRequested,
    TaskClaimed,
)
from arco.domains.orchestration.ids import cloud_task_id, dispatch_id
from arco.domains.orchestration.tables import (
    ACTIVE_RUNS,
    CLAIMS,
    DISPATCH_OUTBOX,
    READY_TASKS,
    TASKS,
    WORKSPACE,
    ActiveRunRow,
    ClaimRow,
    DispatchRow,
    ReadyTaskRow,
    RunState,
    TaskRow,
)
from arco.log import NewEvent
from arco.state import Decision, View, new_event

__all__ = ["claim_tasks", "confirm_dispatch", "known_task", "reap_attempt", "reap_worker", "request_dispatch"]

_PAGE = 100


async def known_task(view: View, run_id: str, task_key: str) -> TaskRow:
    row: TaskRow | None = await view.get(TASKS, run_id, (run_id, task_key))
    if row is None:
        raise NotFound(f"the run {run_id} has no task {task_key}", run_id=run_id, task_key=task_key)
    return row


async def claim_tasks(command: ClaimTasks, view: View, decision: Decision) -> list[NewEvent]:
    claims: list[ClaimRow] = await view.rows(CLAIMS, WORKSPACE)
    free = min(command.slots, command.capacity - len(claims))
    running = Counter(claim.run_id for claim in claims)
    events: list[NewEvent] = []
    if free <= 0:
        return events
    async for run in _runs(view):
        room = free - len(events)
        if run.max_parallelism:
            room = min(room, run.max_parallelism - running[run.run_id])
        if room <= 0 or run.state != RunState.RUNNING:
            continue
        ready: list[ReadyTaskRow] = await view.page(READY_TASKS, run.run_id, None, room)
        for task in ready:
            # They are in the order of the time from which on they may begin.
            if task.not_before > decision.received:
                break
            attempt_id = decision.new_id(f"attempt:{len(events)}")
            event = TaskClaimed(task.run_id, task.task_key, task.attempt, attempt_id, command.worker, command.session)
            events.append(new_event(TASK_CLAIMED, event, subject=task.run_id))
        if len(events) == free:
            break
    return events


async def _runs(view: View) -> AsyncIterator[ActiveRunRow]:
    """Runs that have not ended, in the order in which they are served."""
    after: str | None = None
    while True:
        found: list[ActiveRunRow] = await view.page(ACTIVE_RUNS, WORKSPACE, after, _PAGE)
        for run in found:
            yield run
        if len(found) < _PAGE:
            return
        after = found[-1].order_key


async def reap_attempt(command: ReapAttempt, view: View, decision: Decision) -> list[NewEvent]:
    claim: ClaimRow | None = await view.get(CLAIMS, WORKSPACE, command.attempt_id)
    return [_reap(claim, command.reason)] if claim is not None else []


async def reap_worker(command: ReapWorker, view: View, decision: Decision) -> list[NewEvent]:
    claims: list[ClaimRow] = await view.rows(CLAIMS, WORKSPACE)
    reason = f"the worker {command.worker} began anew and knows nothing of this attempt"
    lost = [claim for claim in claims if claim.worker == command.worker and claim.session != command.session]
    return [_reap(claim, reason) for claim in lost]


def _reap(claim: ClaimRow, reason: str) -> NewEvent:
    event = AttemptReaped(claim.run_id, claim.task_key, claim.attempt, claim.attempt_id, reason)
    return new_event(ATTEMPT_REAPED, event, subject=claim.run_id)


async def request_dispatch(command: RequestDispatch, view: View, decision: Decision) -> list[NewEvent]:
    task = await known_task(view, command.run_id, command.task_key)
    name = dispatch_id(task.run_id, task.task_key, command.attempt)
    if await view.get(DISPATCH_OUTBOX, task.run_id, (task.run_id, name)) is not None:
        return []
    if ready_row(task) is None or command.attempt != task.attempt + 1:
        raise Conflict(
            f"the task {task.task_key} is {task.state} at attempt {task.attempt}, so attempt {command.attempt} cannot "
            "be dispatched; look at the task again",
            code=STALE_ATTEMPT,
            attempt=task.attempt,
        )
    event = DispatchRequested(
        task.run_id, task.task_key, command.attempt, name, cloud_task_id("d", name), command.queue
    )
    return [new_event(DISPATCH_REQUESTED, event, subject=task.run_id)]


async def confirm_dispatch(command: ConfirmDispatch, view: View, decision: Decision) -> list[NewEvent]:
    row: DispatchRow | None = await view.get(DISPATCH_OUTBOX, command.run_id, (command.run_id, command.dispatch_id))
    if row is None:
        raise NotFound(f"the run {command.run_id} has no dispatch {command.dispatch_id}; request it first")
    if row.enqueued_at is not None:
        return []
    event = DispatchEnqueued(row.run_id, row.task_key, row.attempt, row.dispatch_id)
    return [new_event(DISPATCH_ENQUEUED, event, subject=row.run_id)]
