"""What drives the coroutines in production: asyncio, the system's clock and randomness, and an open workspace."""

from arco.runtime._asyncio import AsyncRuntime
from arco.runtime._workspace import DEFINITIONS, Incarnation, OpenLog, Workspace, init_workspace, read_incarnation

__all__ = ["DEFINITIONS", "AsyncRuntime", "Incarnation", "OpenLog", "Workspace", "init_workspace", "read_incarnation"]
