"""A driver: one process that runs tasks of one code version, one after the other or in batches, for one worker.

The main thread runs tasks: what users wrote expects to be there, and signals reach it. A second thread talks to the
worker: it hears a cancellation while a task runs, and it beats. A process that is stopped, or that a library holds the
interpreter lock of, does not beat, and the worker ends it.

Everything a task leaves behind must not reach the next one. So after a task the driver looks whether its code is still
whole and whether processes or threads live on; if so it says that it is unfit, and the worker starts another.
"""

import contextlib
import logging
import os
import queue
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from arco.core import Refused
from arco.sdk import Cancelled
from arco.worker._executor import Executor, PythonExecutor, Signals
from arco.worker._messages import (
    HEAD,
    Beat,
    Cancel,
    FromDriver,
    FromWorker,
    Idle,
    Ready,
    Report,
    Setup,
    Start,
    Task,
    decode_from_worker,
    pack,
)
from arco.worker._raised import describe, text_of

__all__ = ["main"]

FD_VARIABLE: Final = "ARCO_DRIVER_FD"
CANCEL_SIGNAL: Final = signal.SIGUSR2
MAX_BEAT_SECONDS: Final = 5.0

T = TypeVar("T")
_task_decoder: Final = msgspec.msgpack.Decoder(Task)


