"""Lineage: the same graph in whatever order and however often tasks tell of it; edges by hand beside it."""

import asyncio
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import HOUR, Invalid, NotFound, Refused, day_of
from arco.domains.lineage import (
    LINEAGE,
    LINEAGE_EDGES,
    LINEAGE_EXECUTION_DAYS,
    LINEAGE_EXECUTIONS,
    LINEAGE_IDS,
    LINEAGE_METADATA,
    LINEAGE_UPSTREAM,
    AddLineageEdge,
    CaptureMethod,
    ColumnLineage,
    ColumnMapping,
    ColumnRef,
    Confidence,
    ConfidenceReason,
    DropLineageEdge,
    EdgeRecord,
    EdgeRef,
    ExpireLineageEdges,
    LineageRecorded,
    PartitionRef,
    TransformType,
    manual_edge_id,
)
from arco.log import Event
from arco.state import REJECTIONS, Replica, define_log
from arco.storage import MemoryStore
from tests.domains.decider import Decider, deciding
from tests.doubles import START, FakeRuntime, run
from tests.state.doubles import Journal, cut, digests, event, open_node, replica_of, rows_of, segments_of

LOG = define_log("activity", [LINEAGE])
A, B, C = (f"01JCR4T8K3M9ZQ2XW5V7B6N0P{letter}" for letter in "ABC")
BY_HAND = ColumnMapping(ColumnRef("total"), (ColumnRef("price", "c1"), ColumnRef("tax")), TransformType.AGGREGATE)


def columns(method: CaptureMethod, name: str = "x") -> ColumnLineage:
    mapping = ColumnMapping(ColumnRef(name, "id"), (ColumnRef("s"),), TransformType.CAST, Confidence.MEDIUM)
    return ColumnLineage(method, Confidence.HIGH, ConfidenceReason.MIXED, 0.5, (mapping,), (ColumnRef("y"),))


def used(
    *edges: EdgeRecord, run: str = "r1", task: str = "t1", time: int = START, source: str = A, target: str = B
) -> Event:
    payload = LineageRecorded(run, task, time - 5, time, edges or (EdgeRecord(source, target),))
    return event("LineageRecorded", payload)


def retention(before: int) -> Event:
    return event("RetentionAdvanced", {"table": LINEAGE_EXECUTIONS.name, "before": before}, command="AdvanceRetention")


async def folded(*events: Event) -> Replica:
    return await replica_of(LOG, [segments_of([[item] for item in events])])


async def state(*events: Event) -> dict[str, list[dict[str, Any]]]:
    """All tables, as told in one segment: when rows were made and changed is when the segment was received."""
    replica = await replica_of(LOG, [segments_of([list(events)])])
    return {table.name: await rows_of(replica, table) for table in LINEAGE.tables}


def test_an_edge_has_its_three_layers_and_two_indexes() -> None:
    record = EdgeRecord(
        A,
        B,
        parameter="orders",
        partition_mapping="identity",
        transform_fingerprint="f1",
        source_materializations=("m1", "m2"),
        target_materialization="m3",
        source_partitions=(PartitionRef("p1", "date=d:2026-01-01"),),
        target_partitions=(PartitionRef("p2"),),
        rows_read=10,
        rows_written=9,
        column_lineage=columns(CaptureMethod.STATIC_ANALYSIS),
    )

    async def main() -> None:
        tables = await state(used(record))
        (edge,) = tables["lineage_edges"]
        assert (edge["source_id"], edge["target_id"], edge["parameter"]) == (A, B, "orders")
        assert (edge["partition_mapping"], edge["transform_fingerprint"]) == ("identity", "f1")
        assert (edge["manual"], edge["recorded"]) == (False, True)
        assert edge["column_lineage"] == edge["recorded_lineage"]
        assert edge["column_lineage"]["mappings"][0]["transform_type"] == "CAST"
        assert edge["column_lineage"]["unmapped_columns"] == [{"name": "y", "column_id": None}]
        (about,) = tables["lineage_metadata"]
        assert (about["edge_id"], about["execution_count"]) == (edge["edge_id"], 1)
        assert (about["first_seen_run"], about["last_seen_run"]) == ("r1", "r1")
        (use,) = tables["lineage_executions"]
        assert (use["edge_id"], use["run_id"], use["task_id"]) == (edge["edge_id"], "r1", "t1")
        assert use["source_materializations"] == ["m1", "m2"]
        assert use["source_partitions"] == [{"partition_id": "p1", "partition_key": "date=d:2026-01-01"}]
        assert (use["target_materialization"], use["rows_read"], use["rows_written"]) == ("m3", 10, 9)
        assert tables["lineage_upstream"] == [
            {"target_id": B, "edge_id": edge["edge_id"], "source_id": A, "manual": False, "recorded": True}
        ]
        assert tables["lineage_ids"] == [{"edge_id": edge["edge_id"], "source_id": A, "target_id": B}]

    asyncio.run(main())


