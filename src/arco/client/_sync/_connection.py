"""One server, asked again until it answers or time is up; the positions it has told; lists by the page."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar, cast

import httpx
from pydantic import BaseModel, ValidationError

from arco.client._blocking import BlockingRuntime
from arco.client._calls import (
    Attempts,
    Call,
    Changing,
    Query,
    Reading,
    Writing,
    check_token,
    check_url,
    is_loopback,
    transport_error,
    unintelligible,
)
from arco.client._problems import error_of
from arco.core import new_ulid
from arco.wire import Health, Page, Request

__all__ = ["Calls", "Connection", "Pages"]

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)

PROBE_SECONDS = 5.0


class Connection:
    """What the calls of a client are sent through."""

    def __init__(
        self,
        url: str,
        token: str | None,
        transport: httpx.BaseTransport | None,
        timeout: float,
        runtime: BlockingRuntime,
    ) -> None:
        self.url = check_url(url)
        self.seen: dict[str, int] = {}
        self._seconds = timeout
        self._runtime = runtime
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"} if check_token(token) else {},
            transport=transport,
            # A proxy of the environment stands between machines, not on this one.
            trust_env=not is_loopback(self.url),
            follow_redirects=False,
        )

    def close(self) -> None:
        self._http.close()

    def read(self, path: str, answer: type[Model], query: Query, options: Reading) -> Model:
        """A GET. A bounded read is never older than what was seen before."""
        wanted: dict[str, Any] = {**query, **options}
        if wanted.get("consistency") == "bounded" and not wanted.get("as_of") and not wanted.get("min_position"):
            wanted["min_position"] = self.newest("catalog")
        return self._parsed(self._send(Call("GET", path, wanted)), answer)

    def ask(self, path: str, body: Request, answer: type[Model]) -> Model:
        """A POST that changes nothing, or that may be sent again because it then finds less to do."""
        return self._parsed(self._send(Call("POST", path, body=body)), answer)

    def store(self, path: str, archive: bytes, answer: type[Model]) -> Model:
        """A PUT of bytes under their own hash. Sent twice it is the same, so it needs no request key."""
        return self._parsed(self._send(Call("PUT", path, archive=archive)), answer)

    def write(
        self,
        method: str,
        path: str,
        answer: type[Model],
        options: Writing,
        *,
        body: Request | None = None,
        query: Query | None = None,
        log: str = "catalog",
    ) -> Model:
        """A change of a log, with the same request key on every try."""
        key = options.get("key") or new_ulid(self._runtime, self._runtime)
        wanted = {**(query or {}), "wait": options.get("wait")}
        if_match = cast(Changing, options).get("if_match")
        response = self._send(Call(method, path, wanted, body, key, if_match))
        written = self._parsed(response, answer)
        self.note(log, getattr(written, "position", None))
        return written

    def probe(self, path: str) -> Health:
        """How the server says it is, asked once; unwell is an answer as well."""
        try:
            response = self._http.get(path, timeout=min(self._seconds, PROBE_SECONDS))
        except httpx.TransportError as error:
            raise transport_error(error, self.url) from error
        if response.status_code not in (200, 503):
            raise error_of(response, self.url)
        return self._parsed(response, Health)

    def newest(self, log: str) -> str | None:
        """The newest position of a log that an answer told."""
        return str(self.seen[log]) if log in self.seen else None

    def note(self, log: str, position: str | None) -> None:
        if position is not None and position.isdecimal():
            self.seen[log] = max(self.seen.get(log, 0), int(position))

    def _send(self, call: Call) -> httpx.Response:
        """The answer, after as many tries as it takes. Raises what the server or the network says against it."""
        attempts = Attempts(self.url, call.key, self._seconds, self._runtime, self._runtime)
        while True:
            failure: httpx.Response | httpx.TransportError
            try:
                failure = self._http.request(
                    call.method,
                    call.path,
                    params=call.parameters,
                    json=call.json,
                    content=call.archive,
                    headers=call.headers,
                    timeout=attempts.timeout,
                )
            except httpx.TransportError as error:
                failure = error
            else:
                if failure.is_success:
                    self.note("catalog", failure.headers.get("Arco-Position"))
                    return failure
            self._runtime.sleep(attempts.failed(failure))

    def _parsed(self, response: httpx.Response, answer: type[Model]) -> Model:
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            raise unintelligible(self.url, answer.__name__) from error


class Pages(Generic[T]):
    """A list that the server hands out by the page. Iterate it for every item; `page` fetches one page."""

    def __init__(
        self, connection: Connection, path: str, answer: type[Page[T]], query: Query, options: Reading
    ) -> None:
        self._connection = connection
        self._path = path
        self._answer = answer
        self._query = query
        self._options = options

    def page(self, cursor: str | None = None) -> Page[T]:
        """The first page, or the one a `next_cursor` names."""
        query = {**self._query, "cursor": cursor} if cursor else self._query
        return self._connection.read(self._path, self._answer, query, self._options)

    def __iter__(self) -> Iterator[T]:
        cursor = None
        while True:
            page = self.page(cursor)
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return


class Calls:
    """Base of every group of calls."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
