"""Commands on assets: what is deployed, of what it is made, how its partitions stand."""

import msgspec
import typer
from rich.console import RenderableType

from arco.assets import (
    AssetDefinition,
    DataFormat,
    Dimension,
    DynamicPartitions,
    GatingPolicy,
    Retries,
    StaticPartitions,
    mapping_text,
)
from arco.cli._answers import document_of, facts, gather, list_out, page_size
from arco.cli._command import Session, asks
from arco.cli._connect import connect
from arco.cli._options import AsOfOption, AssetArgument, LimitOption
from arco.cli._output import grid, say, shown_time, titled
from arco.cli._quarantine import PartitionOption, partition_of, versions_out
from arco.cli._run_text import shown_partition, shown_seconds
from arco.wire import AssetDetail, AssetSummary, PartitionInfo

__all__ = ["app"]

app = typer.Typer(help="Look at assets and their partitions.", no_args_is_help=True)

SHOWN_KEYS = 8
CRONS = {"0 * * * *": "hourly", "0 0 * * *": "daily", "0 0 * * 1": "weekly", "0 0 1 * *": "monthly"}


@asks(app, "list")
async def list_assets(session: Session, as_of: AsOfOption = None, limit: LimitOption = 100) -> None:
    """List the assets that are deployed."""
    async with connect(session) as client:
        items, more = await gather(client.list_assets(limit=page_size(limit), as_of=as_of), limit)
    headers = ["asset", "kind", "partitions", "owners", "tags", "description"]
    list_out(session, "assets", items, more, headers, _row, "Nothing is deployed; `arco deploy` does it.")


def _row(found: AssetSummary) -> list[object]:
    tags = ", ".join(f"{name}={value}" if value else name for name, value in found.tags.items())
    said = found.description.strip().split("\n")[0]
    parts = ", ".join(found.partitions)
    return [found.key, found.kind, parts or None, ", ".join(found.owners) or None, tags or None, said or None]


@asks(app)
async def show(session: Session, asset: AssetArgument, as_of: AsOfOption = None) -> None:
    """Show an asset. A key it had before finds it too."""
    async with connect(session) as client:
        found = await client.get_asset(asset, as_of=as_of)
    parts: list[RenderableType] = [titled(found.key, facts(_facts(found)))]
    if found.columns:
        named = [[one.name, one.type, "yes" if one.nullable else "no", one.id] for one in found.columns]
        parts.append(grid(["column", "type", "nullable", "id"], named))
    if found.definition.get("checks"):
        checks = found.definition["checks"]
        rows = [[one["name"], one.get("severity", "error"), one.get("description") or None] for one in checks]
        parts.append(grid(["check", "severity", "description"], rows))
    session.output.emit(document_of(found), *parts)


def _facts(found: AssetDetail) -> list[tuple[str, object]]:
    count = f" of {found.partition_count:,}" if found.partition_count is not None else ""
    made = f"{found.materialized_count:,}{count} {'partitions' if count else 'version'}"
    known: list[tuple[str, object]] = [
        ("description", found.description.strip()),
        ("kind", found.kind),
        ("owners", found.owners),
        ("tags", found.tags),
        ("made", (made if count or found.materialized_count else "never") if found.kind != "external" else None),
        ("newest", shown_time(found.last_materialized_at)),
        ("held back", _held(found)),
        ("table", f"not up to date: {found.table_problem}" if found.table_problem else None),
        ("used by", found.downstream),
        ("former keys", found.former_keys),
    ]
    try:
        known[4:4] = _definition_facts(msgspec.convert(found.definition, AssetDefinition))
    except msgspec.ValidationError:
        known.append(("made of", found.upstream))  # written by another version; what is known of any is said
    return [*known, ("deployed", shown_time(found.deployed_at)), ("code", found.code_version), ("id", found.asset_id)]


def _held(found: AssetDetail) -> str | None:
    if not found.held_count:
        return None
    what = "partitions have" if found.held_count > 1 else "partition has"
    what = f"{found.held_count:,} {what}" if found.partition_count is not None else "it has"
    return f"{what} a newest version that is blocked or quarantined (arco quarantine list --asset {found.key})"


