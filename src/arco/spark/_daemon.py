"""The process that executors fork for each of their own, with the program loaded: `python -m arco.spark._daemon`.

PySpark's own daemon loads nothing, so every process would load the program for itself. It also keeps PySpark as an
archive on its path, of which Python reads the whole directory again before every task.
"""

import gc
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import arco.spark  # noqa: F401  what the tasks need

__all__ = ["main", "without_archives"]


def without_archives(path: list[str]) -> list[str]:
    """A path without the archives of a PySpark that is on it as a package too. One from elsewhere stays."""
    archives = [entry for entry in path if entry.endswith(".zip")]
    rest = [entry for entry in path if entry not in archives]
    found = PathFinder.find_spec("pyspark", rest)
    if found is None or found.origin is None or PathFinder.find_spec("py4j", rest) is None:
        return path
    home = Path(found.origin).parent
    return [entry for entry in path if entry not in archives or home not in Path(entry).parents]


def main() -> None:
    sys.path[:] = without_archives(sys.path)
    from pyspark.daemon import manager

    gc.collect()
    gc.freeze()  # what is loaded stays, and is shared by all processes as long as nobody walks it
    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
