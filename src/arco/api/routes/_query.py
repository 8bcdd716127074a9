"""SQL over `system.*` and over the data of tables and assets, now or in the past."""

from fastapi import Request, Response

from arco.api._reading import CallerDep, host_of
from arco.api._routing import router
from arco.catalog import CatalogResolver, Limits, SystemRelations, find_asset, find_table, parse_as_of
from arco.iceberg import read_iceberg
from arco.storage import Role
from arco.wire import QueryColumn, QueryRequest, QueryResultInfo

__all__ = ["query"]

query = router("query")


@query.post("/query")
async def run_query(request: Request, response: Response, caller: CallerDep, body: QueryRequest) -> QueryResultInfo:
    """Run one query. It can read and nothing else, and ends at the workspace's limits of rows, bytes and time."""
    settings = request.state.settings
    most = settings["query.max_rows"]
    limits = Limits(
        max_rows=min(body.max_rows or most, most),
        max_bytes=settings["query.max_bytes"],
        max_input_bytes=settings["query.max_input_bytes"],
        max_seconds=float(settings["query.max_seconds"]),
    )
    workspace = caller.workspace
    locations = host_of(request).warehouse_of(caller.scope).locations
    states = await host_of(request).points_of(caller.scope).snapshots_at(parse_as_of(body.as_of))
    catalog, activity = states["catalog"], states["activity"]
    resolver = CatalogResolver(
        SystemRelations(catalog, activity),
        lambda path: find_table(catalog, path),
        activity,
        lambda: workspace.logs["activity"].frozen(strong=False, min_position=activity.position),
        workspace.handle(Role.READER),
        workspace.runtime,
        limits.max_input_bytes,
        lambda path: find_asset(catalog, path),
        lambda row, name, state: read_iceberg(
            row.table_id, name, state, locations, workspace.runtime, limits.max_input_bytes
        ),
    )
    result = await request.app.state.sandbox.run(body.sql, resolver, limits)
    response.headers["Arco-Position"] = str(catalog.position)
    return QueryResultInfo(
        columns=[QueryColumn(name=column.name, type=column.type) for column in result.columns],
        rows=result.rows,
        row_count=result.row_count,
        truncated=result.truncated,
        bytes_read=result.bytes_read,
        elapsed_ms=round(result.elapsed * 1000, 3),
        positions={log: str(state.position) for log, state in states.items()},
    )
