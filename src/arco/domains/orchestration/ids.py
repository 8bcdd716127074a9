"""Ids that follow from what they name, so that whoever acts twice names the same thing.

Internal ids are for people and for keys. Queues outside allow only letters, digits, `_` and `-` in the names of their
tasks and want them spread evenly: `cloud_task_id` is a hash of the internal id.
"""

import base64
import hashlib

from arco.core import SECOND, Ulid, derive_ulid

__all__ = [
    "MAX_ATTEMPT",
    "attempt_key",
    "cloud_task_id",
    "dispatch_id",
    "materialization_id",
    "newest_first",
    "retry_timer_id",
    "timeout_timer_id",
]

MAX_ATTEMPT = 999_999


def attempt_key(attempt: int) -> str:
    """The number of an attempt as text that sorts like it."""
    return f"{attempt:06d}"


def newest_first(run_id: str) -> str:
    """Text that sorts the other way round than the id, which begins with its time."""
    return "".join(chr(max(33, 159 - ord(character))) for character in run_id)


def dispatch_id(run_id: str, task_key: str, attempt: int) -> str:
    return f"dispatch:{run_id}:{task_key}:{attempt}"


def retry_timer_id(run_id: str, task_key: str, attempt: int, fire_at: int) -> str:
    """The wait after an attempt. `fire_at` is part of it: a queue does not take a name again for a day."""
    return f"timer:retry:{run_id}:{task_key}:{attempt}:{fire_at // SECOND}"


def timeout_timer_id(run_id: str, fire_at: int) -> str:
    return f"timer:run_timeout:{run_id}:{fire_at // SECOND}"


def cloud_task_id(kind: str, internal_id: str) -> str:
    """The name in a queue outside; `kind` is `d` for a dispatch and `t` for a timer."""
    digest = hashlib.sha256(internal_id.encode()).digest()
    return f"{kind}_{base64.b32encode(digest).decode()[:26].lower()}"


def materialization_id(claimed_at: int, attempt_id: str, asset_id: str) -> Ulid:
    """The version of an asset that an attempt writes: every attempt has a folder of its own."""
    return derive_ulid(claimed_at, f"{attempt_id}:{asset_id}")
