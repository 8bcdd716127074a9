"""`DriverProcess`: the worker's handle on one driver process: start it, give it tasks, watch it, end it.

The driver leads a session of its own, so that one signal ends it together with everything it started. It is taken for
lost when it ends, or when it has not beaten for the task's `heartbeat_seconds`. Its standard output and error are one
pipe, read as fast as it writes, whoever wants it or not: a task never waits for its log.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from arco.spark import Progress
from arco.worker._driver import FD_VARIABLE
from arco.worker._errors import DriverLost
from arco.worker._messages import (
    HEAD,
    MAX_MESSAGE_BYTES,
    Beat,
    Cancel,
    FromWorker,
    Idle,
    Ready,
    Report,
    Setup,
    Start,
    decode_from_driver,
    pack,
)

__all__ = ["DriverProcess", "driver_environment"]

START_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 10.0
"""What a driver gets to look after itself between two tasks."""
GRACE_SECONDS: Final = 0.05
PAUSE_SECONDS: Final = 0.002
READ_BYTES: Final = 1 << 18
KEPT_BYTES: Final = 4_000
"""What is kept of the output of a driver that has no task: it tells why one does not start."""

_WITHHELD: Final = ("ARCO_SERVICE_SECRET", "ARCO_TOKEN", "ARCO_STORE_OPTIONS_")
"""How the names of what no driver inherits begin."""
_PIPE_SIZE: Final = 1 << 20
_F_SETPIPE_SZ: Final = 1031

Output = Callable[[bytes], None]


def driver_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a driver inherits: everything but the credentials of the worker itself."""
    kept = {name: value for name, value in environment.items() if not name.startswith(_WITHHELD)}
    if kept.get("PYTHONPATH"):  # a driver starts in another folder
        kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in kept["PYTHONPATH"].split(os.pathsep))
    return kept


