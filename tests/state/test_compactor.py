"""The compactor: what it writes, who wins, when it publishes, how merges and rebuilds end."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from arco.core import Corrupt, LostObject, Outdated, Stale, StoreRefused, Superseded, Unavailable
from arco.log import Event
from arco.state import (
    Cadence,
    File,
    LocalRunner,
    Manifest,
    MergeJob,
    RefoldJob,
    decode_manifest,
    encode_manifest,
)
from arco.storage import Role, StoreFailed
from tests.state.doubles import PLACE, ROOT, Node, digests, rows_of
from tests.state.toy import NOTES, SECRETS, dropped, noted, shouted, toy
from tests.state.world import TOY, World, simulate

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


async def running(world: World, **options: Any) -> Node:
    node = await world.node(**options)
    world.runtime.spawn(node.compactor.run(), "compactor")
    await world.runtime.sleep(0)
    return node


async def append(world: World, node: Node, *events: Event) -> int:
    """As the owner in this process does it: append, fold, tell the compactor."""
    position = await world.journal.append(*events)
    await node.follower.catch_up()
    node.compactor.notify(position >> 20)
    return position


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


# Merges


class Recording(LocalRunner):
    """Notes the jobs; `hook` runs before each one is done."""

    def __init__(self, world: World) -> None:
        super().__init__(world.handle(Role.COMPACTOR), PLACE, world.runtime)
        self.merges: list[MergeJob] = []
        self.hook: Callable[[], Awaitable[None]] | None = None

    async def merge(self, job: MergeJob) -> tuple[File, ...]:
        assert len(self.merges) < 50, "a merge is tried over and over"
        self.merges.append(job)
        if self.hook:
            await self.hook()
        return await super().merge(job)

    async def refold(self, job: RefoldJob) -> Manifest:
        if self.hook:
            await self.hook()
        return await super().refold(job)


class Crash(Exception):
    """The process ends here."""


def test_a_merge_is_announced_done_and_adopted() -> None:
    async def test(world: World) -> None:
        runner = Recording(world)
        node = await world.node(cadence=Cadence(fan_in=3), runner=runner)
        for number in range(2):
            manifest = await world.publish(node, noted(f"n{number}", "x"))
            assert manifest.pending == ()
        manifest = await world.publish(node, dropped("n0"))
        (pending,) = manifest.pending
        assert (pending.kind, pending.table, len(pending.inputs)) == ("merge", "notes", 3)
        manifest = await node.compactor.compact()
        assert manifest.pending == ()
        (layer,) = manifest.layers_of("notes")
        assert (layer.level, layer.rows) == (1, 1)
        assert layer.files[0].path.startswith(f"inc-1/state/activity/{pending.directory}/")
        assert [job.oldest for job in runner.merges] == [True]
        assert await world.texts() == {"n1": "x"}

    simulate(test)


def test_merges_run_beside_publishing() -> None:
    async def test(world: World) -> None:
        runner = Recording(world)
        gate = world.runtime.future()

        async def wait() -> None:
            await gate

        runner.hook = wait
        node = await running(world, cadence=Cadence(fan_in=2), runner=runner)
        for number in range(6):
            await node.compactor.wait_for(await append(world, node, noted(f"n{number}", "x")))
        assert len(node.compactor.head.manifest.layers_of("notes")) == 6
        assert len(runner.merges) == 1, "one merge a table at a time"
        gate.set(None)
        await world.runtime.sleep(10)
        assert [layer.level for layer in node.compactor.head.manifest.layers_of("notes")] == [2, 1]
        assert len(await world.texts()) == 6
        await node.compactor.close()
        await world.equals_refold(node)

    simulate(test)


def test_a_merge_whose_inputs_are_gone_is_dropped() -> None:
    async def test(world: World) -> None:
        runner = Recording(world)
        gate = world.runtime.future()

        async def wait() -> None:
            await gate

        slow = await world.node(cadence=Cadence(fan_in=2), runner=runner)
        for number in range(2):
            await world.publish(slow, noted(f"n{number}", "x"))
        other = await world.node()
        runner.hook = wait
        await world.runtime.sleep(0)
        await other.compactor.rebuild()
        gate.set(None)
        await world.publish(slow, noted("n9", "x"))
        manifest = await slow.compactor.compact()
        assert manifest.pending == ()
        assert manifest.generation == 1
        assert sorted(await world.texts()) == ["n0", "n1", "n9"]
        await world.equals_refold(slow)

    simulate(test)


@pytest.mark.parametrize("when", ["before the files", "after the result"])
def test_a_merge_left_by_a_crash_is_finished_by_the_next_compactor(when: str) -> None:
    async def test(world: World) -> None:
        crashed = Recording(world)

        async def crash() -> None:
            raise Crash

        if when == "before the files":
            crashed.hook = crash
        node = await world.node(cadence=Cadence(fan_in=2), runner=crashed)
        await world.publish(node, noted("a", "x"))
        announced = await world.publish(node, noted("b", "y"))
        (task,) = node.compactor.merging._running.values()
        if crashed.hook:
            with pytest.raises(Crash):
                await task
        else:
            await task
        assert len(announced.pending) == 1
        # The first process ends here. The next one does the work only if there is no result.
        runner = Recording(world)
        heir = await world.node(cadence=Cadence(fan_in=2), runner=runner)
        manifest = await heir.compactor.compact()
        assert manifest.pending == ()
        assert [layer.level for layer in manifest.layers_of("notes")] == [1]
        assert len(runner.merges) == (1 if crashed.hook else 0)
        assert await world.texts() == {"a": "x", "b": "y"}

    simulate(test)


def test_two_compactors_that_do_the_same_merge_adopt_one_result() -> None:
    async def test(world: World) -> None:
        one = await world.node(cadence=Cadence(fan_in=2))
        await world.publish(one, noted("a", "x"))
        await world.publish(one, noted("b", "y"))
        two = await world.node(cadence=Cadence(fan_in=2))
        await asyncio.gather(one.compactor.compact(), two.compactor.compact())
        for node in (one, two):
            await world.publish(node, noted("c", "z"))
        manifest = await one.compactor.compact()
        assert manifest.pending == ()
        assert await world.texts() == {"a": "x", "b": "y", "c": "z"}
        await world.equals_refold(one)

    simulate(test)


def test_a_merge_waits_for_a_store_that_fails_now() -> None:
    async def test(world: World) -> None:
        node = await world.node(cadence=Cadence(fan_in=2))
        await world.publish(node, noted("a", "x"))
        await world.publish(node, noted("b", "y"))
        world.store.on("get_range", error=StoreFailed("503"), times=3)
        manifest = await node.compactor.compact()
        assert [layer.level for layer in manifest.layers_of("notes")] == [1]

    simulate(test)


def test_a_merge_with_a_damaged_input_is_reported_and_a_rebuild_heals_it() -> None:
    async def test(world: World) -> None:
        runner = Recording(world)
        node = await world.node(cadence=Cadence(fan_in=2), runner=runner)
        first = await world.publish(node, noted("a", "x"))
        path = f"{ROOT}/{first.layers[0].files[0].path}"
        await world.memory.put(path, b"ARCODLT1" + bytes(10_000), only_if_absent=False)
        await world.publish(node, noted("b", "y"))
        with pytest.raises(Corrupt):
            await node.compactor.compact()
        assert isinstance(node.compactor.merging.trouble, Corrupt)
        assert len(node.compactor.head.manifest.layers_of("notes")) == 2, "the inputs stay as they are"
        await node.compactor.rebuild()
        for number in range(4):
            await world.publish(node, noted(f"c{number}", "z"))
        await node.compactor.compact()
        assert len(await world.texts()) == 6

    simulate(test)


def test_a_merge_with_a_damaged_input_is_not_tried_again_at_every_publish() -> None:
    async def test(world: World) -> None:
        runner = Recording(world)
        node = await world.node(cadence=Cadence(fan_in=2), runner=runner)
        first = await world.publish(node, noted("a", "x"))
        await world.damage(first.layers[0].files[0].path)
        await world.publish(node, noted("b", "y"))
        await world.runtime.sleep(5)
        assert isinstance(node.compactor.merging.trouble, Corrupt)
        tried = {job.directory.split("/")[0] for job in runner.merges}
        for number in range(6):
            await world.publish(node, noted("c", str(number)))
            await world.runtime.sleep(5)
        again = [job for job in runner.merges if job.directory.split("/")[0] in tried]
        assert len(again) == 1
        with pytest.raises(Corrupt):
            await node.compactor.compact()
        assert len(runner.merges) > len(again), "who asks for it has it tried once more"

    simulate(test)


# Rebuilds, fold versions, seals


def test_a_rebuild_swaps_everything_while_events_go_on_arriving() -> None:
    async def test(world: World) -> None:
        runner = Recording(world)
        node = await running(world, runner=runner)
        for number in range(5):
            await node.compactor.wait_for(await append(world, node, noted(f"n{number}", "x")))

        async def arrive() -> None:
            await node.compactor.wait_for(await append(world, node, noted("n0", "during"), dropped("n1")))
            await append(world, node, noted("late", "unpublished"))

        runner.hook = arrive
        steps: list[tuple[int, int]] = []
        manifest = await node.compactor.rebuild(lambda done, total: steps.append((done, total)))
        assert steps == [(5, 5)]
        assert (manifest.generation, manifest.pending) == (1, ())
        assert await world.texts() == {
            "n0": "during", "n2": "x", "n3": "x", "n4": "x", "late": "unpublished"
        }  # fmt: skip
        runner.hook = None
        await node.compactor.wait_for(await append(world, node, noted("n1", "after")))
        assert (await world.texts())["n1"] == "after"
        await world.equals_refold(node)
        await node.compactor.close()

    simulate(test)


def test_a_rebuild_spills_what_does_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from arco.state import _forward, _runner

    monkeypatch.setattr(_runner, "SPILL_ROWS", 2)
    monkeypatch.setattr(_forward, "BATCH_SEGMENTS", 2)

    async def test(world: World) -> None:
        node = await world.node()
        for number in range(12):
            await world.publish(node, noted(f"n{number % 5}", str(number), "s"))
        before = await node.digests()
        manifest = await node.compactor.rebuild()
        assert len(manifest.layers_of("notes")) > 2
        assert await node.digests() == before

    simulate(test)


def test_what_a_rebuild_wrote_are_plain_parquet_files() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("a", "x", "s"), noted("b", "y"), dropped("zz"))
        manifest = await node.compactor.rebuild()
        assert {layer.table for layer in manifest.layers} == {"notes", "secrets", "rejections"}
        for layer in manifest.layers:
            for file in layer.files:
                data = await world.memory.get(f"{ROOT}/{file.path}")
                assert (file.offset, file.length) == (0, len(data))
                assert pq.read_table(io.BytesIO(data)).num_rows == file.rows

    simulate(test)


def test_another_live_replica_starts_over_when_the_generation_changed() -> None:
    async def test(world: World) -> None:
        one, two = await world.node(), await world.node()
        await world.publish(one, noted("a", "x"), noted("b", "y"))
        await two.publish()
        await one.compactor.rebuild()
        await world.publish(two, dropped("a"))
        assert two.replica.base.generation == 1
        assert await world.texts() == {"b": "y"}
        await world.equals_refold(two)

    simulate(test)


def test_a_rebuild_that_another_one_replaced_gives_up() -> None:
    async def test(world: World) -> None:
        runner = Recording(world)
        node, other = await world.node(runner=runner), await world.node()
        await world.publish(node, noted("a", "x"))
        await other.publish()

        async def overtake() -> None:
            await other.compactor.rebuild()
            await world.publish(node, noted("b", "y"))

        runner.hook = overtake
        with pytest.raises(Superseded, match="start it again"):
            await node.compactor.rebuild()
        assert (await world.publish(node, noted("c", "z"))).generation == 1
        assert await world.texts() == {"a": "x", "b": "y", "c": "z"}

    simulate(test)


def test_a_rebuild_that_was_never_finished_is_forgotten_after_a_day() -> None:
    async def test(world: World) -> None:
        runner = Recording(world)

        async def crash() -> None:
            raise Crash

        runner.hook = crash
        node = await world.node(runner=runner)
        await world.publish(node, noted("a", "x"))
        with pytest.raises(Crash):
            await node.compactor.rebuild()
        assert [known.kind for known in (await world.publish(node, noted("a", "y"))).pending] == ["rebuild"]
        await world.runtime.sleep(25 * 3600)
        assert (await world.publish(node, noted("a", "z"))).pending == ()

    simulate(test)


def test_a_new_fold_version_folds_everything_anew_at_its_first_publish() -> None:
    newer = toy(2, derive=lambda text: text[::-1])

    async def test(world: World) -> None:
        old = await world.node()
        for number in range(3):
            await world.publish(old, noted(f"n{number}", "abc"))
        node = await world.node(newer)
        manifest = await node.publish()
        assert manifest.generation == 1
        assert manifest.folds == {"system": 1, "toy": 2}
        assert await world.texts(newer) == {"n0": "cba", "n1": "cba", "n2": "cba"}
        await world.equals_refold(node)
        # Whoever is older may go on reading, and publishes nothing any more.
        await world.journal.append(noted("n3", "abc"))
        with pytest.raises(Outdated):
            await old.publish()
        with pytest.raises(Outdated):
            await old.compactor.rebuild()
        late = await world.node()
        with pytest.raises(Outdated):
            await late.compactor.publish()
        with pytest.raises(Outdated):
            await late.compactor.rebuild()
        assert (await node.snapshot()).manifest.number == manifest.number
        assert {row["text"] for row in await rows_of(await late.snapshot(), NOTES)} == {"cba"}

    simulate(test)


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_new_fold_version_is_folded_by_the_runner(by_hand: bool) -> None:
    newer = toy(2, derive=lambda text: text[::-1])

    async def test(world: World) -> None:
        old = await world.node()
        for number in range(3):
            await world.publish(old, noted(f"n{number}", "abc"))
        runner = Recording(world)
        jobs: list[str] = []

        async def note() -> None:
            jobs.append("refold")

        runner.hook = note
        if by_hand:
            node = await world.node(newer, runner=runner)
            manifest = await node.compactor.compact()
        else:
            node = await running(world, definition=newer, runner=runner)
            await world.runtime.sleep(1)
            manifest = node.compactor.head.manifest
            await node.compactor.close()
        assert jobs == ["refold"]
        assert (manifest.generation, manifest.folds["toy"]) == (1, 2)
        assert await world.texts(newer) == {"n0": "cba", "n1": "cba", "n2": "cba"}

    simulate(test)


def test_who_sees_a_newer_fold_version_in_the_log_publishes_nothing() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        manifest = await world.publish(node, noted("a", "x"))
        await world.journal.append(noted("b", "y"), folds={"toy": 2})
        with pytest.raises(Outdated, match="fold version 2 of toy"):
            await node.publish()
        with pytest.raises(Outdated):
            await node.compactor.rebuild()
        assert (await node.snapshot()).manifest == manifest

    simulate(test)


def test_the_loop_of_an_outdated_program_ends_and_tells_its_waiters() -> None:
    async def test(world: World) -> None:
        old = await running(world)
        await old.compactor.wait_for(await append(world, old, noted("a", "abc")))
        await (await world.node(toy(2))).publish()
        position = await append(world, old, noted("b", "abc"))
        with pytest.raises(Outdated):
            await old.compactor.wait_for(position)
        assert isinstance(old.compactor.failed, Outdated)
        with pytest.raises(Outdated):
            await old.compactor.wait_for(position)

    simulate(test)


def test_an_event_type_that_was_skipped_is_folded_by_the_program_that_knows_it() -> None:
    knows = toy(shouts=True)

    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("a", "x"), shouted("a", "loud"))
        assert await world.texts() == {"a": "x"}
        assert node.replica.skipped() is not None
        again = await world.node()
        await world.publish(again, noted("b", "y"))
        assert again.replica.skipped() is not None, "the manifest remembers what was skipped"
        newer = await world.node(knows)
        manifest = await newer.publish()
        assert (manifest.skipped, manifest.generation) == ((), 1)
        assert await world.texts(knows) == {"a": "LOUD", "b": "y"}

    simulate(test)


def test_a_sealed_state_is_published_by_nobody() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        manifest = await world.publish(node, noted("a", "x"))
        path = f"{ROOT}/{node.revisions.sequence.path(1)}"
        sealed = msgspec.structs.replace(
            decode_manifest(await world.memory.get(path), path),
            number=2,
            seal=True,
            previous=node.compactor.head.sha256,
        )
        await world.memory.put(
            f"{ROOT}/{node.revisions.sequence.path(2)}", encode_manifest(sealed), only_if_absent=True
        )
        late = await world.node()
        for old in (node, late):
            await world.journal.append(noted("b", "y"))
            with pytest.raises(Superseded, match="sealed"):
                await old.publish()
            with pytest.raises(Superseded, match="sealed"):
                await old.compactor.rebuild()
        assert (await node.snapshot()).manifest.number == manifest.number + 1

    simulate(test)


def test_the_publish_that_covers_the_seal_carries_it_and_plans_no_merges() -> None:
    async def test(world: World) -> None:
        node = await world.node(cadence=Cadence(fan_in=2))
        assert not (await world.publish(node, noted("a", "x"))).seal
        await world.journal.append(noted("b", "y"))
        await world.journal.append(seal=True)
        manifest = await node.compactor.compact()
        assert (manifest.seal, manifest.link.number, manifest.pending) == (True, 3, ())
        assert len(manifest.layers_of("notes")) == 2, "the merge that was due is left"
        with pytest.raises(Superseded, match="sealed"):
            await (await world.node(cadence=Cadence(fan_in=2))).publish()
        assert (await node.snapshot()).manifest == manifest

    simulate(test)


def test_of_a_rebuild_that_covers_the_seal_only_the_last_revision_carries_it() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("a", "x"))
        await world.journal.append(seal=True)
        await node.follower.catch_up()
        manifest = await node.compactor.rebuild()
        assert (manifest.seal, manifest.pending, manifest.generation) == (True, (), 1)
        assert not (await node.revisions.at_revision(manifest, manifest.number - 1)).seal

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


def test_closing_leaves_a_merge_for_the_next_compactor() -> None:
    async def test(world: World) -> None:
        runner = Recording(world)

        async def forever() -> None:
            await world.runtime.sleep(10**6)

        runner.hook = forever
        node = await running(world, cadence=Cadence(fan_in=2), runner=runner)
        for number in range(2):
            await node.compactor.wait_for(await append(world, node, noted(f"n{number}", "x")))
        await world.runtime.sleep(1)
        await node.compactor.close()
        await world.runtime.sleep(1)
        heir = await world.node(cadence=Cadence(fan_in=2))
        assert [layer.level for layer in (await heir.compactor.compact()).layers_of("notes")] == [1]

    simulate(test)
