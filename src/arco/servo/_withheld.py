"""Bounds of columns that are told to nobody: a secret stands in them, or personal data.

A footer has them all the same. So whoever reads a footer again (statistics refresh, compaction) tells of a column no
bounds that were withheld for a file of the same version, none that look like a credential, and none of a column that
is marked as personal by now. Names are compared casefolded, as engines do.
"""

from collections.abc import Collection, Iterable

import msgspec

from arco.assets import AssetDefinition
from arco.domains.deployments import ASSETS, WORKSPACE, AssetRow
from arco.domains.execution import ColumnStats, DataFile
from arco.log import find_secret
from arco.servo._column_ids import catalog_columns
from arco.state import View

__all__ = ["marked_columns", "personal_columns", "without_withheld"]


async def marked_columns(catalog: View, asset_id: str, asset_key: str) -> tuple[str, ...]:
    """Columns of an asset that the catalog marks as personal."""
    rows = await catalog_columns(catalog, asset_id, asset_key)
    return tuple(sorted({row.name for row in rows if row.pii_type is not None}))


async def personal_columns(catalog: View, asset_id: str, asset_key: str) -> frozenset[str]:
    """Columns that the catalog marks, and those that the asset declares as personal now; casefolded."""
    names = set(await marked_columns(catalog, asset_id, asset_key))
    row: AssetRow | None = await catalog.get(ASSETS, WORKSPACE, asset_id)
    if row is not None:
        definition = msgspec.json.decode(row.definition, type=AssetDefinition)
        names |= {column.name for column in definition.schema if column.pii}
    return frozenset(name.casefold() for name in names)


def without_withheld(
    stats: Iterable[ColumnStats], told: Iterable[DataFile], personal: Collection[str] = ()
) -> tuple[ColumnStats, ...]:
    """Statistics out of a footer, as they may be told beside those of `told`, the files of the same version.

    `personal` are casefolded names.
    """
    withheld = {
        stat.column
        for file in told
        for stat in file.stats
        if (stat.min is None or stat.max is None) and stat.null_count < file.row_count
    }
    return tuple(
        msgspec.structs.replace(stat, min=None, max=None)
        if stat.column in withheld or stat.column.casefold() in personal or find_secret([stat.min, stat.max])
        else stat
        for stat in stats
    )
