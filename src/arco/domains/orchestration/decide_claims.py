"""Deciders of attempts: claim, give up; and of dispatches into queues outside.

`claims` and `active_runs` are the few rows of the workspace that a claim needs, and of each run it reads no more ready
tasks than it can take. A batch is taken as a whole, as far as its tasks are ready, and counts as one: it does not wait
until more of it is. What was lost before is taken in smaller parts (`retry`).
"""

from collections.abc import AsyncIterator, Sequence

import msgspec

from arco.core import Conflict, NotFound
from arco.domains.execution import PARTITIONS, MaterializationFailed, Partition
from arco.domains.orchestration.commands import (
    STALE_ATTEMPT,
    ClaimTasks,
    ConfirmDispatch,
    ReapAttempts,
    ReapWorker,
    RequestDispatch,
)
from arco.domains.orchestration.decide_runs import known_run
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
from arco.domains.orchestration.ids import attempt_key, cloud_task_id, dispatch_id
from arco.domains.orchestration.tables import (
    ACTIVE_RUNS,
    ATTEMPTS,
    CLAIMS,
    DISPATCH_OUTBOX,
    PLAN_TASKS,
    READY_BATCHES,
    READY_TASKS,
    RUNS,
    TASKS,
    WORKSPACE,
    ActiveRunRow,
    AttemptRow,
    ClaimRow,
    DispatchRow,
    PlanTaskRow,
    ReadyBatchRow,
    ReadyTaskRow,
    RunRow,
    RunState,
    TaskRow,
)
from arco.log import MAX_EVENT_BYTES, NewEvent
from arco.state import Decision, View, new_event

__all__ = [
    "active_runs",
    "claim_tasks",
    "confirm_dispatch",
    "known_task",
    "reap_attempts",
    "reap_worker",
    "request_dispatch",
]

_PAGE = 100
_MAX_FAILED = MAX_EVENT_BYTES * 3 // 4
"""Bytes that the outputs take which the attempts name that are given up at once: they may be those of one, and fit into
its event. Partitions beyond that stay as they are."""
_MAX_ERROR = 1_000


async def known_task(view: View, run_id: str, task_key: str) -> TaskRow:
    row: TaskRow | None = await view.get(TASKS, run_id, (run_id, task_key))
    if row is None:
        await known_run(view, run_id)
        raise NotFound(f"the run {run_id} has no task {task_key}", run_id=run_id, task_key=task_key)
    return row


Ready = ReadyTaskRow | ReadyBatchRow


async def claim_tasks(command: ClaimTasks, view: View, decision: Decision) -> list[NewEvent]:
    claims: list[ClaimRow] = await view.rows(CLAIMS, WORKSPACE)
    free = min(command.slots, command.capacity - len({claim.slot for claim in claims}))
    running: dict[str, set[str]] = {}
    for claim in claims:
        running.setdefault(claim.run_id, set()).add(claim.slot)
    events: list[NewEvent] = []
    if free <= 0:
        return events
    async for run in active_runs(view):
        room = free
        if run.max_parallelism:
            room = min(room, run.max_parallelism - len(running.get(run.run_id, ())))
        if room <= 0 or run.state != RunState.RUNNING:
            continue
        for batch in await _batches(view, run.run_id, room, decision.received):
            events += _claimed(command, decision, batch, len(events))
            free -= 1
        if not free:
            break
    return events


def _claimed(command: ClaimTasks, decision: Decision, batch: Sequence[Ready], index: int) -> list[NewEvent]:
    """The events that claim some tasks together, the first of them being the so many-th of the command."""
    ids = [decision.new_id(f"attempt:{number}") for number in range(index, index + len(batch))]
    batch_id = ids[0] if len(ids) > 1 else ""
    return [
        new_event(
            TASK_CLAIMED,
            TaskClaimed(
                task.run_id,
                task.task_key,
                task.attempt,
                attempt_id,
                command.worker,
                command.session,
                batch_id,
                len(ids),
            ),
            subject=task.run_id,
        )
        for task, attempt_id in zip(batch, ids, strict=True)
    ]


async def _batches(view: View, run_id: str, room: int, now: int) -> list[Sequence[Ready]]:
    """What of a run may begin now, in its order: tasks that are alone, and batches."""
    found: list[Sequence[Ready]] = []
    taken: set[str] = set()
    after: tuple[str, str] | None = None
    limit = room
    while len(found) < room:
        rows: list[ReadyTaskRow] = await view.page(READY_TASKS, run_id, after, limit)
        for row in rows:
            # They are in the order of the time from which on they may begin.
            if row.not_before > now or len(found) == room:
                return found
            if row.task_key not in taken:
                batch = [row] if row.batch_key is None else await _together(view, row, taken, now)
                taken |= {task.task_key for task in batch}
                found.append(batch)
        if len(rows) < limit:
            break
        after, limit = (run_id, rows[-1].order_key), _PAGE
    return found


