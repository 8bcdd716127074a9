"""Servo: from assets to runs.

definitions -> deploy -> plan -> trigger -> (claim, beats, result)* by workers; controllers act when time passes
"""

from arco.servo._controllers import EndRun, Reap, Reconciled, Watch, Watched, reconcile
from arco.servo._deploy import Deployed, DeployPlan, deploy, find_deployed, prepare_deploy, project_of_deployment
from arco.servo._deployed import (
    asset_detail,
    dynamic_partitions,
    find_code_version,
    list_assets,
    list_deployments,
    list_partitions,
)
from arco.servo._envelope import Envelope, open_envelope, sign_envelope
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
    Refusal,
    Results,
    Session,
)
from arco.servo._queue import EmbeddedQueue, WorkerId
from arco.servo._reading import explain_run, list_runs, list_tasks, plan_info, run_detail, run_progress, task_detail
from arco.servo._request import Mode, RunRequest, request_fingerprint
from arco.servo._runs import Asked, Planned, Runs, Triggered, trigger_fingerprint
from arco.servo._servo import Servo
from arco.servo._work import Finished, Relay, Work

__all__ = [
    "MAX_TOLD",
    "RELAYED",
    "Asked",
    "Beat",
    "Beats",
    "Callback",
    "Claimed",
    "Claims",
    "DeployPlan",
    "Deployed",
    "EmbeddedQueue",
    "EndRun",
    "Ended",
    "Envelope",
    "Finished",
    "Heard",
    "Mode",
    "Planned",
    "Reap",
    "Reconciled",
    "Refusal",
    "Relay",
    "Results",
    "RunRequest",
    "Runs",
    "Servo",
    "Session",
    "Triggered",
    "Watch",
    "Watched",
    "Work",
    "WorkerId",
    "asset_detail",
    "deploy",
    "dynamic_partitions",
    "explain_run",
    "find_code_version",
    "find_deployed",
    "list_assets",
    "list_deployments",
    "list_partitions",
    "list_runs",
    "list_tasks",
    "open_envelope",
    "plan_info",
    "prepare_deploy",
    "project_of_deployment",
    "reconcile",
    "request_fingerprint",
    "run_detail",
    "run_progress",
    "sign_envelope",
    "task_detail",
    "trigger_fingerprint",
]
