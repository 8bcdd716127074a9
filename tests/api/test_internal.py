"""The internal routes, driven in process: who is let in, what is answered, and how errors and frames travel."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request

import arco.core
from arco.api._internal import (
    MAX_BODY_BYTES,
    door_of,
    encode_error,
    internal_routes,
    pack_frame,
    unpack_frames,
)
from arco.api._peers import HttpPeers
from arco.core import (
    ArcoError,
    Conflict,
    Invalid,
    NotFound,
    OutcomeUnknown,
    ServiceIdentity,
    Stale,
    Superseded,
    TooLarge,
    Unauthenticated,
    Unavailable,
    new_ulid,
)
from arco.log import MAX_SEGMENT_BYTES, Command, Place
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.state import define_log
from arco.storage import MemoryStore, Scope
from arco.wire import unpack_error
from tests.simulation.claims import CLAIMS, Claim

SECRET = bytes(range(32))
SCOPE = Scope("acme", "prod")
ADDRESS = "http://owner.test"


class World:
    """One process with the routes, and the peers of another one that reach it without a network."""

    def __init__(self, workspace: Workspace, runtime: AsyncRuntime) -> None:
        self.workspace = workspace
        self.runtime = runtime
        self.identity = ServiceIdentity(SECRET, "caller", runtime)
        found = {(SCOPE.tenant, SCOPE.workspace): workspace}
        self.asked: list[tuple[str, str]] = []

        async def find(request: Request, opens: bool) -> Workspace | None:
            tenant, name = request.path_params["tenant"], request.path_params["workspace"]
            self.asked.append((tenant, name))
            scope = Scope(tenant, name)
            return found.get((scope.tenant, scope.workspace))

        self.find = find
        self.client = self.client_of(ServiceIdentity(SECRET, "owner", runtime))
        self.peers = HttpPeers(self.identity, runtime, self.client)
        self.place = Place(SCOPE.tenant, SCOPE.workspace, workspace.incarnation.id, "activity")

    def client_of(self, identity: ServiceIdentity | None) -> httpx.AsyncClient:
        app = Starlette(routes=internal_routes(door_of(self.find, identity), self.runtime))
        return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ADDRESS)

    def path(self, rest: str, tenant: str = "acme", workspace: str = "prod", incarnation: str = "") -> str:
        return f"/internal/{tenant}/{workspace}{rest}?incarnation={incarnation or self.place.incarnation}"

    async def post(self, path: str, body: bytes, **more: str) -> httpx.Response:
        headers = {**self.identity.headers("POST", path, body), **more}
        return await self.client.post(path, content=body, headers=headers)

    def claim(self, attempt: str) -> Command:
        return Command(
            operation=new_ulid(self.runtime, self.runtime),
            actor="me",
            name="Claim",
            data=msgspec.Raw(msgspec.json.encode(Claim(attempt, "w"))),
        )


def inside(test: Callable[[World], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def main() -> None:
        runtime = AsyncRuntime()
        store = MemoryStore(runtime)
        await init_workspace(store, SCOPE, runtime)
        log = define_log("activity", [CLAIMS])
        async with await Workspace.open(store, SCOPE, runtime, definitions=[log], test_store=False, **options) as found:
            await found.decide("activity", Claim("first", "w"), actor="me")
            world = World(found, runtime)
            await test(world)
            await world.peers.close()

    asyncio.run(main())


# What is carried out


def test_a_forwarded_command_is_carried_out_once() -> None:
    async def test(world: World) -> None:
        command = world.claim("a")
        receipt = await world.peers.forward(ADDRESS, world.place, command)
        again = await world.peers.forward(ADDRESS, world.place, command)
        assert (receipt.operation, receipt.replayed) == (command.operation, False)
        assert (again.position, again.replayed) == (receipt.position, True)
        with pytest.raises(Conflict, match="the attempt a is claimed by w"):
            await world.peers.forward(ADDRESS, world.place, world.claim("a"))

    inside(test)


def test_who_does_not_own_the_log_says_so() -> None:
    async def test(world: World) -> None:
        await world.workspace.logs["activity"].gateway.close()
        with pytest.raises(Superseded, match="does not own the log activity"):
            await world.peers.forward(ADDRESS, world.place, world.claim("a"))
        with pytest.raises(Superseded, match="does not own the log activity"):
            await anext(world.peers.segments(ADDRESS, world.place))

    inside(test)


def test_sync_compact_waits_for_a_revision_that_covers_the_position() -> None:
    async def test(world: World) -> None:
        receipt = await world.workspace.decide("activity", Claim("a", "w"), actor="me")
        covered = await world.peers.publish(ADDRESS, world.place, receipt.position)
        assert covered >= receipt.position
        assert await world.workspace.logs["activity"].is_published(receipt.position)
        with pytest.raises(Stale, match="the log ends before position"):
            await world.peers.publish(ADDRESS, world.place, covered + 1)

    inside(test)


def test_a_process_that_publishes_nothing_says_so() -> None:
    async def test(world: World) -> None:
        with pytest.raises(Unavailable, match="does not publish"):
            await world.peers.publish(ADDRESS, world.place, 1 << 20)

    inside(test, compact=False)


def test_another_incarnation_is_somebody_else() -> None:
    async def test(world: World) -> None:
        other = msgspec.structs.replace(world.place, incarnation="inc-other")
        with pytest.raises(Superseded, match="another incarnation"):
            await world.peers.forward(ADDRESS, other, world.claim("a"))
        with pytest.raises(Superseded, match="another incarnation"):
            await world.peers.publish(ADDRESS, other, 1)

    inside(test)


# Who is let in


def test_a_bad_identity_and_an_unknown_workspace_are_answered_alike_without_a_request() -> None:
    async def test(world: World) -> None:
        body = msgspec.json.encode({"log": "activity", "position": "1"})
        requests = world.workspace.counts.count()
        here, elsewhere = world.path("/sync-compact"), world.path("/sync-compact", "evil", "corp")
        answers = [
            await world.client.post(here, content=body),
            await world.client.post(elsewhere, content=body),
            await world.post(here, body, **{"arco-signature": "0" * 64}),
            await world.client.post(here, content=body, headers=world.identity.headers("POST", elsewhere, body)),
            await world.client.post(here, content=b"{}", headers=world.identity.headers("POST", here, body)),
        ]
        assert world.asked == [], "who is not known learns nothing, not even by the time a look-up takes"
        answers.append(await world.post(elsewhere, body))
        answers.append(await world.post(world.path("/sync-compact", "*", "*"), body))
        assert {(answer.status_code, answer.content, str(answer.headers)) for answer in answers} == {
            (401, answers[0].content, str(answers[0].headers))
        }
        assert world.workspace.counts.count() == requests

    inside(test)


def test_without_a_secret_nobody_is_let_in() -> None:
    async def test(world: World) -> None:
        async with world.client_of(None) as client:
            path = world.path("/sync-compact")
            answer = await client.post(path, content=b"{}", headers=world.identity.headers("POST", path, b"{}"))
        assert answer.status_code == 401

    inside(test)


def test_a_caller_with_another_secret_reads_what_to_do() -> None:
    async def test(world: World) -> None:
        peers = HttpPeers(ServiceIdentity(bytes(32), "stranger", world.runtime), world.runtime, world.client)
        with pytest.raises(Unauthenticated, match="ARCO_SERVICE_SECRET is missing or another one"):
            await peers.forward(ADDRESS, world.place, world.claim("a"))

    inside(test)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff", b'{"log":1,"position":"1"}', b'{"log":"activity","position":"x"}']
)
def test_a_body_that_is_not_what_is_asked_for_is_invalid(body: bytes) -> None:
    async def test(world: World) -> None:
        for path in (world.path("/sync-compact"), world.path("/logs/activity/commands")):
            answer = await world.post(path, body)
            assert answer.status_code == 400
            assert isinstance(unpack_error(answer.content), Invalid)

    inside(test)


def test_a_log_that_does_not_exist_and_a_body_that_is_too_large_are_refused() -> None:
    async def test(world: World) -> None:
        answer = await world.post(world.path("/logs/nothing/commands"), b"{}")
        assert answer.status_code == 404
        assert isinstance(unpack_error(answer.content), NotFound)
        answer = await world.post(world.path("/logs/activity/commands"), b" " * (MAX_BODY_BYTES + 1))
        assert answer.status_code == 413
        assert isinstance(unpack_error(answer.content), TooLarge)

    inside(test)


# What cannot be reached, and what may have been done


@pytest.mark.parametrize(
    "address", ["local:x", "", "ftp://x", "http://", "http://127.0.0.1:1", "http://[::", "http://a b"]
)
def test_an_address_that_nobody_can_reach_is_unavailable_at_once(address: str) -> None:
    async def main() -> None:
        runtime = AsyncRuntime()
        peers = HttpPeers(ServiceIdentity(SECRET, "caller", runtime), runtime)
        place = Place("acme", "prod", "inc-1", "activity")
        command = Command(operation=new_ulid(runtime, runtime), actor="me", name="Claim")
        for work in (
            peers.forward(address, place, command),
            peers.publish(address, place, 1),
            anext(peers.segments(address, place)),
        ):
            with pytest.raises(Unavailable) as caught:
                await work
            assert type(caught.value) is Unavailable, "nothing was sent, so nothing is unknown"
        await peers.close()

    asyncio.run(main())


def answering(handle: Callable[[httpx.Request], httpx.Response]) -> tuple[HttpPeers, list[httpx.Request]]:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return handle(request)

    runtime = AsyncRuntime()
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return HttpPeers(ServiceIdentity(SECRET, "caller", runtime), runtime, client), seen


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (httpx.ReadTimeout("slow"), OutcomeUnknown),
        (httpx.ReadError("reset"), OutcomeUnknown),
        (httpx.WriteError("reset"), OutcomeUnknown),
        (httpx.RemoteProtocolError("closed"), OutcomeUnknown),
        (httpx.ConnectTimeout("slow"), Unavailable),
        (httpx.ConnectError("refused"), Unavailable),
        (httpx.Response(200, content=b"hello"), OutcomeUnknown),
        (httpx.Response(502, content=b"<html>"), OutcomeUnknown),
        (httpx.Response(504), OutcomeUnknown),
        (httpx.Response(500, content=b"Internal Server Error"), OutcomeUnknown),
        (httpx.Response(404, content=b"<html>"), Unavailable),
        (httpx.Response(302, headers={"location": "http://elsewhere"}), Unavailable),
        (httpx.Response(503, content=b'{"name":"Unheard","message":"m"}'), Unavailable),
        (httpx.Response(504, content=b'{"name":"OutcomeUnknown","message":"m"}'), OutcomeUnknown),
    ],
)
def test_a_command_is_sent_once_and_its_outcome_is_told_as_far_as_it_is_known(
    outcome: httpx.Response | Exception, expected: type[ArcoError]
) -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def main() -> None:
        peers, seen = answering(handle)
        command = Command(operation="01ARZ3NDEKTSV4RRFFQ69G5FAV", actor="me", name="Claim")
        with pytest.raises(ArcoError) as caught:
            await peers.forward(ADDRESS, Place("acme", "prod", "inc-1", "activity"), command)
        assert type(caught.value) is expected
        assert len(seen) == 1
        with pytest.raises(Unavailable):
            await peers.publish(ADDRESS, Place("acme", "prod", "inc-1", "activity"), 1)
        with pytest.raises(ArcoError):
            await anext(peers.segments(ADDRESS, Place("acme", "prod", "inc-1", "activity")))
        await peers.close()

    asyncio.run(main())


# Errors on the wire


def every_error() -> list[type[ArcoError]]:
    found = [getattr(arco.core, name) for name in arco.core.__all__]
    return [kind for kind in found if isinstance(kind, type) and issubclass(kind, ArcoError)]


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_error_arrives_as_what_it_was(kind: type[ArcoError]) -> None:
    response = encode_error(kind("what happened", number=7, names=["a"], odd={1, 2}))
    error = unpack_error(bytes(response.body))
    assert error is not None
    assert type(error) is kind
    assert (error.message, error.details["number"], error.details["names"]) == ("what happened", 7, ["a"])
    assert 400 <= response.status_code <= 599
    if isinstance(error, Unavailable):
        assert response.status_code in (429, 503, 504)


@given(body=st.binary(max_size=50) | st.text(max_size=50).map(str.encode))
def test_what_is_no_error_of_ours_is_none(body: bytes) -> None:
    assert unpack_error(body) is None


def test_an_error_that_a_newer_program_knows_is_unavailable() -> None:
    error = unpack_error(b'{"name":"Singular","message":"m","details":{"a":1}}')
    assert type(error) is Unavailable
    assert (error.message, error.details) == ("m", {"a": 1})


# Frames


@given(
    frames=st.lists(st.tuples(st.integers(0, 2**64 - 1), st.binary(max_size=40)), max_size=10),
    cuts=st.lists(st.integers(1, 30), max_size=60),
)
def test_frames_survive_however_the_network_cuts_them(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(pack_frame(number, content) for number, content in frames)

    async def chunks() -> AsyncIterator[bytes]:
        rest = data
        for cut in cuts:
            yield rest[:cut]
            rest = rest[cut:]
        yield rest

    async def read() -> list[tuple[int, bytes]]:
        return [frame async for frame in unpack_frames(chunks())]

    assert asyncio.run(read()) == frames


def test_a_frame_larger_than_a_segment_is_not_waited_for() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield pack_frame(1, b"x")
        yield (1).to_bytes(8, "big") + (MAX_SEGMENT_BYTES + 1).to_bytes(4, "big")
        pytest.fail("read on")

    async def read() -> None:
        frames = unpack_frames(chunks())
        assert await anext(frames) == (1, b"x")
        with pytest.raises(Unavailable, match="too large"):
            await anext(frames)

    asyncio.run(read())
