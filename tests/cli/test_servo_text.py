"""How plans, runs, tasks and failures read: what is said, what fits, and that nothing of a run acts on the terminal."""

import io
import unicodedata
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from arco.cli._deploy import diff_lines
from arco.cli._output import Output, explained
from arco.cli._plan import plan_parts
from arco.cli._run_text import (
    attempts_grid,
    counts_text,
    failure_text,
    held_text,
    job_lines,
    progress_text,
    shown_partition,
    shown_seconds,
    tasks_grid,
)
from arco.cli._runs import _listed
from arco.cli._watch import Seen, frame
from arco.core import SECOND, format_time
from arco.wire import (
    AttemptInfo,
    DeployChange,
    DeployDiff,
    PlanInfo,
    PlannedTaskInfo,
    RunDetail,
    SkipInfo,
    TaskDetail,
    TaskHint,
    TaskProgress,
    TaskSummary,
    UnitProgress,
)

NOW = 1_800_000_000 * SECOND
ANY = st.text(st.characters(codec=None, categories=None), max_size=30)


def rendered(part: RenderableType, width: int = 200, height: int = 50) -> str:
    console = Console(width=width, height=height, file=io.StringIO(), highlight=False)
    with console.capture() as captured:
        console.print(part)
    return captured.get()


def task(key: str = "sales.orders", state: str = "RUNNING", **more: Any) -> TaskSummary:
    fields: dict[str, Any] = {
        "task_key": key,
        "asset_key": key,
        "partition_key": "",
        "stage": 0,
        "state": state,
        "attempt": 1,
        "worker": "w",
        "started_at": format_time(NOW - 5 * SECOND),
        "ended_at": None,
        "retry_at": None,
        "error_category": None,
        "error": None,
        "hints": [],
        "reason": "",
        "gate": None,
    }
    return TaskSummary(**{**fields, **more})


def run(**more: Any) -> RunDetail:
    fields: dict[str, Any] = {
        "run_id": "01RUN",
        "state": "RUNNING",
        "selection": "*",
        "trigger": "manual",
        "rerun_of": None,
        "run_key": None,
        "mode": "standard",
        "priority": 0,
        "task_count": 1,
        "skip_count": 0,
        "succeeded_count": 0,
        "failed_count": 0,
        "skipped_count": 0,
        "cancelled_count": 0,
        "running_count": 0,
        "triggered_by": "me",
        "created_at": format_time(NOW - 60 * SECOND),
        "started_at": None,
        "ended_at": None,
        "cancel_reason": None,
        "plan_id": "plan",
        "code_version": "code",
        "deployment_id": "d",
        "failure_policy": "continue",
        "max_parallelism": 0,
        "timeout_seconds": None,
        "tags": {},
        "first_failure": None,
    }
    return RunDetail(**{**fields, **more})


def attempt(**more: Any) -> AttemptInfo:
    fields: dict[str, Any] = {
        "attempt": 1,
        "attempt_id": "a",
        "state": "FAILED",
        "worker": "w",
        "claimed_at": format_time(NOW),
        "ended_at": format_time(NOW + SECOND),
        "error_category": "TRANSFORM_ERROR",
        "error_type": "builtins.ValueError",
        "error": "no",
        "traceback": None,
        "materialization_ids": [],
        "log_chunks": 1,
        "log_bytes": 1,
        "log_truncated": False,
    }
    return AttemptInfo(**{**fields, **more})


def detail(found: TaskSummary, attempts: list[AttemptInfo]) -> TaskDetail:
    return TaskDetail(**found.model_dump(), upstream=[], downstream=[], inputs=[], outputs=[], attempts=attempts)


