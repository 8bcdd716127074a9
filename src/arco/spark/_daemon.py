"""The process that executors fork for each of their own, with the program loaded: `python -m arco.spark._daemon`.

PySpark's own daemon loads nothing, so every process would load the program for itself. It also keeps PySpark as an
archive on its path, of which Python reads the whole directory again before every task. And it prints what went wrong
when Java, which ends first, does not listen any more.
"""

import gc
import os
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, BinaryIO

import arco.spark  # noqa: F401  what the tasks need

__all__ = ["main", "silence", "without_archives"]

Main = Callable[[BinaryIO, BinaryIO], None]
"""What is done for one task with the two directions of a socket: PySpark's `main`."""
Work = Callable[[Any, bool], int]
"""What a process does with a socket of Java's, from task to task: PySpark's `worker`."""


def without_archives(path: list[str]) -> list[str]:
    """A path without the archives of a PySpark that is on it as a package too. One from elsewhere stays."""
    archives = [entry for entry in path if entry.endswith(".zip")]
    rest = [entry for entry in path if entry not in archives]
    found = PathFinder.find_spec("pyspark", rest)
    if found is None or found.origin is None or PathFinder.find_spec("py4j", rest) is None:
        return path
    home = Path(found.origin).parent
    return [entry for entry in path if entry not in archives or home not in Path(entry).parents]


def silence(daemon: Any) -> None:
    """Have PySpark's daemon say nothing of a Java that has gone: it closes its sockets when an application ends."""
    daemon.worker_main, daemon.worker = _unheard(daemon.worker_main), _silent(daemon.worker)


def _unheard(main: Main) -> Main:
    """The same, but what nobody hears any more goes nowhere: PySpark would try to send it again, and print that it
    cannot.
    """

    def run(infile: BinaryIO, outfile: BinaryIO) -> None:
        try:
            main(infile, outfile)
        finally:
            try:
                outfile.flush()
            except (BrokenPipeError, ConnectionResetError):
                with Path(os.devnull).open("wb") as nowhere:
                    os.dup2(nowhere.fileno(), outfile.fileno())

    return run


def _silent(work: Work) -> Work:
    """The same, but that nobody speaks or hears any more is no error."""

    def run(socket: Any, authenticated: bool) -> int:
        try:
            return work(socket, authenticated)
        except (BrokenPipeError, ConnectionResetError, EOFError):
            return 1

    return run


def main() -> None:
    sys.path[:] = without_archives(sys.path)
    from pyspark import daemon

    silence(daemon)
    gc.collect()
    gc.freeze()  # what is loaded stays, and is shared by all processes as long as nobody walks it
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
