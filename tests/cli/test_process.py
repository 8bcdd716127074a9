"""The command as a process of its own: signals, pipes, exit codes, completion."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from arco import __version__

ARCO = [sys.executable, "-m", "arco.cli"]


def environ(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")} | more


def run(*args: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ARCO, *args], capture_output=True, text=True, env=environ(**more), timeout=60, check=False)


def test_the_version() -> None:
    assert run("--version").stdout == f"arco {__version__}\n"


def test_without_a_command_there_is_help() -> None:
    ran = run()
    assert ran.returncode == 2
    assert "init" in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr


def test_results_and_errors_end_with_their_codes(workspace: Path) -> None:
    assert run("doctor").returncode == 0
    ran = run("state", "show", "nosuch", "--json")
    assert ran.returncode == 3
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("shape", [[], ["--json"]], ids=["people", "json"])
def test_follow_shows_events_as_they_arrive_and_ends_with_130(workspace: Path, shape: list[str]) -> None:
    command = [*ARCO, "log", "tail", "-n", "1", "--follow", *shape]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ(PYTHONUNBUFFERED="1")
    ) as child:
        try:
            assert child.stdout is not None
            assert select.select([child.stdout], [], [], 30)[0]
            assert child.stdout.readline()
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=30)
        finally:
            child.kill()
    assert child.returncode == 130
    assert "Traceback" not in err


def test_a_reader_that_leaves_is_no_fault(workspace: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        ran = subprocess.run(
            [*ARCO, "log", "cat", "activity"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            env=environ(),
            check=False,
        )
    assert ran.returncode == 141
    assert ran.stderr == ""


def test_the_shell_completes_commands_and_logs() -> None:
    ran = run(_ARCO_COMPLETE="complete_bash", COMP_WORDS="arco log ta", COMP_CWORD="2")
    assert ran.stdout.split() == ["tail"]