def _definition_facts(asset: AssetDefinition) -> list[tuple[str, object]]:
    made_of = []
    for dependency in asset.dependencies:
        how = [f"as {dependency.parameter}" if dependency.parameter else "only earlier"]
        how += [mapping_text(dependency)] if dependency.mappings else []
        made_of.append(f"{dependency.key} ({', '.join(how)})")
    waits = f"{shown_seconds(asset.timeout_seconds)}" if asset.timeout_seconds else None
    return [
        ("made by", asset.function or None),
        ("made on", "Spark" if asset.is_on_spark else None),
        ("Spark settings", asset.spark_conf),
        ("many partitions", "by one plan, as its author says" if asset.one_plan else None),
        ("format", "iceberg: a table of its name" if asset.format is DataFormat.ICEBERG else None),
        ("defined", f"{asset.file}:{asset.line}" if asset.file else None),
        ("made with", asset.unit if asset.unit not in ("", asset.key) else None),
        ("made of", made_of),
        *((f"by {dimension.name}", _dimension(dimension)) for dimension in asset.partitions),
        ("retries", _retries(asset.retries)),
        ("time-out", waits),
        ("secrets", [f"{secret.name} from {secret.key}" for secret in asset.secrets]),
        ("gating", _gating(asset.gating) if asset.checks and asset.gating else None),
    ]


def _dimension(dimension: Dimension) -> str:
    parts = dimension.partitions
    if isinstance(parts, StaticPartitions):
        more = f", ... {len(parts.keys):,} in all" if len(parts.keys) > SHOWN_KEYS else ""
        return f"{', '.join(parts.keys[:SHOWN_KEYS])}{more}"
    if isinstance(parts, DynamicPartitions):
        return f"the set {parts.name} (arco partitions list {parts.name})"
    until = f" to {parts.end}" if parts.end else ""
    without = f" without {', '.join(parts.exclusions)}" if parts.exclusions else ""
    return f"{CRONS.get(parts.cron, parts.cron)} from {parts.start}{until} in {parts.timezone}{without}"


def _retries(retries: Retries) -> str | None:
    if not retries.count:
        return None
    only = f", on {', '.join(retries.on)}" if retries.on else ""
    never = f", never on {', '.join(retries.never)}" if retries.never else ""
    return f"{retries.count}, {retries.backoff} from {shown_seconds(retries.delay_seconds)}{only}{never}"


def _gating(gating: GatingPolicy) -> str:
    told = [f"{severity}: {str(action).replace('_', ' ')}" for severity, action in gating.actions.items()]
    return f"{gating.name} ({', '.join(told)})" if told else gating.name


@asks(app)
async def partitions(
    session: Session, asset: AssetArgument, as_of: AsOfOption = None, limit: LimitOption = 100
) -> None:
    """List the partitions of an asset of which something is known: made, failed or held back.

    The version is the one that readers get; the status tells of the newest one.
    """
    async with connect(session) as client:
        items, more = await gather(client.list_asset_partitions(asset, limit=page_size(limit), as_of=as_of), limit)
    items.sort(key=lambda item: item.partition_key)
    headers = ["partition", "status", "version", "rows", "updated", "materialization"]
    empty = f"Nothing was made of {asset} yet; `arco run {asset}` does it."
    list_out(session, "partitions", items, more, headers, _partition_row, empty)


@asks(app)
async def versions(
    session: Session,
    asset: AssetArgument,
    partition: PartitionOption = None,
    as_of: AsOfOption = None,
    limit: LimitOption = 20,
) -> None:
    """List the versions of an asset, newest first: how each stands, and which one readers get."""
    async with connect(session) as client:
        text = partition_of(partition)
        pages = client.list_asset_versions(asset, partition=text, limit=page_size(limit), as_of=as_of)
        items, more = await gather(pages, limit)
    of = f"{asset}[{text}]" if text else asset
    versions_out(session, items, more, f"Nothing was made of {of} yet; `arco run {asset}` does it.")


def _partition_row(found: PartitionInfo) -> list[object]:
    style = {"complete": "green", "failed": "bold red", "blocked": "yellow", "quarantined": "magenta"}.get(
        found.status.lower(), ""
    )
    key = shown_partition(found.partition_key) or None
    status = say(found.status, style)
    return [key, status, found.version, found.row_count, shown_time(found.updated_at), found.materialization_id]
