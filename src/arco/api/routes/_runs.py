"""Runs: plan, trigger, list, show, cancel, run again, explain; tasks and what they printed."""

from typing import Annotated, Literal

from fastapi import Path, Query, Request

from arco.api._caller import Caller
from arco.api._reading import CallerDep, Cursor, Limit, Reads, ReadsDep, host_of
from arco.api._routing import router
from arco.api._writing import Writes, WritesDep
from arco.catalog import NOW
from arco.core import NotFound
from arco.domains.orchestration import RUNS, FailurePolicy, TriggerRun
from arco.servo import (
    Asked,
    Mode,
    Planned,
    RunRequest,
    Servo,
    Watch,
    cannot_run_info,
    explain_run,
    list_runs,
    list_tasks,
    plan_info,
    run_detail,
    run_progress,
    task_detail,
    trigger_fingerprint,
)
from arco.storage import Role
from arco.wire import (
    Page,
    PlanInfo,
    RerunRequest,
    RunCancel,
    RunDetail,
    RunExplanation,
    RunProgress,
    RunRequestBody,
    RunSummary,
    RunTriggeredAnswer,
    TaskDetail,
    TaskLogPage,
    TaskSummary,
    Written,
)
from arco.worker import read_log

__all__ = ["runs"]

runs = router("runs")

LOG_CHUNKS = 16
"""Chunks of a log that one answer has at most."""

RunId = Annotated[str, Path(max_length=64, description="The run's id.")]
TaskKey = Annotated[
    str, Query(alias="task", min_length=1, max_length=5000, description="The task's key, as the run lists it.")
]
RunStates = Literal["PENDING", "RUNNING", "CANCELLING", "SUCCEEDED", "FAILED", "CANCELLED"]
TaskStates = Literal[
    "PLANNED", "BLOCKED", "READY", "DISPATCHED", "RUNNING", "RETRY_WAIT", "SKIPPED", "CANCELLED", "FAILED", "SUCCEEDED"
]


def _request(body: RunRequestBody, at: int) -> RunRequest:
    return RunRequest(
        selection=body.selection,
        partitions=body.partitions,
        mode=Mode(body.mode),
        failure_policy=FailurePolicy(body.failure_policy),
        max_parallelism=body.max_parallelism,
        timeout_seconds=body.timeout_seconds,
        priority=body.priority,
        tags=body.tags,
        run_key=body.run_key,
        at=at,
        window=body.window,
        partition_keys=tuple(body.partition_keys),
        batch=body.batch,
    )


def _asked(writes: Writes) -> Asked:
    caller = writes.caller
    return Asked(caller.actor, writes.key, writes.operation, caller.request_id, caller.traceparent)


def _servo(request: Request, caller: Caller) -> Servo:
    return host_of(request).servo_of(caller.scope)


@runs.post("/plans")
async def plan_run(request: Request, caller: CallerDep, body: RunRequestBody) -> PlanInfo:
    """What a run would do now, and why. Nothing is started and nothing is written."""
    servo = _servo(request, caller)
    planned = await servo.runs.plan(_request(body, servo.workspace.runtime.now()))
    return plan_info(planned.plan, planned.plan_id)


@runs.post("/runs", status_code=201)
async def trigger_run(request: Request, writes: WritesDep, body: RunRequestBody) -> RunTriggeredAnswer:
    """Plan a run and start it."""
    servo = _servo(request, writes.caller)
    wanted = _request(body, servo.workspace.runtime.now())
    return await _trigger(servo, writes, wanted, record_empty=body.record_empty)


async def _trigger(servo: Servo, writes: Writes, wanted: RunRequest, *, record_empty: bool) -> RunTriggeredAnswer:
    before = await writes.repeated("activity", TriggerRun, trigger_fingerprint(wanted))
    if before is not None:
        done = await servo.runs.found(wanted, before[0])
    elif wanted.run_key or record_empty:
        done = await servo.runs.trigger(wanted, _asked(writes))
    else:
        planned = await servo.runs.plan(wanted)
        if not planned.plan.tasks:
            return _nothing(planned)
        done = await servo.runs.start(planned, _asked(writes))
    receipt, run_id = done.receipt, done.run_id
    count, first = cannot_run_info(done.skips)
    await writes.settle("activity", receipt)
    row, _ = await servo.workspace.logs["activity"].read(
        lambda view: view.get(RUNS, run_id, run_id), strong=False, min_position=receipt.position
    )
    return RunTriggeredAnswer(
        operation_id=receipt.operation,
        position=receipt.last,
        replayed=not done.is_new,
        run_id=run_id,
        plan_id=row.plan_id,
        task_count=row.task_count,
        skip_count=row.skip_count,
        state=row.state,
        cannot_run_count=count,
        cannot_run=first,
    )


