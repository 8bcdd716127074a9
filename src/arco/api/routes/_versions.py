"""Versions of partitions: list and show them, see which are held back, put them into quarantine and release them."""

from typing import Annotated, Any, Literal

from fastapi import Path, Query

from arco.api._reading import Cursor, Limit, ReadsDep
from arco.api._routing import router
from arco.api._writing import Writes, WritesDep
from arco.api.routes._assets import AssetRef
from arco.catalog import View, resolve_table
from arco.core import NotFound
from arco.domains.deployments import resolve_key
from arco.domains.execution import QuarantineVersion, ReleaseVersion
from arco.servo import decision_facts, list_held_versions, list_versions, version_detail
from arco.wire import Page, VersionDecided, VersionDecision, VersionDetail, VersionInfo

__all__ = ["versions"]

versions = router("versions")

VersionRef = Annotated[str, Path(min_length=1, max_length=256, description="The version's materialization id.")]
PartitionQuery = Annotated[
    str | None,
    Query(max_length=4096, description="Only this partition, as `date=2026-01-01` or in its canonical form."),
]
VersionStates = Literal["published", "blocked", "quarantined", "expired", "deleted"]
HeldStates = Literal["held", "blocked", "quarantined", "released", "expired", "all"]


async def asset_id_of(view: View, asset: str) -> str:
    """The id of an asset by its key, or of a table of the catalog by its path: others may have made its versions."""
    try:
        return (await resolve_key(view, asset)).asset_id
    except NotFound as error:
        try:
            return (await resolve_table(view, asset)).id
        except NotFound:
            raise error from None


@versions.get("/quarantine")
async def list_quarantine(
    reads: ReadsDep,
    asset: Annotated[
        str | None, Query(min_length=1, max_length=512, description="Only versions of this asset.")
    ] = None,
    partition: PartitionQuery = None,
    status: Annotated[
        HeldStates,
        Query(description="How they stand now; `held` is blocked or quarantined, `released` is published again."),
    ] = "held",
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Page[VersionInfo]:
    """List the versions that are held back, or were; what was held back last comes first."""
    found = None if asset is None else await reads.catalog(lambda view: asset_id_of(view, asset))
    return await reads.activity(lambda view: list_held_versions(view, found, partition, status, cursor, limit))


@versions.get("/assets/{asset}/versions")
async def list_asset_versions(
    reads: ReadsDep,
    asset: AssetRef,
    partition: PartitionQuery = None,
    status: Annotated[VersionStates | None, Query(description="Only versions that stand so.")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Page[VersionInfo]:
    """List the versions of an asset, newest first."""
    found = await reads.catalog(lambda view: asset_id_of(view, asset))
    return await reads.activity(lambda view: list_versions(view, found, partition, status, cursor, limit))


@versions.get("/assets/{asset}/versions/{version}")
async def get_asset_version(reads: ReadsDep, asset: AssetRef, version: VersionRef) -> VersionDetail:
    """Show a version: how it stands and why, its checks, its files, and what was made of it."""
    found = await reads.catalog(lambda view: asset_id_of(view, asset))
    return await reads.activity(lambda view: version_detail(view, found, version))


@versions.post("/assets/{asset}/versions/{version}/quarantine")
async def quarantine_version(
    writes: WritesDep, asset: AssetRef, version: VersionRef, body: VersionDecision
) -> VersionDecided:
    """Put a version into quarantine: the last good one is current again, and nothing new reads this one."""
    return await _decide(writes, asset, version, body, QuarantineVersion)


@versions.post("/assets/{asset}/versions/{version}/release")
async def release_version(
    writes: WritesDep, asset: AssetRef, version: VersionRef, body: VersionDecision
) -> VersionDecided:
    """Release a version that is quarantined or blocked: it may be current again, and no check holds it back anew."""
    return await _decide(writes, asset, version, body, ReleaseVersion)


async def _decide(
    writes: Writes, asset: str, version: str, body: VersionDecision, command: type[QuarantineVersion | ReleaseVersion]
) -> VersionDecided:
    logs = writes.caller.workspace.logs
    asset_id, _ = await logs["catalog"].read(lambda view: asset_id_of(view, asset))
    receipt = await writes.decide("activity", command(asset_id, version, body.reason))
    facts: dict[str, Any]
    facts, _ = await logs["activity"].read(
        lambda view: decision_facts(view, asset_id, version), strong=False, min_position=receipt.position
    )
    return VersionDecided(operation_id=receipt.operation, position=receipt.last, replayed=receipt.replayed, **facts)
