"""Vended credentials: what an engine may read and write a table's files with, and nothing else.

A *vendor* makes credentials that are limited to one table's location and end soon. Where a store cannot limit them so,
there are none: the store's own keys are never handed out, and nothing wider than the table is (`Unsupported`). Whoever
asks has checked the location against the warehouse first; here it is only checked that the cloud cannot misread it.

    s3://    a role assumed with a session policy for the prefix (`_vending_s3`)
    gs://    a token exchanged for one behind an access boundary (`_vending_gcs`)
    az://    a signature for one directory, on accounts with a hierarchical namespace (`_vending_azure`)
    others   none: disk and memory have no keys

Credentials are in no event, no log and no `repr`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import httpx

from arco.core import Clock, Forbidden, Unavailable, shown
from arco.iceberg._locations import Place, parse_location

__all__ = [
    "MAX_LIFETIME",
    "MIN_LIFETIME",
    "Credentials",
    "Options",
    "Vendor",
    "ask",
    "check_lifetime",
    "place_in",
]

MIN_LIFETIME = 900
MAX_LIFETIME = 3600
"""Seconds. STS makes none shorter, and none longer for a role that another role assumes."""

TIMEOUT = 10.0
MAX_ANSWER = 64 << 10
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

Options = Mapping[str, str | bool]


@dataclass(frozen=True, slots=True)
class Credentials:
    """For `storage-credentials` of an answer: they hold below `prefix` until `expires_at_ms`."""

    prefix: str
    config: dict[str, str] = field(repr=False)
    expires_at_ms: int


class Vendor(Protocol):
    """Makes credentials for the tables of one store."""

    @property
    def refresh_key(self) -> str:
        """The property in which clients of this cloud look for the address that gives them new ones."""
        ...

    async def vend(self, location: str, *, write: bool, lifetime: int = MAX_LIFETIME) -> Credentials:
        """Credentials for the files below `location`, for about so many seconds.

        Those of Google last as long as the token of the server, whatever is asked for.

        Raises:
            Forbidden: the location is not in this store, or holds what the cloud would read as a pattern.
            Unsupported: this store cannot limit credentials to a table.
            Unavailable: the cloud did not answer, or refused; nothing was handed out.
        """
        ...

    async def close(self) -> None: ...


def check_lifetime(seconds: int) -> int:
    """The lifetime, moved into what all clouds can do."""
    return min(max(seconds, MIN_LIFETIME), MAX_LIFETIME)


def place_in(location: str, store: Place, unsafe: str) -> Place:
    """Where the location is, if it lies below the store's own place and holds no character of `unsafe`."""
    place = parse_location(location, store.account)
    if not store.holds(place) or place.path == store.path:
        raise Forbidden(f"no credentials for {shown(location)}: it is not below the store they would be made for")
    if _CONTROL.search(place.path) or any(character in place.path for character in unsafe):
        raise Forbidden(
            f"no credentials for {shown(location)}: a policy could read one of {' '.join(unsafe)} in it as more than "
            "this table"
        )
    return place


async def ask(
    client: httpx.AsyncClient, whom: str, method: str, url: str, *, content: bytes = b"", headers: Mapping[str, str]
) -> bytes:
    """The body of a successful answer. Errors name the status and nothing of what was sent or said."""
    try:
        answer = await client.request(method, url, content=content, headers=dict(headers), timeout=TIMEOUT)
    except httpx.HTTPError as error:
        trouble = type(error).__name__
    else:
        if answer.status_code == 200 and len(answer.content) <= MAX_ANSWER:
            return answer.content
        trouble = f"{answer.status_code} {_code(answer.text)}".strip()
    # Raised here, not in the handler: the original error may quote the request.
    raise Unavailable(f"{whom} made no credentials ({trouble}); try again, or have the operator check its rights")


def _code(text: str) -> str:
    """The name of an error, as S3's family (XML) and OAuth's (JSON) give it."""
    found = re.search(r"<Code>(\w{1,64})</Code>|\"error\"\s*:\s*\"(\w{1,64})\"", text[:MAX_ANSWER])
    return (found[1] or found[2]) if found else ""


def expiry_ms(clock: Clock, seconds: int) -> int:
    return clock.now() // 1000 + seconds * 1000
