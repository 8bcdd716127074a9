"""The replica in memory: rows that load late, rows that are counted, keys that are used again after they expired."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from arco.domains.execution import MATERIALIZATIONS
from arco.log import Event
from arco.state import RETENTION, Cadence, Replica, Snapshot, bucket_of, verify_revision
from arco.storage import MemoryStore
from tests.doubles import START, FakeRuntime, FaultyStore, run
from tests.state.doubles import Journal, Node, open_node, rows_of
from tests.state.histories import ACTIVITY, completed, retention
from tests.state.toy import NOTES, dropped, noted
from tests.state.world import TOY, World, simulate


def test_a_bucket_that_loads_while_it_is_changed_published_and_evicted_is_not_installed_stale() -> None:
    async def test(world: World) -> None:
        await world.publish(await world.node(), noted("a", "old"))
        node = await world.node(cadence=Cadence(max_rows=0))
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def stall() -> None:
            reached.set()
            await go_on.wait()

        world.store.on("get_range", hook=stall, applied=True)
        validation = asyncio.create_task(node.replica.draft().get(NOTES, "a", "a"))
        await reached.wait()
        await world.publish(node, noted("a", "new"))
        node.replica.evict()
        go_on.set()
        await validation
        assert (await node.replica.get(NOTES, "a", "a")).text == "new"

    simulate(test)


def recount(node: Node) -> int:
    """The rows in memory, one by one."""
    tables: Any = node.replica._buckets
    buckets = [bucket for found in tables.values() for bucket in found.values()]
    arrow = sum(len(bucket._stored) for bucket in buckets if bucket._stored is not None)
    return arrow + sum(len(rows) for bucket in buckets for rows in bucket.groups.values())


notes = st.sampled_from([f"n{number}" for number in range(8)])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), notes),
        st.tuples(st.just("drop"), notes),
        st.tuples(st.just("load"), notes),
        st.tuples(st.sampled_from(["publish", "evict", "renew"]), st.just("")),
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=60)
@given(steps)
def test_the_counter_of_rows_in_memory_is_their_number(found: list[tuple[str, str]]) -> None:
    async def main() -> None:
        runtime = FakeRuntime()
        store = FaultyStore(MemoryStore(runtime))
        store.on("get_range", hook=lambda: runtime.sleep(0.001), times=10_000)  # so that loads overlap
        journal, node = Journal(store, runtime), await open_node(runtime, store, TOY)
        for step, note in found:
            if step in ("set", "drop"):
                await journal.append(noted(note, "x", "whisper") if step == "set" else dropped(note))
                await node.follower.catch_up()
            elif step == "load":
                await asyncio.gather(*(node.replica.load(NOTES, (bucket_of(note),)) for _ in range(2)))
            elif step == "publish":
                await node.compactor.publish()
            elif step == "evict":
                node.replica.evict()
            else:
                await node.publish()
                await node.follower.restart(lambda: node.replica.reset(node.compactor.head.manifest))
            assert node.replica.loaded_rows() == recount(node)

    run(main())


reused = st.lists(
    st.one_of(
        st.builds(lambda n, t: completed(f"m{n}", time=START + t), st.integers(0, 2), st.integers(0, 9)),
        st.builds(lambda t: retention("materializations", START + t), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=12,
)


def alive(events: list[Event]) -> dict[str, int]:
    """A model that goes event by event: each version that lives, and its time."""
    live: dict[str, int] = {}
    limit = 0
    for item in events:
        payload = ACTIVITY.registry.decode(item.type, item.version, item.data)
        if item.type == "RetentionAdvanced":
            limit = max(limit, payload.before)
            live = {key: time for key, time in live.items() if time >= limit}
        elif payload.completed_at >= limit:
            live.setdefault(payload.materialization_id, payload.completed_at)
    return live


async def check_rows(source: Replica | Snapshot, live: dict[str, int]) -> None:
    rows = await source.scan(MATERIALIZATIONS)
    times = rows.column("completed_at").cast("int64").to_pylist()
    scanned = zip(rows.column("materialization_id").to_pylist(), times, strict=True)
    assert sorted(scanned) == sorted(live.items())
    for number in range(3):
        row = await source.get(MATERIALIZATIONS, "a1", f"m{number}")
        assert (row and row.completed_at) == live.get(f"m{number}")


async def reuse(events: list[Event], fan_in: int) -> None:
    runtime = FakeRuntime()
    store = MemoryStore(runtime)
    journal = Journal(store, runtime)
    node = await open_node(runtime, store, ACTIVITY, cadence=Cadence(fan_in=fan_in))
    for number, item in enumerate(events, 1):
        await journal.append(item)
        await node.follower.catch_up()
        await check_rows(node.replica, alive(events[:number]))
        await node.compactor.compact()
        node.replica.evict()
        await check_rows(node.replica, alive(events[:number]))
    snapshot = await node.snapshot()
    await check_rows(snapshot, alive(events))
    compared = await verify_revision(ACTIVITY, node.store, node.follower.ledger, snapshot.manifest)
    assert [found.table for found in compared if not found.equal] == []


def test_a_key_that_is_used_again_after_it_expired_is_one_row() -> None:
    again = completed("m1", time=START + 9)
    events = [completed("m1"), retention("materializations", START + 5), again, again]
    for fan_in in (2, 3, 99):
        run(reuse(events, fan_in))


@settings(deadline=None, max_examples=40)
@given(reused, st.sampled_from([2, 3, 99]))
def test_keys_used_again_in_any_order_read_the_same_live_by_key_and_from_a_rebuild(
    events: list[Event], fan_in: int
) -> None:
    run(reuse(events, fan_in))


def test_of_the_steps_of_retention_one_per_table_stays_in_the_manifest() -> None:
    async def main() -> None:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        journal, node = Journal(store, runtime), await open_node(runtime, store, ACTIVITY)
        for number in range(1, 5):
            await journal.append(
                retention("materializations", START + 2 * number), retention("materializations", START + 2 * number + 1)
            )
            await journal.append(retention("rejections", START + number))
            manifest = await node.publish()
            assert {table: [before for _, before in steps] for table, steps in manifest.retention.items()} == {
                "materializations": [START + 2 * number + 1],
                "rejections": [START + number],
            }
        rows = {row["table"]: row for row in await rows_of(await node.snapshot(), RETENTION)}
        assert sorted(rows) == ["materializations", "rejections"]
        assert rows["materializations"]["actor"] == "tester"

    run(main())
