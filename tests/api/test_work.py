"""What workers call: sessions, tasks, signs of life, results. And what they cannot: nothing without the secret of the
deployment, nothing of another workspace, nothing of an attempt whose token they do not have."""

import asyncio
from typing import Any

import httpx
import msgspec
import pytest

from arco.core import HOUR, new_ulid
from arco.domains.access import UserRole
from arco.domains.orchestration import Outcome
from arco.log import Place
from arco.servo import Beat, Envelope
from arco.servo._tokens import callback_token
from arco.storage import Scope
from arco.worker import HttpControlPlane
from arco.worker._control import is_stale
from tests.api.workers import SHA256, Worker, deploy, task_states, trigger
from tests.api.world import ACME, OTHER, SERVICE_SECRET, SIBLING, World, run_world
from tests.servo.world import chain, fan, project, result_of

SCOPES = (ACME, SIBLING, OTHER)
_OWNER = UserRole.OWNER


async def _run(world: World, run_id: str) -> Any:
    return await world.done("GET", f"/runs/{run_id}")


async def _positions(world: World) -> list[int]:
    return [
        await opened.current() for workspace in world.host.workspaces.values() for opened in workspace.logs.values()
    ]


# Claims and results


def test_a_worker_gets_envelopes_of_what_is_ready_and_nothing_else() -> None:
    async def work(world: World) -> tuple[list[Envelope], list[Envelope], list[Envelope], bool]:
        await deploy(world, project(fan(3)))
        await trigger(world)
        worker = Worker(world)
        await worker.begin()
        first = await worker.claim(10)
        before = await _positions(world)
        nothing = await worker.claim(10)
        untouched = await _positions(world) == before
        middle = worker.opened(await worker.finish(first[0], slots=2))
        assert [envelope.task_key for envelope in await worker.claim(10)] == ["n.m0002"]
        return first, nothing, middle, untouched

    first, nothing, middle, untouched = run_world(work)
    assert [envelope.task_key for envelope in first] == ["n.first"]
    assert (first[0].code_sha256, first[0].attempt) == (SHA256, 1)
    assert nothing == []
    assert untouched
    assert [envelope.task_key for envelope in middle] == ["n.m0000", "n.m0001"]
    assert middle[0].inputs[0].pins[0].materialization_id == first[0].outputs[0].materialization_id


def test_an_idle_worker_waits_until_there_is_something() -> None:
    async def work(world: World) -> list[str]:
        await deploy(world, project(chain(1)))
        worker = Worker(world)
        waiting = asyncio.create_task(worker.claim(wait=30))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await trigger(world)
        return [envelope.task_key for envelope in await waiting]

    assert run_world(work) == ["n.a0000"]


def test_no_more_tasks_run_at_once_than_the_workspace_allows() -> None:
    async def work(world: World) -> list[int]:
        await world.done("PATCH", "/settings", {"values": {"servo.max_concurrent_tasks": 2}})
        await deploy(world, project({f"n.a{number}": [] for number in range(5)}))
        await trigger(world)
        worker = Worker(world)
        found = [await worker.claim(10)]
        found.append(await worker.claim(10))
        found.append(worker.opened(await worker.finish(found[0][0], slots=10)))
        return [len(claimed) for claimed in found]

    assert run_world(work) == [2, 0, 1]


def test_the_same_result_again_is_answered_alike_and_another_is_stale() -> None:
    async def work(world: World) -> tuple[httpx.Response, httpx.Response, list[httpx.Response], bool, str]:
        await deploy(world, project(chain(2)))
        run_id = await trigger(world)
        worker = Worker(world)
        (claimed,) = await worker.claim()
        result = result_of(claimed, world.host.runtime.now())
        first = await worker.tell(claimed, result)
        before = await _positions(world)
        again = await worker.tell(claimed, result)
        other = result_of(claimed, world.host.runtime.now(), Outcome.FAILED)
        stale = [await worker.tell(claimed, other)]
        stale.append(await worker.tell(claimed, msgspec.structs.replace(other, attempt=2)))
        assert (await worker.beat(claimed)).json() == {"beats": [{"stale": True}]}
        return first, again, stale, await _positions(world) == before, (await _run(world, run_id))["state"]

    first, again, stale, untouched, state = run_world(work)
    assert first.status_code == again.status_code == 200
    for answer in stale:
        assert answer.status_code == 409
        assert answer.json()["details"]["code"] == "stale_attempt"
    assert untouched
    assert state == "RUNNING"


