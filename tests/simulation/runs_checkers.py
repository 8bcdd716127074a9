"""What must hold of whole runs, beyond what the `Referee` says of every event.

`watching_servo` sees what the control plane does inside: whom it gives up, and on what knowledge. `inspect` compares
the tables of a process with the log while the run goes on; `check_runs` looks at what is left in the end.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from arco.domains.orchestration import (
    ACTIVE_RUNS,
    CLAIMS,
    ORCHESTRATION,
    READY_TASKS,
    RUNS,
    TASKS,
    WORKSPACE,
    CancelKind,
    ClaimRow,
    FinishTask,
    Outcome,
    RunTriggered,
)
from arco.runtime import DEFINITIONS
from arco.servo import Callback, Finished, Reap, Work
from arco.servo._controllers import CANCEL_GRACE, GRACE, Intent
from arco.servo._loop import LISTENING, Controllers
from arco.state import LayerReader, Replica, Table, digest_rows
from tests.domains.orchestration.facts import Fact
from tests.domains.orchestration.model import meaning_of
from tests.domains.orchestration.recount import check_tables
from tests.simulation.checkers import LogView, check_revisions, check_sequences
from tests.simulation.look import drive
from tests.simulation.peers import Plane
from tests.simulation.referee import Attempt, RunModel, TaskModel
from tests.simulation.scheduler import SimRuntime, Violation

if TYPE_CHECKING:
    from tests.simulation.runs import RunsWorld

__all__ = ["check_runs", "inspect", "watching_servo"]

FULL_TIME = "nothing is given up before its full time"
FRESH = "whoever acts has read the log"
TABLES = "tables equal what the log says"
ACKNOWLEDGED = "no acknowledged completion is lost"
REFUSED = "a refused result is not in the log"
ALIVE = "what beats is not given up"

SETTLED = 20.0
"""Seconds after the storm until everybody can hear everybody again."""


# While it goes on


@contextmanager
def watching_servo(world: "RunsWorld") -> Iterator[None]:
    """Judge what controllers do, and note which signs of life reached whom."""
    step, carry_out, beat_here, hand_out = Controllers.step, Controllers._carry_out, Work.beat_here, Work._hand_out
    finish, beat = Work.finish, Work.beat
    tails: dict[Controllers, int] = {}

    async def seen_step(self: Controllers) -> float | None:
        tails[self] = world.referee.tail
        return await step(self)

    async def seen_carry_out(self: Controllers, intent: Intent) -> None:
        if self._log.replica.link.number < tails[self]:
            raise Violation(FRESH, f"{intent} on segment {self._log.replica.link.number} of {tails[self]}")
        if isinstance(intent, Reap):
            _check_reap(world, _runtime(self._workspace), intent)
        await carry_out(self, intent)

    async def seen_beat_here(self: Work, attempts: Sequence[Callback]) -> Any:
        runtime = _runtime(self._workspace)
        began = runtime.boottime()
        found = await beat_here(self, attempts)
        for attempt, beat in zip(attempts, found, strict=True):
            if not beat.stale:
                world.beats[runtime.process.name, attempt.attempt_id] = began
        return found

    async def seen_hand_out(self: Work, claim: ClaimRow) -> bytes | None:
        runtime = _runtime(self._workspace)
        world.beats[runtime.process.name, claim.attempt_id] = runtime.boottime()
        return await hand_out(self, claim)

    async def seen_finish(self: Work, results: Sequence[FinishTask], worker: Any, slots: int = 0) -> Finished:
        found = await finish(self, results, worker, slots)
        if found.envelopes:
            world.probe.path("claimed by a finish")
        return found

    async def seen_beat(self: Work, attempts: Sequence[Callback]) -> Any:
        here = (_runtime(self._workspace).process.name, attempts[0].attempt_id)
        before = world.beats.get(here)
        found = await beat(self, attempts)
        if world.beats.get(here) == before:
            world.probe.path("beat relayed")
        return found

    patches: list[tuple[Any, str, Any, Any]] = [
        (Controllers, "step", step, seen_step),
        (Controllers, "_carry_out", carry_out, seen_carry_out),
        (Work, "beat_here", beat_here, seen_beat_here),
        (Work, "_hand_out", hand_out, seen_hand_out),
        (Work, "finish", finish, seen_finish),
        (Work, "beat", beat, seen_beat),
    ]
    for target, name, _, seen in patches:
        setattr(target, name, seen)
    try:
        yield
    finally:
        for target, name, original, _ in patches:
            setattr(target, name, original)


def _runtime(workspace: Any) -> SimRuntime:
    runtime: SimRuntime = workspace.runtime
    return runtime


def _check_reap(world: "RunsWorld", runtime: SimRuntime, intent: Reap) -> None:
    """A process gives up only what it has watched for a full time, and not what it has just heard of."""
    if len(intent.attempt_ids) > 1:
        world.probe.path("batch reaped")
    for attempt_id in intent.attempt_ids:
        _check_reaped(world, runtime, intent, attempt_id)


def _check_reaped(world: "RunsWorld", runtime: SimRuntime, intent: Reap, attempt_id: str) -> None:
    attempt = world.referee.attempts.get(attempt_id)
    if attempt is None or attempt.end:
        return  # it is over meanwhile, so nothing comes of this
    run = world.referee.runs[attempt.run_id]
    task = run.tasks[attempt.task_key].task
    heard = world.beats.get((runtime.process.name, attempt_id))
    process = runtime.process
    plane = next(plane for plane in world.planes.values() if plane.process is process)
    began = plane.began
    if process.woke - process.stood > 3 * LISTENING:
        began = max(began, runtime.boottime() - (world.scheduler.time - process.woke))
    silence = runtime.boottime() - max(began, heard if heard is not None else 0.0)
    watched = runtime.boottime() - began
    least = [task.heartbeat_seconds + GRACE] if silence < task.heartbeat_seconds + GRACE - 0.001 else []
    timeout = None if task.timeout_seconds is None else task.timeout_seconds * attempt.batch_tasks
    if timeout is not None and watched >= timeout + 2 * GRACE - 0.001:
        least = []
    if run.cancelled is not None and watched >= CANCEL_GRACE - 0.001:
        least = []
    if least:
        raise Violation(FULL_TIME, f"{attempt.task_key} after {silence:.1f} s, by {runtime.process.name}: {intent}")
    if heard is None:
        world.probe.path("acted after a restart")


async def inspect(world: "RunsWorld", plane: Plane) -> None:
    """The rows that dispatchers and controllers look at say what the log says, at whatever position."""
    log = plane.node.log("activity")
    replica, before = log.replica, (log.replica.link.number, log.follower.epoch)
    try:
        claims = {row.attempt_id for row in await replica.rows(CLAIMS, WORKSPACE)}
        active = {row.run_id for row in await replica.rows(ACTIVE_RUNS, WORKSPACE)}
        ready = set()
        for run_id in sorted(world.referee.runs):
            ready |= {(row.run_id, row.task_key, row.attempt) for row in await replica.rows(READY_TASKS, run_id)}
    except Exception as error:  # noqa: BLE001 - the store may fail, and there is another inspection
        world.scheduler.note("no inspection", type(error).__name__)
        return
    if before != (log.replica.link.number, log.follower.epoch):
        return
    expected = world.referee.standings[before[0]]
    compared: list[tuple[str, set[Any], frozenset[Any]]] = [
        ("claims", claims, expected.claims),
        ("active_runs", active, expected.active),
        ("ready_tasks", ready, expected.ready),
    ]
    for name, found, wanted in compared:
        if found != wanted:
            odd = sorted(map(str, found ^ wanted))[:3]
            raise Violation(TABLES, f"{name} of {plane.node.name} at segment {before[0]}: {odd}")


# In the end


def check_runs(world: "RunsWorld") -> None:
    views = [LogView(world.cluster, definition) for definition in DEFINITIONS]
    for view in views:
        check_sequences(view, world.sight)
        check_revisions(view, world.sight, world.cluster)
    view = views[1]
    _check_rebuilt(view)
    _check_live(world, view)
    rebuilt = view.refold(len(view.segments))
    _check_meaning(world, rebuilt)
    _check_left(world, rebuilt)
    _check_told(world)
    _check_callers(world)
    for attempt in world.referee.attempts.values():
        _check_attempt(world, attempt)
    for run in world.referee.runs.values():
        _count_paths(world, run)
    world.probe.operations["runs"] += len(world.referee.runs)
    world.probe.operations["attempts"] += len(world.referee.attempts)


def _check_rebuilt(view: LogView) -> None:
    """What is published is a fold of the log from its beginning."""
    live = view.published(view.head)
    for name, table in view.definition.tables.items():
        if digest_rows(table, drive(live.scan(table))) != view.digest(view.head.link.number, name):
            raise Violation("rebuild equals live", f"table {name} of revision {view.head.number} of {view.name}")


def _check_live(world: "RunsWorld", view: LogView) -> None:
    """What a process has in memory is a fold of the log, too."""
    planes = world.planes_alive()
    replica = planes[world.seed % len(planes)].node.log(view.name).replica
    direct = Replica(view.definition, LayerReader(view.store), replica.base)  # a copy that reads directly
    direct._link, direct.retention, direct.dirty = replica.link, replica.retention, replica.dirty
    for table in (table for stage in ORCHESTRATION.stages for table in stage.tables):
        if digest_rows(table, drive(direct.scan(table))) != view.digest(replica.link.number, table.name):
            raise Violation("replicas equal revisions", f"table {table.name} at {replica.link.number}")


class _Rows:
    """Rows of a fold from nothing, as the recount wants them."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def table(self, table: Table) -> dict[Any, Any]:
        groups = self._replica.dirty.get(table.name, {}).values()
        return {key: row for rows in groups for key, (_, row) in rows.items() if row is not None}


