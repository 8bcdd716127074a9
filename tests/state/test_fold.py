"""The fold: the same rows however events are cut into batches, whatever is repeated, rejected, skipped or expired."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Invalid
from arco.domains.catalog import CATALOG, NAMES, NAMESPACES, ROOT
from arco.domains.execution import EXECUTION, MATERIALIZATIONS, PARTITIONS
from arco.log import Event
from arco.state import (
    OPERATIONS,
    REJECTIONS,
    REQUESTS,
    Definition,
    Domain,
    Group,
    Input,
    Kind,
    Reject,
    Stage,
    Table,
    Time,
    define_log,
    row_text,
)
from arco.storage import MemoryStore
from tests.doubles import START, FakeRuntime, run
from tests.state.doubles import (
    Journal,
    cut,
    digests,
    event,
    open_node,
    replica_of,
    rows_of,
    segments_of,
)
from tests.state.histories import (
    ACTIVITY,
    CATALOG_LOG,
    activity_events,
    catalog_events,
    completed,
    failed,
    histories,
    retention,
    sizes,
)


class Pair(msgspec.Struct, frozen=True):
    key: str
    value: str


class Timed(msgspec.Struct, frozen=True):
    materialization_id: str
    asset_id: str
    at: Time


TIMED = Table("timed", Timed, Kind.FACT, ("materialization_id",), "asset_id", time="at")
PAIRS = Table("pairs", Pair, Kind.IMAGE, ("key",), "key")
FACT_PAIRS = Table("fact_pairs", Pair, Kind.FACT, ("key",), "key")

both = st.one_of(
    st.tuples(st.just(ACTIVITY), histories(activity_events)), st.tuples(st.just(CATALOG_LOG), histories(catalog_events))
)


@settings(deadline=None, max_examples=80)
@given(both, sizes)
def test_cutting_events_into_batches_in_any_way_gives_the_same_state(
    history: tuple[Definition, list[list[Event]]], batches: list[int]
) -> None:
    definition, events = history

    async def main() -> None:
        segments = segments_of(events)
        whole = await replica_of(definition, [segments])
        parts = await replica_of(definition, cut(segments, batches))
        assert await digests(definition, parts) == await digests(definition, whole)
        assert parts.skips == whole.skips
        assert parts.retention == whole.retention
        assert parts.pins == whole.pins
        assert parts.link == whole.link

    asyncio.run(main())


def test_repeating_any_fact_later_changes_no_fact_and_no_pointer() -> None:
    base = [
        completed("m1", run="r1", key="k1"),
        completed("m2", run="r2"),
        completed("m3", run="r3", status="quarantined"),
    ]

    async def main() -> None:
        once = await replica_of(ACTIVITY, [segments_of([base])])
        for repeated in base:
            twice = await replica_of(ACTIVITY, [segments_of([base, [repeated]])])
            assert await digests(ACTIVITY, twice) == await digests(ACTIVITY, once)

    asyncio.run(main())


def is_repeatable(item: Event) -> bool:
    """A version's time never changes: of those with one id only one time is let through."""
    if item.type != "MaterializationCompleted":
        return True
    payload = ACTIVITY.registry.decode(item.type, item.version, item.data)
    return payload.completed_at == START + "abc".index(payload.materialization_id[2]) * 2


@settings(deadline=None, max_examples=40)
@given(histories(activity_events.filter(is_repeatable)))
def test_a_log_followed_by_all_its_versions_once_more_has_the_same_facts(events: list[list[Event]]) -> None:
    again = [[item for segment in events for item in segment if item.type == "MaterializationCompleted"]]

    async def main() -> None:
        once = await replica_of(ACTIVITY, [segments_of(events)])
        twice = await replica_of(ACTIVITY, [segments_of(events + again)])
        for table in (MATERIALIZATIONS, OPERATIONS, REQUESTS, PARTITIONS):
            assert await rows_of(twice, table) == await rows_of(once, table)

    asyncio.run(main())


@settings(deadline=None, max_examples=40)
@given(both)
def test_a_rejected_event_leaves_nothing_but_its_rejection(history: tuple[Definition, list[list[Event]]]) -> None:
    """Taking the rejected events' payloads out of the log gives the same tables of the domains."""
    definition, events = history

    async def main() -> None:
        segments = segments_of(events)
        full = await replica_of(definition, [segments])
        rejected = {row["position"] for row in await rows_of(full, REJECTIONS)}
        blank = [
            [
                event("Nobody", {}) if (number + 1 << 20) + index in rejected else item
                for index, item in enumerate(segment)
            ]
            for number, segment in enumerate(events)
        ]
        without = await replica_of(definition, [segments_of(blank)])
        for domain in definition.domains:
            for table in domain.tables:
                if table not in (OPERATIONS, REQUESTS):  # these follow from the envelope, not from the payload
                    assert await rows_of(without, table) == await rows_of(full, table)
        assert await rows_of(without, REJECTIONS) == []

    asyncio.run(main())