def test_another_parameter_mapping_or_transform_is_another_edge() -> None:
    records = [EdgeRecord(A, B), EdgeRecord(A, B, "p"), EdgeRecord(A, B, "", "p"), EdgeRecord(A, B, "", "", "p")]

    async def main() -> None:
        replica = await folded(used(*records, EdgeRecord(B, A)))
        assert len(await replica.rows(LINEAGE_EDGES, A)) == len(await replica.rows(LINEAGE_UPSTREAM, B)) == 4
        assert [edge.target_id for edge in await replica.rows(LINEAGE_EDGES, B)] == [A]

    asyncio.run(main())


def test_an_asset_that_reads_itself_has_an_edge_to_itself() -> None:
    async def main() -> None:
        replica = await folded(used(source=A, target=A))
        (edge,) = await replica.rows(LINEAGE_EDGES, A)
        (up,) = await replica.rows(LINEAGE_UPSTREAM, A)
        assert edge.edge_id == up.edge_id
        assert edge.source_id == edge.target_id == up.source_id == A

    asyncio.run(main())


def test_first_and_last_use_go_by_the_time_of_the_tasks_and_equal_times_by_position() -> None:
    async def metadata(*events: Event) -> tuple[Any, ...]:
        replica = await folded(*events)
        (row,) = await replica.rows(LINEAGE_METADATA, A)
        return row.first_seen_run, row.first_seen_at, row.last_seen_run, row.last_seen_at, row.execution_count

    async def main() -> None:
        told = [used(run=f"r{n}", time=START + n) for n in range(3)]
        for order in permutations(told):
            assert await metadata(*order) == ("r0", START, "r2", START + 2, 3)
        one, two = used(run="one"), used(run="two")
        assert await metadata(one, two) == ("one", START, "two", START, 2)
        assert await metadata(two, one) == ("two", START, "one", START, 2)

    asyncio.run(main())


def test_a_use_told_again_changes_nothing_and_the_first_telling_counts() -> None:
    async def main() -> None:
        once = await folded(used(EdgeRecord(A, B, rows_read=1)))
        again = await folded(used(EdgeRecord(A, B, rows_read=1)), used(EdgeRecord(A, B, rows_read=2), time=START + 9))
        assert await digests(LOG, again) == await digests(LOG, once)

    asyncio.run(main())


