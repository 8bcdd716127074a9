"""Walks through lineage: every table within reach once, whatever the graph, and limits that are told."""

from collections import deque
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.catalog._lineage import Direction, downstream_of, walk
from arco.catalog._names import Namer, resolve_table
from arco.core import Invalid, derive_ulid
from arco.domains.execution import MATERIALIZATION_COMPLETED, MaterializationCompleted
from arco.domains.lineage import (
    LINEAGE_RECORDED,
    AddLineageEdge,
    CaptureMethod,
    ColumnLineage,
    ColumnMapping,
    ColumnRef,
    Confidence,
    ConfidenceReason,
    EdgeRecord,
    LineageRecorded,
)
from arco.state import new_event
from arco.wire import LineageGraph
from tests.catalog.world import World, in_world

IDS: list[str] = [derive_ulid(1_000_000_000_000, f"table {number}") for number in range(8)]


async def nameless(id: str) -> tuple[str | None, bool]:
    return f"t{IDS.index(id)}", True


async def record(world: World, *edges: EdgeRecord) -> None:
    now = world.runtime.now()
    event = new_event(LINEAGE_RECORDED, LineageRecorded("run", "task", now, now, edges))
    await world.workspace.record("activity", [event], actor="worker")


async def walked(world: World, root: str, direction: Direction, depth: int, **options: Any) -> LineageGraph:
    found, position = await world.activity.read(lambda view: walk(view, root, direction, depth, nameless, **options))
    assert found.position == str(position)
    return found


def reachable(edges: set[tuple[int, int]], depth: int) -> tuple[dict[int, int], set[tuple[int, int]]]:
    """Hops from 0 along the edges, and the edges on the way, by the book."""
    hops, used, queue = {0: 0}, set(), deque([0])
    while queue:
        at = queue.popleft()
        if depth and hops[at] == depth:
            continue
        for source, target in edges:
            if source == at:
                used.add((source, target))
                if target not in hops:
                    hops[target] = hops[at] + 1
                    queue.append(target)
    return hops, used


Edges = st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=16)


@settings(max_examples=40, deadline=None)
@given(Edges, st.integers(0, 4))
def test_a_walk_finds_what_can_be_reached(edges: set[tuple[int, int]], depth: int) -> None:
    async def test(world: World) -> None:
        if edges:
            await record(world, *(EdgeRecord(IDS[source], IDS[target]) for source, target in sorted(edges)))
        down, down_edges = reachable(edges, depth)
        back, back_edges = reachable({(target, source) for source, target in edges}, depth)
        up, up_edges = {id: -hops for id, hops in back.items()}, {(target, source) for source, target in back_edges}
        for direction, wanted, passed in (("downstream", down, down_edges), ("upstream", up, up_edges)):
            found = await walked(world, IDS[0], direction, depth)  # type: ignore[arg-type]
            assert {node.id: node.distance for node in (found.root, *found.nodes)} == {
                IDS[id]: hops for id, hops in wanted.items()
            }
            assert {(edge.source_id, edge.target_id) for edge in found.edges} == {
                (IDS[source], IDS[target]) for source, target in passed
            }
            assert not found.truncated
        both = await walked(world, IDS[0], "both", depth)
        assert both.root.id == IDS[0]
        assert both.root.distance == 0
        nearest = {IDS[id]: min(abs(down.get(id, 99)), abs(up.get(id, 99))) for id in {*down, *up} - {0}}
        assert {node.id: abs(node.distance) for node in both.nodes} == nearest
        assert {(edge.source_id, edge.target_id) for edge in both.edges} == {
            (IDS[source], IDS[target]) for source, target in down_edges | up_edges
        }
        assert len({edge.id for edge in both.edges}) == len(both.edges)

    in_world(test)


