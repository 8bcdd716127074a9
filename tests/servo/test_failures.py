"""Failures: categories by class and message, retries by class, hints that can be typed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.assets import Retries
from arco.core import Invalid, LostObject, RateLimited, Unavailable
from arco.domains.orchestration.events import FailureCategory as C
from arco.domains.orchestration.events import TaskFailure
from arco.servo._failures import MAX_MESSAGE, MAX_TRACEBACK, classify, hints_for, is_retryable
from arco.spark._errors import (
    BadFrame,
    FilesDamaged,
    InputDamaged,
    InputLost,
    NothingReturned,
    SessionStopped,
    SparkFailed,
    SparkUnavailable,
    raised_first,
)
from arco.spark._files import BadRecords
from arco.storage import StoreFailed
from arco.worker import _errors
from arco.worker._errors import ChecksFailed, DriverLost, SchemaViolation, SecretMissing
from arco.worker._sources import FilesMissing

EXECUTOR_LOST = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most "
    "recent failure: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.1 executor 3): ExecutorLostFailure (executor 3 exited "
    "caused by one of the running tasks) Reason: Command exited with code 137"
)


def lineage_of(kind: type[BaseException]) -> tuple[str, ...]:
    return tuple(f"{each.__module__}.{each.__qualname__}" for each in kind.__mro__ if each is not object)


def classified(
    kind: type[BaseException] | tuple[str, ...], message: str = "", retries: Retries | None = None
) -> TaskFailure:
    lineage = kind if isinstance(kind, tuple) else lineage_of(kind)
    return classify(lineage, message, "", retries or Retries(), run_id="R", task_key="n.a[date=2025-01-01]")


@pytest.mark.parametrize(
    ("kind", "message", "category"),
    [
        (ValueError, "", C.TRANSFORM_ERROR),
        (KeyError, "x", C.TRANSFORM_ERROR),
        (RecursionError, "", C.TRANSFORM_ERROR),
        (SystemExit, "", C.TRANSFORM_ERROR),
        (MemoryError, "", C.RESOURCE_EXHAUSTED),
        (OSError, "[Errno 28] No space left on device", C.RESOURCE_EXHAUSTED),
        (OSError, "[Errno 5] Input/output error", C.STORAGE_ERROR),
        (TimeoutError, "", C.TIMEOUT),
        (("requests.exceptions.ReadTimeout", "requests.exceptions.Timeout", "builtins.OSError"), "", C.TIMEOUT),
        (ConnectionRefusedError, "", C.UPSTREAM_FAILURE),
        (("requests.exceptions.HTTPError", "builtins.OSError"), "503 Server Error", C.UPSTREAM_FAILURE),
        (("requests.exceptions.HTTPError", "builtins.OSError"), "429 Client Error", C.RATE_LIMITED),
        (ValueError, "429 rows are negative", C.TRANSFORM_ERROR),
        (SparkFailed, "Task 429 in stage 3.0 failed 4 times (TID 429)", C.TRANSFORM_ERROR),
        (RuntimeError, "the service answered with status code: 429", C.RATE_LIMITED),
        (("openai.RateLimitError", "builtins.Exception"), "", C.RATE_LIMITED),
        (FileNotFoundError, "", C.MISSING_DEPENDENCY),
        (LostObject, "", C.MISSING_DEPENDENCY),
        (FilesMissing, "", C.MISSING_DEPENDENCY),
        (InputLost, "", C.MISSING_DEPENDENCY),
        (InputDamaged, "", C.STORAGE_ERROR),
        (FilesDamaged, "", C.STORAGE_ERROR),
        (SparkUnavailable, "", C.CONFIGURATION_ERROR),
        (SessionStopped, "", C.CONFIGURATION_ERROR),
        (NothingReturned, "", C.TRANSFORM_ERROR),
        (_errors.NothingReturned, "", C.SCHEMA_VIOLATION),
        (BadFrame, "", C.CONFIGURATION_ERROR),
        (BadRecords, "", C.DATA_QUALITY_FAILURE),
        (ModuleNotFoundError, "No module named 'x'", C.CONFIGURATION_ERROR),
        (SyntaxError, "", C.CONFIGURATION_ERROR),
        (PermissionError, "", C.CONFIGURATION_ERROR),
        (Invalid, "", C.CONFIGURATION_ERROR),
        (SecretMissing, "", C.CONFIGURATION_ERROR),
        (RateLimited, "", C.RATE_LIMITED),
        (Unavailable, "", C.UPSTREAM_FAILURE),
        (StoreFailed, "", C.STORAGE_ERROR),
        (SchemaViolation, "", C.SCHEMA_VIOLATION),
        (("pyarrow.lib.ArrowTypeError", "builtins.TypeError"), "", C.SCHEMA_VIOLATION),
        (ChecksFailed, "", C.DATA_QUALITY_FAILURE),
        (DriverLost, "", C.WORKER_LOST),
        (SparkFailed, EXECUTOR_LOST, C.WORKER_LOST),
        ((), "", C.TRANSFORM_ERROR),
    ],
)
def test_categories(kind: type[BaseException] | tuple[str, ...], message: str, category: C) -> None:
    assert classified(kind, message).category is category


def test_what_may_pass_by_itself() -> None:
    assert classified(TimeoutError).is_transient
    assert classified(DriverLost).is_transient
    assert classified(SparkFailed, EXECUTOR_LOST).is_transient
    assert not classified(ValueError).is_transient
    assert not classified(SchemaViolation).is_transient


@pytest.mark.parametrize(
    ("retries", "expected"),
    [
        (Retries(), True),
        (Retries(on=("ConnectionError",)), True),
        (Retries(on=("builtins.ConnectionResetError",)), True),
        (Retries(on=("builtins.OSError",)), True),
        (Retries(on=("ValueError",)), False),
        (Retries(on=("other.ConnectionResetError",)), False),
        (Retries(never=("OSError",)), False),
        (Retries(on=("ConnectionError",), never=("ConnectionResetError",)), False),
    ],
)
def test_retries_name_classes_and_what_derives_from_them(retries: Retries, expected: bool) -> None:
    assert is_retryable(lineage_of(ConnectionResetError), retries) is expected
    assert classified(ConnectionResetError, retries=retries).retryable is expected


@given(st.sampled_from(list(C)), st.text(), st.text())
def test_every_category_has_hints_whose_commands_hold_what_they_name(category: C, run_id: str, task_key: str) -> None:
    hints = hints_for(category, run_id, task_key)
    assert hints
    assert all(hint.action for hint in hints)


def test_of_a_lost_executor_people_are_told_what_may_have_killed_it() -> None:
    assert "lack of memory" in classified(SparkFailed, EXECUTOR_LOST).hints[0].action


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        (FilesMissing, "Others bring these files, no run makes them"),
        (FilesDamaged, "Others bring these files, no run makes them"),
        (InputLost, "Make what it reads anew"),
        (InputDamaged, "Make what it reads anew"),
        (SparkUnavailable, "Install or set what the error asks for"),
        (SessionStopped, "Check the project"),
        (SchemaViolation, "with the columns it declares and with those of what it reads"),
        (BadRecords, 'corrupt="null" or corrupt="drop"'),
        (NothingReturned, "Have sales:orders return its data"),
        (_errors.NothingReturned, "Have sales:orders return its data"),
        (BadFrame, "Have sales:orders return what the error asks for"),
        (ChecksFailed, "See which checks failed"),
    ],
)
def test_hints_fit_what_is_known_of_an_exception(kind: type[BaseException], action: str) -> None:
    hints = classify(lineage_of(kind), "", "", Retries(), run_id="R", task_key="n.a", function="sales:orders").hints
    assert action in hints[0].action


def test_of_what_is_missing_people_plan_the_partition_that_misses_it() -> None:
    (hint,) = hints_for(C.MISSING_DEPENDENCY, "R", "n.a[date=2025-01-01,region=the north]")
    assert hint.command == "arco plan +n.a -p date=2025-01-01 -p 'region=the north'"


def test_what_is_damaged_is_made_again_with_the_partition_that_reads_it() -> None:
    (hint,) = classified(InputDamaged).hints
    assert hint.command == "arco run 1+n.a -p date=2025-01-01 --force"


RAISED = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 3369, in main
    process()
  File "{path}", line 12, in clean
    raise ValueError("x is too big for me")
ValueError: x is too big for me
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/tmp/code/shop/orders.py", " (shop/orders.py:12)"),
        ("/tmp/spark-1/userFiles-2/code-3.zip/shop/orders.py", " (shop/orders.py:12)"),
        ("/venv/lib/python3.11/site-packages/pandas/frame.py", ""),
    ],
)
def test_what_a_function_on_spark_raised_comes_first(path: str, place: str) -> None:
    first, _, rest = raised_first(RAISED.format(path=path), "/tmp/code").partition("\n")
    assert first == f"ValueError: x is too big for me{place}"
    assert rest.startswith("Traceback (most recent call last):\n")
    assert rest.endswith("\nValueError: x is too big for me")


@pytest.mark.parametrize("text", ["", "no traceback", "Traceback (most recent call last):", '  File "x", line 1, in f'])
def test_what_is_no_traceback_is_told_as_it_is(text: str) -> None:
    assert raised_first(text, "") == text


def test_commands_can_be_typed_as_they_are() -> None:
    commands = [hint.command for hint in hints_for(C.TRANSFORM_ERROR, "R", "n.a[date=2025-01-01]")]
    assert commands[0] == "arco runs logs R 'n.a[date=2025-01-01]'"
    everything = " ".join(hint.command for category in C for hint in hints_for(category, "R", "n.a"))
    assert not re.search(r"[{}]", everything)


@given(st.text(max_size=50).map(lambda text: text * 1000))
def test_texts_have_a_greatest_length_and_keep_both_ends(text: str) -> None:
    failure = classify(("builtins.ValueError",), text, text, Retries(), run_id="R", task_key="t")
    assert len(failure.message) <= MAX_MESSAGE
    assert len(failure.traceback) <= MAX_TRACEBACK
    assert text.startswith(failure.message[:100])
    assert text.endswith(failure.message[-100:])