def test_uses_that_expired_stay_counted_and_are_not_counted_again() -> None:
    async def main() -> None:
        old, new = used(run="old"), used(run="new", time=START + 9)
        replica = await folded(old, new, retention(START + 5), old, used(run="late", time=START + 1), new)
        (row,) = await replica.rows(LINEAGE_METADATA, A)
        assert (row.execution_count, row.first_seen_run, row.last_seen_run) == (2, "old", "new")
        assert [use["run_id"] for use in await rows_of(replica, LINEAGE_EXECUTIONS)] == ["new"]
        assert [row["reason"] for row in await rows_of(replica, REJECTIONS)] == [
            "older than the retention of lineage_executions"
        ] * 2
        assert len(await replica.rows(LINEAGE_EDGES, A)) == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("weak", "strong"),
    [
        (CaptureMethod.STATIC_ANALYSIS, CaptureMethod.ANNOTATION),
        (CaptureMethod.PLAN_INTROSPECTION, CaptureMethod.ANNOTATION),
        (CaptureMethod.SCHEMA_DIFF, CaptureMethod.STATIC_ANALYSIS),
        (CaptureMethod.SCHEMA_DIFF, CaptureMethod.PLAN_INTROSPECTION),
        (CaptureMethod.RUNTIME_TRACING, CaptureMethod.SCHEMA_DIFF),
    ],
)
def test_the_stronger_capture_of_columns_holds_whenever_it_is_told(weak: CaptureMethod, strong: CaptureMethod) -> None:
    async def main() -> None:
        for later in (weak, strong):
            told = [
                used(EdgeRecord(A, B, column_lineage=columns(method)), run=method, time=START + (method == later))
                for method in (weak, strong)
            ]
            for order in permutations(told):
                replica = await folded(*order)
                (edge,) = await replica.rows(LINEAGE_EDGES, A)
                assert edge.column_lineage == edge.recorded_lineage == columns(strong)

    asyncio.run(main())


def test_of_equally_strong_captures_the_newer_holds_and_a_use_without_one_keeps_it() -> None:
    method = CaptureMethod.STATIC_ANALYSIS

    async def main() -> None:
        told = [
            used(EdgeRecord(A, B, column_lineage=columns(method, "old")), run="r1", time=START),
            used(
                EdgeRecord(A, B, column_lineage=columns(CaptureMethod.PLAN_INTROSPECTION, "new")),
                run="r2",
                time=START + 1,
            ),
            used(run="r3", time=START + 2),
        ]
        for order in permutations(told):
            (edge,) = await (await folded(*order)).rows(LINEAGE_EDGES, A)
            assert edge.column_lineage.mappings[0].target_column.name == "new"
            assert edge.recorded_lineage_at == START + 1

    asyncio.run(main())


def test_of_captures_that_name_their_code_the_newest_holds_whatever_it_is() -> None:
    """What an author no longer says is gone with the next run, and nobody else's word outdoes that of the code."""
    said, planned = CaptureMethod.ANNOTATION, CaptureMethod.PLAN_INTROSPECTION

    async def main() -> None:
        told = [
            used(EdgeRecord(A, B, column_lineage=columns(said, "old"), code_version="1"), run="r1", time=START),
            used(EdgeRecord(A, B, column_lineage=columns(planned, "new"), code_version="2"), run="r2", time=START + 1),
            used(EdgeRecord(A, B, column_lineage=columns(said, "other")), run="r3", time=START + 2),
        ]
        for order in permutations(told):
            (edge,) = await (await folded(*order)).rows(LINEAGE_EDGES, A)
            assert edge.column_lineage.mappings[0].target_column.name == "new"
            assert (edge.recorded_lineage_at, edge.recorded_lineage_code) == (START + 1, "2")

    asyncio.run(main())


def test_an_edge_changes_only_when_the_graph_does() -> None:
    async def main() -> None:
        once = await folded(used())
        often = await folded(used(), *(used(run=f"r{n}", time=START + n) for n in range(2, 9)))
        for table in (LINEAGE_EDGES, LINEAGE_UPSTREAM, LINEAGE_IDS):
            assert (await once.scan(table)).equals(await often.scan(table))

    asyncio.run(main())


METHODS = st.sampled_from(CaptureMethod)
RECORDS = st.builds(
    lambda source, target, parameter, lineage: EdgeRecord(source, target, parameter, column_lineage=lineage),
    st.sampled_from([A, B]),
    st.sampled_from([A, B, C]),
    st.sampled_from(["", "p"]),
    st.none() | METHODS.map(columns),
)
EDGES = st.lists(RECORDS, min_size=1, max_size=4, unique_by=lambda record: record.dependency)
TOLD = st.lists(EDGES, min_size=1, max_size=6).map(
    lambda runs: [used(*edges, run=f"r{n}", time=START + n) for n, edges in enumerate(runs)]
)
"""Every use at a time of its own: of two at one time the position decides which is the first and the last."""


