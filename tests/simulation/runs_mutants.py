"""Known mistakes of orchestration, applied inside the world of whole runs only. Each must be caught within a few seeds.

Deciders are replaced where the definition of the log finds them, everything else in its class or module.
"""

from typing import Any

from msgspec import structs
from msgspec.json import decode

from arco.domains.orchestration import (
    ATTEMPT_REAPED,
    ATTEMPTS,
    CLAIMS,
    AttemptReaped,
    AttemptRow,
    ClaimRow,
    ClaimTasks,
    FinishTask,
    TaskRow,
    decide_claims,
    decide_finish,
    derive,
    fold,
    fold_run,
)
from arco.domains.orchestration.decide_claims import claim_tasks, reap_attempts, reap_worker
from arco.domains.orchestration.deciders import COMMANDS
from arco.domains.orchestration.derive import OPEN, Edge, ready_row
from arco.domains.orchestration.events import TASK_FINISHED
from arco.domains.orchestration.fold_run import RunFold
from arco.log import NewEvent
from arco.servo import Work
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


def _batches_are_free() -> list[Patch]:
    """What was claimed together does not count for the limits."""

    async def claim(command: ClaimTasks, view: View, decision: Decision) -> list[NewEvent]:
        def alone(row: ClaimRow) -> bool:
            return row.batch_id is None

        altered: Any = _Altered(view, CLAIMS, alone)
        return await claim_tasks(command, altered, decision)

    return [_decider("ClaimTasks", claim)]


def _never_split() -> list[Patch]:
    """What was lost together is claimed together again."""
    return [(derive, "batch_limit", lambda size, losses: size or 1)]


def _mix_losses() -> list[Patch]:
    """A batch takes whatever of it is ready, however often that was lost."""
    ready = derive.ready_row

    def mixed(task: TaskRow) -> Any:
        row = ready(task)
        return row if row is None or row.batch_key is None else structs.replace(row, batch_key=task.batch)

    return [(fold_run, "ready_row", mixed)]


def _lose_for_ever() -> list[Patch]:
    """What is lost is tried again without an end."""
    return [(derive, "most_losses", lambda size: 10**9)]


def _take_the_first_result() -> list[Patch]:
    """Of results that are told together the first is decided, and all are acknowledged."""
    finish = Work.finish

    async def first(self: Work, results: Any, *given: Any, **more: Any) -> Any:
        return await finish(self, results[:1], *given, **more)

    return [(Work, "finish", first)]


def _lose_the_ended() -> list[Patch]:
    """Who gives up a batch gives up all of it, also what has ended."""

    def losing(reap: Any) -> Any:
        async def lose(command: Any, view: View, decision: Decision) -> list[NewEvent]:
            events = await reap(command, view, decision)
            return events + [reaped for event in events for reaped in await _beside(view, event)]

        return lose

    return [_decider("ReapAttempts", losing(reap_attempts)), _decider("ReapWorker", losing(reap_worker))]


async def _beside(view: View, event: NewEvent) -> list[NewEvent]:
    """Attempts of the same batch that have succeeded, as if they had been given up."""
    lost = decode(event.data, type=AttemptReaped)
    rows: list[AttemptRow] = await view.rows(ATTEMPTS, lost.run_id)
    batches = {row.batch_id for row in rows if row.attempt_id == lost.attempt_id}
    ended = [row for row in rows if row.batch_id in batches - {None} and row.state == "SUCCEEDED"]
    return [
        new_event(
            ATTEMPT_REAPED,
            AttemptReaped(row.run_id, row.task_key, int(row.attempt_key), row.attempt_id, "its batch is lost"),
            subject=row.run_id,
        )
        for row in ended
    ]


_LOSSES = {_mix_losses: 140, _lose_the_ended: 41}
"""From these seeds on, batches soon lose their drivers when only some of their tasks have ended."""

RUN_MUTANTS: tuple[Mutant, ...] = tuple(
    Mutant(name, mistake, "", patches, run_runs, first=_LOSSES.get(patches, 1))
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
        ("batches are free", "a batch counts for no limit", _batches_are_free),
        ("never split", "what was lost together is claimed together again", _never_split),
        ("mix losses", "a batch mixes what was lost with what was not", _mix_losses),
        ("lose for ever", "a task that is lost is tried without an end", _lose_for_ever),
        ("take the first result", "results told together are acknowledged by the first", _take_the_first_result),
        ("lose the ended", "a lost batch loses what had succeeded", _lose_the_ended),
    )
)
