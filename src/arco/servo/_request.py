"""`RunRequest`: what somebody wants to run. Every trigger makes one, and the planner makes a plan of it.

`at` is the moment it was asked, minted where it entered: which time windows exist follows from it, so that planning
itself never looks at a clock. It and the caller's `run_key` say when and under which name something is asked, not
what: they are no part of the request's fingerprint, so that a repetition of the same request is recognised.
"""

from enum import StrEnum
from typing import Final

import msgspec

from arco.core import Invalid, TooLarge, fingerprint, shown
from arco.domains.orchestration.events import FailurePolicy

__all__ = ["Mode", "RunRequest", "check_request", "request_fingerprint"]

MAX_PARALLELISM: Final = 10_000
MAX_BATCH: Final = 1_000
MAX_PRIORITY: Final = 1_000
MAX_SELECTION: Final = 10_000
MAX_TEXT: Final = 255
MAX_TAGS: Final = 50
MAX_KEYS: Final = 100_000
MAX_KEY: Final = 1_000
MAX_SECONDS: Final = 366 * 24 * 3600


class Mode(StrEnum):
    STANDARD = "standard"
    """What is up to date is skipped. What nobody can compare, because it has no inputs or unknown ones, runs."""
    FILL = "fill"
    """As `standard`, but what nobody can compare counts as up to date: what is missing or outdated is made."""
    FORCE = "force"
    """Everything that was selected runs."""


class RunRequest(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    selection: str
    """Which assets, such as `+sales.orders` or `tag:tier=gold and not owner:me`."""
    partitions: dict[str, str] = {}
    """By dimension: a key, several, or a range, as people write them."""
    mode: Mode = Mode.STANDARD
    failure_policy: FailurePolicy = FailurePolicy.CONTINUE
    max_parallelism: int = 0
    """Tasks of this run at once; 0 for as many as the workspace allows."""
    timeout_seconds: float | None = None
    priority: int = 0
    """Greater comes first."""
    tags: dict[str, str] = {}
    run_key: str = ""
    """What the caller calls this run: the same key never starts a second one."""
    at: int = 0
    """When it was asked, microseconds."""
    rerun_of: str = ""
    """The run that it repeats: inputs are those of that run, as far as they are still good."""
    only_tasks: tuple[str, ...] = ()
    """Keys of the tasks to plan; empty for all. A rerun from failure names what did not succeed."""
    window: str = ""
    """A range of time, `FROM..TO`, for every dimension of time that `partitions` does not name."""
    partition_keys: tuple[str, ...] = ()
    """Partitions one by one, such as `date=2026-01-01,region=eu`; of an asset with one dimension the key is enough."""
    batch: int = 0
    """Tasks of a unit that run together, of those that may; 1 for none, 0 for as many as the planner thinks best."""


def request_fingerprint(request: RunRequest) -> str:
    """The same for the same wish, whenever and under whichever key it is uttered."""
    asked = msgspec.structs.replace(request, at=0, run_key="", only_tasks=tuple(sorted(set(request.only_tasks))))
    return fingerprint(msgspec.to_builtins(asked))


def check_request(request: RunRequest) -> None:
    """`Invalid` says what no run can have."""
    if not request.selection.strip():
        raise Invalid("nothing is selected; name assets, such as `arco run sales.orders`, or `*` for all")
    if len(request.selection) > MAX_SELECTION:
        raise TooLarge(f"the selection has {len(request.selection)} characters, the limit is {MAX_SELECTION}")
    if not 0 <= request.max_parallelism <= MAX_PARALLELISM:
        raise Invalid(f"max_parallelism is {request.max_parallelism}; give 1 to {MAX_PARALLELISM}, or 0 for no limit")
    if not 0 <= request.batch <= MAX_BATCH:
        raise Invalid(f"batch is {request.batch}; give 1 to {MAX_BATCH}, or 0 to leave it to the planner")
    _check_partitions(request)
    if not -MAX_PRIORITY <= request.priority <= MAX_PRIORITY:
        raise Invalid(f"the priority is {request.priority}; give -{MAX_PRIORITY} to {MAX_PRIORITY}")
    if request.timeout_seconds is not None and not 0 < request.timeout_seconds <= MAX_SECONDS:
        raise Invalid(f"timeout_seconds is {request.timeout_seconds}; give more than 0 and at most {MAX_SECONDS}")
    if len(request.tags) > MAX_TAGS:
        raise TooLarge(f"{len(request.tags)} tags are too many, the limit is {MAX_TAGS}; remove some")
    for what, text in (
        *(("tag", text) for pair in request.tags.items() for text in pair),
        ("run key", request.run_key),
    ):
        if len(text) > MAX_TEXT or not text.isprintable():
            raise Invalid(f"the {what} {shown(text)} has an unseen character or more than {MAX_TEXT}; change it")


def _check_partitions(request: RunRequest) -> None:
    if len(request.partition_keys) > MAX_KEYS:
        raise TooLarge(f"{len(request.partition_keys):,} partitions are named one by one, the limit is {MAX_KEYS:,}")
    if request.partition_keys and (request.partitions or request.window):
        raise Invalid("partitions are named one by one, so no range and no dimension can be given beside them")
    for text in (request.window, *request.partition_keys):
        if len(text) > MAX_KEY or not text.isprintable():
            raise Invalid(f"the partition {shown(text)} has an unseen character or more than {MAX_KEY}; change it")
    if request.window and ".." not in request.window:
        raise Invalid(f"{shown(request.window)} is no range of time; write FROM..TO, one of them may be missing")
