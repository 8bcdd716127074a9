"""The process that executors fork for each of their own, with the program loaded: `python -m arco.spark._daemon`.

PySpark's own daemon loads nothing, so every process would load the program for itself. It also keeps PySpark as an
archive on its path, of which Python reads the whole directory again before every task. And it prints what went wrong
when Java, which ends first, does not listen any more.
"""

import gc
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import arco.spark  # noqa: F401  what the tasks need

__all__ = ["main", "silent", "without_archives"]

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


def silent(work: Work) -> Work:
    """The same, but that nobody hears it any more is no error: Java closes its sockets when an application ends."""

    def run(socket: Any, authenticated: bool) -> int:
        try:
            return work(socket, authenticated)
        except BrokenPipeError:
            return 1

    return run


def main() -> None:
    sys.path[:] = without_archives(sys.path)
    from pyspark import daemon

    daemon.worker = silent(daemon.worker)
    gc.collect()
    gc.freeze()  # what is loaded stays, and is shared by all processes as long as nobody walks it
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
