"""Packing: old segments move into packs, originals go, and every reader sees the same as before."""

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arco.core import ArcoError, Corrupt, LostObject, StoreRefused
from arco.log import FIRST_LINK, Ledger, Pack, Unknown, read_log
from arco.state import Cadence, Level, LocalRunner, PackSize, RefoldJob, Revisions, open_ledger, verify_chain
from arco.state._manifest import Pending
from arco.state._packing import Gauge, grow, packed_through, plan_pack
from arco.state._revisions import empty_manifest
from arco.storage import Role, StoreFailed, Tail
from tests.doubles import run
from tests.state.doubles import PLACE, ROOT, Node
from tests.state.toy import noted
from tests.state.world import World, append, running, simulate

HOURS = 3600.0
SMALL = PackSize(bytes=10**9, segments=4, keep=2, fan=3)


def small(**changes: int) -> Cadence:
    return Cadence(fan_in=50, packs=replace(SMALL, **changes))


async def filled(world: World, count: int, cadence: Cadence | None = None, *, publish: int = 1) -> Node:
    """A node after so many segments, published after every few of them, and all that is due packed."""
    node = await world.node(cadence=cadence or small())
    for number in range(1, count + 1):
        await world.journal.append(noted(f"n{number % 7}", f"text {number}", "w" if number % 3 else ""))
        if number % publish == 0:
            await node.publish()
    await node.follower.catch_up()
    await node.compactor.compact()
    return node


async def loose(world: World) -> set[int]:
    found = await world.objects("ledger/activity")
    return {int(path.rsplit("/", 1)[1]) for path in found if "/floor/" not in path}


async def drop_originals(world: World) -> None:
    """As a collector does it, hours later, when something new tells what time it is."""
    await world.runtime.sleep(3 * HOURS)
    await world.journal.append(noted("late", "x"))
    await world.collector().collect()


def ledger_of(world: World, packs: tuple[Pack, ...] = ()) -> Ledger:
    store = world.handle(Role.READER)
    return open_ledger(store, Revisions(store, PLACE, world.runtime), packs)


async def raise_floor(world: World, number: int) -> None:
    store = world.handle(Role.COLLECTOR)
    await open_ledger(store, Revisions(store, PLACE, world.runtime)).sequence.raise_floor(number, "x")


async def raw(segments: AsyncIterator[tuple[int, bytes, str]]) -> list[tuple[int, bytes]]:
    return [(number, data) async for number, data, _ in segments]


def test_old_segments_are_packed_and_the_newest_stay_loose() -> None:
    async def test(world: World) -> None:
        node = await filled(world, 11)
        packs = node.compactor.head.manifest.packs
        assert [(pack.first, pack.last) for pack in packs] == [(1, 4), (5, 8)]
        assert packed_through(node.compactor.head.manifest) == 8
        assert node.compactor.head.manifest.format == 2
        assert node.compactor.head.manifest.pending == ()
        assert await loose(world) == set(range(1, 12))  # nothing is deleted yet
        await drop_originals(world)
        assert await loose(world) == {9, 10, 11, 12}
        await node.publish()
        await world.equals_refold(node)
        assert [found.message for found in await world.examine() if found.level is Level.ERROR] == []

    simulate(test)


def test_a_manifest_without_packs_is_written_as_before() -> None:
    async def test(world: World) -> None:
        node = await filled(world, 4)
        assert (node.compactor.head.manifest.format, node.compactor.head.manifest.packs) == (1, ())

    simulate(test)


def test_enough_bytes_are_packed_although_segments_are_few() -> None:
    async def test(world: World) -> None:
        await world.journal.append(noted("a", "x"))
        size = len(await ledger_of(world).read(1))
        node = await filled(world, 7, small(bytes=2 * size, segments=1000))
        ends = [pack.last for pack in node.compactor.head.manifest.packs]
        assert ends
        assert ends[-1] >= 4
        assert ends[-1] <= 6

    simulate(test)


def test_what_is_packed_is_what_was_there() -> None:
    async def test(world: World) -> None:
        node = await filled(world, 30, small(segments=3))
        before = await raw(ledger_of(world).known(1, 30))
        head = node.compactor.head.manifest
        await drop_originals(world)
        ledger = ledger_of(world, head.packs)
        assert await raw(ledger.known(1, 30)) == before
        assert await raw(ledger_of(world).known(1, 30)) == before  # who knows of no pack finds them
        for number, data in before:
            assert await ledger_of(world).read(number) == data
        chain = await verify_chain(ledger_of(world))
        assert chain.segments == 31

    simulate(test)


