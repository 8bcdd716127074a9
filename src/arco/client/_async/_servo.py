"""Calls on orchestration: code and deployments, assets and their partitions, plans, runs, tasks and their logs."""

from typing import Literal, Unpack

from arco.client._async._connection import AsyncCalls, AsyncPages
from arco.client._calls import Query, Reading, Writing, path_of
from arco.wire import (
    AssetDetail,
    AssetSummary,
    CodeStored,
    CompactionAnswer,
    CompactionRequest,
    Deployed,
    DeploymentInfo,
    DeployRequest,
    DynamicPartitionsChange,
    DynamicPartitionsInfo,
    ExpireVersionsAnswer,
    ExpireVersionsRequest,
    HistoryAnswer,
    HistoryRequest,
    IcebergUpkeepAnswer,
    IcebergUpkeepRequest,
    OrphansAnswer,
    OrphansRequest,
    Page,
    PartitionInfo,
    PlanInfo,
    RerunRequest,
    RollbackRequest,
    RunCancel,
    RunDetail,
    RunExplanation,
    RunProgress,
    RunRequestBody,
    RunSummary,
    RunTriggeredAnswer,
    StatisticsAnswer,
    StatisticsRequest,
    TaskDetail,
    TaskLogPage,
    TaskSummary,
    VersionDecided,
    VersionDecision,
    VersionDetail,
    VersionInfo,
    Written,
)

__all__ = ["AsyncServoCalls"]

ACTIVITY = "activity"
DEPLOYMENTS = "/api/v1/deployments"
ASSETS = "/api/v1/assets"
RUNS = "/api/v1/runs"

RunState = Literal["PENDING", "RUNNING", "CANCELLING", "SUCCEEDED", "FAILED", "CANCELLED"]
TaskState = Literal[
    "PLANNED", "BLOCKED", "READY", "DISPATCHED", "RUNNING", "RETRY_WAIT", "SKIPPED", "CANCELLED", "FAILED", "SUCCEEDED"
]
VersionState = Literal["published", "blocked", "quarantined", "expired", "deleted"]
HeldState = Literal["held", "blocked", "quarantined", "released", "expired", "all"]


