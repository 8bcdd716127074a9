"""Events of quality: what a check found in a version of a partition, and what was done about it.

Three things that are never mixed up: whether the check *passed*, how bad it is that it did not (*severity*), and the
*action* that a gating policy made of it. All three are facts; nobody derives one of them from another here.
"""

from typing import Annotated

import msgspec

from arco.assets import GatingAction, Severity
from arco.core import fingerprint
from arco.log import EventType, Instant

__all__ = ["CHECK_EXECUTED", "EVENTS", "CheckExecuted", "Gating", "GatingAction", "Severity", "check_id", "result_id"]

Id = Annotated[str, msgspec.Meta(min_length=1)]


class Gating(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What was done because of a result, and by which policy."""

    action: GatingAction
    policy: str
    reason: str = ""


class CheckExecuted(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A check has one result per materialization: the first one told. Told again it changes nothing, so its time must
    not differ then."""

    check_id: Id
    check_name: str
    check_type: str
    asset_id: Id
    partition_id: str
    materialization_id: Id
    run_id: str
    task_id: str
    passed: bool
    severity: Severity
    executed_at: Instant
    expected_value: str | None = None
    actual_value: str | None = None
    message: str = ""
    gating: Gating | None = None


def check_id(asset_id: str, name: str) -> str:
    """A check keeps its id as long as its asset and its name do."""
    return f"check_{fingerprint([asset_id, name])[:32]}"


def result_id(check_id: str, materialization_id: str) -> str:
    return f"result_{fingerprint([check_id, materialization_id])[:32]}"


CHECK_EXECUTED = EventType("CheckExecuted", CheckExecuted, recordable=True, time=lambda event: event.executed_at)

EVENTS = (CHECK_EXECUTED,)
