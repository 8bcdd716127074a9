"""Several processes of one workspace, in virtual time: who follows whom, who publishes, and what idling costs."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from arco.core import Forbidden, Unavailable
from arco.log import Hint, HintFile, Receipt
from arco.runtime import Workspace, init_workspace
from arco.state import Cadence, define_log, verify_revision
from arco.storage import MemoryStore, Operation, RequestCounts, Role, RoleStore
from tests.doubles import FakeRuntime
from tests.runtime.peers import Wires
from tests.runtime.world import SCOPE, run
from tests.simulation.claims import ATTEMPTS, CLAIMS, Claim

HOUR = 3600.0
LOG = define_log("activity", [CLAIMS])


class Fleet:
    def __init__(self, runtime: FakeRuntime) -> None:
        self.runtime = runtime
        self.store = MemoryStore(runtime)
        self.wires = Wires(runtime)

    async def open(self, name: str, **options: Any) -> Workspace:
        address = f"http://{name}"
        workspace = await Workspace.open(
            self.store,
            SCOPE,
            self.runtime,
            definitions=[LOG],
            test_store=False,
            address=address,
            peers=self.wires,
            **{"cadence": Cadence(interval=0.25), **options},
        )
        self.wires.found[address] = workspace
        return workspace

    async def close(self) -> None:
        for workspace in self.wires.found.values():
            await workspace.close()


def fleet(test: Callable[[Fleet], Coroutine[Any, Any, None]]) -> None:
    async def main(runtime: FakeRuntime) -> None:
        found = Fleet(runtime)
        await init_workspace(found.store, SCOPE, runtime)
        await test(found)
        await found.close()

    run(main)


async def claim(workspace: Workspace, attempt: str) -> Receipt:
    return await workspace.decide("activity", Claim(attempt, "w"), actor="me")


async def held(workspace: Workspace) -> list[str]:
    """What a process sees without looking at the store."""
    return sorted((await workspace.logs["activity"].replica.scan(ATTEMPTS)).column("attempt").to_pylist())


def source(workspace: Workspace) -> str:
    feed = workspace.logs["activity"].feed
    assert feed is not None
    return feed.source


# Following


def test_an_idle_process_on_a_stream_makes_no_request() -> None:
    async def test(fleet: Fleet) -> None:
        one = await fleet.open("one")
        await claim(one, "a")
        await fleet.runtime.sleep(1)
        two = await fleet.open("two")
        await fleet.runtime.sleep(5)
        assert source(two) == "http://one"
        before = two.counts.count()
        await claim(one, "b")
        await fleet.runtime.sleep(10 * HOUR)
        assert two.counts.count() == before
        assert source(two) == "http://one"
        assert await held(two) == ["a", "b"]

    fleet(test)


def test_without_an_owner_there_is_one_probe_an_hour_and_none_by_who_does_not_publish() -> None:
    async def test(fleet: Fleet) -> None:
        one, reader = await fleet.open("one"), await fleet.open("reader", compact=False)
        await fleet.runtime.sleep(60)
        before = [workspace.counts.count() for workspace in (one, reader)]
        await fleet.runtime.sleep(24 * HOUR)
        probes, none = (
            workspace.counts.count() - count for workspace, count in zip((one, reader), before, strict=True)
        )
        assert none == 0
        assert 23 <= probes <= 2 * 25, "one look, and one at the floor because the last one is an hour old"
        # Somebody appended and went before it published: the probe finds it.
        away = await Workspace.open(
            fleet.store, SCOPE, fleet.runtime, definitions=[LOG], test_store=False, compact=False
        )
        receipt = await claim(away, "a")
        await away.close()
        await fleet.runtime.sleep(2 * HOUR)
        assert await one.logs["activity"].is_published(receipt.position)

    fleet(test)


def test_a_process_finds_the_owner_by_what_it_reads_or_forwards() -> None:
    async def test(fleet: Fleet) -> None:
        reader, writer, one = [await fleet.open(name) for name in ("reader", "writer", "one")]
        await claim(one, "a")
        await fleet.runtime.sleep(1)
        assert [source(found) for found in (reader, writer)] == ["", ""], "they looked before there was an owner"
        await reader.logs["activity"].current(strong=True)
        await claim(writer, "b")
        await fleet.runtime.sleep(1)
        assert [source(found) for found in (reader, writer)] == ["http://one"] * 2

    fleet(test)


def test_when_the_owner_goes_its_followers_go_over_to_the_next_one() -> None:
    async def test(fleet: Fleet) -> None:
        one, two, three = [await fleet.open(name) for name in ("one", "two", "three")]
        await claim(one, "a")
        await fleet.runtime.sleep(1)
        await claim(two, "b")
        await claim(three, "c")
        await fleet.runtime.sleep(1)
        fleet.wires.cut.add("http://one")
        await claim(two, "d")
        assert two.logs["activity"].owning
        await fleet.runtime.sleep(10)
        assert source(three) == "http://two"
        assert await held(three) == ["a", "b", "c", "d"]
        # The old one still believes that it is the owner until it appends, or hears better.
        fleet.wires.cut.clear()
        await claim(one, "e")
        assert [found.logs["activity"].owning for found in (one, two)] == [False, True]
        await fleet.runtime.sleep(1)
        assert source(one) == "http://two"
        assert await held(one) == ["a", "b", "c", "d", "e"]

    fleet(test)


def test_a_follower_leaves_an_owner_that_others_have_passed() -> None:
    """It does not know yet that it was replaced, and shows that by a tail below the log's."""

    async def test(fleet: Fleet) -> None:
        one, two = await fleet.open("one"), await fleet.open("two")
        await claim(one, "a")
        await fleet.runtime.sleep(1)
        await claim(two, "b")
        await fleet.runtime.sleep(1)
        assert source(two) == "http://one"
        heir = await Workspace.open(
            fleet.store, SCOPE, fleet.runtime, definitions=[LOG], test_store=False, address="http://heir"
        )
        await claim(heir, "c")  # it has no way to the others, so it took over
        await two.logs["activity"].current(strong=True)
        await fleet.runtime.sleep(10)
        assert one.logs["activity"].owning
        assert source(two) == ""
        assert "segments http://heir" in fleet.wires.asked
        await heir.close()

    fleet(test)


