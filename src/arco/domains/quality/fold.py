"""The fold of quality: results, decisions, how each materialization stands after them, and what each day brought.

In any order. What is counted is counted together with the one row of its result: a result told again finds its row, and
one whose row has expired is rejected for its age, so that nothing counts twice and counts outlive the rows.
"""

from contextlib import suppress

import msgspec

from arco.core import day_of
from arco.domains.quality.events import EVENTS, CheckExecuted, GatingAction, Severity, result_id
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
from arco.state import ByField, Domain, Group, Input, Reject, Stage

__all__ = ["QUALITY"]

_BY_SEVERITY = {
    # "No action needed", as severities are defined: it is counted and nothing more.
    Severity.INFO: QualityStatus.PASSED,
    Severity.WARNING: QualityStatus.WARNED,
    Severity.ERROR: QualityStatus.FAILED,
    Severity.CRITICAL: QualityStatus.FAILED,
}
_BY_ACTION = {
    GatingAction.CONTINUE: QualityStatus.PASSED,
    GatingAction.WARN: QualityStatus.WARNED,
    GatingAction.BLOCK_DOWNSTREAM: QualityStatus.FAILED,
    GatingAction.QUARANTINE: QualityStatus.QUARANTINED,
    GatingAction.FAIL_TASK: QualityStatus.FAILED,
    GatingAction.FAIL_RUN: QualityStatus.FAILED,
}
_HARMLESS = (GatingAction.CONTINUE, GatingAction.WARN)
_BADNESS: dict[str, int] = {status: rank for rank, status in enumerate(QualityStatus)}


def _fold_result(group: Group, item: Input) -> None:
    event: CheckExecuted = item.payload
    result = result_id(event.check_id, event.materialization_id)
    if group.get(CHECK_RESULTS, result) is not None:
        return
    # First of all: a result older than what is kept is rejected here, and must not be counted either.
    group.put(
        CHECK_RESULTS,
        CheckResult(
            result,
            event.check_id,
            event.check_name,
            event.check_type,
            event.asset_id,
            event.partition_id,
            event.materialization_id,
            event.run_id,
            event.task_id,
            event.passed,
            event.severity,
            event.expected_value,
            event.actual_value,
            event.message,
            event.executed_at,
        ),
    )
    _fold_decision(group, event, result)
    _fold_quality(group, item, event)
    _fold_day(group, event)


def _fold_decision(group: Group, event: CheckExecuted, result: str) -> None:
    if event.gating is None:
        return
    # Decisions may be kept for a shorter time than results; the result counts all the same.
    with suppress(Reject):
        group.put(
            GATING_DECISIONS,
            GatingDecision(
                result,
                event.check_id,
                event.asset_id,
                event.partition_id,
                event.materialization_id,
                event.run_id,
                event.task_id,
                event.gating.action,
                event.gating.policy,
                event.gating.reason,
                event.executed_at,
            ),
        )


def _fold_quality(group: Group, item: Input, event: CheckExecuted) -> None:
    row: Quality = group.get(QUALITY_TABLE, event.materialization_id) or Quality(
        event.materialization_id, event.asset_id, event.partition_id, QualityStatus.UNKNOWN, 0, 0, 0, 0, 0, 0, 0, 0, 0
    )
    failed = {severity: int(not event.passed and event.severity == severity) for severity in Severity}
    group.put(
        QUALITY_TABLE,
        msgspec.structs.replace(
            row,
            status=max(row.status, _status(event), key=_badness),
            check_count=row.check_count + 1,
            passed_count=row.passed_count + int(event.passed),
            failed_count=row.failed_count + int(not event.passed),
            failed_info=row.failed_info + failed[Severity.INFO],
            failed_warning=row.failed_warning + failed[Severity.WARNING],
            failed_error=row.failed_error + failed[Severity.ERROR],
            failed_critical=row.failed_critical + failed[Severity.CRITICAL],
            last_checked_at=max(row.last_checked_at, event.executed_at),
            updated_at=item.received,
        ),
    )


def _fold_day(group: Group, event: CheckExecuted) -> None:
    day, time = day_of(event.executed_at), event.executed_at
    row: CheckResultDay = group.get(CHECK_RESULT_DAYS, (event.asset_id, event.check_id, day)) or CheckResultDay(
        event.asset_id, event.check_id, day, event.check_name, 0, 0, 0, 0, 0, 0, 0, 0, time, time
    )
    failed = None if event.passed else event.severity
    held = event.gating is not None and event.gating.action not in _HARMLESS
    latest = (time, event.check_name) > (row.last_executed_at, row.check_name)
    group.put(
        CHECK_RESULT_DAYS,
        CheckResultDay(
            row.asset_id,
            row.check_id,
            day,
            event.check_name if latest else row.check_name,
            row.result_count + 1,
            row.passed_count + (failed is None),
            row.failed_count + (failed is not None),
            row.failed_info + (failed == Severity.INFO),
            row.failed_warning + (failed == Severity.WARNING),
            row.failed_error + (failed == Severity.ERROR),
            row.failed_critical + (failed == Severity.CRITICAL),
            row.held_count + held,
            min(row.first_executed_at, time),
            max(row.last_executed_at, time),
        ),
    )


def _badness(status: str) -> int:
    return _BADNESS[status]


def _status(event: CheckExecuted) -> QualityStatus:
    """What one result says, and what the action on it does if that is worse."""
    result = QualityStatus.PASSED if event.passed else _BY_SEVERITY[event.severity]
    action = _BY_ACTION[event.gating.action] if event.gating is not None else QualityStatus.PASSED
    return max(result, action, key=_badness)


QUALITY = Domain(
    name="quality",
    log="activity",
    version=2,
    events=EVENTS,
    stages=(
        Stage(
            "results",
            (CHECK_RESULTS, GATING_DECISIONS, QUALITY_TABLE, CHECK_RESULT_DAYS),
            ByField("asset_id"),
            _fold_result,
            events=tuple(event.name for event in EVENTS),
        ),
    ),
)
