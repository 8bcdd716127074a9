"""Admission: every kind of bad input is refused with a text that says what to do, and nothing is written."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import (
    DAY,
    MAX_TIME,
    MINUTE,
    Corrupt,
    Invalid,
    TooLarge,
    Unavailable,
    format_time,
    new_ulid,
    ulid_to_uuid,
)
from arco.domains.execution import MATERIALIZATION_COMPLETED, DataFile
from arco.log import KEY_LIFE, MAX_AHEAD, MAX_EVENT_BYTES, Command, NewEvent, Receipt
from arco.state import AdvanceRetention, PinRevision, new_event
from arco.state._system import RETENTION_ADVANCED, RetentionAdvanced
from arco.storage import Operation, StoreFailed
from tests.doubles import START, FakeRuntime, run
from tests.log.world import ACTIVITY_LOG, CATALOG_LOG, Node, World, raw

NOT_AN_OBJECT = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


class At(FakeRuntime):
    """A clock that is off by so many microseconds, to mint ids of other times."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self._offset = offset

    def now(self) -> int:
        return START + self._offset


def ulid_at(offset: int) -> str:
    return new_ulid(At(offset), At(offset))


def refused(build: Callable[[World, Node], Command], error: type[Invalid] = Invalid) -> str:
    """Submit a command that must be refused before anything is written; the message."""

    async def scenario() -> str:
        world = World(ACTIVITY_LOG)
        node = world.node()
        with pytest.raises(error) as raised:
            await node.gateway.submit(build(world, node))
        assert type(raised.value) is error
        assert node.requests(Operation.CREATE, Operation.PUT) == 0
        assert await world.segments() == []
        return raised.value.message

    return run(scenario())


def accepted(build: Callable[[World, Node], Command]) -> Receipt:
    async def scenario() -> Receipt:
        world = World(ACTIVITY_LOG)
        node = world.node()
        return await node.gateway.submit(build(world, node))

    return run(scenario())


def event(**changes: Any) -> Callable[[World, Node], Command]:
    """A command that records one materialization with some fields of the event replaced."""
    return lambda world, node: world.facts(msgspec.structs.replace(world.materialization(), **changes))


def payload(**changes: Any) -> Callable[[World, Node], Command]:
    return lambda world, node: world.facts(world.materialization(**changes))


def payload_json(**changes: Any) -> Callable[[World, Node], Command]:
    """Like `payload`, with values that the payload's class would not take."""

    def build(world: World, node: Node) -> Command:
        value = msgspec.to_builtins(world.completed())
        return world.facts(NewEvent("MaterializationCompleted", raw({**value, **changes})))

    return build


def facts(*events: NewEvent, key: str = "") -> Callable[[World, Node], Command]:
    return lambda world, node: world.facts(*events, key=key)


def decided(command: msgspec.Struct) -> Callable[[World, Node], Command]:
    return lambda world, node: world.command(command)


# Events


def test_an_oversized_event_is_refused() -> None:
    for build in (payload(schema_hash="x" * MAX_EVENT_BYTES), event(subject="x" * MAX_EVENT_BYTES)):
        message = refused(build, TooLarge)
        assert "MaterializationCompleted" in message
        assert "as a blob" in message


def test_events_that_fit_alone_but_not_together_are_refused() -> None:
    def build(world: World, node: Node) -> Command:
        return world.facts(*(world.materialization(schema_hash="x" * 1_000_000) for _ in range(9)))

    assert "split the batch" in refused(build, TooLarge)


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"null", b'{"a":1} trailing', b'"\xff"', b"[" * 100_000])
def test_a_malformed_event_is_refused_with_and_without_a_key(data: bytes) -> None:
    event_ = NewEvent("MaterializationCompleted", msgspec.Raw(data))
    assert refused(lambda world, node: world.facts(event_))
    assert refused(lambda world, node: world.facts(event_, key=ulid_at(0)))


def test_a_field_nobody_acts_on_is_refused() -> None:
    assert "colour" in refused(payload_json(colour="red"))
    file = {**msgspec.to_builtins(DataFile("data/x", 1, 1)), "colour": "red"}
    assert "colour" in refused(payload_json(files=[file]))


