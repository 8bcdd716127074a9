"""Runs through the command line: one that a server and a worker of the command itself carry out, and what there is to
look at afterwards; runs that nobody works on."""

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from arco.cli._app import app
from arco.domains.orchestration import FailureCategory
from arco.servo._failures import hints_for
from tests.cli.conftest import Cli, Ran

ORDERS = "sales.orders[date=2026-01-03]"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, deployed: Path) -> tuple[Path, Ran]:
    """A folder with a project of which one run failed, and what `arco run` said of it."""
    folder = tmp_path_factory.mktemp("finished")
    shutil.copytree(deployed, folder, dirs_exist_ok=True)
    command = ["run", "+sales.after", "--partition", "date=*", "--store", f"file://{folder}/.arco"]
    result = CliRunner().invoke(app, command)
    return folder, Ran(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def failed(home: Path, finished: tuple[Path, Ran]) -> Ran:
    shutil.copytree(finished[0], home, dirs_exist_ok=True)
    return finished[1]


def shown(cli: Cli, *command: str) -> Any:
    ran = cli(*command, "--json")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    return ran.document


# A run that a server and a worker of the command carry out


def test_a_run_works_without_a_server_and_says_how_it_failed(failed: Ran) -> None:
    assert failed.code == 8, failed.err
    assert "  succeeded   sales.report" in failed.out
    assert "sales.broken failed in attempt 1" in failed.out
    assert "ValueError: price is negative" in failed.out
    assert 'File "sales.py", line' in failed.out
    assert "about to fail" in failed.out
    assert "What to do" in failed.out
    assert "sales.after skipped: sales.broken failed" in failed.out
    assert "11 of 13 succeeded, 1 failed, 1 skipped" in failed.out


def test_a_run_is_listed_and_shown(cli: Cli, failed: Ran) -> None:
    (listed,) = shown(cli, "runs", "list")["runs"]
    assert (listed["state"], listed["task_count"], listed["succeeded_count"]) == ("FAILED", 13, 11)
    assert shown(cli, "runs", "list", "--state", "succeeded")["runs"] == []
    assert "No run is succeeded." in cli("runs", "list", "--state", "succeeded").out
    found = shown(cli, "runs", "show", "last")
    assert found["run_id"] == listed["run_id"]
    assert [task["stage"] for task in found["tasks"]] == sorted(task["stage"] for task in found["tasks"])
    only = shown(cli, "runs", "show", listed["run_id"], "--state", "FAILED")["tasks"]
    assert [task["task_key"] for task in only] == ["sales.broken"]
    text = cli("runs", "show", "last").out
    assert "price is negative" in text
    assert f"arco explain run {listed['run_id']}" in text
    assert shown(cli, "runs", "show", "last", "--limit", "2")["more"] is True


def test_a_task_is_shown_with_its_attempts(cli: Cli, failed: Ran) -> None:
    found = shown(cli, "runs", "show", "last", "sales.broken")
    (attempt,) = found["attempts"]
    assert (attempt["state"], found["upstream"], found["downstream"]) == ("FAILED", ["sales.report"], ["sales.after"])
    text = cli("runs", "show", "last", "sales.broken").out
    assert "ValueError: price is negative" in text
    assert "sales.report: 1 of this run" in text
    assert cli("runs", "show", "last", "sales.nothing").code == 3
    assert cli("runs", "show", "last", "sales.broken", "--state", "failed").code == 2


def test_what_a_task_printed_is_printed_as_it_was(cli: Cli, failed: Ran) -> None:
    assert cli("runs", "logs", "last", ORDERS).out == "loading [bold]orders[/bold]\n"
    assert cli("runs", "logs", "last", ORDERS, "--follow").out == "loading [bold]orders[/bold]\n"
    document = shown(cli, "runs", "logs", "last", ORDERS)
    assert (document["text"], document["complete"]) == ("loading [bold]orders[/bold]\n", True)
    assert "about to fail" in cli("runs", "logs", "last").out
    silent = cli("runs", "logs", "last", "sales.report")
    assert (silent.code, silent.out) == (0, "")
    assert "printed nothing" in silent.err
    assert cli("runs", "logs", "last", ORDERS, "--attempt", "7").code == 3


def test_a_run_is_explained(cli: Cli, failed: Ran) -> None:
    found = shown(cli, "explain", "run", "last")
    assert found["causes"][0].startswith("sales.broken failed")
    text = cli("explain", "run", "last").out
    assert "What happened" in text
    assert "What to do" in text


def test_what_a_run_wrote_is_there_to_see(cli: Cli, failed: Ran) -> None:
    assert len(shown(cli, "runs", "outputs", "last")["materializations"]) == 11
    assert "date=2026-01-01" in cli("runs", "outputs", "last").out
    parts = shown(cli, "assets", "partitions", "sales.orders")["partitions"]
    assert [part["status"] for part in parts] == ["complete"] * 5
    assert "date=2026-01-01 " in cli("assets", "partitions", "sales.orders").out
    assert "5 of 5 partitions" in cli("assets", "show", "sales.orders").out


def test_what_is_up_to_date_is_not_run_again(cli: Cli, failed: Ran) -> None:
    ran = cli("run", "sales.report", "--no-watch")
    assert ran.code == 0
    assert "Nothing to run." in ran.out
    assert "up to date" in ran.out
    assert len(shown(cli, "runs", "list")["runs"]) == 1
    assert "never ran before" in cli("plan", "+sales.after", "-p", "date=*").out
    assert shown(cli, "plan", "sales.report", "--force")["task_count"] == 1


def test_what_failed_runs_again_and_can_be_cancelled(cli: Cli, failed: Ran) -> None:
    first = shown(cli, "runs", "show", "last")["run_id"]
    again = shown(cli, "runs", "rerun", "last", "--no-watch")
    assert again["task_count"] == 2
    assert shown(cli, "runs", "show", "last")["rerun_of"] == first
    early = cli("runs", "rerun", again["run_id"], "--no-watch", "--json")
    assert (early.code, early.error["name"]) == (3, "Refused")
    assert f"Cancelled the run {again['run_id']}." in cli("runs", "cancel", "last", "--reason", "a mistake").out
    found = shown(cli, "runs", "show", "last")
    assert (found["state"], found["cancel_reason"]) == ("CANCELLED", "a mistake")
    assert "a mistake" in cli("runs", "show", "last").out
    assert shown(cli, "runs", "rerun", first, "--all", "--no-watch")["task_count"] == 13
    over = cli("runs", "cancel", first)
    assert over.code == 3
    assert "there is nothing to cancel" in over.err


# Runs that nobody works on


def test_a_run_that_is_not_watched_is_only_started(cli: Cli, project: Path) -> None:
    ran = cli("run", "sales.orders", "-p", "date=2026-01-01", "--tag", "why=test", "--priority", "3", "--no-watch")
    assert ran.code == 0, ran.err
    assert "Started the run" in ran.out
    found = shown(cli, "runs", "show", "last")
    assert (found["state"], found["tags"], found["priority"]) == ("RUNNING", {"why": "test"}, 3)
    assert "ready" in cli("runs", "show", "last").out
    waiting = shown(cli, "explain", "run", "last")["waiting"]
    assert any("waits for a worker" in sentence for sentence in waiting)
    early = cli("runs", "logs", "last", "--json")
    assert (early.code, early.error["name"]) == (3, "NotFound")


def test_a_run_key_stands_for_one_run(cli: Cli, project: Path) -> None:
    command = ("run", "sales.orders", "-p", "date=2026-01-01", "--run-key", "k", "--no-watch")
    first, second = shown(cli, *command), shown(cli, *command)
    assert first["run_id"] == second["run_id"]
    assert (first["replayed"], second["replayed"]) == (False, True)
    assert "was there already" in cli(*command).out
    other = cli(*command, "--force", "--json")
    assert (other.code, other.error["name"]) == (3, "Conflict")
    assert len(shown(cli, "runs", "list")["runs"]) == 1


def test_a_dry_run_says_what_a_plan_says(cli: Cli, project: Path) -> None:
    selected = ("+sales.report", "-p", "date=*")
    assert shown(cli, "run", *selected, "--dry-run")["tasks"] == shown(cli, "plan", *selected)["tasks"]
    assert shown(cli, "runs", "list")["runs"] == []


def test_nothing_that_can_run_is_an_error(cli: Cli, project: Path) -> None:
    ran = cli("run", "sales.report", "--no-watch")
    assert ran.code == 3
    assert "cannot run: " in ran.out
    assert shown(cli, "plan", "sales.report")["task_count"] == 0
    assert shown(cli, "runs", "list")["runs"] == []


def test_a_run_key_stands_for_a_run_of_nothing_too(cli: Cli, project: Path) -> None:
    command = ("run", "sales.report", "--run-key", "k", "--no-watch", "--json")
    first, second = cli(*command), cli(*command)
    assert (first.code, second.code) == (3, 3)
    assert first.document["run_id"] == second.document["run_id"] != ""
    assert len(shown(cli, "runs", "list")["runs"]) == 1


def test_the_last_of_no_runs_is_not_found(cli: Cli, project: Path) -> None:
    for command in (["show"], ["logs"], ["cancel"], ["rerun", "--no-watch"], ["outputs"]):
        ran = cli("runs", command[0], "last", *command[1:], "--json")
        assert (ran.code, ran.error["name"]) == (3, "NotFound"), command
    ran = cli("explain", "run", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert ran.code == 3
    assert "arco runs list" in ran.err


# What failures advise


def commands_of(category: FailureCategory) -> list[str]:
    hints = hints_for(category, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "sales.daily[date=2026-01-01]")
    return [part.strip() for hint in hints for part in hint.command.split("&&") if part.strip()]


@pytest.mark.parametrize("category", list(FailureCategory))
def test_every_command_that_a_failure_advises_exists(category: FailureCategory) -> None:
    for command in commands_of(category):
        program, *arguments = shlex.split(command)
        assert program == "arco"
        found: Any = typer.main.get_command(app)
        while hasattr(found, "get_command"):
            name, *arguments = arguments
            below = found.get_command(found.make_context("arco", [name, "--help"], resilient_parsing=True), name)
            assert below is not None, command
            found = below
        found.make_context(found.name, arguments)
