"""Random histories of both domains, from small id spaces so that collisions, duplicates and disorder happen."""

from typing import Any

from hypothesis import strategies as st

from arco.domains.catalog import CATALOG, ROOT, Declared
from arco.domains.catalog.events import (
    AddedColumn,
    AlteredColumn,
    ColumnDescribed,
    ContractDropped,
    ContractSet,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceRenamed,
    NamespaceUpdated,
    SchemaChanged,
    SlaDropped,
    SlaSet,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableUpdated,
)
from arco.domains.execution import EXECUTION, ColumnStats, DataFile, MaterializationCompleted, MaterializationFailed
from arco.log import Event
from arco.state import define_log
from tests.doubles import START
from tests.state.doubles import event

__all__ = [
    "ACTIVITY",
    "CATALOG_LOG",
    "activity_events",
    "catalog_events",
    "completed",
    "failed",
    "histories",
    "retention",
    "sizes",
]

ACTIVITY = define_log("activity", [EXECUTION])
CATALOG_LOG = define_log("catalog", [CATALOG])


def completed(
    materialization: str,
    *,
    asset: str = "a1",
    partition: str = "p1",
    run: str = "r1",
    task: str = "t1",
    status: str = "published",
    time: int = START,
    rows: int = 1,
    **more: Any,
) -> Event:
    payload = MaterializationCompleted(
        materialization_id=materialization,
        asset_id=asset,
        asset_key=f"key.{asset}",
        partition_id=partition,
        partition_key="",
        run_id=run,
        task_id=task,
        files=(DataFile(f"data/{materialization}", 10, rows, (ColumnStats("c", 0, "a", None, 3),)),),
        row_count=rows,
        byte_size=10 * rows,
        schema_hash="h",
        started_at=time - 1,
        completed_at=time,
        status=status,
    )
    return event("MaterializationCompleted", payload, operation=f"op-{materialization}", **more)


def failed(
    *,
    asset: str = "a1",
    partition: str = "p1",
    run: str = "r1",
    task: str = "t1",
    time: int = START,
    error: str = "it broke",
) -> Event:
    payload = MaterializationFailed(
        asset_id=asset,
        asset_key=f"key.{asset}",
        partition_id=partition,
        partition_key="",
        run_id=run,
        task_id=task,
        error=error,
        failed_at=time,
    )
    return event("MaterializationFailed", payload)


def retention(table: str, before: int) -> Event:
    return event("RetentionAdvanced", {"table": table, "before": before}, command="AdvanceRetention")


ids = st.sampled_from("abc")
times = st.integers(0, 5).map(lambda step: START + step)

parents = st.sampled_from([ROOT, "ns-a", "ns-b"])

namespace_events = st.one_of(
    st.builds(
        lambda i, parent, name, keyed: event(
            "NamespaceCreated",
            NamespaceCreated(f"ns-{i}", parent, name, None, {"k": i}),
            operation=f"create-{i}",
            command="CreateNamespace",
            key=f"key-{i}" if keyed else "",
        ),
        ids,
        parents,
        ids,
        st.booleans(),
    ),
    st.builds(lambda i, text: event("NamespaceUpdated", NamespaceUpdated(f"ns-{i}", text, {})), ids, ids),
    st.builds(
        lambda i, parent, name: event("NamespaceRenamed", NamespaceRenamed(f"ns-{i}", parent, name)),
        ids,
        parents,
        ids,
    ),
    st.builds(lambda i: event("NamespaceDropped", NamespaceDropped(f"ns-{i}"), command="DropNamespace"), ids),
    st.builds(lambda i: event("RevisionPinned", {"pin_id": i, "revision": 1, "reason": "", "expires_at": 9}), ids),
    st.builds(lambda i: event("PinReleased", {"pin_id": i}), ids),
    st.just(event("NamespaceCreated", {"namespace_id": 7})),
    st.just(event("NamespaceCreated", {}, version=9)),
    st.just(event("ViewCreated", {"view": "v"})),
)

table_ids = st.sampled_from(["t-a", "t-b"])
columns = st.builds(
    AddedColumn,
    st.sampled_from(["c-1", "c-2", "c-3"]),
    ids,
    st.sampled_from(["int", "string"]),
    st.booleans(),
    ui_description=st.none() | ids,
)
declared = st.builds(Declared, st.none() | ids, st.lists(ids, max_size=2).map(tuple), st.dictionaries(ids, ids))
column_ids = st.sampled_from(["c-1", "c-2", "c-3"])


def some(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=2).map(tuple)


table_events = st.one_of(
    [
        st.builds(
            TableCreated, table_ids, parents, ids, st.just("CSV"), columns=some(columns), code=declared, ui=declared
        ),
        st.builds(TableUpdated, table_ids, st.none(), st.dictionaries(ids, ids, max_size=2), declared, declared),
        st.builds(TableRenamed, table_ids, parents, ids),
        st.builds(TableDropped, table_ids),
        st.builds(
            SchemaChanged,
            table_ids,
            some(columns),
            some(st.builds(AlteredColumn, column_ids, ids, st.just("long"), st.booleans(), inferred=st.booleans())),
            some(column_ids),
        ),
        st.builds(ColumnDescribed, table_ids, column_ids, st.none(), ids, st.none(), st.none() | st.just("PUBLIC")),
        st.builds(ContractSet, table_ids, st.just("full"), st.just("active"), st.none(), st.just({})),
        st.builds(ContractDropped, table_ids),
        st.builds(SlaSet, table_ids, st.integers(1, 3), st.none() | st.just(99.5), st.none()),
        st.builds(SlaDropped, table_ids),
    ]
).map(lambda payload: event(type(payload).__name__, payload))

catalog_events = namespace_events | table_events

activity_events = st.one_of(
    st.builds(
        lambda m, a, p, r, t, status, time, keyed: completed(
            f"m-{m}-{p}",
            asset=a,
            partition=f"{a}-{p}",
            run=r,
            task=t,
            status=status,
            time=time,
            key=f"key-{m}" if keyed else "",
        ),
        ids,
        st.sampled_from("ab"),
        st.sampled_from("xy"),
        ids,
        ids,
        st.sampled_from(["published", "published", "quarantined", "lost"]),
        times,
        st.booleans(),
    ),
    st.builds(
        lambda a, p, r, t, time: failed(asset=a, partition=f"{a}-{p}", run=r, task=t, time=time),
        st.sampled_from("ab"),
        st.sampled_from("xy"),
        ids,
        ids,
        times,
    ),
    st.builds(retention, st.sampled_from(["materializations", "requests", "nothing"]), times),
    st.just(event("CheckPassed", {"check": "c"})),
    st.just(event("MaterializationFailed", {"asset_id": 7})),
)


def histories(events: st.SearchStrategy[Event], longest: int = 14) -> st.SearchStrategy[list[list[Event]]]:
    """Segments of one to four events each, with earlier events appended once more here and there."""

    def with_repeats(segments: list[list[Event]], repeats: list[tuple[int, int]]) -> list[list[Event]]:
        flat = [item for segment in segments for item in segment]
        for source, target in repeats:
            segments[target % len(segments)].append(flat[source % len(flat)])
        return segments

    return st.builds(
        with_repeats,
        st.lists(st.lists(events, min_size=1, max_size=4), min_size=1, max_size=longest),
        st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6),
    )


sizes = st.lists(st.integers(1, 5), max_size=8)
