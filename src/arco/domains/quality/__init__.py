"""Domain `quality` (log `activity`, recorded): results of checks, gating decisions, how materializations stand."""

from arco.domains.quality.events import (
    CHECK_EXECUTED,
    CheckExecuted,
    Gating,
    GatingAction,
    Severity,
    check_id,
    result_id,
)
from arco.domains.quality.fold import QUALITY
from arco.domains.quality.tables import (
    CHECK_RESULT_DAYS,
    CHECK_RESULTS,
    GATING_DECISIONS,
    QUALITY_TABLE,
    CheckResult,
    CheckResultDay,
    GatingDecision,
    Quality,
    QualityStatus,
)

__all__ = [
    "CHECK_EXECUTED",
    "CHECK_RESULTS",
    "CHECK_RESULT_DAYS",
    "GATING_DECISIONS",
    "QUALITY",
    "QUALITY_TABLE",
    "CheckExecuted",
    "CheckResult",
    "CheckResultDay",
    "Gating",
    "GatingAction",
    "GatingDecision",
    "Quality",
    "QualityStatus",
    "Severity",
    "check_id",
    "result_id",
]
