"""Versions of partitions: how they stand, why, and what somebody decided about them."""

from typing import Annotated

from pydantic import Field

from arco.wire._base import Answer, Request, Written

__all__ = [
    "VersionCheck",
    "VersionDecided",
    "VersionDecision",
    "VersionDetail",
    "VersionFile",
    "VersionInfo",
    "VersionReader",
]


class VersionInfo(Answer):
    """A version of a partition."""

    materialization_id: str
    asset_id: str
    asset_key: str
    partition_key: str
    """In its canonical form, such as `date=d:2025-01-01`; empty for an asset without partitions."""
    version: int
    """1 for the first version of the partition."""
    status: str
    """`published`, `blocked` (its checks keep others from reading it), `quarantined`, `expired` or `deleted`."""
    current: bool
    """Whether it is what readers of the partition get."""
    run_id: str
    row_count: int
    byte_size: int
    file_count: int
    compacted_at: str | None
    """When its small files were merged last; null if they never were."""
    completed_at: str
    held_at: str | None
    """When it was first blocked or quarantined; null if it never was."""
    set_by: str | None
    """Who decided about it by hand, last; null if nobody did. What people decide wins over checks."""
    set_at: str | None
    reason: str | None
    """Why, as that person said."""
    failed_checks: list[str]
    """Names of its checks that failed, whatever was decided about them."""


class VersionCheck(Answer):
    """What a check found in a version, and what was done about it."""

    check_name: str
    check_type: str
    passed: bool
    severity: str
    expected_value: str | None
    actual_value: str | None
    message: str | None
    action: str | None
    """What the gating policy decided, if it was asked."""
    policy: str | None
    decision: str | None
    """Why the policy decided so."""
    executed_at: str


class VersionFile(Answer):
    path: str
    """Within the workspace."""
    size_bytes: int
    row_count: int


class VersionReader(Answer):
    """A version that was made of this one."""

    asset_key: str
    partition_key: str
    materialization_id: str
    run_id: str


class VersionDetail(VersionInfo):
    partition_id: str
    task_id: str
    code_version: str
    judged: str
    """What its producer and its checks made of it: `published`, `blocked` or `quarantined`."""
    set_to: str | None
    """What somebody made of it by hand: `published` or `quarantined`."""
    current_materialization_id: str | None
    """The version that readers of the partition get; null if it has none that is good."""
    current_version: int | None
    """Its number."""
    expired_at: str | None
    deleted_at: str | None
    checks: list[VersionCheck]
    """Those that failed first."""
    files: list[VersionFile]
    files_truncated: bool
    readers: list[VersionReader]
    """What was made of it, newest first; at most 100."""
    readers_truncated: bool = False
    """True if there may be others: more than are listed, or runs whose plans are not known any more."""


class VersionDecision(Request):
    reason: Annotated[str, Field(min_length=1, max_length=1000)]
    """Why, for those who look at it later."""


class VersionDecided(Written):
    """What a decision about a version did."""

    version: VersionInfo
    """As it stands now."""
    current_materialization_id: str | None
    """The version that readers of the partition get now; null if it has none that is good."""
    current_version: int | None
    """Its number."""
    run_state: str | None
    """How the run stands that made it; null if no run here did."""
    skipped_count: int
    """Tasks of that run that were skipped. A rerun runs them once the version is published."""
    reading_runs: list[str]
    """Runs under way that were planned to read this version: they go on with it."""