def test_a_refused_result_does_not_keep_the_next_tasks_from_its_worker() -> None:
    async def work(world: World) -> tuple[list[str], list[str]]:
        await deploy(world, project({"n.a": [], "n.b": []}))
        await trigger(world)
        worker = Worker(world)
        (first,) = await worker.claim()
        await worker.finish(first)
        other = result_of(first, world.host.runtime.now(), Outcome.FAILED)
        answer = await worker.tell_all((first, other), slots=5)
        refused = [told["error"]["details"]["code"] for told in answer.json()["refused"]]
        return refused, [envelope.task_key for envelope in worker.opened(answer)]

    assert run_world(work) == (["stale_attempt"], ["n.b"])


def test_results_that_are_told_together_are_taken_or_refused_one_by_one() -> None:
    async def work(world: World) -> tuple[list[tuple[str, str]], Any]:
        await deploy(world, project({"n.a": [], "n.b": [], "n.c": []}))
        run_id = await trigger(world)
        worker = Worker(world)
        claimed = await worker.claim(3)
        results = [result_of(one, world.host.runtime.now()) for one in claimed]
        results[1] = msgspec.structs.replace(results[1], outputs=())
        before = await _positions(world)
        answer = await worker.tell_all(*zip(claimed, results, strict=True))
        after = await _positions(world)
        assert sum(after) - sum(before) < 2 << 20, "they are one segment"
        keys = {one.attempt_id: one.task_key for one in claimed}
        refused = [(keys[told["attempt_id"]], told["error"]["name"]) for told in answer.json()["refused"]]
        return refused, await task_states(world, run_id)

    refused, states = run_world(work)
    assert refused == [("n.b", "Invalid")]
    assert states == {"n.a": "SUCCEEDED", "n.b": "RUNNING", "n.c": "SUCCEEDED"}


def test_a_result_that_does_not_belong_to_its_attempt_is_refused() -> None:
    async def work(world: World) -> tuple[list[httpx.Response], bool]:
        await deploy(world, project({"n.a": [], "n.b": []}))
        await trigger(world)
        worker = Worker(world)
        first, second = await worker.claim(2)
        mine, theirs = (result_of(one, world.host.runtime.now()) for one in (first, second))
        replace = msgspec.structs.replace
        before = await _positions(world)
        answers = [
            await worker.tell(first, theirs),
            await worker.tell(first, replace(theirs, attempt_id=first.attempt_id)),
            await worker.tell(first, replace(mine, run_id="nothing")),
            await worker.tell(first, replace(mine, task_key="n.b")),
            await worker.tell(first, replace(mine, outputs=())),
            await worker.tell(first, replace(mine, outputs=theirs.outputs)),
            await worker.tell(first, replace(mine, outcome=Outcome.FAILED)),
            await worker.tell(first, replace(mine, finished_at=mine.started_at - 1)),
        ]
        return answers, await _positions(world) == before

    answers, untouched = run_world(work)
    assert [answer.status_code for answer in answers] == [401, 409, 404, 409, 400, 400, 400, 400]
    assert untouched


