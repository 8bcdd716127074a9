"""Limits every request meets before anything acts on it: the size of its body, and how many its caller may send.

Rates are counted in this process, by a bucket that fills evenly; several processes each allow the rate.
"""

import re
from collections import OrderedDict
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arco.api._problems import problem_response
from arco.core import Clock, Invalid, RateLimited, Runtime, TooLarge, new_ulid

__all__ = ["BATCH_BYTES", "BODY_BYTES", "RateLimiter", "RequestShape"]

BODY_BYTES: Final = 1 << 20
BATCH_BYTES: Final = 8 << 20
"""For what holds many things: events, the definitions of a project."""

CODE_BYTES: Final = 64 << 20
"""For an archive of code."""

BODY_SECONDS: Final = 30.0
"""How long to wait for the next part of a body."""

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
MAX_CALLERS: Final = 10_000
MAX_DIGITS: Final = 18


def _limit_of(path: str) -> int:
    if path in ("/api/v1/events", "/api/v1/deployments"):
        return BATCH_BYTES
    return CODE_BYTES if path.startswith("/api/v1/code/") else BODY_BYTES


class RequestShape:
    """ASGI middleware: gives every request an id, and ends one whose body is larger than it may be."""

    def __init__(self, app: ASGIApp, runtime: Runtime) -> None:
        self._app = app
        self._runtime = runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/internal/"):
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        request_id = given if _REQUEST_ID.fullmatch(given) else new_ulid(self._runtime, self._runtime)
        scope["arco.request_id"] = request_id
        limit = _limit_of(scope["path"])

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        length = headers.get(b"content-length", b"0").decode("latin-1")
        if not (length.isdecimal() and len(length) <= MAX_DIGITS):
            await problem_response(Invalid("Content-Length is not a number"), request_id)(scope, receive, answer)
            return
        too_large = TooLarge(f"the body is larger than {limit} bytes; split the request")
        if int(length) > limit:
            await problem_response(too_large, request_id)(scope, receive, answer)
            return
        received, whole = 0, False

        async def bounded() -> Message:
            nonlocal received, whole
            if whole:
                return await receive()
            try:
                message = await self._runtime.timeout(BODY_SECONDS, _next(receive))
            except TimeoutError:
                raise Invalid(f"no more of the body came for {BODY_SECONDS:.0f} s; send it again") from None
            whole = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > limit:
                raise too_large
            return message

        await self._app(scope, bounded, answer)


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
