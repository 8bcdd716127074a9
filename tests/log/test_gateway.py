"""The gateway: whoever owns the log, a command is carried out once and its caller hears the truth."""

import asyncio
from collections.abc import Callable

import pytest

from arco.core import (
    LostObject,
    OutcomeUnknown,
    Outdated,
    Refused,
    StoreRefused,
    Superseded,
    Unavailable,
)
from arco.log import Command, Forwarder, Gateway, Hint, Receipt
from arco.state import PinRevision, empty_manifest
from arco.storage import Operation, StoreFailed
from tests.doubles import run
from tests.log.world import ACTIVITY_LOG, SCOPE, World, owned, paths


async def writers(world: World) -> list[str]:
    return [segment.header.writer for segment in await world.segments()]


# Forwarding


def test_the_first_command_makes_an_owner_that_the_hint_names() -> None:
    async def scenario() -> None:
        world = World()
        await owned(world)
        assert await writers(world) == ["owner"]

    run(scenario())


def test_others_forward_to_the_owner() -> None:
    async def scenario() -> None:
        world = World()
        owner, other = await owned(world), world.node("other")
        receipt = await other.gateway.submit(world.create("second"))
        assert not receipt.replayed
        assert await writers(world) == ["owner", "owner"]
        assert other.requests(Operation.CREATE) == 0
        assert await owner.names() == ["first", "second"]

    run(scenario())


def test_commands_of_many_processes_share_segments() -> None:
    async def scenario() -> None:
        world = World()
        owner = await owned(world)
        others = [world.node(f"n{n}") for n in range(5)]
        await asyncio.gather(*(node.gateway.submit(world.create(node.address)) for node in others))
        assert len(await world.segments()) == 2
        assert owner.requests(Operation.CREATE) == 2

    run(scenario())


@pytest.mark.parametrize("build", [lambda world: world.create("first"), lambda world: world.drop("nowhere")])
def test_the_owner_s_refusal_comes_back(build: Callable[[World], Command]) -> None:
    async def scenario() -> None:
        world = World()
        await owned(world)
        with pytest.raises(Refused):
            await world.node("other").gateway.submit(build(world))
        assert len(await world.segments()) == 1

    run(scenario())


def test_an_owner_that_is_gone_is_replaced_at_once() -> None:
    async def scenario() -> None:
        world = World()
        owner, other = await owned(world), world.node("other")
        world.forwarder.unregister(owner.gateway)
        started = world.runtime.boottime()
        await other.gateway.submit(world.create("second"))
        assert world.runtime.boottime() == started
        assert await writers(world) == ["owner", "other"]
        await world.runtime.sleep(1)
        assert await other.hint.read() == Hint(2, "other")

    run(scenario())


def test_an_owner_that_gave_up_is_replaced_and_forwards_itself() -> None:
    async def scenario() -> None:
        world = World()
        owner, other = await owned(world), world.node("other")
        assert owner.gateway._owner is not None
        await owner.gateway._owner.close()
        await other.gateway.submit(world.create("second"))
        await world.runtime.sleep(0.01)
        await owner.gateway.submit(world.create("third"))
        assert await writers(world) == ["owner", "other", "other"]

    run(scenario())


def test_a_hint_to_nobody_and_a_missing_hint_only_cost_a_look() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node("a")
        await node.hint.write(Hint(99, "local:long-gone"))
        await node.gateway.submit(world.create("x"))
        node.store.on("get", path="hint", error=StoreFailed("503"), times=9)
        await world.node("b").gateway.submit(world.create("y"))
        assert paths(await world.events()) == ["x", "y"]

    run(scenario())


def test_who_lost_the_log_finds_the_new_owner() -> None:
    """The old owner does not know it lost: its next append does, and the command goes on to the winner."""

    async def scenario() -> None:
        world = World()
        old = await owned(world)
        new = world.node("new")
        world.forwarder.unregister(old.gateway)
        await new.gateway.submit(world.create("second"))
        await world.runtime.sleep(1)
        receipt = await old.gateway.submit(world.create("third"))
        assert not receipt.replayed
        assert await writers(world) == ["owner", "new", "new"]

    run(scenario())


# Silence


async def forever() -> None:
    """A request that never comes back."""
    await asyncio.Event().wait()