def test_nothing_is_stored_that_was_not_looked_at() -> None:
    """Of two equal keys a decoder sees the last; the first one would carry a secret past every check."""

    async def scenario() -> None:
        world = World(ACTIVITY_LOG)
        fact = world.materialization()
        hidden = b'{"run_id":"postgres://ann:hunter2secret@db/x",' + bytes(fact.data)[1:]
        await world.node().gateway.submit(world.facts(NewEvent(fact.type, msgspec.Raw(hidden))))
        (stored,) = await world.events()
        assert bytes(stored.data) == bytes(fact.data)

    run(scenario())


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**40])
def test_a_number_no_table_can_hold_is_refused(number: int) -> None:
    message = refused(payload(schema_version=number))
    assert "$.data.schema_version" in message
    assert str(number) not in message


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_the_largest_numbers_are_kept(number: int) -> None:
    accepted(payload(schema_version=number, asset_key=str(10**40)))


FAULTS: list[dict[str, Any]] = [{"materialization_id": ""}, {"asset_id": ""}, {"row_count": -1}, {"byte_size": -1}]


@pytest.mark.parametrize("changes", FAULTS)
def test_a_fact_without_an_id_or_with_less_than_nothing_is_refused(changes: dict[str, Any]) -> None:
    assert "does not fit" in refused(payload(**changes))


def test_an_unknown_type_is_refused() -> None:
    message = refused(event(type="MaterializationDreamt"))
    assert f"MaterializationDreamt v{MATERIALIZATION_COMPLETED.version} is not known here" in message
    assert "upgrade arco" in message


def test_only_what_nobody_decides_can_be_recorded() -> None:
    advanced = new_event(RETENTION_ADVANCED, RetentionAdvanced("operations", START))
    for key in ("", ulid_at(0)):
        assert "RetentionAdvanced cannot be recorded" in refused(facts(advanced, key=key))
    kinds = [*ACTIVITY_LOG.registry, *CATALOG_LOG.registry]
    recordable = {kind.name for kind in kinds if kind.recordable}
    assert recordable == {"AssetObserved", "MaterializationCompleted", "MaterializationFailed"}


@pytest.mark.parametrize("version", [MATERIALIZATION_COMPLETED.version + 1, 0, -1])
def test_an_unknown_version_is_refused(version: int) -> None:
    assert f"MaterializationCompleted v{version} is not known here" in refused(event(version=version))


@pytest.mark.parametrize("time", [START + MAX_AHEAD + 1, START + 100 * DAY, MAX_TIME])
def test_an_event_from_the_future_is_refused(time: int) -> None:
    assert "clock" in refused(payload(completed_at=time))


@pytest.mark.parametrize("time", [-1, MAX_TIME + 1, 2**62])
@pytest.mark.parametrize("field", ["started_at", "completed_at"])
def test_a_time_that_no_calendar_can_print_is_refused(field: str, time: int) -> None:
    assert f"$.{field}" in refused(payload_json(**{field: time}))


@pytest.mark.parametrize("time", [-1, MAX_TIME + 1])
def test_a_command_with_a_time_that_no_calendar_can_print_is_refused(time: int) -> None:
    for command in (PinRevision("pin", 1, "audit", time), AdvanceRetention("materializations", time)):
        refused(decided(command))


@pytest.mark.parametrize("ahead", [MAX_AHEAD + 1, 365 * DAY])
def test_an_event_dated_into_the_future_is_refused(ahead: int) -> None:
    message = refused(event(time=format_time(START + ahead)))
    assert "more than 5 minutes ahead" in message
    assert "check the producer's clock" in message


def test_five_minutes_ahead_is_still_accepted() -> None:
    accepted(payload(completed_at=START + MAX_AHEAD))
    accepted(event(time=format_time(START + MAX_AHEAD)))


@pytest.mark.parametrize("time", ["yesterday", "2026-01-01", "2026-01-01T00:00:00", "99999-01-01T00:00:00Z"])
def test_a_time_that_means_nothing_is_refused(time: str) -> None:
    refused(event(time=time))


