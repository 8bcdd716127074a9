"""Limits: bodies that are too large, by what they say and by what comes, and callers that ask too often."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from arco.api._limits import BATCH_BYTES, BODY_BYTES, MAX_CALLERS, RateLimiter
from arco.core import RateLimited
from arco.domains.access import UserRole
from tests.api.running import running_world
from tests.api.world import World, run_world
from tests.doubles import FakeRuntime, run


async def _chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(0, size, 1 << 16):
        yield b" " * (1 << 16)


def _sent(path: str, content: Any, **headers: str) -> httpx.Response:
    async def work(world: World) -> httpx.Response:
        given = {"content-type": "application/json", **headers}
        return await world.http.post(f"/api/v1{path}", content=content, headers=given)

    return run_world(work)


@pytest.mark.parametrize(("path", "limit"), [("/namespaces", BODY_BYTES), ("/events", BATCH_BYTES)])
def test_a_body_that_is_too_large_by_its_header_is_refused(path: str, limit: int) -> None:
    answer = _sent(path, b"x", **{"content-length": str(limit + 1)})
    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:arco:problem:too-large"
    assert str(limit) in answer.json()["detail"]


@pytest.mark.parametrize(("path", "limit"), [("/namespaces", BODY_BYTES), ("/events", BATCH_BYTES)])
def test_a_body_that_turns_out_too_large_is_refused(path: str, limit: int) -> None:
    answer = _sent(path, _chunks(limit + 1))
    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:arco:problem:too-large"


def test_a_body_that_says_less_than_comes_is_refused() -> None:
    assert _sent("/namespaces", _chunks(BODY_BYTES + 1), **{"content-length": "2"}).status_code == 413


@pytest.mark.parametrize("path", ["/namespaces", "/events"])
def test_a_body_of_the_whole_size_is_read(path: str) -> None:
    limit = BATCH_BYTES if path == "/events" else BODY_BYTES
    answer = _sent(path, b'{"name": "a"}' + b" " * (limit - 13))
    assert answer.status_code == (400 if path == "/events" else 201)


@pytest.mark.parametrize("length", ["x", "-1", "1.5", "9" * 5000, "²", ""])
def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    with running_world() as running:
        answer = running.send("POST", "http://localhost/api/v1/namespaces", {"content-length": length}, b"")
    assert answer.status == 400


def test_a_stranger_is_refused_before_the_body_is_read() -> None:
    async def work(world: World) -> tuple[int, int]:
        read = 0

        async def body() -> AsyncIterator[bytes]:
            nonlocal read
            for _ in range(10):
                read += 1
                yield b" "

        answer = await world.http.post("/api/v1/namespaces", content=body(), headers={"Authorization": "Bearer x"})
        return answer.status_code, read

    assert run_world(work) == (401, 0)


# Rates


def test_a_caller_may_send_a_burst_then_the_rate_and_recovers() -> None:
    async def work() -> None:
        clock = FakeRuntime()
        limiter = RateLimiter(clock)
        for _ in range(60):
            limiter.take("ann", 600)
        with pytest.raises(RateLimited) as refused:
            limiter.take("ann", 600)
        assert refused.value.details["retry_after"] == 1
        clock.suspend(0.1)
        limiter.take("ann", 600)
        with pytest.raises(RateLimited):
            limiter.take("ann", 600)
        clock.suspend(3600)
        for _ in range(60):  # what was not used does not pile up
            limiter.take("ann", 600)
        with pytest.raises(RateLimited):
            limiter.take("ann", 600)

    run(work())


def test_being_refused_costs_nothing() -> None:
    async def work() -> None:
        clock = FakeRuntime()
        limiter = RateLimiter(clock)
        limiter.take("ann", 1)
        for _ in range(100):
            with pytest.raises(RateLimited) as refused:
                limiter.take("ann", 1)
            assert refused.value.details["retry_after"] in (60, 61)
        clock.suspend(60)
        limiter.take("ann", 1)

    run(work())


def test_callers_do_not_share_a_rate_and_are_forgotten_when_there_are_many() -> None:
    async def work() -> int:
        limiter = RateLimiter(FakeRuntime())
        for number in range(MAX_CALLERS + 10):
            limiter.take(str(number), 1)
        return len(limiter._filled)

    assert run(work()) == MAX_CALLERS


def test_too_many_requests_are_answered_with_429_and_when_to_come_back() -> None:
    async def work(world: World) -> tuple[httpx.Response, int, int]:
        slow, other = await world.token(UserRole.OWNER), await world.token(UserRole.VIEWER)
        await world.done("PATCH", "/settings", {"values": {"rate.requests_per_minute": 600}}, token=slow)
        answers = await asyncio.gather(*(world.ask("GET", "/whoami", token=slow) for _ in range(80)))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(refused) < 80
        elsewhere = await world.ask("GET", "/whoami", token=other)
        await asyncio.sleep(1.1)
        again = await world.ask("GET", "/whoami", token=slow)
        return refused[0], elsewhere.status_code, again.status_code

    refused, elsewhere, again = run_world(work)
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["type"] == "urn:arco:problem:rate-limited"
    assert (elsewhere, again) == (200, 200)
