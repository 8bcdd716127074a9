"""What drives the coroutines in production: asyncio, the system's clock and randomness, and an open workspace."""

from arco.runtime._asyncio import AsyncRuntime
from arco.runtime._log import BOUND, OpenLog
from arco.runtime._peers import Peers
from arco.runtime._workspace import DEFINITIONS, Incarnation, Workspace, init_workspace, read_incarnation

__all__ = [
    "BOUND",
    "DEFINITIONS",
    "AsyncRuntime",
    "Incarnation",
    "OpenLog",
    "Peers",
    "Workspace",
    "init_workspace",
    "read_incarnation",
]
