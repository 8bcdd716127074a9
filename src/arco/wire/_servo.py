"""Assets, deployments, plans, runs, tasks and their logs."""

from typing import Annotated, Any, Literal

from pydantic import Field

from arco.wire._base import Answer, Request, Written

__all__ = [
    "AssetDetail",
    "AssetSummary",
    "AttemptInfo",
    "CodeStored",
    "DeployChange",
    "DeployDiff",
    "DeployRequest",
    "Deployed",
    "DeploymentInfo",
    "DynamicPartitionsChange",
    "DynamicPartitionsInfo",
    "InputInfo",
    "PartitionInfo",
    "PlanInfo",
    "PlannedTaskInfo",
    "PlannedUnitInfo",
    "RerunRequest",
    "RollbackRequest",
    "RunCancel",
    "RunDetail",
    "RunExplanation",
    "RunProgress",
    "RunRequestBody",
    "RunSummary",
    "RunTriggeredAnswer",
    "SkipInfo",
    "SkippedAssetInfo",
    "TaskDetail",
    "TaskHint",
    "TaskLogPage",
    "TaskProgress",
    "TaskSummary",
    "UnitProgress",
]

Key = Annotated[str, Field(min_length=1, max_length=512)]


class DeployRequest(Request):
    """One code version: its definitions, and the code they were made from, which was stored before.

    For a dry run the code need not be stored.
    """

    project: Annotated[dict[str, Any], Field(description="The definitions as `arco deploy` collects them.")]
    message: Annotated[str, Field(max_length=1000)] = ""
    allow_breaking: bool = False
    """Deploy although a declared schema is not compatible with the registered one."""
    expected_current: Annotated[str | None, Field(max_length=64)] = None
    """Only if this is still the current deployment; empty for none yet. Null asks nothing."""
    dry_run: bool = False
    """Only say what would change."""


class RollbackRequest(Request):
    message: Annotated[str, Field(max_length=1000)] = ""
    allow_breaking: bool = False
    """Go back although a declared schema is not compatible with the registered one."""


class DeployChange(Answer):
    key: str
    """The asset."""
    fields: list[str]
    """What differs; `code` if it is the function or what it calls."""


class DeployDiff(Answer):
    """What is different in the new code version."""

    added: list[str]
    changed: list[DeployChange]
    removed: list[str]
    renamed: list[str]
    """`old -> new`."""
    affected: list[str]
    """Assets that stayed the same, but are made of something that changed."""
    unchanged: int


class Deployed(Answer):
    """What a deploy did, or a dry run would have done."""

    deployment_id: str | None
    """Null for a dry run. If exactly this was deployed already, the deployment that is current."""
    code_version: str
    """Its fingerprint: the same definitions and code have the same one everywhere."""
    diff: DeployDiff
    warnings: list[str] = []
    """Changes of declared schemas that readers would not survive."""
    operation_id: str | None = None
    position: str | None = None
    replayed: bool = False


class DeploymentInfo(Answer):
    deployment_id: str
    code_version: str
    code_sha256: str
    message: str
    asset_count: int
    rollback_of: str | None
    """The deployment whose code version it brought back."""
    deployed_by: str
    deployed_at: str
    current: bool


class CodeStored(Answer):
    sha256: str
    byte_size: int


class AssetSummary(Answer):
    key: str
    asset_id: str
    kind: str
    description: str
    owners: list[str]
    tags: dict[str, str]
    code_version: str
    partitions: list[str]
    """Its dimensions."""
    deployed_at: str


class AssetColumnInfo(Answer):
    id: str
    """The same in all versions that have a column of this name."""
    name: str
    type: str
    nullable: bool


class AssetDetail(AssetSummary):
    status: Literal["active", "removed"]
    """Whether the current code version defines it."""
    definition: dict[str, Any]
    """As it was deployed."""
    upstream: list[str]
    downstream: list[str]
    former_keys: list[str]
    partition_count: int | None
    """How many partitions it has now; null for an asset without partitions."""
    materialized_count: int
    held_count: int
    """Partitions whose newest version is blocked or quarantined."""
    last_materialized_at: str | None
    columns: list[AssetColumnInfo] = []
    """Of the version that became current last, if it is a table."""
    table_problem: str | None = None
    """Why the Iceberg table of the asset does not have what is current, if the process that answers found it out."""


class PartitionInfo(Answer):
    partition_key: str
    """In its canonical form, such as `date=d:2025-01-01`; empty for an asset without partitions."""
    status: str
    """`failed` if the last attempt failed; else how the newest version stands: `complete`, `blocked`, `quarantined` or
    `expired`."""
    materialization_id: str | None
    """The current version: the newest one that is good."""
    version: int | None
    row_count: int | None
    updated_at: str
    newest_materialization_id: str | None
    """The version that was made last, however it stands."""


class DynamicPartitionsChange(Request):
    keys: Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(min_length=1, max_length=10_000)]