async def _together(view: View, first: ReadyTaskRow, taken: set[str], now: int) -> Sequence[Ready]:
    """A task and those that may be claimed with it, as many as may be."""
    prefix, limit = f"{first.batch_key}:", first.batch_limit or 1
    found: list[Ready] = []
    after = (first.run_id, prefix)
    while len(found) < limit:
        rows: list[ReadyBatchRow] = await view.page(READY_BATCHES, first.run_id, after, limit)
        for row in rows:
            if not row.order_key.startswith(prefix) or row.not_before > now or len(found) == limit:
                return found
            if row.task_key not in taken:
                found.append(row)
        if len(rows) < limit:
            break
        after = (first.run_id, rows[-1].order_key)
    return found


async def active_runs(view: View) -> AsyncIterator[ActiveRunRow]:
    """Runs that have not ended, in the order in which they are served."""
    after: str | None = None
    while True:
        found: list[ActiveRunRow] = await view.page(ACTIVE_RUNS, WORKSPACE, after, _PAGE)
        for run in found:
            yield run
        if len(found) < _PAGE:
            return
        after = found[-1].order_key


async def reap_attempts(command: ReapAttempts, view: View, decision: Decision) -> list[NewEvent]:
    found = [await view.get(CLAIMS, WORKSPACE, attempt_id) for attempt_id in dict.fromkeys(command.attempt_ids)]
    claims = [claim for claim in found if claim is not None]
    return await _reap(claims, command.reason, view, began=command.began)


async def reap_worker(command: ReapWorker, view: View, decision: Decision) -> list[NewEvent]:
    claims: list[ClaimRow] = await view.rows(CLAIMS, WORKSPACE)
    reason = f"the worker {command.worker} began anew and knows nothing of this attempt"
    lost = [claim for claim in claims if claim.worker == command.worker and claim.session != command.session]
    return await _reap(lost, reason, view)


async def _reap(claims: Sequence[ClaimRow], reason: str, view: View, *, began: bool = True) -> list[NewEvent]:
    events, room = [], _MAX_FAILED
    for claim in claims:
        failed = tuple([part async for part in _unwritten(claim, reason, view)]) if began else ()
        size = len(msgspec.json.encode(failed))
        if size > room:
            failed, size = (), 0
        room -= size
        event = AttemptReaped(claim.run_id, claim.task_key, claim.attempt, claim.attempt_id, reason, failed)
        events.append(new_event(ATTEMPT_REAPED, event, subject=claim.run_id))
    return events


async def _unwritten(claim: ClaimRow, reason: str, view: View) -> AsyncIterator[MaterializationFailed]:
    """What an attempt was to write that ends without a word. If its run was cancelled, it did not fail.

    When it ended nobody knows, and it may be told long after. So it counts from when it was claimed: a partition of
    which somebody else told since then that it was written, or that it failed, is left as it is.
    """
    run_id, key = claim.run_id, (claim.run_id, claim.task_key)
    run: RunRow | None = await view.get(RUNS, run_id, run_id)
    task: TaskRow | None = await view.get(TASKS, run_id, key)
    plan: PlanTaskRow | None = await view.get(PLAN_TASKS, run_id, key)
    if run is None or run.cancelled_at is not None or task is None or plan is None:
        return
    for output in plan.outputs:
        part: Partition | None = await view.get(PARTITIONS, output.asset_id, output.partition_id)
        is_own = part is not None and (part.last_run_id, part.last_task_id) == (run_id, task.task_id)
        if part is not None and not is_own and await _is_told_since(part, claim, view):
            continue
        yield MaterializationFailed(
            output.asset_id,
            output.asset_key,
            output.partition_id,
            output.partition_key,
            run_id,
            task.task_id,
            reason[:_MAX_ERROR],
            _after(part, claim.claimed_at),
        )


def _after(part: Partition | None, claimed_at: int) -> int:
    """A time that is not before what is known of a partition: its worker's clock may be ahead of the log's."""
    return claimed_at if part is None else max(claimed_at, part.last_success_at or 0, part.last_failure_at or 0)


async def _is_told_since(part: Partition, claim: ClaimRow, view: View) -> bool:
    """Whether the one who told last of a partition did so after a claim.

    When it was received says so, not when a worker says that it happened: clocks differ. A partition also changes when
    its files are compacted or a version expires, so what counts is when the attempt ended that told. Where no task of
    this key told, nobody knows when that was; then any change counts.
    """
    if part.updated_at <= claim.claimed_at:
        return False
    run_id = part.last_run_id
    task: TaskRow | None = await view.get(TASKS, run_id, (run_id, claim.task_key))
    if task is None or task.task_id != part.last_task_id:
        return True
    for number in (task.attempt, task.attempt - 1):  # if the newest one runs, the one before it told
        attempt: AttemptRow | None = await view.get(ATTEMPTS, run_id, (run_id, task.task_key, attempt_key(number)))
        if attempt is not None and attempt.ended_at is not None:
            return attempt.ended_at > claim.claimed_at
    return True


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
