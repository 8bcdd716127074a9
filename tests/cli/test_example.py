"""`arco init --example`: what it writes is a whole project, which runs on real Spark as its README says."""

import shlex
from pathlib import Path

import pytest

from arco.cli._example import write_example
from arco.core import StoreRefused
from tests.cli.conftest import Cli, Ran

FILES = ["README.md", "pipeline.py", "till.py"]
WEEK = "--from 2026-08-10 --to 2026-08-16"
"""It has the day of the sale, which is held back."""


def test_it_writes_a_project_that_passes_the_check(cli: Cli, home: Path) -> None:
    pytest.importorskip("pyspark", reason="needs arco[spark]")
    made = cli("init", "--example")
    assert made.code == 0, made.err
    assert "arco backfill" in made.out
    assert sorted(path.name for path in home.iterdir() if not path.name.startswith(".")) == FILES
    checked = cli("check", "--json").document
    assert checked["problems"] == []
    assert len(checked["assets"]) == 8
    assert {asset["kind"] for asset in checked["assets"]} == {"asset", "sql"}
    assert not list(home.rglob("__pycache__"))


def test_the_commands_of_its_readme_are_those_that_init_names(cli: Cli, home: Path) -> None:
    made = cli("init", "--example")
    lines = (home / "README.md").read_text().splitlines()
    commands = [line.partition("   ")[0].strip() for line in lines if line.startswith("arco ")]
    assert commands[:3] == [
        line.replace("Next:", "").strip() for line in made.out.splitlines() if line[6:].startswith("arco ")
    ]


def test_json_lists_the_files(cli: Cli) -> None:
    assert cli("init", "--example", "--json").document["files"] == FILES


def test_a_folder_with_something_in_it_is_left_as_it_is(cli: Cli, home: Path) -> None:
    for name in ("a.py", "b.txt", "c", "d"):
        (home / name).write_text("mine")
    made = cli("init", "--example")
    assert made.code == 3
    assert "is not empty: it has a.py, b.txt, c and 1 more" in made.err
    assert "mkdir shop && cd shop && arco init --example" in made.err
    assert not (home / ".arco").exists()
    assert (home / "a.py").read_text() == "mine"


def test_settings_and_what_is_hidden_are_no_obstacle(cli: Cli, home: Path) -> None:
    (home / "arco.toml").write_text('workspace_id = "shop"\n')
    (home / ".git").mkdir()
    assert cli("init", "--example").code == 0
    assert (home / "pipeline.py").is_file()


def test_a_folder_that_cannot_be_written_is_told(home: Path) -> None:
    with pytest.raises(StoreRefused, match="cannot be written"):
        write_example(home / "missing")


def test_its_assets_run_on_spark_and_its_checks_catch_the_odd_day(cli: Cli, home: Path) -> None:
    pytest.importorskip("pyspark", reason="needs arco[spark]")
    (home / "arco.toml").write_text('spark_master = "local[2]"\nslots = 1\n')

    def done(line: str, code: int = 0) -> Ran:
        ran = cli(*shlex.split(line), COLUMNS="200")
        assert ran.code == code, ran.out + ran.err
        return ran

    done("init --example")
    done("deploy")
    first = done(f"backfill '*' {WEEK}", code=8)
    # 7 days of 4 assets, a week of 2, and the dimensions: what is made of the day of the sale is missing.
    assert "27 of 31 succeeded, 4 skipped" in first.out
    assert first.out.count("shop.dimensions: 1 of 1 succeeded") == 1
    (held,) = done("quarantine list --json").document["versions"]
    assert (held["asset_key"], held["partition_key"]) == ("shop.events", "date=d:2026-08-15")
    done("quarantine release shop.events -p date=2026-08-15 --reason 'the summer sale' --yes")
    assert "4 of 4 succeeded" in done(f"backfill shop.events+ {WEEK}").out
    assert "up to date" in done(f"backfill shop.events+ {WEEK}").out

    plans = done('query "select distinct asset_key, plan from system.materializations" --json').document["rows"]
    assert {asset for asset, plan in plans if plan == "together"} >= {"shop.events", "shop.customer_days"}
    report = done('query "select week::varchar, category, revenue from shop.weekly_report order by 2" --json')
    assert [row[:2] for row in report.document["rows"]] == [
        ["2026-08-10", category] for category in ("bikes", "clothes", "helmets", "parts", "tools")
    ]
    covered = done("lineage coverage --json").document["assets"]
    assert [one["asset"] for one in covered] == [
        f"shop.{name}" for name in ("customer_days", "customer_weeks", "daily_sales", "events", "weekly_report")
    ]
    assert all(one["exact"] == one["columns"] > 3 for one in covered)
    column = done("lineage show shop.weekly_report --column revenue").out
    for name in ("daily_sales.revenue  aggregated", "events.amount  aggregated", "raw_events.amount  as it is"):
        assert f"shop.{name}" in column
