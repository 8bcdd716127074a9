"""A driver: one process that runs tasks of one code version, one after the other or in batches, for one worker.

The main thread runs tasks: what users wrote expects to be there, and signals reach it. A second thread talks to the
worker: it hears a cancellation while a task runs, and it beats. A process that is stopped, or that a library holds the
interpreter lock of, does not beat, and the worker ends it.

Everything a task leaves behind must not reach the next one. So after a task the driver looks whether its code is still
whole and whether processes or threads live on; if so it says that it is unfit, and the worker starts another.
"""

import contextlib
import glob
import logging
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from arco.core import Refused
from arco.sdk import Cancelled
from arco.worker._executor import Executor, PythonExecutor
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
MAX_BEAT_SECONDS: Final = 2.0
SIGNAL_SECONDS: Final = 3.0
"""What tasks on an engine elsewhere get to end by the end of their work there, before they are ended here."""

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
        self._executor: Executor | None = None
        """Of the current tasks."""
        self._cancelled = ""
        """Id of the first attempt of the batch that shall end."""
        self._interruptible = False

    def serve(self) -> NoReturn:
        setup = self._channel.receive()
        assert isinstance(setup, Setup)
        surroundings, executors = Surroundings(setup.folder), Executors(setup)
        try:
            executors.python.unpack()
        except BaseException as error:  # noqa: BLE001 - the worker must hear of whatever went wrong
            self._channel.send(Ready(error=text_of(error)))
            os._exit(1)
        surroundings.remember()
        os.register_at_fork(after_in_child=self._channel.close)
        signal.signal(CANCEL_SIGNAL, self._interrupt)
        threading.Thread(target=self._listen, name="arco-driver", daemon=True).start()
        self._channel.send(Ready())
        while True:
            self._carry_out(executors, self._batches.get(), setup.folder)
            self._current, self._executor = (), None
            self._channel.send(Idle(executors.unfit or surroundings.unfit(executors.children)))

    def _carry_out(self, executors: "Executors", tasks: tuple[Task, ...], folder: str) -> None:
        """Run tasks and report on each as it is done. Those that nothing was said of ended with what was raised."""
        left = [task.attempt_id for task in tasks]
        error: BaseException = Refused(
            "the driver says nothing of this task; this is a fault of Arco, please report it"
        )
        try:
            reports = self._run(lambda: iter(self._reports(executors, tasks)))
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

    def _reports(self, executors: "Executors", tasks: tuple[Task, ...]) -> Iterable[Report]:
        executor = self._executor = executors.of(tasks[0])
        return executor.run_batch(tasks, self) if len(tasks) > 1 else (executor.run(tasks[0], self),)

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
        executor = self._executor
        self._channel.send(Beat(executor.progress() if executor is not None else None))

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
                    self.heartbeat()
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
        executor = self._executor
        if executor is not None and executor.interrupt():
            later = threading.Timer(SIGNAL_SECONDS, self._signal, (tasks,))
            later.daemon = True
            later.start()
        else:
            self._signal(tasks)

    def _signal(self, tasks: tuple[Task, ...]) -> None:
        ident = threading.main_thread().ident
        if ident is not None and self._current is tasks:
            signal.pthread_kill(ident, CANCEL_SIGNAL)


class Executors:
    """The executors of a driver. The one for Spark is made when a task needs it: it loads much."""

    def __init__(self, setup: Setup) -> None:
        self.python = PythonExecutor(setup)
        self._setup = setup
        self._spark: Executor | None = None

    def of(self, task: Task) -> Executor:
        if not task.definitions[0].is_on_spark:
            return self.python
        if self._spark is None:
            from arco.worker._spark import SparkExecutor

            self._spark = SparkExecutor(self._setup)
        return self._spark

    @property
    def unfit(self) -> str:
        return self.python.unfit or (self._spark.unfit if self._spark is not None else "")

    @property
    def children(self) -> frozenset[int]:
        return self._spark.children if self._spark is not None else frozenset()


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

    def unfit(self, children: frozenset[int]) -> str:
        """Why the next task would not find things as the first did; empty if it does. Repairs what is cheap to.

        `children` are processes that belong to the driver itself.
        """
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
        if _has_children(children):
            return "processes were left behind"
        left = [t for t in threading.enumerate() if not t.daemon and t not in self._threads and t.is_alive()]
        return "threads were left behind" if left else ""


def _stamp(path: str) -> tuple[int, int]:
    stat = os.lstat(path)
    return stat.st_size, stat.st_mtime_ns


def _has_children(known: frozenset[int]) -> bool:
    """Whether processes live that tasks started. The results of those that ended are nobody's any more."""
    try:
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid in known:
                return True  # what the driver itself needs is gone
            os.waitid(os.P_PID, ended.si_pid, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return False
    return not known or bool(_children() - known)


def _children() -> set[int]:
    """The processes that this one started, with all its threads."""
    found: set[int] = set()
    for path in glob.glob("/proc/self/task/*/children"):
        with contextlib.suppress(OSError), open(path) as file:
            found.update(int(number) for number in file.read().split())
    if found or os.path.exists("/proc/self/task"):
        return found
    listed = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True, check=False)
    return {int(number) for number in listed.stdout.split()}


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a task may have closed or replaced it
            stream.flush()
