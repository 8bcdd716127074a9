"""`arco backfill`: what it takes, what it shows, and how batches fare in a real server, worker and drivers.

Functions of Python do not run in batches. Here the server is told that they may (`forced`), so that everything but the
engine is what it is with Spark.
"""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from arco.cli._backfill import merge_pairs, read_partitions
from arco.cli._run_text import unit_text
from arco.cli._watch import Seen, frame
from arco.core import Invalid, TooLarge
from arco.servo import Servo
from arco.wire import UnitProgress
from tests.cli.conftest import Cli
from tests.cli.test_servo_text import NOW, rendered, run

SOURCE = '''"""Events by day."""

import os
import pathlib
import signal

from arco import Retries, asset, daily

__namespace__ = "web"

HERE = pathlib.Path({here!r})
DAYS = daily("2026-01-01", end="2026-01-13")


def began(name, day):
    with open(HERE / "began", "a") as file:
        file.write(f"{{name}} {{day}}\\n")


@asset(partitions=DAYS, retries=Retries(0, delay=0.2, jitter=0.0))
def events(context):
    day = context.partition["date"].day
    began("events", day)
    print("day", day, flush=True)
    if day in ({deadly}) and (HERE / f"deadly-{{day}}").exists():
        if (HERE / f"deadly-{{day}}").read_text() == "once":
            (HERE / f"deadly-{{day}}").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    if (HERE / f"bad-{{day}}").exists():
        raise ValueError(f"day {{day}} is bad")
    return [{{"day": day}}]


@asset(partitions=DAYS)
def totals(events):
    began("totals", events[0]["day"])
    return [{{"total": sum(row["day"] for row in events)}}]
'''


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of a command puts partitions of every asset together."""
    monkeypatch.setattr(
        "arco.api._host.Servo", partial(Servo, may_batch=lambda definition: bool(definition.partitions))
    )


@pytest.fixture
def project(cli: Cli, home: Path) -> Path:
    (home / "pipes").mkdir()
    (home / "pipes" / "web.py").write_text(SOURCE.format(here=str(home), deadly="4, 9, 99"))
    for command in (["init"], ["deploy", "pipes"]):
        assert cli(*command).code == 0
    return home


def began(home: Path, name: str) -> dict[int, int]:
    """How often the function began, by day."""
    lines = [line.split() for line in (home / "began").read_text().splitlines()]
    return dict(Counter(int(day) for found, day in lines if found == name))


def attempts(cli: Cli, day: int, asset: str = "web.events") -> list[dict[str, Any]]:
    ran = cli("runs", "show", "last", f"{asset}[date=2026-01-{day:02}]", "--json")
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = ran.document["attempts"]
    return found


# Batches in a real stack


@pytest.mark.usefixtures("forced")
def test_a_driver_that_is_killed_loses_only_what_it_had_not_finished(cli: Cli, project: Path) -> None:
    (project / "deadly-4").write_text("once")
    (project / "bad-8").touch()
    ran = cli("backfill", "web.*", "--from", "2026-01-01", "--to", "2026-01-12", "--batch", "6", "--watch")
    assert ran.code == 8, ran.err
    assert "22 of 24 succeeded, 1 failed, 1 skipped" in ran.out
    assert "day 8 is bad" in ran.out
    tried = began(project, "events")
    assert [tried[day] for day in (1, 2, 3)] == [1, 1, 1], "what had finished is not run again"
    assert [tried[day] for day in range(4, 13)] == [2, *[1] * 8]
    assert set(began(project, "totals").values()) == {1}
    for day, states in ((3, ["SUCCEEDED"]), (4, ["REAPED", "SUCCEEDED"]), (5, ["REAPED", "SUCCEEDED"])):
        assert [one["state"] for one in attempts(cli, day)] == states
    first, again = attempts(cli, 4)
    assert (first["batch_tasks"], again["batch_tasks"]) == (6, 3), "what was lost goes on in halves"
    assert "signal 9" in first["error"]
    assert attempts(cli, 5)[0]["batch_id"] == first["batch_id"] != again["batch_id"]


@pytest.mark.usefixtures("forced")
def test_a_partition_that_kills_its_driver_ends_up_alone_and_fails(cli: Cli, project: Path) -> None:
    (project / "deadly-9").write_text("always")
    ran = cli("backfill", "web.events", "--from", "2026-01-07", "--to", "2026-01-10", "--watch")
    assert ran.code == 8, ran.err
    assert "3 of 4 succeeded, 1 failed" in ran.out
    tried = began(project, "events")
    assert tried[9] == 5, "in a batch of four it is alone after two losses, and fails after three more"
    assert tried[7] == tried[8] == 1
    assert [one["batch_tasks"] for one in attempts(cli, 9)] == [4, 2, None, None, None]
    again = cli("runs", "rerun", "last", "--no-watch", "--json").document
    assert again["task_count"] == 1


@pytest.mark.usefixtures("forced")
def test_all_tasks_of_a_batch_show_what_it_printed(cli: Cli, project: Path) -> None:
    ran = cli(
        "backfill", "web.events", "--partition", "date=2026-01-02", "-p", "date=2026-01-03..2026-01-04", "--watch"
    )
    assert ran.code == 0, ran.err
    assert "web.events: 3 of 3 succeeded" in ran.out
    logs = {cli("runs", "logs", "last", f"web.events[date=2026-01-0{day}]").out for day in (2, 3, 4)}
    assert max(logs, key=len) == "day 2\nday 3\nday 4\n"
    assert all("day 2" in log for log in logs)
    assert cli("backfill", "web.events", "--from", "2026-01-02", "--to", "2026-01-04", "--json").document


def test_partitions_come_from_a_file_too(cli: Cli, project: Path) -> None:
    (project / "days.txt").write_text("# bad days\n2026-01-05\n\ndate=2026-01-07\n2026-01-05\n")
    ran = cli("backfill", "web.events", "--partitions-file", "days.txt", "--no-watch", "--json")
    assert (ran.code, ran.document["task_count"]) == (0, 2)
    planned = cli("backfill", "+web.totals", "--partitions-file", "days.txt", "--dry-run", "--json").document
    assert sorted(task["task_key"] for task in planned["tasks"]) == [
        f"web.{name}[date=2026-01-0{day}]" for name in ("events", "totals") for day in (5, 7)
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "say which partitions"),
        (["--from", "2026-02-01"], "outside the range"),
        (["--from", "2026-01-05", "--to", "2026-01-01"], "(--from) is after its TO (--to)"),
        (["--from", "January"], "no date"),
        (["--partition", "region=eu"], "partitioned by date"),
        (["--partitions-file", "missing.txt"], "cannot be read"),
        (["--partitions-file", "empty.txt"], "names no partition"),
        (["--partitions-file", "days.txt", "--from", "2026-01-01"], "one by one"),
        (["--from", "2026-01-01", "--batch", "2000"], "--batch"),
    ],
)
def test_a_backfill_of_nothing_that_is_there_is_refused(cli: Cli, project: Path, options: list[str], said: str) -> None:
    (project / "empty.txt").write_text("\n# nothing\n")
    (project / "days.txt").write_text("2026-01-05\n")
    ran = cli("backfill", "web.events", *options)
    assert ran.code in (2, 3)
    assert said in ran.err


def test_lists_are_put_together_and_files_have_limits(tmp_path: Path) -> None:
    assert merge_pairs(["date=a", "region=eu", "date=b..c"]) == {"date": "a,b..c", "region": "eu"}
    with pytest.raises(Invalid, match="NAME=KEYS, such as date="):
        merge_pairs(["x"])
    file = tmp_path / "keys"
    file.write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    assert read_partitions(file) == ["a", "b"]
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(Invalid, match="UTF-8"):
        read_partitions(file)
    file.write_text("\n".join(map(str, range(100_001))))
    with pytest.raises(TooLarge, match="100,000"):
        read_partitions(file)


# Large ones


LARGE = """from arco import asset, daily