def test_a_rejection_says_what_was_wrong_with_which_event() -> None:
    events = [event("NamespaceCreated", {"namespace_id": 7}), event("NamespaceDropped", {"namespace_id": "gone"})]

    async def main() -> None:
        replica = await replica_of(CATALOG_LOG, [segments_of([events])])
        malformed, unknown = sorted(await rows_of(replica, REJECTIONS), key=lambda row: row["position"])
        assert (malformed["position"], malformed["domain"]) == (1 << 20, "log")
        assert "does not fit" in malformed["reason"]
        assert (unknown["position"], unknown["domain"]) == ((1 << 20) + 1, "catalog")
        assert unknown["event_type"] == "NamespaceDropped"
        assert unknown["reason"] == "the namespace gone does not exist"

    asyncio.run(main())


def test_unknown_types_and_versions_are_skipped_and_counted() -> None:
    events = [
        [event("Strange", {}), event("NamespaceCreated", {}, version=2)],
        [event("Strange", {}), event("Strange", {}, command="DoStrange", operation="op-strange")],
    ]

    async def main() -> None:
        for batches in ([segments_of(events)], [[found] for found in segments_of(events)]):
            replica = await replica_of(CATALOG_LOG, batches)
            assert replica.skips == {"Strange v1": (1 << 20, 3), "NamespaceCreated v2": ((1 << 20) + 1, 1)}
            assert replica.skipped() == (
                f"the event type NamespaceCreated v2 at position {(1 << 20) + 1} is not known here"
            )
            assert await rows_of(replica, REJECTIONS) == []
            # Who did what is known even of events whose payload nobody knows.
            assert await replica.get(OPERATIONS, "op-strange", "op-strange") is not None

    asyncio.run(main())


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.one_of(
            st.builds(lambda n, t: completed(f"m{n}", time=START + t), st.integers(0, 3), st.integers(0, 9)),
            st.builds(lambda t: retention("materializations", START + t), st.integers(0, 9)),
        ),
        min_size=1,
        max_size=12,
    ),
    sizes,
)
def test_retention_holds_from_the_position_of_its_event_on(events: list[Event], batches: list[int]) -> None:
    """A model that goes event by event agrees with the fold, in one batch or in several."""
    live: dict[str, int] = {}
    limit = 0
    for item in events:
        payload = ACTIVITY.registry.decode(item.type, item.version, item.data)
        if item.type == "RetentionAdvanced":
            limit = max(limit, payload.before)
            live = {key: time for key, time in live.items() if time >= limit}
        elif payload.completed_at >= limit:
            live.setdefault(payload.materialization_id, payload.completed_at)

    async def main() -> None:
        segments = segments_of([[item] for item in events])
        one_segment = segments_of([events])
        for cuts in ([segments], cut(segments, batches), [one_segment]):
            replica = await replica_of(ACTIVITY, cuts)
            found = await replica.scan(MATERIALIZATIONS)
            times = found.column("completed_at").cast("int64").to_pylist()
            assert dict(zip(found.column("materialization_id").to_pylist(), times, strict=True)) == live
            for number in range(4):
                row = await replica.get(MATERIALIZATIONS, "a1", f"m{number}")
                assert (row is not None) == (f"m{number}" in live)
            assert {row.materialization_id for row in await replica.rows(MATERIALIZATIONS, "a1")} == set(live)

    asyncio.run(main())


def test_a_version_number_is_never_given_twice_although_retention_removed_the_version() -> None:
    events = [completed("m1"), retention("materializations", START + 1), completed("m2", time=START + 5)]

    async def main() -> None:
        replica = await replica_of(ACTIVITY, [segments_of([events])])
        (row,) = await rows_of(replica, MATERIALIZATIONS)
        assert (row["materialization_id"], row["version"]) == ("m2", 2)

    asyncio.run(main())