def test_a_silent_owner_is_replaced_after_two_seconds() -> None:
    """Its PUT hangs. When it goes on it finds the number taken, and the command was carried out once."""

    async def scenario() -> None:
        world = World()
        owner, other = await owned(world), world.node("other")
        awake = asyncio.Event()

        async def stall() -> None:
            await awake.wait()

        owner.store.on("create", hook=stall)
        started = world.runtime.boottime()
        receipt = await other.gateway.submit(world.create("second"))
        assert world.runtime.boottime() - started == pytest.approx(2.0)
        assert not receipt.replayed
        awake.set()
        await world.runtime.sleep(5)
        assert paths(await world.events()) == ["first", "second"]
        assert await writers(world) == ["owner", "other"]
        assert await owner.names() == ["first", "second"]

    run(scenario())


def test_what_a_silent_owner_did_is_found_by_its_operation_id() -> None:
    """It appended and then never answered: the command is neither refused for its own effect nor done again."""

    async def scenario() -> None:
        world = World()
        owner, other = await owned(world), world.node("other")
        owner.store.on("create", applied=True, hook=forever)
        command = world.create("second")
        receipt = await other.gateway.submit(command)
        assert receipt.replayed
        assert receipt.operation == command.operation
        assert paths(await world.events()) == ["first", "second"]

    run(scenario())


def test_a_command_that_waits_in_a_silent_owner_s_queue_is_not_carried_out_again() -> None:
    async def scenario() -> None:
        world = World()
        owner, other = await owned(world), world.node("other")
        awake = asyncio.Event()

        async def stall() -> None:
            await awake.wait()

        owner.store.on("create", hook=stall)
        ahead = asyncio.create_task(owner.gateway.submit(world.create("ahead")))
        await world.runtime.sleep(0.1)
        await other.gateway.submit(world.create("second"))
        awake.set()
        await ahead
        await world.runtime.sleep(5)
        assert sorted(paths(await world.events())) == ["ahead", "first", "second"]

    run(scenario())


def test_a_refusal_after_silence_is_not_given_because_the_silent_owner_may_still_act() -> None:
    """The new owner would refuse a name that exists. The old one, which may have sent the command to the store before
    it fell silent, cannot be asked: the caller must not have heard "refused". Awake again it finds itself overtaken."""

    async def scenario() -> None:
        world = World()
        owner, other = await owned(world), world.node("other")
        awake = asyncio.Event()

        async def stall() -> None:
            await awake.wait()

        owner.store.on("get", hook=stall, path=world.reader.path(2))
        busy = asyncio.create_task(owner.gateway.submit(world.drop("nowhere")))
        await world.runtime.sleep(0.1)
        command = world.create("first")
        with pytest.raises(OutcomeUnknown) as raised:
            await other.gateway.submit(command)
        assert raised.value.details == {"operation": command.operation}
        await other.gateway.submit(world.drop("first"))
        awake.set()
        with pytest.raises(Refused):
            await busy
        assert not owner.gateway.owning
        assert not (await other.gateway.submit(command)).replayed
        assert [event.operation for event in await world.events()][2:] == [command.operation]

    run(scenario())


def test_an_owner_that_sees_another_one_s_segment_owns_the_log_no_more() -> None:
    async def scenario() -> None:
        world = World()
        owner, other = await owned(world), world.node("other")
        await other.follower.catch_up()
        await other.owner().submit(world.create("second"))  # it could not reach the owner
        assert owner.gateway.leading
        await owner.follower.catch_up()
        assert not owner.gateway.owning
        assert not owner.gateway.leading
        await owner.gateway.submit(world.create("third"))
        assert owner.gateway.leading
        assert await writers(world) == ["owner", "other", "owner"]

    run(scenario())


def test_who_appended_nothing_yet_does_not_lead() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node("a")
        with pytest.raises(Refused):
            await node.gateway.submit(world.drop("nowhere"))
        assert node.gateway.owning
        assert not node.gateway.leading
        await node.gateway.submit(world.create("first"))
        assert node.gateway.leading

    run(scenario())


def test_a_command_that_became_invalid_during_silence_has_an_open_outcome() -> None:
    async def scenario() -> None:
        world = World()
        owner, other = await owned(world), world.node("other")
        awake = asyncio.Event()

        async def stall() -> None:
            await awake.wait()

        owner.store.on("create", hook=stall)
        command = world.command(PinRevision("pin", 1, "audit", world.runtime.now() + 1_500_000))
        with pytest.raises(OutcomeUnknown, match="must expire within"):
            await other.gateway.submit(command)
        awake.set()
        await world.runtime.sleep(1)
        assert (await world.events())[-1].operation == command.operation, "the silent owner carried it out after all"
        assert (await other.gateway.submit(command)).replayed

    run(scenario())


