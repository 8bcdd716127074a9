"""Scan planning: manifests in, the files that a scan has to read out. See `_plan`."""

from arco.iceberg._planning._plan import PlanFiles, PlanLimits, cancel_plan, fetch_plan, fetch_tasks, plan_scan

__all__ = ["PlanFiles", "PlanLimits", "cancel_plan", "fetch_plan", "fetch_tasks", "plan_scan"]