@settings(deadline=None, max_examples=50)
@given(both, st.data())
def test_publishing_reloading_and_evicting_at_any_point_changes_nothing(
    history: tuple[Definition, list[list[Event]]], data: st.DataObject
) -> None:
    definition, events = history
    actions = data.draw(
        st.lists(st.sampled_from(["fold", "publish", "reopen", "evict"]), min_size=len(events), max_size=len(events))
    )

    async def main() -> None:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        journal = Journal(store, runtime)
        node = await open_node(runtime, store, definition)
        for batch, action in zip(events, actions, strict=True):
            await runtime.sleep(1)  # the same received times as in the log that is folded in memory
            await journal.append(*batch)
            await node.follower.catch_up()
            if action in ("publish", "evict"):
                await node.compactor.publish()
            if action == "evict":
                node.replica.evict()
                assert node.replica.loaded_rows() == 0
            elif action == "reopen":
                await node.compactor.publish()
                node = await open_node(runtime, store, definition)
        fresh = await digests(definition, await replica_of(definition, [segments_of(events)]))
        assert await digests(definition, node.replica) == fresh
        await node.publish()
        assert await node.digests() == fresh

    run(main())


async def names(source: object) -> dict[str, str]:
    return {f"{row['parent_id']}.{row['name']}": row["object_id"] for row in await rows_of(source, NAMES)}


def test_names_follow_renames_and_drops() -> None:
    def created(key: str, parent: str, name: str) -> Event:
        return event("NamespaceCreated", {"namespace_id": key, "parent_id": parent, "name": name})

    def renamed(key: str, parent: str, name: str) -> Event:
        return event("NamespaceRenamed", {"namespace_id": key, "parent_id": parent, "name": name})

    def dropped(key: str) -> Event:
        return event("NamespaceDropped", {"namespace_id": key})

    steps: list[tuple[Event, dict[str, str]]] = [
        (created("1", ROOT, "a"), {"root.a": "1"}),
        (created("2", "1", "b"), {"root.a": "1", "1.b": "2"}),
        (renamed("2", "1", "c"), {"root.a": "1", "1.c": "2"}),
        (renamed("2", ROOT, "b"), {"root.a": "1", "root.b": "2"}),
        (created("3", "1", "c"), {"root.a": "1", "root.b": "2", "1.c": "3"}),
        (
            event("NamespaceUpdated", {"namespace_id": "3", "description": "d", "properties": {}}),
            {"root.a": "1", "root.b": "2", "1.c": "3"},
        ),
        (dropped("3"), {"root.a": "1", "root.b": "2"}),
        (dropped("1"), {"root.b": "2"}),
        (created("3", ROOT, "a"), {"root.b": "2", "root.a": "3"}),
    ]

    async def main() -> None:
        for upto in range(1, len(steps) + 1):
            events = [item for item, _ in steps[:upto]]
            for batches in ([segments_of([events])], [[found] for found in segments_of([[e] for e in events])]):
                replica = await replica_of(CATALOG_LOG, batches)
                assert await names(replica) == steps[upto - 1][1]
                rows = await rows_of(replica, NAMESPACES)
                listed = {f"{row['parent_id']}.{row['name']}": row["namespace_id"] for row in rows}
                assert listed == steps[upto - 1][1]

    asyncio.run(main())


def test_a_failure_inside_a_stage_takes_back_what_the_input_had_written() -> None:
    """A version whose partition row cannot be written leaves no version either."""

    def fold(group: Group, item: Input) -> None:
        group.put(PAIRS, Pair(group.key, "first"))
        group.put(PAIRS, Pair(group.key, "second"))
        if item.position & 1:
            group.delete(PAIRS, group.key)
            raise Reject("odd")

    domain = Domain(
        "toy",
        "activity",
        1,
        EXECUTION.events,
        (Stage("toy", (PAIRS,), lambda item: (item.payload.asset_id,), fold, ("MaterializationCompleted",)),),
    )
    definition = define_log("activity", [domain])

    async def main() -> None:
        events = [completed("m0", asset="even"), completed("m1", asset="odd"), completed("m2", asset="even")]
        events += [completed("m3", asset="even")]
        replica = await replica_of(definition, [segments_of([events])])
        assert await rows_of(replica, PAIRS) == [{"key": "even", "value": "second"}]
        positions = (await replica.scan(PAIRS)).column("_position").to_pylist()
        assert positions == [(1 << 20) + 2]
        assert [row["reason"] for row in await rows_of(replica, REJECTIONS)] == ["odd", "odd"]

    asyncio.run(main())


def test_definitions_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(Invalid, match="folds the log catalog, not activity"):
        define_log("activity", [CATALOG])
    with pytest.raises(Invalid, match="declared twice"):
        define_log("activity", [EXECUTION, EXECUTION])
    stage = EXECUTION.stages[0]
    with pytest.raises(Invalid, match="undeclared events"):
        Domain("bad", "activity", 1, (), (stage,))
    with pytest.raises(Invalid, match="no earlier stage"):
        Domain("bad", "catalog", 1, CATALOG.events, (CATALOG.stages[2], CATALOG.stages[0]))


