"""The data of an Iceberg table for SQL: the Parquet files of the snapshot that its metadata names.

    state of the table at a position -> metadata -> plan -> files -> Arrow in the table's columns

The metadata is that of the newest commit which the log knew at the position asked for, so the past reads as the past
was. A column is found in a file by its field id. What this reader does not do is refused, never left out: row-level
deletes, other formats than Parquet, defaults of columns, structs whose fields changed.
"""

from collections.abc import Collection
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from arco.catalog import Wanted, arrow_type, decode_file, select_columns
from arco.core import Invalid, NotFound, Refused, Runtime, TooLarge
from arco.domains.tables import TABLE_COLUMNS, TABLE_STATES, TableColumn, TableState
from arco.iceberg._documents import Documents
from arco.iceberg._errors import MetadataMissing
from arco.iceberg._locations import Locations
from arco.iceberg._planning import plan_scan
from arco.state import Snapshot

__all__ = ["IcebergRelation", "read_iceberg"]

_ENGINE = "query it with an engine that does, such as Spark or DuckDB"
_FIELD_ID = b"PARQUET:field_id"


async def read_iceberg(
    table_id: str, name: str, activity: Snapshot, locations: Locations, runtime: Runtime, max_bytes: int
) -> "IcebergRelation":
    """The relation of a table as of a snapshot of `activity`. No data file is read yet."""
    state: TableState | None = await activity.get(TABLE_STATES, table_id, table_id)
    if state is None or state.metadata_location is None:
        raise Refused(f"nothing is known of the data of {name} yet; try again in a moment")
    rows: list[TableColumn] = await activity.rows(TABLE_COLUMNS, table_id)
    columns = sorted(rows, key=lambda row: row.ordinal_position)
    try:
        metadata = (await Documents(locations).read(state.metadata_location)).value
    except MetadataMissing:
        raise NotFound(f"the metadata {state.metadata_location} of {name} is not there any more") from None
    return IcebergRelation(name, columns, metadata, state.byte_size or 0, locations, runtime, max_bytes)


class IcebergRelation:
    """Implements `Relation`."""

    def __init__(
        self,
        name: str,
        columns: list[TableColumn],
        metadata: dict[str, Any],
        size_bytes: int,
        locations: Locations,
        runtime: Runtime,
        max_bytes: int,
    ) -> None:
        self._name = name
        self._columns = columns
        self._metadata = metadata
        self._locations = locations
        self._runtime = runtime
        self._max_bytes = max_bytes
        self.size_bytes = size_bytes
        self.schema = pa.schema([(column.name, self._type(column)) for column in columns])

    def _type(self, column: TableColumn) -> pa.DataType:
        try:
            return arrow_type(column.data_type)
        except Invalid:
            raise Refused(
                f"the column {column.name} of {self._name} has the type {column.data_type}, which SQL here does not "
                f"read; {_ENGINE}"
            ) from None

    async def load(self, columns: Collection[str] | None) -> pa.Table:
        """Plan the current snapshot and read its files one after the other."""
        self._check_defaults()
        schema = select_columns(self.schema.empty_table(), columns).schema
        wanted = [column for column in self._columns if column.name in schema.names]
        plan = await plan_scan(self._metadata, {}, self._locations, self._runtime)
        if plan.get("delete-files"):
            raise Refused(f"the table {self._name} has row-level deletes, which SQL here does not apply; {_ENGINE}")
        found = [schema.empty_table()]
        budget = self._max_bytes
        for task in plan.get("file-scan-tasks") or ():
            file = task["data-file"]
            path = str(file["file-path"])
            kind = str(file["file-format"])
            if kind.lower() != "parquet":
                raise Refused(f"{path} of {self._name} is {kind}, which SQL here does not read; {_ENGINE}")
            size = await self._locations.size(path)
            if size > budget:
                raise TooLarge(f"the file {path} has {size} bytes and {budget} may still be read; name fewer tables")
            data = await self._locations.read_file(path)
            found.append(await self._runtime.offload(partial(self._decode, data, wanted, path, budget)))
            budget -= found[-1].nbytes
        return pa.concat_tables(found)

    def _check_defaults(self) -> None:
        for schema in self._metadata.get("schemas") or ():
            if schema.get("schema-id") == self._metadata.get("current-schema-id"):
                for field in schema["fields"]:
                    if field.get("initial-default") is not None:
                        raise Refused(
                            f"the column {field['name']} of {self._name} has a default for older files, which SQL here "
                            f"does not fill in; {_ENGINE}"
                        )

    def _decode(self, data: bytes, columns: list[TableColumn], path: str, budget: int) -> pa.Table:
        try:
            held = pq.read_schema(pa.BufferReader(data))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise Refused(f"the file {path} cannot be read as Parquet ({str(error)[:200]})") from error
        by_id = {
            int(field.metadata[_FIELD_ID]): field for field in held if field.metadata and _FIELD_ID in field.metadata
        }
        wanted = [self._wanted(column, held, by_id, path) for column in columns]
        return decode_file("PARQUET", data, wanted, path, budget)

    def _wanted(self, column: TableColumn, held: pa.Schema, by_id: dict[int, pa.Field], path: str) -> Wanted:
        field = by_id.get(column.field_id)
        if field is None and not by_id and column.name in held.names:
            field = held.field(column.name)  # written before the table was Iceberg's, without ids
        kind = arrow_type(column.data_type)
        if field is None and column.field_id in self._identities():
            raise Refused(
                f"{path} has no column {column.name}, by which {self._name} is partitioned, and SQL here does not take "
                f"it from the partition; {_ENGINE}"
            )
        if field is not None and pa.types.is_nested(kind) and _names(kind) != _names(field.type):
            raise Refused(
                f"the fields of {column.name} in {path} are not those of the table any more, and SQL here does not put "
                f"them together; {_ENGINE}"
            )
        return Wanted(column.name, kind, column.data_type == "uuid", () if field is None else (field.name,))

    def _identities(self) -> set[int]:
        specs = self._metadata.get("partition-specs") or ()
        return {field["source-id"] for spec in specs for field in spec["fields"] if field["transform"] == "identity"}


def _names(kind: pa.DataType) -> object:
    """The names of all fields in a nested type."""
    if pa.types.is_struct(kind):
        return [(field.name, _names(field.type)) for field in kind]
    if pa.types.is_map(kind):
        return [_names(kind.key_type), _names(kind.item_type)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_names(kind.value_type)]
    return None
