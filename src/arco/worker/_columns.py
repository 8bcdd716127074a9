"""Columns of what a task wrote as tables: looked at once, for the hash of a version and for what is told of its schema.

What knows the words of the catalog loads Arrow (`_schemas`), and tasks that write no tables do without.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from arco.assets import DataFormat, SchemaColumn
from arco.domains.execution import MaterializationCompleted, SchemaRecorded, WrittenColumn
from arco.servo._envelope import Envelope
from arco.worker._errors import SchemaViolation
from arco.worker._masking import Mask
from arco.worker._messages import Report

__all__ = ["Columns", "columns_written", "hash_of", "schemas_told"]

MAX_BYTES: Final = 128 << 10
"""Of columns in one event; of outputs for which no room is left the files alone say what columns they have."""

Columns = Mapping[str, tuple[SchemaColumn, ...]]
"""By the key of the asset."""


def columns_written(envelope: Envelope, report: Report) -> Columns:
    """`SchemaViolation` if they are not the declared ones."""
    assets = {asset.key: asset for asset in envelope.definitions}
    found: dict[str, tuple[SchemaColumn, ...]] = {}
    for written in report.outputs:
        asset = assets[written.asset_key]
        if not written.schema:
            is_value = any(not file.path.endswith(".parquet") for file in written.files)
            if is_value and asset.format is DataFormat.ICEBERG:
                raise SchemaViolation(f"{asset.key} is of format iceberg and returned no table; return a table or rows")
            continue
        from arco.worker._schemas import check_declared, check_iceberg, columns_of

        found[asset.key] = columns_of(written.schema)
        check_declared(asset, found[asset.key])
        if asset.format is DataFormat.ICEBERG:
            check_iceberg(asset, written.schema)
    return found


def hash_of(columns: tuple[SchemaColumn, ...] | None) -> str:
    """The identity of columns, as the catalog makes it; empty for what is no table."""
    if columns is None:
        return ""
    from arco.worker._schemas import schema_hash_of

    return schema_hash_of(columns)


def schemas_told(outputs: Iterable[MaterializationCompleted], columns: Columns, mask: Mask) -> Iterator[SchemaRecorded]:
    """What the columns of each output are. Whether that is known already is for the control plane to see."""
    room = MAX_BYTES
    for output in outputs:
        found = columns.get(output.asset_key, ())
        # A type names the fields of a struct.
        is_public = all(mask.passes(column.name) and mask.passes(column.type) for column in found)
        if not output.schema_hash or not is_public:
            continue
        told = SchemaRecorded(
            output.asset_id,
            output.asset_key,
            output.schema_hash,
            output.materialization_id,
            tuple(WrittenColumn(column.name, column.type, column.nullable) for column in found),
        )
        size = len(msgspec.json.encode(told))
        if size <= room:
            room -= size
            yield told
