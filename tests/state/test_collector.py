"""Collection: everything a reader can reach stays, everything else goes, and doubt deletes nothing."""

import pytest

from arco.core import HOUR, Corrupt, Forbidden, LostObject, Unavailable
from arco.state import Cadence, Manifest, snapshot_at_revision
from arco.storage import Role, StoreFailed
from tests.state.doubles import ROOT, digests
from tests.state.toy import dropped, noted
from tests.state.world import TOY, World, simulate


async def garbage(world: World, base: int, name: str = "crashed", *, private: bool = False) -> str:
    """What an attempt leaves that crashed before its manifest."""
    path = f"inc-1/{'private' if private else 'state'}/activity/{base:020d}-{name}/delta"
    await world.memory.put(f"{ROOT}/{path}", b"left", only_if_absent=True)
    return path


async def state_objects(world: World) -> set[str]:
    return await world.objects("state") | await world.objects("private")


def test_what_crashed_attempts_left_goes_and_what_may_still_be_published_stays() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        for number in range(3):
            await world.publish(node, noted("a", str(number), "s"))
        named = await state_objects(world)
        dead = {await garbage(world, base) for base in (0, 1, 2)} | {await garbage(world, 1, private=True)}
        alive = {await garbage(world, base) for base in (3, 4)} | {await garbage(world, 3, private=True)}
        assert node.compactor.head.manifest.number == 3
        found = await world.collector().collect()
        assert {info.path for info in found.files} == dead
        assert await state_objects(world) == named | alive
        assert (found.manifests, found.floor) == ([], 0)
        assert found.bytes == len(dead) * len(b"left")
        assert await world.texts() == {"a": "2"}
        assert (await world.collector().collect()).files == []

    simulate(test)


def test_names_that_say_nothing_and_foreign_objects_stay() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("a", "x"))
        await world.publish(node, noted("a", "y"))
        strange = [
            "state/activity/readme", "state/activity/0-short/x", f"state/activity/{0:020d}/x", "state/activity/x-y/z",
            "manifests/activity/notes.txt", "manifests/activity/folder/thing",
        ]  # fmt: skip
        for name in strange:
            await world.memory.put(f"{ROOT}/inc-1/{name}", b"?", only_if_absent=True)
        found = await world.collector(min_age=0).collect()
        assert found.files == []
        for name in strange:
            await world.memory.get(f"{ROOT}/inc-1/{name}")

    simulate(test)


def test_a_dry_run_deletes_nothing_and_says_what_would_go() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        for number in range(3):
            await world.publish(node, noted("a", str(number)))
            await world.runtime.sleep(2 * 3600)
        await garbage(world, 0)
        before = await world.objects()
        dry = await world.collector().collect(dry_run=True)
        assert await world.objects() == before
        assert dry.dry_run
        done = await world.collector().collect()
        assert (done.files, done.manifests) == (dry.files, dry.manifests)
        assert (done.kept_files, done.kept_revisions) == (dry.kept_files, dry.kept_revisions)

    simulate(test)


def test_every_retained_revision_can_be_read_after_a_collection() -> None:
    async def test(world: World) -> None:
        node = await world.node(cadence=Cadence(fan_in=2))
        known: dict[int, dict[str, str]] = {}
        for number in range(30):
            await world.runtime.sleep((0.3, 20, 70, 4000)[number % 4])
            await world.publish(node, noted(f"n{number % 4}", str(number), "s"), dropped(f"n{(number + 1) % 4}"))
            await node.compactor.compact()
            snapshot = await node.snapshot()
            known[snapshot.manifest.number] = await digests(TOY, snapshot)
            if number % 7 == 0:
                await world.collector().collect()
        steps: list[tuple[int, int]] = []
        found = await world.collector().collect(progress=lambda done, total: steps.append((done, total)))
        assert steps[-1] == (len(found.files) + len(found.manifests),) * 2
        head = (await node.snapshot()).manifest
        entries = await node.revisions.history(head)
        assert found.kept_revisions == len(entries) + 1
        for entry in entries:
            manifest = await node.revisions.read(entry)
            old = snapshot_at_revision(TOY, node.store, manifest)
            if manifest.number in known:
                assert await digests(TOY, old) == known[manifest.number]
            else:
                await digests(TOY, old)
        numbers = {int(path.rsplit("/", 1)[1]) for path in await manifests(world)}
        assert head.number in numbers
        assert {entry.revision for entry in entries} <= numbers
        assert len(numbers) < head.number, "something was collected"
        await world.equals_refold(node)
        # Who comes from outside finds the head although the numbers below it are gone.
        await world.memory.delete(f"{ROOT}/inc-1/manifests/activity/hint")
        assert (await (await world.node()).snapshot()).manifest.number == head.number

    simulate(test)


