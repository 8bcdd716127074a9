"""Publishing: what it writes, who wins, when it happens."""

import asyncio

import msgspec
import pytest

from arco.core import LostObject, Stale, StoreRefused, Unavailable
from arco.state import (
    Cadence,
)
from arco.storage import StoreFailed
from tests.state.doubles import ROOT, digests, open_node, rows_of
from tests.state.toy import NOTES, SECRETS, dropped, noted, shouted
from tests.state.world import TOY, World, append, running, simulate

# What a publish writes


def test_a_publish_creates_a_delta_and_a_manifest_and_nothing_else() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        manifest = await world.publish(node, noted("a", "x"), noted("b", "y"), dropped("zz"))
        delta, created = world.created()
        assert delta.startswith(f"inc-1/state/activity/{0:020d}-")
        assert delta.endswith("/delta")
        assert created == node.revisions.sequence.path(1)
        assert {file.path for layer in manifest.layers for file in layer.files} == {delta}
        assert sorted(layer.table for layer in manifest.layers) == ["notes", "rejections"]
        assert (manifest.number, manifest.watermark) == (1, str((2 << 20) - 1))

    simulate(test)


def test_with_nothing_new_nothing_is_written_or_even_asked() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        first = await world.publish(node, noted("a", "x"))
        await node.follower.catch_up()
        world.store.calls.clear()
        before = node.counts.table()
        assert await node.compactor.publish() == first
        assert node.counts.table() == before
        assert world.store.calls == []

    simulate(test)


def test_events_without_effect_move_the_watermark_and_write_no_delta() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("a", "x"))
        world.store.calls.clear()
        manifest = await world.publish(node, shouted("a", "unknown here"))
        assert len(world.created()) == 1
        assert manifest.watermark == str((3 << 20) - 1)
        assert [(skip.type, skip.count) for skip in manifest.skipped] == [("NoteShouted v1", 1)]

    simulate(test)


def test_private_tables_go_to_objects_of_their_own() -> None:
    async def test(world: World) -> None:
        node = await world.node(cadence=Cadence(fan_in=2))
        manifest = await world.publish(node, noted("a", "x", "s"))
        assert len(world.created()) == 3
        for _ in range(4):
            manifest = await world.publish(node, noted("a", "x", "s"))
        manifest = await node.compactor.compact()
        await node.compactor.rebuild()
        manifest = (await node.snapshot()).manifest
        private = {table.name for table in TOY.tables.values() if table.private}
        assert private == {"secrets"}
        every = [manifest, *[await node.revisions.read(entry) for entry in await node.revisions.history(manifest)]]
        merged = 0
        for layer in [layer for found in every for layer in found.layers]:
            merged += layer.level > 0
            for file in layer.files:
                assert file.path.startswith("inc-1/private/") == (layer.table in private)
        assert merged
        async for info in world.memory.list(f"{ROOT}/inc-1/state"):
            assert b"hidden" not in await world.memory.get(info.path)
        assert await rows_of(await node.snapshot(), SECRETS) == [{"note": "a", "secret": "hidden"}]

    simulate(test)


def test_a_publish_that_failed_after_its_files_is_repeated_in_a_directory_of_its_own() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        for turn in range(3):  # the same process again, and one that comes after it, each with more to publish
            world.store.on("create", path="manifests", error=StoreRefused("no rights"))
            with pytest.raises(StoreRefused):
                await world.publish(node, noted("a", str(turn)))
            if turn == 1:
                node = await world.node()
        await node.publish()
        directories = [path.rsplit("/", 1)[0] for path in world.created() if path.endswith("/delta")]
        assert len(directories) == len(set(directories)) == 4
        assert await world.texts() == {"a": "2"}
        await world.equals_refold(node)

    simulate(test)


def test_a_delta_holds_what_changed_however_much_there_is() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        sizes = []
        for existing in (10, 1000):
            await world.publish(node, *(noted(f"n{number}", "x") for number in range(existing)))
            manifest = await world.publish(node, noted("n0", f"changed at {existing}"))
            (file,) = manifest.layers_of("notes")[-1].files
            sizes.append(file.rows)
        assert sizes == [1, 1]

    simulate(test)


