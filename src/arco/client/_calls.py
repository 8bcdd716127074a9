"""What calls are made of, the same for both clients: options, paths, bodies, when to try again.

- `Reading`, `Writing`, `Changing`: options that all calls of a kind take, by keyword.
- `Attempts`: one call's tries within its deadline. What may have been carried out without our knowing is `unsettled`;
  then no failure says that nothing happened.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypedDict
from urllib.parse import quote, urlsplit

import httpx

from arco.client._problems import error_of
from arco.core import (
    ArcoError,
    Clock,
    Invalid,
    OutcomeUnknown,
    Outdated,
    Random,
    StoreRefused,
    Unavailable,
    parse_request_key,
)
from arco.wire import Request

__all__ = [
    "Attempts",
    "Call",
    "Changing",
    "Consistency",
    "Query",
    "Reading",
    "Wait",
    "Writing",
    "check_token",
    "check_url",
    "is_loopback",
    "path_of",
    "transport_error",
    "unintelligible",
]

Consistency = Literal["strong", "bounded"]
Wait = Literal["published", "durable"]
Query = Mapping[str, str | int | bool | None]
"""Parameters of an address; None is left out."""

_CONNECT_SECONDS: Final = 5.0
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 5.0
_TRY_AGAIN: Final = frozenset({429, 502, 503, 504})
_PROXY_FAILURES: Final = frozenset({502, 504})
_NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_STAYS: Final = (Outdated, StoreRefused)  # answered with 503 as well, and no waiting mends them
_OUR_FAULT: Final = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


class Reading(TypedDict, total=False):
    """Which state to read. The newest, unless `as_of` names a time, a run or a position."""

    as_of: str | None
    consistency: Consistency
    """`strong` asks the store whether something is newer; `bounded` may be some seconds old, but never older than
    what this client has seen."""
    min_position: str | None
    """Wait until the server has seen this position."""


class Writing(TypedDict, total=False):
    key: str | None
    """The request key: a ULID or UUIDv7, optionally with `:suffix`. A fresh one if absent; give the same one again
    to repeat a call whose outcome you do not know."""
    wait: Wait
    """Return when readers of the store see it (`published`), or as soon as it cannot be lost (`durable`)."""


class Changing(Writing, total=False):
    if_match: int | None
    """Only if the object still has this version; else `PreconditionFailed`."""


def check_url(url: str) -> str:
    """The address of a server, without a slash at its end. The error shows nothing that may be a password."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or "@" in url:
        raise Invalid(
            "this is not the address of a server; write it as https://arco.example.com, without user, query or fragment"
        )
    return url.rstrip("/")


def check_token(token: str | None) -> str | None:
    """The token, if a header can carry it; what cannot be sent would otherwise be shown in the error of the sender."""
    if token is not None and not (token and token.isascii() and token.isprintable() and " " not in token):
        raise Invalid("this is not an API key; it has visible ASCII characters only and no spaces")
    return token


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine whatever the network looks like."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # any other name is what somebody's name server makes of it


def path_of(template: str, **names: str) -> str:
    """The path with each name as one segment, whatever it holds."""
    for what, name in names.items():
        if name in ("", ".", ".."):
            raise Invalid(
                f"{name!r} is no {what.replace('_', ' ')}; write a name such as sales.orders, or id: and its id"
            )
    return template.format(**{what: quote(name, safe="") for what, name in names.items()})


@dataclass(frozen=True)
class Call:
    """One request, as it is sent on every try."""

    method: str
    path: str
    query: Query = field(default_factory=dict)
    body: Request | None = None
    key: str | None = None
    """The request key of what changes something."""
    if_match: int | None = None
    archive: bytes | None = None
    """A body that is no JSON."""

    @property
    def headers(self) -> dict[str, str]:
        headers: dict[str, str] = {} if self.key is None else {"Idempotency-Key": parse_request_key(self.key)}
        if self.archive is not None:
            headers["Content-Type"] = "application/zip"
        return headers if self.if_match is None else {**headers, "If-Match": f'"{self.if_match}"'}

    @property
    def parameters(self) -> dict[str, str | int | bool]:
        return {name: value for name, value in self.query.items() if value is not None}

    @property
    def json(self) -> dict[str, Any] | None:
        """The body. In a PATCH what was not given is absent, because null clears."""
        return None if self.body is None else self.body.model_dump(mode="json", exclude_unset=self.method == "PATCH")


