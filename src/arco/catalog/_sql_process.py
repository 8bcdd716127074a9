"""`QueryProcess`: the parent's handle on a process that runs one query (`_sql_worker`).

Why a process: functions of a query may build values that no account of DuckDB sees, in loops that nothing interrupts
(`repeat('x', 1000000000)` over a few rows). A process has limits of its own and can be killed at any moment. All
methods but `kill` block and belong into `Runtime.offload`; after a `kill` those that wait return at once.
"""

import contextlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from arco.core import Refused, Unavailable

__all__ = ["ProcessEnded", "QueryProcess"]

_MAX_FRAME = 256 << 20


class ProcessEnded(Refused):
    """The process went away without an answer: a limit of the operating system, or a fault of the engine."""


def _library_paths() -> list[str]:
    found = [importlib.util.find_spec(name) for name in ("duckdb", "pyarrow")]
    return sorted({str(Path(spec.origin).parent.parent) for spec in found if spec and spec.origin})


class QueryProcess:
    def __init__(self) -> None:
        script = Path(__file__).with_name("_sql_worker.py")
        # Isolated and without site: the process sees the libraries it needs and nothing of this one's surroundings.
        command = [sys.executable, "-I", "-S", "-B", "-W", "ignore", str(script), *_library_paths()]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,  # Ctrl-C in a terminal is for the parent, which then kills it
            )
        except OSError as error:
            raise Unavailable(f"no process could be started for the query ({error}); try again later") from error

    def alive(self) -> bool:
        return self._process.poll() is None

    def exit_code(self) -> int:
        """How it ended, negative if it was killed; waits for the end."""
        return self._process.wait()

    def ready(self) -> None:
        """Wait until it takes a query: it loads its libraries first, which takes seconds on a busy machine."""
        self._receive()

    def parse(self, sql: str, memory: int, seconds: float) -> Any:
        """The syntax tree of a text, or the error in the same shape."""
        self._send({"sql": sql, "memory": memory, "seconds": seconds})
        return self._receive()

    def start(self, request: dict[str, Any], inputs: dict[str, pa.Table]) -> Any:
        """Send what is to be run; the columns of the result, or the error."""
        self._send({**request, "inputs": list(inputs)})
        stdin = self._process.stdin
        with _dead_is_ended():
            for table in inputs.values():
                with pa.ipc.new_stream(stdin, table.schema) as writer:
                    writer.write_table(table)
            if stdin is not None:
                stdin.flush()
        return self._receive()

    def receive(self) -> Any:
        return self._receive()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Kill it and wait until nothing of it is left."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()
        self._process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        stdin = self._process.stdin
        assert stdin is not None
        with _dead_is_ended():
            stdin.write(len(data).to_bytes(8, "big") + data)
            stdin.flush()

    def _receive(self) -> Any:
        stdout = self._process.stdout
        assert stdout is not None
        head = stdout.read(8)
        length = int.from_bytes(head, "big")
        if len(head) < 8 or length > _MAX_FRAME:
            raise ProcessEnded("the process of the query ended without an answer")
        data = stdout.read(length)
        if len(data) < length:
            raise ProcessEnded("the process of the query ended within an answer")
        return json.loads(data)


@contextlib.contextmanager
def _dead_is_ended() -> Any:
    try:
        yield
    except (BrokenPipeError, ValueError) as error:
        raise ProcessEnded("the process of the query ended while it was fed") from error
