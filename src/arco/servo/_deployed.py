"""Reading what is deployed: assets, their partitions, deployments, keys of dynamic partitions."""

import msgspec

from arco.assets import AssetDefinition, Graph, PartitionSpace, Project
from arco.catalog import check_limit, decode_cursor, encode_cursor, position_of_view
from arco.core import NotFound, format_time, shown
from arco.domains.deployments import (
    ASSET_NAMES,
    ASSETS,
    CODE_VERSIONS,
    CURRENT_DEPLOYMENT,
    DEPLOYMENTS_TABLE,
    DYNAMIC_PARTITIONS,
    WORKSPACE,
    AssetName,
    AssetRow,
    AssetStatus,
    CodeVersion,
    CurrentDeployment,
    Deployment,
    DynamicPartition,
    NameState,
    read_dynamic_partitions,
    resolve_key,
)
from arco.domains.execution import ASSET_SCHEMAS, HELD, PARTITIONS, AssetSchema, Partition
from arco.state import Replica, Snapshot
from arco.wire import (
    AssetColumnInfo,
    AssetDetail,
    AssetSummary,
    DeploymentInfo,
    DynamicPartitionsInfo,
    Page,
    PartitionInfo,
)

__all__ = [
    "asset_detail",
    "dynamic_partitions",
    "find_code_version",
    "list_assets",
    "list_deployments",
    "list_partitions",
]

View = Replica | Snapshot


async def list_assets(view: View, cursor: str | None = None, limit: int = 100) -> Page[AssetSummary]:
    """What the current code version defines, in the order of keys."""
    last = decode_cursor("assets", cursor, 1)
    after, items = (None if last is None else last[0]), list[AssetSummary]()
    check_limit(limit)
    while True:
        names: list[AssetName] = await view.page(ASSET_NAMES, WORKSPACE, after, limit)
        for name in names:
            after = name.key
            if name.state == NameState.CURRENT:
                row: AssetRow = await view.get(ASSETS, WORKSPACE, name.asset_id)
                items.append(_summary(row))
            if len(items) == limit:
                break
        if len(items) == limit or len(names) < limit:
            break
    more = len(items) == limit and bool(await view.page(ASSET_NAMES, WORKSPACE, after, 1))
    return Page[AssetSummary](
        items=items,
        next_cursor=encode_cursor("assets", (after or "",)) if more else None,
        position=str(position_of_view(view)),
    )


def _summary(row: AssetRow) -> AssetSummary:
    definition = _definition(row)
    return AssetSummary(
        key=row.key,
        asset_id=row.asset_id,
        kind=row.kind,
        description=row.description,
        owners=list(row.owners),
        tags=row.tags,
        code_version=row.code_version,
        partitions=[dimension.name for dimension in definition.partitions],
        deployed_at=format_time(row.deployed_at),
    )


def _definition(row: AssetRow) -> AssetDefinition:
    return msgspec.json.decode(row.definition, type=AssetDefinition)


async def asset_detail(catalog: View, activity: View, project: Project, key: str, now: int) -> AssetDetail:
    """An asset by its key, or by one it had before; also one that is not deployed any more."""
    row = await resolve_key(catalog, key)
    definition = _definition(row)
    partitions: list[Partition] = await activity.rows(PARTITIONS, row.asset_id)
    made = [one for one in partitions if one.current_materialization_id is not None]
    dynamic = await read_dynamic_partitions(
        catalog, [part.partitions.name for part in definition.partitions if hasattr(part.partitions, "name")]
    )
    names: list[AssetName] = await catalog.rows(ASSET_NAMES, WORKSPACE)
    graph, exists = Graph(project), row.key in {asset.key for asset in project.assets}
    newest = max(made, key=lambda one: one.last_success_at or 0, default=None)
    last = newest.last_success_at if newest is not None else None
    return AssetDetail(
        **_summary(row).model_dump(),
        status="active" if row.status == AssetStatus.ACTIVE else "removed",
        definition=msgspec.to_builtins(definition),
        upstream=list(graph.upstream(row.key)) if exists else [],
        downstream=list(graph.downstream(row.key)) if exists else [],
        former_keys=sorted(name.key for name in names if name.asset_id == row.asset_id and name.key != row.key),
        partition_count=PartitionSpace(definition.partitions, now, dynamic).count() if definition.partitions else None,
        materialized_count=len(made),
        held_count=sum(one.newest_status in HELD for one in partitions),
        last_materialized_at=format_time(last) if last else None,
        columns=await _columns(activity, newest) if newest is not None else [],
    )


