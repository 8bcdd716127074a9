"""Questions about deployments that several readers have, on whatever state a view shows."""

from collections.abc import Iterable

from arco.core import NotFound, shown
from arco.domains.deployments.tables import (
    ASSET_NAMES,
    ASSETS,
    DYNAMIC_PARTITIONS,
    WORKSPACE,
    AssetName,
    AssetRow,
    DynamicPartition,
    NameState,
)
from arco.state import View

__all__ = ["read_asset_ids", "read_dynamic_partitions", "resolve_key"]


async def resolve_key(view: View, key: str) -> AssetRow:
    """The asset that has the key, or had it last; its row says what it is called now and whether it still exists."""
    name: AssetName | None = await view.get(ASSET_NAMES, WORKSPACE, key)
    if name is None:
        raise NotFound(f"there is no asset {shown(key)}; list the assets, or deploy it first")
    row: AssetRow = await view.get(ASSETS, WORKSPACE, name.asset_id)
    return row


async def read_asset_ids(view: View) -> dict[str, str]:
    """The id of every asset that exists, by its key."""
    rows: list[AssetName] = await view.rows(ASSET_NAMES, WORKSPACE)
    return {row.key: row.asset_id for row in rows if row.state == NameState.CURRENT}


async def read_dynamic_partitions(view: View, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The keys of each set, in the order in which they were added."""
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(set(names)):
        rows: list[DynamicPartition] = await view.rows(DYNAMIC_PARTITIONS, name)
        found[name] = tuple(row.key for row in sorted(rows, key=lambda row: row.added_order))
    return found
