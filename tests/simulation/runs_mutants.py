"""Known mistakes of orchestration, applied inside the world of whole runs only. Each must be caught within a few seeds.

Deciders are replaced where the definition of the log finds them, everything else in its class or module.
"""

from typing import Any

from arco.domains.orchestration import (
    CLAIMS,
    AttemptRow,
    ClaimRow,
    ClaimTasks,
    FinishTask,
    TaskRow,
    decide_claims,
    decide_finish,
    fold,
    fold_run,
)
from arco.domains.orchestration.decide_claims import claim_tasks
from arco.domains.orchestration.deciders import COMMANDS
from arco.domains.orchestration.derive import OPEN, Edge, ready_row
from arco.domains.orchestration.events import TASK_FINISHED
from arco.domains.orchestration.fold_run import RunFold
from arco.log import NewEvent
from arco.servo._controllers import Watch, Watched
from arco.servo._loop import Controllers
from arco.state import Decision, Table, View, new_event
from tests.simulation.mutants import Mutant, Patch
from tests.simulation.runs import run_runs
from tests.simulation.scheduler import EPOCH

__all__ = ["RUN_MUTANTS"]


class _Altered:
    """A view that shows other rows of one table than there are."""

    def __init__(self, view: View, table: Table, keep: Any) -> None:
        self._view = view
        self._table = table
        self._keep = keep

    async def get(self, table: Table, group: str, key: Any) -> Any:
        return await self._view.get(table, group, key)

    async def rows(self, table: Table, group: str) -> list[Any]:
        found = await self._view.rows(table, group)
        return [row for row in found if self._keep(row)] if table is self._table else found

    async def page(self, table: Table, group: str, after: Any, limit: int) -> list[Any]:
        return await self._view.page(table, group, after, limit)


def _decider(name: str, function: Any) -> Patch:
    return COMMANDS, name, (COMMANDS[name][0], function)


def _claim_on_old_rows() -> list[Patch]:
    """A claim looks at the rows as they were before those it is appended with, and so not at the newest attempt."""

    async def claim(command: ClaimTasks, view: Any, decision: Decision) -> list[NewEvent]:
        return await claim_tasks(command, getattr(view, "_replica", view), decision)

    return [_decider("ClaimTasks", claim)]


def _finish_stale() -> list[Patch]:
    """Whatever says that an attempt ended is taken."""

    async def finish(command: FinishTask, view: View, decision: Decision) -> list[NewEvent]:
        return [new_event(TASK_FINISHED, command, subject=command.run_id)]

    return [_decider("FinishTask", finish)]


def _count_ends() -> list[Patch]:
    """Every end of an attempt counts as a satisfied dependency: a task that is tried twice counts twice."""
    change_attempt = RunFold.change_attempt

    def counting(self: RunFold, attempt: int, before: AttemptRow | None, after: AttemptRow) -> None:
        change_attempt(self, attempt, before, after)
        plan = self.plan(after.task_key)
        if after.state == "FAILED" and plan is not None:
            self._change_edges(after.task_key, plan, OPEN, Edge("SUCCESS", after.ended_at, attempt, None))

    return [(RunFold, "change_attempt", counting)]


def _reap_from_the_claim_on() -> list[Patch]:
    """A process that begins to watch counts the silence before it."""

    def follow(self: Watch, claims: Any, cancelling: frozenset[str], now: float) -> None:
        after: dict[str, Watched] = {}
        for claim in claims:
            claimed = 1000.0 + (claim.claimed_at - EPOCH) / 1e6
            known = self.attempts.get(claim.attempt_id) or Watched(claimed, claimed)
            if claim.run_id in cancelling and known.cancelled is None:
                known = Watched(known.since, known.seen, now)
            after[claim.attempt_id] = known
        self.attempts = after

    return [(Watch, "follow", follow)]


def _ignore_lag() -> list[Patch]:
    """What is due is done on the rows that are there, however old they are."""

    async def step(self: Controllers) -> float | None:
        intents, due = await self._reconciled()
        for intent in intents:
            await self._carry_out(intent)
        return 0.0 if intents else due

    return [(Controllers, "step", step)]


def _never_again() -> list[Patch]:
    """What waits for its next attempt is not among what may begin."""

    def ready(task: TaskRow) -> Any:
        return None if task.state == "RETRY_WAIT" else ready_row(task)

    return [(fold_run, "ready_row", ready), (decide_claims, "ready_row", ready)]


def _cancel_leaves_claims() -> list[Patch]:
    """What was claimed when its run was cancelled stays claimed."""
    fold_claim: Any = getattr(fold, "_fold_claim")  # noqa: B009 - private there

    def keeping(group: Any, before: TaskRow | None, after: TaskRow) -> None:
        if after.state != "CANCELLED":
            fold_claim(group, before, after)

    return [(fold, "_fold_claim", keeping)]


def _capacity_of_one() -> list[Patch]:
    """A worker counts its own attempts only."""

    async def claim(command: ClaimTasks, view: View, decision: Decision) -> list[NewEvent]:
        def own(row: ClaimRow) -> bool:
            return row.worker == command.worker

        altered: Any = _Altered(view, CLAIMS, own)
        return await claim_tasks(command, altered, decision)

    return [_decider("ClaimTasks", claim)]


def _deaf_to_life() -> list[Patch]:
    """Signs of life are answered and not noted."""

    def note(self: Watch, attempt_id: str, now: float) -> None:
        return

    return [(Watch, "note", note)]


def _repeated_is_stale() -> list[Patch]:
    """A result that is told again is called stale, though it is the one that counted."""
    return [(decide_finish, "_is_repeated", lambda attempt, command: False)]


RUN_MUTANTS: tuple[Mutant, ...] = tuple(
    Mutant(name, mistake, "", patches, run_runs)
    for name, mistake, patches in (
        ("claim on old rows", "a claim does not see the newest attempt", _claim_on_old_rows),
        ("finish stale", "a result of an attempt that is over is taken", _finish_stale),
        ("count ends", "readiness is counted by increments", _count_ends),
        ("reap from the claim on", "no full time-out after a restart", _reap_from_the_claim_on),
        ("ignore lag", "controllers act on old rows", _ignore_lag),
        ("never again", "a retry never becomes claimable", _never_again),
        ("cancel leaves claims", "what a cancelled run had claimed stays claimed", _cancel_leaves_claims),
        ("capacity of one", "each worker counts its own attempts", _capacity_of_one),
        ("deaf to life", "signs of life are not noted", _deaf_to_life),
        ("repeated is stale", "a repeated result is refused", _repeated_is_stale),
    )
)