def _nothing(planned: Planned) -> RunTriggeredAnswer:
    """There is nothing to run, and nobody wants a run of nothing."""
    count, first = cannot_run_info(planned.plan.skips)
    return RunTriggeredAnswer(
        operation_id="",
        position=planned.plan.activity_position,
        replayed=False,
        run_id="",
        plan_id=planned.plan_id,
        task_count=0,
        skip_count=len(planned.plan.skips),
        state="",
        cannot_run_count=count,
        cannot_run=first,
    )


@runs.get("/runs")
async def list_runs_route(
    reads: ReadsDep,
    state: Annotated[RunStates | None, Query(description="Only runs that stand so.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[RunSummary]:
    """Runs, newest first."""
    return await reads.activity(lambda view: list_runs(view, state, cursor, limit))


@runs.get("/runs/{run_id}")
async def get_run(reads: ReadsDep, run_id: RunId) -> RunDetail:
    """Show a run."""
    return await reads.activity(lambda view: run_detail(view, run_id))


@runs.get("/runs/{run_id}/progress")
async def get_run_progress(reads: ReadsDep, run_id: RunId) -> RunProgress:
    """How the tasks of a run stand, counted by asset."""
    return await reads.activity(lambda view: run_progress(view, run_id))


@runs.get("/runs/{run_id}/tasks")
async def list_run_tasks(
    reads: ReadsDep,
    run_id: RunId,
    state: Annotated[TaskStates | None, Query(description="Only tasks that stand so.")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Page[TaskSummary]:
    """The tasks of a run, in the order of their keys."""
    return await reads.activity(lambda view: list_tasks(view, run_id, state, cursor, limit, _watch(reads)))


@runs.get("/runs/{run_id}/task")
async def get_run_task(reads: ReadsDep, run_id: RunId, task: TaskKey) -> TaskDetail:
    """Show a task of a run with all its attempts."""
    return await reads.activity(lambda view: task_detail(view, run_id, task, _watch(reads)))


def _watch(reads: Reads) -> Watch | None:
    """What is known of attempts beside the log; of the past, nothing is."""
    return reads.host.servo_of(reads.caller.scope).watch if reads.as_of is NOW else None


@runs.get("/runs/{run_id}/logs")
async def get_task_log(
    reads: ReadsDep,
    run_id: RunId,
    task: TaskKey,
    attempt: Annotated[int, Query(ge=0, le=1_000_000, description="Which attempt; 0 for the newest.")] = 0,
    chunk: Annotated[int, Query(ge=0, le=1_000_000, description="`next_chunk` of the page before.")] = 0,
) -> TaskLogPage:
    """What a task printed. Ask again from `next_chunk` on until it is complete."""
    detail = await reads.activity(lambda view: task_detail(view, run_id, task))
    tried = [one for one in detail.attempts if attempt in (0, one.attempt)]
    if not tried:
        raise NotFound(f"the task {task} has no attempt {attempt or 1} yet; it has {len(detail.attempts)} so far")
    last = tried[-1]
    # Those of a batch have one log.
    kept = last.batch_id or last.attempt_id
    part = await read_log(reads.caller.workspace.handle(Role.READER), run_id, kept, chunk, max_chunks=LOG_CHUNKS)
    # A worker that was given up told nobody how many chunks it wrote: then they end where one is missing.
    read_all = part.next_chunk < chunk + LOG_CHUNKS if last.log_chunks is None else part.next_chunk >= last.log_chunks
    return TaskLogPage(
        run_id=run_id,
        task_key=task,
        attempt=last.attempt,
        text=part.text,
        next_chunk=part.next_chunk,
        complete=last.state != "RUNNING" and read_all,
        truncated=last.log_truncated,
    )


@runs.get("/runs/{run_id}/explain")
async def explain_run_route(reads: ReadsDep, run_id: RunId) -> RunExplanation:
    """Why a run is where it is."""
    return await reads.activity(lambda view: explain_run(view, run_id))


@runs.post("/runs/{run_id}/cancel")
async def cancel_run(request: Request, writes: WritesDep, run_id: RunId, body: RunCancel) -> Written:
    """Cancel a run: nothing new begins, and what runs is told to stop. One that is over is refused."""
    receipt = await _servo(request, writes.caller).runs.cancel(run_id, body.reason, _asked(writes))
    await writes.settle("activity", receipt)
    return Written(operation_id=receipt.operation, position=receipt.last, replayed=receipt.replayed)


@runs.post("/runs/{run_id}/rerun", status_code=201)
async def rerun(request: Request, writes: WritesDep, run_id: RunId, body: RerunRequest) -> RunTriggeredAnswer:
    """Run again what a run did not finish, or all of it: with the code of now, on the inputs of then."""
    servo = _servo(request, writes.caller)
    now = servo.workspace.runtime.now()
    wanted = await servo.runs.request_again(run_id, from_failure=body.from_failure, at=now)
    return await _trigger(servo, writes, wanted, record_empty=body.record_empty)
