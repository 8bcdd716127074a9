"""`RunFold`: one fact about a run becomes the rows that follow from it.

A fact changes an attempt, a dispatch, the plan or the run itself; then every task whose standing this changed is
derived again (`derive`), in the order of stages, so that each is derived once after all it depends on. Only a plan, a
cancel and a failure that stops the run reach all tasks; everything else costs as much as the task has dependents.

Nothing here depends on the order of the facts: rows are functions of the set of facts, and sums (of satisfied edges,
failures, tasks by state) follow the changes of the rows they are sums of. Where a greatest or least value may have
gone, it is searched again among all rows; that happens only to facts that arrive out of order.
"""

from heapq import heappop, heappush

import msgspec

from arco.domains.orchestration.derive import (
    BLOCKED,
    CANCELLED,
    FAILED,
    OPEN,
    REAPED,
    RESOLUTION_RANK,
    SKIPPED,
    SUCCEEDED,
    Counts,
    Edge,
    Standing,
    derive_run,
    derive_task,
    edge_of,
    failed_by_itself,
    failure_order,
    fired_timer,
    ready_batch_row,
    ready_row,
    retry_timer,
    timeout_timer,
)
from arco.domains.orchestration.ids import attempt_key, dispatch_id
from arco.domains.orchestration.tables import (
    ATTEMPTS,
    DEP_SATISFACTION,
    DISPATCH_OUTBOX,
    PLAN_TASKS,
    READY_BATCHES,
    READY_TASKS,
    RUNS,
    TASKS,
    TIMERS,
    AttemptRow,
    DepSatisfactionRow,
    DispatchRow,
    PlanTaskRow,
    RunRow,
    TaskRow,
)
from arco.domains.orchestration.unknown import unknown_run, unknown_task
from arco.state import Group

__all__ = ["RunFold"]


class _Deps:
    """The edges into a task while they change."""

    __slots__ = ("blocked_by", "blocked_on", "is_lost", "satisfied", "task")

    def __init__(self, task: TaskRow) -> None:
        self.task = task
        """Its row before they do."""
        self.satisfied = task.deps_satisfied_count
        self.blocked_by = task.blocked_by
        self.blocked_on = task.blocked_on
        self.is_lost = False
        """What blocked it does not block it as much any more: look at all edges again."""

    def change(self, upstream: str, before: str | None, after: str | None) -> None:
        self.satisfied += (after == "SUCCESS") - (before == "SUCCESS")
        if self.blocked_on == upstream and _rank(after) < _rank(self.blocked_by):
            self.is_lost = True
        else:
            self.block(upstream, after)

    def block(self, upstream: str, resolution: str | None) -> None:
        rank, worst = _rank(resolution), _rank(self.blocked_by)
        if rank > worst or (rank == worst > 0 and upstream < (self.blocked_on or "")):
            self.blocked_by, self.blocked_on = resolution, upstream


def _rank(resolution: str | None) -> int:
    """How much an edge blocks: not at all if it is open or satisfied."""
    return RESOLUTION_RANK[resolution] if resolution is not None else 0


