"""A small workspace with a past, made once and copied for each test, and the command line to run on it."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from arco.cli._app import app
from arco.core import new_ulid
from arco.domains.catalog import CreateNamespace, DropNamespace, Ref, RenameNamespace
from arco.domains.execution import MATERIALIZATION_COMPLETED, DataFile, MaterializationCompleted
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.state import new_event
from arco.storage import LocalStore, Scope
from tests.cli.pipelines import SALES

SCOPE = Scope("default", "default")
ASSET = "01ARZ3NDEKTSV4RRFFQ69G5F00"
ACTOR = "eve\x1b[31m[bold]"
"""A name that would recolour a terminal and pass for markup."""

PUBLISHED = 6
UNPUBLISHED = 2


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


Cli = Callable[..., Ran]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder and an environment without settings."""
    for name in [name for name in os.environ if name.startswith("ARCO_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(home: Path) -> Cli:
    def run(*args: str, **environ: str) -> Ran:
        result = CliRunner().invoke(app, list(args), env=environ)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def alone(home: Path) -> Cli:
    """The command in a process of its own: a process has one Spark, and other tests may have this one's."""

    def run(*args: str, **environ: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "arco.cli", *args],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environ},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three namespaces (one renamed, one dropped) and six materializations, a revision each; two more are only
    in the log."""
    root = tmp_path_factory.mktemp("template") / ".arco"
    asyncio.run(_fill(root))
    return root


@pytest.fixture
def workspace(home: Path, template: Path) -> Path:
    """The workspace's folder, in the store `.arco` of the current folder."""
    shutil.copytree(template, home / ".arco")
    return home / ".arco" / SCOPE.root


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project of assets, deployed to the store below it."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "sales.py").write_text(SALES)
    for command in (["init"], ["deploy", str(folder), "-m", "first"], ["partitions", "add", "customers", "a", "b"]):
        result = CliRunner().invoke(app, [*command, "--store", f"file://{folder}/.arco"])
        assert result.exit_code == 0, result.stderr
    return folder


@pytest.fixture
def project(home: Path, deployed: Path) -> Path:
    shutil.copytree(deployed, home, dirs_exist_ok=True)
    return home


async def _fill(root: Path) -> None:
    runtime = AsyncRuntime()
    await init_workspace(LocalStore(root), SCOPE, runtime)
    async with await Workspace.open(LocalStore(root), SCOPE, runtime) as workspace:
        commands = [CreateNamespace(path) for path in (("sales",), ("old",), ("gone",))]
        old, gone = Ref(path=("old",)), Ref(path=("gone",))
        for command in (*commands, RenameNamespace(old, ("new",)), DropNamespace(gone)):
            receipt = await workspace.decide("catalog", command, actor=ACTOR)
            await workspace.published("catalog", receipt.position)
        for number in range(PUBLISHED):
            await workspace.published("activity", await materialize(workspace, number))
    async with await Workspace.open(LocalStore(root), SCOPE, runtime, compact=False) as workspace:
        for number in range(PUBLISHED, PUBLISHED + UNPUBLISHED):
            await materialize(workspace, number)


async def materialize(workspace: Workspace, number: int) -> int:
    runtime = workspace.runtime
    fact = MaterializationCompleted(
        materialization_id=new_ulid(runtime, runtime),
        asset_id=ASSET,
        asset_key="sales.orders",
        partition_id=f"part_{number % 3}",
        partition_key=f"n={number % 3}",
        run_id="run",
        task_id="task",
        files=(DataFile("a.parquet", 10, 5),),
        row_count=100 + number,
        byte_size=10,
        schema_hash="hash",
        started_at=runtime.now(),
        completed_at=runtime.now(),
    )
    event = new_event(MATERIALIZATION_COMPLETED, fact, subject="sales.orders")
    return (await workspace.record("activity", [event], actor=ACTOR)).position