def test_only_the_first_that_are_held_back_are_named_and_all_are_counted() -> None:
    held = [task(f"s.a{number}", "SUCCEEDED", gate="quarantine") for number in range(3)]
    others = [task("s.good", "SUCCEEDED"), task("s.bad", "FAILED", gate="fail_task")]
    assert held_text(others, [], 2) is None
    text = str(held_text([*held, *others], [], 2))
    assert text.startswith("3 of those that succeeded are held back by their checks: s.a0, s.a1 and 1 more; ")
    units = [UnitProgress(unit="s.a", stage=0, task_count=9, states={"SUCCEEDED": 9}, held_count=7)]
    assert "7 of those that succeeded are held back by their checks: s.a (7); " in str(held_text([], units, 2))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 s"),
        (0.416, "0.42 s"),
        (12.34, "12.3 s"),
        (59.96, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3600, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (86_399, "1 d 0 h"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations_say_as_much_as_matters(seconds: float, text: str) -> None:
    assert shown_seconds(seconds) == text


@given(st.floats(0, 1e9))
def test_a_duration_has_no_part_that_is_full(seconds: float) -> None:
    limits = {"s": 60, "min": 60, "h": 24, "d": 100_000}
    words = shown_seconds(seconds).split()
    assert all(float(value) < limits[unit] for value, unit in zip(words[::2], words[1::2], strict=True))


def test_partitions_are_shown_as_people_write_them() -> None:
    assert shown_partition("date=d:2026-01-01") == "date=2026-01-01"
    assert shown_partition("") == ""
    assert shown_partition("what somebody else recorded") == "what somebody else recorded"


# The table that moves


def test_a_frame_never_has_more_lines_than_the_terminal() -> None:
    tasks = [task(f"t{number:04}", "READY") for number in range(300)]
    for height in (8, 10, 24, 50):
        text = rendered(frame(Seen(run(task_count=300), tasks), "nobody", NOW, height), height=height)
        assert len(text.splitlines()) <= height


def test_a_frame_shows_what_matters_when_there_is_no_room_for_all() -> None:
    tasks = [task(f"t{number:04}", "BLOCKED", started_at=None, attempt=0) for number in range(100)]
    tasks[70] = task("t0070", "RUNNING")
    tasks[80] = task("t0080", "FAILED")
    text = rendered(frame(Seen(run(task_count=100, running_count=1), tasks), "nobody", NOW, 12))
    assert "t0070" in text
    assert "t0080" in text
    assert text.index("t0070") < text.index("t0080")
    assert "95 blocked" in text


def test_a_frame_of_a_large_run_tells_how_many_it_leaves_out() -> None:
    text = rendered(frame(Seen(run(task_count=10_000), [task()]), "nobody", NOW, 24))
    assert "... and 9,999 more\n" in text


def test_a_frame_says_that_no_worker_comes_only_when_tasks_wait_for_long() -> None:
    ready = [task(state="READY", attempt=0, started_at=None)]
    assert "nobody" in rendered(frame(Seen(run(), ready), "nobody", NOW, 24))
    assert "nobody" not in rendered(frame(Seen(run(running_count=1), ready), "nobody", NOW, 24))
    young = run(created_at=format_time(NOW - SECOND))
    assert "nobody" not in rendered(frame(Seen(young, ready), "nobody", NOW, 24))


def test_a_run_without_tasks_has_a_frame() -> None:
    assert "0 of 0 succeeded" in rendered(frame(Seen(run(task_count=0, state="SUCCEEDED"), []), "", NOW, 24))


def test_a_clock_behind_that_of_the_server_shows_no_negative_time() -> None:
    text = rendered(tasks_grid([task(started_at=format_time(NOW + 10 * SECOND))], NOW))
    assert "0.00 s" in text
    assert "-" not in text.splitlines()[-1]


def test_counts_name_only_what_there_is() -> None:
    assert counts_text(run(task_count=3, succeeded_count=3)) == "3 of 3 succeeded"
    some = run(task_count=5, succeeded_count=1, failed_count=1, skipped_count=2, running_count=1)
    assert counts_text(some) == "1 of 5 succeeded, 1 failed, 2 skipped, 1 running"


# Failures


def test_a_failure_says_what_where_and_what_to_do() -> None:
    trace = 'Traceback (most recent call last):\n  File "sales.py", line 3, in orders\n    raise X\nValueError: no\n'
    failed = task(
        state="FAILED",
        attempt=2,
        error="no\nsecond line",
        error_category="TRANSFORM_ERROR",
        hints=[TaskHint(action="Do this.", command="arco doctor"), TaskHint(action="Or that.", command=None)],
    )
    text = rendered(failure_text(detail(failed, [attempt(), attempt(attempt=2, traceback=trace)]), "one\ntwo\n"))
    assert "sales.orders failed in attempt 2 (transform error)" in text
    assert "  ValueError: no\n  second line\n" in text
    assert text.count("ValueError: no") == 1
    assert 'File "sales.py", line 3, in orders' in text
    assert "    one\n    two\n" in text
    assert "Do this.  arco doctor" in text
    assert text.rstrip().endswith("Or that.")


def test_what_a_function_on_spark_raised_is_told_under_its_own_name() -> None:
    error = "ValueError: too big (sales.py:3)\nTraceback (most recent call last):"
    last = attempt(error_type="pyspark.errors.exceptions.captured.PythonException", error=error)
    text = rendered(failure_text(detail(task(state="FAILED", error=error), [last]), ""))
    assert "\n  ValueError: too big (sales.py:3)\n" in text
    assert "PythonException" not in text


OURS = '  File "/venv/lib/python3.11/site-packages/arco/worker/_spark.py", line 9, in make\n    return call()\n'
THEIRS = '  File "sales.py", line 3, in orders\n    context.secret("x")\n'
LIBRARY = '  File "/venv/lib/python3.11/site-packages/pyspark/sql.py", line 7, in run\n    go()\n'


@pytest.mark.parametrize(
    ("kind", "trace", "expected", "left_out"),
    [
        ("arco.core.Invalid", OURS + THEIRS + OURS, ["sales.py", "context.secret"], ["_spark.py", "return call()"]),
        ("arco.spark._files.BadRecords", OURS + LIBRARY + OURS, [], ["Where it arose", "_spark.py", "pyspark"]),
        ("arco.spark._errors.SparkFailed", THEIRS + LIBRARY + OURS, ["sales.py", "pyspark/sql.py"], ["_spark.py"]),
        ("builtins.ValueError", OURS + LIBRARY, ["_spark.py", "pyspark/sql.py"], []),
    ],
)
def test_places_in_arco_are_left_out_of_errors_that_say_what_to_do(
    kind: str, trace: str, expected: list[str], left_out: list[str]
) -> None:
    last = attempt(error_type=kind, traceback=f"Traceback (most recent call last):\n{trace}x: no\n")
    text = rendered(failure_text(detail(task(state="FAILED", error="no"), [last]), ""), width=200)
    assert all(part in text for part in expected)
    assert not any(part in text for part in left_out)


def test_an_explanation_has_a_line_for_each_sentence() -> None:
    assert (
        rendered(_listed("What happened", ["a failed: no\nTraceback", "b"])) == "What happened\n  a failed: no\n  b\n"
    )


def test_only_the_end_of_a_long_log_is_shown() -> None:
    text = rendered(failure_text(detail(task(state="FAILED"), [attempt()]), "\n".join(map(str, range(100)))))
    assert "... 80 lines before" in text
    assert "    99\n" in text
    assert "    79\n" not in text


@given(ANY, ANY, ANY)
def test_nothing_of_a_failure_acts_on_the_terminal(key: str, error: str, log: str) -> None:
    found = detail(task(key, "FAILED", error=error, error_category=error), [attempt(error=error, traceback=f"  {log}")])
    text = rendered(failure_text(found, f"[red]{log}"), width=10_000)
    assert "[red]" in text
    shown = text.replace("\n", "")
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Cs") for character in shown)


def test_attempts_are_listed_with_what_went_wrong() -> None:
    text = rendered(attempts_grid([attempt(), attempt(attempt=2, state="SUCCEEDED", error=None, error_type=None)], NOW))
    assert "ValueError: no" in text
    assert "1.00 s" in text


# Plans and deploys


UNMADE = "selected by `*`; no version exists yet"


def planned(key: str, stage: int = 0, reason: str = UNMADE, **more: Any) -> PlannedTaskInfo:
    fields: dict[str, Any] = {"outputs": [], "upstream": [], "inputs": [], "estimated_seconds": 1.5, **more}
    return PlannedTaskInfo(task_key=key, task_id="t", stage=stage, reason=reason, **fields)


def plan_text(tasks: list[PlannedTaskInfo], skips: Sequence[SkipInfo] = (), *, full: bool = False, **more: Any) -> str:
    fields: dict[str, Any] = {
        "plan_id": "plan_1",
        "code_version": "code_1",
        "catalog_position": "1",
        "activity_position": "1",
        "task_count": len(tasks),
        "stage_count": 2,
        "estimated_seconds": 3.0,
        "truncated": False,
        "work_seconds": 7.0,
        "unknown_count": sum(task.estimated_seconds is None for task in tasks),
        **more,
    }
    parts = plan_parts(Output(as_json=False).people, PlanInfo(tasks=tasks, skips=list(skips), **fields), "*", full=full)
    return "\n".join(rendered(part) for part in parts)


def test_partitions_planned_for_the_same_reason_share_a_line() -> None:
    dates = [f"[date=2026-01-{day:02}]" for day in range(1, 11)]
    days = [planned(f"a{date}", estimated_seconds=2.0) for date in dates]
    again = [planned(f"b{date}", 1, f"a{date} runs before it") for date in dates]
    text = plan_text([*days, *again])
    assert "a[date=2026-01-01..2026-01-10] x 10" in text
    assert "20.0 s" in text
    assert "a[...] runs before it" in text
    assert "selected by" not in text
    assert "a[date=2026-01-05]" in plan_text([*days, *again], full=True)


def test_partitions_of_several_dimensions_share_a_line_too() -> None:
    tasks = [planned(f"a[date=2026-01-{day:02},region=eu]") for day in range(1, 5)]
    assert "a[date=2026-01-01,region=eu .. date=2026-01-04,region=eu] x 4" in plan_text(tasks)


def test_skips_share_a_line_unless_something_has_to_be_done() -> None:
    done = [
        SkipInfo(kind="up_to_date", asset_key="a", partition_key=f"n=s:{key}", reason=f"up to date: {key}")
        for key in "vwxyz"
    ]
    todo = [
        SkipInfo(kind="cannot_run", asset_key="b", partition_key=f"n=s:{key}", reason=f"cannot run: {key}")
        for key in "vwxyz"
    ]
    text = plan_text([], (*done, *todo))
    assert "Nothing to run." in text
    assert "n=v..z x 5" in text
    assert text.count("cannot run: ") == 5


def test_a_plan_says_what_it_does_not_know_and_does_not_show() -> None:
    text = plan_text([planned("a"), planned("b", estimated_seconds=None)], task_count=5000, truncated=True)
    assert "5,000 tasks in 2 stages, at least 3.00 s and 7.00 s of work (1 never ran before)." in text
    assert "Only the first 2" in text


def test_a_difference_has_a_sign_for_each_asset_and_an_end() -> None:
    diff = DeployDiff(
        added=[f"a{number:03}" for number in range(60)],
        changed=[DeployChange(key="b", fields=["code", "tags"])],
        removed=["c"],
        renamed=["d -> e"],
        affected=["f: it is made of b"],
        unchanged=7,
    )
    lines = rendered(diff_lines(diff)).splitlines()
    assert lines[0] == "  +  a000"
    assert "  +  ... and 10 more" in lines
    assert lines[-5:] == [
        "  ~  b  (code, tags)",
        "  -  c",
        "  -> d is now e",
        "  !  f: it is made of b",
        "     7 unchanged",
    ]


def test_sentences_of_a_table_give_way_and_are_whole() -> None:
    rows = [["a" * 20, "word " * 12], ["b", "short"]]
    console = Console(width=60, file=io.StringIO())
    text = rendered(explained(console, ["name", "why"], rows), width=60)
    assert all(len(line) <= 60 for line in text.splitlines())
    assert text.count("word") == 12
    assert "a" * 20 in text
    narrow = Console(width=25, file=io.StringIO())
    assert "why" in rendered(explained(narrow, ["name", "why"], rows), width=25)


# What Spark does


def progress(**more: Any) -> TaskProgress:
    fields: dict[str, Any] = {"tasks_done": 3, "tasks_total": 8, "stage": "s", "rows_written": 1_200}
    return TaskProgress(**{**fields, "bytes_written": 2_500_000, "ui": "http://10.0.0.1:4040", **more})


def test_how_far_a_task_is_reads_in_one_go() -> None:
    assert progress_text(task(progress=progress())) == "3 of 8 tasks, 1,200 rows, 2.5 MB"
    together = progress(attempts=50, rows_written=0, bytes_written=0)
    assert progress_text(task(progress=together)) == "50 partitions together: 3 of 8 tasks"
    assert progress_text(task(progress=progress(tasks_total=0, rows_written=0, bytes_written=0))) is None
    assert progress_text(task()) is None


def test_a_job_of_many_partitions_is_one_line_with_its_page() -> None:
    batch = [task(f"sales.orders[{day}]", asset_key="sales.orders", progress=progress(attempts=3)) for day in "123"]
    waiting = task("sales.b", progress=progress(tasks_total=0, rows_written=0, bytes_written=0, ui=None))
    alone = task("sales.c", progress=progress(tasks_total=0, rows_written=0, bytes_written=0))
    assert [line.plain for line in job_lines([*batch, waiting, alone, task("sales.d")])] == [
        "Spark  sales.orders  3 partitions together: 3 of 8 tasks, 1,200 rows, 2.5 MB  http://10.0.0.1:4040",
        "Spark  sales.c  http://10.0.0.1:4040",
    ]


@pytest.mark.parametrize("by_asset", [True, False])
def test_the_frame_of_a_run_shows_what_spark_does_within_its_height(by_asset: bool) -> None:
    tasks = [task(f"s.a{number}", progress=progress(tasks_done=number)) for number in range(9)]
    units = [UnitProgress(unit=one.task_key, stage=0, task_count=9, states={"RUNNING": 1}) for one in tasks]
    text = rendered(frame(Seen(run(task_count=9), tasks, units if by_asset else ()), "", NOW, 20), height=20)
    assert text.count("http://10.0.0.1:4040") == 4
    assert len(text.splitlines()) <= 20
