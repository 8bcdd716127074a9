"""What a commit syncs to the disk, on each side: a catalog that waits for less of it is faster, and loses more when the
power goes. `strace` counts the calls while one writer commits; where it is not installed, the line says so.

A sync of a log that answers nobody, such as that of a receipt or of the state, counts too, divided by the commits.
"""

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench._iceberg_sides import Side
from bench._measure import Line

__all__ = ["measure_syncs"]

NAME = "syncs of a commit, 1 writer to 1 table"
CALLS = ("fsync", "fdatasync", "msync")
_CALL = re.compile(rf"\b(?:{'|'.join(CALLS)})\(")
SETTLE = 1.0
"""Seconds in which what follows a commit comes to its end."""


def measure_syncs(section: str, found: Sequence[Side], table: str, commits: int, folder: Path) -> list[Line]:
    strace = shutil.which("strace")
    if strace is None:
        return [Line(section, NAME, "strace, which would count them, is not installed")]
    counted = {side.name: _syncs(strace, side, table, commits, folder) for side in found}
    ours = counted.pop("arco")
    return [Line(section, NAME, f"{ours:.1f}", f"{name} {other:.1f}") for name, other in counted.items()]


def _syncs(strace: str, side: Side, table: str, commits: int, folder: Path) -> float:
    """Of one commit."""
    told = folder / f"{side.name}.strace"
    with _traced(strace, side.pid or side.crowd.pid, told):
        side.crowd.work([side.job("commit", [table], count=commits)])
        time.sleep(SETTLE)
    return len(_CALL.findall(told.read_text(errors="replace"))) / commits


@contextmanager
def _traced(strace: str, pid: int, told: Path) -> Iterator[None]:
    """All threads and children of a process."""
    command = [strace, "-f", "-e", f"trace={','.join(CALLS)}", "-o", str(told), "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        if "attached" not in process.stderr.readline():
            raise RuntimeError(f"strace cannot look at process {pid}: {process.stderr.read()}")
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