BAD_BODIES: list[tuple[str, bytes]] = [
    ("/work/sessions", b""),
    ("/work/sessions", b"null"),
    ("/work/sessions", b"{"),
    ("/work/sessions", b"\xff"),
    ("/work/sessions", b'{"worker": "w"}'),
    ("/work/sessions", b'{"worker": "", "session": "s"}'),
    ("/work/sessions", b'{"worker": "a b", "session": "s"}'),
    ("/work/sessions", b'{"worker": "w\\u202e", "session": "s"}'),
    ("/work/sessions", b'{"worker": "w", "session": "s", "more": 1}'),
    ("/work/claims", b'{"worker": "w", "session": "s"}'),
    ("/work/claims", b'{"worker": "w", "session": "s", "slots": 0}'),
    ("/work/claims", b'{"worker": "w", "session": "s", "slots": 1001}'),
    ("/work/claims", b'{"worker": "w", "session": "s", "slots": 1, "wait_seconds": 61}'),
    ("/work/claims", b'{"worker": "w", "session": "s", "slots": 1, "wait_seconds": -1}'),
    ("/work/claims", b"[" * 100_000),
    ("/work/beats", b"{}"),
    ("/work/beats", b'{"attempts": []}'),
    ("/work/beats", b'{"attempts": [{"attempt_id": "a"}]}'),
    ("/work/beats", b'{"attempts": [{"attempt_id": "", "token": "t"}]}'),
    ("/work/beats", b'{"attempts": [' + b",".join([b'{"attempt_id": "a", "token": "t"}'] * 1_001) + b"]}"),
    ("/work/results", b'{"worker": "w", "session": "s", "results": []}'),
    ("/work/results", b'{"worker": "w", "session": "s", "results": [{"token": "t"}]}'),
]


def test_a_body_that_does_not_fit_is_refused() -> None:
    async def work(world: World) -> list[int]:
        worker = Worker(world)
        return [(await worker.call("POST", path, msgspec.Raw(body))).status_code for path, body in BAD_BODIES]

    assert run_world(work) == [400] * len(BAD_BODIES)


# Signs of life


def test_a_sign_of_life_tells_whether_to_stop() -> None:
    async def work(world: World) -> tuple[Any, Any, bool]:
        await deploy(world, project(chain(1)))
        run_id = await trigger(world)
        worker = Worker(world)
        (claimed,) = await worker.claim()
        before = await _positions(world)
        alive = (await worker.beat(claimed)).json()
        untouched = await _positions(world) == before
        await world.done("POST", f"/runs/{run_id}/cancel", {"reason": "enough"})
        return alive, (await worker.beat(claimed)).json(), untouched

    alive, told, untouched = run_world(work)
    assert alive == {"beats": [{}]}
    assert told == {"beats": [{"cancel": True, "reason": "enough"}]}
    assert untouched


def test_a_worker_that_begins_anew_loses_what_it_had() -> None:
    async def work(world: World) -> tuple[httpx.Response, list[int], int]:
        await deploy(world, project(chain(1)))
        await trigger(world)
        first, second = Worker(world), Worker(world, session="s2")
        (claimed,) = await first.claim()
        await first.begin()  # the same life again: nothing is lost
        kept = await first.beat(claimed)
        await second.begin()
        gone = await first.beat(claimed)
        (again,) = await second.claim(wait=30)
        return gone, [claimed.attempt, again.attempt], kept.status_code

    gone, attempts, kept = run_world(work)
    assert kept == 200
    assert gone.json() == {"beats": [{"stale": True}]}
    assert attempts == [1, 2]


def test_the_client_that_workers_use_understands_it_all() -> None:
    async def work(world: World) -> tuple[list[str], bool]:
        await deploy(world, project(chain(2)))
        await trigger(world)
        workspace, raw = world.workspace(), Worker(world)
        place = Place(ACME.tenant, ACME.workspace, workspace.incarnation.id, "activity")
        plane = HttpControlPlane("http://localhost:8020", place, raw._identity, world.host.runtime, world.http)
        await plane.open_session("w1", "s1")
        done = []
        found = await plane.claim(1, 0)
        while found:
            (envelope,) = raw.opened(httpx.Response(200, json={"envelopes": [found[0].decode()]}))
            done.append(envelope.task_key)
            assert await plane.heartbeat([envelope]) == (Beat(),)
            result = result_of(envelope, world.host.runtime.now())
            finished = await plane.finish([(envelope, result)], 1)
            assert finished.refused == {}
            found = finished.envelopes
            late = await plane.finish([(envelope, msgspec.structs.replace(result, attempt=9))], 0)
            assert [is_stale(error) for error in late.refused.values()] == [True]
        return done, await plane.code(SHA256) != b""

    assert run_world(work) == (["n.a0000", "n.a0001"], True)


