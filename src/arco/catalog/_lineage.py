"""Walking the lineage graph from one table or asset, up to what it is made of and down to what is made of it.

A walk goes breadth first and looks at each table once, so that a cycle ends it like anything else. Edges of a table lie
in its group, once as their source and once as their target; a walk reads groups and never the whole graph. Edges of
former code are passed by unless they are asked for.
"""

from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from arco.catalog._former import LineageNow
from arco.catalog._names import Namer, View, load_groups, position_of_view
from arco.core import Invalid, format_time
from arco.domains.lineage import (
    LINEAGE_EDGES,
    LINEAGE_METADATA,
    LINEAGE_UPSTREAM,
    ColumnLineage,
    EdgeMetadata,
    LineageEdge,
    UpstreamEdge,
)
from arco.wire import ColumnEdgeInfo, LineageEdgeInfo, LineageGraph, LineageNode

__all__ = ["Direction", "Names", "downstream_of", "walk"]

Direction = Literal["upstream", "downstream", "both"]
Names = Callable[[str], Awaitable[tuple[str | None, bool]]]
"""From the id of a table to its path, if the catalog ever had it, and whether it exists."""

MAX_NODES = 5_000
MAX_EDGES = 10_000


async def walk(
    activity: View,
    table_id: str,
    direction: Direction,
    depth: int,
    names: Names,
    *,
    former: bool = False,
    max_nodes: int = MAX_NODES,
    max_edges: int = MAX_EDGES,
) -> LineageGraph:
    """The tables and edges that can be reached from a table in so many hops; 0 is any number.

    Both ways are walked apart: what is only made of the same things as the table is not related to it. With `former`
    edges of former code are walked along too.
    """
    if depth < 0:
        raise Invalid(f"a walk cannot have {depth} hops; give 1 or more, or 0 for any number")
    search = _Search(activity, table_id, depth or None, former=former)
    if direction != "upstream":
        share = 2 if direction == "both" else 1  # so that there is room for the other way
        await search.go(1, max_nodes // share, max_edges // share)
    if direction != "downstream":
        await search.go(-1, max_nodes, max_edges)
    if isinstance(names, Namer):
        await names.load(search.distances)
    edges = [_edge(*known) for known in search.edges.values()]
    nodes = [await _node(id, distance, names) for id, distance in search.distances.items()]
    return LineageGraph(
        root=nodes[0],
        nodes=nodes[1:],
        edges=edges,
        truncated=search.truncated,
        former_count=len(search.passed_by),
        position=str(position_of_view(activity)),
    )


async def downstream_of(activity: View, table_id: str, limit: int = 100) -> list[str]:
    """The tables that are made of a table directly, each once; of very many only some."""
    rows: list[LineageEdge] = await activity.page(LINEAGE_EDGES, table_id, None, limit)
    now = LineageNow(activity)
    found: dict[str, None] = {}
    for row in rows:
        metadata: EdgeMetadata | None = await activity.get(LINEAGE_METADATA, table_id, row.edge_id)
        if row.target_id != table_id and not await now.is_former(row, metadata):
            found[row.target_id] = None
    return list(found)


_Used = tuple[LineageEdge, EdgeMetadata | None]
"""An edge and when it was used."""


class _Known(NamedTuple):
    """An edge on the way, and what holds of it now."""

    edge: LineageEdge
    metadata: EdgeMetadata | None
    columns: ColumnLineage | None
    former: bool


class _Search:
    """What a walk has found so far."""

    def __init__(self, view: View, root: str, depth: int | None, *, former: bool) -> None:
        self._view = view
        self._now = LineageNow(view)
        self._with_former = former
        self._root = root
        self._depth = depth
        self._max_nodes = self._max_edges = 0
        self.distances: dict[str, int] = {root: 0}
        """Hops to each table, the shorter way if it is found on both; negative upstream."""
        self.edges: dict[str, _Known] = {}
        self.passed_by: set[str] = set()
        """Edges of former code that were not walked along."""
        self._above: dict[str, list[UpstreamEdge]] = {}
        self._near: dict[str, list[_Used]] = {}
        """Edges of the tables of this step, by table."""
        self.truncated = False

    async def go(self, step: Literal[1, -1], max_nodes: int, max_edges: int) -> None:
        """Walk down or up until there is nothing new, or as much as there may be in all."""
        self._max_nodes, self._max_edges = max_nodes, max_edges
        seen = {self._root}
        frontier, hops = [self._root], 0
        while frontier and hops != self._depth:
            hops += 1
            reached: list[str] = []
            await self._load(frontier, step)
            for id in frontier:
                for known in await self._judged(id, step):
                    other = known.edge.target_id if step > 0 else known.edge.source_id
                    if not self._add(known, other, step * hops):
                        self.truncated = True
                        return
                    if other not in seen:
                        seen.add(other)
                        reached.append(other)
            frontier = reached

    def _add(self, known: _Known, other: str, distance: int) -> bool:
        """Note an edge and where it leads; False if a limit is reached."""
        id = known.edge.edge_id
        before = self.distances.get(other)
        if id not in self.edges and len(self.edges) >= self._max_edges:
            return False
        if before is None and len(self.distances) > self._max_nodes:
            return False
        self.edges[id] = known
        if before is None or abs(distance) < abs(before):
            self.distances[other] = distance
        return True

    async def _judged(self, id: str, step: Literal[1, -1]) -> list[_Known]:
        """The edges of a table to walk along."""
        found: list[_Known] = []
        for edge, metadata in self._near[id] if id in self._near else await self._look(id, step):
            is_former = await self._now.is_former(edge, metadata)
            if is_former and not self._with_former:
                self.passed_by.add(edge.edge_id)
                continue
            columns = edge.column_lineage if is_former else await self._now.columns(edge, metadata)
            found.append(_Known(edge, metadata, columns, is_former))
        return found

    async def _load(self, frontier: list[str], step: Literal[1, -1]) -> None:
        """Load what a whole step needs at once: group by group, every file would be read once a group."""
        sources = frontier
        if step < 0:
            await load_groups(self._view, LINEAGE_UPSTREAM, frontier)
            self._above, sources = {}, []
            for id in frontier:
                if len(sources) > self._max_edges:
                    break  # the walk will hardly come this far
                self._above[id] = await self._upstream(id)
                sources += [row.source_id for row in self._above[id]]
        await load_groups(self._view, LINEAGE_EDGES, sources)
        await load_groups(self._view, LINEAGE_METADATA, sources)
        self._near, count = {}, 0
        for id in frontier:
            if count > self._max_edges:
                break
            self._near[id] = await self._look(id, step)
            count += len(self._near[id])
        await self._now.load(edge for edges in self._near.values() for edge, _ in edges)

    async def _look(self, id: str, step: Literal[1, -1]) -> list[_Used]:
        return await (self._down(id) if step > 0 else self._up(id))

    async def _upstream(self, id: str) -> list[UpstreamEdge]:
        rows: list[UpstreamEdge] = await self._view.page(LINEAGE_UPSTREAM, id, None, self._max_edges + 1)
        return rows

    async def _down(self, id: str) -> list[_Used]:
        edges: list[LineageEdge] = await self._view.page(LINEAGE_EDGES, id, None, self._max_edges + 1)
        rows: list[EdgeMetadata] = await self._view.page(LINEAGE_METADATA, id, None, self._max_edges + 1)
        metadata = {row.edge_id: row for row in rows}
        return [(edge, metadata.get(edge.edge_id)) for edge in edges]

    async def _up(self, id: str) -> list[_Used]:
        found: list[_Used] = []
        for row in self._above[id] if id in self._above else await self._upstream(id):
            edge: LineageEdge | None = await self._view.get(LINEAGE_EDGES, row.source_id, row.edge_id)
            if edge is not None:
                found.append((edge, await self._view.get(LINEAGE_METADATA, row.source_id, row.edge_id)))
        return found


async def _node(id: str, distance: int, names: Names) -> LineageNode:
    name, exists = await names(id)
    return LineageNode(id=id, name=name, exists=exists, distance=distance)


def _edge(
    edge: LineageEdge, metadata: EdgeMetadata | None, lineage: ColumnLineage | None, former: bool
) -> LineageEdgeInfo:
    return LineageEdgeInfo(
        id=edge.edge_id,
        source_id=edge.source_id,
        target_id=edge.target_id,
        manual=edge.manual,
        recorded=edge.recorded,
        former=former,
        parameter=edge.parameter,
        columns={} if lineage is None else _columns(edge.source_id, lineage),
        mappings=[] if lineage is None else list(_mappings(lineage)),
        capture_method=None if lineage is None else str(lineage.capture_method),
        confidence=None if lineage is None else str(lineage.confidence),
        coverage=None if lineage is None else lineage.coverage,
        first_seen_at=_time(metadata.first_seen_at) if metadata is not None else None,
        last_seen_at=_time(metadata.last_seen_at) if metadata is not None else None,
        execution_count=metadata.execution_count if metadata is not None else 0,
        owner=metadata.owner if metadata is not None else None,
        description=metadata.description if metadata is not None else None,
    )


def _columns(source_id: str, lineage: ColumnLineage) -> dict[str, list[str]]:
    """Columns by id where the catalog knew one, else by name. A column made in several ways has several mappings."""
    found: dict[str, dict[str, None]] = {}
    for mapping in lineage.mappings:
        known = found.setdefault(mapping.target_column.column_id or mapping.target_column.name, {})
        known.update((f"{source_id}/{column.column_id or column.name}", None) for column in mapping.source_columns)
    return {target: list(sources) for target, sources in found.items()}


def _mappings(lineage: ColumnLineage) -> Iterator[ColumnEdgeInfo]:
    for mapping in lineage.mappings:
        yield ColumnEdgeInfo(
            target=mapping.target_column.name,
            sources=[column.name for column in mapping.source_columns],
            kind=str(mapping.transform_type),
            confidence=str(mapping.mapping_confidence),
            reason=mapping.reason,
        )
    for influence in lineage.influences or ():
        yield ColumnEdgeInfo(
            target=None,
            sources=[column.name for column in influence.source_columns],
            kind=str(influence.transform_type),
            confidence=str(lineage.confidence),
            reason=None,
        )


@lru_cache(maxsize=1_024)
def _time(micros: int | None) -> str | None:
    """The text of a time. One run uses many edges at one moment."""
    return None if micros is None else format_time(micros)