def test_an_event_whose_id_is_older_than_what_is_published_is_folded() -> None:
    """Ids are minted on many machines. Where an event stands in the log is its only order."""
    new, old = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01ARZ3NDEKTSV4RRFFQ69G5FAV"

    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, msgspec.structs.replace(noted("a", "first"), id=new))
        late = msgspec.structs.replace(noted("a", "second"), id=old, time="2025-01-01T00:00:00.000000Z")
        await world.publish(node, late, msgspec.structs.replace(noted("b", "third"), id=old))
        assert await world.texts() == {"a": "second", "b": "third"}
        await node.compactor.rebuild()
        assert await world.texts() == {"a": "second", "b": "third"}

    simulate(test)


# Several compactors


def test_who_loses_a_number_stands_on_the_winner_and_goes_on() -> None:
    async def test(world: World) -> None:
        one, two = await world.node(name="one"), await world.node(name="two")
        await world.publish(one, noted("a", "x"))
        await world.publish(two, noted("b", "y"))
        manifest = two.compactor.head.manifest
        assert (manifest.number, manifest.publisher) == (2, "two")
        assert two.replica.dirty == {}
        assert await world.texts() == {"a": "x", "b": "y"}
        # Alternating, each with what the other one published.
        for number in range(3, 9):
            await world.publish((one, two)[number % 2], noted("c", str(number)))
            assert (await one.snapshot()).manifest.number == number
        assert await digests(TOY, one.replica) != await digests(TOY, two.replica)
        await one.publish()
        await two.publish()
        assert await digests(TOY, one.replica) == await digests(TOY, two.replica) == await one.digests()
        await world.equals_refold(one)

    simulate(test)


def test_beside_a_publisher_that_is_always_first_nobody_waits_in_vain() -> None:
    """A revision is as good if another one made it. And who has lost does not run after what others append."""

    async def test(world: World) -> None:
        loser, busy = await running(world, name="loser"), await open_node(world.runtime, world.memory, TOY)
        lost = 0

        async def win() -> None:
            nonlocal lost
            lost += 1
            assert lost < 10, "it tries over and over"
            await world.journal.append(noted("b", str(lost)))
            await busy.publish()
            await world.journal.append(noted("c", str(lost)))
            await loser.follower.catch_up()

        world.store.on("create", path="manifests", hook=win, times=1_000)
        for number in range(3):
            position = await append(world, loser, noted("a", str(number)))
            asked = world.runtime.boottime()
            assert int((await loser.compactor.wait_for(position)).watermark) >= position
            assert world.runtime.boottime() == asked
        assert lost == 3
        await loser.compactor.close()

    simulate(test)


def test_a_loser_with_nothing_of_its_own_publishes_nothing() -> None:
    async def test(world: World) -> None:
        one, two = await world.node(), await world.node()
        await world.journal.append(noted("a", "x"))
        await one.publish()
        manifest = await two.publish()
        assert manifest.number == 1
        assert (await one.snapshot()).manifest.number == 1

    simulate(test)


def test_a_create_that_was_applied_but_not_answered_is_won() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        world.store.on("create", path="manifests", error=StoreFailed("connection lost"), applied=True)
        assert (await world.publish(node, noted("a", "x"))).number == 1
        assert (await world.publish(node, noted("a", "y"))).number == 2

    simulate(test)


def test_an_open_outcome_is_settled_with_the_same_bytes() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        world.store.on("create", path="manifests", error=StoreFailed("503"), times=12)
        world.store.on("get", path="manifests", error=StoreFailed("503"), times=3)
        manifest = await world.publish(node, noted("a", "x"))
        assert manifest.number == 1
        assert len([path for path in world.created() if path.endswith("/delta")]) == 1

    simulate(test)