def test_a_broken_wire_is_tried_a_few_times_and_then_only_with_reason() -> None:
    async def test(fleet: Fleet) -> None:
        one, two = await fleet.open("one"), await fleet.open("two")
        await claim(one, "a")
        await fleet.runtime.sleep(1)
        await claim(two, "b")
        await fleet.runtime.sleep(1)
        fleet.wires.cut.add("http://one")
        await fleet.runtime.sleep(60)
        before, requests = len(fleet.wires.asked), two.counts.count()
        await fleet.runtime.sleep(0.9 * HOUR)
        assert (len(fleet.wires.asked), two.counts.count()) == (before, requests)
        fleet.wires.cut.clear()
        await claim(one, "c")
        await two.logs["activity"].current(strong=True)
        await fleet.runtime.sleep(1)
        assert source(two) == "http://one"

    fleet(test)


def test_a_process_that_follows_for_long_stands_on_what_the_owner_publishes_and_can_take_over() -> None:
    async def test(fleet: Fleet) -> None:
        one, two = await fleet.open("one"), await fleet.open("two")
        await claim(one, "a")
        await fleet.runtime.sleep(1)
        await claim(two, "b")
        log = two.logs["activity"]
        for number in range(900):
            await claim(one, f"n{number}")
            await fleet.runtime.sleep(0.1)
        assert source(two) == "http://one"
        assert log.replica.base.number > 100
        assert log.replica.dirty_rows() < 2 * 450, "of nine hundred changes and what the engine notes of each"
        assert two.counts.count(Role.COMPACTOR, Operation.CREATE) == 0
        fleet.wires.cut.add("http://one")
        receipt = await claim(two, "c")
        manifest = await two.published("activity", receipt.position)
        compared = await verify_revision(log.definition, two.handle(Role.READER), log.follower.ledger, manifest)
        assert all(found.equal for found in compared)
        assert len(await held(two)) == 903

    fleet(test)


# A stranger where the owner was


def test_a_live_owner_that_does_not_accept_us_is_not_fought_but_a_stranger_at_an_old_address_is_passed() -> None:
    async def test(fleet: Fleet) -> None:
        one, two = await fleet.open("one"), await fleet.open("two")
        await claim(one, "a")
        await fleet.runtime.sleep(1)
        fleet.wires.strange.add("http://one")
        with pytest.raises(Forbidden, match="http://one does not accept"):
            await claim(two, "b")
        assert not two.logs["activity"].owning
        await fleet.runtime.sleep(120)
        await claim(two, "b")
        assert two.logs["activity"].owning

    fleet(test)


# Publishing


def test_only_the_owner_publishes_and_the_others_ask_it() -> None:
    async def test(fleet: Fleet) -> None:
        everyone = [await fleet.open(name) for name in ("one", "two", "three")]
        await claim(everyone[0], "a")
        await fleet.runtime.sleep(1)
        for number in range(12):
            workspace = everyone[number % 3]
            receipt = await claim(workspace, f"n{number}")
            assert await workspace.logs["activity"].published(receipt.position) >= receipt.position
            manifest = await workspace.published("activity", receipt.position)
            assert int(manifest.watermark) >= receipt.position
        await fleet.runtime.sleep(5 * HOUR)
        for workspace in everyone[1:]:
            await workspace.close()
            assert workspace.counts.count(Role.COMPACTOR) == 0
        assert "publish http://one" in fleet.wires.asked

    fleet(test)