def test_a_store_that_fails_after_silence_leaves_the_outcome_open() -> None:
    async def scenario() -> None:
        world = World()
        owner, other = await owned(world), world.node("other")
        owner.store.on("create", applied=True, hook=forever)
        other.store.on("get", error=StoreFailed("503"), path="ledger/catalog/0", times=99)
        command = world.create("second")
        with pytest.raises(OutcomeUnknown, match=command.operation):
            await other.gateway.submit(command)
        other.store.heal()
        assert (await other.gateway.submit(command)).replayed

    run(scenario())


def test_a_refusing_store_after_silence_leaves_the_outcome_open() -> None:
    async def scenario() -> None:
        world = World()
        owner, other = await owned(world), world.node("other")
        owner.store.on("create", applied=True, hook=forever)
        other.store.on("get", error=StoreRefused("403"), path="ledger/catalog/0", times=99)
        with pytest.raises(OutcomeUnknown):
            await other.gateway.submit(world.create("second"))

    run(scenario())


def test_an_own_append_that_does_not_settle_is_an_open_outcome() -> None:
    async def scenario() -> None:
        world = World()
        node = await owned(world)
        awake = asyncio.Event()

        async def stall() -> None:
            await awake.wait()

        node.store.on("create", hook=stall)
        command = world.create("second")
        with pytest.raises(OutcomeUnknown, match=command.operation):
            await node.gateway.submit(command)
        awake.set()
        assert (await node.gateway.submit(command)).replayed
        assert paths(await world.events()) == ["first", "second"]

    run(scenario())


def test_a_closed_gateway_takes_nothing() -> None:
    async def scenario() -> None:
        world = World()
        owner = await owned(world)
        await owner.gateway.close()
        with pytest.raises(Unavailable, match="closed"):
            await owner.gateway.submit(world.create("second"))
        assert len(await world.events()) == 1

    run(scenario())


def test_a_keyed_fact_whose_rows_cannot_be_read_is_not_appended() -> None:
    async def scenario() -> None:
        world = World(ACTIVITY_LOG)
        first, key = world.node("first"), world.ulid()
        await first.gateway.submit(world.facts(world.materialization()))
        node = world.node("second", base=await first.publish())
        await first.gateway.close()
        node.store.on("get_range", error=StoreFailed("503"))
        facts = world.facts(world.materialization(), key=key)
        with pytest.raises(Unavailable, match="503"):
            await node.gateway.submit(facts)
        assert not (await node.gateway.submit(facts)).replayed
        assert [event.key for event in await world.events()] == ["", key]

    run(scenario())


@pytest.mark.parametrize("found", ["newer files", "newer files that are gone too", "nothing newer"])
def test_who_stands_on_files_that_are_gone_asks_once_for_newer_ones(found: str) -> None:
    async def scenario() -> None:
        world = World(ACTIVITY_LOG)
        first = world.node("first")
        await first.gateway.submit(world.facts(world.materialization()))
        base = await first.publish()
        await first.gateway.close()
        for path in {file.path for layer in base.layers for file in layer.files}:
            await world.memory.delete(f"{SCOPE.root}/{path}")
        idle = world.node("idle", base=base)
        asked: list[str] = []

        async def renew() -> bool:
            asked.append("renew")
            if found == "newer files":
                await idle.follower.restart(lambda: idle.replica.reset(empty_manifest(world.place)))
            return found != "nothing newer"

        door = Gateway(idle.follower, idle.admission, idle.hint, world.forwarder, world.runtime, "idle", renew=renew)
        facts = world.facts(world.materialization(), key=world.ulid())
        if found == "newer files":
            assert not (await door.submit(facts)).replayed
        else:
            with pytest.raises(LostObject):
                await door.submit(facts)
        assert asked == ["renew"]
        assert len(await world.events()) == (2 if found == "newer files" else 1)

    run(scenario())


# Who may not own


def test_a_process_that_may_not_own_forwards() -> None:
    async def scenario() -> None:
        world = World()
        await owned(world)
        worker = world.node("worker", may_own=False)
        await worker.gateway.submit(world.create("second"))
        assert await writers(world) == ["owner", "owner"]

    run(scenario())


def test_a_process_that_may_not_own_is_told_when_nobody_does() -> None:
    async def scenario() -> None:
        world = World()
        worker = world.node("worker", may_own=False)
        command = world.create("first")
        with pytest.raises(Unavailable, match="may not own it") as raised:
            await worker.gateway.submit(command)
        assert type(raised.value) is Unavailable
        assert raised.value.details == {"operation": command.operation}
        assert await world.segments() == []

    run(scenario())


