"""Which recorded lineage is of former code. The graph keeps every edge there ever was; readers want those of now.

A task goes along every edge of the code it runs. So an edge through a parameter is *former* once the newest version of
its target was made later than the edge was last used, by other code than its columns are of. Until then it holds,
whatever was deployed meanwhile: the data is still made so. The same code may read one thing for this partition and
another one for that, so what it leaves out once is not former. Edges without a parameter are stated by hand, or of
other producers, who need not tell all edges at once: they never are.

Nothing is stored for this, and an earlier state answers as it would have answered then.
"""

from collections.abc import Iterable

from arco.catalog._names import View, load_groups
from arco.domains.execution import MATERIALIZATIONS, PARTITIONS, Materialization, Partition
from arco.domains.lineage import ColumnLineage, EdgeMetadata, LineageEdge

__all__ = ["LineageNow"]


class LineageNow:
    """Tells edges and columns of now from former ones; each target is looked at once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._newest: dict[str, Partition | None] = {}
        self._codes: dict[str, str] = {}

    async def load(self, edges: Iterable[LineageEdge]) -> None:
        """Read at once what is needed of the targets of these edges."""
        await load_groups(self._view, PARTITIONS, {edge.target_id for edge in edges if edge.parameter})

    async def is_former(self, edge: LineageEdge, metadata: EdgeMetadata | None) -> bool:
        used_at = metadata.last_seen_at if metadata is not None else None
        if not edge.parameter or used_at is None:
            return False
        newest = await self._newest_of(edge.target_id)
        if newest is None or (newest.last_success_at or 0) <= used_at:
            return False
        return await self._code_of(newest) not in ("", edge.recorded_lineage_code)

    async def columns(self, edge: LineageEdge, metadata: EdgeMetadata | None) -> ColumnLineage | None:
        """The columns of an edge of now; None if the code that makes them now tells none, as one in Python may."""
        used_at = metadata.last_seen_at if metadata is not None else None
        told_at = edge.recorded_lineage_at
        if not edge.parameter or edge.recorded_lineage_code is None or not (used_at or 0) > (told_at or 0):
            return edge.column_lineage
        newest = await self._newest_of(edge.target_id)
        code = await self._code_of(newest) if newest is not None else ""
        return edge.column_lineage if code in ("", edge.recorded_lineage_code) else None

    async def _newest_of(self, asset_id: str) -> Partition | None:
        """The partition whose current version was made last."""
        if asset_id not in self._newest:
            rows: list[Partition] = await self._view.rows(PARTITIONS, asset_id)
            made = (row for row in rows if row.current_materialization_id is not None)
            self._newest[asset_id] = max(made, key=lambda row: row.last_success_at or 0, default=None)
        return self._newest[asset_id]

    async def _code_of(self, newest: Partition) -> str:
        """The code that made it; empty if nobody said."""
        if newest.asset_id not in self._codes:
            version: Materialization | None = await self._view.get(
                MATERIALIZATIONS, newest.asset_id, newest.current_materialization_id or ""
            )
            self._codes[newest.asset_id] = version.code_version if version is not None else ""
        return self._codes[newest.asset_id]