def test_a_follower_has_its_command_carried_out_and_published_without_a_request_of_its_own() -> None:
    async def test(fleet: Fleet) -> None:
        one, two = await fleet.open("one"), await fleet.open("two")
        await claim(one, "a")
        await fleet.runtime.sleep(1)
        log = two.logs["activity"]
        await log.published((await claim(two, "b")).position)
        await fleet.runtime.sleep(1)
        before = two.counts.count()
        await log.published((await claim(two, "c")).position)
        assert two.counts.count() == before, "who the owner is, the stream tells"

    fleet(test)


def test_if_the_named_publisher_does_not_answer_the_waiting_process_publishes() -> None:
    async def test(fleet: Fleet) -> None:
        one, two = await fleet.open("one"), await fleet.open("two")
        await one.published("activity", (await claim(one, "a")).position)
        await fleet.runtime.sleep(1)
        receipt = await claim(two, "b")
        fleet.wires.cut.add("http://one")
        await one.logs["activity"].compactor.close()
        assert await two.logs["activity"].published(receipt.position) >= receipt.position
        assert two.counts.count(Role.COMPACTOR) > 0

    fleet(test)


def test_a_compactor_of_its_own_publishes_whatever_owners_win() -> None:
    async def test(fleet: Fleet) -> None:
        compactor = await fleet.open("compactor", may_own=False)
        one, two = await fleet.open("one", compact=False), await fleet.open("two", compact=False)
        await fleet.runtime.sleep(1)
        receipt = await claim(one, "a")
        await fleet.runtime.sleep(2)
        assert source(compactor) == "http://one", "the new owner told it"
        assert await one.logs["activity"].is_published(receipt.position)
        receipt = await claim(two, "b")
        await fleet.runtime.sleep(1)
        assert await two.logs["activity"].is_published(receipt.position), "nobody had to ask"
        for workspace in (one, two):
            assert workspace.counts.count(Role.COMPACTOR) == 0
        # The owner goes; whoever is next tells the compactor again.
        await one.close()
        del fleet.wires.found["http://one"]
        await fleet.runtime.sleep(HOUR / 2)
        receipt = await claim(two, "c")
        await fleet.runtime.sleep(2)
        assert source(compactor) == "http://two"
        assert await two.logs["activity"].is_published(receipt.position)

    fleet(test)


async def open_unnamed(fleet: Fleet) -> tuple[Workspace, Callable[[], Coroutine[Any, Any, None]]]:
    """A compactor that is open and idle, but whose hint is on its way until the second one is called."""
    compactor = await fleet.open("compactor", may_own=False)
    await fleet.runtime.sleep(1)
    store = RoleStore(fleet.store, SCOPE, Role.COMPACTOR, RequestCounts())
    before, after = (HintFile(store, compactor.logs["activity"].layout.manifests_hint, fleet.runtime) for _ in range(2))
    named = await before.read()
    assert named.address == "http://compactor"
    await before.write(Hint())
    return compactor, lambda: after.write(named)


def test_an_owner_that_finds_no_compactor_named_looks_again_until_one_is() -> None:
    async def test(fleet: Fleet) -> None:
        compactor, name = await open_unnamed(fleet)
        one = await fleet.open("one", compact=False)
        receipt = await claim(one, "a")
        await fleet.runtime.sleep(0.5)
        await name()
        await fleet.runtime.sleep(6)
        assert source(compactor) == "http://one"
        assert await one.logs["activity"].is_published(receipt.position)
        asked = fleet.wires.asked.count("publish http://compactor")
        for number in range(5):
            await claim(one, f"n{number}")
        await fleet.runtime.sleep(60)
        assert fleet.wires.asked.count("publish http://compactor") == asked, "it is told once in a term"

    fleet(test)


def test_who_waits_for_a_publisher_asks_the_one_that_starts_meanwhile() -> None:
    async def test(fleet: Fleet) -> None:
        _, name = await open_unnamed(fleet)
        one, two = await fleet.open("one", compact=False), await fleet.open("two", compact=False)
        receipt = await claim(one, "a")
        await fleet.runtime.sleep(30)  # the owner no longer looks for a compactor by itself
        waiting = asyncio.create_task(two.published("activity", receipt.position))
        await fleet.runtime.sleep(1)
        await name()
        await fleet.runtime.sleep(5)
        assert waiting.done()
        assert int(waiting.result().watermark) >= receipt.position

    fleet(test)


def test_who_publishes_nothing_waits_for_somebody_and_then_says_that_nobody_does() -> None:
    async def test(fleet: Fleet) -> None:
        one = await fleet.open("one", compact=False)
        receipt = await claim(one, "a")
        with pytest.raises(Unavailable, match="nobody has published position"):
            await one.published("activity", receipt.position)
        waiting = asyncio.create_task(one.published("activity", receipt.position))
        await fleet.runtime.sleep(5)
        late = await Workspace.open(fleet.store, SCOPE, fleet.runtime, definitions=[LOG], test_store=False)
        await late.logs["activity"].current()
        await late.logs["activity"].compactor.publish()
        assert int((await waiting).watermark) >= receipt.position
        await late.close()

    fleet(test)
