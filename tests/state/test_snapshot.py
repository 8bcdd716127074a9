"""Snapshots: any revision, any position, pruned or not, always the rows a fold of the prefix gives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from arco.core import Invalid, LostObject, NotFound, Outdated, Stale
from arco.domains.execution import MATERIALIZATIONS, PARTITIONS
from arco.log import Event, Link, Segment
from arco.state import Cadence, Kind, snapshot_at_revision
from arco.storage import MemoryStore
from tests.doubles import START, FakeRuntime, run
from tests.state.doubles import ROOT, Journal, Node, digests, open_node, replica_of, rows_of, segments_of
from tests.state.histories import ACTIVITY, CATALOG_LOG, activity_events, catalog_events, completed, histories
from tests.state.toy import NOTES, dropped, noted, toy
from tests.state.world import TOY, World, simulate

both = st.one_of(
    st.tuples(st.just(ACTIVITY), histories(activity_events, 8)),
    st.tuples(st.just(CATALOG_LOG), histories(catalog_events, 8)),
)


@settings(deadline=None, max_examples=12)
@given(both, st.sets(st.integers(0, 8)))
def test_the_state_at_any_position_is_the_fold_of_everything_up_to_it(history: tuple, publishes: set[int]) -> None:
    definition, segments = history

    async def main() -> None:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        journal, node = Journal(store, runtime), await open_node(runtime, store, definition, cadence=Cadence(fan_in=3))
        positions: list[int] = []
        for number, events in enumerate(segments):
            await runtime.sleep(1)
            await journal.append(*events)
            positions += [(number + 1 << 20) + index for index in range(len(events))]
            if number in publishes:
                await node.follower.catch_up()
                await node.compactor.compact()
        flat = [item for events in segments for item in events]
        prefix: list[list[Event]] = []
        for position, item in zip(positions, flat, strict=True):
            while len(prefix) < position >> 20:
                prefix.append([])
            prefix[-1].append(item)
            snapshot = await node.at(position)
            assert snapshot.position == position
            folded = await replica_of(definition, [segments_of(prefix)])
            assert await digests(definition, snapshot) == await digests(definition, folded)
        assert await rows_of(await node.at((1 << 20) - 1), next(iter(definition.tables.values()))) == []

    run(main())


def test_a_position_that_does_not_exist_yet_is_stale() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("a", "x"))
        with pytest.raises(Stale):
            await node.at(2 << 20)
        assert (await node.at(1 << 20)).position == 1 << 20

    simulate(test)


def test_a_position_behind_a_lost_segment_below_the_head_is_a_loss_and_not_stale() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        for number in range(5):
            await world.journal.append(noted(f"n{number}", "x"))
        await node.publish()
        await world.memory.delete(f"{ROOT}/{node.follower.sequence.path(2)}")
        for position in (2 << 20, 3 << 20):
            with pytest.raises(LostObject):
                await node.at(position)
        assert (await node.at(1 << 20)).position == 1 << 20

    simulate(test)


def test_an_older_program_does_not_fold_on_top_of_what_a_newer_one_made() -> None:
    async def test(world: World) -> None:
        newer = await world.node(toy(2, derive=str.upper))
        await world.publish(newer, noted("a", "x"))
        covered = newer.replica.watermark
        position = await world.journal.append(noted("b", "y"))
        old = await world.node()
        with pytest.raises(Outdated):
            await old.at(position)
        assert [row["text"] for row in await rows_of(await old.at(covered), NOTES)] == ["X"]
        assert {row["text"] for row in await rows_of(await newer.at(position), NOTES)} == {"X", "Y"}

    simulate(test)


def test_a_snapshot_shows_the_same_rows_after_later_publishes_merges_and_collection() -> None:
    async def test(world: World) -> None:
        node = await world.node(cadence=Cadence(fan_in=2))
        snapshots = []
        for number in range(8):
            await world.publish(node, noted(f"n{number % 3}", str(number)), dropped(f"n{(number + 1) % 3}"))
            await node.compactor.compact()
            snapshot = await node.snapshot()
            snapshots.append((snapshot, await digests(TOY, snapshot)))
        await world.collector(min_age=0).collect()
        for snapshot, before in snapshots:
            fresh = snapshot_at_revision(TOY, node.store, snapshot.manifest)
            assert await digests(TOY, fresh) == before
        await world.equals_refold(node)

    simulate(test)


def test_rows_are_found_by_key_and_group() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("a", "x"), noted("b", "y"))
        snapshot = await node.snapshot()
        assert (await snapshot.get(NOTES, "a", "a")).text == "x"
        assert await snapshot.get(NOTES, "z", "z") is None
        assert [row.note for row in await snapshot.rows(NOTES, "b")] == ["b"]
        assert snapshot.table("notes") is NOTES
        with pytest.raises(NotFound, match=r"has no table 'nope'; it has .*notes"):
            snapshot.table("nope")
        assert snapshot.position == int(snapshot.manifest.watermark)

    simulate(test)


def test_the_summary_counts_what_a_revision_names() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("a", "x"))
        await world.publish(node, dropped("a"))
        found = {row.name: row for row in (await node.snapshot()).summary()}
        notes = found["notes"]
        assert (notes.kind, notes.layers, notes.files, notes.rows) == (Kind.IMAGE, 2, 2, 2)
        assert notes.bytes > 0
        assert found["pins"].layers == 0

    simulate(test)


def read_files(world: World) -> list[str]:
    """Which deltas were read, by number of the revision they build on."""
    paths = {path for operation, path in world.store.calls if operation == "get_range"}
    return sorted(str(int(path.split("/state/activity/")[1].split("-")[0])) for path in paths)


def test_files_that_cannot_hold_a_wanted_row_are_not_read() -> None:
    async def test(world: World) -> None:
        node = await world.node(ACTIVITY)
        for number in range(6):
            await world.publish(
                node, completed(f"m{number}", asset=f"a{number}", run=f"r{number}", time=START + number)
            )
        snapshot = await node.snapshot()
        whole = await snapshot.scan(MATERIALIZATIONS)

        world.store.calls.clear()
        found = await snapshot.scan(MATERIALIZATIONS, between={"completed_at": (START + 2, START + 3)})
        assert found.column("materialization_id").to_pylist() == [
            name for name in whole.column("materialization_id").to_pylist() if name in ("m2", "m3")
        ]
        assert read_files(world) == ["2", "3"]

        world.store.calls.clear()
        found = await snapshot.scan(MATERIALIZATIONS, between={"run_id": ("r5", "r9"), "completed_at": (0, 2**60)})
        assert found.column("run_id").to_pylist() == ["r5"]
        assert read_files(world) == ["5"]

        world.store.calls.clear()
        found = await snapshot.scan(MATERIALIZATIONS, groups=(name for name in ["a1"]))
        assert found.column("asset_id").to_pylist() == ["a1"]
        assert read_files(world) == ["1"]

        world.store.calls.clear()
        assert (await snapshot.get(PARTITIONS, "a4", "p1")).current_materialization_id == "m4"
        assert read_files(world) == ["4"]

    simulate(test)


def test_a_column_without_statistics_prunes_nothing_and_is_refused() -> None:
    async def test(world: World) -> None:
        node = await world.node(ACTIVITY)
        await world.publish(node, completed("m1"))
        snapshot = await node.snapshot()
        with pytest.raises(Invalid, match="cannot be pruned by \\['status'\\]"):
            await snapshot.scan(PARTITIONS, between={"status": ("complete", "complete")})

    simulate(test)


def test_pruning_never_lets_a_dropped_row_rise_again() -> None:
    """The tombstone stands in a file whose only other row was made much later."""

    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("old", "x"))
        made = world.runtime.now()
        await world.runtime.sleep(100)
        await world.publish(node, dropped("old"), noted("new", "y"))
        snapshot = await node.snapshot()
        found = await snapshot.scan(NOTES, between={"made_at": (0, made)})
        assert found.column("note").to_pylist() == []

    simulate(test)


def test_pruning_never_shows_the_former_row_of_a_key_that_is_used_again() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("n", "former"))
        made = world.runtime.now()
        await world.runtime.sleep(100)
        await world.publish(node, dropped("n"), noted("n", "again"))
        snapshot = await node.snapshot()
        assert (await snapshot.scan(NOTES, between={"made_at": (0, made)})).num_rows == 0
        assert (await snapshot.scan(NOTES, between={"made_at": (made + 1, 2**60)})).num_rows == 1

    simulate(test)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.booleans()), min_size=1, max_size=15),
    st.integers(-2, 20),
    st.integers(0, 12),
    st.sets(st.sampled_from("abcd")),
)
def test_pruned_scans_are_full_scans_with_a_filter(
    steps: list[tuple[str, bool, bool]], low: int, width: int, groups: set[str]
) -> None:
    async def test(world: World) -> None:
        node: Node = await world.node(cadence=Cadence(fan_in=3))
        for note, drop, publish in steps:
            await world.runtime.sleep(1)
            await world.journal.append(dropped(note) if drop else noted(note, "x"))
            if publish:
                await node.publish()
                await node.compactor.compact()
        await node.publish()
        snapshot = await node.snapshot()
        first, last = START + low * 1_000_000, START + (low + width) * 1_000_000
        whole = (await snapshot.scan(NOTES)).to_pylist()
        micros = [int(row["made_at"].timestamp() * 1_000_000) for row in whole]
        pruned = await snapshot.scan(NOTES, between={"made_at": (first, last)})
        assert pruned.to_pylist() == [row for row, made in zip(whole, micros, strict=True) if first <= made <= last]
        some = await snapshot.scan(NOTES, groups=groups)
        assert some.to_pylist() == [row for row in whole if row["note"] in groups]

    simulate(test)


@settings(deadline=None, max_examples=40)
@given(
    both,
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=8, max_size=8),
    st.integers(-120, 120),
    st.lists(st.tuples(st.integers(0, 8), st.integers(-1, 1)), min_size=1, max_size=3),
)
def test_the_state_at_any_time_is_the_fold_of_what_was_received_by_then(
    history: tuple, pauses: list[tuple[int, bool]], skew: int, asked: list[tuple[int, int]]
) -> None:
    """Whatever the clock of the compactor says: revisions only save work."""
    definition, segments = history

    async def main() -> None:
        runtime, wrong = FakeRuntime(), FakeRuntime()
        wrong.set_back(skew * 1_000_000)
        store = MemoryStore(runtime)
        journal, node = Journal(store, runtime), await open_node(wrong, store, definition, cadence=Cadence(fan_in=3))
        received: list[int] = []
        for number, events in enumerate(segments):
            pause, publish = pauses[number % len(pauses)]
            await runtime.sleep(pause)
            await journal.append(*events)
            received.append(journal.link.received)
            if publish:
                await node.follower.catch_up()
                await node.compactor.compact()
        times = [START, *received, 2 * received[-1]]
        for index, offset in asked:
            time = times[index % len(times)] + offset
            prefix = [events for events, came in zip(segments, received, strict=True) if came <= time]
            snapshot = await node.at_time(time)
            assert snapshot.position == (len(prefix) + 1 << 20) - 1
            folded = await replica_of(definition, [received_segments(prefix, received)] if prefix else [])
            assert await digests(definition, snapshot) == await digests(definition, folded)

    run(main())


def received_segments(batches: list[list[Event]], times: list[int]) -> list[tuple[Segment, Link]]:
    """A log in memory whose segments were received at given times."""
    return [
        (replace(segment, header=replace(segment.header, received=time)), link)
        for (segment, link), time in zip(segments_of(batches), times, strict=False)
    ]


def test_a_time_starts_from_the_newest_revision_that_has_nothing_later() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        times = []
        for number in range(6):
            await world.runtime.sleep(60)
            await world.publish(node, noted(f"n{number}", "x"))
            times.append(world.runtime.now())
        await world.runtime.sleep(60)
        await world.journal.append(noted("late", "x"))
        world.store.calls.clear()
        snapshot = await node.at_time(times[3])
        assert (snapshot.manifest.number, snapshot.position) == (4, (5 << 20) - 1)
        segments = [path for operation, path in world.store.calls if "/ledger/" in path and operation == "get"]
        assert len(segments) == 1, "one look at the next segment says that it came later"
        assert (await node.at_time(world.runtime.now())).position == (8 << 20) - 1
        assert (await node.at_time(0)).position == (1 << 20) - 1

    simulate(test)


def test_a_time_behind_a_lost_segment_is_a_loss_and_what_a_newer_program_made_is_not_folded_on() -> None:
    async def test(world: World) -> None:
        newer = await world.node(toy(2, derive=str.upper))
        for number in range(3):
            await world.runtime.sleep(1)
            await world.journal.append(noted(f"n{number}", "x"))
        await newer.publish()
        covered = world.runtime.now()
        old = await world.node()
        assert {row["text"] for row in await rows_of(await old.at_time(covered), NOTES)} == {"X"}
        await world.runtime.sleep(1)
        await world.journal.append(noted("b", "y"))
        with pytest.raises(Outdated):
            await old.at_time(world.runtime.now())
        await world.memory.delete(f"{ROOT}/{newer.follower.sequence.path(2)}")
        with pytest.raises(LostObject):
            await newer.at_time(covered - 1)
        assert (await newer.at_time(covered)).position == (4 << 20) - 1

    simulate(test)
