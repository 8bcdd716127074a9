"""The data of an asset: the files of the newest published version of each of its partitions.

An asset need not be a table of the catalog, so its columns are those that its files have: the union over its versions,
and where versions disagree about a type, that of the newest one. The partition of a row is in columns by dimension,
unless the data has columns of these names.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import pyarrow as pa

from arco.catalog._footer import read_footer
from arco.catalog._sql_data import CurrentFile, current_files, current_versions, read_bytes
from arco.catalog._sql_files import Wanted, decode_file
from arco.catalog._sql_relation import select_columns
from arco.core import NotFound, Refused, Runtime
from arco.domains.deployments import AssetRow
from arco.domains.execution import HELD, PARTITIONS, Materialization, Partition
from arco.state import Snapshot
from arco.storage import ObjectMissing, Store

__all__ = ["AssetDataRelation", "read_asset_data", "why_nothing"]

_PARQUET = ".parquet"
_OF_OTHERS = ("external", "observable")
"""Kinds of assets that no run makes."""


async def read_asset_data(
    asset: AssetRow, activity: Snapshot, newest: Snapshot, store: Store, runtime: Runtime, max_bytes: int
) -> "AssetDataRelation":
    """The relation of an asset as of a snapshot of `activity`; `newest` is one of now. Only footers are read yet."""
    made = await current_versions(activity, newest, asset.asset_id)
    versions = sorted((version for version in made if version.files), key=lambda one: one.materialization_id)
    if not versions:
        raise NotFound(why_nothing(asset.key, asset.kind, await activity.rows(PARTITIONS, asset.asset_id)))
    if not all(file.path.endswith(_PARQUET) for version in versions for file in version.files):
        raise Refused(f"the asset {asset.key} is a value and no table; have its function return rows, to query it")
    columns = await _columns(asset.key, versions, store)
    files = [file for version in versions for file in current_files(version)]
    return AssetDataRelation(asset.key, columns, files, store, runtime, max_bytes)


def why_nothing(key: str, kind: str, partitions: Sequence[Partition]) -> str:
    """Why an asset has no data that may be read, and what to do about it."""
    held = [partition for partition in partitions if partition.newest_status in HELD]
    if len(held) == 1 and not held[0].partition_key:
        return f"the version of {key} is held back ({held[0].newest_status}); `arco quarantine show {key}` says why"
    if held:
        return f"what was made of {key} is held back; `arco quarantine list --asset {key}` lists it and says why"
    if kind in _OF_OTHERS:
        return f"{key} is made by others, and a query reads what runs have made; query an asset that reads {key}"
    return f"nothing was made of {key} that may be read; `arco run {key}` makes it"


async def _columns(key: str, versions: Sequence[Materialization], store: Store) -> dict[str, pa.DataType]:
    """The types of all columns that any version has, those of the newest version first."""
    found: dict[str, pa.DataType] = {}
    seen: set[str] = set()
    for version in reversed(versions):
        if version.schema_hash and version.schema_hash in seen:
            continue
        seen.add(version.schema_hash)
        path = version.files[0].path
        try:
            footer = await read_footer(store, await store.head(path))
        except ObjectMissing:
            raise NotFound(f"the file {path} of {key} is not in the store; `arco run {key} --force` makes it") from None
        for field in footer.schema.to_arrow_schema():
            found.setdefault(field.name, field.type)
    return found


class AssetDataRelation:
    """Implements `Relation`."""

    def __init__(
        self,
        key: str,
        columns: Mapping[str, pa.DataType],
        files: Sequence[CurrentFile],
        store: Store,
        runtime: Runtime,
        max_bytes: int,
    ) -> None:
        self._key = key
        self._files = files
        self._store = store
        self._runtime = runtime
        self._max_bytes = max_bytes
        own = {name.lower() for name in columns}
        given = {name: value for file in files for name, value in file.partition.items() if name.lower() not in own}
        self._dimensions = frozenset(given)
        kinds = {name: pa.scalar(value).type for name, value in given.items()}
        self.schema = pa.schema(list((kinds | dict(columns)).items()))
        self.size_bytes = sum(file.size for file in files)

    async def load(self, columns: Collection[str] | None) -> pa.Table:
        """Read the files one after the other."""
        schema = select_columns(self.schema.empty_table(), columns).schema
        found = [schema.empty_table()]
        budget = self._max_bytes
        for file in self._files:
            data = await read_bytes(self._store, self._key, file.path, budget)
            wanted = [self._wanted(field, file) for field in schema]
            found.append(await self._runtime.offload(partial(decode_file, "PARQUET", data, wanted, file.path, budget)))
            budget -= found[-1].nbytes
        return pa.concat_tables(found)

    def _wanted(self, field: pa.Field, file: CurrentFile) -> Wanted:
        if field.name in self._dimensions:
            return Wanted(field.name, field.type, False, (), True, file.partition.get(field.name))
        return Wanted(field.name, field.type, False, (field.name,))
