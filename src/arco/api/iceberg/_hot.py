"""`Hot`: an answer that was given is given again to the same request while everything it was made from is as it was.

A load costs little in a loop and three times as much in a server: between two requests the core does other things, so
that code and data of every function on the way are fetched anew (docs/measurements.md). So a request that was answered
a moment ago takes a way with few functions on it. What an answer is made from, and how each part is looked at again:

- the request: method, path, query and headers, which are the key. `VARYING` are left out: no read depends on them.
- who asks, whether they may, how often, and what the name leads to: the catalog at a position, which must be that of
  now (`OpenLog.is_at`); and the end of the key's life.
- what the table is: a glance at the place of the next pointer and at the metadata file, as every load takes.

A part that is another than it was, or that cannot be looked at in no time, leaves the request to the application. So do
answers with credentials, which depend on the time, and all errors. Nothing here decides anything by itself.
"""

import re
import weakref
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from starlette.responses import Response
from starlette.types import Scope

from arco.api._caller import Caller
from arco.api._limits import ICEBERG, RateLimiter, RequestIds
from arco.api._measured import Asked, Measured, asked_of
from arco.core import ArcoError, Clock
from arco.runtime import OpenLog
from arco.storage import Glance
from arco.storage import Scope as Workspace

__all__ = ["VARYING", "Hot", "hold"]

VARYING: Final = frozenset({b"x-request-id", b"traceparent", b"tracestate"})
"""Headers that are another with each request of a client, and on which no answer depends but for its `x-request-id`."""

MAX_ANSWERS: Final = 10_000
ASK_SECONDS: Final = 60.0
"""For how long an answer is given again; a workspace that nobody seems to use is closed some minutes later."""
MAX_KEY: Final = 4_096
"""Bytes of a request that is remembered."""

_HOLDS: Final = "arco.holds"
_READS: Final = ("GET", "HEAD")
_ICEBERG: Final = ICEBERG.encode()
_NO_BODY: Final = (204, 304)

Key = tuple[str, bytes, bytes, tuple[tuple[bytes, bytes], ...]]


class Given(NamedTuple):
    """An answer, and what it was made from."""

    log: OpenLog
    position: int
    holds: Glance
    bucket: str
    rate: int
    expires_at: int | None
    ask_at: float
    """When the application is to answer once more, so that it knows that the workspace is in use."""
    head: bytes
    """Up to the value of `x-request-id`, which comes last."""
    answer: Callable[[], Response | None]
    has_body: bool
    asked: Asked
    status: int


def hold(scope: Scope, holds: Glance | None) -> None:
    """Say of a request that its answer may be given again while the catalog stays as it is and the glance says yes."""
    if holds is not None:
        scope[_HOLDS] = holds


class Hot:
    def __init__(self, clock: Clock, rates: RateLimiter, ids: RequestIds, measured: Measured) -> None:
        self._clock = clock
        self._rates = rates
        self._ids = ids
        self._measured = measured
        self._given: dict[Key, Given] = {}

    def remember(self, scope: Scope, caller: Caller, rate: int, answer: Response) -> None:
        """Keep an answer if it may be given again: the catalog stood still from before it was asked who asks."""
        holds: Glance | None = scope.pop(_HOLDS, None)
        log = caller.workspace.logs["catalog"]
        if holds is None or log.replica.watermark != caller.position:
            return
        key, head = _key(scope), _head(answer)
        if head is None or _size(key) > MAX_KEY:
            return
        has_body = bool(answer.body) and answer.status_code not in _NO_BODY and scope["method"] != "HEAD"
        # Large answers are kept, and counted, elsewhere: whoever lets them go there lets go of them here too.
        found = weakref.ref(answer) if has_body else lambda: answer
        self._given.pop(key, None)
        if len(self._given) >= MAX_ANSWERS:
            del self._given[next(iter(self._given))]
        self._given[key] = Given(
            log,
            caller.position,
            holds,
            caller.bucket,
            rate,
            caller.expires_at,
            self._clock.boottime() + ASK_SECONDS,
            head,
            found,
            has_body,
            asked_of(scope),
            answer.status_code,
        )

    def forget(self, workspace: Workspace) -> None:
        """It was closed: what it holds in memory must not be held here."""
        for key in [key for key, given in self._given.items() if given.asked.scope == workspace]:
            del self._given[key]

    def answer(self, scope: Scope) -> tuple[bytes, Any] | None:
        """Head and body of the answer to a request, or None if the application has to answer it."""
        if scope["method"] not in _READS or not scope["raw_path"].startswith(_ICEBERG):
            return None
        began, key = self._clock.boottime(), _key(scope)
        given = self._given.get(key)
        if given is None:
            return None
        answer = given.answer()
        try:
            if (
                answer is None
                or began > given.ask_at
                or not given.log.is_at(given.position)
                or (given.expires_at is not None and given.expires_at <= self._clock.now())
                or not given.holds()
            ):
                del self._given[key]
                return None
            self._rates.take(given.bucket, given.rate)
        except ArcoError:
            return None  # the application meets the same, and says so
        request_id = self._ids.of(scope["headers"])
        self._measured.add(given.asked, given.status, self._clock.boottime() - began)
        return b"%b%b\r\n\r\n" % (given.head, request_id.encode()), answer.body if given.has_body else b""


def _key(scope: Scope) -> Key:
    headers = tuple([header for header in scope["headers"] if header[0] not in VARYING])
    return scope["method"], scope["raw_path"], scope["query_string"], headers


def _size(key: Key) -> int:
    return len(key[1]) + len(key[2]) + sum(len(name) + len(value) for name, value in key[3])


def _head(answer: Response) -> bytes | None:
    """Status and headers as the server writes them; None for what is not given again."""
    status = _STATUS.get(answer.status_code)
    if status is None or any(_UNSAFE.search(part) for header in answer.raw_headers for part in header):
        return None
    lines = [b"%b: %b\r\n" % (name.lower(), value) for name, value in answer.raw_headers]
    return b"".join((status, *lines, b"x-request-id: "))


_UNSAFE: Final = re.compile(rb"[\x00-\x1f\x7f]")
_STATUS: Final = {
    200: b"HTTP/1.1 200 OK\r\n",
    204: b"HTTP/1.1 204 No Content\r\n",
    304: b"HTTP/1.1 304 Not Modified\r\n",
}
