"""A plain PySpark script as a process of its own, and the project of the same functions for Arco.

Settings of Spark are those that Arco itself starts it with, but for where it keeps temporary files and how it logs.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from arco.spark import SparkSettings
from arco.spark._session import _conf

__all__ = ["CORES", "FUNCTIONS", "OPTIONS", "Plain", "plain", "write_project", "write_settings"]

HERE = Path(__file__).parent / "spark"
FUNCTIONS = HERE / "functions.py"

CORES = 2
SETTINGS = SparkSettings(f"local[{CORES}]", {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "4"})
OPTIONS = [
    "--master",
    SETTINGS.master,
    *(part for name, value in SETTINGS.conf.items() for part in ("--spark-conf", f"{name}={value}")),
]
"""Of a worker, for the same settings."""


def write_project(folder: Path, sizes: Mapping[str, str | int]) -> Path:
    """A project folder of Arco with the assets, of these sizes."""
    folder.mkdir(parents=True)
    for name in ("functions.py", "assets.py"):
        shutil.copy(HERE / name, folder / name)
    (folder / "sizes.py").write_text("".join(f"{name} = {value!r}\n" for name, value in sizes.items()))
    return folder


def write_settings(folder: Path) -> Path:
    """A file with the settings of Spark as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "settings.json"
    path.write_text(json.dumps(_conf(SETTINGS, "plain", (folder / "scratch").absolute())))
    return path


class Plain:
    def __init__(self, process: "subprocess.Popen[str]", errors: Path, started: float) -> None:
        self._process = process
        self._errors = errors
        self._started = started

    def order(self, what: str, **arguments: object) -> float:
        """Have something done; the seconds it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": what, **arguments}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the plain script ended: {self._errors.read_text()[-2_000:]}")
        return float(json.loads(line)["seconds"])

    def age(self) -> float:
        """Seconds since the process began."""
        return time.perf_counter() - self._started


@contextmanager
def plain(folder: Path) -> Iterator[Plain]:
    """The script, whose Spark starts now."""
    settings = write_settings(folder)
    errors = folder / "errors"
    started = time.perf_counter()
    with errors.open("w") as told:
        process = _start(settings, told)
        try:
            yield Plain(process, errors, started)
        finally:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(settings: Path, errors: IO[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(HERE / "script.py"), str(settings.absolute())],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
