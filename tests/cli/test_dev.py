"""`arco dev` as people start it: behind `&`, with its output in the folder of the project, and twice."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from arco.cli import _dev
from arco.cli._command import Session
from arco.cli._dev import Changes
from arco.cli._output import Output
from arco.client import AsyncClient
from arco.core import ArcoError, OutcomeUnknown, RateLimited, Unavailable
from arco.wire import DeployDiff, Deployed, DeployRequest
from tests.cli.conftest import Cli

SECONDS = 40
LOOKS = 1.5
"""Seconds in which it has looked at the files more than once."""

PIPELINE = """from arco import asset

__namespace__ = "n"


@asset
def one():
    return {"n": [1]}
"""


class Dev:
    """The command as a job of a shell that is not interactive, which has it ignore SIGINT."""

    def __init__(self, folder: Path) -> None:
        self.pipeline = folder / "pipeline.py"
        self.pipeline.write_text(PIPELINE)
        self.told = folder / "told.txt"
        command = f"trap '' INT; exec {sys.executable} -m arco.cli dev --json --slots 1 > told.txt 2>&1"
        self.process = subprocess.Popen(["sh", "-c", f"{command} --listen 127.0.0.1:0"], cwd=folder)

    def lines(self) -> list[dict[str, Any]]:
        text = self.told.read_text() if self.told.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[0] + line[-1] == "{\n"]

    def deployments(self) -> list[str]:
        return [line["deployment_id"] for line in self.lines() if "deployment_id" in line]

    def wait(self, for_it: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS
        while not for_it():
            assert self.process.poll() is None, self.told.read_text()
            assert time.monotonic() < end, self.told.read_text()
            time.sleep(0.05)


@pytest.fixture
def dev(home: Path) -> Iterator[Dev]:
    started = Dev(home)
    try:
        started.wait(lambda: bool(started.deployments()))
        yield started
    finally:
        started.process.kill()
        started.process.wait()


def test_only_what_changed_is_deployed_and_sigterm_ends_it(dev: Dev, cli: Cli, home: Path) -> None:
    before = cli("log", "tail", "--json").out
    (home / "other.log").write_text("not a part of it\n")
    dev.pipeline.write_text(PIPELINE)
    time.sleep(LOOKS)
    assert len(dev.deployments()) == 1
    assert cli("log", "tail", "--json").out == before
    dev.pipeline.write_text(PIPELINE.replace("[1]", "[2]"))
    dev.wait(lambda: len(dev.deployments()) == 2)
    dev.process.terminate()
    assert dev.process.wait(SECONDS) == 130
    told = dev.told.read_text()
    assert len(dev.lines()) == 3, told
    # The worker writes here too, for itself: on a busy machine, that the server does not answer.
    assert told.splitlines()[-1] == "interrupted", told
    assert "warning: " not in told, told
    assert "Traceback" not in told, told


def test_a_file_that_is_being_written_is_not_taken_in_halves() -> None:
    first, half, whole = ({Path("pipeline.py"): (time, size)} for time, size in ((1, 90), (2, 0), (3, 95)))
    changes = Changes()
    looks = [first, first, half, whole, whole, whole, half, first, first]
    assert [(changes.are_whole(found), changes.are_taken) for found in looks] == [
        (True, True),
        (False, True),
        (False, False),
        (False, False),
        (True, True),
        (False, True),
        (False, False),
        (False, False),
        (True, True),
    ]


def test_what_is_tried_again_is_no_half_either() -> None:
    first, half = ({Path("pipeline.py"): (time, size)} for time, size in ((1, 90), (2, 0)))
    changes = Changes()
    assert changes.are_whole(first)
    changes.forget()
    assert not changes.are_whole(half)
    assert changes.are_whole(half)
    changes.forget()
    assert changes.are_whole(half), "what stays as it is need not be looked at twice"


def test_what_could_not_be_deployed_for_now_is_tried_again_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[ArcoError | str] = [
        Unavailable("the owner changes"),
        Unavailable("the owner changes"),
        *(OutcomeUnknown(f"no answer; ask by its operation id 01K9ZQ0000000000000000000{n}") for n in range(3)),
        *(RateLimited(f"more than 60 requests a minute; wait 0.{n} s") for n in range(3)),
        "a",
        "b",
    ]
    told: list[str] = []
    again: list[bool] = []
    (tmp_path / "pipeline.py").write_text(PIPELINE)

    async def deploy(session: Any, client: Any, place: Path, deployed: str, *, is_again: bool) -> str:
        answer = answers.pop(0)
        again.append(is_again)
        if isinstance(answer, ArcoError):
            raise answer
        (place / "pipeline.py").write_text(answer)
        return answer

    async def two() -> list[str]:
        session = SimpleNamespace(output=SimpleNamespace(error=lambda error: told.append(error.message)))
        found = []
        async for deployed in _dev.deployments(cast("Session", session), cast("AsyncClient", None), tmp_path):
            found.append(deployed)
            if len(found) == 2:
                break
        return found

    monkeypatch.setattr(_dev, "_deploy", deploy)
    monkeypatch.setattr(_dev, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(_dev, "MAX_PAUSE", 0.02)
    assert asyncio.run(two()) == ["a", "b"]
    assert told == [
        "the owner changes",
        "no answer; ask by its operation id 01K9ZQ00000000000000000000",
        "more than 60 requests a minute; wait 0.0 s",
    ]
    assert again == [False, *[True] * 8, False]


def test_what_is_tried_again_is_tried_ever_more_seldom_and_not_before_the_server_wants_it() -> None:
    gone, busy = Unavailable("the owner changes"), RateLimited("more than 60 requests a minute", retry_after=3)
    pauses = [_dev._pause(gone, failures) for failures in range(2_000)]
    assert pauses[:2] == [_dev.LOOK_SECONDS, 2 * _dev.LOOK_SECONDS]
    assert pauses == sorted(pauses)
    assert pauses[-1] == _dev.MAX_PAUSE
    assert [_dev._pause(busy, failures) for failures in (0, 2_000)] == [3, _dev.MAX_PAUSE]
    assert _dev._pause(RateLimited("slow down", retry_after=60.0), 0) == 60


class Server:
    """What a client has of a server that carries out every deployment, though answers get lost on the way."""

    def __init__(self, lose: Callable[[int], bool]) -> None:
        self.deployed: list[str] = []
        """The code of each deployment."""
        self._lose = lose
        """Of the number of a deployment, whether its answer is lost; called when it is done."""

    def list_deployments(self, limit: int) -> Any:
        async def page() -> Any:
            return SimpleNamespace(items=[SimpleNamespace(deployment_id=str(len(self.deployed)))])

        return SimpleNamespace(page=page)

    async def put_code(self, sha256: str, code: bytes) -> None:
        pass

    async def create_deployment(self, request: DeployRequest, key: str | None) -> Deployed:
        code = request.project["code_sha256"]
        if self.deployed[-1:] != [code]:
            self.deployed.append(code)
        number = len(self.deployed)
        if self._lose(number):
            raise Unavailable("no answer")
        same = DeployDiff(added=[], changed=[], removed=[], renamed=[], affected=[], unchanged=1)
        return Deployed(deployment_id=str(number), code_version=code, diff=same)


def test_a_change_taken_back_while_its_answer_was_lost_is_deployed_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = tmp_path / "pipeline.py"
    pipeline.write_text(PIPELINE)

    def lose(number: int) -> bool:
        if number == 2:
            pipeline.write_text(PIPELINE)
        return number == 2

    async def two() -> list[str]:
        session = SimpleNamespace(output=Output(as_json=True))
        found = []
        async for deployed in _dev.deployments(cast("Session", session), cast("AsyncClient", server), tmp_path):
            found.append(deployed)
            if len(found) == 2:
                break
            pipeline.write_text(PIPELINE.replace("[1]", "[1, 2]"))
        return found

    server = Server(lose)
    monkeypatch.setattr(_dev, "LOOK_SECONDS", 0.01)
    first, last = asyncio.run(two())
    assert first == last == server.deployed[-1]
    assert server.deployed == [first, server.deployed[1], first]
    assert server.deployed[1] != first
    told = [json.loads(line)["deployment_id"] for line in capsys.readouterr().out.splitlines()]
    assert told == ["1", "3"]


def test_a_second_one_says_that_the_workspace_is_served(
    dev: Dev, cli: Cli, tmp_path_factory: pytest.TempPathFactory
) -> None:
    listen = dev.lines()[0]["url"].removeprefix("http://")
    again = cli("dev", "--listen", listen, "--json")
    assert (again.code, again.error["name"]) == (3, "Refused")
    assert f"default/default is served at http://{listen} already" in again.error["message"]
    other = cli("dev", "--listen", listen, "--store", f"file://{tmp_path_factory.mktemp('other')}", "--json")
    assert (other.code, "choose another with --listen" in other.err) == (2, True)