def test_a_compactor_that_slept_past_the_floor_looks_for_the_head_again() -> None:
    async def test(world: World) -> None:
        one, two = await world.node(), await world.node()
        await world.publish(one, noted("a", "x"))
        await two.publish()
        for number in range(3):
            await world.publish(one, noted("a", str(number)))
        await one.revisions.sequence.floor()
        await world.memory.put(f"{ROOT}/inc-1/manifests/activity/floor/{1:020d}", b"3 x", only_if_absent=True)
        for number in (2, 3):
            await world.memory.delete(f"{ROOT}/{one.revisions.sequence.path(number)}")
        world.runtime.suspend(7 * 24 * 3600)
        manifest = await world.publish(two, noted("b", "after sleep"))
        assert manifest.number == 5
        assert await world.texts() == {"a": "2", "b": "after sleep"}

    simulate(test)


# When


def test_who_waits_is_answered_at_once() -> None:
    async def test(world: World) -> None:
        node = await running(world, cadence=Cadence(interval=100.0))
        for number in range(5):
            await world.runtime.sleep(1)
            position = await append(world, node, noted("a", str(number)))
            asked = world.runtime.boottime()
            manifest = await node.compactor.wait_for(position)
            assert world.runtime.boottime() == asked
            assert int(manifest.watermark) >= position
            assert await node.compactor.wait_for(position) == manifest
        await node.compactor.close()

    simulate(test)


def test_without_a_waiter_it_publishes_at_most_once_an_interval() -> None:
    async def test(world: World) -> None:
        node = await running(world, cadence=Cadence(interval=0.25))
        for number in range(40):
            await append(world, node, noted("a", str(number)))
            await world.runtime.sleep(0.05)
        published = node.compactor.head.manifest.number
        assert 7 <= published <= 9
        await world.runtime.sleep(1)
        assert await world.texts() == {"a": "39"}
        await node.compactor.close()

    simulate(test)


def test_a_slow_store_is_given_four_times_as_long_as_a_put_takes() -> None:
    async def test(world: World) -> None:
        async def slow() -> None:
            await world.runtime.sleep(1)

        world.store.on("create", path="manifests", hook=slow, times=1000)
        node = await running(world)
        for number in range(100):
            await append(world, node, noted("a", str(number)))
            await world.runtime.sleep(0.25)
        assert 4 <= node.compactor.head.manifest.number <= 6
        await node.compactor.close()

    simulate(test)


def test_an_idle_log_is_probed_once_an_hour() -> None:
    async def test(world: World) -> None:
        node = await running(world)
        await world.journal.append(noted("a", "from elsewhere"))
        before = node.counts.count()
        await world.runtime.sleep(3599)
        assert node.counts.count() == before
        await world.runtime.sleep(2)
        assert await world.texts() == {"a": "from elsewhere"}
        await node.compactor.close()

    simulate(test)


def test_waiting_for_a_position_that_nobody_wrote_ends() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        with pytest.raises(Stale, match="nothing here publishes"):
            await node.compactor.wait_for(1 << 20)
        node = await running(world)
        await append(world, node, noted("a", "x"))
        with pytest.raises(Stale):
            await node.compactor.wait_for(9 << 20)
        await node.compactor.close()

    simulate(test)


def test_a_failing_store_fails_the_waiters_and_is_tried_again() -> None:
    async def test(world: World) -> None:
        node = await running(world)
        world.store.on("create", path="/delta", error=StoreRefused("the disk is full"), times=2)
        position = await append(world, node, noted("a", "x"))
        with pytest.raises(StoreRefused, match="full"):
            await node.compactor.wait_for(position)
        await world.runtime.sleep(5)
        assert await world.texts() == {"a": "x"}
        world.store.on("create", path="/delta", error=StoreFailed("503"), times=8)
        position = await append(world, node, noted("a", "y"))
        with pytest.raises(Unavailable):
            await node.compactor.wait_for(position)
        await world.runtime.sleep(20)
        assert await world.texts() == {"a": "y"}
        assert node.compactor.failed is None
        await node.compactor.close()

    simulate(test)


def test_who_waits_for_a_store_that_hangs_is_told_after_half_a_minute() -> None:
    async def test(world: World) -> None:
        node = await running(world)
        go_on = asyncio.Event()

        async def hang() -> None:
            await go_on.wait()

        world.store.on("create", path="/delta", hook=hang)
        position = await append(world, node, noted("a", "x"))
        asked = world.runtime.boottime()
        with pytest.raises(Unavailable, match="not published within 30 s"):
            await node.compactor.wait_for(position)
        assert world.runtime.boottime() - asked == pytest.approx(30.0)
        go_on.set()
        assert int((await node.compactor.wait_for(position)).watermark) >= position
        await node.compactor.close()

    simulate(test)