async def manifests(world: World) -> set[str]:
    found = await world.objects("manifests")
    return {path for path in found if path.rsplit("/", 1)[1].isdigit() and "/floor/" not in path}


def test_the_floor_is_raised_before_the_first_manifest_is_deleted() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        for number in range(4):
            await world.publish(node, noted("a", str(number)))
            await world.runtime.sleep(10)
        await world.runtime.sleep(40 * 24 * 3600)
        await world.publish(node, noted("a", "late"))
        world.store.on("delete", error=StoreFailed("503"), times=100)
        with pytest.raises(StoreFailed):
            await world.collector().collect()
        operations = [call for call in world.store.calls if call[0] in ("create", "delete")]
        assert operations[-2][0] == "create"
        assert "/floor/" in operations[-2][1]
        assert len(await manifests(world)) == 5, "nothing is gone although the floor is up"
        world.store.heal()
        found = await world.collector().collect()
        assert found.floor == 4
        assert len(await manifests(world)) == 1

    simulate(test)


def test_manifests_younger_than_the_minimum_age_stay() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        for number in range(6):
            await world.publish(node, noted("a", str(number)))
            await world.runtime.sleep(1)
        await world.runtime.sleep(2 * 3600)
        await world.publish(node, noted("a", "x"))
        assert len((await node.snapshot()).manifest.history) < 6
        assert (await world.collector(min_age=10 * 3600.0).collect()).manifests == []
        assert (await world.collector().collect()).manifests != []

    simulate(test)


def test_the_directory_of_a_pending_merge_is_left_alone() -> None:
    async def test(world: World) -> None:
        node = await world.node(cadence=Cadence(fan_in=2))
        await world.publish(node, noted("a", "x"))
        announced = await world.publish(node, noted("b", "y"))
        (pending,) = announced.pending
        await node.compactor.close()
        path = f"inc-1/state/activity/{pending.directory}/01X/merged-0000.parquet"
        await world.memory.put(f"{ROOT}/{path}", b"half done", only_if_absent=True)
        for number in range(2):
            await world.publish(await world.node(), noted("c", str(number)))
        await world.collector().collect()
        assert path in await state_objects(world)
        heir = await world.node(cadence=Cadence(fan_in=2))
        manifest: Manifest = await heir.compactor.compact()
        assert manifest.pending == ()
        await world.publish(heir, noted("d", "z"))
        await world.collector().collect()
        assert path not in await state_objects(world)
        assert len(await world.texts()) == 4

    simulate(test)


@pytest.mark.parametrize("damage", ["altered", "missing", "unreadable", "history"])
def test_a_retained_revision_that_cannot_be_read_stops_the_collection(damage: str) -> None:
    async def test(world: World) -> None:
        node = await world.node()
        for number in range(3):
            await world.publish(node, noted("a", str(number)))
        await garbage(world, 0)
        path = node.revisions.sequence.path(2)
        expected: type[Exception] = Corrupt
        if damage == "altered":
            await world.damage(path)
        elif damage == "missing":
            await world.memory.delete(f"{ROOT}/{path}")
            expected = LostObject
        elif damage == "unreadable":
            world.store.on("get", path=path, error=StoreFailed("503"), times=100)
            expected = Unavailable
        else:
            await world.damage(node.revisions.sequence.path(3))
        before = await world.objects()
        with pytest.raises(expected):
            await world.collector().collect()
        assert await world.objects() == before

    simulate(test)


def test_an_empty_log_has_nothing_to_collect() -> None:
    async def test(world: World) -> None:
        found = await world.collector().collect()
        assert (found.files, found.manifests, found.kept_files, found.kept_revisions) == ([], [], 0, 0)

    simulate(test)


def test_only_the_collector_may_delete() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        path = (await world.publish(node, noted("a", "x"))).layers[0].files[0].path
        for role in Role:
            if role is not Role.COLLECTOR:
                with pytest.raises(Forbidden):
                    await world.handle(role).delete(path)

    simulate(test)


def test_a_spilled_history_stays_as_long_as_a_revision_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from arco.state import _history

    monkeypatch.setattr(_history, "INLINE", 4)

    async def test(world: World) -> None:
        node = await world.node()
        for number in range(12):
            await world.publish(node, noted("a", str(number)))
        head = (await node.snapshot()).manifest
        assert head.older is not None
        await world.runtime.sleep(HOUR / 1_000_000 * 2)
        await world.publish(node, noted("a", "later"))
        await world.collector().collect()
        head = (await node.snapshot()).manifest
        for entry in await node.revisions.history(head):
            await node.revisions.read(entry)

    simulate(test)
