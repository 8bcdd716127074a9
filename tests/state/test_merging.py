"""Merges beside publishing: announced, done, adopted, or left to others."""

import asyncio
import threading

import pytest

from arco.core import ArcoError, Corrupt, Outdated
from arco.runtime import AsyncRuntime
from arco.state import Cadence, LocalRunner, MergeJob, _beside, _files, _layers
from arco.storage import MemoryStore, StoreFailed
from tests.doubles import FakeRuntime
from tests.state.doubles import PLACE, ROOT, Journal, open_node
from tests.state.toy import NOTES, dropped, noted
from tests.state.world import TOY, Crash, Recording, World, append, running, simulate


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


@pytest.mark.parametrize(
    ("there", "error"), [(b"", Corrupt), (b'["cut', Corrupt), (b"\xff", Corrupt), (b'{"format":2}', Outdated)]
)
def test_a_result_that_cannot_be_read_is_told_and_kept(there: bytes, error: type[ArcoError]) -> None:
    async def test(world: World) -> None:
        crashed = Recording(world)

        async def crash() -> None:
            raise Crash

        crashed.hook = crash
        node = await world.node(cadence=Cadence(fan_in=2), runner=crashed)
        await world.publish(node, noted("a", "x"))
        (pending,) = (await world.publish(node, noted("b", "y"))).pending
        with pytest.raises(Crash):
            await next(iter(node.compactor.merging._running.values()))
        path = f"{ROOT}/inc-1/state/activity/{pending.directory}/result"
        await world.memory.put(path, there, only_if_absent=True)
        heir = await world.node(cadence=Cadence(fan_in=2))
        with pytest.raises(error, match=rf"{pending.directory}/result"):
            await heir.compactor.compact()
        assert type(heir.compactor.merging.trouble) is error
        await world.publish(heir, noted("c", "z"))
        assert await world.memory.get(path) == there
        await world.memory.delete(path)
        assert (await heir.compactor.compact()).pending == ()
        assert await world.texts() == {"a": "x", "b": "y", "c": "z"}
        await world.equals_refold(heir)

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


def test_a_damaged_input_of_one_table_leaves_other_merges_and_the_loop_alone() -> None:
    async def test(world: World) -> None:
        node = await running(world, cadence=Cadence(fan_in=2))
        told: list[str] = []
        node.compactor.on_trouble = lambda trouble: told.append("" if trouble is None else trouble.name)
        await node.compactor.wait_for(await append(world, node, noted("a", "x", "s")))
        (file,) = {layer.files[0].path for layer in node.compactor.head.manifest.layers_of("notes")}
        await world.damage(file)
        for number in range(10):
            await node.compactor.wait_for(await append(world, node, noted(f"b{number}", "x", "s")))
            await world.runtime.sleep(5)
        head = node.compactor.head.manifest
        assert (told, node.compactor.failed) == (["Corrupt"], None)
        assert len(head.layers_of("notes")) == 11
        assert len(head.layers_of("secrets")) < 6
        await world.damage(file)  # twice is not at all
        await world.runtime.sleep(120)
        assert told == ["Corrupt", ""]
        assert len(node.compactor.head.manifest.layers_of("notes")) < 11
        await node.compactor.close()
        await world.equals_refold(node)

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


def test_large_layers_are_decoded_sorted_and_encoded_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_beside, "LARGE_ROWS", 1)
    threads: dict[str, set[int]] = {}

    def watch(module: object, name: str) -> None:
        work = getattr(module, name)

        def watched(*args: object) -> object:
            threads.setdefault(name, set()).add(threading.get_ident())
            return work(*args)

        monkeypatch.setattr(module, name, watched)

    for module, name in ((_layers, "read_parquet"), (_layers, "sort_rows"), (_files, "to_parquet")):
        watch(module, name)

    async def main() -> None:
        runtime = AsyncRuntime()
        store = MemoryStore(runtime)
        journal = Journal(store, FakeRuntime())
        node = await open_node(FakeRuntime(), store, TOY, cadence=Cadence(fan_in=99))
        for number in range(3):
            await journal.append(noted(f"n{number}", "x"), noted("again", str(number)))
            await node.publish()
        layers = tuple(node.compactor.head.manifest.layers_of("notes"))
        threads.clear()
        (merged,) = await LocalRunner(node.store, PLACE, runtime).merge(MergeJob(NOTES, layers, True, None, "9-m"))
        assert merged.rows == 4
        assert set(threads) == {"read_parquet", "sort_rows", "to_parquet"}
        assert all(threading.get_ident() not in found for found in threads.values())

    asyncio.run(main())
