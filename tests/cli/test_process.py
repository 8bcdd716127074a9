"""The command as a process of its own: signals, pipes, exit codes, completion."""

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from arco import __version__
from arco.runtime import AsyncRuntime, Workspace
from arco.storage import LocalStore
from tests.cli.conftest import SCOPE, materialize

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


@contextlib.contextmanager
def following(*shape: str) -> Iterator[subprocess.Popen[bytes]]:
    """`log tail --follow`, interrupted at the end."""
    command = [*ARCO, "log", "tail", "activity", "-n", "1", "--follow", *shape]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, env=environ()) as child:
        try:
            yield child
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=30)
        finally:
            child.kill()
    assert child.returncode == 130
    assert b"Traceback" not in err


def line_of(child: subprocess.Popen[bytes]) -> bytes:
    assert child.stdout is not None
    assert select.select([child.stdout], [], [], 30)[0], "nothing came"
    return child.stdout.readline()


async def append_one(home: Path) -> None:
    async with await Workspace.open(LocalStore(home / ".arco"), SCOPE, AsyncRuntime(), compact=False) as opened:
        await materialize(opened, 7)


def test_follow_shows_events_as_they_arrive_until_it_is_interrupted(home: Path, workspace: Path) -> None:
    with following("--json") as child:
        first = json.loads(line_of(child))
        asyncio.run(append_one(home))
        second = json.loads(line_of(child))
    assert int(second["position"]) == int(first["position"]) + (1 << 20)


def test_follow_for_people_ends_as_quietly(workspace: Path) -> None:
    with following() as child:
        assert b"position" in line_of(child)


SLOW = """
import time
from pathlib import Path

from arco import asset


@asset(namespace="slow")
def one():
    Path("{folder}/begun").touch()
    while not Path("{folder}/go").exists():
        time.sleep(0.05)
"""


def test_a_run_that_is_interrupted_says_what_becomes_of_it(home: Path, workspace: Path) -> None:
    """Nobody else serves the workspace, so its server and its worker end too, once the task that began has ended."""
    (home / "pipeline.py").write_text(SLOW.format(folder=home))
    assert run("deploy").returncode == 0
    command = [*ARCO, "run", "slow.one"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ()) as child:
        try:
            for _ in range(1_200):
                if (home / "begun").exists():
                    break
                time.sleep(0.05)
            child.send_signal(signal.SIGINT)
            assert child.stderr is not None
            told = child.stderr.readline().decode()
            (home / "go").touch()
            _, err = child.communicate(timeout=60)
        finally:
            child.kill()
    assert child.returncode == 130
    assert b"Traceback" not in err
    assert "is not over: the server and the worker of this command end with it" in told
    assert "goes on with the next `arco run`" in told
    assert json.loads(run("runs", "show", "last", "--json").stdout)["state"] == "SUCCEEDED"


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


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("arco log ta", ["tail"]),
        ("arco log cat ac", ["activity"]),
        ("arco namespace re", ["rename"]),
        ("arco table create sales.t --format P", ["PARQUET"]),
        ("arco role grant me ow", ["owner"]),
    ],
)
def test_the_shell_completes_commands_and_values(line: str, completed: list[str]) -> None:
    ran = run(_ARCO_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(line.split()) - 1))
    assert ran.stdout.split() == completed