@settings(deadline=None, max_examples=60)
@given(TOLD, st.data())
def test_order_and_repetition_do_not_matter(told: list[Event], data: st.DataObject) -> None:
    repeated = data.draw(st.permutations(told + data.draw(st.lists(st.sampled_from(told), max_size=4))))

    async def main() -> None:
        assert await state(*repeated) == await state(*told)

    asyncio.run(main())


ANYTHING = st.one_of(
    st.builds(lambda edges, n: used(*edges, run=f"r{n}", time=START + n), EDGES, st.integers(0, 5)),
    st.builds(lambda n: retention(START + n), st.integers(0, 4)),
    st.builds(
        lambda source, target, lineage: event(
            "LineageEdgeAdded",
            {"source_id": source, "target_id": target, "column_lineage": lineage},
            command="AddLineageEdge",
        ),
        st.sampled_from([A, B]),
        st.sampled_from([B, C]),
        st.none() | METHODS.map(columns),
    ),
    st.builds(
        lambda source, target: event(
            "LineageEdgeDropped", {"source_id": source, "target_id": target}, command="DropLineageEdge"
        ),
        st.sampled_from([A, B]),
        st.sampled_from([B, C]),
    ),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(ANYTHING, min_size=1, max_size=12), st.lists(st.integers(1, 4), max_size=6))
def test_any_history_folds_alike_in_any_batches_and_keeps_the_layers_together(
    history: list[Event], sizes: list[int]
) -> None:
    async def main() -> None:
        segments = segments_of(cut(history, sizes))
        whole = await replica_of(LOG, [segments])
        steps = await replica_of(LOG, [[segment] for segment in segments])
        assert await digests(LOG, steps) == await digests(LOG, whole)
        edges = await rows_of(whole, LINEAGE_EDGES)
        about = {row["edge_id"]: row for row in await rows_of(whole, LINEAGE_METADATA)}
        assert {edge["edge_id"] for edge in edges} == set(about)
        assert {edge["edge_id"] for edge in edges} == {row["edge_id"] for row in await rows_of(whole, LINEAGE_IDS)}
        upstream = {row.pop("edge_id"): row for row in await rows_of(whole, LINEAGE_UPSTREAM)}
        shown = ("target_id", "source_id", "manual", "recorded")
        assert upstream == {edge["edge_id"]: {name: edge[name] for name in shown} for edge in edges}
        for edge in edges:
            assert edge["manual"] or edge["recorded"]
            assert edge["recorded"] == (about[edge["edge_id"]]["execution_count"] > 0)
            assert edge["column_lineage"] == (edge["manual_lineage"] or edge["recorded_lineage"])

    asyncio.run(main())


def test_a_refold_of_the_published_log_gives_the_same_tables_and_keeps_what_was_added_by_hand() -> None:
    added = event("LineageEdgeAdded", {"source_id": B, "target_id": C, "owner": "me"}, command="AddLineageEdge")

    async def main() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        node, journal = await open_node(runtime, store, LOG), Journal(store, runtime)
        lineage = columns(CaptureMethod.SCHEMA_DIFF)
        for item in (used(EdgeRecord(A, B, column_lineage=lineage)), added, used(run="r2", time=START + 1)):
            await journal.append(item)
            await node.publish()
        await runtime.sleep(1)
        # A process that starts here reads rows from files before it folds on.
        fresh = await open_node(runtime, store, LOG)
        (edge,) = await fresh.replica.rows(LINEAGE_EDGES, A)
        assert edge.column_lineage == lineage
        await journal.append(used(EdgeRecord(A, B, column_lineage=lineage), run="r3", time=START + 2))
        await fresh.publish()
        before = await fresh.digests()
        await fresh.compactor.rebuild()
        assert await fresh.digests() == before
        (kept,) = await fresh.replica.rows(LINEAGE_EDGES, B)
        assert kept.manual

    run(main())


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ({"edges": []}, "length >= 1"),
        ({"edges": [{"source_id": A, "target_id": f"t{n}"} for n in range(1_001)]}, "length <= 1000"),
        ({"edges": [{"source_id": A, "target_id": B}] * 2}, "an edge is listed twice"),
        ({"edges": [{"source_id": "", "target_id": B}]}, "length >= 1"),
        ({"edges": [{"source_id": A, "target_id": B, "edge_id": "e"}]}, "unknown field `edge_id`"),
        ({"edges": [{"source_id": A, "target_id": B, "rows_read": -1}]}, ">= 0"),
        ({"run_id": ""}, "length >= 1"),
        ({"completed_at": -1}, ">= 0"),
    ],
)
def test_lineage_that_cannot_be_is_refused_at_the_door(payload: dict[str, Any], why: str) -> None:
    whole = {
        "run_id": "r",
        "task_id": "t",
        "started_at": 1,
        "completed_at": 2,
        "edges": [{"source_id": A, "target_id": B}],
        **payload,
    }
    with pytest.raises(Invalid, match=why):
        LOG.registry.decode("LineageRecorded", 1, event("LineageRecorded", whole).data)