class DynamicPartitionsInfo(Answer):
    name: str
    keys: list[str]
    """In the order of their texts."""
    next_cursor: str | None = None
    position: str


class RunRequestBody(Request):
    """What to run. A plan is made of it, which is the same for the same state, code and request."""

    selection: Annotated[str, Field(min_length=1, max_length=10_000, examples=["+sales.orders"])]
    """Assets: keys, `+a` with all it is made of, `a+2` with two steps of what is made of it, `tag:x`, `and`, `or`."""
    partitions: Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=16)] = {}
    """By dimension: a key, `a..b`, `a,b`, or `*`."""
    window: Annotated[str, Field(max_length=256, examples=["2026-01-01..2026-03-31"])] = ""
    """`FROM..TO`, one of them may be missing: for every dimension of time that `partitions` does not name."""
    partition_keys: Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=100_000)] = []
    """Partitions one by one, such as `date=2026-01-01,region=eu`, instead of the two above."""
    mode: Literal["standard", "fill", "force"] = "standard"
    """`standard` leaves out what is up to date, and runs what has no inputs to compare; `fill` leaves that out as well
    if it has a version of the same code; `force` runs all that is selected."""
    failure_policy: Literal["fail_fast", "continue"] = "continue"
    """After a task failed: begin nothing new, or go on with what does not depend on it."""
    max_parallelism: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Tasks at once; 0 for as many as the workspace allows."""
    timeout_seconds: Annotated[float | None, Field(gt=0, le=30 * 24 * 3600)] = None
    """The run is cancelled after so long and counts as failed."""
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Tasks of runs with a higher one come first."""
    tags: Annotated[dict[str, Annotated[str, Field(max_length=256)]], Field(max_length=32)] = {}
    run_key: Annotated[str, Field(max_length=256)] = ""
    """Stands for one run for ever: with the same request again it answers with that run, with another one it is 409."""
    batch: Annotated[int, Field(ge=0, le=1000)] = 0
    """Partitions of an asset that run together as one job, where its engine can do that: 1 for none, 0 for as many as
    the planner thinks best."""
    record_empty: bool = True
    """Whether there is a run even if nothing has to run or nothing can; with a run key there always is."""


class InputInfo(Answer):
    asset_key: str
    parameter: str
    versions: int
    """Versions it reads that exist already."""
    from_run: int
    """Partitions it reads that this run writes first."""


class PlannedTaskInfo(Answer):
    task_key: str
    task_id: str
    stage: int
    outputs: list[str]
    upstream: list[str]
    inputs: list[InputInfo]
    reason: str
    estimated_seconds: float | None
    batch: str | None = None
    """Tasks with the same one run together; null for one that runs alone."""


class PlannedUnitInfo(Answer):
    """All tasks of a plan that one function makes."""

    unit: str
    outputs: list[str]
    stage: int
    """The first one that has a task of it."""
    task_count: int
    first: str
    last: str
    """Its first and its last task, in the order of their keys."""
    estimated_seconds: float | None
    batch_count: int
    """Batches in which its tasks run together; tasks that run alone are in none."""
    largest_batch: int
    """Tasks of the largest one; 1 if there is none."""
    batching: str | None
    """Why they run together as they do; null if they never could."""


class SkippedAssetInfo(Answer):
    """Partitions of an asset that are left out for the same kind of reason."""

    kind: Literal["up_to_date", "external", "cannot_run"]
    asset_key: str
    count: int
    first: str
    last: str
    """Its first and its last partition, as people write them; empty for an asset without partitions."""


class SkipInfo(Answer):
    kind: Literal["up_to_date", "external", "cannot_run"]
    """Why in a word: nothing to do, somebody else makes it, or something has to be done first."""
    asset_key: str
    partition_key: str
    reason: str


class PlanInfo(Answer):
    plan_id: str
    """Its fingerprint: the same state, code and request give the same one."""
    code_version: str
    catalog_position: str
    activity_position: str
    """The state it was made of."""
    task_count: int
    stage_count: int
    """Tasks of one stage do not depend on each other."""
    estimated_seconds: float | None
    """The longest chain, as far as history tells; null if nothing of it ever ran."""
    work_seconds: float | None
    """All tasks one after the other, as far as history tells; null if nothing of it ever ran."""
    unknown_count: int
    """Tasks that never ran; they count as nothing in both."""
    batch_count: int = 0
    """Batches in which tasks run together."""
    units: list[PlannedUnitInfo] = []
    """All that runs, summed up by function."""
    skipped: list[SkippedAssetInfo] = []
    """All that is left out, summed up by asset and kind."""
    tasks: list[PlannedTaskInfo]
    skips: list[SkipInfo]
    truncated: bool
    """True if not all tasks and skips are listed here."""


class RunTriggeredAnswer(Written):
    run_id: str
    """Empty if there is nothing to run and no run was to be recorded then; `operation_id` and `state` are empty too."""
    plan_id: str
    task_count: int
    skip_count: int
    """What was asked for and is left out: up to date, or it cannot run. The plan says which."""
    state: str
    cannot_run_count: int = 0
    """How much of that cannot run; 0 if the run was there already."""
    cannot_run: list[SkipInfo] = []
    """The first of those, with what has to be done first."""


