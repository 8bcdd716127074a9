"""Versions that are held back, through the command line: a run whose checks catch a bad day, and what people do."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from arco.cli._app import app
from arco.cli._quarantine import _check_row
from arco.wire import VersionCheck
from tests.cli.conftest import Cli, Ran

SHOP = '''"""A shop with one bad day."""

from arco import asset, check, daily

__namespace__ = "shop"

DAYS = daily("2026-01-01", end="2026-01-04")


@asset(partitions=DAYS)
def orders(context):
    return [] if "01-02" in context.partition_key else [{"id": 1}]


@asset(partitions=DAYS)
def sums(orders):
    return [{"count": len(orders)}]


@check(asset=orders)
def has_rows(orders):
    """There are orders."""
    return len(orders) > 0
'''
BAD = ("shop.orders", "-p", "date=2026-01-02")
GOOD = ("shop.orders", "-p", "date=2026-01-01")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a project that ran once, and what `arco run` said of it."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(SHOP)
    store, said = ["--store", f"file://{folder}/.arco"], ""
    for command, code in (
        (["init"], 0),
        (["deploy", str(folder)], 0),
        (["run", "*", "--partition", "date=*"], 8),
    ):
        result = CliRunner().invoke(app, [*command, *store])
        assert result.exit_code == code, result.stderr
        said = result.stdout
    return folder, said


@pytest.fixture
def shop(home: Path, finished: tuple[Path, str]) -> Path:
    shutil.copytree(finished[0], home, dirs_exist_ok=True)
    return home


def shown(cli: Cli, *command: str) -> Any:
    ran = cli(*command, "--json")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    return ran.document


def refused(ran: Ran, code: int, words: str) -> None:
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.err


@pytest.mark.usefixtures("shop")
def test_what_is_held_back_is_listed_and_shown_with_what_its_checks_found(cli: Cli) -> None:
    (held,) = shown(cli, "quarantine", "list")["versions"]
    assert (held["asset_key"], held["status"], held["current"]) == ("shop.orders", "blocked", False)
    listed = cli("quarantine", "list")
    assert "failed has_rows" in listed.out
    assert held["failed_checks"] == ["has_rows"]
    assert "date=2026-01-02" in listed.out
    assert "arco quarantine show shop.orders -p date=2026-01-02" in listed.err
    assert shown(cli, "quarantine", "list", "--asset", "shop.sums")["versions"] == []
    assert "No version of shop.sums is held back" in cli("quarantine", "list", "--asset", "shop.sums").out
    assert "No version is released." in cli("quarantine", "list", "--status", "released").out
    text = cli("quarantine", "show", *BAD).out
    assert "Version 1 of shop.orders[date=2026-01-02]" in text
    assert "has_rows" in text
    assert "by the gating policy strict:" in text
    assert "block downstream  " in text
    assert "readers get      nothing" in text
    assert "arco quarantine release shop.orders -p date=2026-01-02 --version 1" in text
    assert "If not, correct its code or what it is made of, then: arco run shop.orders -p date=2026-01-02" in text
    found = shown(cli, "quarantine", "show", "shop.orders", "--version", held["materialization_id"])
    assert (found["judged"], [check["passed"] for check in found["checks"]]) == ("blocked", [False])
    assert len(found["files"]) == 1


@pytest.mark.parametrize(
    ("message", "expected", "actual", "told"),
    [
        ("x is null in 3 of 20 rows, and at most 1 row may be so", "at most 1 row", "3 of 20 rows", None),
        ("x is null in 3 of 20 rows", "no rows", "3 of 20 rows", "x is null in 3 of 20 rows: expected no rows"),
        (None, "500 to 3000", "1283", "expected 500 to 3000, found 1283"),
        (None, None, None, "why"),
    ],
)
def test_what_a_check_found_is_told_once(
    message: str | None, expected: str | None, actual: str | None, told: str | None
) -> None:
    check = VersionCheck(
        check_name="c",
        check_type="rule",
        passed=False,
        severity="error",
        expected_value=expected,
        actual_value=actual,
        message=message,
        action="block_downstream",
        policy="strict",
        decision="why",
        executed_at="",
    )
    assert _check_row(check)[3:] == ["block downstream", told or message]


def test_a_run_that_is_watched_says_what_is_held_back(finished: tuple[Path, str]) -> None:
    text = " ".join(finished[1].split())
    assert "held back by its checks" in text
    assert "1 of those that succeeded is held back by its checks: shop.orders[date=2026-01-02];" in text
    assert "`arco quarantine list`" in text


@pytest.mark.usefixtures("shop")
def test_a_backfill_says_of_which_assets_versions_are_held_back(cli: Cli) -> None:
    ran = cli("backfill", "shop.orders", "--from", "2026-01-01", "--force", "--watch")
    assert ran.code == 0, ran.err
    text = " ".join(ran.out.split())
    assert "shop.orders: 3 of 3 succeeded, 1 of them held back" in text
    assert "1 of those that succeeded is held back by its checks: shop.orders (1);" in text


@pytest.mark.usefixtures("shop")
def test_a_task_whose_version_is_held_back_says_where_to_look(cli: Cli) -> None:
    command = "arco quarantine show shop.orders -p date=2026-01-02"
    assert command in cli("runs", "show", "last", "shop.orders[date=2026-01-02]").out
    assert "quarantine" not in cli("runs", "show", "last", "shop.orders[date=2026-01-01]").out


@pytest.mark.usefixtures("shop")
def test_others_mention_what_is_held_back_where_a_reader_needs_it(cli: Cli) -> None:
    assert "arco quarantine list --asset shop.orders" in cli("assets", "show", "shop.orders").out
    parts = shown(cli, "assets", "partitions", "shop.orders")["partitions"]
    assert sorted(part["status"] for part in parts) == ["blocked", "complete", "complete"]
    assert "its checks: block downstream" in cli("runs", "show", "last").out
    explained = cli("explain", "run", "last").out
    assert "its checks hold its version back (blocked)" in explained
    assert "arco quarantine show shop.orders -p date=2026-01-02" in explained
    assert "release it if it is right" in cli("plan", "shop.sums", "-p", "date=2026-01-02").out
    (version,) = shown(cli, "assets", "versions", *BAD)["versions"]
    assert version["status"] == "blocked"
    assert "blocked" in [made["status"] for made in shown(cli, "runs", "outputs", "last")["materializations"]]


@pytest.mark.usefixtures("shop")
def test_a_release_unblocks_what_follows_and_says_how_to_run_it(cli: Cli) -> None:
    refused(cli("quarantine", "release", *BAD), 2, "needs its reason")
    refused(cli("quarantine", "release", *BAD, "--reason", " "), 2, "needs its reason")
    run_id = shown(cli, "runs", "show", "last")["run_id"]
    done = cli("quarantine", "release", *BAD, "--reason", "a holiday")
    assert done.code == 0, done.err
    assert "Version 1 of shop.orders[date=2026-01-02] is released. Readers get it." in done.out
    assert f"arco runs rerun {run_id}" in done.err
    refused(cli("quarantine", "release", *BAD, "--reason", "again"), 3, "nothing to release")
    again = cli("quarantine", "release", *BAD, "--version", "1", "--reason", "again")
    assert "is released already by" in again.out
    assert "(a holiday), so nothing changed" in again.out
    assert f"arco runs rerun {run_id}" in cli("explain", "run", "last").out
    assert "shop.orders[date=2026-01-02] was released" in cli("plan", "shop.sums", "-p", "date=2026-01-02").out
    assert cli("runs", "rerun", run_id, "--watch").code == 0
    text = cli("quarantine", "show", *BAD).out
    assert "released by" in text
    assert "checks say       blocked" in text
    assert "Made of it" in text
    assert "shop.sums" in text
    assert len(shown(cli, "quarantine", "list", "--status", "released")["versions"]) == 1


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("watch", ["--watch", "--no-watch"])
def test_a_rerun_of_what_is_held_back_says_why_nothing_runs_and_is_no_run(cli: Cli, watch: str) -> None:
    first = shown(cli, "runs", "show", "last")["run_id"]
    ran = cli("runs", "rerun", "last", watch)
    assert ran.code == 3
    assert "Nothing to run." in ran.out
    text = " ".join(ran.out.split())
    assert "shop.sums date=2026-01-02 cannot run: it needs shop.orders[date=2026-01-02], and" in text
    assert "`arco quarantine show shop.orders --partition date=2026-01-02`" in text
    answer = cli("runs", "rerun", "last", watch, "--json")
    assert (answer.code, answer.document["run_id"], answer.document["cannot_run_count"]) == (3, "", 1)
    assert [run["run_id"] for run in shown(cli, "runs", "list")["runs"]] == [first]


@pytest.mark.usefixtures("shop")
def test_a_rerun_names_what_it_has_to_leave_out(cli: Cli) -> None:
    assert cli("run", "shop.sums", "-p", "date=2026-01-01,2026-01-03", "--force", "--no-watch").code == 0
    assert cli("runs", "cancel", "last").code == 0
    cancelled = shown(cli, "runs", "show", "last")["run_id"]
    assert cli("quarantine", "set", *GOOD, "--reason", "prices are off").code == 0
    ran = cli("runs", "rerun", cancelled, "--watch")
    assert ran.code == 0, ran.err
    text = " ".join(ran.out.split())
    assert "shop.sums[date=2026-01-01] cannot run: it needs shop.orders[date=2026-01-01]" in text
    assert "`arco quarantine show shop.orders --partition date=2026-01-01`" in text
    assert "1 of 1 succeeded" in text
    again = shown(cli, "runs", "rerun", cancelled, "--watch")
    assert [left["partition_key"] for left in again["cannot_run"]] == ["date=d:2026-01-01"]


@pytest.mark.usefixtures("shop")
def test_a_run_names_what_it_has_to_leave_out(cli: Cli) -> None:
    ran = cli("run", "shop.sums", "-p", "date=*", "--force", "--no-watch")
    assert ran.code == 0, ran.err
    text = " ".join(ran.out.split())
    assert "shop.sums[date=2026-01-02] cannot run: it needs shop.orders[date=2026-01-02]" in text
    assert "2 tasks." in text


@pytest.mark.usefixtures("shop")
def test_a_good_version_is_set_aside_by_hand(cli: Cli) -> None:
    done = shown(cli, "quarantine", "set", *GOOD, "--reason", "prices are off")
    assert (done["version"]["status"], done["current_version"]) == ("quarantined", None)
    text = cli("quarantine", "list", "--status", "quarantined").out
    assert "prices are off (local:" in text
    refused(cli("quarantine", "set", *GOOD, "--reason", "more"), 3, "no version that readers get")
    twice = cli("quarantine", "set", *GOOD, "--version", "1", "--reason", "more")
    assert "is quarantined already by" in twice.out
    actions = [entry["action"] for entry in shown(cli, "audit", "--log", "activity", "--limit", "1")["audit"]]
    assert actions == ["QuarantinePartition"]
    back = cli("quarantine", "release", *GOOD, "--reason", "they were right", "--yes")
    assert "Readers get it." in back.out


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("show", "shop.nothing"), 3, "no asset 'shop.nothing'"),
        (("show", "shop.orders"), 2, "3 partitions with versions; say which one, such as -p date=2026-01-0"),
        (("show", "shop.orders", "-p", "date=2027-01-01"), 3, "has no version; `arco assets versions shop.orders`"),
        (("show", *GOOD, "--version", "7"), 3, "has no version 7"),
        (("show", *GOOD, "--version", "01ARZ3NDEKTSV4RRFFQ69G5F00"), 3, "no version"),
        (("show", "shop.orders", "-p", "2026-01-01"), 2, "--partition"),
        (("set", "shop.orders", "--reason", "x"), 2, "say which one"),
        (("release", *GOOD, "--reason", "x"), 3, "is published, so there is nothing to release"),
        (("list", "--status", "lost"), 2, "lost"),
    ],
)
def test_what_cannot_be_meant_is_told_with_a_cure(cli: Cli, command: tuple[str, ...], code: int, words: str) -> None:
    refused(cli("quarantine", *command), code, words)


# Maintenance


@pytest.mark.usefixtures("shop")
def test_old_versions_are_let_go_and_orphans_removed_with_a_dry_run_first(cli: Cli) -> None:
    nothing = cli("maintain", "versions")
    assert nothing.out == "Nothing to let go in 2 assets.\n"
    assert cli("run", "shop.sums", "-p", "date=2026-01-01", "--force").code == 0
    assert cli("settings", "set", "retention.min_versions=1", "retention.max_versions=1").code == 0
    planned = shown(cli, "maintain", "versions", "shop.sums", "--dry-run")
    assert (planned["dry_run"], [one["version"] for one in planned["expired"]]) == (True, [1])
    assert "1 version would expire" in cli("maintain", "versions", "--dry-run").out
    done = cli("maintain", "versions", "--yes")
    assert "1 version expired" in done.out
    assert "1 newer versions are kept" in done.out
    assert "expired" in cli("assets", "versions", "shop.sums", "-p", "date=2026-01-01").out
    again = cli("maintain", "versions").out
    assert "Nothing to let go" in again
    assert "1 version expired before, and their files are kept for the time of grace." in again
    assert "No file in 2 assets belongs to nobody; " in cli("maintain", "orphans", "--older-than", "1h").out
    assert shown(cli, "maintain", "orphans", "shop.sums", "--dry-run")["files"] == []


@pytest.mark.usefixtures("shop")
def test_history_that_is_young_stays_and_what_may_be_set_has_ends(cli: Cli) -> None:
    nothing = cli("maintain", "history", "--dry-run")
    assert (nothing.code, nothing.out) == (0, "Nothing is older than the settings keep.\n")
    assert shown(cli, "maintain", "history", "--yes") == {
        "dry_run": False,
        "expired": [],
        "edge_count": 0,
        "held": [],
    }
    refused(cli("settings", "set", "history.requests_days=7"), 2, "must lie between 8 and 36500, not 7")
    assert cli("settings", "set", "history.runs_days=30").code == 0
    gone = cli("runs", "show", "01ARZ3NDEKTSV4RRFFQ69G5F00")
    assert "there is no run '01ARZ3NDEKTSV4RRFFQ69G5F00'" in gone.err


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("orphans", "--older-than", "90m"), "whole hours or days, from 1h to 8760h, not '90m'"),
        (("orphans", "--older-than", "0h"), "whole hours or days, from 1h to 8760h, not '0h'"),
        (("orphans", "--older-than", "soon"), "not a duration; write a number and s, m, h or d, such as 36h"),
        (("versions", "shop.nothing"), "shop.nothing"),
    ],
)
def test_maintenance_that_cannot_be_meant_is_refused(cli: Cli, command: tuple[str, ...], words: str) -> None:
    refused(cli("maintain", *command), 2, words)
