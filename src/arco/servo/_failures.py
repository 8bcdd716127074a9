"""Why a task failed: from an exception to a category, whether it may pass by itself, and what to do about it.

An exception is told by the names of its class and of all classes that one derives from (its *lineage*, most special
first, as `module.Class`), its message and its traceback. The first rule that fits decides the category. Whether another
attempt is made is not a matter of the category: the asset's `Retries` say so, by the same names.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from arco.assets import Retries
from arco.domains.orchestration.events import FailureCategory, Hint, TaskFailure

__all__ = ["MAX_MESSAGE", "MAX_TRACEBACK", "classify", "hints_for", "is_retryable"]

MAX_MESSAGE: Final = 4_000
MAX_TRACEBACK: Final = 16_000

C = FailureCategory


class Rule(NamedTuple):
    category: FailureCategory
    classes: tuple[str, ...] = ()
    """Any of these in the lineage, as `module.Class` or `Class`; empty for every exception."""
    pattern: str = ""
    """What the message must hold beside."""


RULES: Final = (
    Rule(C.WORKER_LOST, ("DriverLost",)),
    Rule(C.SCHEMA_VIOLATION, ("SchemaViolation", "pyarrow.lib.ArrowTypeError", "SchemaError", "SchemaErrors")),
    Rule(
        C.SCHEMA_VIOLATION,
        ("AnalysisException",),
        r"UNRESOLVED_COLUMN|cannot resolve|DATATYPE_MISMATCH|AMBIGUOUS_REFERENCE|COLUMN_ALREADY_EXISTS|"
        r"UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE|INCOMPATIBLE_COLUMN_TYPE|NUM_COLUMNS_MISMATCH",
    ),
    Rule(C.DATA_QUALITY_FAILURE, ("ChecksFailed", "BadRecords")),
    Rule(C.MISSING_DEPENDENCY, ("LostObject", "ObjectMissing", "FileNotFoundError", "NoSuchKey")),
    Rule(C.RESOURCE_EXHAUSTED, ("MemoryError", "OutOfMemoryError", "OutOfMemoryException", "SparkOutOfMemory")),
    Rule(C.RESOURCE_EXHAUSTED, (), r"(?i)no space left on device|too many open files|out of memory|OutOfMemoryError"),
    Rule(C.WORKER_LOST, (), r"ExecutorLostFailure|ExecutorDeadException|Executor heartbeat timed out"),
    Rule(C.RATE_LIMITED, ("RateLimited", "RateLimitError", "TooManyRequests", "ThrottlingException")),
    Rule(C.RATE_LIMITED, ("HTTPError", "HTTPStatusError", "ClientError"), r"\b429\b"),
    Rule(C.RATE_LIMITED, (), r"(?i)too many requests|rate limit|throttl|slowdown|\b(?:http|status|code)\W{0,3}429\b"),
    Rule(C.TIMEOUT, ("builtins.TimeoutError", "Timeout", "TimeoutException", "ReadTimeoutError")),
    Rule(C.STORAGE_ERROR, ("StoreError", "StoreRefused", "Corrupt", "BotoCoreError", "ClientError")),
    Rule(C.STORAGE_ERROR, ("obstore.exceptions.BaseError",)),
    Rule(C.UPSTREAM_FAILURE, ("ConnectionError", "URLError", "TransportError", "NetworkError", "Unavailable")),
    Rule(C.UPSTREAM_FAILURE, ("HTTPError", "HTTPStatusError"), r"\b5[0-9][0-9]\b"),
    Rule(C.TRANSFORM_ERROR, ("NothingReturned",)),
    Rule(C.CONFIGURATION_ERROR, ("ImportError", "SyntaxError", "ImportFailed", "SecretMissing", "PermissionError")),
    Rule(C.CONFIGURATION_ERROR, ("Invalid", "Refused")),
    Rule(C.STORAGE_ERROR, ("builtins.OSError",)),
    Rule(C.TRANSFORM_ERROR),
)

TRANSIENT: Final = frozenset(
    {C.WORKER_LOST, C.TIMEOUT, C.STORAGE_ERROR, C.UPSTREAM_FAILURE, C.RATE_LIMITED, C.RESOURCE_EXHAUSTED}
)

_LOGS: Final = Hint("Read what the task printed.", "arco runs logs {run} {task}")
_AGAIN: Final = Hint("Run what failed again.", "arco runs rerun {run} --from-failure")
_FIX: Final = Hint("Correct the code, check it and deploy it.", "arco check && arco deploy")
_HINTS: Final = {
    C.SCHEMA_VIOLATION: (
        Hint("Compare the columns that the error names with the columns it declares and with those of what it reads."),
        _FIX,
    ),
    C.DATA_QUALITY_FAILURE: (Hint("See which checks failed and why.", "arco runs show {run}"), _LOGS),
    C.MISSING_DEPENDENCY: (
        Hint("Make what it reads first; the plan tells what is missing.", "arco plan +{unit}{options}"),
    ),
    C.RESOURCE_EXHAUSTED: (Hint("Give the worker more memory or disk, or run fewer tasks at once."), _AGAIN),
    C.TIMEOUT: (Hint("See where the time went, then make it faster or raise its timeout."), _LOGS, _AGAIN),
    C.STORAGE_ERROR: (Hint("Check the store and the rights of the worker.", "arco doctor"), _AGAIN),
    C.TRANSFORM_ERROR: (_LOGS, _FIX),
    C.CONFIGURATION_ERROR: (Hint("Check the project, its packages, and the environment of the worker."), _FIX),
    C.UPSTREAM_FAILURE: (Hint("Check that the service it calls can be reached from the worker."), _AGAIN),
    C.RATE_LIMITED: (Hint("Wait, or give the asset retries with a longer delay."), _AGAIN),
    C.WORKER_LOST: (Hint("See whether its process was killed, such as for lack of memory."), _LOGS, _AGAIN),
}
_ANEW: Final = (
    Hint(
        "Make what it reads anew, and this with it: to a plan it is up to date, so that it must be forced.",
        "arco run 1+{unit}{options} --force",
    ),
)
_SPECIAL: Final = {
    "SparkUnavailable": (
        Hint("Install or set what the error asks for where the worker runs, then start the worker anew."),
        _AGAIN,
    ),
    "InputLost": _ANEW,
    "InputDamaged": _ANEW,
    "FilesMissing": (
        Hint(
            "Others bring these files, no run makes them: see that they come to where the error expects them, below "
            "<store>/<tenant>/<workspace>/ as `arco config` has these."
        ),
        _AGAIN,
    ),
    "FilesDamaged": (Hint("Others bring these files, no run makes them: see that the one is replaced."), _AGAIN),
    "BadRecords": (
        Hint('Correct the file, or say in its source what becomes of such records: corrupt="null" or corrupt="drop".'),
        _AGAIN,
    ),
    "NothingReturned": (Hint("Have {function} return its data; without a return statement it returns None."), _FIX),
    "BadFrame": (Hint("Have {function} return what the error asks for."), _FIX),
}
"""By class, for exceptions of which more is known than their category. The first one that fits."""


def classify(
    lineage: Sequence[str],
    message: str,
    traceback: str,
    retries: Retries,
    *,
    run_id: str,
    task_key: str,
    function: str = "",
) -> TaskFailure:
    """What became of a task that raised this. `function` is that of the asset, as `module:qualname`."""
    category = next(rule.category for rule in RULES if _fits(rule, lineage, message))
    return TaskFailure(
        category=category,
        error_type=lineage[0] if lineage else "",
        message=_shortened(message, MAX_MESSAGE),
        is_transient=category in TRANSIENT,
        retryable=is_retryable(lineage, retries),
        traceback=_shortened(traceback, MAX_TRACEBACK),
        hints=hints_for(category, run_id, task_key, lineage, function),
    )


def is_retryable(lineage: Sequence[str], retries: Retries) -> bool:
    """Whether the asset's retries cover an exception of this lineage: none of `never`, one of `on` if it has any."""
    if any(_is_a(lineage, name) for name in retries.never):
        return False
    return not retries.on or any(_is_a(lineage, name) for name in retries.on)


def hints_for(
    category: FailureCategory, run_id: str, task_key: str, lineage: Sequence[str] = (), function: str = ""
) -> tuple[Hint, ...]:
    unit, _, partition = task_key.partition("[")
    names = {
        "run": run_id,
        "task": shlex.quote(task_key),
        "unit": unit,
        "options": "".join(f" -p {shlex.quote(part)}" for part in partition.removesuffix("]").split(",") if part),
        "function": function or "the function",
    }
    hints = next((hints for name, hints in _SPECIAL.items() if _is_a(lineage, name)), _HINTS[category])
    return tuple(Hint(hint.action.format(**names), hint.command.format(**names)) for hint in hints)


def _fits(rule: Rule, lineage: Sequence[str], message: str) -> bool:
    if rule.classes and not any(_is_a(lineage, name) for name in rule.classes):
        return False
    return not rule.pattern or re.search(rule.pattern, message) is not None


def _is_a(lineage: Sequence[str], name: str) -> bool:
    return any(given == name or given.rpartition(".")[2] == name for given in lineage)


def _shortened(text: str, limit: int) -> str:
    """Beginning and end of a long text: the one says what was called, the other what went wrong."""
    if len(text) <= limit:
        return text
    half = (limit - 40) // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