def test_a_bug_that_ends_the_loop_fails_who_waits_now_and_later() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        loop = asyncio.create_task(node.compactor.run())
        await world.runtime.sleep(0)
        world.store.on("create", path="/delta", error=OverflowError("a bug"))
        position = await append(world, node, noted("a", "x"))
        asked = world.runtime.boottime()
        with pytest.raises(Unavailable, match="stopped: OverflowError"):
            await node.compactor.wait_for(position)
        assert world.runtime.boottime() - asked < 1
        with pytest.raises(OverflowError):
            await loop
        with pytest.raises(Unavailable, match="stopped: OverflowError"):
            await node.compactor.wait_for(position)

    simulate(test)


def test_who_waits_when_the_loop_is_closed_is_told() -> None:
    async def test(world: World) -> None:
        node = await running(world)

        async def hang() -> None:
            await world.runtime.sleep(5)

        world.store.on("create", path="/manifests/", hook=hang)
        await append(world, node, noted("a", "x"))
        await world.runtime.sleep(1)
        waiting = asyncio.create_task(node.compactor.wait_for(await append(world, node, noted("b", "y"))))
        await world.runtime.sleep(1)
        await node.compactor.close()
        with pytest.raises(Stale, match="closed"):
            await waiting

    simulate(test)


def test_a_loop_whose_files_were_collected_meanwhile_stands_on_the_newest_revision() -> None:
    async def test(world: World) -> None:
        await world.publish(await world.node(), noted("a", "x"))
        idle = await running(world)
        busy = await world.node(cadence=Cadence(fan_in=2))
        for number in range(4):
            await world.publish(busy, noted("a", str(number)))
        await busy.compactor.compact()
        world.runtime.suspend(40 * 24 * 3600.0)
        position = await world.journal.append(noted("a", "last"))
        await busy.publish()
        await busy.compactor.compact()
        gone = await world.collector().collect()
        named = {file.path for layer in idle.replica.base.layers for file in layer.files}
        assert named & {info.path for info in gone.files}, "what the idle process stands on is gone"
        await idle.compactor.wait_for(position)
        assert idle.compactor.failed is None
        assert (await idle.replica.get(NOTES, "a", "a")).text == "last"
        await idle.compactor.wait_for(await append(world, idle, noted("b", "y")))
        assert await world.texts() == {"a": "last", "b": "y"}
        await world.equals_refold(idle)
        await idle.compactor.close()

    simulate(test)


def test_a_loop_whose_files_are_lost_without_a_newer_revision_ends() -> None:
    async def test(world: World) -> None:
        manifest = await world.publish(await world.node(), noted("a", "x"))
        node = await running(world)
        await world.memory.delete(f"{ROOT}/{manifest.layers[0].files[0].path}")
        position = await world.journal.append(noted("a", "y"))
        with pytest.raises(LostObject):
            await node.compactor.wait_for(position)
        assert isinstance(node.compactor.failed, LostObject)

    simulate(test)


def test_dropping_clean_rows_from_memory_changes_no_result() -> None:
    async def test(world: World) -> None:
        node = await world.node(cadence=Cadence(max_rows=0, fan_in=3))
        for number in range(20):
            events = [noted(f"n{number % 7}", str(number), "s"), dropped(f"n{(number * 3) % 7}")]
            await world.publish(node, *events)
            assert node.replica.loaded_rows() == 0
        await node.compactor.compact()
        await world.equals_refold(node)

    simulate(test)


def test_nothing_is_evicted_while_somebody_reads() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("a", "x"))
        node.replica.hold()
        node.replica.evict()
        assert node.replica.loaded_rows() == 1
        node.replica.release()
        node.replica.evict()
        assert node.replica.loaded_rows() == 0
        assert (await node.replica.get(NOTES, "a", "a")).text == "x"

    simulate(test)
