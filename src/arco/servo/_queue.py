"""`Queue`: how ready tasks reach workers. The embedded one needs nothing beside the log: ready tasks are rows, taking
one is an event, and who finds none waits for the log to move.

There is nothing to enqueue and so nothing that can get lost between a queue and the log: a task is ready because of
what is folded, and the claim that the owner decides is what hands it out. An idle worker waits here without a request
to the store, until something is folded, a retry falls due, or its patience ends.
"""

from dataclasses import dataclass
from typing import Protocol

from arco.core import SECOND, derive_ulid, new_ulid
from arco.domains.orchestration import (
    ACTIVE_RUNS,
    CLAIMS,
    READY_TASKS,
    WORKSPACE,
    ActiveRunRow,
    ClaimRow,
    ClaimTasks,
    ReadyTaskRow,
    RunState,
)
from arco.runtime import OpenLog, Workspace
from arco.state import OPERATIONS, View

__all__ = ["EmbeddedQueue", "Queue", "WorkerId"]

LOOK_SECONDS = 60.0
"""How often a process that nobody tells of appends looks for some while workers wait at it."""


@dataclass(frozen=True)
class WorkerId:
    """A worker and which of its lives this is: what an earlier one claimed is lost."""

    name: str
    session: str


class Queue(Protocol):
    """Whatever hands tasks out, only a claim that the owner of the log decided makes an attempt a worker's."""

    async def take(self, worker: WorkerId, slots: int, capacity: int, wait: float) -> list[ClaimRow]:
        """Claim up to `slots` tasks and batches, waiting so many seconds for the first. `capacity`: as many may run."""
        ...

    async def claim(self, worker: WorkerId, slots: int, capacity: int) -> list[ClaimRow]:
        """Claim what is ready, without waiting."""
        ...


class EmbeddedQueue:
    """Implements `Queue`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._looked = float("-inf")

    @property
    def _log(self) -> OpenLog:
        return self._workspace.logs["activity"]

    async def take(self, worker: WorkerId, slots: int, capacity: int, wait: float) -> list[ClaimRow]:
        runtime = self._workspace.runtime
        ends = runtime.boottime() + wait
        await self._look_around()
        while True:
            folded = self._log.follower.tail.number
            ready, due = await self._look(capacity)
            if ready:
                claimed = await self.claim(worker, slots, capacity)
                if claimed:
                    return claimed
            left = ends - runtime.boottime()
            if left <= 0 or self._log.follower.ended:
                return []
            try:
                await runtime.timeout(left if due is None else min(left, due), self._log.follower.advanced(folded))
            except TimeoutError:
                continue

    async def _look_around(self) -> None:
        """Who owns the log is at its end, and who follows its owner is told of everything. Others look now and then."""
        log, now = self._log, self._workspace.runtime.boottime()
        if log.owning or (log.feed is not None and log.feed.owner) or now - self._looked < LOOK_SECONDS:
            return
        await log.current(strong=False)
        self._looked = now

    async def _look(self, capacity: int) -> tuple[bool, float | None]:
        """Whether something may be claimed now, as far as this process knows, and else in how many seconds."""
        replica, now = self._log.replica, self._workspace.runtime.now()
        claims: list[ClaimRow] = await replica.rows(CLAIMS, WORKSPACE)
        slots = {claim.slot: claim.run_id for claim in claims}
        if len(slots) >= capacity:
            return False, None
        due: float | None = None
        runs: list[ActiveRunRow] = await replica.rows(ACTIVE_RUNS, WORKSPACE)
        for run in runs:
            if run.state != RunState.RUNNING:
                continue
            if run.max_parallelism and sum(owner == run.run_id for owner in slots.values()) >= run.max_parallelism:
                continue
            first: list[ReadyTaskRow] = await replica.page(READY_TASKS, run.run_id, None, 1)
            if not first:
                continue
            if first[0].not_before <= now:
                return True, None
            left = (first[0].not_before - now) / SECOND
            due = left if due is None else min(due, left)
        return False, due

    async def claim(self, worker: WorkerId, slots: int, capacity: int) -> list[ClaimRow]:
        """Claim what the owner finds ready, without looking first: nothing is written if there is nothing."""
        runtime = self._workspace.runtime
        operation = new_ulid(runtime, runtime)
        command = ClaimTasks(worker.name, worker.session, slots, capacity)
        receipt = await self._workspace.decide("activity", command, actor=f"worker:{worker.name}", operation=operation)

        async def find(view: View) -> list[ClaimRow]:
            done = await view.get(OPERATIONS, operation, operation)
            if done is None:
                return []  # somebody else was faster
            count = done.last - done.first + 1
            attempts = [derive_ulid(done.received_at, f"{operation}:attempt:{index}") for index in range(count)]
            rows = [await view.get(CLAIMS, WORKSPACE, attempt) for attempt in attempts]
            return [row for row in rows if row is not None]

        found, _ = await self._log.read(find, strong=False, min_position=receipt.position)
        return found