def test_facts_are_never_deleted_or_written_twice_and_rows_stay_in_their_group() -> None:
    def fold(group: Group, item: Input) -> None:
        row = Pair(item.payload.asset_id, "v")
        if item.payload.run_id == "delete":
            group.delete(FACT_PAIRS, row.key)
        elif item.payload.run_id == "stray":
            group.put(FACT_PAIRS, Pair("elsewhere", "v"))
        else:
            group.put(FACT_PAIRS, row)

    domain = Domain(
        "toy",
        "activity",
        1,
        EXECUTION.events,
        (Stage("toy", (FACT_PAIRS,), lambda item: (item.payload.asset_id,), fold, ("MaterializationCompleted",)),),
    )
    definition = define_log("activity", [domain])

    async def main() -> None:
        events = [completed("m", run=run_id) for run_id in ("put", "put", "delete", "stray")]
        replica = await replica_of(definition, [segments_of([events])])
        assert await rows_of(replica, FACT_PAIRS) == [{"key": "a1", "value": "v"}]
        reasons = [row["reason"] for row in sorted(await rows_of(replica, REJECTIONS), key=lambda r: r["position"])]
        assert reasons == [
            "fact_pairs has a row with the key a1 already",
            "fact_pairs holds facts, which are never deleted",
            "a row of fact_pairs belongs to group 'elsewhere', not 'a1'",
        ]

    asyncio.run(main())


def test_an_operation_is_known_by_its_first_event_only() -> None:
    events = [
        completed("m1", key="k", span=2),
        completed("m2", key="k", span=2),
    ]

    async def main() -> None:
        replica = await replica_of(ACTIVITY, [segments_of([[failed()], events])])
        row = await replica.get(OPERATIONS, "op-m1", "op-m1")
        assert (row.first, row.last) == (2 << 20, (2 << 20) + 1)
        request = await replica.get(REQUESTS, "k", "k")
        assert request.operation == "op-m1"

    asyncio.run(main())


def test_a_stage_sees_all_living_rows_of_its_group_and_may_reject_before_it_has_one() -> None:
    counts: list[list[str]] = []

    def groups(item: Input) -> tuple[str, ...]:
        if item.payload.run_id == "nowhere":
            raise Reject("belongs to no group")
        return (item.payload.asset_id,)

    def fold(group: Group, item: Input) -> None:
        counts.append([row.materialization_id for row in group.rows(TIMED)])
        payload = item.payload
        group.put(TIMED, Timed(payload.materialization_id, payload.asset_id, payload.completed_at))

    events = ("MaterializationCompleted",)
    domain = Domain("toy", "activity", 1, EXECUTION.events, (Stage("toy", (TIMED,), groups, fold, events),))
    definition = define_log("activity", [domain])

    async def main() -> None:
        log = [
            completed("m1"),
            completed("m2", time=START + 5),
            completed("lost", run="nowhere"),
            retention("timed", START + 1),
            completed("m3", time=START + 5),
        ]
        for batches in ([segments_of([log])], [[found] for found in segments_of([[item] for item in log])]):
            counts.clear()
            replica = await replica_of(definition, batches)
            assert counts == [[], ["m1"], ["m2"]]
            assert [row["reason"] for row in await rows_of(replica, REJECTIONS)] == ["belongs to no group"]

    asyncio.run(main())


def test_for_a_decider_expired_facts_do_not_exist() -> None:
    async def main() -> None:
        segments = segments_of([[completed("m1")], [completed("m2", time=START + 5)]])
        replica = await replica_of(ACTIVITY, [segments])
        draft = replica.draft()
        assert [row.materialization_id for row in await draft.rows(MATERIALIZATIONS, "a1")] == ["m1", "m2"]
        await draft.stage(3, 0, [retention("materializations", START + 1)], START)
        assert await draft.get(MATERIALIZATIONS, "a1", "m1") is None
        assert [row.materialization_id for row in await draft.rows(MATERIALIZATIONS, "a1")] == ["m2"]
        assert await replica.get(MATERIALIZATIONS, "a1", "m1") is not None, "a draft changes no replica"

    asyncio.run(main())


class _Part(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: str = "unknown"
    more: tuple["_Part", ...] = ()


class _Whole(msgspec.Struct, frozen=True):
    part: _Part
    named: dict[str, _Part] = {}


def test_the_text_of_a_row_is_the_same_wherever_its_values_come_from() -> None:
    said = _Whole(_Part(more=(_Part(),)), {"a": _Part()})
    equal = "".join(["un", "known"])  # another object, as one from a file is
    read = _Whole(_Part(equal, (_Part(equal),)), {"a": _Part(equal)})
    assert said == read
    assert row_text(said) == row_text(read) == b'{"named":{"a":{}},"part":{"more":[{}]}}'