def test_a_process_that_may_not_own_knows_nothing_after_silence() -> None:
    async def scenario() -> None:
        world = World()
        owner = await owned(world)
        owner.store.on("create", applied=True, hook=forever)
        command = world.create("second")
        with pytest.raises(OutcomeUnknown, match=command.operation):
            await world.node("worker", may_own=False).gateway.submit(command)
        assert paths(await world.events()) == ["first", "second"]

    run(scenario())


def test_only_the_owner_receives() -> None:
    async def scenario() -> None:
        world = World()
        node = world.node()
        with pytest.raises(Superseded, match="does not own"):
            await node.gateway.receive(world.create("x"))
        await node.gateway.submit(world.create("x"))
        await node.gateway.close()
        with pytest.raises(Superseded):
            await node.gateway.receive(world.create("y"))

    run(scenario())


def test_closing_a_gateway_that_never_owned_is_nothing() -> None:
    async def scenario() -> None:
        await World().node().gateway.close()

    run(scenario())


# Reading only


def test_a_sealed_log_says_reopen() -> None:
    async def scenario() -> None:
        world = World()
        await world.append(seal=True)
        with pytest.raises(Superseded, match="reopen it"):
            await world.node().gateway.submit(world.create("x"))
        assert len(await world.segments()) == 1

    run(scenario())


def test_an_outdated_program_says_upgrade() -> None:
    async def scenario() -> None:
        world = World()
        await world.append(folds={"catalog": 99})
        with pytest.raises(Outdated, match="upgrade arco"):
            await world.node().gateway.submit(world.create("x"))
        assert len(await world.segments()) == 1

    run(scenario())


def test_an_owner_that_is_too_old_to_write_is_replaced_by_one_that_is_not() -> None:
    class Old:
        async def forward(self, address: str, log: str, command: Command) -> Receipt:
            raise Outdated("upgrade arco")

    async def scenario() -> None:
        world = World()
        await world.node("a").hint.write(Hint(0, "old"))
        receipt = await gateway(world, Old()).submit(world.create("x"))
        assert not receipt.replayed
        with pytest.raises(Unavailable):
            await gateway(world, Old(), may_own=False).submit(world.create("y"))

    run(scenario())


def gateway(world: World, forwarder: Forwarder, *, may_own: bool = True) -> Gateway:
    node = world.node("b")
    return Gateway(node.follower, node.admission, node.hint, forwarder, world.runtime, "b", may_own=may_own)


def test_an_owner_that_does_not_know_leaves_it_to_the_next() -> None:
    class Unsure:
        async def forward(self, address: str, log: str, command: Command) -> Receipt:
            raise OutcomeUnknown("who knows")

    async def scenario() -> None:
        world = World()
        await world.node("a").hint.write(Hint(0, "unsure"))
        with pytest.raises(OutcomeUnknown):
            await gateway(world, Unsure(), may_own=False).submit(world.create("x"))
        await gateway(world, Unsure()).submit(world.create("y"))
        assert paths(await world.events()) == ["y"]

    run(scenario())


def test_a_log_that_never_stays_with_anybody_is_unavailable() -> None:
    async def scenario() -> None:
        world = World()
        node, rival = world.node("a"), world.node("rival")
        world.forwarder.unregister(rival.gateway)
        taken = 0

        async def overtake() -> None:
            nonlocal taken
            taken += 1
            await rival.gateway.submit(world.create(f"r{taken}"))

        node.store.on("create", hook=overtake, times=99)
        command = world.create("x")
        with pytest.raises(Unavailable, match="changes its owner too often") as raised:
            await node.gateway.submit(command)
        assert not isinstance(raised.value, OutcomeUnknown)
        assert "x" not in paths(await world.events())

    run(scenario())


# Entering


def test_recorded_events_get_their_ids_where_they_enter() -> None:
    """A command that lands twice then carries the same events, and the fold knows the second ones."""

    async def scenario() -> None:
        world = World(ACTIVITY_LOG)
        seen: list[Command] = []

        class Deaf:
            async def forward(self, address: str, log: str, command: Command) -> Receipt:
                seen.append(command)
                raise OutcomeUnknown("who knows")

        await world.node("a").hint.write(Hint(0, "deaf"))
        await gateway(world, Deaf()).submit(world.facts(world.materialization(), world.materialization()))
        assert [event.id for event in seen[0].events] == [event.id for event in await world.events()]

    run(scenario())