async def _columns(activity: View, newest: Partition) -> list[AssetColumnInfo]:
    schema: AssetSchema | None = await activity.get(
        ASSET_SCHEMAS, newest.asset_id, (newest.asset_id, newest.schema_hash or "")
    )
    return [
        AssetColumnInfo(id=column.column_id, name=column.name, type=column.data_type, nullable=column.is_nullable)
        for column in (schema.columns if schema is not None else ())
    ]


async def list_partitions(
    activity: View, asset_id: str, cursor: str | None = None, limit: int = 100
) -> Page[PartitionInfo]:
    """The partitions of an asset of which something is known, in the order of their ids."""
    place = f"partitions/{asset_id}"
    last = decode_cursor(place, cursor, 1)
    rows: list[Partition] = await activity.page(
        PARTITIONS, asset_id, None if last is None else last[0], check_limit(limit) + 1
    )
    return Page[PartitionInfo](
        items=[
            PartitionInfo(
                partition_key=row.partition_key,
                status=row.status,
                materialization_id=row.current_materialization_id,
                version=row.current_version,
                row_count=row.row_count,
                updated_at=format_time(row.updated_at),
                newest_materialization_id=row.newest_materialization_id,
            )
            for row in rows[:limit]
        ],
        next_cursor=encode_cursor(place, (rows[limit - 1].partition_id,)) if len(rows) > limit else None,
        position=str(position_of_view(activity)),
    )


async def list_deployments(view: View, cursor: str | None = None, limit: int = 50) -> Page[DeploymentInfo]:
    """What was deployed, newest first."""
    last = decode_cursor("deployments", cursor, 1)
    rows: list[Deployment] = await view.rows(DEPLOYMENTS_TABLE, WORKSPACE)
    current: CurrentDeployment | None = await view.get(CURRENT_DEPLOYMENT, WORKSPACE, WORKSPACE)
    older = [row for row in reversed(rows) if last is None or row.deployment_id < last[0]]
    items = []
    for row in older[: check_limit(limit)]:
        version = await find_code_version(view, row.code_version)
        items.append(
            DeploymentInfo(
                deployment_id=row.deployment_id,
                code_version=row.code_version,
                code_sha256=version.code_sha256,
                message=row.message,
                asset_count=row.asset_count,
                rollback_of=row.rollback_of or None,
                deployed_by=row.deployed_by,
                deployed_at=format_time(row.deployed_at),
                current=current is not None and current.deployment_id == row.deployment_id,
            )
        )
    return Page[DeploymentInfo](
        items=items,
        next_cursor=encode_cursor("deployments", (items[-1].deployment_id,)) if len(older) > limit else None,
        position=str(position_of_view(view)),
    )


async def find_code_version(view: View, code_version: str) -> CodeVersion:
    row: CodeVersion | None = await view.get(CODE_VERSIONS, WORKSPACE, code_version)
    if row is None:
        raise NotFound(f"there is no code version {shown(code_version)}; list the deployments to see them")
    return row


async def dynamic_partitions(
    view: View, name: str, cursor: str | None = None, limit: int = 1000
) -> DynamicPartitionsInfo:
    """The keys of a set of dynamic partitions, in the order of keys. A set that nobody added to is empty."""
    place = f"dynamic/{name}"
    last = decode_cursor(place, cursor, 1)
    rows: list[DynamicPartition] = await view.page(
        DYNAMIC_PARTITIONS, name, None if last is None else (name, last[0]), check_limit(limit) + 1
    )
    return DynamicPartitionsInfo(
        name=name,
        keys=[row.key for row in rows[:limit]],
        next_cursor=encode_cursor(place, (rows[limit - 1].key,)) if len(rows) > limit else None,
        position=str(position_of_view(view)),
    )