def transport_error(failure: httpx.TransportError, url: str) -> ArcoError:
    """The error for a request that got no answer. Nothing of the request is in it but the server's address."""
    kind = type(failure).__name__
    if isinstance(failure, _OUR_FAULT):
        return Invalid(f"the request to {url} cannot be sent ({kind}); check the address")
    if isinstance(failure, httpx.TimeoutException):
        return Unavailable(f"{url} did not answer in time ({kind}); try again, or allow more time")
    return Unavailable(f"no connection to {url} ({str(failure) or kind}); is a server running there?")


def unintelligible(url: str, answer: str) -> ArcoError:
    return Invalid(f"{url} answers, but not with {answer}; check that it is an Arco server of a version that fits")


class Attempts:
    """The tries of one call.

    Args:
        key: the request key of a write, None for what changes nothing.
        seconds: how long all tries together may take.
    """

    def __init__(self, url: str, key: str | None, seconds: float, clock: Clock, random: Random) -> None:
        self._url = url
        self._key = key
        self._seconds = seconds
        self._clock = clock
        self._random = random
        self._deadline = clock.boottime() + seconds
        self._failures = 0
        self._unsettled = False
        self._operation: str | None = None

    @property
    def timeout(self) -> httpx.Timeout:
        """For the next try."""
        left = max(self._deadline - self._clock.boottime(), 0.001)
        return httpx.Timeout(left, connect=min(left, _CONNECT_SECONDS))

    def failed(self, failure: httpx.Response | httpx.TransportError) -> float:
        """How many seconds to wait before the next try. Raises the error if there is none."""
        if isinstance(failure, httpx.Response):
            error = error_of(failure, self._url)
            again = failure.status_code in _TRY_AGAIN and not isinstance(error, _STAYS)
        else:
            error, again = transport_error(failure, self._url), not isinstance(failure, _OUR_FAULT)
        if not again:
            raise self._last(error) if isinstance(failure, httpx.Response) and failure.is_server_error else error
        self._note(failure, error)
        delay = self._delay(error)
        if self._clock.boottime() + delay >= self._deadline:
            raise self._last(error) from (failure if isinstance(failure, httpx.TransportError) else None)
        self._failures += 1
        return delay

    def _note(self, failure: httpx.Response | httpx.TransportError, error: ArcoError) -> None:
        """Remember what must not be forgotten if a later try fails in a simpler way."""
        if isinstance(failure, httpx.Response):
            lost = failure.status_code in _PROXY_FAILURES or isinstance(error, OutcomeUnknown)
            self._operation = error.details.get("operation_id") or self._operation
        else:
            lost = not isinstance(failure, _NEVER_SENT)
        self._unsettled = self._unsettled or lost

    def _delay(self, error: ArcoError) -> float:
        wanted = error.details.get("retry_after")
        if isinstance(wanted, int | float) and wanted > 0:
            return float(wanted) * self._random.uniform(1.0, 1.25)  # so that not all come back at the same moment
        longest = min(_FIRST_DELAY * 2**self._failures, _LONGEST_DELAY)
        return self._random.uniform(longest / 2, longest)

    def _last(self, error: ArcoError) -> ArcoError:
        """The error the call ends with."""
        if self._key is None:
            return error
        details = {**error.details, "request_key": self._key}
        if self._operation is not None:
            details["operation_id"] = self._operation
        if isinstance(error, OutcomeUnknown):
            return OutcomeUnknown(f"{error.message}; {self._settle()}", **details)
        if self._unsettled:
            return OutcomeUnknown(f"{error.message} (it may have been carried out; {self._settle()})", **details)
        return type(error)(error.message, **details)

    def _settle(self) -> str:
        if self._operation is not None:
            return f"ask by its operation id {self._operation}, or repeat it with the request key {self._key}"
        return f"repeat it with the request key {self._key}: it is carried out once"