def test_an_edge_tells_how_it_is_known() -> None:
    async def test(world: World) -> None:
        mapping = ColumnMapping(ColumnRef("total", "c2"), (ColumnRef("price", "c1"), ColumnRef("tax")))
        lineage = ColumnLineage(
            CaptureMethod.STATIC_ANALYSIS, Confidence.HIGH, ConfidenceReason.SQL_RESOLVED, 1.0, (mapping,)
        )
        await record(world, EdgeRecord(IDS[0], IDS[1], column_lineage=lineage))
        await world.decide(AddLineageEdge(IDS[1], IDS[2], owner="ann", description="by mail"), "activity")
        found = await walked(world, IDS[0], "downstream", 0)
        first, second = found.edges
        assert first.columns == {"c2": [f"{IDS[0]}/c1", f"{IDS[0]}/tax"]}
        assert (first.capture_method, first.confidence, first.coverage) == ("static_analysis", "high", 1.0)
        assert (first.recorded, first.manual, first.execution_count) == (True, False, 1)
        assert first.first_seen_at == first.last_seen_at is not None
        assert (second.recorded, second.manual, second.execution_count) == (False, True, 0)
        assert (second.owner, second.description, second.columns) == ("ann", "by mail", {})
        with pytest.raises(Invalid):
            await walked(world, IDS[0], "downstream", -1)

    in_world(test)


def test_limits_cut_a_walk_and_say_so() -> None:
    async def test(world: World) -> None:
        await record(world, *(EdgeRecord(IDS[0], id) for id in IDS[1:]))
        everything = await walked(world, IDS[0], "downstream", 0, max_nodes=7, max_edges=7)
        assert (len(everything.nodes), len(everything.edges), everything.truncated) == (7, 7, False)
        for limits in ({"max_nodes": 3}, {"max_edges": 3}):
            some = await walked(world, IDS[0], "downstream", 0, **limits)
            assert (len(some.nodes), len(some.edges), some.truncated) == (3, 3, True)
            ids = {some.root.id, *(node.id for node in some.nodes)}
            assert all({edge.source_id, edge.target_id} <= ids for edge in some.edges)
        await record(world, EdgeRecord(IDS[7], IDS[0]))
        both = await walked(world, IDS[0], "both", 1, max_nodes=6, max_edges=6)
        assert both.truncated
        assert {node.distance for node in both.nodes} == {1, -1}
        up = await walked(world, IDS[3], "upstream", 1, max_nodes=1, max_edges=1)
        assert ([node.id for node in up.nodes], up.truncated) == ([IDS[0]], False)

    in_world(test)


def test_tables_are_named_by_the_catalog() -> None:
    async def test(world: World) -> None:
        await world.namespace("s")
        ids = []
        for name in ("a", "b", "c"):
            await world.table(f"s.{name}")
            ids.append((await world.read(partial(resolve_table, ref=f"s.{name}"))).id)
        await record(world, EdgeRecord(ids[0], ids[1]), EdgeRecord(ids[0], ids[2]), EdgeRecord(ids[0], IDS[0]))
        await world.drop_table("s.c")
        catalog = await world.catalog.frozen()
        found = await walk(await world.activity.frozen(), ids[0], "downstream", 1, Namer(catalog))
        assert (found.root.name, found.root.exists) == ("s.a", True)
        named = {node.id: (node.name, node.exists) for node in found.nodes}
        assert named == {ids[1]: ("s.b", True), ids[2]: ("s.c", False), IDS[0]: (None, False)}
        assert set(await downstream_of(await world.activity.frozen(), ids[0])) == {ids[1], ids[2], IDS[0]}
        assert await downstream_of(await world.activity.frozen(), ids[1]) == []

    in_world(test)


SOURCES, TARGET = IDS[:3], IDS[7]
COLUMNS = ColumnLineage(CaptureMethod.STATIC_ANALYSIS, Confidence.HIGH, ConfidenceReason.SQL_RESOLVED, 1.0, ())


