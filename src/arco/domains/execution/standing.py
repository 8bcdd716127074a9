"""How a version stands: pure functions from what was told of it to its status.

What its producer and its checks say is *judged*: the worst that anybody told counts, in whatever order and however
often. What somebody set by hand wins over it, whenever checks come. A version that expired is past both.
"""

from typing import Any, Protocol

import msgspec

from arco.assets import GatingAction, Severity
from arco.core import MAX_TIME
from arco.domains.execution.events import MaterializationCompleted
from arco.domains.execution.tables import (
    BLOCKED,
    DELETED,
    EXPIRED,
    HELD,
    PUBLISHED,
    QUARANTINED,
    CompactedVersion,
    Materialization,
    VersionStatus,
)

__all__ = [
    "JUDGED",
    "Checked",
    "Gated",
    "current_fields",
    "held_key",
    "judge_check",
    "known_version",
    "partition_status",
    "standing",
    "unknown_version",
]


class Gated(Protocol):
    """What a policy made of a result."""

    @property
    def action(self) -> GatingAction: ...


class Checked(Protocol):
    """The result of a check, as the domain `quality` defines its event: what counts of it here."""

    @property
    def asset_id(self) -> str: ...

    @property
    def partition_id(self) -> str: ...

    @property
    def materialization_id(self) -> str: ...

    @property
    def passed(self) -> bool: ...

    @property
    def severity(self) -> Severity: ...

    @property
    def gating(self) -> Gated | None: ...


JUDGED = (PUBLISHED, BLOCKED, QUARANTINED)
"""From best to worst."""

_BY_ACTION = {
    GatingAction.CONTINUE: PUBLISHED,
    GatingAction.WARN: PUBLISHED,
    GatingAction.BLOCK_DOWNSTREAM: BLOCKED,
    GatingAction.QUARANTINE: QUARANTINED,
    GatingAction.FAIL_TASK: BLOCKED,
    GatingAction.FAIL_RUN: BLOCKED,
}
_HARMLESS = (Severity.INFO, Severity.WARNING)


def judge_check(event: Checked) -> str:
    """What one result makes of its version. A failure is no reason by itself: what counts is what its policy made of
    it. One that no policy judged blocks if it is severe."""
    if event.gating is not None:
        return _BY_ACTION[event.gating.action]
    return PUBLISHED if event.passed or event.severity in _HARMLESS else BLOCKED


def unknown_version(event: MaterializationCompleted | Checked) -> VersionStatus:
    """A version of which nothing is known yet but that it exists."""
    return _fresh(event.materialization_id, event.asset_id, event.partition_id)


def known_version(row: Materialization) -> VersionStatus:
    """A version against which nothing speaks so far."""
    fresh = _fresh(row.materialization_id, row.asset_id, row.partition_id)
    return msgspec.structs.replace(
        fresh, asset_key=row.asset_key, partition_key=row.partition_key, version=row.version, judged=row.status
    )


def _fresh(materialization_id: str, asset_id: str, partition_id: str) -> VersionStatus:
    return VersionStatus(
        materialization_id=materialization_id,
        asset_id=asset_id,
        asset_key="",
        partition_id=partition_id,
        partition_key="",
        version=None,
        status=PUBLISHED,
        judged=PUBLISHED,
        set_to=None,
        reason=None,
        set_by=None,
        set_at=None,
        held_at=None,
        expired_at=None,
        deleted_at=None,
        updated_at=0,
    )


def standing(row: VersionStatus, at: int) -> VersionStatus:
    """The row with what follows from its other fields; `at` is when the last of them changed."""
    if row.deleted_at is not None:
        status = DELETED
    elif row.expired_at is not None:
        status = EXPIRED
    else:
        status = row.set_to or row.judged
    held_at = at if row.held_at is None and status in HELD else row.held_at
    return msgspec.structs.replace(row, status=status, held_at=held_at, updated_at=at)


def held_key(row: VersionStatus) -> str:
    """The place of a version in the list of those that were held back, the last one first. It never changes."""
    return f"{MAX_TIME - (row.held_at or 0):018d}:{row.materialization_id}"


def current_fields(version: Materialization | None, compacted: CompactedVersion | None = None) -> dict[str, Any]:
    """The fields of a partition that follow from its current version, or from having none."""
    if version is None:
        return dict.fromkeys(_CURRENT)
    return {
        "current_materialization_id": version.materialization_id,
        "current_version": version.version,
        "row_count": version.row_count,
        "byte_size": version.byte_size if compacted is None else compacted.byte_size,
        "file_count": version.file_count if compacted is None else compacted.file_count,
        "schema_hash": version.schema_hash,
        "last_success_at": version.completed_at,
    }


_CURRENT = (
    "current_materialization_id",
    "current_version",
    "row_count",
    "byte_size",
    "file_count",
    "schema_hash",
    "last_success_at",
)


def partition_status(newest: str | None, *, is_current: bool) -> str:
    """How a partition stands whose last attempt did not fail: by its newest version, and whether any is current."""
    if newest is not None and newest in HELD:
        return newest
    return "complete" if newest == PUBLISHED or is_current else "expired"
