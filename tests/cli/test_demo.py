"""`make demo` and the README: every command ends well, and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def carried_out(script: str, folder: Path, *options: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "TMPDIR": str(folder), **environ}
    command = [sys.executable, str(EXAMPLES / script), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)


@pytest.mark.prove
def test_the_readme_tells_the_truth(tmp_path: Path) -> None:
    ran = carried_out("walkthrough.py", tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "6 of 6 succeeded" in ran.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.prove
@pytest.mark.minutes
def test_the_demo_goes_from_nothing_to_a_report_and_has_nothing_to_do_a_second_time(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="needs arco[spark]")
    shop = str(tmp_path / "shop")
    ran = carried_out("demo.py", tmp_path, "--folder", shop)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    quarter, again, last = (part.partition("\n# ")[0] for part in ran.stdout.split("$ arco backfill")[1:])
    assert "385 of 393 succeeded, 8 skipped" in quarter
    assert "9 of 9 succeeded" in again
    assert "Nothing to run" in last
    assert "shop.raw_events.amount" in ran.stdout
    assert "(100%)" in ran.stdout
    second = carried_out("demo.py", tmp_path, "--folder", shop)
    assert second.returncode == 0, second.stdout + second.stderr
    (only,) = second.stdout.split("$ arco backfill")[1:]
    assert "Nothing to run" in only
    assert "Deployed" not in second.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["shop"]


def test_without_java_the_demo_says_what_to_install(tmp_path: Path) -> None:
    ran = carried_out("demo.py", tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    assert ran.returncode == 2
    assert "install" in ran.stderr
    assert ran.stdout == ""
    assert list(tmp_path.iterdir()) == []
