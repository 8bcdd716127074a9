"""Execution: pointers, version numbers and statistics follow from the versions, in whatever order they were told.

Observations follow from nothing and move nothing.
"""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Invalid
from arco.domains.execution import (
    ASSET_SCHEMAS,
    MATERIALIZATIONS,
    OBSERVATIONS,
    PARTITIONS,
    AssetObserved,
    Partition,
    SchemaRecorded,
    WrittenColumn,
    column_id_of,
)
from arco.log import Event
from arco.state import REJECTIONS
from tests.doubles import START
from tests.state.doubles import event, replica_of, rows_of, segments_of
from tests.state.histories import ACTIVITY, completed, failed, retention


def observed(
    observation: str = "o1", *, asset: str = "a1", version: str = "v1", time: int = START, **more: Any
) -> Event:
    payload = AssetObserved(observation, asset, f"key.{asset}", "p1", "", version, time, **more)
    return event("AssetObserved", payload)


async def partition(*events: Event, key: str = "p1") -> Partition:
    replica = await replica_of(ACTIVITY, [segments_of([[item] for item in events])])
    return await replica.get(PARTITIONS, "a1", key)


def folded(*events: Event, **more: Any) -> Partition:
    return asyncio.run(partition(*events, **more))


def test_the_newest_published_version_is_current() -> None:
    row = folded(completed("m1", rows=5, run="r1"), completed("m2", rows=7, run="r2", time=START + 9))
    assert (row.current_materialization_id, row.current_version, row.version_count) == ("m2", 2, 2)
    assert (row.row_count, row.byte_size, row.file_count, row.schema_hash) == (7, 70, 1, "h")
    assert (row.status, row.last_run_id, row.last_success_at) == ("complete", "r2", START + 9)
    assert row.created_at < row.updated_at


def test_the_order_of_the_log_decides_and_not_the_clock_of_the_producer() -> None:
    row = folded(completed("m1", time=START + 9), completed("m2", time=START))
    assert (row.current_materialization_id, row.last_success_at) == ("m2", START)


def test_a_version_told_again_changes_nothing() -> None:
    once = folded(completed("m1"), completed("m2"))
    assert folded(completed("m1"), completed("m2"), completed("m1")) == once
    assert folded(completed("m1"), completed("m2"), completed("m2", rows=99)) == once


def test_a_quarantined_version_counts_and_never_becomes_current() -> None:
    row = folded(completed("m1", rows=5), completed("m2", rows=7, status="quarantined", run="r2"))
    assert (row.status, row.current_materialization_id, row.current_version) == ("quarantined", "m1", 1)
    assert (row.version_count, row.row_count, row.last_run_id) == (2, 5, "r2")
    only = folded(completed("m1", status="quarantined"))
    assert (only.status, only.current_materialization_id, only.version_count) == ("quarantined", None, 1)
    assert (only.row_count, only.last_success_at) == (None, None)
    healed = folded(completed("m1", status="quarantined"), completed("m2"))
    assert (healed.status, healed.current_version) == ("complete", 2)


def test_a_failure_keeps_the_current_version() -> None:
    row = folded(completed("m1", rows=5), failed(run="r2", error="no space", time=START + 3))
    assert (row.status, row.last_error, row.last_failure_at) == ("failed", "no space", START + 3)
    assert (row.current_materialization_id, row.row_count, row.last_run_id) == ("m1", 5, "r2")
    first = folded(failed())
    assert (first.status, first.current_materialization_id, first.version_count) == ("failed", None, 0)


def test_success_after_failure_clears_the_error_and_remembers_when_it_failed() -> None:
    row = folded(failed(time=START + 1), completed("m1", time=START + 2))
    assert (row.status, row.last_error) == ("complete", None)
    assert (row.last_failure_at, row.last_success_at) == (START + 1, START + 2)


@pytest.mark.parametrize("status", ["published", "quarantined"])
def test_a_failure_of_an_earlier_attempt_that_arrives_after_the_task_finished_is_late(status: str) -> None:
    done = completed("m1", run="r1", task="t1", status=status)
    assert folded(done, failed(run="r1", task="t1")) == folded(done)
    assert folded(done, failed(run="r1", task="t2")).status == "failed"


