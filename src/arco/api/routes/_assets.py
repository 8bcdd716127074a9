"""Assets: what the current code version defines, and how their partitions stand."""

from typing import Annotated

from fastapi import Path, Request

from arco.api._reading import Cursor, Limit, ReadsDep, host_of
from arco.api._routing import router
from arco.catalog import View
from arco.domains.deployments import resolve_key
from arco.servo import asset_detail, list_assets, list_partitions
from arco.wire import AssetDetail, AssetSummary, Page, PartitionInfo

__all__ = ["assets"]

assets = router("assets")

AssetRef = Annotated[str, Path(min_length=1, max_length=512, description="The asset's key, such as `sales.orders`.")]


@assets.get("/assets")
async def list_assets_route(reads: ReadsDep, cursor: Cursor = None, limit: Limit = 100) -> Page[AssetSummary]:
    """List the assets that are deployed, in the order of their keys."""
    return await reads.catalog(lambda view: list_assets(view, cursor, limit))


@assets.get("/assets/{asset}")
async def get_asset(request: Request, reads: ReadsDep, asset: AssetRef) -> AssetDetail:
    """Show an asset, by its key or by one it had before."""
    servo = host_of(request).servo_of(reads.caller.scope)

    async def found(catalog: View) -> AssetDetail:
        project = await servo.current_project(catalog)
        now = servo.workspace.runtime.now()
        return await reads.activity(lambda view: asset_detail(catalog, view, project, asset, now))

    detail = await reads.catalog(found)
    return detail.model_copy(update={"table_problem": servo.table_problem(detail.asset_id)})


@assets.get("/assets/{asset}/partitions")
async def list_asset_partitions(
    reads: ReadsDep, asset: AssetRef, cursor: Cursor = None, limit: Limit = 100
) -> Page[PartitionInfo]:
    """The partitions of an asset of which something is known: made, failed or quarantined."""
    row = await reads.catalog(lambda view: resolve_key(view, asset))
    return await reads.activity(lambda view: list_partitions(view, row.asset_id, cursor, limit))
