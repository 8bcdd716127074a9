"""Compaction on Spark from the command line, and which --engine and --master its commands refuse."""

from pathlib import Path

import pytest

from tests.cli.conftest import PUBLISHED, UNPUBLISHED, Cli

COMMANDS = pytest.mark.parametrize("command", [["compact"], ["rebuild"], ["maintain", "compaction"]], ids=" ".join)
NOBODY = "spark://127.0.0.1:1"
CONNECT = "sc://127.0.0.1:1"


def test_a_backlog_is_folded_and_merged_on_spark(cli: Cli, alone: Cli, workspace: Path) -> None:
    pytest.importorskip("pyspark", reason="needs arco[spark]")
    command = ["compact", "activity", "--engine", "spark", "--master", "local[2]", "--json"]
    ran = alone(*command, ARCO_MERGE_FAN_IN="4")
    assert ran.code == 0, ran.err
    (step,) = ran.document["logs"]
    assert step["segment"] == PUBLISHED + UNPUBLISHED
    assert step["merges"] > 0
    folding, *merging = ran.err.splitlines()
    assert folding == f"folding {UNPUBLISHED} segments of activity on Spark"
    assert merging
    assert all(line.startswith("merging ") for line in merging), f"Spark itself says nothing: {ran.err}"
    assert cli("rebuild", "--verify", "--json").document["equal"]
    assert cli("doctor").code == 0


@pytest.mark.usefixtures("project")
@COMMANDS
@pytest.mark.parametrize("by_setting", [True, False])
def test_a_master_that_does_not_answer_is_told_before_anything_starts(
    cli: Cli, home: Path, command: list[str], by_setting: bool
) -> None:
    pytest.importorskip("pyspark", reason="needs arco[spark]")
    if by_setting:
        (home / "arco.toml").write_text(f'spark_master = "{NOBODY}"')
    ran = cli(*command, "--engine", "spark", "--json", *([] if by_setting else ["--master", NOBODY]))
    assert (ran.code, ran.error["name"]) == (4, "SparkUnreachable")
    assert f"{NOBODY} does not answer" in ran.error["message"]
    assert "--master" in ran.error["message"]


@pytest.mark.usefixtures("project")
@COMMANDS
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--master", "bogus"], "is no Spark master"),
        (["--master", CONNECT], "Spark Connect"),
        (["--engine", "spark", "--master", CONNECT], "Spark Connect"),
        (["--engine", "local", "--master", "local[2]"], "leave out one of them"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_master_that_cannot_be_meant_is_refused(cli: Cli, command: list[str], options: list[str], words: str) -> None:
    ran = cli(*command, *options, "--json")
    assert (ran.code, ran.error["name"]) == (2, "Invalid")
    assert words in ran.error["message"]


@pytest.mark.usefixtures("project")
@COMMANDS
def test_a_server_of_spark_connect_that_workers_use_matters_only_to_who_insists_on_spark(
    cli: Cli, home: Path, command: list[str]
) -> None:
    (home / "arco.toml").write_text(f'spark_master = "{CONNECT}"')
    assert cli(*command).code == 0
    ran = cli(*command, "--engine", "spark", "--json")
    assert (ran.code, ran.error["name"]) == (2, "Invalid")
    assert "Spark Connect" in ran.error["message"]


@pytest.mark.parametrize("options", [["--engine", "spark"], ["--master", "local[2]"]], ids=" ".join)
def test_verify_refuses_what_it_would_not_act_on(cli: Cli, workspace: Path, options: list[str]) -> None:
    ran = cli("rebuild", "--verify", *options, "--json")
    assert (ran.code, ran.error["name"]) == (2, "Invalid")
    assert "--verify writes nothing" in ran.error["message"]
    assert cli("rebuild", "--verify", "--engine", "local").code == 0


@COMMANDS
def test_help_offers_no_server_of_spark_connect(cli: Cli, command: list[str]) -> None:
    shown = cli(*command, "--help").out
    assert "spark://" in shown
    assert "sc://" not in shown