class DriverProcess:
    def __init__(self, process: asyncio.subprocess.Process, output: int) -> None:
        self._process = process
        self._output = output
        self._sink: Output | None = None
        self._kept = b""
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Ready | None] = self._loop.create_future()
        """That it is ready; later that it has reported on every task."""
        self._awaited: set[str] = set()
        """Attempts on which it has not reported."""
        self._told: Callable[[Report], None] = lambda report: None
        self._idle: asyncio.Future[Idle] = self._loop.create_future()
        self._idle.set_result(Idle())
        self._last_sign = self._loop.time()
        self._tasks: list[asyncio.Task[None]] = []
        self._writer: asyncio.StreamWriter | None = None
        self._why = ""
        """Why this side ended it."""
        self.progress: Progress | None = None
        """How far what runs had come at the last beat."""

    @classmethod
    async def start(cls, setup: Setup, environment: Mapping[str, str]) -> "DriverProcess":
        """A driver that is ready for tasks. `DriverLost` if it cannot be started or cannot unpack the code."""
        ours, theirs = socket.socketpair()
        output, sink = os.pipe()
        with contextlib.suppress(OSError):  # a larger pipe is only faster
            fcntl.fcntl(output, _F_SETPIPE_SZ, _PIPE_SIZE)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # nothing of the code may stand in for a module of the driver
                "-m",
                "arco.worker.driver",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd=setup.folder,
                env={**environment, FD_VARIABLE: str(theirs.fileno())},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException as error:
            ours.close()
            os.close(output)
            if isinstance(error, OSError):
                raise DriverLost(f"no driver process could be started: {error}") from error
            raise
        finally:
            theirs.close()
            os.close(sink)
        driver = cls(process, output)
        await driver._begin(ours, setup)
        return driver

    async def _begin(self, connection: socket.socket, setup: Setup) -> None:
        os.set_blocking(self._output, False)
        self._await_output()
        reader, self._writer = await asyncio.open_unix_connection(sock=connection)
        listening = self._loop.create_task(self._listen(reader), name="driver: messages")
        self._tasks = [listening, self._loop.create_task(self._watch(listening), name="driver: end")]
        self._send(setup)
        try:
            async with asyncio.timeout(START_SECONDS):
                ready = await self._answer
        except TimeoutError:
            await self.kill("it did not start in time")
            raise DriverLost(f"a driver process did not start within {START_SECONDS:.0f} seconds") from None
        except BaseException:
            await self.kill("its start was given up")
            raise
        if not isinstance(ready, Ready) or ready.error:
            await self.kill("it cannot unpack the code")
            raise DriverLost(f"a driver process cannot unpack the code: {getattr(ready, 'error', '')[:1000]}")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._why

    # The tasks of a batch

    async def run(
        self,
        tasks: Mapping[str, bytes],
        heartbeat_seconds: float,
        sink: Output,
        told: Callable[[Report], None],
    ) -> None:
        """Run tasks (each an encoded `Task`, by attempt). Each report goes to `told` as it comes.

        Returns when it has reported on all of them; `DriverLost` if it will not. All it printed has gone into `sink`.
        """
        self._read_output()
        self._sink, self._kept, self._last_sign, self.progress = sink, b"", self._loop.time(), None
        self._answer = self._loop.create_future()
        self._awaited, self._told = set(tasks), told
        try:
            if not self.alive:
                raise DriverLost("the driver process ended before the task began")
            self._idle = self._loop.create_future()
            self._send(Start(tuple(msgspec.Raw(task) for task in tasks.values())))
            while True:
                left = self._last_sign + heartbeat_seconds - self._loop.time()
                done, _ = await asyncio.wait([self._answer], timeout=max(left, 0))
                if done:
                    break
                await asyncio.sleep(GRACE_SECONDS)  # if this process was held up, a beat may lie unread
                if self._loop.time() - self._last_sign >= heartbeat_seconds:
                    await self.kill(f"it gave no sign of life for {heartbeat_seconds:g} seconds")
            if self._answer.result() is not None:
                raise DriverLost("the driver process answered out of turn")
        finally:
            self._read_output()
            self._sink, self._awaited = None, set()

    async def idle(self) -> Idle:
        """After a report: whether it may run another task."""
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                return await self._idle
        except TimeoutError:
            return Idle("it does not answer")
        except DriverLost as error:
            return Idle(error.message)

    def cancel(self, attempt_id: str, reason: str) -> None:
        """Ask the task to end; whether it does is up to it."""
        if self.alive:
            self._send(Cancel(attempt_id, reason))

    # Its end

    async def kill(self, why: str) -> None:
        """End it and everything it started, at once. A task that runs is lost, for the reason given."""
        self._why = self._why or why
        self._signal_group()
        await asyncio.wait(self._tasks)

    def _signal_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _watch(self, listening: "asyncio.Task[None]") -> None:
        """Waits for the end of the process, then sees to it that nothing of it is left."""
        code = await self._process.wait()
        self._signal_group()  # what it started and left behind
        await asyncio.wait([listening], timeout=1.0)  # a report that it sent last still counts
        listening.cancel()
        lost = DriverLost(self._ending(code))
        for future in (self._answer, self._idle):
            if not future.done():
                future.set_exception(lost)
                future.exception()  # nobody may be waiting for it
        self._read_output()
        self._loop.remove_reader(self._output)
        os.close(self._output)
        self._output = -1
        if self._writer is not None:
            self._writer.close()

    def _ending(self, code: int) -> str:
        if self._why:
            return f"the driver process was ended because {self._why}"
        how = f"was killed by signal {-code}" if code < 0 else f"ended by itself with exit code {code}"
        cure = "; perhaps the machine ran out of memory" if code == -signal.SIGKILL else ""
        said = self._kept.decode(errors="replace").strip()
        return f"the driver process {how}{cure}" + (f"; it said: {said}" if said else "")

    # Pipes

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                (length,) = HEAD.unpack(await reader.readexactly(HEAD.size))
                if length > MAX_MESSAGE_BYTES:
                    break
                message = decode_from_driver(await reader.readexactly(length))
                self._last_sign = self._loop.time()
                if isinstance(message, Idle):
                    if not self._idle.done():
                        self._idle.set_result(message)
                elif isinstance(message, Beat):
                    self.progress = message.progress
                elif isinstance(message, Report):
                    self._report(message)
                elif not self._answer.done():
                    self._answer.set_result(message)

    def _report(self, report: Report) -> None:
        if report.attempt_id not in self._awaited:
            return
        self._awaited.discard(report.attempt_id)
        self._read_output()  # what it printed until then
        self._told(report)
        if not self._awaited and not self._answer.done():
            self._answer.set_result(None)

    def _send(self, message: FromWorker) -> None:
        if self._writer is not None:
            self._writer.write(pack(message))

    def _await_output(self) -> None:
        if self._output >= 0:
            self._loop.add_reader(self._output, self._on_output)

    def _on_output(self) -> None:
        """Read, then let the pipe fill for a moment: a task that prints line by line would keep this process busy."""
        self._loop.remove_reader(self._output)
        if self._read_output():
            self._loop.call_later(PAUSE_SECONDS, self._await_output)

    def _read_output(self) -> bool:
        """Take what the pipe holds, but not for ever: a task may print without end. False if nothing more will come."""
        for _ in range(8):
            if self._output < 0:
                return False
            try:
                data = os.read(self._output, READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                return False
            if self._sink is not None:
                self._sink(data)
            else:
                self._kept = (self._kept + data)[-KEPT_BYTES:]
        return True