@pytest.mark.parametrize("event_id", ["x", "8" * 26, "01arz3ndektsv4rrffq69g5fav"])
def test_an_event_id_that_is_no_ulid_is_refused(event_id: str) -> None:
    assert "ULID" in refused(event(id=event_id))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"run_id": "postgres://ann:hunter2secret@db/x"}, "$.data.run_id"),
        ({"files": [DataFile("AKIAIOSFODNN7EXAMPLE", 1, 1)]}, "$.data.files[0].path"),
    ],
)
def test_a_secret_is_refused_by_its_place_and_never_shown(changes: dict[str, Any], where: str) -> None:
    message = refused(payload(**changes))
    assert where in message
    assert "hunter2secret" not in message
    assert "AKIAIOSFODNN7EXAMPLE" not in message


def test_a_secret_outside_the_payload_is_refused_too() -> None:
    message = refused(event(subject="AKIAIOSFODNN7EXAMPLE"))
    assert "$.subject" in message
    assert "AKIAIOSFODNN7EXAMPLE" not in message


# Commands


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("not an id", "ULID"),
        (ulid_at(-KEY_LIFE - 1000), "older than 7 days"),
        (ulid_at(MAX_AHEAD + 1000), "more than 5 minutes ahead"),
        ("7" + "Z" * 25, "check the clock"),
    ],
)
def test_an_operation_id_must_be_of_now(operation: str, message: str) -> None:
    assert message in refused(
        lambda world, node: msgspec.structs.replace(world.facts(world.materialization()), operation=operation)
    )


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("my-key", "carries no time"),
        (ulid_at(-KEY_LIFE - 1000), "older than 7 days"),
        (ulid_at(MAX_AHEAD + 1000), "more than 5 minutes ahead"),
        (ulid_to_uuid(new_ulid(At(0), At(0))), "carries no time"),
    ],
)
def test_a_request_key_must_carry_a_time_of_now(key: str, message: str) -> None:
    assert message in refused(lambda world, node: world.facts(world.materialization(), key=key))


@pytest.mark.parametrize("offset", [-KEY_LIFE + MINUTE, 0, MAX_AHEAD])
def test_ids_of_the_last_seven_days_are_accepted(offset: int) -> None:
    accepted(lambda world, node: world.facts(world.materialization(), key=ulid_at(offset)))


def test_a_key_in_upper_case_is_the_same_key() -> None:
    async def scenario() -> None:
        world = World(ACTIVITY_LOG)
        node = world.node()
        key = "019b76da-a800-7abc-8abc-0123456789ab"  # a UUIDv7 of 2026-01-01
        fact = world.materialization()
        first = await node.gateway.submit(world.facts(fact, key=key.upper()))
        again = await node.gateway.submit(world.facts(fact, key=key))
        assert again == Receipt(first.operation, first.first, first.last, replayed=True)
        assert [stored.key for stored in await world.events()] == [key]

    run(scenario())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actor": ""}, "must name its actor"),
        ({"name": "CreateNamespace"}, "not both and not neither"),
        ({"events": ()}, "not both and not neither"),
    ],
)
def test_a_command_is_complete_and_of_one_kind(changes: dict[str, Any], message: str) -> None:
    assert message in refused(
        lambda world, node: msgspec.structs.replace(world.facts(world.materialization()), **changes)
    )


def test_an_oversized_command_is_refused() -> None:
    def build(world: World, node: Node) -> Command:
        return Command(operation=world.ulid(), actor="ann", name="Pin", data=raw("x" * MAX_EVENT_BYTES))

    assert "Pin" in refused(build, TooLarge)


def test_an_unknown_command_and_one_that_does_not_fit_are_refused() -> None:
    def named(name: str, data: bytes, key: str = "") -> Callable[[World, Node], Command]:
        return lambda world, node: Command(
            operation=world.ulid(), actor="ann", name=name, data=msgspec.Raw(data), key=key
        )

    assert "knows no command 'Fly'" in refused(named("Fly", b"{}"))
    for data in (b"{", b"{}", b"null", b"[" * 100_000):
        assert refused(named("PinRevision", data))
        assert refused(named("PinRevision", data, ulid_at(0)))


