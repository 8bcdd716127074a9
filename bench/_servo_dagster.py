"""Dagster in an environment of its own, made once from a lock file with hashes and kept below `.work`."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from arco.core import sha256_hex
from bench._servo_projects import MARKS, read_marks

__all__ = ["Dagster", "Ran"]

HERE = Path(__file__).parent / "dagster"
PATIENCE = 3_600


@dataclass(frozen=True)
class Ran:
    """One run of a project."""

    seconds: float
    calls: list[float]
    """When each function was called."""


class Dagster:
    def __init__(self, python: Path, home: Path) -> None:
        self._python = python
        self._home = home
        self._marks = home / "calls"

    @classmethod
    def install(cls, folder: Path) -> "Dagster":
        """What the lock file names, installed unless it is there already. `folder` is for what it stores."""
        lock = HERE / "requirements.lock"
        above = Path(".work").absolute() / f"dagster-{sha256_hex(lock.read_bytes())[:16]}"
        python, stamp = above / "bin" / "python", above / ".stamp"
        if not stamp.exists():
            _check([sys.executable, "-m", "venv", "--clear", str(above)])
            pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            _check([*pip, "--no-deps", "--require-hashes", "-r", str(lock)])
            stamp.touch()
        home = folder.absolute()
        home.mkdir(parents=True, exist_ok=True)
        (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
        return cls(python, home)

    def run(self, project: Path, executor: str) -> Ran:
        found, _ = self._drive("run", project, executor)
        if not found["success"]:
            raise RuntimeError(f"Dagster's run of {project.name} failed")
        return Ran(found["seconds"], read_marks(self._marks))

    def load(self, project: Path) -> float:
        """CPU seconds of a process that loads a project and makes its asset graph."""
        return self._drive("load", project)[1]

    def plan(self, project: Path, days: Sequence[str] = ()) -> float:
        """CPU seconds to plan a run of all assets: of each of these days, or as they are."""
        return float(self._drive("plan", project, *days)[0]["cpu_seconds"])

    def partitions(
        self, project: Path, environ: Mapping[str, str], settings: Path, times: int, days: Sequence[str]
    ) -> dict[str, list[float]]:
        """Seconds of each time, by job: a run for each of these days, and one run for all of them."""
        found: dict[str, list[float]]
        found, _ = self._drive("partitions", project, str(settings.absolute()), str(times), *days, environ=environ)
        return found

    def _drive(
        self, command: str, project: Path, *rest: str, environ: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[Any, float]:
        """What the driver answers, and the CPU seconds of its process."""
        before = _cpu()
        done = subprocess.run(
            [str(self._python), str(HERE / "drive.py"), command, *rest],
            cwd=project,
            env={
                **os.environ,
                **environ,
                "DAGSTER_HOME": str(self._home),
                "PYTHONPATH": str(project.absolute()),
                MARKS: str(self._marks),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"Dagster ended with {done.returncode}: {done.stderr[-2_000:]}")
        return json.loads(done.stdout.splitlines()[-1]), _cpu() - before


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _check(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Dagster cannot be installed: {done.stderr.strip()[-1_000:]}")
