"""When a task may be tried again: a pure function of its plan, the attempt that ended, and when that was.

The jitter is a hash and no chance, so that every fold of the same facts finds the same moment.
"""

import hashlib

from arco.assets import Backoff
from arco.core import SECOND
from arco.domains.orchestration.tables import PlanTaskRow

__all__ = ["MAX_LOSSES", "delay_seconds", "retry_at"]

MAX_LOSSES = 10
"""Attempts of a task that may be reaped; with the last of them it has failed, whatever its retries are."""

_MOST_DOUBLINGS = 60


def delay_seconds(plan: PlanTaskRow, attempt: int) -> float:
    """How long to wait after this attempt."""
    if plan.retry_backoff == Backoff.EXPONENTIAL:
        delay = plan.retry_delay_seconds * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS)
    elif plan.retry_backoff == Backoff.LINEAR:
        delay = plan.retry_delay_seconds * attempt
    else:
        delay = plan.retry_delay_seconds
    delay = min(delay, plan.retry_max_delay_seconds)
    return max(0.0, delay * (1.0 + plan.retry_jitter * _chance(plan.run_id, plan.task_key, attempt)))


def retry_at(plan: PlanTaskRow, attempt: int, ended_at: int) -> int:
    """The moment, in microseconds, from which the next attempt may begin."""
    return ended_at + round(delay_seconds(plan, attempt) * SECOND)


def _chance(run_id: str, task_key: str, attempt: int) -> float:
    """From -1 to 1, the same for the same attempt."""
    digest = hashlib.sha256(f"{run_id}\n{task_key}\n{attempt}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / (1 << 47) - 1.0
