"""Columns of what a driver wrote, in the words of the catalog. Apart because it loads the catalog and Arrow."""

import msgspec
import pyarrow as pa

from arco.assets import UNKNOWN, AssetDefinition, SchemaColumn
from arco.catalog import type_text
from arco.core import Refused
from arco.domains.catalog import SchemaColumn as CatalogColumn
from arco.domains.catalog import schema_hash
from arco.worker._errors import SchemaViolation

__all__ = ["check_declared", "check_iceberg", "columns_of", "schema_hash_of", "seen_columns"]


def columns_of(schema: bytes) -> tuple[SchemaColumn, ...]:
    """The columns of a serialized Arrow schema; `SchemaViolation` for a type that no table can have."""
    try:
        return tuple(
            SchemaColumn(field.name, type_text(field.name, field.type, unknown="string"), field.nullable)
            for field in pa.ipc.read_schema(pa.BufferReader(schema))
        )
    except Refused as error:
        raise SchemaViolation(error.message) from error


def seen_columns(schema: bytes) -> tuple[SchemaColumn, ...]:
    """The same for rules: a column in which no value was seen has a type that fits all of them."""
    fields = pa.ipc.read_schema(pa.BufferReader(schema))
    return tuple(
        msgspec.structs.replace(column, type=UNKNOWN) if pa.types.is_null(field.type) else column
        for field, column in zip(fields, columns_of(schema), strict=True)
    )


def schema_hash_of(columns: tuple[SchemaColumn, ...]) -> str:
    return schema_hash(CatalogColumn("", column.name, column.type, column.nullable) for column in columns)


def check_declared(asset: AssetDefinition, columns: tuple[SchemaColumn, ...]) -> None:
    """`SchemaViolation` if columns are not those that the asset declares."""
    if not asset.schema:
        return
    declared = {column.name: column.type for column in asset.schema}
    found = {column.name: column.type for column in columns}
    wrong = [
        f"{name} is declared as {kind} and " + (f"is {found[name]}" if name in found else "is missing")
        for name, kind in declared.items()
        if found.get(name) != kind
    ]
    wrong += [f"{name} is not declared" for name in found if name not in declared]
    if wrong:
        raise SchemaViolation(f"what {asset.key} returned is not what it declares: {'; '.join(wrong)}")


def check_iceberg(asset: AssetDefinition, schema: bytes) -> None:
    """`SchemaViolation` if the table of an asset of format iceberg could not have these columns."""
    from arco.iceberg import check_columns  # most assets do without

    try:
        check_columns(pa.ipc.read_schema(pa.BufferReader(schema)))
    except Refused as error:
        raise SchemaViolation(f"{asset.key} is of format iceberg: {error.message}") from error
