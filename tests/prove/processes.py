"""Child processes that never outlive the proof: each leads a group of its own, and the whole group is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

__all__ = ["Processes"]


class Processes:
    """Workers by name. Use `running` as a context: whatever ends it, nothing is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.started = 0

    @contextmanager
    def running(self) -> Iterator["Processes"]:
        def stop(number: int, frame: FrameType | None) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGTERM, stop)
        try:
            yield self
        finally:
            signal.signal(signal.SIGTERM, before)
            for name in list(self._running):
                self.kill(name)

    @property
    def names(self) -> list[str]:
        return sorted(self._running)

    def start(self, role: str, name: str) -> None:
        """Start a worker (tests.prove.worker); what it prints goes to a file beside the others."""
        output = self._folder / f"{name}.out"
        with output.open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.prove.worker", role, name, str(self._folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started += 1

    def kill(self, name: str) -> None:
        """As if the power of this one process went: no handler runs."""
        process = self._running.pop(name)
        self._signal(process, signal.SIGKILL)
        process.wait()

    def suspend(self, name: str) -> None:
        self._signal(self._running[name], signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._signal(self._running[name], signal.SIGCONT)

    def ended(self) -> list[str]:
        """Workers that ended by themselves, which none should."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def output(self, name: str) -> str:
        return (self._folder / f"{name}.out").read_text(errors="replace")

    @staticmethod
    def _signal(process: subprocess.Popen[bytes], number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