# Those who may not


async def _asks(world: World, worker: Worker, envelope: Envelope) -> list[tuple[str, str, Any]]:
    """Every call about a workspace and an attempt in it."""
    result = result_of(envelope, world.host.runtime.now())
    return [
        ("POST", "/work/sessions", {"worker": "w1", "session": "s9"}),
        ("POST", "/work/claims", worker.who | {"slots": 10}),
        ("POST", "/work/beats", worker.alive(envelope)),
        ("POST", "/work/results", worker.results((envelope, result), slots=1)),
        ("GET", f"/code/{SHA256}", None),
    ]


async def _victim(world: World) -> tuple[Worker, Envelope]:
    """A workspace with a task that runs and one that is ready."""
    await deploy(world, project({"n.a": [], "n.b": []}))
    await trigger(world)
    worker = Worker(world)
    (claimed,) = await worker.claim()
    return worker, claimed


def test_without_the_secret_every_workspace_looks_like_one_that_is_not_there() -> None:
    async def work(world: World) -> tuple[set[tuple[int, str]], bool]:
        worker, claimed = await _victim(world)
        stranger = Worker(world, secret=b"another secret, just as long as it must be")
        before, found = await _positions(world), set()
        for method, path, body in await _asks(world, worker, claimed):
            for scope in (ACME, SIBLING, OTHER, Scope("nobody", "here")):
                answer = await stranger.call(method, path, body, scope=scope)
                found.add((answer.status_code, answer.text))
            bare = await world.http.request(method, worker.address(path))
            found.add((bare.status_code, bare.text))
        return found, await _positions(world) == before

    found, untouched = run_world(work, scopes=SCOPES)
    assert [status for status, _ in found] == [401]
    assert untouched


def test_a_call_is_good_for_the_workspace_it_names_and_once_signed_for_nothing_else() -> None:
    async def work(world: World) -> tuple[list[int], bool]:
        worker, claimed = await _victim(world)
        before, statuses = await _positions(world), []
        identity = worker._identity
        for method, path, body in await _asks(world, worker, claimed):
            data = b"" if body is None else msgspec.json.encode(body)
            signed = identity.headers(method, worker.address(path), data)
            for target in (worker.address(path, SIBLING), worker.address(path, OTHER), worker.address(path) + "&x=1"):
                answer = await world.http.request(method, target, content=data, headers=signed)
                statuses.append(answer.status_code)
            other = await world.http.request(method, worker.address(path), content=data + b" ", headers=signed)
            statuses.append(other.status_code)
        return statuses, await _positions(world) == before

    statuses, untouched = run_world(work, scopes=SCOPES)
    assert set(statuses) == {401}
    assert untouched


def _tokens(world: World, envelope: Envelope, other: Envelope) -> list[str]:
    """What is not a token of the envelope's attempt in the workspace SIBLING."""
    now, attempt = world.host.runtime.now(), envelope.attempt_id
    good = callback_token(SERVICE_SECRET, SIBLING.tenant, SIBLING.workspace, attempt, now + HOUR)
    return [
        "",
        "x",
        envelope.callback_token,  # of the workspace ACME
        other.callback_token,
        callback_token(SERVICE_SECRET, SIBLING.tenant, SIBLING.workspace, attempt, now - 1),
        callback_token(b"x" * 32, SIBLING.tenant, SIBLING.workspace, attempt, now + HOUR),
        callback_token(SERVICE_SECRET, "acme", "prod", attempt, now + HOUR),
        callback_token(SERVICE_SECRET, "globex", "dev", attempt, now + HOUR),
        good[:-1],
        good + "0",
        good.replace("cb1", "cb2"),
        good.replace(str(now + HOUR), str(now + 2 * HOUR)),
        good.upper(),
        good + ".x",
    ]