class RunSummary(Answer):
    run_id: str
    state: str
    """`PENDING`, `RUNNING`, `CANCELLING`, `SUCCEEDED`, `FAILED` or `CANCELLED`; the last three are final."""
    selection: str
    trigger: str
    rerun_of: str | None
    run_key: str | None
    mode: str
    priority: int
    task_count: int
    skip_count: int
    """What was asked for and is left out: up to date, or it cannot run."""
    succeeded_count: int
    failed_count: int
    skipped_count: int
    cancelled_count: int
    running_count: int
    triggered_by: str
    created_at: str
    started_at: str | None
    ended_at: str | None
    cancel_reason: str | None


class TaskHint(Answer):
    """What to do about a failure."""

    action: str
    command: str | None
    """A command that does it, if there is one."""


class TaskProgress(Answer):
    """How far a running task has come, as its engine says."""

    tasks_done: int
    tasks_total: int
    """Of the stages that run now."""
    stage: str
    rows_written: int
    bytes_written: int
    ui: str | None
    """Address of the engine's own pages about it."""
    attempts: int = 1
    """How many tasks, run together, all of this is told of: it is not known apart."""


class TaskSummary(Answer):
    task_key: str
    asset_key: str
    partition_key: str
    """In its canonical form, such as `date=d:2025-01-01`; empty for an asset without partitions."""
    stage: int
    state: str
    """`BLOCKED`, `READY`, `RUNNING` or `RETRY_WAIT`; final are `SUCCEEDED`, `FAILED`, `SKIPPED` and `CANCELLED`."""
    attempt: int
    """The newest one; 0 if there was none."""
    worker: str | None
    started_at: str | None
    ended_at: str | None
    retry_at: str | None
    error_category: str | None
    error: str | None
    hints: list[TaskHint]
    reason: str
    """Why it is in the plan; of one that was skipped or cancelled, why."""
    gate: str | None
    """What its checks did to those that depend on it, if anything: `block_downstream`, `quarantine`, `fail_task` or
    `fail_run`."""
    progress: TaskProgress | None = None
    """Only while it runs, and if the server that was asked hears of it."""


class AttemptInfo(Answer):
    attempt: int
    attempt_id: str
    state: str
    worker: str
    claimed_at: str | None
    ended_at: str | None
    error_category: str | None
    error_type: str | None
    error: str | None
    traceback: str | None
    materialization_ids: list[str]
    log_chunks: int | None
    """Null while it runs, and if it printed nothing."""
    log_bytes: int | None
    log_truncated: bool
    batch_id: str | None = None
    """Attempts with the same one ran together, in one process, and share a log; null for one that ran alone."""
    batch_tasks: int | None = None
    """How many they were."""


class TaskDetail(TaskSummary):
    upstream: list[str]
    downstream: list[str]
    inputs: list[InputInfo]
    outputs: list[str]
    attempts: list[AttemptInfo]


class RunDetail(RunSummary):
    plan_id: str
    code_version: str
    deployment_id: str
    failure_policy: str
    max_parallelism: int
    timeout_seconds: float | None
    tags: dict[str, str]
    first_failure: str | None
    """Key of the task that failed first."""
    batch: int | None = None
    """Partitions that run together, as it was asked for; null if the planner chose."""


class UnitProgress(Answer):
    """How the tasks of one asset, or of all that one function makes, stand."""

    unit: str
    stage: int
    """The first one that has a task of it."""
    task_count: int
    states: dict[str, int]
    """Tasks by state; states that none is in are left out."""
    held_count: int = 0
    """Tasks that succeeded and whose checks held back what they made."""


class RunProgress(Answer):
    """A run summed up: one row for each asset, however many partitions it has."""

    run_id: str
    state: str
    units: list[UnitProgress]
    """By stage, then by name."""
    position: str


class RunCancel(Request):
    reason: Annotated[str, Field(max_length=1000)] = ""
    """Why, for those who look at the run later."""


class RerunRequest(Request):
    from_failure: bool = True
    """Only what did not succeed; false for everything the run planned, whether up to date or not."""
    record_empty: bool = True
    """Whether there is a run even if nothing of it can run."""


class TaskLogPage(Answer):
    """What a task printed, from a chunk on."""

    run_id: str
    task_key: str
    attempt: int
    text: str
    next_chunk: int
    """Where to go on."""
    complete: bool
    """True if nothing will follow."""
    truncated: bool
    """True if the middle was too long to be kept."""


class RunExplanation(Answer):
    """Why a run is where it is, in sentences."""

    run_id: str
    state: str
    summary: str
    causes: list[str]
    """What went wrong first, and what followed."""
    waiting: list[str]
    """What it waits for."""
    hints: list[TaskHint]