async def make(world: World, code: str, *edges: EdgeRecord, partition: str = "p") -> None:
    """A version of the target by some code, along these edges."""
    await world.runtime.sleep(1)
    now = world.runtime.now()
    version = MaterializationCompleted(
        materialization_id=derive_ulid(now // 1_000, partition),
        asset_id=TARGET,
        asset_key="n.target",
        partition_id=partition,
        partition_key="",
        run_id=f"run {now}",
        task_id="task",
        files=(),
        row_count=0,
        byte_size=0,
        schema_hash="",
        started_at=now,
        completed_at=now,
        code_version=code,
    )
    events = [new_event(MATERIALIZATION_COMPLETED, version)]
    if edges:
        events.append(new_event(LINEAGE_RECORDED, LineageRecorded(f"run {now}", "task", now, now, edges)))
    await world.workspace.record("activity", events, actor="worker")


def through(source: int, parameter: str = "given", code: str = "") -> EdgeRecord:
    """An edge to the target; one of Spark's has columns and says of which code they are."""
    columns = COLUMNS if code else None
    return EdgeRecord(SOURCES[source], TARGET, parameter, column_lineage=columns, code_version=code)


async def sources_now(world: World) -> set[int]:
    """What the target is made of now, which walks down from the sources and warnings agree on."""
    found = await walked(world, TARGET, "upstream", 0)
    now = {SOURCES.index(edge.source_id) for edge in found.edges}
    for number, source in enumerate(SOURCES):
        assert ([edge.target_id for edge in (await walked(world, source, "downstream", 0)).edges] != []) == (
            number in now
        )
        assert (await downstream_of(await world.activity.frozen(), source) != []) == (number in now)
    assert not any(edge.former for edge in found.edges)
    every = await walked(world, TARGET, "upstream", 0, former=True)
    assert {SOURCES.index(edge.source_id) for edge in every.edges if not edge.former} == now
    assert (len(every.edges) - len(now), every.former_count) == (found.former_count, 0)
    return now


def test_what_only_former_code_went_along_is_left_out() -> None:
    async def test(world: World) -> None:
        await make(world, "v1", through(0))
        assert await sources_now(world) == {0}
        await make(world, "v2", through(1))
        assert await sources_now(world) == {1}
        await make(world, "v3")
        assert await sources_now(world) == set()
        await make(world, "v1", through(0))
        assert await sources_now(world) == {0}

    in_world(test)


def test_the_same_code_may_go_along_other_edges_for_other_partitions() -> None:
    async def test(world: World) -> None:
        await make(world, "v1", through(0, code="v1"), partition="p")
        await make(world, "v1", through(1, code="v1"), partition="q")
        assert await sources_now(world) == {0, 1}
        await make(world, "v2", through(1, code="v2"), partition="q")
        assert await sources_now(world) == {1}
        await make(world, "v2", through(0, code="v2"), partition="p")
        assert await sources_now(world) == {0, 1}

    in_world(test)


def test_what_people_and_other_producers_say_is_never_former() -> None:
    async def test(world: World) -> None:
        await make(world, "v1", through(0, parameter=""))
        await world.decide(AddLineageEdge(SOURCES[1], TARGET), "activity")
        await make(world, "v2", through(2))
        assert await sources_now(world) == {0, 1, 2}
        await make(world, "")  # nobody knows by which code
        assert await sources_now(world) == {0, 1, 2}

    in_world(test)


def test_columns_of_former_code_are_left_out_where_the_newest_tells_none() -> None:
    async def test(world: World) -> None:
        async def method() -> str | None:
            return (await walked(world, TARGET, "upstream", 0)).edges[0].capture_method

        await make(world, "v1", through(0, code="v1"))
        assert await method() == "static_analysis"
        await make(world, "v1", through(0))
        assert await method() == "static_analysis"
        await make(world, "v2", through(0))
        assert await method() is None
        await make(world, "v2", through(0, code="v2"))
        assert await method() == "static_analysis"

    in_world(test)
