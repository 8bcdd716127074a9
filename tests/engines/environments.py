"""Engines that need other versions than this project's: each in an environment of its own, driven as a process.

An environment is made once from `<name>/requirements.lock`, a lock file with hashes, and kept below `.work`. The
process runs `<name>/engine.py`, which answers each line of JSON on its stdin by one on its stdout.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

__all__ = ["Engine", "EngineFailed", "environment", "running_engine"]

HERE: Final = Path(__file__).parent
WORK: Final = HERE.parents[1] / ".work"


class EngineFailed(Exception):
    """What the engine said."""


class Engine:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, **question: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise EngineFailed("the engine's process ended")
        answer = json.loads(line)
        if "error" in answer:
            raise EngineFailed(answer["error"])
        return answer["result"]


def environment(name: str) -> Path:
    """The Python of an environment, which is made unless it is there."""
    lock = HERE / name / "requirements.lock"
    folder = WORK / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    # A virtual environment holds its own path, so it is made in place; the stamp says that it is whole.
    python, stamp = folder / "bin" / "python", folder / ".stamp"
    if not stamp.exists():
        folder.parent.mkdir(exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "10"]
        subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", str(lock)], check=True)
        stamp.touch()
    return python


@contextmanager
def running_engine(name: str) -> Iterator[Engine]:
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(environment(name)), str(HERE / name / "engine.py")]
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield Engine(process)
        finally:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
