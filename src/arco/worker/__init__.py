"""Workers: processes that claim tasks, run them in driver processes, and tell what became of them.

- *Worker* (`Worker`): claims, watches, reports. It never runs what users wrote.
- *Driver* (`python -m arco.worker.driver`): a process that runs tasks of one code version, one at a time.
- *Control plane* (`ControlPlane`): whom the worker asks for tasks and tells of them.

Names are loaded when they are asked for: a driver starts without what only the worker needs.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arco.worker._control import ControlPlane
    from arco.worker._http import HttpControlPlane
    from arco.worker._logs import LogWriter, read_log
    from arco.worker._worker import Worker, WorkerOptions

__all__ = ["ControlPlane", "HttpControlPlane", "LogWriter", "Worker", "WorkerOptions", "read_log"]

_PLACES = {
    "ControlPlane": "_control",
    "HttpControlPlane": "_http",
    "LogWriter": "_logs",
    "Worker": "_worker",
    "WorkerOptions": "_worker",
    "read_log": "_logs",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