def test_a_failure_from_before_the_last_success_is_late_whatever_run_it_was() -> None:
    done = completed("m1", run="r2", time=START + 5)
    assert folded(done, failed(run="r1", time=START + 4)) == folded(done)
    assert folded(done, failed(run="r3", time=START + 6)).status == "failed"


def test_an_older_failure_told_again_changes_nothing() -> None:
    first, second = failed(run="r1", time=START + 1, error="one"), failed(run="r2", time=START + 2, error="two")
    row = folded(first, second)
    assert (row.last_run_id, row.last_error, row.last_failure_at) == ("r2", "two", START + 2)
    assert folded(first, second, first) == row
    assert folded(second, first).last_error == "two"


def test_partitions_are_apart() -> None:
    events = [completed("m1"), completed("m2", partition="p2", rows=9), failed(partition="p2", run="r9")]
    assert folded(*events).status == "complete"
    assert folded(*events, key="p2").status == "failed"


def test_every_version_keeps_its_number_and_what_it_was_made_of() -> None:
    async def main() -> None:
        events = [
            completed("m1"),
            completed("m2", status="quarantined"),
            completed("m3"),
            completed("x", partition="p2"),
        ]
        replica = await replica_of(ACTIVITY, [segments_of([events])])
        rows = {row["materialization_id"]: row for row in await rows_of(replica, MATERIALIZATIONS)}
        assert {key: row["version"] for key, row in rows.items()} == {"m1": 1, "m2": 2, "m3": 3, "x": 1}
        assert rows["m2"]["status"] == "quarantined"
        assert rows["m1"]["files"][0]["stats"] == [
            {"column": "c", "null_count": 0, "min": "a", "max": None, "distinct_count": 3}
        ]
        assert rows["m1"]["file_count"] == 1

    asyncio.run(main())


def test_an_unknown_status_is_rejected_and_leaves_no_partition() -> None:
    async def main() -> None:
        replica = await replica_of(ACTIVITY, [segments_of([[completed("m1", status="lost")]])])
        assert await rows_of(replica, PARTITIONS) == await rows_of(replica, MATERIALIZATIONS) == []
        (row,) = await rows_of(replica, REJECTIONS)
        assert row["reason"] == "a materialization is published or quarantined, not 'lost'"

    asyncio.run(main())


def test_unknown_fields_are_rejected_and_not_dropped() -> None:
    async def main() -> None:
        payload = {"asset_id": "a", "surprise": 1}
        replica = await replica_of(ACTIVITY, [segments_of([[event("MaterializationFailed", payload)]])])
        assert len(await rows_of(replica, REJECTIONS)) == 1

    asyncio.run(main())


def test_the_events_say_when_they_happened() -> None:
    for item, time in (
        (completed("m", time=START + 5), START + 5),
        (failed(time=START + 6), START + 6),
        (observed(time=START + 7), START + 7),
    ):
        kind = ACTIVITY.registry.get(item.type)
        assert kind is not None
        assert kind.time(ACTIVITY.registry.decode(item.type, 1, item.data)) == time


def test_an_observation_is_a_fact_and_moves_no_partition() -> None:
    async def main() -> None:
        seen = observed(row_count=7, metadata={"etag": "x", "b": "y"}, run_id="r1")
        replica = await replica_of(ACTIVITY, [segments_of([[completed("m1")], [seen]])])
        (row,) = await rows_of(replica, OBSERVATIONS)
        assert (row["observation_id"], row["asset_id"], row["asset_key"]) == ("o1", "a1", "key.a1")
        assert (row["data_version"], row["row_count"], row["run_id"]) == ("v1", 7, "r1")
        assert dict(row["metadata"]) == {"etag": "x", "b": "y"}
        without = await replica_of(ACTIVITY, [segments_of([[completed("m1")]])])
        assert await rows_of(replica, PARTITIONS) == await rows_of(without, PARTITIONS)

    asyncio.run(main())


