"""What must hold of the tables among each other, whatever happened: everything derived is recounted."""

from collections import Counter

from arco.domains.orchestration import (
    ACTIVE_RUNS,
    ATTEMPTS,
    CLAIMS,
    DEP_SATISFACTION,
    DISPATCH_OUTBOX,
    PLAN_TASKS,
    READY_BATCHES,
    READY_TASKS,
    RUNS,
    TASKS,
    TIMERS,
    TaskRow,
    TaskState,
)
from tests.domains.orchestration.facts import Rows

__all__ = ["check_order", "check_tables"]

RANKS = {"SKIPPED": 1, "FAILED": 2, "CANCELLED": 3}


def check_tables(rows: Rows) -> None:
    for run_id, run in rows.table(RUNS).items():
        tasks = {key: row for (owner, key), row in rows.table(TASKS).items() if owner == run_id}
        counts = Counter(task.state for task in tasks.values())
        assert run.succeeded_count == counts["SUCCEEDED"]
        assert run.failed_count == counts["FAILED"]
        assert run.skipped_count == counts["SKIPPED"]
        assert run.cancelled_count == counts["CANCELLED"]
        assert (run.ended_at is not None) == (run.state in ("SUCCEEDED", "FAILED", "CANCELLED"))
        ends = [task.ended_at for task in tasks.values() if task.ended_at is not None]
        known = [run.created_at, run.planned_at, run.started_at, run.cancelled_at, *ends]
        assert run.updated_at == max((at for at in known if at is not None), default=0)
        for task in tasks.values():
            _check_task(rows, tasks, task)
    _check_queue(rows)
    _check_batches(rows)
    _check_timers(rows)


def _resolution(task: TaskRow) -> str | None:
    if task.gate is not None and task.state == "SUCCEEDED":
        return "FAILED"
    return {"SUCCEEDED": "SUCCESS"}.get(task.state, task.state if task.ended_at is not None else None)


def _check_task(rows: Rows, tasks: dict[str, TaskRow], task: TaskRow) -> None:
    plan = rows.table(PLAN_TASKS).get((task.run_id, task.task_key))
    assert (task.state == "PLANNED") == (plan is None)
    assert (task.ended_at is not None) == TaskState(task.state).is_terminal
    attempts = {key[2]: row for key, row in rows.table(ATTEMPTS).items() if key[:2] == (task.run_id, task.task_key)}
    assert task.failures == sum(row.state == "FAILED" for row in attempts.values())
    assert task.losses == sum(row.state == "REAPED" for row in attempts.values())
    assert task.attempt == max((int(key) for key in attempts), default=0)
    if attempts:
        newest = attempts[max(attempts)]
        assert (task.attempt_id, task.worker, task.started_at) == (newest.attempt_id, newest.worker, newest.claimed_at)
        assert task.ended_at is None or task.ended_at >= newest.ended_at
    if plan is None:
        return
    edges = {up: _resolution(tasks[up]) for up in plan.upstream}
    for upstream, resolution in edges.items():
        edge = rows.table(DEP_SATISFACTION)[task.run_id, upstream, task.task_key]
        assert (edge.resolution, edge.satisfied) == (resolution, resolution == "SUCCESS")
        assert edge.satisfied_at == (tasks[upstream].ended_at if edge.satisfied else None)
    assert task.deps_satisfied_count == list(edges.values()).count("SUCCESS")
    assert task.deps_total == len(edges)
    worst = max((RANKS[found] for found in edges.values() if found in RANKS), default=0)
    blockers = [up for up, found in edges.items() if worst and RANKS.get(found or "") == worst]
    assert task.blocked_on == min(blockers, default=None)
    assert task.blocked_by == (edges[task.blocked_on] if task.blocked_on is not None else None)
    since = max([plan.planned_at, *(tasks[up].ended_at or 0 for up in edges)])
    assert task.ready_at == (since if task.deps_satisfied_count == task.deps_total else None)


