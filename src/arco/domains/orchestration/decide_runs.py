"""Deciders of runs: trigger, cancel."""

import msgspec

from arco.core import Conflict, Invalid, NotFound, format_time, shown
from arco.domains.orchestration.check import check_plan
from arco.domains.orchestration.commands import CancelRun, TriggerRun
from arco.domains.orchestration.events import (
    PLAN_CREATED,
    RUN_CANCELLED,
    RUN_TRIGGERED,
    CancelKind,
    PlanCreated,
    RunCancelled,
    RunTriggered,
)
from arco.domains.orchestration.plan import Plan, plan_fingerprint
from arco.domains.orchestration.tables import RUN_KEYS, RUNS, RunKeyRow, RunRow
from arco.log import NewEvent
from arco.state import RETENTION, Decision, RetentionRow, View, new_event

__all__ = ["cancel_run", "known_run", "missing_run", "trigger_run"]

MODES = ("standard", "fill", "force")
TRIGGERS = ("manual", "rerun")
_PLAN_FIELDS = ("plan", "plan_blob")


async def known_run(view: View, run_id: str) -> RunRow:
    row: RunRow | None = await view.get(RUNS, run_id, run_id)
    if row is None:
        raise await missing_run(view, run_id)
    return row


async def missing_run(view: View, run_id: str) -> NotFound:
    """What to say of a run that is not there: it never was, or it has expired."""
    triggered = RUNS.time_in(run_id)
    retention: RetentionRow | None = await view.get(RETENTION, RUNS.name, RUNS.name)
    if triggered is None or retention is None or triggered >= retention.before:
        return NotFound(f"there is no run {shown(run_id)}; `arco runs list` shows those there are", run_id=run_id)
    return NotFound(
        f"the run {run_id} of {format_time(triggered)} has expired: what is known of runs before "
        f"{format_time(retention.before)} is gone (history.runs_days, `arco settings show`). What it made is still "
        "there, and an earlier state still shows the run (`--as-of`)",
        run_id=run_id,
        expired=True,
    )


async def trigger_run(command: TriggerRun, view: View, decision: Decision) -> list[NewEvent]:
    _check_words(command)
    if command.run_key and await _is_known_key(view, command):
        return []
    if command.rerun_of:
        await known_run(view, command.rerun_of)
    if bool(command.plan_blob) == (command.plan is not None):
        raise Invalid("a run needs its plan either in the command or as a blob, and not both")
    if command.plan is not None:
        _check_inline(command, command.plan)
    run_id = decision.new_id("run")
    given = {name: getattr(command, name) for name in command.__struct_fields__ if name not in _PLAN_FIELDS}
    triggered = new_event(RUN_TRIGGERED, RunTriggered(run_id=run_id, **given), subject=run_id)
    planned = new_event(PLAN_CREATED, PlanCreated(run_id, command.plan_id, command.plan), subject=run_id)
    if command.plan_blob:
        planned = msgspec.structs.replace(planned, blobs=(command.plan_blob,))
    return [triggered, planned]


def _check_words(command: TriggerRun) -> None:
    if command.trigger not in TRIGGERS:
        raise Invalid(f"a run is triggered by {' or '.join(TRIGGERS)}, not {command.trigger!r}")
    if command.mode not in MODES:
        raise Invalid(f"the mode of a run is {' or '.join(MODES)}, not {command.mode!r}")
    if (command.trigger == "rerun") != bool(command.rerun_of):
        raise Invalid("a rerun names the run it repeats in `rerun_of`, and nothing else does")


def _check_inline(command: TriggerRun, plan: Plan) -> None:
    if len(plan.tasks) != command.task_count:
        raise Invalid(f"the plan has {len(plan.tasks)} tasks, not {command.task_count}; plan again")
    if plan.code_version != command.code_version:
        raise Invalid(f"the plan is of code version {plan.code_version}, not {command.code_version}; plan again")
    check_plan(plan)
    if (found := plan_fingerprint(plan)) != command.plan_id:
        raise Invalid(f"the plan's fingerprint is {found}, not {command.plan_id}: it was changed; plan again")


async def _is_known_key(view: View, command: TriggerRun) -> bool:
    row: RunKeyRow | None = await view.get(RUN_KEYS, command.run_key, command.run_key)
    if row is None:
        return False
    if row.request_fingerprint != command.request_fingerprint:
        raise Conflict(
            f"the run key {command.run_key!r} stands for the run {row.run_id}, which was another request; "
            "use another key",
            run_id=row.run_id,
            stored=row.request_fingerprint,
            given=command.request_fingerprint,
        )
    return True


async def cancel_run(command: CancelRun, view: View, decision: Decision) -> list[NewEvent]:
    run = await known_run(view, command.run_id)
    if run.ended_at is not None and run.cancelled_at is None and command.kind is CancelKind.CANCELLED:
        raise Conflict(f"the run {run.run_id} is over: it is {run.state}, so there is nothing to cancel")
    if run.cancelled_at is not None or run.ended_at is not None:
        return []
    event = RunCancelled(run.run_id, command.kind, command.reason)
    return [new_event(RUN_CANCELLED, event, subject=run.run_id)]
