"""What drives the coroutines in production: asyncio, the system's clock and randomness, and an open workspace."""

from arco.runtime._asyncio import AsyncRuntime
from arco.runtime._http import HttpTransport
from arco.runtime._log import BOUND, OpenLog
from arco.runtime._peers import Peers
from arco.runtime._remains import INCARNATIONS, look_behind
from arco.runtime._workspace import (
    DEFINITIONS,
    Incarnation,
    Workspace,
    init_workspace,
    open_incarnation,
    read_incarnation,
    read_incarnations,
    workspace_exists,
)
from arco.runtime._workspaces import OPEN_BYTES, ROW_BYTES, Bounds, Hosted, Lease, Workspaces

__all__ = [
    "BOUND",
    "DEFINITIONS",
    "INCARNATIONS",
    "OPEN_BYTES",
    "ROW_BYTES",
    "AsyncRuntime",
    "Bounds",
    "Hosted",
    "HttpTransport",
    "Incarnation",
    "Lease",
    "OpenLog",
    "Peers",
    "Workspace",
    "Workspaces",
    "init_workspace",
    "look_behind",
    "open_incarnation",
    "read_incarnation",
    "read_incarnations",
    "workspace_exists",
]