@given(st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_reader_sees_the_same_whatever_was_packed_and_deleted(data: st.DataObject) -> None:
    """Random logs, random sizes of packs, random deletion below the floor, random ranges."""
    count = data.draw(st.integers(8, 30), "segments")
    cadence = small(
        segments=data.draw(st.integers(1, 6), "pack"),
        keep=data.draw(st.integers(0, 3), "keep"),
        fan=data.draw(st.integers(2, 4), "fan"),
    )
    chance = random.Random(data.draw(st.integers(0, 2**32), "seed"))

    async def test() -> None:
        world = World()
        node = await filled(world, count, cadence, publish=data.draw(st.integers(1, 5), "publish"))
        wanted = await raw(ledger_of(world).known(1, count))
        texts = await world.texts()
        head = node.compactor.head.manifest
        packed = packed_through(head)
        assert packed < count
        older = [await world.collector()._revisions.read(entry) for entry in head.history]
        if packed:
            floor = chance.randint(1, packed)
            await raise_floor(world, floor)  # as the collector does before it deletes
            for number in range(1, floor + 1):
                if chance.random() < 0.7:
                    await world.memory.delete(f"{ROOT}/{node.follower.sequence.path(number)}")
        for packs in [(), head.packs, *(manifest.packs for manifest in older[-2:])]:
            first = chance.randint(1, count)
            last = chance.randint(first, count)
            ledger = ledger_of(world, packs)
            assert await raw(ledger.known(first, last)) == wanted[first - 1 : last]
            assert await ledger.read(first) == wanted[first - 1][1]
            found = [item async for item in read_log(ledger, Tail(0, Unknown), FIRST_LINK)]
            assert len(found) == count + 1
        for manifest in chance.sample(older, min(2, len(older))):
            number = chance.randint(manifest.link.number, count)
            at = await node.at((number << 20) + 0)
            assert at.position == number << 20
        await world.equals_refold(node)
        assert await world.texts() == texts
        await node.compactor.rebuild()
        assert await world.texts() == texts

    run(test())


def test_packs_are_listed_in_files_as_they_become_many() -> None:
    async def test(world: World) -> None:
        node = await filled(world, 60, small(segments=2))
        head = node.compactor.head.manifest
        assert [pack.level for pack in head.packs] == sorted((pack.level for pack in head.packs), reverse=True)
        assert max(pack.level for pack in head.packs) >= 2
        for level in range(3):
            assert sum(pack.level == level for pack in head.packs) < SMALL.fan
        entries = [entry async for entry in ledger_of(world, head.packs).entries()]
        packs = [entry for entry in entries if not entry.level]
        assert [pack.first for pack in packs] == [1, *(pack.last + 1 for pack in packs[:-1])]
        await drop_originals(world)
        assert (await world.collector().collect()).files == []
        await node.publish()
        await world.equals_refold(node)

    simulate(test)


def test_the_list_in_a_manifest_stays_short_for_years() -> None:
    """A billion events a day for three years: 64 MB each is about 2,100 packs a day."""
    packs: tuple[Pack, ...] = ()
    written = 0
    for number in range(1, 200_001):
        new = Pack(f"p{number}", "s" * 64, number, number, 64 << 20, (1, "i" * 64))
        packs, lists = grow(packs, (new,), 64, lambda level, first: f"{level}-{first}")
        written += len(lists)
    assert len(packs) < 3 * 64
    assert written == 200_000 // 64 + 200_000 // 64**2
    assert packs[0].first == 1
    assert packs[-1].last == 200_000


def test_nothing_is_planned_while_somebody_packs_or_the_log_is_sealed() -> None:
    manifest = msgspec.structs.replace(empty_manifest(PLACE), link=msgspec.structs.replace(FIRST_LINK, number=10))
    gauge = Gauge(10)
    assert plan_pack(manifest, SMALL, gauge) == (1, 8)
    pending = Pending("x", "pack", "d", 0, inputs=(("1", "8"),))
    assert plan_pack(msgspec.structs.replace(manifest, pending=(pending,)), SMALL, gauge) is None
    assert plan_pack(msgspec.structs.replace(manifest, seal=True), SMALL, gauge) is None
    assert plan_pack(manifest, PackSize(segments=9, keep=2), gauge) is None
    assert plan_pack(manifest, PackSize(segments=3, keep=0), gauge) == (1, 9)  # the newest one is never packed
    assert plan_pack(manifest, PackSize(segments=1, keep=0), gauge) == (1, 4)  # so much at a time


def test_a_gauge_counts_each_segment_once_and_forgets_what_is_packed() -> None:
    gauge = Gauge(3)
    for number in (1, 2, 2, 3):
        gauge.note(number, 10)
    assert gauge.bytes(1, 3) == 30
    gauge.note(4, 10)
    assert gauge.bytes(1, 4) == 30
    gauge.drop(3)
    assert gauge.bytes(1, 4) == 10


def test_a_lost_pack_is_told_and_nothing_is_deleted_or_published() -> None:
    async def test(world: World) -> None:
        node = await filled(world, 11)
        pack = node.compactor.head.manifest.packs[1]
        kept = await world.memory.get(f"{ROOT}/{pack.path}")
        await world.memory.delete(f"{ROOT}/{pack.path}")
        await world.runtime.sleep(3 * HOURS)
        await world.journal.append(noted("late", "x"))
        before = await world.objects()
        with pytest.raises(LostObject, match="segments 5 to 8 of the log activity are lost"):
            await world.collector().collect()
        assert await world.objects() == before
        assert [found.check for found in await world.examine() if found.level is Level.ERROR] == ["chain", "packs"]
        with pytest.raises(LostObject):
            await node.compactor.rebuild()
        await world.memory.put(f"{ROOT}/{pack.path}", kept[:-30] + bytes(30), only_if_absent=False)
        with pytest.raises(Corrupt):
            await world.collector().collect()
        await world.memory.put(f"{ROOT}/{pack.path}", kept, only_if_absent=False)
        done = await world.collector().collect()
        assert len(done.segments) == 8
        assert done.segment_floor == 8

    simulate(test)


def test_a_lifecycle_rule_that_deletes_old_segments_is_noticed() -> None:
    """Segments that are in no pack are gone: that is a loss, told by everybody who needs them."""

    async def test(world: World) -> None:
        node = await filled(world, 11)
        for number in (9, 10):
            await world.memory.delete(f"{ROOT}/{node.follower.sequence.path(number)}")
        before = await world.objects()
        with pytest.raises(LostObject, match="segment 9 of the log activity is missing"):
            await verify_chain(ledger_of(world), known=11)
        packs = node.compactor.head.manifest.packs
        job = RefoldJob(node.definition, 11, f"{0:020d}-x", packs=packs)
        with pytest.raises(LostObject):
            await LocalRunner(node.store, PLACE, world.runtime).refold(job)
        assert await world.objects() == before
        errors = [found for found in await world.examine() if found.level is Level.ERROR]
        assert errors

    simulate(test)


def test_below_the_floor_absence_is_never_trusted() -> None:
    """A floor above what packs have: whoever reads there says that something is lost."""

    async def test(world: World) -> None:
        node = await filled(world, 11)
        await raise_floor(world, 10)
        for number in (9, 10):
            await world.memory.delete(f"{ROOT}/{node.follower.sequence.path(number)}")
        with pytest.raises(LostObject, match="lies below the floor and in no pack"):
            await ledger_of(world).read(9)
        errors = [found.message for found in await world.examine() if found.level is Level.ERROR]
        assert any("packs have them up to 8 only" in message for message in errors)

    simulate(test)


def test_a_number_below_the_floor_that_was_filled_again_is_not_read() -> None:
    """Somebody who slept creates a deleted number: it continues the chain and is not what was packed."""

    async def test(world: World) -> None:
        node = await filled(world, 11)
        true = await ledger_of(world).read(3)
        await drop_originals(world)
        zombie = true[:-1] + bytes([true[-1] ^ 1])
        path = f"{ROOT}/{node.follower.sequence.path(3)}"
        await world.memory.put(path, zombie, only_if_absent=True)
        assert await ledger_of(world).read(3) == true
        assert (await raw(ledger_of(world).known(2, 4)))[1] == (3, true)
        await world.runtime.sleep(3 * HOURS)
        await world.journal.append(noted("later", "x"))
        assert [info.path for info in (await world.collector().collect()).segments] == [node.follower.sequence.path(3)]

    simulate(test)


def test_a_full_disk_in_the_middle_of_packing_loses_nothing() -> None:
    async def test(world: World) -> None:
        node = await filled(world, 5)
        for number in range(6, 20):
            await world.journal.append(noted("a", str(number)))
        world.store.on("create", path="/packs/", error=StoreRefused("no space left"), skip=1, times=9)
        with pytest.raises(StoreRefused, match="no space left"):
            await node.compactor.compact()
        assert packed_through(node.compactor.head.manifest) == 0
        world.store.calls.clear()
        await world.publish(node, noted("a", "while it is full"))
        assert [path for _, path in world.store.calls if "/packs/" in path] == []  # it rests before it reads all again
        world.store.heal()
        await node.compactor.compact()
        assert packed_through(node.compactor.head.manifest) == 16
        assert node.compactor.packing.trouble is None
        await world.equals_refold(node)

    simulate(test)


async def watched(world: World) -> tuple[Node, list[type[ArcoError] | None]]:
    """A node whose loop runs, and what it tells of its trouble."""
    node = await running(world, cadence=small())
    told: list[type[ArcoError] | None] = []
    node.compactor.on_trouble = lambda trouble: told.append(None if trouble is None else type(trouble))
    return node, told


async def published(world: World, node: Node, count: int, *, every: float = 0.0) -> None:
    """So many events, each published by the loop."""
    for number in range(count):
        await node.compactor.wait_for(await append(world, node, noted(f"n{number % 3}", str(number))))
        await world.runtime.sleep(every)


def test_a_full_disk_is_told_once_tried_ever_more_seldom_and_over_by_itself() -> None:
    async def test(world: World) -> None:
        node, told = await watched(world)
        tried: list[float] = []

        async def note() -> None:
            tried.append(world.runtime.boottime())

        world.store.on("create", path="/packs/", hook=note, error=StoreRefused("no space left"), times=10**6)
        await published(world, node, 60, every=200.0)
        pauses = [round(later - earlier) for earlier, later in pairwise(tried)]
        assert pauses == [300, 600, 1200, 2400, 3600]
        assert told == [StoreRefused]
        assert isinstance(node.compactor.trouble, StoreRefused)
        world.store.heal()
        await world.runtime.sleep(HOURS)  # and nobody appends
        assert told == [StoreRefused, None]
        assert not node.compactor.packing.failures
        assert node.compactor.failed is None
        assert packed_through(node.compactor.head.manifest) == 56
        await world.equals_refold(node)
        await node.compactor.close()

    simulate(test)


def test_a_lost_segment_is_told_once_and_nothing_is_deleted_and_all_the_rest_goes_on() -> None:
    """A lifecycle rule deleted it while a server runs."""

    async def test(world: World) -> None:
        node, told = await watched(world)
        await published(world, node, 5)
        path = f"{ROOT}/{node.follower.sequence.path(2)}"
        lost = await world.memory.get(path)
        await world.memory.delete(path)
        await published(world, node, 20, every=HOURS / 2)
        assert told == [LostObject]
        assert packed_through(node.compactor.head.manifest) == 0
        assert await world.texts() == {"n0": "18", "n1": "19", "n2": "17"}
        assert await loose(world) == set(range(1, 26)) - {2}
        assert (await world.collector().collect()).segments == []
        assert await loose(world) == set(range(1, 26)) - {2}
        await world.memory.put(path, lost, only_if_absent=True)
        await world.runtime.sleep(HOURS)
        assert told == [LostObject, None]
        assert packed_through(node.compactor.head.manifest) >= 16
        await world.equals_refold(node)
        await node.compactor.close()

    simulate(test)


def test_another_compactor_takes_over_what_was_packed_and_adopts_it() -> None:
    async def test(world: World) -> None:
        node = await world.node(cadence=small())
        for number in range(9):
            await world.publish(node, noted("a", str(number)))
            node.compactor.packing.cancel()
        assert [known.kind for known in node.compactor.head.manifest.pending] == ["pack"]
        other = await world.node(cadence=small())
        await other.compactor.compact()
        assert packed_through(other.compactor.head.manifest) >= 4
        assert other.compactor.head.manifest.pending == ()
        await world.publish(node, noted("a", "last"))
        assert packed_through(node.compactor.head.manifest) >= 4
        await world.equals_refold(node)

    simulate(test)


def test_lost_attempts_to_pack_are_collected_and_packs_of_the_head_never() -> None:
    async def test(world: World) -> None:
        node = await filled(world, 11)
        named = {pack.path for pack in node.compactor.head.manifest.packs}
        lost = f"inc-1/packs/activity/{1:020d}-LOST/x/{1:020d}.pack"
        await world.memory.put(f"{ROOT}/{lost}", b"left", only_if_absent=True)
        head = node.compactor.head.manifest.number
        coming = f"inc-1/packs/activity/{head:020d}-NEXT/x/{9:020d}.pack"
        await world.memory.put(f"{ROOT}/{coming}", b"left", only_if_absent=True)
        await drop_originals(world)
        left = await world.objects("packs")
        assert named <= left
        assert lost not in left
        assert coming in left

    simulate(test)


def test_a_rebuild_swaps_state_and_leaves_packs_alone() -> None:
    async def test(world: World) -> None:
        node = await filled(world, 11)
        packs = node.compactor.head.manifest.packs
        await drop_originals(world)
        await node.compactor.rebuild()
        assert node.compactor.head.manifest.packs == packs
        await world.equals_refold(node)

    simulate(test)


def test_a_pack_that_cannot_be_read_for_a_moment_is_asked_for_again() -> None:
    async def test(world: World) -> None:
        node = await filled(world, 11)
        await drop_originals(world)
        wanted = await ledger_of(world, node.compactor.head.manifest.packs).read(2)
        world.store.on("get_range", path="/packs/", error=StoreFailed("slow down"), times=3)
        assert await ledger_of(world, node.compactor.head.manifest.packs).read(2) == wanted

    simulate(test)