@pytest.mark.parametrize("call", ["beats", "results"])
def test_a_token_holds_for_one_attempt_of_one_workspace_until_it_expires(call: str) -> None:
    """Wrong tokens of an attempt that runs, of one that is over and of one that never was look alike."""

    async def work(world: World) -> tuple[set[tuple[int, str]], bool, int]:
        token = await world.token(_OWNER, SIBLING)
        await deploy(world, project({"n.a": [], "n.b": []}), token=token)
        await world.done("POST", "/runs", {"selection": "*"}, token=token)
        worker = Worker(world, SIBLING)
        first, second = await worker.claim(2)
        await worker.finish(second)
        before, found = await _positions(world), set()
        runtime = world.host.runtime
        for envelope in (first, second, msgspec.structs.replace(first, attempt_id=new_ulid(runtime, runtime))):
            mine = msgspec.structs.replace(
                envelope, callback_token=callback_token(SERVICE_SECRET, "acme", "prod", envelope.attempt_id, 1 << 60)
            )
            result = result_of(envelope, runtime.now())
            for wrong in _tokens(world, mine, second if envelope is not second else first):
                told = worker.results((envelope, result), slots=1, token=wrong)
                body = told if call == "results" else worker.alive(envelope, token=wrong)
                answer = await worker.call("POST", f"/work/{call}", body)
                found.add((answer.status_code, answer.text))
        untouched = await _positions(world) == before
        right = await (worker.beat(first) if call == "beats" else worker.finish(first))
        return found, untouched, right.status_code

    found, untouched, right = run_world(work, scopes=SCOPES)
    assert [status for status, _ in found] == [401]
    assert untouched
    assert right == 200


def test_an_attempt_of_another_workspace_is_one_that_never_was() -> None:
    """Whoever has the deployment's secret could make any token; even so one workspace says nothing of another."""

    async def work(world: World) -> tuple[list[tuple[int, str]], bool]:
        token = await world.token(_OWNER, ACME)
        await deploy(world, project({"n.a": []}), token=token)
        await world.done("POST", "/runs", {"selection": "*"}, token=token)
        (claimed,) = await Worker(world).claim()
        before, found = await _positions(world), []
        runtime, worker = world.host.runtime, Worker(world, OTHER)
        for attempt in (claimed.attempt_id, new_ulid(runtime, runtime)):
            good = callback_token(SERVICE_SECRET, OTHER.tenant, OTHER.workspace, attempt, runtime.now() + HOUR)
            mine = msgspec.structs.replace(claimed, attempt_id=attempt, callback_token=good)
            result = msgspec.structs.replace(result_of(claimed, runtime.now()), attempt_id=attempt)
            answers = [await worker.beat(mine), await worker.tell_all((mine, result), slots=1)]
            found += [(answer.status_code, answer.text.replace(attempt, "<attempt>")) for answer in answers]
        missing = await worker.call("GET", f"/code/{SHA256}")
        found.append((missing.status_code, ""))
        return found, await _positions(world) == before

    found, untouched = run_world(work, scopes=SCOPES)
    assert found[0:2] == found[2:4]
    assert [status for status, _ in found] == [200, 200, 200, 200, 404]
    assert found[0][1] == '{"beats":[{"stale":true}]}'
    assert '"name":"NotFound"' in found[1][1]
    assert untouched


def test_another_incarnation_is_not_served() -> None:
    async def work(world: World) -> int:
        worker = Worker(world)
        body = msgspec.json.encode(worker.who)
        target = worker.address("/work/sessions", incarnation="inc-other")
        headers = worker._identity.headers("POST", target, body)
        return (await world.http.post(target, content=body, headers=headers)).status_code

    assert run_world(work) == 409
