"""Ids of columns in column lineage: a name is what a plan knows, an id is what survives when the column is renamed.

They are put in when a result arrives, because what was read and written then has the names that the catalog has then.
Envelopes do not carry them: most tasks record the same columns as the one before, and every envelope would be larger by
all columns of everything it reads.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from arco.core import parse_path
from arco.domains.catalog import COLUMNS, Column, find_namespace_id, find_object_id
from arco.domains.lineage import ColumnLineage, ColumnRef, EdgeRecord
from arco.domains.orchestration import PLAN_TASKS, FinishTask, PlanTaskRow
from arco.state import View

__all__ = ["catalog_columns", "with_column_ids"]

ACTIVE: Final = "active"
MAX_IDS: Final = 6_000
"""In one event. Edges for which there is no room keep their names."""
ID_BYTES: Final = 41
"""What an event grows by with each: a ULID, under its name."""

Ids = Mapping[str, str]


async def catalog_columns(catalog: View, asset_id: str, asset_key: str) -> list[Column]:
    """Columns of the table of an asset. It may have been made before the asset, and then shares its id, or after it."""
    *above, name = parse_path(asset_key)
    parent = await find_namespace_id(catalog, tuple(above))
    named = None if parent is None else await find_object_id(catalog, parent, "table", name)
    found: list[Column] = []
    for table_id in dict.fromkeys((asset_id, named)):
        if table_id is not None:
            found += await catalog.rows(COLUMNS, table_id)
    return found


async def with_column_ids(result: FinishTask, activity: View, catalog: View) -> FinishTask:
    """The result, with the ids that the catalog has for the columns that its lineage names."""
    lineage = result.lineage
    if lineage is None or all(edge.column_lineage is None for edge in lineage.edges):
        return result
    keys = {output.asset_id: output.asset_key for output in result.outputs}
    planned: PlanTaskRow | None = await activity.get(PLAN_TASKS, result.run_id, (result.run_id, result.task_key))
    keys |= {given.asset_id: given.asset_key for given in planned.inputs} if planned is not None else {}
    known = {id: _ids(await catalog_columns(catalog, id, key)) for id, key in keys.items()}
    if not any(known.values()):
        return result
    room = MAX_IDS
    edges: list[EdgeRecord] = []
    for edge in lineage.edges:
        columns = edge.column_lineage
        if columns is not None:
            named, count = _named(columns, known.get(edge.source_id, {}), known.get(edge.target_id, {}))
            if count <= room:
                room -= count
                edge = msgspec.structs.replace(edge, column_lineage=named)
        edges.append(edge)
    return msgspec.structs.replace(result, lineage=msgspec.structs.replace(lineage, edges=tuple(edges)))


def _ids(columns: list[Column]) -> dict[str, str]:
    return {column.name: column.column_id for column in columns if column.status == ACTIVE}


def _named(lineage: ColumnLineage, sources: Ids, targets: Ids) -> tuple[ColumnLineage, int]:
    """The lineage with ids, and how many."""
    count = 0

    def refs(columns: tuple[ColumnRef, ...], ids: Ids) -> tuple[ColumnRef, ...]:
        nonlocal count
        count += sum(column.name in ids for column in columns)
        return tuple(ColumnRef(column.name, ids.get(column.name, column.column_id)) for column in columns)

    mappings = tuple(
        msgspec.structs.replace(
            mapping,
            target_column=refs((mapping.target_column,), targets)[0],
            source_columns=refs(mapping.source_columns, sources),
        )
        for mapping in lineage.mappings
    )
    influences = tuple(
        msgspec.structs.replace(one, source_columns=refs(one.source_columns, sources))
        for one in lineage.influences or ()
    )
    found = msgspec.structs.replace(
        lineage,
        mappings=mappings,
        unmapped_columns=refs(lineage.unmapped_columns, targets),
        influences=influences or None,
    )
    return found, count
