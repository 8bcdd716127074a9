"""Scan planning on the server: answered at once and whole, so that no plan has to be remembered or fetched later."""

from typing import Final

import msgspec
from starlette.responses import Response

from arco.api.iceberg._ask import Ask
from arco.api.iceberg._delegation import delegated
from arco.api.iceberg._tables import check_table
from arco.iceberg import cancel_plan, fetch_plan, fetch_tasks, plan_scan

__all__ = ["PLANS"]


async def plan_table(ask: Ask) -> Response:
    body, warehouse = await ask.json(), ask.warehouse
    loaded = await warehouse.tables.load(ask.path)
    plan = await plan_scan(loaded.metadata, body, warehouse.locations, ask.host.runtime)
    # Whoever asks for it, a plan is for reading.
    grant = await delegated(ask, loaded, write=False)
    if grant.credentials:
        plan = {**plan, "storage-credentials": grant.credentials}
    headers = {"Cache-Control": "no-store"} if grant.credentials else None
    return Response(msgspec.json.encode(plan), headers=headers, media_type="application/json")


async def get_plan(ask: Ask) -> Response:
    await check_table(ask)
    fetch_plan(ask.parameters["plan-id"])


async def end_plan(ask: Ask) -> Response:
    await check_table(ask)
    cancel_plan(ask.parameters["plan-id"])
    return Response(status_code=204)


async def get_tasks(ask: Ask) -> Response:
    body = await ask.json()
    await check_table(ask)
    fetch_tasks(body)


_TABLE: Final = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
PLANS: Final = {
    ("POST", f"{_TABLE}/plan"): plan_table,
    ("GET", f"{_TABLE}/plan/{{plan-id}}"): get_plan,
    ("DELETE", f"{_TABLE}/plan/{{plan-id}}"): end_plan,
    ("POST", f"{_TABLE}/tasks"): get_tasks,
}
"""Handlers by operation."""
