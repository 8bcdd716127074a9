"""Events of lineage: what a task read and wrote, told by whoever ran it, and edges that people add by hand.

An edge is one dependency between two assets: the same assets through another parameter, partition mapping or transform
are another edge. Nobody sends ids of edges; they follow from these four. A manual edge has none of the last three.
"""

from functools import lru_cache
from typing import Annotated, NamedTuple

import msgspec

from arco.core import AssetId, Ulid, dependency_fingerprint, edge_id, fingerprint
from arco.domains.lineage.columns import ColumnLineage
from arco.log import EventType, Instant, unchanged

__all__ = [
    "EVENTS",
    "LINEAGE_EDGES_EXPIRED",
    "LINEAGE_EDGE_ADDED",
    "LINEAGE_EDGE_DROPPED",
    "LINEAGE_RECORDED",
    "MAX_EDGES",
    "EdgeIdentity",
    "EdgeRecord",
    "EdgeRef",
    "LineageEdgeAdded",
    "LineageEdgeDropped",
    "LineageEdgesExpired",
    "LineageRecorded",
    "PartitionRef",
    "execution_id",
    "identify",
    "manual_edge_id",
]

Id = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]

MAX_EDGES = 1_000
"""Edges in one event. Whoever records a task by itself tells more in several, and each edge counts once all the same;
a task of Arco's ends by one event, which has no room for more."""


class EdgeIdentity(NamedTuple):
    edge_id: str
    dependency_fingerprint: str


class PartitionRef(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    partition_id: Id
    partition_key: str = ""


class EdgeRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What a task took from one source for one target."""

    source_id: Id
    target_id: Id
    parameter: str = ""
    partition_mapping: str = ""
    transform_fingerprint: str = ""
    source_materializations: tuple[Id, ...] = ()
    target_materialization: str | None = None
    source_partitions: tuple[PartitionRef, ...] = ()
    target_partitions: tuple[PartitionRef, ...] = ()
    rows_read: Count | None = None
    rows_written: Count | None = None
    column_lineage: ColumnLineage | None = None
    code_version: str = ""
    """Of the target, when the task ran; empty if nobody says. Then columns are what that code makes them of."""

    @property
    def dependency(self) -> tuple[str, str, str, str, str]:
        return self.source_id, self.target_id, self.parameter, self.partition_mapping, self.transform_fingerprint


class LineageRecorded(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The edges a task went along. Told again for the same run, task and edge it changes nothing, so times must not
    differ then."""

    run_id: Id
    task_id: Id
    started_at: Instant
    completed_at: Instant
    edges: Annotated[tuple[EdgeRecord, ...], msgspec.Meta(min_length=1, max_length=MAX_EDGES)]

    def __post_init__(self) -> None:
        if len({edge.dependency for edge in self.edges}) < len(self.edges):
            raise ValueError("an edge is listed twice; put all its partitions and materializations into one record")


class LineageEdgeAdded(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A manual edge, as a whole: it replaces what was said by hand of the same two assets before."""

    source_id: str
    target_id: str
    column_lineage: ColumnLineage | None = None
    owner: str | None = None
    description: str | None = None


class LineageEdgeDropped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source_id: str
    target_id: str


class EdgeRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    source_id: Id
    edge_id: Id


class LineageEdgesExpired(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Edges of assets that are gone, which nobody used or changed since a time. One that was used after all stays."""

    edges: Annotated[tuple[EdgeRef, ...], msgspec.Meta(min_length=1, max_length=MAX_EDGES)]
    before: Instant


# Every run goes along the same edges again, and two hashes of canonical JSON are a third of folding a use.
@lru_cache(maxsize=65_536)
def identify(
    source_id: str, target_id: str, parameter: str = "", partition_mapping: str = "", transform_fingerprint: str = ""
) -> EdgeIdentity:
    """The id of an edge and the fingerprint of the dependency it stands for."""
    source, target = AssetId(Ulid(source_id)), AssetId(Ulid(target_id))
    dependency = dependency_fingerprint(
        source, target, partition_mapping=partition_mapping, transform=transform_fingerprint, parameter=parameter
    )
    return EdgeIdentity(edge_id(source, target, dependency), dependency)


def manual_edge_id(source_id: str, target_id: str) -> str:
    """The id of the edge that people may add between two assets."""
    return identify(source_id, target_id).edge_id


def execution_id(run_id: str, task_id: str, edge: str) -> str:
    return f"exec_{fingerprint([run_id, task_id, edge])[:32]}"


LINEAGE_RECORDED = EventType(
    "LineageRecorded", LineageRecorded, 2, {1: unchanged}, recordable=True, time=lambda event: event.completed_at
)
LINEAGE_EDGE_ADDED = EventType(
    "LineageEdgeAdded", LineageEdgeAdded, 2, {1: unchanged}, audit=("AddLineageEdge", "lineage_edge")
)
LINEAGE_EDGE_DROPPED = EventType("LineageEdgeDropped", LineageEdgeDropped, audit=("DropLineageEdge", "lineage_edge"))
LINEAGE_EDGES_EXPIRED = EventType(
    "LineageEdgesExpired", LineageEdgesExpired, audit=("ExpireLineageEdges", "lineage_edge")
)

EVENTS = (LINEAGE_RECORDED, LINEAGE_EDGE_ADDED, LINEAGE_EDGE_DROPPED, LINEAGE_EDGES_EXPIRED)
