"""Projects through the command line, without a server and without a worker: check, deploy, look, plan."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.pipelines import SALES


def shown(cli: Cli, *command: str) -> Any:
    ran = cli(*command, "--json")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    return ran.document


def keys(cli: Cli) -> list[str]:
    return [asset["key"] for asset in shown(cli, "assets", "list")["assets"]]


def edit(project: Path, old: str, new: str) -> None:
    path = project / "sales.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# Check


def test_a_project_is_checked_without_a_store(cli: Cli, home: Path) -> None:
    (home / "sales.py").write_text(SALES)
    found = shown(cli, "check")
    assert [asset["key"] for asset in found["assets"]] == [
        f"sales.{name}" for name in ("after", "broken", "cleaned", "customer", "feed", "orders", "report")
    ]
    assert found["problems"] == []
    text = cli("check").out
    assert "7 assets, nothing is wrong." in text
    assert "sales.py:" in text
    assert list(home.iterdir()) == [home / "sales.py"]


def test_what_is_wrong_is_told_with_file_line_and_cure(cli: Cli, home: Path) -> None:
    (home / "sales.py").write_text(SALES.replace("def after(broken)", "def after(brokn)"))
    ran = cli("check")
    assert ran.code == 2
    first, cure, *_ = ran.out.splitlines()
    assert first.startswith("sales.py:")
    assert "sales.after: " in first
    assert "brokn" in first
    assert cure.startswith("  ")
    assert "1 problem" in ran.out
    document = cli("check", "--json")
    assert document.code == 2
    (problem,) = document.document["problems"]
    assert (problem["file"], problem["asset"]) == ("sales.py", "sales.after")
    assert problem["line"] > 1
    assert problem["cure"]


def test_a_folder_without_assets_is_no_error_to_check_and_one_to_deploy(cli: Cli, home: Path) -> None:
    assert "no assets" in cli("check").out
    assert cli("init").code == 0
    ran = cli("deploy", "--json")
    assert (ran.code, ran.error["name"]) == (2, "Invalid")


def test_a_folder_that_does_not_exist_is_named(cli: Cli, home: Path) -> None:
    for command in ("check", "deploy"):
        ran = cli(command, "nowhere")
        assert ran.code == 2
        assert "nowhere" in ran.err


# Deploy


def test_a_dry_run_shows_the_difference_and_writes_nothing(cli: Cli, project: Path) -> None:
    edit(project, "Every order, by day.", "All orders.")
    edit(project, "@asset\ndef after(broken)", '@asset(renamed_from="after")\ndef later(broken)')
    edit(project, "def customer():", "def client():")
    before = sorted((project / ".arco").rglob("*"))
    found = shown(cli, "deploy", "--dry-run")
    assert sorted((project / ".arco").rglob("*")) == before
    assert found["deployment_id"] is None
    assert found["diff"]["added"] == ["sales.client"]
    assert found["diff"]["removed"] == ["sales.customer"]
    assert found["diff"]["renamed"] == ["sales.after -> sales.later"]
    assert {"key": "sales.orders", "fields": ["description"]} in found["diff"]["changed"]
    lines = cli("deploy", "--dry-run").out.splitlines()
    assert "  +  sales.client" in lines
    assert "  -  sales.customer" in lines
    assert "  -> sales.after is now sales.later" in lines
    assert "  ~  sales.orders  (description)" in lines
    assert "Nothing was deployed: a dry run." in lines


def test_a_deploy_names_what_is_affected_downstream(cli: Cli, project: Path) -> None:
    edit(project, "[1, 2, 3]", "[1, 2]")
    lines = cli("deploy", "--dry-run").out.splitlines()
    assert "  ~  sales.orders  (code)" in lines
    assert any(line.startswith("  !  sales.report: ") for line in lines)


def test_what_is_deployed_already_is_not_deployed_again(cli: Cli, project: Path) -> None:
    ran = cli("deploy")
    assert ran.code == 0
    assert "Nothing to deploy" in ran.out
    assert len(shown(cli, "deployments", "list")["deployments"]) == 1


def test_a_deploy_is_refused_with_file_and_line_and_nothing_is_stored(cli: Cli, project: Path) -> None:
    edit(project, "def after(broken)", "def after(brokn)")
    before = sorted((project / ".arco").rglob("*"))
    ran = cli("deploy")
    assert ran.code == 2
    assert "sales.py:" in ran.err
    assert "nothing was deployed" in ran.err
    assert ran.out == ""
    (problem,) = cli("deploy", "--json").error["details"]["problems"]
    assert problem["asset"] == "sales.after"
    assert sorted((project / ".arco").rglob("*")) == before


def test_a_deploy_and_a_rollback(cli: Cli, project: Path) -> None:
    (first,) = shown(cli, "deployments", "list")["deployments"]
    assert (first["message"], first["current"], first["asset_count"]) == ("first", True, 7)
    edit(project, "def customer():", "def client():")
    done = shown(cli, "deploy", "-m", "second")
    assert done["diff"]["removed"] == ["sales.customer"]
    assert "sales.customer" not in keys(cli)
    back = shown(cli, "deployments", "rollback", first["deployment_id"], "-m", "back")
    assert back["code_version"] == first["code_version"]
    newest, second, oldest = shown(cli, "deployments", "list")["deployments"]
    assert [newest["current"], second["current"], oldest["current"]] == [True, False, False]
    assert newest["rollback_of"] == first["deployment_id"]
    assert f"back to {first['deployment_id']}: back" in cli("deployments", "list").out
    assert "sales.customer" in keys(cli)


def test_a_rollback_to_what_never_was_is_refused(cli: Cli, project: Path) -> None:
    ran = cli("deployments", "rollback", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--json")
    assert (ran.code, ran.error["name"]) == (3, "NotFound")


# Assets and partitions


def test_assets_are_listed_and_shown(cli: Cli, project: Path) -> None:
    assert keys(cli)[:2] == ["sales.after", "sales.broken"]
    found = shown(cli, "assets", "show", "sales.orders")
    assert (found["upstream"], found["downstream"], found["partition_count"]) == (["sales.feed"], ["sales.cleaned"], 5)
    text = cli("assets", "show", "sales.orders").out
    for said in ("Every order, by day.", "ann@acme.com", "tier=1", "daily from 2026-01-01", "0 of 5 partitions"):
        assert said in text
    assert "not_empty" in cli("assets", "show", "sales.report").out
    assert "arco partitions list customers" in cli("assets", "show", "sales.customer").out


def test_an_asset_without_versions_has_no_partitions_to_list(cli: Cli, project: Path) -> None:
    assert shown(cli, "assets", "partitions", "sales.orders") == {"partitions": [], "more": False}
    assert "arco run sales.orders" in cli("assets", "partitions", "sales.orders").out
    assert cli("assets", "partitions", "sales.nothing").code == 3


def test_keys_of_dynamic_partitions_are_added_listed_and_dropped(cli: Cli, project: Path) -> None:
    assert shown(cli, "partitions", "list", "customers") == {"name": "customers", "keys": ["a", "b"], "more": False}
    assert cli("partitions", "add", "customers", "c", "b").code == 0
    assert shown(cli, "partitions", "list", "customers", "--limit", "2")["more"] is True
    assert cli("partitions", "list", "customers", "--limit", "0").out == "a\nb\nc\n"
    assert "no longer has a" in cli("partitions", "drop", "customers", "a").out
    assert cli("partitions", "list", "customers").out == "b\nc\n"
    assert "arco partitions add others KEY" in cli("partitions", "list", "others").out
    assert cli("partitions", "add", "customers", "a,b").code == 2


# Plans


def test_a_plan_tells_why_and_in_which_order(cli: Cli, project: Path) -> None:
    found = shown(cli, "plan", "+sales.report", "--partition", "date=2026-01-01..2026-01-05")
    assert (found["task_count"], found["stage_count"]) == (11, 3)
    assert all(task["reason"] for task in found["tasks"])
    text = cli("plan", "+sales.report", "--partition", "date=*").out
    assert "11 tasks in 3 stages." in text
    assert "sales.orders[date=2026-01-01..2026-01-05] x 5" in text
    assert "sales.orders[...] runs before it" in text
    assert "external" in text
    full = cli("plan", "+sales.report", "--partition", "date=*", "--full").out
    assert "sales.cleaned[date=2026-01-03]" in full
    assert " x 5" not in full


def test_a_plan_of_dynamic_partitions(cli: Cli, project: Path) -> None:
    found = shown(cli, "plan", "sales.customer", "-p", "customers=*")
    assert [task["task_key"] for task in found["tasks"]] == [
        "sales.customer[customers=a]",
        "sales.customer[customers=b]",
    ]


def test_a_plan_says_what_cannot_run(cli: Cli, project: Path) -> None:
    ran = cli("plan", "sales.report")
    assert ran.code == 0
    assert "Nothing to run." in ran.out
    assert "cannot run: it needs sales.cleaned[date=2026-01-01]" in ran.out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["plan", "sales.ordrs"], "orders"),
        (["plan", "sales.orders"], "--partition date="),
        (["plan", "sales.orders", "-p", "date=2030-01-01"], "2026-01-05"),
        (["plan", "sales.orders", "-p", "date"], "NAME=KEYS"),
        (["plan", "sales.report", "-p", "region=eu"], "region"),
        (["plan", "("], "at character 2"),
        (["run", "sales.report", "--timeout", "soon", "--no-watch"], "duration"),
        (["run", "sales.report", "--priority", "100000", "--no-watch"], "priority"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_request_that_does_not_fit_is_refused_with_a_cure(
    cli: Cli, project: Path, command: list[str], said: str
) -> None:
    ran = cli(*command)
    assert ran.code == 2, ran.err
    assert said in ran.err
    assert json.loads(cli(*command, "--json").err)["error"]["name"] == "Invalid"


def test_nothing_can_be_planned_before_something_is_deployed(cli: Cli, home: Path) -> None:
    assert cli("init").code == 0
    ran = cli("plan", "sales.orders")
    assert ran.code == 3
    assert "arco deploy" in ran.err
    assert "arco deploy" in cli("deployments", "list").out
    assert "arco deploy" in cli("assets", "list").out
    assert "arco run" in cli("runs", "list").out