def _check_meaning(world: "RunsWorld", rebuilt: Replica) -> None:
    """Every state is what the facts mean, and everything that is derived adds up."""
    rows = _Rows(rebuilt)
    runs, tasks = rows.table(RUNS), rows.table(TASKS)
    for run_id in world.referee.runs:
        facts = [Fact(at, event) for at, event in world.referee.facts if event.subject == run_id]
        meaning = meaning_of(facts)
        found = {key: row.state for (owner, key), row in tasks.items() if owner == run_id}
        if (runs[run_id].state, found) != (meaning.run, meaning.tasks):
            raise Violation(TABLES, f"the run {run_id} is {runs[run_id].state}, it should be {meaning.run}")
    try:
        check_tables(rows)  # type: ignore[arg-type]
    except AssertionError as error:
        raise Violation(TABLES, f"they do not add up: {error!r}") from error


def _check_left(world: "RunsWorld", rebuilt: Replica) -> None:
    rows = _Rows(rebuilt)
    for table in (CLAIMS, ACTIVE_RUNS, READY_TASKS):
        left = rows.table(table)
        if left:
            raise Violation(TABLES, f"{table.name} has rows though every run has ended: {sorted(map(str, left))[:3]}")
    for run_id, row in rows.table(RUNS).items():
        if row.ended_at is None:
            raise Violation("every run ends", f"{run_id} is {row.state}")


