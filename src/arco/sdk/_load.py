"""Loading a project from outside: a child process imports it, so that nothing the project does can harm this one.

The child may raise, call `sys.exit` or `os._exit`, crash, fork, print without end, or never come back: each becomes a
problem that says in which module it happened.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

import arco
from arco.assets import Problem, Project
from arco.core import Invalid, shown

__all__ = ["Loaded", "load_project"]

_RESULT_MAX = 256 * 1024 * 1024
_ERROR_MAX = 2_000
_SCRIPT = "put what should only run as a script under if __name__ == '__main__'"


class Loaded(msgspec.Struct, frozen=True):
    """A project as far as it could be loaded, and all that is wrong with it."""

    project: Project
    problems: tuple[Problem, ...]


class _Progress(msgspec.Struct):
    importing: str


def load_project(
    directory: str | Path, python: str = sys.executable, timeout: float = 60.0, modules: Sequence[str] = ()
) -> Loaded:
    """Import a project in another process and collect its definitions.

    `python` is the interpreter that has what the project imports, and Arco. `modules` are imported instead of all.
    """
    folder = Path(directory).resolve()
    if not folder.is_dir():
        raise Invalid(f"{shown(str(directory))} is no folder; give the one that has the pipelines")
    command = [python, "-P", "-m", "arco.sdk.load", str(folder), *(f"--module={module}" for module in modules)]
    try:
        # A session of its own, so that what the project starts can be ended with it.
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise Invalid(f"{shown(python)} cannot be started ({error.strerror}); give a Python interpreter") from error
    try:
        output, errors = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(child)
        output, _ = child.communicate()
        return _unfinished(output, f"loading took longer than {timeout:g} seconds and was ended")
    finally:
        _end(child)
    return _result(output, errors, child.returncode)


def _environment() -> dict[str, str]:
    """Ours, with Arco findable also where it is not installed, and without leaving compiled files in the project."""
    source = str(Path(arco.__file__).resolve().parent.parent)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, source]), "PYTHONDONTWRITEBYTECODE": "1"}


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End the child and everything it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        child.kill()
    child.wait()


def _result(output: bytes, errors: bytes, code: int) -> Loaded:
    last = output.rstrip(b"\n").rpartition(b"\n")[2]
    if len(output) <= _RESULT_MAX and output.endswith(b"\n"):
        try:
            return msgspec.json.decode(last, type=Loaded)
        except msgspec.MsgspecError:
            pass
    if not output:
        text = errors.decode(errors="replace").strip()[-_ERROR_MAX:]
        raise Invalid(f"the project could not be loaded, the process ended with {code}: {text}; check the interpreter")
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    return _unfinished(output, f"the process that imported it ended with {ended}")


def _unfinished(output: bytes, message: str) -> Loaded:
    """Nothing came of it; the last module that was begun is the culprit."""
    file = ""
    for line in output.split(b"\n"):
        try:
            file = msgspec.json.decode(line, type=_Progress).importing
        except msgspec.MsgspecError:
            continue
    problem = Problem(file, 1, "", message, f"modules are imported to find assets: {_SCRIPT}")
    return Loaded(Project(assets=()), (problem,))