class RunFold:
    """The rows of one run while one fact is folded. `run` is its row as far as it is known; `settle` writes it."""

    __slots__ = (
        "_base",
        "_deps",
        "_failures",
        "_heap",
        "_latest",
        "_stored",
        "_tally",
        "group",
        "is_late",
        "run",
        "run_id",
    )

    def __init__(self, group: Group) -> None:
        self.group = group
        self.run_id = group.key
        self._stored: RunRow | None = group.get(RUNS, group.key)
        self._base: RunRow = self._stored if self._stored is not None else unknown_run(group.key)
        self.run = self._base
        self.is_late = False
        """A time that may have been the latest one became an earlier one: it must be searched."""
        self._heap: list[tuple[int, str]] = []
        """Tasks to derive again, by stage."""
        self._deps: dict[str, _Deps] = {}
        """Of the tasks to derive again those whose edges changed, and all tasks of a plan that is new."""
        self._tally: dict[str, int] = {}
        """By how much the number of tasks in a final state changes."""
        self._failures: dict[str, TaskRow] = {}
        """Tasks whose failure came, went or changed."""
        self._latest = 0
        """The latest end of a task that was written."""

    # Rows

    def task(self, task_key: str) -> TaskRow | None:
        row: TaskRow | None = self.group.get(TASKS, (self.run_id, task_key))
        return row

    def plan(self, task_key: str) -> PlanTaskRow | None:
        row: PlanTaskRow | None = self.group.get(PLAN_TASKS, (self.run_id, task_key))
        return row

    def attempt(self, task_key: str, attempt: int) -> AttemptRow | None:
        row: AttemptRow | None = self.group.get(ATTEMPTS, (self.run_id, task_key, attempt_key(attempt)))
        return row

    def dispatch(self, task_key: str, attempt: int) -> DispatchRow | None:
        key = (self.run_id, dispatch_id(self.run_id, task_key, attempt))
        row: DispatchRow | None = self.group.get(DISPATCH_OUTBOX, key)
        return row

    # What facts change

    def change_attempt(self, attempt: int, before: AttemptRow | None, after: AttemptRow) -> None:
        """An attempt is another one than before, or stands differently."""
        group, task_key = self.group, after.task_key
        group.put(ATTEMPTS, after)
        stored = self.task(task_key)
        task = stored if stored is not None else unknown_task(self.run_id, task_key)
        plan = self.plan(task_key)
        was, now = before.state if before is not None else "", after.state
        failures = task.failures + (now == FAILED) - (was == FAILED)
        losses = task.losses + (now == REAPED) - (was == REAPED)
        newest: AttemptRow | None = after
        if attempt < task.attempt:
            newest = self.attempt(task_key, task.attempt)
            self._fire_timer(plan, attempt, before, after)
        elif attempt > task.attempt > 0:
            left = self.attempt(task_key, task.attempt)
            self._fire_timer(plan, task.attempt, left, left)
        if before is None:
            dispatch = self.dispatch(task_key, attempt)
            if dispatch is not None:
                group.put(DISPATCH_OUTBOX, msgspec.structs.replace(dispatch, status="ACKED"))
        number = max(attempt, task.attempt)
        self._write(stored, self._derive(task, plan, None, newest, number, failures, losses, task.ready_at), plan)

    def _fire_timer(
        self, plan: PlanTaskRow | None, attempt: int, before: AttemptRow | None, after: AttemptRow | None
    ) -> None:
        """The wait after an attempt is over, because a later one was claimed."""
        if plan is None:
            return
        old = fired_timer(plan, attempt, before) if before is not None else None
        new = fired_timer(plan, attempt, after) if after is not None else None
        if old is not None and (new is None or new.timer_id != old.timer_id):
            self.group.delete(TIMERS, (old.run_id, old.timer_id))
        if new is not None:
            self.group.put(TIMERS, new)

    def change_dispatch(self, row: DispatchRow) -> None:
        self.group.put(DISPATCH_OUTBOX, row)
        task = self.task(row.task_key)
        if task is not None:
            heappush(self._heap, (task.stage, task.task_key))

    def add_task(self, task: TaskRow, plan: PlanTaskRow) -> None:
        """A task of a plan that has just become known; `task` has what never changes."""
        group, task_key = self.group, plan.task_key
        group.put(PLAN_TASKS, plan)
        for upstream in plan.upstream:
            group.put(DEP_SATISFACTION, _edge_row(self.run_id, upstream, task_key, OPEN))
        stored = self.task(task_key)
        if stored is not None:
            for number in range(1, stored.attempt):
                self._fire_timer(plan, number, None, self.attempt(task_key, number))
            task = msgspec.structs.replace(task, attempt=stored.attempt, failures=stored.failures, losses=stored.losses)
        self._deps[task_key] = _Deps(task)
        heappush(self._heap, (task.stage, task_key))

    # What follows

    def settle(self) -> None:
        """Derive what has to be derived again, then write the run."""
        used = _reach(self._stored)
        self._derive_queued()
        while self._is_run_changed():
            self.run = self._derive_run()
            if (reach := _reach(self.run)) == used:
                break
            used = reach
            for task in self.group.rows(TASKS):
                heappush(self._heap, (task.stage, task.task_key))
            self._derive_queued()
        if self.run != self._stored:
            self._write_run(self.run)

    def _is_run_changed(self) -> bool:
        changed = self._tally or self._failures or self._latest or self.is_late
        return bool(changed) or self.run is not self._stored

    def _derive_queued(self) -> None:
        """Stage by stage: what a task depends on is settled when its turn comes."""
        heap, last = self._heap, ""
        while heap:
            _, key = heappop(heap)
            if key == last:
                continue
            last = key
            deps = self._deps.pop(key, None)
            if deps is not None and self._count_edge(deps):
                continue
            stored = self.task(key)
            task = deps.task if deps is not None else stored
            if task is None:
                continue
            plan, ready_at = self.plan(key), task.ready_at
            if deps is not None and plan is not None:
                if deps.is_lost:
                    self._search_blocker(plan, deps)
                ready_at = self._ready_at(plan, deps)
            newest = self.attempt(key, task.attempt) if task.attempt else None
            row = self._derive(task, plan, deps, newest, task.attempt, task.failures, task.losses, ready_at)
            self._write(stored, row, plan)

    def _count_edge(self, deps: _Deps) -> bool:
        """A task that stays blocked has only one edge more: by far the most frequent change of a task that waits."""
        task = deps.task
        if task.state != BLOCKED or deps.satisfied == task.deps_total or deps.blocked_on is not None:
            return False
        self.group.put(TASKS, msgspec.structs.replace(task, deps_satisfied_count=deps.satisfied))
        return True

    def _derive(
        self,
        task: TaskRow,
        plan: PlanTaskRow | None,
        deps: _Deps | None,
        newest: AttemptRow | None,
        attempt: int,
        failures: int,
        losses: int,
        ready_at: int | None,
    ) -> TaskRow:
        edges: TaskRow | _Deps = task if deps is None else deps
        blocked_on = edges.blocked_on
        blocker = self.task(blocked_on) if blocked_on is not None else None
        satisfied = task.deps_satisfied_count if deps is None else deps.satisfied
        may_begin = ready_at is not None if newest is None else newest.state in (FAILED, REAPED)
        dispatched = False
        if may_begin:
            dispatch = self.dispatch(task.task_key, attempt + 1)
            dispatched = dispatch is not None and dispatch.status == "CREATED"
        standing = Standing(
            satisfied, edges.blocked_by, blocker, ready_at, newest, attempt, failures, losses, dispatched
        )
        return derive_task(self.run, plan, task, standing)

    def _search_blocker(self, plan: PlanTaskRow, deps: _Deps) -> None:
        deps.blocked_by = deps.blocked_on = None
        for upstream in plan.upstream:
            deps.block(upstream, edge_of(self.task(upstream)).resolution)

    def _ready_at(self, plan: PlanTaskRow, deps: _Deps) -> int | None:
        if deps.satisfied < len(plan.upstream):
            return None
        ends = [edge_of(self.task(upstream)).at or 0 for upstream in plan.upstream]
        return max(plan.planned_at, *ends) if ends else plan.planned_at

    def _write(self, before: TaskRow | None, after: TaskRow, plan: PlanTaskRow | None) -> None:
        """Write a task's row and the rows that follow from it, and note what it means to others."""
        if after == before:
            return
        self.group.put(TASKS, after)
        self._write_ready(before, after)
        if after.retry_not_before is not None or (before is not None and before.retry_not_before is not None):
            self._write_timer(before, after)
        ended, ends = before.ended_at if before is not None else None, after.ended_at
        if ended is None and ends is None:
            return
        if before is None or before.state != after.state:
            tally = self._tally
            if ended is not None and before is not None:
                tally[before.state] = tally.get(before.state, 0) - 1
            if ends is not None:
                tally[after.state] = tally.get(after.state, 0) + 1
        if ended is not None and (ends is None or ends < ended):
            self.is_late = True
        if ends is not None and ends > self._latest:
            self._latest = ends
        if failed_by_itself(before) or failed_by_itself(after):
            self._failures[after.task_key] = after
        if plan is not None and plan.downstream:
            old, new = edge_of(before), edge_of(after)
            if old != new:
                self._change_edges(after.task_key, plan, old, new)

    def _write_ready(self, before: TaskRow | None, after: TaskRow) -> None:
        old, new = ready_row(before) if before is not None else None, ready_row(after)
        if old == new:
            return
        if old is not None and (new is None or new.order_key != old.order_key):
            self.group.delete(READY_TASKS, (self.run_id, old.order_key))
        if new is not None:
            self.group.put(READY_TASKS, new)
        was, now = ready_batch_row(old), ready_batch_row(new)
        if was is not None and (now is None or now.order_key != was.order_key):
            self.group.delete(READY_BATCHES, (self.run_id, was.order_key))
        if now is not None:
            self.group.put(READY_BATCHES, now)

    def _write_timer(self, before: TaskRow | None, after: TaskRow) -> None:
        """The wait after the newest attempt. That after an earlier one is over and stays (`_fire_timer`)."""
        old, new = retry_timer(before), retry_timer(after)
        is_same = before is not None and before.attempt == after.attempt
        if old is not None and is_same and (new is None or new.timer_id != old.timer_id):
            self.group.delete(TIMERS, (self.run_id, old.timer_id))
        if new is not None and new != old:
            self.group.put(TIMERS, new)

    def _change_edges(self, task_key: str, plan: PlanTaskRow, old: Edge, new: Edge) -> None:
        group, run_id, queued = self.group, self.run_id, self._deps
        for downstream in plan.downstream:
            group.put(DEP_SATISFACTION, _edge_row(run_id, task_key, downstream, new))
            deps = queued.get(downstream)
            if deps is None:
                task = self.task(downstream)
                if task is None:
                    continue
                deps = queued[downstream] = _Deps(task)
                heappush(self._heap, (task.stage, downstream))
            deps.change(task_key, old.resolution, new.resolution)

    # The run

    def _derive_run(self) -> RunRow:
        run, base, tally = self.run, self._base, self._tally
        counts = Counts(
            base.succeeded_count + tally.get(SUCCEEDED, 0),
            base.failed_count + tally.get(FAILED, 0),
            base.skipped_count + tally.get(SKIPPED, 0),
            base.cancelled_count + tally.get(CANCELLED, 0),
        )
        known = [time for time in (run.created_at, run.planned_at, run.started_at, run.cancelled_at) if time]
        if self.is_late:
            ends = [task.ended_at for task in self.group.rows(TASKS) if task.ended_at is not None]
            updated_at = max(0, *known, *ends)
        else:
            updated_at = max(base.updated_at, self._latest, *known)
        return derive_run(run, counts, self._first_failure(), updated_at)

    def _first_failure(self) -> TaskRow | None:
        """Of the tasks that failed by themselves the one that ends the run."""
        key, changed = self.run.first_failure, self._failures
        if key is None and not changed:
            return None
        self._failures = {}
        found = list(changed.values())
        if key is not None and key in changed:
            found = self.group.rows(TASKS)
        elif key is not None:
            first = self.task(key)
            if not changed:
                return first
            if first is not None:
                found.append(first)
        return min(filter(failed_by_itself, found), key=failure_order, default=None)

    def _write_run(self, run: RunRow) -> None:
        group = self.group
        group.put(RUNS, run)
        if run.timeout_seconds is None:
            return
        old, new = timeout_timer(self._stored), timeout_timer(run)
        if old is not None and (new is None or new.timer_id != old.timer_id):
            group.delete(TIMERS, (run.run_id, old.timer_id))
        if new is not None and new != old:
            group.put(TIMERS, new)


def _reach(run: RunRow | None) -> tuple[object, ...] | None:
    """What all tasks of a run depend on; None if that is nothing."""
    if run is None or (run.cancelled_at is None and run.stopped_at is None):
        return None
    first = run.first_failure if run.stopped_at is not None else None
    return run.cancelled_at, run.cancel_kind, run.cancel_reason, run.stopped_at, first


def _edge_row(run_id: str, upstream: str, downstream: str, edge: Edge) -> DepSatisfactionRow:
    if edge.resolution == "SUCCESS":
        return DepSatisfactionRow(run_id, upstream, downstream, True, edge.resolution, edge.at, edge.attempt)
    return DepSatisfactionRow(run_id, upstream, downstream, False, edge.resolution, None, None)
