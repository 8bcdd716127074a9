"""`/v1/config`: which warehouse a client gets, and what this server can do. A warehouse is a workspace."""

from typing import Final

import msgspec
from starlette.responses import Response

from arco.api.iceberg._ask import SEPARATOR, Ask
from arco.api.iceberg._routes import advertised
from arco.core import shown
from arco.iceberg import NoSuchWarehouse
from arco.storage import Scope

__all__ = ["CONFIG", "KEY_LIFETIME", "prefix_of"]

KEY_LIFETIME: Final = "P6D"
"""How long a request may be repeated under its key. Keys are known for seven days; a day is left for wrong clocks.
Java reads it with `Duration.parse`, which knows days and no weeks."""


def prefix_of(scope: Scope) -> str:
    """What stands for a workspace in every path. Neither name can hold a dot."""
    return f"{scope.tenant}.{scope.workspace}"


async def get_config(ask: Ask) -> Response:
    scope = ask.caller.scope
    asked = ask.query.get("warehouse", "")
    if asked not in ("", scope.workspace, scope.root, prefix_of(scope)):
        raise NoSuchWarehouse(f"Warehouse does not exist: {shown(asked)}")
    document = {
        "defaults": {},
        "overrides": {"prefix": prefix_of(scope), "namespace-separator": f"%{ord(SEPARATOR):02X}"},
        "endpoints": advertised(),
        "idempotency-key-lifetime": KEY_LIFETIME,
    }
    return Response(msgspec.json.encode(document), media_type="application/json")


CONFIG: Final = {("GET", "/v1/config"): get_config}
"""Handlers by operation."""
