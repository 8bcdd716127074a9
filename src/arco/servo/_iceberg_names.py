"""Which names of tables belong to assets that are Iceberg tables, and which such assets cannot have theirs."""

from collections.abc import Iterable
from typing import Final

import msgspec

from arco.assets import AssetDefinition, DataFormat
from arco.core import Forbidden, Invalid, format_path, parse_path
from arco.domains.catalog import TABLES, TableRow, is_iceberg
from arco.domains.deployments import ASSET_NAMES, ASSETS, WORKSPACE, AssetName, AssetRow, AssetStatus, NameState
from arco.state import View

__all__ = ["check_names_free", "check_no_asset", "check_no_assets_below", "format_of"]

MAX_SHOWN: Final = 10


def format_of(row: AssetRow) -> DataFormat:
    return msgspec.json.decode(row.definition, type=AssetDefinition).format


async def check_no_asset(view: View, path: tuple[str, ...]) -> None:
    """`Forbidden` if the Iceberg table of that name is the table of an asset that is deployed."""
    key = format_path(path)
    name: AssetName | None = await view.get(ASSET_NAMES, WORKSPACE, key)
    if name is None or name.state != NameState.CURRENT:
        return
    row: AssetRow = await view.get(ASSETS, WORKSPACE, name.asset_id)
    if format_of(row) is DataFormat.ICEBERG:
        raise Forbidden(
            f"{key} is the table of the asset of that name; deploy the project without it or without format='iceberg' "
            "to drop the table, with renamed_from= to rename it",
            asset=row.asset_id,
        )


async def check_no_assets_below(view: View, path: tuple[str, ...]) -> None:
    """`Forbidden` if a namespace holds tables of assets that are deployed: they would lose their names, and their
    assets would get other tables in their place."""
    rows: list[AssetRow] = await view.rows(ASSETS, WORKSPACE)
    keys = [
        row.key
        for row in rows
        if row.status == AssetStatus.ACTIVE
        and parse_path(row.key)[: len(path)] == path
        and format_of(row) is DataFormat.ICEBERG
    ]
    if keys:
        raise Forbidden(
            f"{format_path(path)} holds the tables of assets: {', '.join(sorted(keys)[:MAX_SHOWN])}; deploy them in "
            "another namespace with renamed_from=, and their tables follow",
            assets=sorted(keys)[:MAX_SHOWN],
        )


async def check_names_free(view: View, assets: Iterable[AssetDefinition], table_ids: dict[str, str]) -> None:
    """`Invalid` if an asset shall be an Iceberg table and a table of another format has its name."""
    taken = []
    for asset in assets:
        table_id = table_ids.get(asset.key)
        if asset.format is DataFormat.ICEBERG and table_id is not None:
            row: TableRow | None = await view.get(TABLES, table_id, table_id)
            if row is not None and not is_iceberg(row.format):
                taken.append(f"{asset.key} ({row.format})")
    if taken:
        raise Invalid(
            f"assets of format iceberg have names of tables that are of another format: {', '.join(taken)}; drop or "
            "rename those tables first",
            tables=taken,
        )
