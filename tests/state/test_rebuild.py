"""What replaces everything: rebuilds, new fold versions, seals."""

import io

import msgspec
import pyarrow.parquet as pq
import pytest

from arco.core import Outdated, Superseded, Unavailable
from arco.state import (
    Cadence,
    decode_manifest,
    encode_manifest,
    refold_pins,
)
from tests.state.doubles import ROOT, rows_of
from tests.state.toy import NOTES, dropped, noted, shouted, toy
from tests.state.world import Crash, Recording, World, append, running, simulate


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


@pytest.mark.parametrize("way", ["compact", "loop", "loop in memory", "publish"])
def test_what_older_folds_made_is_pinned_by_the_revision_that_replaces_it(way: str) -> None:
    newer = toy(2, derive=lambda text: text[::-1])

    async def test(world: World) -> None:
        old = await world.node()
        await world.publish(old, noted("a", "abc"))
        runner = Recording(world)

        async def die() -> None:
            raise Unavailable("the store is busy")

        runner.hook = die if way == "loop in memory" else None
        if way.startswith("loop"):
            node = await running(world, definition=newer, runner=runner)
            await world.runtime.sleep(1)
        else:
            node = await world.node(newer, runner=runner)
            await (node.compactor.compact() if way == "compact" else node.publish())
        runner.hook = None
        swapped = node.compactor.head.manifest
        [pin] = refold_pins(swapped)
        before = await node.revisions.at_revision(swapped, pin.revision)
        assert (before.number, before.folds["toy"]) == (swapped.number - 1, 1)

        node = await world.node(newer)
        await world.publish(node, noted("b", "abc"))
        await node.compactor.rebuild()
        await world.runtime.sleep(29 * 24 * 3600.0)
        last = await world.publish(node, noted("c", "abc"))
        assert refold_pins(last) == [pin], "no log has the pin, and yet each revision takes it on, a rebuild as well"
        assert (await node.revisions.at_revision(last, pin.revision)).id == before.id
        await world.runtime.sleep(2 * 24 * 3600.0)
        assert (await world.publish(node, noted("d", "abc"))).pins == ()

    simulate(test)


def test_the_way_back_pins_what_newer_folds_made() -> None:
    async def test(world: World) -> None:
        await world.publish(await world.node(), noted("a", "abc"))
        newer = await (await world.node(toy(2))).publish()
        back = await (await world.node()).compactor.roll_back()
        assert back.folds["toy"] == 1
        assert [pin.revision for pin in refold_pins(back)] == [newer.number - 1, back.number - 1]

    simulate(test)


@pytest.mark.parametrize("is_bulk", [True, False])
def test_compact_tells_of_a_runner_that_fails_instead_of_folding_in_its_place(is_bulk: bool) -> None:
    newer = toy(2, derive=lambda text: text[::-1])

    async def test(world: World) -> None:
        await world.publish(await world.node(), noted("a", "abc"))
        await world.journal.append(noted("b", "abc"))
        runner = Recording(world)

        async def die() -> None:
            raise Unavailable("the cluster is gone")

        async def asked(after: int, through: int) -> bool:
            return is_bulk

        runner.hook = die
        node = await world.node(newer, runner=runner)
        with pytest.raises(Unavailable, match="the cluster is gone"):
            await node.compactor.compact(asked)
        assert (await node.snapshot()).manifest.folds["toy"] == 1, "nothing was folded here"
        runner.hook = None
        steps: list[tuple[int, int]] = []
        await node.compactor.compact(asked, lambda done, total: steps.append((done, total)))
        assert steps == [(2, 2)]
        assert await world.texts(newer) == {"a": "cba", "b": "cba"}

    simulate(test)


def test_the_loop_folds_in_memory_what_its_runner_cannot() -> None:
    newer = toy(2, derive=lambda text: text[::-1])

    async def test(world: World) -> None:
        await world.publish(await world.node(), noted("a", "abc"))
        runner = Recording(world)

        async def die() -> None:
            raise Unavailable("the store is busy")

        runner.hook = die
        node = await running(world, definition=newer, runner=runner)
        await world.runtime.sleep(1)
        assert node.compactor.head.manifest.folds["toy"] == 2
        assert await world.texts(newer) == {"a": "cba"}
        await node.compactor.close()

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