@pytest.mark.parametrize(
    ("field", "value"),
    [("capture_method", "guess"), ("confidence", "sure"), ("confidence_reason", "x"), ("coverage", 1.5)],
)
def test_column_lineage_uses_known_words(field: str, value: object) -> None:
    lineage = {
        "capture_method": "annotation",
        "confidence": "high",
        "confidence_reason": "mixed",
        "coverage": 1.0,
        "mappings": [],
    }
    edge = {"source_id": A, "target_id": B, "column_lineage": lineage}
    payload = {"run_id": "r", "task_id": "t", "started_at": 1, "completed_at": 2, "edges": [edge]}
    assert LOG.registry.decode("LineageRecorded", 1, event("", payload).data).edges[0].column_lineage.coverage == 1
    edge["column_lineage"] = {**lineage, field: value}
    with pytest.raises(Invalid):
        LOG.registry.decode("LineageRecorded", 1, event("", payload).data)


# Edges by hand


def test_an_edge_is_added_and_dropped_by_hand() -> None:
    async def test(decider: Decider) -> None:
        unmapped = (ColumnRef("note"),)
        await decider.decide(AddLineageEdge(A, B, (BY_HAND,), unmapped, owner="me", description="by mail"))
        edge = await decider.replica.get(LINEAGE_EDGES, A, manual_edge_id(A, B))
        assert (edge.manual, edge.recorded) == (True, False)
        assert (
            edge.column_lineage
            == edge.manual_lineage
            == ColumnLineage(
                CaptureMethod.ANNOTATION, Confidence.HIGH, ConfidenceReason.USER_OVERRIDE, 0.5, (BY_HAND,), unmapped
            )
        )
        about = await decider.replica.get(LINEAGE_METADATA, A, edge.edge_id)
        assert (about.owner, about.description, about.execution_count) == ("me", "by mail", 0)
        assert (about.first_seen_run, about.last_seen_at) == (None, None)
        await decider.decide(DropLineageEdge(source_id=A, target_id=B))
        for table in LINEAGE.tables:
            assert await decider.rows(table) == []

    deciding(LOG, test)


def test_adding_again_replaces_and_adding_the_same_changes_nothing() -> None:
    async def test(decider: Decider) -> None:
        await decider.decide(AddLineageEdge(A, B, (BY_HAND,), owner="me"))
        assert await decider.decide(AddLineageEdge(A, B, (BY_HAND,), owner="me")) == []
        for command in (AddLineageEdge(A, B, owner="me"), AddLineageEdge(A, B, owner="you")):
            assert len(await decider.decide(command)) == 1
        (edge,) = await decider.rows(LINEAGE_EDGES)
        (about,) = await decider.rows(LINEAGE_METADATA)
        assert (edge["column_lineage"], about["owner"]) == (None, "you")

    deciding(LOG, test)


