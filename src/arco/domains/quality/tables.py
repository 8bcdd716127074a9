"""Tables of quality, all in the group of their asset.

`check_results` and `gating_decisions` (facts): what each check found and what was done about it. `quality` (images):
how a materialization stands after all its checks; one without a row was never checked and is `unknown`.
`check_result_days` (images): how often each check passed and failed on each day. Results expire; their days stay.
"""

from enum import StrEnum

import msgspec

from arco.state import Kind, Table, Time

__all__ = [
    "CHECK_RESULTS",
    "CHECK_RESULT_DAYS",
    "GATING_DECISIONS",
    "QUALITY_TABLE",
    "CheckResult",
    "CheckResultDay",
    "GatingDecision",
    "Quality",
    "QualityStatus",
]


class QualityStatus(StrEnum):
    """Declared from best to worst."""

    UNKNOWN = "unknown"
    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    QUARANTINED = "quarantined"


class CheckResult(msgspec.Struct, frozen=True, gc=False):
    result_id: str
    check_id: str
    check_name: str
    check_type: str
    asset_id: str
    partition_id: str
    materialization_id: str
    run_id: str
    task_id: str
    passed: bool
    severity: str
    expected_value: str | None
    actual_value: str | None
    message: str
    executed_at: Time


class GatingDecision(msgspec.Struct, frozen=True, gc=False):
    result_id: str
    check_id: str
    asset_id: str
    partition_id: str
    materialization_id: str
    run_id: str
    task_id: str
    action: str
    policy: str
    reason: str
    decided_at: Time


class Quality(msgspec.Struct, frozen=True, gc=False):
    materialization_id: str
    asset_id: str
    partition_id: str
    status: str
    """The worst that its results and the actions on them say."""
    check_count: int
    """Results ever seen, those whose rows expired included; so are all counts."""
    passed_count: int
    failed_count: int
    failed_info: int
    failed_warning: int
    failed_error: int
    failed_critical: int
    last_checked_at: Time
    updated_at: Time


class CheckResultDay(msgspec.Struct, frozen=True, gc=False):
    """What a check found on one day. A result counts when its row is written: once, though the row expires."""

    asset_id: str
    check_id: str
    day: str
    """The day in UTC on which results were found, as `2026-01-31`."""
    check_name: str
    """As its last result of the day has it."""
    result_count: int
    passed_count: int
    failed_count: int
    failed_info: int
    failed_warning: int
    failed_error: int
    failed_critical: int
    held_count: int
    """Results because of which a version was blocked or quarantined, or a task or a run failed."""
    first_executed_at: Time
    last_executed_at: Time


CHECK_RESULTS = Table(
    "check_results",
    CheckResult,
    Kind.FACT,
    ("result_id",),
    "asset_id",
    time="executed_at",
    prune=("executed_at", "run_id"),
)
GATING_DECISIONS = Table(
    "gating_decisions",
    GatingDecision,
    Kind.FACT,
    ("result_id",),
    "asset_id",
    time="decided_at",
    prune=("decided_at", "run_id"),
)
QUALITY_TABLE = Table("quality", Quality, Kind.IMAGE, ("materialization_id",), "asset_id")
CHECK_RESULT_DAYS = Table(
    "check_result_days", CheckResultDay, Kind.IMAGE, ("asset_id", "check_id", "day"), "asset_id", prune=("day",)
)
