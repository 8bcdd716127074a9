"""Servo: from assets to runs.

definitions -> deploy -> plan -> trigger -> (claim, beats, result)* by workers; controllers act when time passes
"""

from arco.servo._compaction import Compacted, Compaction, compact_files
from arco.servo._controllers import EndRun, Reap, Reconciled, Watch, Watched, reconcile
from arco.servo._deploy import Deployed, DeployPlan, deploy, find_deployed, prepare_deploy, project_of_deployment
from arco.servo._deployed import (
    asset_detail,
    dynamic_partitions,
    list_assets,
    list_deployments,
    list_partitions,
)
from arco.servo._envelope import Envelope, open_envelope, sign_envelope
from arco.servo._explaining import explain_run
from arco.servo._history import RULES, Expiring, Rule, reconcile_history
from arco.servo._history_loop import Expired, History, expire_history
from arco.servo._iceberg_loop import Catalog, IcebergAssets
from arco.servo._iceberg_names import check_no_asset, check_no_assets_below
from arco.servo._merging import LocalMerger, Merge, Merger, NotMerged, write_merged
from arco.servo._orphans import remove_orphans
from arco.servo._plan_info import cannot_run_info, plan_info
from arco.servo._protocol import (
    MAX_TOLD,
    RELAYED,
    Beat,
    Beats,
    Callback,
    Claimed,
    Claims,
    Ended,
    Heard,
    Progress,
    Refusal,
    Results,
    Session,
)
from arco.servo._queue import EmbeddedQueue, Queue, WorkerId
from arco.servo._reading import list_runs, list_tasks, run_detail, run_progress, task_detail
from arco.servo._request import Mode, RunRequest, request_fingerprint
from arco.servo._retention import Retention, Retired, retire_versions
from arco.servo._runs import Asked, Planned, Runs, Triggered, trigger_fingerprint
from arco.servo._servo import Servo
from arco.servo._statistics import Refreshed, Statistics, refresh_statistics
from arco.servo._versions import decision_facts, list_held_versions, list_versions, version_detail
from arco.servo._work import Finished, Relay, Work

__all__ = [
    "MAX_TOLD",
    "RELAYED",
    "RULES",
    "Asked",
    "Beat",
    "Beats",
    "Callback",
    "Catalog",
    "Claimed",
    "Claims",
    "Compacted",
    "Compaction",
    "DeployPlan",
    "Deployed",
    "EmbeddedQueue",
    "EndRun",
    "Ended",
    "Envelope",
    "Expired",
    "Expiring",
    "Finished",
    "Heard",
    "History",
    "IcebergAssets",
    "LocalMerger",
    "Merge",
    "Merger",
    "Mode",
    "NotMerged",
    "Planned",
    "Progress",
    "Queue",
    "Reap",
    "Reconciled",
    "Refreshed",
    "Refusal",
    "Relay",
    "Results",
    "Retention",
    "Retired",
    "Rule",
    "RunRequest",
    "Runs",
    "Servo",
    "Session",
    "Statistics",
    "Triggered",
    "Watch",
    "Watched",
    "Work",
    "WorkerId",
    "asset_detail",
    "cannot_run_info",
    "check_no_asset",
    "check_no_assets_below",
    "compact_files",
    "decision_facts",
    "deploy",
    "dynamic_partitions",
    "expire_history",
    "explain_run",
    "find_deployed",
    "list_assets",
    "list_deployments",
    "list_held_versions",
    "list_partitions",
    "list_runs",
    "list_tasks",
    "list_versions",
    "open_envelope",
    "plan_info",
    "prepare_deploy",
    "project_of_deployment",
    "reconcile",
    "reconcile_history",
    "refresh_statistics",
    "remove_orphans",
    "request_fingerprint",
    "retire_versions",
    "run_detail",
    "run_progress",
    "sign_envelope",
    "task_detail",
    "trigger_fingerprint",
    "version_detail",
    "write_merged",
]