def test_an_edge_that_tasks_use_too_loses_only_what_was_said_by_hand() -> None:
    reported = columns(CaptureMethod.RUNTIME_TRACING)

    async def test(decider: Decider) -> None:
        await decider.append(used(EdgeRecord(A, B, column_lineage=reported)))
        await decider.decide(AddLineageEdge(A, B, (BY_HAND,), owner="me"))
        await decider.append(used(EdgeRecord(A, B, column_lineage=reported), run="r2", time=START + 1))
        edge = await decider.replica.get(LINEAGE_EDGES, A, manual_edge_id(A, B))
        assert (edge.manual, edge.recorded, edge.recorded_lineage) == (True, True, reported)
        assert edge.column_lineage.mappings == (BY_HAND,)
        (up,) = await decider.rows(LINEAGE_UPSTREAM)
        assert (up["manual"], up["recorded"]) == (True, True)
        await decider.decide(DropLineageEdge(edge_id=edge.edge_id))
        edge = await decider.replica.get(LINEAGE_EDGES, A, edge.edge_id)
        assert (edge.manual, edge.recorded, edge.column_lineage, edge.manual_lineage) == (False, True, reported, None)
        about = await decider.replica.get(LINEAGE_METADATA, A, edge.edge_id)
        assert (about.owner, about.execution_count) == (None, 2)
        (up,) = await decider.rows(LINEAGE_UPSTREAM)
        assert (up["manual"], up["recorded"]) == (False, True)
        for command in (DropLineageEdge(edge_id=edge.edge_id), DropLineageEdge("", A, B)):
            with pytest.raises(Refused, match="was reported by tasks and not added by hand"):
                await decider.decide(command)

    deciding(LOG, test)


def test_edges_by_hand_that_cannot_be_are_refused() -> None:
    async def test(decider: Decider) -> None:
        wrong = [
            (AddLineageEdge(A, A), "to itself says nothing"),
            (AddLineageEdge("orders", B), "not a ULID"),
            (AddLineageEdge(A, ""), "not a ULID"),
            (AddLineageEdge(A, B, (BY_HAND, BY_HAND)), "'total' of the target is named twice"),
            (AddLineageEdge(A, B, (BY_HAND,), (ColumnRef("total"),)), "'total' of the target is named twice"),
            (AddLineageEdge(A, B, (ColumnMapping(ColumnRef("x"), ()),)), "'x' has no source column"),
            (AddLineageEdge(A, B, (ColumnMapping(ColumnRef(""), (ColumnRef("x"),)),)), "does not fit"),
        ]
        for command, why in wrong:
            with pytest.raises(Invalid, match=why):
                await decider.decide(command)
        assert decider.batches == []

    deciding(LOG, test)


def test_a_drop_names_one_edge_that_exists() -> None:
    async def test(decider: Decider) -> None:
        await decider.decide(AddLineageEdge(A, B))
        for unclear in (
            DropLineageEdge(),
            DropLineageEdge("e", A, B),
            DropLineageEdge("", A),
            DropLineageEdge("", "", B),
            DropLineageEdge("e", A),
        ):
            with pytest.raises(Invalid, match="by its id, or by its source and its target"):
                await decider.decide(unclear)
        for unknown in (DropLineageEdge("edge_0"), DropLineageEdge("", B, A), DropLineageEdge("", "x", "y")):
            with pytest.raises(NotFound, match="there is no"):
                await decider.decide(unknown)
        assert len(await decider.rows(LINEAGE_EDGES)) == 1

    deciding(LOG, test)


def test_what_is_said_by_hand_is_as_sure_as_its_least_sure_mapping() -> None:
    def mapping(name: str, confidence: Confidence) -> ColumnMapping:
        return ColumnMapping(ColumnRef(name), (ColumnRef("s"),), mapping_confidence=confidence)

    async def test(decider: Decider) -> None:
        high, medium, low = (mapping(confidence, confidence) for confidence in Confidence)
        for given_columns, confidence, coverage in (
            ((high,), "high", 1.0),
            ((high, medium), "medium", 1.0),
            ((medium, low, high), "low", 2 / 3),
            ((), "low", 0.0),
        ):
            await decider.decide(AddLineageEdge(A, B, given_columns, () if given_columns else (ColumnRef("z"),)))
            (edge,) = await decider.rows(LINEAGE_EDGES)
            assert (edge["column_lineage"]["confidence"], edge["column_lineage"]["coverage"]) == (confidence, coverage)

    deciding(LOG, test)