def _check_told(world: "RunsWorld") -> None:
    for told in world.told:
        attempt = world.referee.attempts[told.result.attempt_id]
        stands = attempt.result is not None and _same(attempt.result, told.result)
        if told.acknowledged and not stands:
            raise Violation(ACKNOWLEDGED, f"{told.result.task_key}#{told.result.attempt} ended as {attempt.end}")
        if told.stale and stands:
            raise Violation(REFUSED, f"{told.result.task_key}#{told.result.attempt} was called stale")


def _same(one: Any, other: Any) -> bool:
    fields = ("attempt_id", "attempt", "outcome", "finished_at", "gate", "outputs")
    return all(getattr(one, name) == getattr(other, name) for name in fields)


def _check_callers(world: "RunsWorld") -> None:
    """An answered run exists, once for each wish and each key; a cancelled one did not succeed unless it was over."""
    triggers: dict[str, list[RunTriggered]] = {}
    keys: dict[str, set[str]] = {}
    for _, event in world.referee.facts:
        if event.type == "RunTriggered":
            found = msgspec.json.decode(event.data, type=RunTriggered)
            triggers.setdefault(event.operation, []).append(found)
            if found.run_key:
                keys.setdefault(found.run_key, set()).add(found.run_id)
    for key, runs in keys.items():
        if len(runs) > 1:
            raise Violation("a run key stands for one run", f"{key} stands for {len(runs)}")
    for wish in world.wishes:
        made = {found.run_id for found in triggers.get(wish.operation, ())}
        by_key = keys.get(wish.request.run_key, set())
        if len(made) > 1 or (wish.answers and not set(wish.answers) <= made | by_key):
            raise Violation("every answer agrees with the log", f"{wish.answers} was answered, there is {made}")
        if wish.answers and not made:
            world.probe.path("run key repeated")
    for run_id in world.cancels:
        run = world.referee.runs[run_id]
        if run.cancelled is None and not run.is_over:
            raise Violation("every answer agrees with the log", f"the cancel of {run_id} was acknowledged")


def _check_attempt(world: "RunsWorld", attempt: Attempt) -> None:
    if attempt.end == "REAPED":
        world.probe.path("worker reaped" if "began anew" in attempt.reason else "attempt reaped")
        task = world.referee.runs[attempt.run_id].tasks[attempt.task_key].task
        heard = world.heard.get(attempt.attempt_id, 0.0)
        is_beating = heard > world.calm_since + SETTLED and attempt.ended_time - heard < task.heartbeat_seconds
        if is_beating and attempt.reason.startswith("no sign of life"):
            raise Violation(ALIVE, f"{attempt.task_key}#{attempt.number} of {attempt.worker}: {attempt.reason}")
    if not attempt.end:
        raise Violation("every claimed attempt ends by exactly one event", f"{attempt.attempt_id} has not ended")


def _count_paths(world: "RunsWorld", run: RunModel) -> None:
    probe = world.probe
    if run.cancelled is not None and run.cancelled.kind is CancelKind.TIMED_OUT:
        probe.path("run timed out")
    if run.is_stopped and "SKIPPED" in run.states().values():
        probe.path("run failed fast")
    if max(world.referee.together, default=0) > 1:
        probe.path("told together")
    for model in run.tasks.values():
        _count_batches(world, model)
        if len(model.attempts) > 1 and model.attempts[-1].end == Outcome.SUCCEEDED.value.upper():
            probe.path("attempt retried")
        newest = model.newest
        if newest is not None and newest.result is not None and newest.result.gate.value == "block_downstream":
            probe.path("blocked by checks")


def _count_batches(world: "RunsWorld", model: TaskModel) -> None:
    sizes = [attempt.batch_tasks for attempt in model.attempts]
    if any(size > 1 for size in sizes):
        world.probe.path("claimed as a batch")
    if len(sizes) > 1 and 1 < sizes[-1] < sizes[0]:
        world.probe.path("batch split")
    newest = model.newest
    if model.size > 1 and newest is not None and newest.end == "REAPED" and sizes[-1] == 1 and model.is_final:
        world.probe.path("stood alone")
