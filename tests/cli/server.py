"""`arco serve` as a process of its own, for tests."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Served", "serving"]

START_SECONDS = 60
STOP_SECONDS = 30


@dataclass(frozen=True)
class Served:
    url: str
    door: str
    process: subprocess.Popen[str]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end, and wait for that."""
        self.process.send_signal(number)
        return self.process.wait(STOP_SECONDS)


@contextlib.contextmanager
def serving(store: Path, *options: str, **environ: str) -> Iterator[Served]:
    """A server of the default workspace in a store, on a free port, until the block ends."""
    command = [sys.executable, "-m", "arco.cli", "serve", "--store", f"file://{store}", "--json"]
    command += [*(options or ["--listen", "127.0.0.1:0"])]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=inherited | environ
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stderr is not None
            assert select.select([child.stdout], [], [], START_SECONDS)[0], "the server does not come up"
            line = child.stdout.readline()
            assert line, child.stderr.read()
            ready = json.loads(line)
            yield Served(ready["url"], ready["door"], child)
        finally:
            child.kill()
