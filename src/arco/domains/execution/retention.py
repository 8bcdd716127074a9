"""Retention of versions: which versions of a partition nobody needs any more. A pure function of what is known of them.

A partition keeps its newest good versions: at least `min_versions`, never more than `max_versions`, and between these
two all that are younger than `min_days`. A version that is held back is kept for `min_days` after it was made or set
aside, so that there is time to look at it, and counts for nothing else. The current version always stays.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

from arco.core import DAY, HOUR
from arco.domains.execution.tables import DELETED, EXPIRED, HELD, PUBLISHED, Materialization, VersionStatus

__all__ = ["RetentionPolicy", "expirable"]


class RetentionPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    min_days: Annotated[int, msgspec.Meta(ge=1)] = 7
    """Days for which a version is kept at least."""
    min_versions: Annotated[int, msgspec.Meta(ge=1)] = 2
    """Good versions of a partition that are kept however old they are."""
    max_versions: Annotated[int, msgspec.Meta(ge=1)] = 100
    """Good versions of a partition that are kept however young they are; the least is 1, the current one."""
    grace_hours: Annotated[int, msgspec.Meta(ge=1)] = 24
    """Hours between the end of a version and that of its files."""

    @property
    def grace(self) -> int:
        return self.grace_hours * HOUR


def expirable(
    versions: Iterable[Materialization],
    statuses: Mapping[str, VersionStatus],
    current: str | None,
    policy: RetentionPolicy,
    now: int,
) -> dict[str, str]:
    """Of the versions of one partition those that may expire now, each with the reason."""
    found: dict[str, str] = {}
    good = 0
    for version in sorted(versions, key=lambda row: -row.version):
        name, row = version.materialization_id, statuses.get(version.materialization_id)
        status = row.status if row is not None else PUBLISHED
        if status in (EXPIRED, DELETED):
            continue
        is_held = status in HELD
        good += not is_held
        if name == current:
            continue
        is_old = _last_moved(version, row) < now - policy.min_days * DAY
        if is_held:
            if is_old:
                found[name] = f"{status}, and nobody released it for {policy.min_days} days"
        elif good > policy.max_versions:
            found[name] = f"{policy.max_versions} newer versions are kept"
        elif good > policy.min_versions and is_old:
            found[name] = f"older than {policy.min_days} days, and {policy.min_versions} newer versions are kept"
    return found


def _last_moved(version: Materialization, row: VersionStatus | None) -> int:
    """When it was made, or when somebody last decided about it."""
    times = [version.completed_at]
    if row is not None:
        times += [time for time in (row.held_at, row.set_at) if time is not None]
    return max(times)
