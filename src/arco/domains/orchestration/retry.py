"""When and with whom a task may be tried again: pure functions of its plan, the attempt that ended, and when that was.

The jitter is a hash and no chance, so that every fold of the same facts finds the same moment. Tasks of a batch share
it: what was lost together is tried again together.

A batch whose driver or worker died says nothing about which of its tasks is to blame. So those that were lost go on in
batches of half the size, until each stands alone (`batch_limit`). Losses in company are nobody's fault; but what was
lost in company and then goes on being lost alone has failed after few more (`most_losses`).
"""

import hashlib

from arco.assets import Backoff
from arco.core import SECOND
from arco.domains.orchestration.tables import PlanTaskRow

__all__ = ["LONE_LOSSES", "MAX_LOSSES", "batch_limit", "delay_seconds", "most_losses", "retry_at"]

MAX_LOSSES = 10
"""Attempts of a task that may be lost; with the last of them it has failed, whatever its retries are."""

LONE_LOSSES = 3
"""Of a task that was planned in a batch: how often it may be lost alone, after all the halving."""

_MOST_DOUBLINGS = 60


def batch_limit(size: int | None, losses: int) -> int:
    """How many tasks of a batch of that size, each lost so often, may be claimed together."""
    return max(1, (size or 1) >> losses)


def most_losses(size: int | None) -> int:
    """With so many losses a task of a batch of that size has failed."""
    return MAX_LOSSES if size is None else size.bit_length() - 1 + LONE_LOSSES


def delay_seconds(plan: PlanTaskRow, attempt: int) -> float:
    """How long to wait after this attempt."""
    if plan.retry_backoff == Backoff.EXPONENTIAL:
        delay = plan.retry_delay_seconds * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS)
    elif plan.retry_backoff == Backoff.LINEAR:
        delay = plan.retry_delay_seconds * attempt
    else:
        delay = plan.retry_delay_seconds
    delay = min(delay, plan.retry_max_delay_seconds)
    return max(0.0, delay * (1.0 + plan.retry_jitter * _chance(plan.run_id, plan.batch or plan.task_key, attempt)))


def retry_at(plan: PlanTaskRow, attempt: int, ended_at: int) -> int:
    """The moment, in microseconds, from which the next attempt may begin."""
    return ended_at + round(delay_seconds(plan, attempt) * SECOND)


def _chance(run_id: str, name: str, attempt: int) -> float:
    """From -1 to 1, the same for the same attempt."""
    digest = hashlib.sha256(f"{run_id}\n{name}\n{attempt}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / (1 << 47) - 1.0
