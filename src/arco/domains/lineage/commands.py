"""Commands of lineage: edges by hand. They touch nothing that tasks reported.

The log `activity` does not know which assets exist: whoever asks resolves names to ids in the catalog first.
"""

from collections import Counter
from typing import Annotated

import msgspec

from arco.core import Invalid, NotFound, Refused, parse_ulid, shown
from arco.domains.lineage.columns import ColumnMapping, ColumnRef, annotated
from arco.domains.lineage.events import (
    LINEAGE_EDGE_ADDED,
    LINEAGE_EDGE_DROPPED,
    LINEAGE_EDGES_EXPIRED,
    MAX_EDGES,
    EdgeRef,
    LineageEdgeAdded,
    LineageEdgeDropped,
    LineageEdgesExpired,
    manual_edge_id,
)
from arco.domains.lineage.tables import (
    LINEAGE_EDGES,
    LINEAGE_IDS,
    LINEAGE_METADATA,
    EdgeIdRow,
    EdgeMetadata,
    LineageEdge,
)
from arco.log import Instant, NewEvent
from arco.state import Decider, Decision, View, new_event

__all__ = ["COMMANDS", "AddLineageEdge", "DropLineageEdge", "ExpireLineageEdges", "last_touched"]


class AddLineageEdge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Adds the manual edge between two assets, or replaces what was said of it by hand."""

    source_id: str
    target_id: str
    columns: tuple[ColumnMapping, ...] = ()
    unmapped_columns: tuple[ColumnRef, ...] = ()
    """Columns of the target of which it is not known what makes them."""
    owner: str | None = None
    description: str | None = None


class DropLineageEdge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Drops what was added by hand: named by the edge's id, or by its source and its target."""

    edge_id: str = ""
    source_id: str = ""
    target_id: str = ""


class ExpireLineageEdges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lets go of edges of assets that are gone; those that were used or changed since a time stay.

    Whoever asks has seen in the catalog that the assets are gone: this log does not know.
    """

    edges: Annotated[tuple[EdgeRef, ...], msgspec.Meta(min_length=1, max_length=MAX_EDGES)]
    before: Instant


def last_touched(edge: LineageEdge, about: EdgeMetadata | None) -> int:
    """When the log last heard of an edge: of a use, or of what somebody said by hand."""
    return edge.updated_at if about is None else max(edge.updated_at, about.updated_at)


async def _add(command: AddLineageEdge, view: View, decision: Decision) -> list[NewEvent]:
    source, target = parse_ulid(command.source_id), parse_ulid(command.target_id)
    if source == target:
        raise Invalid(f"an edge from {source} to itself says nothing; name two assets")
    _check_columns(command)
    lineage = annotated(command.columns, command.unmapped_columns)
    edge = manual_edge_id(source, target)
    row: LineageEdge | None = await view.get(LINEAGE_EDGES, source, edge)
    if row is not None and row.manual and row.manual_lineage == lineage:
        about: EdgeMetadata = await view.get(LINEAGE_METADATA, source, edge)
        if (about.owner, about.description) == (command.owner, command.description):
            return []
    event = LineageEdgeAdded(source, target, lineage, command.owner, command.description)
    return [new_event(LINEAGE_EDGE_ADDED, event, subject=edge)]


def _check_columns(command: AddLineageEdge) -> None:
    named = [*(mapping.target_column.name for mapping in command.columns), *(c.name for c in command.unmapped_columns)]
    if len(set(named)) < len(named):
        twice, _ = Counter(named).most_common(1)[0]
        raise Invalid(f"the column {shown(twice)} of the target is named twice; give all its sources in one mapping")
    for mapping in command.columns:
        if not mapping.source_columns:
            raise Invalid(
                f"the column {shown(mapping.target_column.name)} has no source column; name one, or list it as unmapped"
            )


async def _drop(command: DropLineageEdge, view: View, decision: Decision) -> list[NewEvent]:
    edge = await _find(command, view)
    if not edge.manual:
        raise Refused(
            f"the edge {edge.edge_id} was reported by tasks and not added by hand, so it cannot be dropped; it "
            "tells what happened"
        )
    event = LineageEdgeDropped(edge.source_id, edge.target_id)
    return [new_event(LINEAGE_EDGE_DROPPED, event, subject=edge.edge_id)]


async def _find(command: DropLineageEdge, view: View) -> LineageEdge:
    """The edge a command names; where it is, its id alone does not say, so an index does."""
    ends = (command.source_id, command.target_id)
    if bool(command.edge_id) == any(ends) or (any(ends) and not all(ends)):
        raise Invalid("name the edge by its id, or by its source and its target")
    source, edge = command.source_id, command.edge_id
    named = f"no edge {shown(edge)}" if edge else f"no manual edge from {shown(ends[0])} to {shown(ends[1])}"
    if edge:
        where: EdgeIdRow | None = await view.get(LINEAGE_IDS, edge, edge)
        source = where.source_id if where is not None else ""
    else:
        edge = manual_edge_id(*ends)
    row: LineageEdge | None = await view.get(LINEAGE_EDGES, source, edge)
    if row is None:
        raise NotFound(f"there is {named}; list the lineage of one of its ends to see what there is")
    return row


async def _expire(command: ExpireLineageEdges, view: View, decision: Decision) -> list[NewEvent]:
    if command.before > decision.received:
        raise Refused("edges cannot expire before their time; give one that has passed")
    gone = []
    for ref in dict.fromkeys(command.edges):
        edge: LineageEdge | None = await view.get(LINEAGE_EDGES, ref.source_id, ref.edge_id)
        about: EdgeMetadata | None = await view.get(LINEAGE_METADATA, ref.source_id, ref.edge_id)
        if edge is not None and last_touched(edge, about) < command.before:
            gone.append(ref)
    if not gone:
        return []
    subject = gone[0].edge_id if len(gone) == 1 else ""
    return [new_event(LINEAGE_EDGES_EXPIRED, LineageEdgesExpired(tuple(gone), command.before), subject=subject)]


COMMANDS: dict[str, tuple[type[msgspec.Struct], Decider]] = {
    "AddLineageEdge": (AddLineageEdge, _add),
    "DropLineageEdge": (DropLineageEdge, _drop),
    "ExpireLineageEdges": (ExpireLineageEdges, _expire),
}
