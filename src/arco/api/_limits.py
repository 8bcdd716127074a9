"""Limits every request meets before anything acts on it: the size of its body, and how many its caller may send.

Rates are counted in this process, by a bucket that fills evenly; several processes each allow the rate.
"""

import itertools
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arco.api._measured import Measured, asked_of
from arco.api._problems import problem_response
from arco.core import Clock, Invalid, RateLimited, Runtime, TooLarge, new_ulid

__all__ = [
    "BATCH_BYTES",
    "BODY_BYTES",
    "ICEBERG",
    "RateLimiter",
    "RequestIds",
    "RequestShape",
    "bounded",
    "check_length",
]

BODY_BYTES: Final = 1 << 20
BATCH_BYTES: Final = 8 << 20
"""For what holds many things: events, the definitions of a project."""

CODE_BYTES: Final = 64 << 20
"""For an archive of code."""

ICEBERG: Final = "/iceberg/"
"""Below it is the Iceberg catalog."""

BODY_SECONDS: Final = 30.0
"""How long to wait for the next part of a body."""

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
MAX_CALLERS: Final = 10_000
MAX_DIGITS: Final = 18


def _limit_of(path: str) -> int:
    if path in ("/api/v1/events", "/api/v1/deployments"):
        return BATCH_BYTES
    return CODE_BYTES if path.startswith("/api/v1/code/") else BODY_BYTES


class RequestIds:
    """Names requests: as they name themselves, or by a ULID of the server's start that goes on counting."""

    def __init__(self, runtime: Runtime) -> None:
        self._start = new_ulid(runtime, runtime)[:16]
        self._numbers = itertools.count(1)

    def of(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        for name, value in headers:
            if name == b"x-request-id":
                given = value.decode("latin-1")
                if _REQUEST_ID.fullmatch(given):
                    return given
        return f"{self._start}{next(self._numbers):010d}"


class RequestShape:
    """ASGI middleware: gives every request an id, counts it, and ends one whose body is larger than it may be.

    Below `/iceberg` errors have another shape and limits go by operation, so that bodies are read there.
    """

    def __init__(self, app: ASGIApp, runtime: Runtime, ids: RequestIds, measured: Measured) -> None:
        self._app = app
        self._runtime = runtime
        self._ids = ids
        self._measured = measured

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/internal/"):
            await self._app(scope, receive, send)
            return
        request_id = self._ids.of(scope["headers"])
        scope["arco.request_id"] = request_id
        began, told = self._runtime.boottime(), False

        def measure(status: int) -> None:
            nonlocal told
            told = True
            self._measured.add(asked_of(scope), status, self._runtime.boottime() - began)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
                measure(message["status"])
            await send(message)

        try:
            await self._pass(scope, receive, answer, request_id)
        except BaseException:  # answered further out, and only there
            if not told:
                measure(500)
            raise

    async def _pass(self, scope: Scope, receive: Receive, answer: Send, request_id: str) -> None:
        if scope["path"].startswith(ICEBERG):
            await self._app(scope, receive, answer)
            return
        limit = _limit_of(scope["path"])
        try:
            check_length(dict(scope["headers"]), limit)
        except Invalid as error:
            await problem_response(error, request_id)(scope, receive, answer)
            return
        await self._app(scope, bounded(receive, limit, self._runtime), answer)


def check_length(headers: Mapping[bytes, bytes], limit: int) -> None:
    """`Invalid` if a body says it is larger than it may be, or says nothing that is a number."""
    length = headers.get(b"content-length", b"0").decode("latin-1")
    if not (length.isdecimal() and len(length) <= MAX_DIGITS):
        raise Invalid("Content-Length is not a number")
    if int(length) > limit:
        raise _too_large(limit)


def bounded(receive: Receive, limit: int, runtime: Runtime) -> Receive:
    """What brings the parts of a body, until they are more than they may be or take too long."""
    received, whole = 0, False

    async def parts() -> Message:
        nonlocal received, whole
        if whole:
            return await receive()
        try:
            message = await runtime.timeout(BODY_SECONDS, _next(receive))
        except TimeoutError:
            raise Invalid(f"no more of the body came for {BODY_SECONDS:.0f} s; send it again") from None
        whole = not message.get("more_body", False)
        received += len(message.get("body", b""))
        if received > limit:
            raise _too_large(limit)
        return message

    return parts


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit} bytes; split the request")


async def _next(receive: Receive) -> Message:
    return await receive()


class RateLimiter:
    """So many requests a minute for each caller, evenly; a caller that was quiet may send a tenth of them at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._filled: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str, per_minute: int) -> None:
        """Count one request, or raise `RateLimited`."""
        now, burst = self._clock.boottime(), max(1.0, per_minute / 10)
        tokens, since = self._filled.pop(caller, (burst, now))
        tokens = min(burst, tokens + (now - since) * per_minute / 60)
        if tokens < 1:
            self._filled[caller] = (tokens, now)
            wait = (1 - tokens) * 60 / per_minute
            raise RateLimited(f"more than {per_minute} requests a minute; wait {wait:.1f} s", retry_after=int(wait) + 1)
        self._filled[caller] = (tokens - 1, now)
        if len(self._filled) > MAX_CALLERS:
            self._filled.popitem(last=False)
