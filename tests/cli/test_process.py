"""The command as a process of its own: signals, pipes, exit codes, completion."""

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
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
