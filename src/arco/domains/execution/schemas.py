"""Schemas of assets: what columns a version has, and the ids of these columns.

An id is for who follows a column through time: where it stands and what type it has may change. It is a function of the
asset and the name, so that nobody needs to look for the one that a column had before. Where the catalog has a table of
the asset, its columns have ids of their own there, which survive that a column is renamed.
"""

from arco.core import Ulid, derive_ulid
from arco.domains.execution.events import SCHEMA_RECORDED, SchemaRecorded
from arco.domains.execution.tables import ASSET_SCHEMAS, AssetColumn, AssetSchema
from arco.state import ByField, Group, Input, Stage

__all__ = ["SCHEMAS", "column_id_of"]


def column_id_of(asset_id: str, name: str) -> Ulid:
    return derive_ulid(0, f"{asset_id}:{name}")


def _fold_schema(group: Group, item: Input) -> None:
    """The first word counts: several versions may tell of the same columns at once."""
    event: SchemaRecorded = item.payload
    if group.get(ASSET_SCHEMAS, (event.asset_id, event.schema_hash)) is not None:
        return
    columns = tuple(
        AssetColumn(column_id_of(event.asset_id, column.name), column.name, column.type, column.nullable)
        for column in event.columns
    )
    row = AssetSchema(
        event.asset_id, event.schema_hash, event.asset_key, columns, event.materialization_id, item.received
    )
    group.put(ASSET_SCHEMAS, row)


SCHEMAS = Stage("schemas", (ASSET_SCHEMAS,), ByField("asset_id"), _fold_schema, events=(SCHEMA_RECORDED.name,))
