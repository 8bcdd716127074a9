"""The follower folds a log in order, notices what is lost or altered, and knows when it may only read."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from arco.core import Corrupt, LostObject, Outdated, StoreRefused, Superseded, Unavailable
from arco.domains.catalog import ROOT
from arco.log import FIRST_LINK, Event, Follower, Link, Place, Segment, Unknown, position_of, read_log, seal_writer
from arco.state import LayerReader, Replica, empty_manifest
from arco.storage import Operation, StoreFailed, Tail
from tests.doubles import run
from tests.log.world import SCOPE, World, raw, sealed


def encoded_event(world: World, name: str, **changes: object) -> bytes:
    """An event as another program would have appended it."""
    event = Event(
        id=world.ulid(),
        type="NamespaceCreated",
        time="2026-01-01T00:00:00Z",
        source="elsewhere",
        actor="bob",
        operation=world.ulid(),
        data=raw({"namespace_id": world.ulid(), "parent_id": ROOT, "name": name}),
    )
    return msgspec.json.encode(msgspec.structs.replace(event, **changes))


def test_catching_up_folds_everything_in_order_and_then_costs_one_request() -> None:
    async def scenario() -> None:
        world = World()
        writer, reader = world.node("a"), world.node("b")
        for name in ("x", "y"):
            await writer.gateway.submit(world.create(name))
        assert (await reader.follower.catch_up()).number == 2
        assert await reader.names() == ["x", "y"]
        assert reader.follower.watermark == position_of(3, 0) - 1
        before = reader.requests(*Operation)
        await reader.follower.catch_up()
        assert reader.requests(*Operation) - before == 1
        await writer.gateway.submit(world.drop("x"))
        await reader.follower.catch_up()
        assert await reader.names() == ["y"]

    run(scenario())


def test_who_reads_beside_a_writer_that_never_rests_reaches_an_end() -> None:
    """Whenever a segment is read the next one is there. What was there when the reader began is folded."""

    async def scenario() -> None:
        world = World()
        writer, reader = world.node("a"), world.node("b")
        names = [f"n{number:03d}" for number in range(40)]
        for name in names:
            await writer.gateway.submit(world.create(name))
        written = len(names)

        async def write() -> None:
            nonlocal written
            written += 1
            assert written < 400, "the reader runs after the writer"
            await writer.gateway.submit(world.create(f"n{written:03d}"))

        reader.store.on("get", path=world.layout.ledger, hook=write, times=1_000)
        began = world.runtime.boottime()
        tail = await reader.follower.catch_up()
        assert set(names) <= set(await reader.names())
        assert len(await reader.names()) == tail.number < written
        assert tail.proven >= began
        assert await world.reader.exists(tail.number + 1), "the log went on meanwhile"

    run(scenario())


@pytest.mark.parametrize(("new", "requests"), [(0, 1), (1, 2), (2, 3), (7, 8), (8, 9), (30, 39)])
def test_what_it_costs_to_read_segments_that_nobody_announced(new: int, requests: int) -> None:
    """One request each, and one for the end; after eight of them the end is found by galloping and bisecting."""

    async def scenario() -> None:
        world = World()
        writer, reader = world.node("a"), world.node("b")
        await writer.gateway.submit(world.create("first"))
        await reader.follower.catch_up()
        for number in range(new):
            await writer.gateway.submit(world.create(f"n{number}"))
        before = reader.requests(*Operation)
        assert (await reader.follower.catch_up()).number == new + 1
        assert reader.requests(*Operation) - before == requests

    run(scenario())


def test_an_end_that_was_found_without_reading_counts_only_above_the_floor() -> None:
    """Who slept finds nothing after some segments because they are deleted: that is no end."""

    async def scenario() -> None:
        world = World()
        writer, reader = world.node("a"), world.node("b")
        for number in range(20):
            await writer.gateway.submit(world.create(f"n{number}"))

        async def collect() -> None:
            world.runtime.suspend(7200)
            floor = f"{SCOPE.root}/{world.reader.floor_path(1)}"
            await world.memory.put(floor, b"19 x", only_if_absent=True)
            for number in range(1, 20):
                await world.memory.delete(f"{SCOPE.root}/{world.reader.path(number)}")

        reader.store.on("head", path=world.reader.path(9), hook=collect)
        with pytest.raises(Superseded, match="below the floor"):
            await reader.follower.catch_up()

    run(scenario())


def test_an_empty_log_has_the_watermark_before_the_first_position() -> None:
    async def scenario() -> None:
        follower = World().node().follower
        assert (await follower.catch_up()).number == 0
        assert follower.watermark == position_of(1, 0) - 1

    run(scenario())


def test_a_number_that_was_announced_and_is_missing_is_lost() -> None:
    async def scenario() -> None:
        world = World()
        writer, reader = world.node("a"), world.node("b")
        for name in ("x", "y", "z"):
            await writer.gateway.submit(world.create(name))
        await world.memory.delete(f"{SCOPE.root}/{world.reader.path(2)}")
        with pytest.raises(LostObject, match="segment 2 of the log catalog is missing although 3 was announced"):
            await reader.follower.catch_up(at_least=3)

    run(scenario())


def test_a_number_below_one_that_is_known_to_exist_is_never_taken_for_the_tail() -> None:
    async def scenario() -> None:
        world = World()
        writer, reader = world.node("a"), world.node("b")
        for name in ("x", "y", "z"):
            await writer.gateway.submit(world.create(name))
        await world.memory.delete(f"{SCOPE.root}/{world.reader.path(2)}")
        follower = Follower(reader.ledger, reader.replica, world.runtime, known=3)
        for _ in range(2):
            with pytest.raises(LostObject, match="segment 2 of the log catalog is missing"):
                await follower.catch_up()

    run(scenario())


def test_a_segment_from_the_stream_above_a_gap_is_read_and_a_lost_one_noticed() -> None:
    async def scenario() -> None:
        world = World()
        writer, reader, other = world.node("a"), world.node("b"), world.node("c")
        for name in ("x", "y", "z"):
            await writer.gateway.submit(world.create(name))
        third = await world.reader.read_known(3)
        await reader.follower.accept(third, Tail(3, 0.0))
        assert await reader.names() == ["x", "y", "z"]
        await reader.follower.accept(third, Tail(3, 0.0))
        assert reader.follower.tail.number == 3
        await world.memory.delete(f"{SCOPE.root}/{world.reader.path(1)}")
        with pytest.raises(LostObject):
            await other.follower.accept(third, Tail(3, 0.0))
        assert other.follower.tail.number == 0

    run(scenario())


def test_a_refilled_gap_is_noticed_by_whoever_knew_the_lost_segment() -> None:
    async def scenario() -> None:
        world = World()
        writer, reader = world.node("a"), world.node("b")
        await writer.gateway.submit(world.create("x"))
        await reader.follower.catch_up()
        await world.memory.delete(f"{SCOPE.root}/{world.reader.path(1)}")
        await world.append(encoded_event(world, "y"))
        await world.append(encoded_event(world, "z"))
        with pytest.raises(Corrupt, match="lost and refilled"):
            await reader.follower.catch_up()
        assert await reader.names() == ["x"]

    run(scenario())


@pytest.mark.parametrize("data", [b"", b"garbage"])
def test_a_damaged_segment_stops_the_fold_where_it_stands(data: bytes) -> None:
    async def scenario() -> None:
        world = World()
        writer, reader = world.node("a"), world.node("b")
        await writer.gateway.submit(world.create("x"))
        await reader.follower.catch_up()
        await writer.gateway.submit(world.create("y"))
        path = world.reader.path(2)
        await world.memory.put(f"{SCOPE.root}/{path}", data, only_if_absent=False)
        for attempt in (reader.follower.catch_up(), reader.follower.accept(data, Tail(2, 0.0))):
            with pytest.raises(Corrupt, match=path):
                await attempt
        assert await reader.names() == ["x"]
        assert reader.follower.tail.number == 1

    run(scenario())


def test_a_store_that_does_not_answer_is_not_an_empty_log() -> None:
    async def scenario() -> None:
        world = World()
        await world.node("a").gateway.submit(world.create("x"))
        reader = world.node("b")
        reader.store.on("get", error=StoreFailed("503"), times=8)
        with pytest.raises(Unavailable):
            await reader.follower.catch_up()
        reader.store.on("get", error=StoreRefused("403"))
        with pytest.raises(StoreRefused):
            await reader.follower.catch_up()
        await reader.follower.catch_up()
        assert await reader.names() == ["x"]

    run(scenario())


# Who may only read


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("arco restore", "the workspace was restored; .* `arco restore` was interrupted: run the same command again"),
        ("arco erase", "something was erased; .* `arco erase` was interrupted: .*, and not `arco restore`"),
    ],
)
def test_a_seal_tells_what_to_run_again(command: str, says: str) -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        await world.append(seal=True, writer=seal_writer(command, "01ARZ3NDEKTSV4RRFFQ69G5FAV"))
        await node.follower.catch_up()
        with pytest.raises(Superseded, match=f"is sealed: {says}"):
            node.follower.check_writable()

    run(scenario())


def test_a_seal_ends_writing() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        await node.gateway.submit(world.create("x"))
        node.follower.check_writable()
        await world.append(seal=True)
        await node.follower.catch_up()
        with pytest.raises(Superseded, match="sealed: the workspace was restored, or something was erased; reopen it"):
            node.follower.check_writable()
        assert await node.names() == ["x"]

    run(scenario())


@pytest.mark.parametrize("at_once", [True, False])
def test_a_segment_after_the_seal_is_corrupt(at_once: bool) -> None:
    async def scenario() -> None:
        world = World()
        reader = world.node()
        await world.append(seal=True)
        if not at_once:
            await reader.follower.catch_up()
        await world.append(encoded_event(world, "x"))
        with pytest.raises(Corrupt, match="after the seal"):
            await reader.follower.catch_up()
        assert await reader.names() == []

    run(scenario())


def test_a_streamed_segment_after_the_seal_is_corrupt() -> None:
    async def scenario() -> None:
        world = World()
        reader = world.node()
        link = await world.append(seal=True)
        await reader.follower.catch_up()
        with pytest.raises(Corrupt, match="after the seal"):
            await reader.follower.accept(sealed(world.place, link), Tail(2, 0.0))

    run(scenario())


@pytest.mark.parametrize("folds", [{"catalog": 2}, {"system": 99}, {"a domain of tomorrow": 1}])
def test_a_newer_fold_version_ends_writing_but_not_reading(folds: dict[str, int]) -> None:
    async def scenario() -> None:
        world = World()
        reader = world.node()
        await world.append(encoded_event(world, "x"), folds=folds)
        await reader.follower.catch_up()
        with pytest.raises(Outdated, match=r"segment 1 was written with fold version .* upgrade arco"):
            reader.follower.check_writable()
        assert await reader.names() == ["x"]

    run(scenario())


def test_an_older_fold_version_does_no_harm() -> None:
    async def scenario() -> None:
        world = World()
        reader = world.node()
        await world.append(encoded_event(world, "x"), folds={"system": 0, "catalog": 1})
        await reader.follower.catch_up()
        reader.follower.check_writable()

    run(scenario())


@pytest.mark.parametrize(
    ("changes", "name"), [({"type": "TableDreamt"}, "TableDreamt v1"), ({"version": 7}, "NamespaceCreated v7")]
)
def test_a_skipped_type_ends_writing(changes: dict[str, object], name: str) -> None:
    async def scenario() -> None:
        world = World()
        reader = world.node()
        await world.append(encoded_event(world, "x", **changes))
        await reader.follower.catch_up()
        with pytest.raises(Outdated, match=name):
            reader.follower.check_writable()

    run(scenario())


def test_what_else_forbids_writing_is_told() -> None:
    async def scenario() -> None:
        follower = World().node().follower
        follower.forbid_writing("the revision is of tomorrow")
        with pytest.raises(Outdated, match="the revision is of tomorrow"):
            follower.check_writable()

    run(scenario())


# Starting again


def test_a_restart_folds_again_what_was_folded() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        for name in ("x", "y"):
            await node.gateway.submit(world.create(name))
        await world.append(seal=True)
        await node.follower.catch_up()
        epoch = node.follower.epoch
        await node.follower.restart(lambda: node.replica.reset(empty_manifest(world.place)))
        assert node.follower.epoch == epoch + 1
        assert node.follower.tail.number == 3
        assert await node.names() == ["x", "y"]
        assert node.follower.sealed

    run(scenario())


def test_a_restart_that_does_not_reach_what_was_folded_is_a_loss() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        await node.gateway.submit(world.create("x"))
        await world.memory.delete(f"{SCOPE.root}/{world.reader.path(1)}")
        with pytest.raises(LostObject):
            await node.follower.restart(lambda: node.replica.reset(empty_manifest(world.place)))

    run(scenario())


def test_a_restart_that_failed_half_way_still_knows_what_was_folded() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        for name in ("x", "y", "z"):
            await node.gateway.submit(world.create(name))
        path = f"{SCOPE.root}/{world.reader.path(2)}"
        lost = await world.memory.get(path)
        await world.memory.delete(path)
        with pytest.raises(LostObject):
            await node.follower.restart(lambda: node.replica.reset(empty_manifest(world.place)))
        with pytest.raises(LostObject):
            await node.follower.catch_up()
        await world.memory.put(path, lost, only_if_absent=True)
        assert (await node.follower.catch_up()).number == 3
        assert await node.names() == ["x", "y", "z"]

    run(scenario())


def test_a_long_way_behind_is_caught_up_in_batches() -> None:
    async def scenario() -> None:
        world = World(seed=1)
        reader = world.node()
        for number in range(10):
            noise = world.runtime.bytes(480_000).hex()
            await world.append(
                encoded_event(
                    world,
                    f"n{number}",
                    data=raw(
                        {
                            "namespace_id": world.ulid(),
                            "parent_id": ROOT,
                            "name": f"n{number}",
                            "properties": {"noise": noise},
                        }
                    ),
                )
            )
        batches: list[int] = []

        class Counting(Replica):
            async def apply(self, segments: Sequence[tuple[Segment, Link]], *, through: int | None = None) -> None:
                batches.append(len(segments))
                await super().apply(segments, through=through)

        reader.replica = Counting(world.definition, LayerReader(reader.handle), empty_manifest(world.place))
        reader.follower.fold = reader.replica
        await reader.follower.catch_up()
        assert await reader.names() == [f"n{number}" for number in range(10)]
        assert sum(batches) == 10
        assert 1 < len(batches) < 10

    run(scenario())


def test_two_readers_of_one_follower_do_not_fold_twice() -> None:
    async def scenario() -> None:
        world = World()
        await world.node("a").gateway.submit(world.create("x"))
        reader = world.node("b")
        await asyncio.gather(*(reader.follower.catch_up() for _ in range(5)))
        assert await reader.names() == ["x"]

    run(scenario())


# Reading a log


def test_a_log_is_read_up_to_a_number() -> None:
    async def scenario() -> None:
        world = World()
        for name in ("x", "y", "z"):
            await world.append(encoded_event(world, name))
        found = [item async for item in read_log(world.ledger(), Tail(0, Unknown), FIRST_LINK, through=2)]
        *segments, tail = found
        assert [item[0].header.number for item in segments if not isinstance(item, Tail)] == [1, 2]
        assert tail == Tail(2, Unknown)

    run(scenario())


def test_another_workspace_s_log_is_not_read() -> None:
    async def scenario() -> None:
        world = World()
        await world.append(encoded_event(world, "x"))
        stranger = Place("acme", "staging", "inc-1", "catalog")
        with pytest.raises(Corrupt, match="belongs to workspace 'prod', not 'staging'"):
            async for _ in read_log(world.ledger(stranger), Tail(0, Unknown), FIRST_LINK):
                pass

    run(scenario())
