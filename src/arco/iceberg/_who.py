"""Who asks for a change, and by which key a repetition of the request is recognised.

An *idempotency key* is what a client calls one request: a UUIDv7 in its canonical text. The *request hash* tells two
requests of one key apart: what is asked for and the body, as RFC 8785 writes JSON.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from arco.core import DAY, MINUTE, canonical_json, format_time, request_key_time, sha256_hex
from arco.core import RequestKey as CoreKey
from arco.iceberg._errors import BadRequest

__all__ = ["KEY_LIFE", "IdempotencyKey", "Source", "Who", "parse_idempotency_key"]

Source = Literal["servo", "external", "admin"]

KEY_LIFE = 7 * DAY
"""Microseconds for which a key is remembered, by the time in it. What proves its outcome (claims, pointers, decisions)
must not be deleted earlier."""

MAX_AHEAD = 5 * MINUTE

_UUID_V7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_SAFE = 2**53 - 1


class IdempotencyKey(msgspec.Struct, frozen=True):
    text: str
    request_hash: str

    @property
    def hash(self) -> str:
        """What names the key in paths and pointers."""
        return sha256_hex(self.text.encode())


@dataclass(frozen=True, slots=True)
class Who:
    actor: str
    operation: str
    """A ULID minted when the request came in; the outcome can be asked for by it."""
    source: Source = "external"
    client: str = ""
    """The User-Agent."""
    traceparent: str = ""
    correlation: str = ""
    """The id of the request, for the audit."""
    key: IdempotencyKey | None = None
    run_id: str = ""
    materialization_id: str = ""


def parse_idempotency_key(text: str, *, what: str, body: object, now: int) -> IdempotencyKey:
    """The key of a request. `what` says what is asked for beside the body, such as the route and the table's name."""
    if _UUID_V7.fullmatch(text) is None:
        raise BadRequest("the Idempotency-Key is not a UUIDv7 in lower case with its four hyphens; send one or none")
    made = request_key_time(CoreKey(text))
    if made < now - KEY_LIFE:
        raise BadRequest(
            "the Idempotency-Key is older than 7 days, so a repetition could not be recognised; send a new one"
        )
    if made > now + MAX_AHEAD:
        raise BadRequest(
            f"the Idempotency-Key is dated {format_time(made)}, more than 5 minutes ahead; check your clock"
        )
    return IdempotencyKey(text, sha256_hex(canonical_json([what, _safe(body)])))


def _safe(value: Any) -> Any:
    """The value with integers beyond 2^53 as text: canonical JSON has none, and snapshot ids are such integers."""
    if isinstance(value, dict):
        return {name: _safe(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_safe(child) for child in value]
    if isinstance(value, int) and not -_SAFE <= value <= _SAFE:
        return f"\x00{value}"
    return value