__namespace__ = "web"

DAYS = daily("2020-01-01", end="2022-09-27")


@asset(partitions=DAYS)
def events():
    return 1


@asset(partitions=DAYS)
def cleaned(events):
    return events


@asset(partitions=DAYS)
def totals(cleaned):
    return cleaned
"""


@pytest.mark.usefixtures("forced")
def test_three_assets_of_a_thousand_days_are_planned_in_a_few_lines(cli: Cli, home: Path) -> None:
    (home / "pipes").mkdir()
    (home / "pipes" / "web.py").write_text(LARGE)
    for command in (["init"], ["deploy", "pipes"]):
        assert cli(*command).code == 0
    ran = cli("backfill", "web.*", "--from", "2020-01-01", "--dry-run", COLUMNS="160")
    assert ran.code == 0, ran.err
    assert "3,000 tasks in 3 stages" in ran.out
    assert "web.cleaned[date=2020-01-01..2022-09-26] x 1,000" in ran.out
    assert ran.out.count("1,000 tasks in 20 batches of up to 50") == 3
    assert "nobody knows how large" in ran.out
    assert len(ran.out.splitlines()) < 25
    document = cli("backfill", "web.*", "--from", "2020-01-01", "--batch", "1", "--dry-run", "--json").document
    assert (document["task_count"], document["batch_count"], document["truncated"]) == (3000, 0, True)
    assert [(unit["unit"], unit["task_count"]) for unit in document["units"]] == [
        ("web.events", 1000),
        ("web.cleaned", 1000),
        ("web.totals", 1000),
    ]
    started = cli("backfill", "web.*", "--from", "2020-01-01", "--no-watch", "--json")
    assert (started.code, started.document["task_count"]) == (0, 3000)


def unit(name: str = "web.events", stage: int = 0, **states: int) -> UnitProgress:
    return UnitProgress(unit=name, stage=stage, task_count=sum(states.values()), states=states)


def test_a_large_run_moves_by_asset() -> None:
    units = [unit(SUCCEEDED=500, RUNNING=50, FAILED=5, READY=445), unit("web.totals", 1, BLOCKED=1000)]
    seen = Seen(run(task_count=2000, succeeded_count=500, failed_count=5, running_count=50), [], units)
    text = rendered(frame(seen, "nobody", NOW, 24))
    assert [line.split() for line in text.splitlines() if line.startswith("web.")] == [
        ["web.events", "500", "1,000", "50", "445", "5", "-"],
        ["web.totals", "-", "1,000", "-", "1,000", "-", "-"],
    ]
    assert unit_text(units[0]) == "500 of 1,000 succeeded, 5 failed, 50 running"


def test_many_assets_do_not_fill_the_terminal() -> None:
    done = [unit(f"a{number:03}", SUCCEEDED=10) for number in range(60)]
    running = [unit("b000", RUNNING=10), unit("c000", FAILED=1, READY=9)]
    for height in (8, 24):
        text = rendered(frame(Seen(run(task_count=620), [], [*done, *running]), "", NOW, height), height=height)
        assert len(text.splitlines()) <= height
        assert "b000" in text
        assert "more assets" in text
