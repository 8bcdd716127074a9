"""What SQL can name: `system.*` from the tables of both logs, else the data of a table of the catalog or of an asset.

Every table of a log that is not private is `system.<name>`, with its declared columns and `_position` (a 64-bit
number: the event that determines the row). A table that both logs have is one relation whose first column `log` says
which. What is private does not exist here: asking for it is asking for an unknown name.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence

import msgspec
import pyarrow as pa

from arco.assets import AssetDefinition, DataFormat
from arco.catalog._iceberg import ICEBERG_FORMATS
from arco.catalog._sql_assets import read_asset_data
from arco.catalog._sql_data import read_current_files
from arco.catalog._sql_relation import Relation, SqlView, near_names, select_columns
from arco.catalog._views import VIEWS
from arco.core import NotFound, Refused, Runtime, format_path
from arco.domains.catalog import Column, TableRow
from arco.domains.deployments import AssetRow, AssetStatus
from arco.state import Snapshot, Table
from arco.storage import Store

__all__ = ["CatalogResolver", "FindAsset", "FindTable", "ReadIceberg", "SystemRelations"]

FindTable = Callable[[tuple[str, ...]], Awaitable[tuple[TableRow, list[Column]] | None]]
"""The table of a path and all its columns, dropped ones included; None if there is none."""

ReadIceberg = Callable[[TableRow, str, Snapshot], Awaitable[Relation]]
"""The data of an Iceberg table, called by this name, as of a snapshot of the activity."""

FindAsset = Callable[[tuple[str, ...]], Awaitable[AssetRow | None]]
"""The asset of a key, by its parts; None if there is none."""

_SYSTEM = "system"
_LOG = pa.field("log", pa.string())


class _LogTable:
    """A table of one log, or the same one of both. Implements `Relation`."""

    def __init__(self, parts: Sequence[tuple[Snapshot, Table]], sizes: int) -> None:
        self._parts = parts
        self._many = len(parts) > 1
        self.size_bytes = sizes
        _, table = parts[0]
        fields = [field for field in table.schema if field.name not in ("_bucket", "_deleted")]
        self.schema = pa.schema([_LOG, *fields] if self._many else fields)

    async def load(self, columns: Collection[str] | None) -> pa.Table:
        found = []
        for snapshot, table in self._parts:
            data = await snapshot.scan(table)
            if self._many:
                log = pa.repeat(pa.scalar(snapshot.definition.log, pa.string()), data.num_rows)
                data = data.add_column(0, _LOG, log)
            found.append(select_columns(data, columns))
        return pa.concat_tables(found)


class SystemRelations:
    """`system.*` as of a snapshot of each log."""

    def __init__(self, catalog: Snapshot, activity: Snapshot) -> None:
        parts: dict[str, list[tuple[Snapshot, Table]]] = {}
        sizes: dict[str, int] = {}
        for snapshot in (catalog, activity):
            for summary in snapshot.summary():
                table = snapshot.definition.tables[summary.name]
                if not table.private:
                    parts.setdefault(table.name, []).append((snapshot, table))
                    sizes[table.name] = sizes.get(table.name, 0) + summary.bytes
        self._raw = {name: _LogTable(found, sizes[name]) for name, found in parts.items()}

    def names(self) -> list[str]:
        """Every name that SQL can say, as `system.tables`."""
        return [f"{_SYSTEM}.{name}" for name in sorted(self._raw)]

    def find(self, name: str) -> Relation | SqlView | None:
        view = VIEWS.get(name)
        if view is not None and name in self._raw:
            return SqlView(view.text, {source: self._raw[source] for source in view.sources}, view.uses)
        return self._raw.get(name)


def _is_table_of(asset: AssetRow, row: TableRow) -> bool:
    """Whether a table is the one that an asset of format iceberg has."""
    is_deployed = asset.status == AssetStatus.ACTIVE and row.format == ICEBERG_FORMATS[0]
    return is_deployed and msgspec.json.decode(asset.definition, type=AssetDefinition).format is DataFormat.ICEBERG


class CatalogResolver:
    """A `Resolver`: `system.*` in any case first, else a table, else an asset, exactly as they are called.

    The Iceberg table of an asset is the asset: its versions are read, whose past reaches further than snapshots do.
    """

    def __init__(
        self,
        system: SystemRelations,
        find_table: FindTable,
        activity: Snapshot,
        newest: Callable[[], Awaitable[Snapshot]],
        store: Store,
        runtime: Runtime,
        max_input_bytes: int,
        find_asset: FindAsset | None = None,
        read_iceberg: ReadIceberg | None = None,
    ) -> None:
        self._system = system
        self._find_table = find_table
        self._activity = activity
        self._newest = newest
        self._store = store
        self._runtime = runtime
        self._max_input_bytes = max_input_bytes
        self._find_asset = find_asset
        self._read_iceberg = read_iceberg

    async def __call__(self, path: tuple[str, ...]) -> Relation | SqlView:
        of_system = path[0].lower() == _SYSTEM and len(path) == 2
        found = self._system.find(path[1].lower()) if of_system else None
        if found is not None:
            return found
        table = await self._find_table(path) if len(path) > 1 else None
        asset = await self._find_asset(path) if self._find_asset is not None and len(path) > 1 else None
        if table is not None and not (asset is not None and _is_table_of(asset, table[0])):
            row, columns = table
            if row.format in ICEBERG_FORMATS:
                return await self._iceberg(row, format_path(path))
            return await read_current_files(
                row,
                columns,
                format_path(path),
                self._activity,
                await self._newest(),
                self._store,
                self._runtime,
                self._max_input_bytes,
            )
        if asset is not None:
            newest = await self._newest()
            return await read_asset_data(
                asset, self._activity, newest, self._store, self._runtime, self._max_input_bytes
            )
        name = format_path(path)
        if of_system:
            raise NotFound(f"there is no {name}; {near_names(name.lower(), self._system.names())}")
        if len(path) == 1:
            hint = near_names(f"{_SYSTEM}.{name}", self._system.names())
            raise NotFound(f"there is no table {name}; write its namespace too, as in sales.orders ({hint})")
        raise NotFound(
            f"there is no table or asset {name}; a query may name the full_name in system.tables, and the key in "
            "system.assets"
        )

    async def _iceberg(self, row: TableRow, name: str) -> Relation:
        if row.format != ICEBERG_FORMATS[0] or self._read_iceberg is None:
            what = "a view of other engines" if row.format != ICEBERG_FORMATS[0] else "an Iceberg table"
            raise Refused(
                f"{name} is {what}, which SQL here does not read; query it with an engine that does, its columns are "
                "in system.columns"
            )
        return await self._read_iceberg(row, name, self._activity)
