"""The data of a table of the catalog: the files of the newest published version of each of its partitions.

partitions -> current materialization -> files below `data/` of the workspace -> Arrow in the catalog's columns

Which version was current is asked of the snapshot; where its rows lie is asked of the state of now, because files that
were compacted since go after a while.

A column is found in a file under the name it had when the file was written: by the schema version that its
materialization names, else by its present name or one that only it had before.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import pyarrow as pa

from arco.catalog._sql_files import Wanted, decode_file
from arco.catalog._sql_relation import select_columns
from arco.catalog._sql_types import arrow_type
from arco.core import Invalid, NotFound, PartitionKey, Refused, Runtime, Scalar, TooLarge
from arco.domains.catalog import Column, TableRow
from arco.domains.execution import MATERIALIZATIONS, PARTITIONS, Materialization, files_of
from arco.state import Snapshot
from arco.storage import ObjectMissing, Store

__all__ = [
    "CurrentFile",
    "TableDataRelation",
    "current_files",
    "current_versions",
    "read_bytes",
    "read_current_files",
    "sources_of",
]

FORMATS = ("PARQUET", "CSV", "JSON")
"""What is read here. DELTA and ICEBERG tables have their own lists of files."""

_FOLDER = "data/"


@dataclass(frozen=True)
class CurrentFile:
    """A file of the newest published version of a partition."""

    path: str
    size: int
    schema_version: int | None
    partition: Mapping[str, Scalar]


async def read_current_files(
    table: TableRow,
    columns: Sequence[Column],
    name: str,
    activity: Snapshot,
    newest: Snapshot,
    store: Store,
    runtime: Runtime,
    max_bytes: int,
) -> "TableDataRelation":
    """The relation of a table as of a snapshot of `activity`; `newest` is one of now. No file is read yet."""
    if not any(column.status == "active" for column in columns):
        raise Refused(f"the table {name} has no columns; add one before it is queried")
    versions = await current_versions(activity, newest, table.table_id)
    files = [file for version in versions for file in current_files(version)]
    return TableDataRelation(table, columns, name, files, store, runtime, max_bytes)


async def current_versions(activity: Snapshot, newest: Snapshot, id: str) -> list[Materialization]:
    """The newest published version of each partition of a table or an asset, with the files where its rows are now."""
    found: list[Materialization] = []
    for partition in await activity.rows(PARTITIONS, id):
        current = partition.current_materialization_id
        version = await activity.get(MATERIALIZATIONS, id, current) if current is not None else None
        if version is not None:  # else retention took the fact; its files go with it
            found.append(msgspec.structs.replace(version, files=await files_of(newest, version)))
    return found


def current_files(version: Materialization) -> list[CurrentFile]:
    key = _partition_values(version.partition_key)
    return [CurrentFile(file.path, file.size_bytes, version.schema_version, key) for file in version.files]


def _partition_values(key: str) -> Mapping[str, Scalar]:
    try:
        return PartitionKey.parse(key).to_dict()
    except Invalid:
        return {}  # an external producer's own spelling: nothing can be taken from it


def sources_of(column: Column, columns: Sequence[Column], schema_version: int | None) -> tuple[str, ...]:
    """The names under which a file of a schema version may hold a column, the best one first."""
    former = sorted(column.former_names, key=lambda name: name.until_version)
    if schema_version is not None:
        if column.added_in_version > schema_version:
            return ()
        return (next((old.name for old in former if schema_version < old.until_version), column.name),)
    taken = {other.name for other in columns if other.column_id != column.column_id}
    taken |= {old.name for other in columns if other.column_id != column.column_id for old in other.former_names}
    return (column.name, *dict.fromkeys(old.name for old in reversed(former) if old.name not in taken))


class TableDataRelation:
    """Implements `Relation`."""

    def __init__(
        self,
        table: TableRow,
        columns: Sequence[Column],
        name: str,
        files: Sequence[CurrentFile],
        store: Store,
        runtime: Runtime,
        max_bytes: int,
    ) -> None:
        self._table = table
        self._name = name
        self._all = columns
        self._active = sorted((c for c in columns if c.status == "active"), key=lambda c: c.ordinal_position)
        self._files = files
        self._store = store
        self._runtime = runtime
        self._max_bytes = max_bytes
        self.schema = pa.schema([(column.name, arrow_type(column.data_type)) for column in self._active])
        self.size_bytes = sum(file.size for file in files)

    async def load(self, columns: Collection[str] | None) -> pa.Table:
        """Read the files one after the other."""
        if self._table.format not in FORMATS:
            raise Refused(
                f"the data of {self._name} is {self._table.format}, which SQL here does not read; query it with an "
                "engine that does, its columns are in system.columns"
            )
        schema = select_columns(self.schema.empty_table(), columns).schema
        active = [column for column in self._active if column.name in schema.names]
        found = [schema.empty_table()]
        budget = self._max_bytes
        for file in self._files:
            data = await read_bytes(self._store, self._name, file.path, budget)
            wanted = [self._wanted(column, file) for column in active]
            work = partial(decode_file, self._table.format, data, wanted, file.path, budget)
            found.append(await self._runtime.offload(work))
            budget -= found[-1].nbytes
        return pa.concat_tables(found)

    def _wanted(self, column: Column, file: CurrentFile) -> Wanted:
        names = (column.name, *(old.name for old in column.former_names))
        dimension = next((name for name in names if name in file.partition), None)
        return Wanted(
            column.name,
            arrow_type(column.data_type),
            column.data_type == "uuid",
            sources_of(column, self._all, file.schema_version),
            dimension is not None,
            None if dimension is None else file.partition[dimension],
        )


async def read_bytes(store: Store, name: str, path: str, budget: int) -> bytes:
    """The bytes of a file, once its real size is known to fit: what was recorded may be wrong."""
    if not path.startswith(_FOLDER):
        raise Refused(
            f"the data of {name} lies outside the workspace's data folder ({path[:200]!r}), where SQL "
            "does not read; query it with an engine that has access"
        )
    try:
        size = (await store.head(path)).size
        if size > budget:
            raise TooLarge(f"the file {path} has {size} bytes and {budget} may still be read; name fewer tables")
        return await store.get(path)
    except TooLarge:
        raise
    except Invalid as error:
        raise Refused(f"the data of {name} names a file that cannot be one: {error.message}") from None
    except ObjectMissing:
        raise NotFound(
            f"the file {path} of {name} is not in the store; it was deleted, or never written: "
            "materialize the partition again"
        ) from None
