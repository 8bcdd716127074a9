"""Settings of a workspace: the whole list of what can be set, with what holds when nobody set it."""

from dataclasses import dataclass

__all__ = ["SETTINGS", "Setting"]


@dataclass(frozen=True)
class Setting:
    name: str
    default: int
    least: int
    most: int
    description: str


FOR_EVER = 36_500
"""Days after which nobody asks any more."""

_ALL = (
    Setting("query.max_rows", 10_000, 1, 1_000_000, "rows a query may return"),
    Setting("query.max_bytes", 8 << 20, 1 << 10, 64 << 20, "bytes of rows the answer to a query may have"),
    Setting("query.max_input_bytes", 256 << 20, 1 << 20, 4 << 30, "bytes of tables a query may read"),
    Setting("query.max_seconds", 30, 1, 600, "seconds a query may run"),
    Setting("servo.max_concurrent_tasks", 64, 1, 10_000, "tasks that may run at once in the workspace"),
    Setting("retention.min_days", 7, 1, 3_650, "days for which every version of a partition is kept"),
    Setting("retention.min_versions", 2, 1, 1_000, "good versions of a partition that are kept however old they are"),
    Setting("retention.max_versions", 100, 1, 100_000, "good versions of a partition that are kept at the most"),
    Setting("retention.grace_hours", 24, 1, 8_760, "hours between the end of a version and that of its files"),
    Setting("history.runs_days", 90, 7, FOR_EVER, "days for which runs are kept, with their tasks and attempts"),
    Setting("history.checks_days", 90, 7, FOR_EVER, "days for which results of checks are kept one by one"),
    Setting("history.lineage_days", 90, 7, FOR_EVER, "days for which uses of lineage edges are kept one by one"),
    Setting("history.observations_days", 365, 7, FOR_EVER, "days for which observations are kept"),
    Setting("history.table_commits_days", 365, 30, FOR_EVER, "days for which commits of Iceberg tables are kept"),
    Setting("history.deleted_edges_days", 365, 30, FOR_EVER, "days for which unused edges of deleted assets are kept"),
    Setting("history.rejections_days", 90, 7, FOR_EVER, "days for which rejected inputs are kept"),
    Setting("history.requests_days", 8, 8, FOR_EVER, "days for which operations and request keys are kept"),
    Setting("history.audit_days", 2_557, 90, FOR_EVER, "days for which the audit is kept"),
    Setting("rate.requests_per_minute", 6_000, 1, 1_000_000, "requests a minute that one identity may send"),
)

SETTINGS: dict[str, Setting] = {setting.name: setting for setting in _ALL}