# Days, and edges that go


USES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 72), st.none() | st.integers(0, 5)),
    max_size=8,
    unique_by=lambda use: use[0],
)
"""Numbers of runs, each with its hour and the rows it read."""


def use_of(number: int, hours: int, rows: int | None) -> Event:
    return used(EdgeRecord(A, B, rows_read=rows), run=f"r{number}", time=START + hours * HOUR)


@settings(deadline=None, max_examples=30)
@given(USES, USES, st.integers(0, 72), st.lists(st.integers(1, 4), max_size=6), st.data())
def test_a_day_has_every_use_once_that_was_told_before_it_expired(
    early: list[tuple[int, int, int | None]],
    late: list[tuple[int, int, int | None]],
    hours: int,
    sizes: list[int],
    data: st.DataObject,
) -> None:
    known = {one[0]: one for one in early}
    late = [known.get(one[0], one) for one in late]
    before, after = data.draw(st.permutations(early + early)), data.draw(st.permutations(late + early))
    wanted: dict[str, list[tuple[int, int, int | None]]] = {}
    for one in {*early, *(one for one in late if one[1] >= hours)}:
        wanted.setdefault(day_of(START + one[1] * HOUR), []).append(one)
    history = [*(use_of(*one) for one in before), retention(START + hours * HOUR), *(use_of(*one) for one in after)]

    async def main() -> None:
        segments = segments_of(cut(history, sizes))
        whole = await replica_of(LOG, [segments])
        steps = await replica_of(LOG, [[segment] for segment in segments])
        assert await digests(LOG, whole) == await digests(LOG, steps)
        found = {row.day: row for row in await whole.rows(LINEAGE_EXECUTION_DAYS, A)}
        assert {day: row.execution_count for day, row in found.items()} == {
            day: len(ones) for day, ones in wanted.items()
        }
        for day, ones in wanted.items():
            assert found[day].execution_count == len(ones)
            told = [rows for _, _, rows in ones if rows is not None]
            assert found[day].rows_read == (sum(told) if told else None)
            times = [START + one[1] * HOUR for one in ones]
            assert (found[day].first_completed_at, found[day].last_completed_at) == (min(times), max(times))
        assert sum(row.execution_count for row in await whole.rows(LINEAGE_METADATA, A)) == sum(
            map(len, wanted.values())
        )

    asyncio.run(main())


def test_edges_that_were_used_since_stay() -> None:
    async def test(decider: Decider) -> None:
        await decider.append(used(EdgeRecord(A, B)))
        (edge,) = await decider.replica.rows(LINEAGE_EDGES, A)
        ref = EdgeRef(A, edge.edge_id)
        assert await decider.decide(ExpireLineageEdges((ref,), edge.updated_at)) == []
        with pytest.raises(Refused, match="before their time"):
            await decider.decide(ExpireLineageEdges((ref,), decider.now + 1))
        (gone,) = await decider.decide(ExpireLineageEdges((ref, ref), edge.updated_at + 1))
        for table in (LINEAGE_EDGES, LINEAGE_METADATA, LINEAGE_UPSTREAM, LINEAGE_IDS):
            assert await decider.rows(table) == []
        assert await decider.decide(ExpireLineageEdges((ref,), edge.updated_at + 1)) == []
        await decider.append(used(EdgeRecord(A, B)))
        assert await decider.rows(LINEAGE_EDGES) == [], "a use that is known makes no edge again"
        await decider.append(used(EdgeRecord(A, B), run="r2"))
        await decider.append(gone)
        assert len(await decider.rows(LINEAGE_EDGES)) == 1, "the same event once more finds it used"

    deciding(LOG, test)
