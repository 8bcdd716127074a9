"""The fold of quality: results, decisions, and how each materialization stands after them, in any order."""

from contextlib import suppress

import msgspec

from arco.domains.quality.events import EVENTS, CheckExecuted, GatingAction, Severity, result_id
from arco.domains.quality.tables import (
    CHECK_RESULTS,
    GATING_DECISIONS,
    QUALITY_TABLE,
    CheckResult,
    GatingDecision,
    Quality,
    QualityStatus,
)
from arco.state import Domain, Group, Input, Reject, Stage

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
    version=1,
    events=EVENTS,
    stages=(
        Stage(
            "results",
            (CHECK_RESULTS, GATING_DECISIONS, QUALITY_TABLE),
            lambda item: (item.payload.asset_id,),
            _fold_result,
            events=tuple(event.name for event in EVENTS),
        ),
    ),
)
