"""`arco dev` as a process, and everything it started: the worker, its drivers, their Java processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Dev"]

END_SECONDS = 60


class Dev:
    """`arco dev` in a folder. It may be killed and started again."""

    def __init__(self, folder: Path, environ: Mapping[str, str], *options: str) -> None:
        self._folder = folder
        self._environ = environ
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.starts = 0

    def start(self) -> None:
        told = self._folder / f"dev-{self.starts}.log"
        self.starts += 1
        with told.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "arco.cli", "dev", "--json", "--no-reload", *self._options],
                cwd=self._folder,
                env={**os.environ, **self._environ, "ARCO_LISTEN": "127.0.0.1:0"},
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        if not first:
            raise RuntimeError(f"arco dev did not start; see {told}")
        self.url = json.loads(first)["url"]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def family(self) -> dict[str, list[int]]:
        """Processes by what they are."""
        children = _children(self.pid)
        workers = [pid for pid in children if b"worker" in _command(pid)]
        drivers = [driver for worker in workers for driver in _children(worker)]
        below = _below(drivers)
        java = [pid for pid in below if os.path.basename(_command(pid)[0]) == b"java"]
        others = {*children, *below} - {*workers, *java}
        return {"server": [self.pid], "worker": workers, "driver": drivers, "java": java, "other": sorted(others)}

    def kill_all(self) -> dict[str, int]:
        """Kill every process at once, also those that begin meanwhile; how many of each kind there were."""
        family = self.family()
        left = {pid: _begun(pid) for pids in family.values() for pid in pids}
        while left:
            for pid, begun in left.items():
                with contextlib.suppress(ProcessLookupError):
                    if not _is_gone(pid, begun):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
            left |= {pid: _begun(pid) for pid in _below(list(left))}
            left = {pid: begun for pid, begun in left.items() if not _is_gone(pid, begun)}
        self.reap()
        return {kind: len(pids) for kind, pids in family.items()}

    def ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self.reap()


def _stat(pid: int) -> list[str]:
    """State, parent and more of a process; nothing if there is none. What comes first may hold spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _command(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]


def _begun(pid: int) -> str:
    """When a process began: tells it from a later one of the same number."""
    return "".join(_stat(pid)[19:20])


def _is_gone(pid: int, begun: str) -> bool:
    fields = _stat(pid)
    return not fields or fields[0] == "Z" or fields[19] != begun


def _children(pid: int) -> list[int]:
    found = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [one for one in found if (fields := _stat(one)) and int(fields[1]) == pid and fields[0] != "Z"]


def _below(pids: list[int]) -> list[int]:
    """All that these processes started, and what those did."""
    children = [child for pid in pids for child in _children(pid)]
    return [*children, *_below(children)] if children else []