def test_an_observation_without_rows_and_run_says_so() -> None:
    async def main() -> None:
        replica = await replica_of(ACTIVITY, [segments_of([[observed()]])])
        row = await replica.get(OBSERVATIONS, "a1", "o1")
        assert (row.row_count, row.metadata, row.run_id) == (None, {}, "")

    asyncio.run(main())


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), min_size=1, max_size=6, unique=True), st.data())
def test_observations_may_come_in_any_order_and_any_number_of_times(
    given_ones: list[tuple[str, int]], data: st.DataObject
) -> None:
    told = [observed(f"o-{asset}-{n}", asset=asset, time=START + n) for asset, n in given_ones]
    again = data.draw(st.permutations(told + data.draw(st.lists(st.sampled_from(told), max_size=3))))

    async def main() -> None:
        once = await replica_of(ACTIVITY, [segments_of([told])])
        often = await replica_of(ACTIVITY, [segments_of([[item] for item in again])])
        assert await rows_of(often, OBSERVATIONS) == await rows_of(once, OBSERVATIONS)
        assert await rows_of(often, REJECTIONS) == []

    asyncio.run(main())


def test_of_two_observations_with_one_id_the_first_stays_and_old_ones_expire() -> None:
    async def main() -> None:
        events = [observed(version="v1"), observed(version="v2"), observed("o2", time=START + 5)]
        replica = await replica_of(ACTIVITY, [segments_of([events])])
        assert {row["data_version"] for row in await rows_of(replica, OBSERVATIONS)} == {"v1"}
        expired = [*events, retention("observations", START + 1), observed(version="v1")]
        replica = await replica_of(ACTIVITY, [segments_of([expired])])
        assert [row["observation_id"] for row in await rows_of(replica, OBSERVATIONS)] == ["o2"]
        assert [row["reason"] for row in await rows_of(replica, REJECTIONS)] == [
            "older than the retention of observations"
        ]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("field", "value"), [("observation_id", ""), ("asset_id", ""), ("row_count", -1), ("metadata", {"k": 1}), ("x", 1)]
)
def test_observations_that_cannot_be_are_refused_at_the_door(field: str, value: object) -> None:
    payload: dict[str, Any] = {
        "observation_id": "o",
        "asset_id": "a",
        "asset_key": "k",
        "partition_id": "",
        "partition_key": "",
        "data_version": "v",
        "observed_at": START,
    }
    ACTIVITY.registry.decode("AssetObserved", 1, event("AssetObserved", payload).data)
    with pytest.raises(Invalid):
        ACTIVITY.registry.decode("AssetObserved", 1, event("AssetObserved", {**payload, field: value}).data)


def recorded(schema: str, *columns: tuple[str, str], materialization: str = "m1", asset: str = "a1") -> Event:
    told = tuple(WrittenColumn(name, kind) for name, kind in columns)
    return event("SchemaRecorded", SchemaRecorded(asset, f"key.{asset}", schema, materialization, told))


def test_columns_keep_their_ids_in_every_schema_that_has_them() -> None:
    async def main() -> None:
        told = [
            recorded("h1", ("id", "long"), ("price", "double")),
            recorded("h2", ("day", "date"), ("price", "decimal(9,2)"), ("id", "long"), materialization="m2"),
            recorded("h1", ("id", "long"), ("price", "double"), materialization="m3"),
            recorded("h1", ("id", "long"), asset="a2"),
        ]
        replica = await replica_of(ACTIVITY, [segments_of([[item] for item in told])])
        rows = {(row["asset_id"], row["schema_hash"]): row for row in await rows_of(replica, ASSET_SCHEMAS)}
        assert set(rows) == {("a1", "h1"), ("a1", "h2"), ("a2", "h1")}
        assert rows["a1", "h1"]["materialization_id"] == "m1", "the first one that had them"
        ids = {key: {one["name"]: one["column_id"] for one in row["columns"]} for key, row in rows.items()}
        assert ids["a1", "h1"]["price"] == ids["a1", "h2"]["price"] == column_id_of("a1", "price")
        assert ids["a1", "h1"]["id"] == ids["a1", "h2"]["id"] != ids["a2", "h1"]["id"]
        assert [one["data_type"] for one in rows["a1", "h2"]["columns"]] == ["date", "decimal(9,2)", "long"]
        assert await rows_of(replica, REJECTIONS) == []

    asyncio.run(main())