class AsyncServoCalls(AsyncCalls):
    # Code and deployments

    async def put_code(self, sha256: str, data: bytes) -> CodeStored:
        """Store an archive of code under its hash. Storing the same one again changes nothing."""
        return await self._connection.store(path_of("/api/v1/code/{sha256}", sha256=sha256), data, CodeStored)

    async def create_deployment(self, request: DeployRequest, **options: Unpack[Writing]) -> Deployed:
        """Make a project the current one, or with `dry_run` only say what would change."""
        return await self._connection.write("POST", DEPLOYMENTS, Deployed, options, body=request)

    def list_deployments(self, *, limit: int | None = None, **options: Unpack[Reading]) -> AsyncPages[DeploymentInfo]:
        """What was deployed, newest first."""
        return AsyncPages(self._connection, DEPLOYMENTS, Page[DeploymentInfo], {"limit": limit}, options)

    async def rollback_deployment(
        self, deployment_id: str, request: RollbackRequest, **options: Unpack[Writing]
    ) -> Deployed:
        """Deploy again what a former deployment made current."""
        path = path_of(f"{DEPLOYMENTS}/{{deployment_id}}/rollback", deployment_id=deployment_id)
        return await self._connection.write("POST", path, Deployed, options, body=request)

    # Assets and partitions

    def list_assets(self, *, limit: int | None = None, **options: Unpack[Reading]) -> AsyncPages[AssetSummary]:
        """The assets that are deployed, in the order of their keys."""
        return AsyncPages(self._connection, ASSETS, Page[AssetSummary], {"limit": limit}, options)

    async def get_asset(self, asset: str, **options: Unpack[Reading]) -> AssetDetail:
        """An asset, by its key or by one it had before."""
        return await self._connection.read(path_of(f"{ASSETS}/{{asset}}", asset=asset), AssetDetail, {}, options)

    def list_asset_partitions(
        self, asset: str, *, limit: int | None = None, **options: Unpack[Reading]
    ) -> AsyncPages[PartitionInfo]:
        """The partitions of an asset of which something is known: made, failed or quarantined."""
        path = path_of(f"{ASSETS}/{{asset}}/partitions", asset=asset)
        return AsyncPages(self._connection, path, Page[PartitionInfo], {"limit": limit}, options)

    # Versions

    def list_asset_versions(
        self,
        asset: str,
        *,
        partition: str | None = None,
        status: VersionState | None = None,
        limit: int | None = None,
        **options: Unpack[Reading],
    ) -> AsyncPages[VersionInfo]:
        """The versions of an asset, newest first."""
        path = path_of(f"{ASSETS}/{{asset}}/versions", asset=asset)
        query: Query = {"partition": partition, "status": status, "limit": limit}
        return AsyncPages(self._connection, path, Page[VersionInfo], query, options)

    async def get_asset_version(self, asset: str, version: str, **options: Unpack[Reading]) -> VersionDetail:
        """A version, by its materialization id: how it stands and why, its checks, its files, what was made of it."""
        path = path_of(f"{ASSETS}/{{asset}}/versions/{{version}}", asset=asset, version=version)
        return await self._connection.read(path, VersionDetail, {}, options)

    def list_quarantine(
        self,
        *,
        asset: str | None = None,
        partition: str | None = None,
        status: HeldState | None = None,
        limit: int | None = None,
        **options: Unpack[Reading],
    ) -> AsyncPages[VersionInfo]:
        """The versions that are held back, or were; what was held back last comes first."""
        query: Query = {"asset": asset, "partition": partition, "status": status, "limit": limit}
        return AsyncPages(self._connection, "/api/v1/quarantine", Page[VersionInfo], query, options)

    async def quarantine_version(
        self, asset: str, version: str, request: VersionDecision, **options: Unpack[Writing]
    ) -> VersionDecided:
        """Put a version into quarantine: the last good one is current again, and nothing new reads this one."""
        path = path_of(f"{ASSETS}/{{asset}}/versions/{{version}}/quarantine", asset=asset, version=version)
        return await self._connection.write("POST", path, VersionDecided, options, body=request, log=ACTIVITY)

    async def release_version(
        self, asset: str, version: str, request: VersionDecision, **options: Unpack[Writing]
    ) -> VersionDecided:
        """Release a version that is quarantined or blocked: it may be current again."""
        path = path_of(f"{ASSETS}/{{asset}}/versions/{{version}}/release", asset=asset, version=version)
        return await self._connection.write("POST", path, VersionDecided, options, body=request, log=ACTIVITY)

    # Maintenance

    async def expire_versions(self, request: ExpireVersionsRequest) -> ExpireVersionsAnswer:
        """Let versions expire that the policy does not keep; `next_cursor` of the answer leads on."""
        return await self._connection.ask("/api/v1/maintenance/versions", request, ExpireVersionsAnswer)

    async def expire_history(self, request: HistoryRequest) -> HistoryAnswer:
        """Let go of what happened longer ago than the settings of history keep."""
        return await self._connection.ask("/api/v1/maintenance/history", request, HistoryAnswer)

    async def remove_orphan_files(self, request: OrphansRequest) -> OrphansAnswer:
        """Remove files that belong to no version; `next_cursor` of the answer leads on."""
        return await self._connection.ask("/api/v1/maintenance/orphans", request, OrphansAnswer)

    async def look_after_iceberg(self, request: IcebergUpkeepRequest) -> IcebergUpkeepAnswer:
        """Tell the log of commits it missed, and remove what nobody needs; `more` of the answer says to ask again."""
        return await self._connection.ask("/api/v1/maintenance/iceberg", request, IcebergUpkeepAnswer)

    async def refresh_file_statistics(self, request: StatisticsRequest) -> StatisticsAnswer:
        """Read footers of current versions again; `next_cursor` of the answer leads on."""
        return await self._connection.ask("/api/v1/maintenance/statistics", request, StatisticsAnswer)

    async def compact_data_files(self, request: CompactionRequest) -> CompactionAnswer:
        """Merge small files of current versions; `next_cursor` of the answer leads on."""
        return await self._connection.ask("/api/v1/maintenance/compaction", request, CompactionAnswer)

    # Dynamic partitions

    async def list_dynamic_partitions(
        self, name: str, *, cursor: str | None = None, limit: int = 1000, **options: Unpack[Reading]
    ) -> DynamicPartitionsInfo:
        """The keys of a set of dynamic partitions; `next_cursor` of the answer leads on, if there are more."""
        path = path_of("/api/v1/partitions/{name}", name=name)
        return await self._connection.read(path, DynamicPartitionsInfo, {"cursor": cursor, "limit": limit}, options)

    async def add_dynamic_partitions(
        self, name: str, request: DynamicPartitionsChange, **options: Unpack[Writing]
    ) -> Written:
        """Add keys to a set of dynamic partitions; those it has already stay."""
        path = path_of("/api/v1/partitions/{name}", name=name)
        return await self._connection.write("POST", path, Written, options, body=request)

    async def drop_dynamic_partitions(
        self, name: str, request: DynamicPartitionsChange, **options: Unpack[Writing]
    ) -> Written:
        """Drop keys of a set of dynamic partitions. Data that was made for them stays."""
        path = path_of("/api/v1/partitions/{name}/drop", name=name)
        return await self._connection.write("POST", path, Written, options, body=request)

    # Plans and runs

    async def plan_run(self, request: RunRequestBody) -> PlanInfo:
        """What a run would do now, and why. Nothing is started and nothing is written."""
        return await self._connection.ask("/api/v1/plans", request, PlanInfo)

    async def trigger_run(self, request: RunRequestBody, **options: Unpack[Writing]) -> RunTriggeredAnswer:
        """Plan a run and start it."""
        return await self._connection.write("POST", RUNS, RunTriggeredAnswer, options, body=request, log=ACTIVITY)

    def list_runs(
        self, state: RunState | None = None, *, limit: int | None = None, **options: Unpack[Reading]
    ) -> AsyncPages[RunSummary]:
        """Runs, newest first."""
        return AsyncPages(self._connection, RUNS, Page[RunSummary], {"state": state, "limit": limit}, options)

    async def get_run(self, run_id: str, **options: Unpack[Reading]) -> RunDetail:
        return await self._connection.read(path_of(f"{RUNS}/{{run_id}}", run_id=run_id), RunDetail, {}, options)

    async def get_run_progress(self, run_id: str, **options: Unpack[Reading]) -> RunProgress:
        """How the tasks of a run stand, counted by asset."""
        path = path_of(f"{RUNS}/{{run_id}}/progress", run_id=run_id)
        return await self._connection.read(path, RunProgress, {}, options)

    def list_run_tasks(
        self, run_id: str, state: TaskState | None = None, *, limit: int | None = None, **options: Unpack[Reading]
    ) -> AsyncPages[TaskSummary]:
        """The tasks of a run, in the order of their keys."""
        path = path_of(f"{RUNS}/{{run_id}}/tasks", run_id=run_id)
        return AsyncPages(self._connection, path, Page[TaskSummary], {"state": state, "limit": limit}, options)

    async def get_run_task(self, run_id: str, task: str, **options: Unpack[Reading]) -> TaskDetail:
        """A task of a run, with all its attempts."""
        path = path_of(f"{RUNS}/{{run_id}}/task", run_id=run_id)
        return await self._connection.read(path, TaskDetail, {"task": task}, options)

    async def get_task_log(
        self, run_id: str, task: str, *, attempt: int = 0, chunk: int = 0, **options: Unpack[Reading]
    ) -> TaskLogPage:
        """What a task printed in an attempt, 0 for the newest. Ask again from `next_chunk` on until it is complete."""
        path = path_of(f"{RUNS}/{{run_id}}/logs", run_id=run_id)
        query: Query = {"task": task, "attempt": attempt, "chunk": chunk}
        return await self._connection.read(path, TaskLogPage, query, options)

    async def explain_run(self, run_id: str, **options: Unpack[Reading]) -> RunExplanation:
        """Why a run is where it is, in sentences."""
        path = path_of(f"{RUNS}/{{run_id}}/explain", run_id=run_id)
        return await self._connection.read(path, RunExplanation, {}, options)

    async def cancel_run(self, run_id: str, request: RunCancel, **options: Unpack[Writing]) -> Written:
        """Cancel a run: nothing new begins, and what runs is told to stop."""
        path = path_of(f"{RUNS}/{{run_id}}/cancel", run_id=run_id)
        return await self._connection.write("POST", path, Written, options, body=request, log=ACTIVITY)

    async def rerun(self, run_id: str, request: RerunRequest, **options: Unpack[Writing]) -> RunTriggeredAnswer:
        """Run again what a run did not finish, or all of it, on what is deployed now."""
        path = path_of(f"{RUNS}/{{run_id}}/rerun", run_id=run_id)
        return await self._connection.write("POST", path, RunTriggeredAnswer, options, body=request, log=ACTIVITY)