def _check_queue(rows: Rows) -> None:
    """What may begin, what runs, and which runs are active follow from tasks and runs."""
    tasks, runs = rows.table(TASKS).values(), rows.table(RUNS).values()
    claimable = {task.task_key: task for task in tasks if task.state in ("READY", "DISPATCHED", "RETRY_WAIT")}
    ready = sorted(rows.table(READY_TASKS).items())
    assert sorted(row.task_key for _, row in ready) == sorted(claimable)
    order = [(row.not_before, claimable[row.task_key].stage, row.task_key) for _, row in ready]
    assert order == sorted(order)
    for _, row in ready:
        task = claimable[row.task_key]
        assert row.attempt == task.attempt + 1
        assert row.not_before == (task.retry_not_before or task.ready_at)
        dispatched = rows.table(DISPATCH_OUTBOX).get(
            (row.run_id, f"dispatch:{row.run_id}:{row.task_key}:{row.attempt}")
        )
        assert (task.state == "DISPATCHED") == (dispatched is not None and dispatched.status == "CREATED")
    running = {task.attempt_id: (task.run_id, task.task_key, task.attempt) for task in tasks if task.state == "RUNNING"}
    claims = rows.table(CLAIMS)
    assert {key: (row.run_id, row.task_key, row.attempt) for key, row in claims.items()} == running
    active = {run.run_id: run.state for run in runs if run.created_at is not None and run.ended_at is None}
    assert {row.run_id: row.state for row in rows.table(ACTIVE_RUNS).values()} == active


def _check_batches(rows: Rows) -> None:
    """What may be claimed together is listed batch by batch; what was, is one slot."""
    tasks = rows.table(TASKS)
    sizes = Counter((run_id, row.batch) for (run_id, _), row in rows.table(PLAN_TASKS).items() if row.batch)
    for (run_id, key), task in tasks.items():
        plan = rows.table(PLAN_TASKS).get((run_id, key))
        assert task.batch == (plan.batch if plan is not None else None)
        assert task.batch_size == (sizes[run_id, task.batch] if task.batch else None)
        assert task.batch_size is None or task.batch_size > 1
    listed = set()
    for row in rows.table(READY_TASKS).values():
        task = tasks[row.run_id, row.task_key]
        together = (task.batch_size or 1) // 2**task.losses
        assert row.batch_limit == (together if together > 1 else None)
        assert (row.batch_key is None) == (together <= 1)
        if row.batch_key is not None:
            listed.add((row.run_id, f"{row.batch_key}:{row.not_before:020d}:{row.task_key}", row.attempt))
    found = rows.table(READY_BATCHES)
    assert {(row.run_id, row.order_key, row.attempt) for row in found.values()} == listed
    assert all(key[1].endswith(f":{row.not_before:020d}:{row.task_key}") for key, row in found.items())
    for claim in rows.table(CLAIMS).values():
        attempt = rows.table(ATTEMPTS)[claim.run_id, claim.task_key, f"{claim.attempt:06d}"]
        assert claim.slot == (attempt.batch_id or claim.attempt_id)
        alone = tasks[claim.run_id, claim.task_key].timeout_seconds
        assert claim.timeout_seconds == (None if alone is None else alone * (attempt.batch_tasks or 1))


def _check_timers(rows: Rows) -> None:
    """Every wait that is or was is there, and none besides."""
    tasks, runs, found = rows.table(TASKS), rows.table(RUNS), rows.table(TIMERS).values()
    expected = {}
    for (run_id, key, number), row in rows.table(ATTEMPTS).items():
        task = tasks[run_id, key]
        if task.state == "PLANNED" or row.state not in ("FAILED", "REAPED"):
            continue
        if int(number) < task.attempt:
            expected[run_id, key, int(number)] = "FIRED"
        elif task.retry_not_before is not None:
            expected[run_id, key, int(number)] = "CANCELLED" if task.ended_at is not None else "SCHEDULED"
    retries = {(row.run_id, row.task_key, row.attempt): row.state for row in found if row.timer_type == "RETRY"}
    assert retries == expected
    assert len(retries) == sum(row.timer_type == "RETRY" for row in found)
    timeouts = {row.run_id: row.state for row in found if row.timer_type == "RUN_TIMEOUT"}
    limited = {key: run for key, run in runs.items() if run.timeout_seconds is not None}
    assert timeouts == {key: _timeout_state(run.cancel_kind, run.ended_at) for key, run in limited.items()}


def _timeout_state(cancel_kind: str | None, ended_at: int | None) -> str:
    if cancel_kind == "timed_out":
        return "FIRED"
    return "SCHEDULED" if ended_at is None else "CANCELLED"


def check_order(rows: Rows) -> None:
    """Of facts that were decided one after the other: nothing begins before what it depends on has succeeded."""
    tasks = rows.table(TASKS)
    for (run_id, key), task in tasks.items():
        if task.state in ("READY", "DISPATCHED", "RUNNING", "RETRY_WAIT"):
            upstream = rows.table(PLAN_TASKS)[run_id, key].upstream
            assert all(tasks[run_id, up].state == "SUCCEEDED" and not tasks[run_id, up].gate for up in upstream)
    ends = Counter(key[:2] for key, row in rows.table(ATTEMPTS).items() if row.state == "SUCCEEDED")
    assert all(count == 1 for count in ends.values())