def test_a_malformed_repetition_of_a_key_is_refused_and_the_owner_goes_on() -> None:
    async def scenario() -> None:
        world = World(CATALOG_LOG)
        node, key = world.node(), ulid_at(0)
        await node.gateway.submit(world.create("a", key=key))
        for data in (b"{", b"[" * 100_000):
            broken = msgspec.structs.replace(world.create("a", key=key), data=msgspec.Raw(data))
            with pytest.raises(Invalid):
                await node.gateway.submit(broken)
        await node.gateway.submit(world.create("b"))
        assert [segment.header.writer for segment in await world.segments()] == ["a", "a"]

    run(scenario())


# Blobs


def test_an_event_whose_blob_is_missing_is_refused() -> None:
    message = refused(event(blobs=("ab" * 32,)))
    assert "ab" * 32 in message
    assert "store it first" in message


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "AB" * 32, "ab" * 31])
def test_an_event_whose_blob_is_no_hash_is_refused(name: str) -> None:
    assert "64 lower-case hex digits" in refused(event(blobs=(name,)))


def test_an_event_with_its_blob_in_place_is_accepted() -> None:
    async def scenario() -> None:
        world = World(ACTIVITY_LOG)
        node = world.node()
        sha256 = await node.blobs.put(b"a plan")
        fact = msgspec.structs.replace(world.materialization(), blobs=(sha256,))
        await node.gateway.submit(world.facts(fact))
        assert [stored.blobs for stored in await world.events()] == [(sha256,)]

    run(scenario())


def test_a_damaged_blob_and_a_silent_store_are_not_the_caller_s_fault() -> None:
    async def scenario() -> None:
        world = World(ACTIVITY_LOG)
        node = world.node()
        sha256 = await node.blobs.put(b"a plan")
        command = world.facts(msgspec.structs.replace(world.materialization(), blobs=(sha256,)))
        node.store.on("get", error=StoreFailed("503"), path="blobs")
        with pytest.raises(Unavailable, match="503"):
            await node.gateway.submit(command)
        await world.memory.put(f"acme/prod/{node.blobs.path(sha256)}", b"another", only_if_absent=False)
        with pytest.raises(Corrupt):
            await node.gateway.submit(command)
        assert await world.segments() == []

    run(scenario())


# What is admitted


def test_an_admitted_event_says_who_did_what_when() -> None:
    async def scenario() -> None:
        world = World(ACTIVITY_LOG)
        node = world.node()
        command = Command(
            operation=world.ulid(),
            actor="ann",
            events=(
                msgspec.structs.replace(world.materialization(), causation="because", subject="orders"),
                world.materialization(),
            ),
            key=ulid_at(0) + ":orders",
            correlation="c-1",
            traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        )
        await node.gateway.submit(command)
        first, second = await world.events()
        assert (first.actor, first.operation, first.span, first.command) == ("ann", command.operation, 2, "")
        assert (first.key, first.keyhash) == (command.key, command.request_hash())
        assert (first.correlation, first.causation, first.subject) == ("c-1", "because", "orders")
        assert first.traceparent == command.traceparent
        assert first.time == format_time(START)
        assert first.id != second.id

    run(scenario())


@settings(deadline=None)
@given(actor=st.text(min_size=1, max_size=5), row_count=st.integers(0, 9), operation=st.sampled_from("ab"))
def test_the_request_hash_is_of_what_is_asked(actor: str, row_count: int, operation: str) -> None:
    def asked(actor: str, row_count: int, operation: str) -> Command:
        events = (NewEvent("T", raw({"row_count": row_count}), id=operation),)
        return Command(operation=operation, actor=actor, events=events)

    plain = asked("ann", 1, "a").request_hash()
    assert (asked(actor, row_count, operation).request_hash() == plain) == ((actor, row_count) == ("ann", 1))


def test_the_order_and_spelling_of_json_do_not_change_the_request_hash() -> None:
    one = Command(operation="a", actor="ann", name="C", data=msgspec.Raw(b'{"a":1,"b":"\\u0061"}'))
    two = Command(operation="b", actor="ann", name="C", data=msgspec.Raw(b'{ "b": "a", "a": 1.0 }'))
    assert one.request_hash() == two.request_hash()