def main() -> None:
    fd = int(os.environ.pop(FD_VARIABLE))
    os.set_inheritable(fd, False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    Driver(Channel(socket.socket(fileno=fd))).serve()


class Channel:
    """The driver's end of the socket. Both threads send; only one receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._sending = threading.Lock()

    def send(self, message: FromDriver) -> None:
        data = pack(message)
        with self._sending:
            self._socket.sendall(data)

    def receive(self, timeout: float | None = None) -> FromWorker | None:
        """The next message, None if there is none in time; `EOFError` when the worker is gone."""
        if timeout is not None and not select.select([self._socket], [], [], timeout)[0]:
            return None
        (length,) = HEAD.unpack(self._exactly(HEAD.size))
        return decode_from_worker(self._exactly(length))

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._socket.recv(min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


class Driver:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._pid = os.getpid()
        self._batches: queue.SimpleQueue[tuple[Task, ...]] = queue.SimpleQueue()
        self._current: tuple[Task, ...] = ()
        self._cancelled = ""
        """Id of the first attempt of the batch that shall end."""
        self._interruptible = False

    def serve(self) -> NoReturn:
        setup = self._channel.receive()
        assert isinstance(setup, Setup)
        surroundings, executor = Surroundings(setup.folder), PythonExecutor(setup)
        try:
            executor.unpack()
        except BaseException as error:  # noqa: BLE001 - the worker must hear of whatever went wrong
            self._channel.send(Ready(error=text_of(error)))
            os._exit(1)
        surroundings.remember()
        os.register_at_fork(after_in_child=self._channel.close)
        signal.signal(CANCEL_SIGNAL, self._interrupt)
        threading.Thread(target=self._listen, name="arco-driver", daemon=True).start()
        self._channel.send(Ready())
        while True:
            self._carry_out(executor, self._batches.get(), setup.folder)
            self._current = ()
            self._channel.send(Idle(executor.unfit or surroundings.unfit()))

    def _carry_out(self, executor: Executor, tasks: tuple[Task, ...], folder: str) -> None:
        """Run tasks and report on each as it is done. Those that nothing was said of ended with what was raised."""
        left = [task.attempt_id for task in tasks]
        error: BaseException = Refused(
            "the driver says nothing of this task; this is a fault of Arco, please report it"
        )
        try:
            reports = self._run(lambda: iter(_reports(executor, tasks, self)))
            while (report := self._run(lambda: next(reports, None))) is not None:
                self._end_fork(None)
                if report.attempt_id in left:
                    left.remove(report.attempt_id)
                    self._send_report(report)
        except BaseException as raised:  # noqa: BLE001 - whatever users raise, SystemExit included, is a result
            self._interruptible = False
            self._end_fork(raised)
            error = raised
        self._end_fork(None)
        cancelled, described = self.cancelled(), describe(error, folder)
        for attempt_id in left:
            is_lost = len(tasks) > 1 and not cancelled
            self._send_report(Report(attempt_id, error=described, is_cancelled=cancelled, is_lost=is_lost))

    def _run(self, work: Callable[[], T]) -> T:
        """Run users' code, which a cancellation may interrupt."""
        self._interruptible = True
        self._check_cancelled()
        found = work()
        self._check_cancelled()
        self._interruptible = False
        return found

    def _end_fork(self, error: BaseException | None) -> None:
        """A fork of the task that came back from it ends here: only the original reports."""
        if os.getpid() == self._pid:
            return
        code = error.code if isinstance(error, SystemExit) else error and 1
        if error is not None and not isinstance(error, SystemExit):
            traceback.print_exception(error)
        _flush()
        os._exit(code if isinstance(code, int) else int(code is not None))

    # What a task hears and says (`Signals`)

    def cancelled(self) -> bool:
        return bool(self._current) and self._current[0].attempt_id == self._cancelled

    def heartbeat(self) -> None:
        self._channel.send(Beat())

    def _check_cancelled(self) -> None:
        if self.cancelled():
            raise Cancelled

    def _send_report(self, report: Report) -> None:
        _flush()
        try:
            self._channel.send(report)
        except ValueError as error:
            self._channel.send(Report(report.attempt_id, error=describe(error, "")))

    def _interrupt(self, _number: int, _frame: Any) -> None:
        if self._interruptible:
            raise Cancelled

    # The second thread

    def _listen(self) -> None:
        try:
            while True:
                tasks = self._current
                beat = min(tasks[0].heartbeat_seconds / 4, MAX_BEAT_SECONDS) if tasks else None
                message = self._channel.receive(beat)
                if message is None:
                    self._channel.send(Beat())
                elif isinstance(message, Start):
                    self._current = tuple(_task_decoder.decode(task) for task in message.tasks)
                    self._batches.put(self._current)
                elif isinstance(message, Cancel):
                    self._cancel(message)
        except (EOFError, OSError):
            # The worker is gone. Nobody would hear of the result, and nothing that was started here may live on.
            os.killpg(0, signal.SIGKILL)

    def _cancel(self, message: Cancel) -> None:
        tasks = self._current
        if message.attempt_id not in [task.attempt_id for task in tasks]:
            return
        self._cancelled = tasks[0].attempt_id
        ident = threading.main_thread().ident
        if ident is not None:
            signal.pthread_kill(ident, CANCEL_SIGNAL)


def _reports(executor: Executor, tasks: tuple[Task, ...], signals: Signals) -> Iterable[Report]:
    return executor.run_batch(tasks, signals) if len(tasks) > 1 else (executor.run(tasks[0], signals),)


class Surroundings:
    """What tasks of one process share and may spoil."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, tuple[int, int]] = {}
        self._environment = dict(os.environ)
        self._threads: set[threading.Thread] = set()

    def remember(self) -> None:
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = os.path.join(folder, name)
                self._files[path] = _stamp(path)
        self._threads = set(threading.enumerate())

    def unfit(self) -> str:
        """Why the next task would not find things as the first did; empty if it does. Repairs what is cheap to."""
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        with contextlib.suppress(OSError):
            os.chdir(self._folder)
        try:
            for number in (1, 2):
                os.fstat(number)
            if any(_stamp(path) != stamp for path, stamp in self._files.items()):
                return "its code was changed"
        except OSError:
            return "its code or its standard output is gone"
        if _has_children():
            return "processes were left behind"
        left = [t for t in threading.enumerate() if not t.daemon and t not in self._threads and t.is_alive()]
        return "threads were left behind" if left else ""


def _stamp(path: str) -> tuple[int, int]:
    stat = os.lstat(path)
    return stat.st_size, stat.st_mtime_ns


def _has_children() -> bool:
    """Whether processes live that tasks started. The results of those that ended are nobody's any more."""
    try:
        while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG) is not None:
            pass
    except ChildProcessError:
        return False
    return True


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a task may have closed or replaced it
            stream.flush()
