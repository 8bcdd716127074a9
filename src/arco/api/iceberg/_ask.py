"""`Ask`: one request to the Iceberg catalog, after it is known who asks and that they may.

Query parameters that are not known are ignored here, unlike in the rest of the API: Iceberg's clients are newer than
this server as often as not, and send hints (`referenced-by`) that a server may leave aside.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from arco.api._caller import Caller
from arco.api._host import Host
from arco.api._limits import bounded, check_length
from arco.core import new_ulid
from arco.iceberg import BadRequest
from arco.iceberg.metadata import decode

if TYPE_CHECKING:
    from arco.api.iceberg._warehouse import Warehouse

__all__ = ["KEY_HEADER", "SEPARATOR", "Ask", "split_namespace"]

SEPARATOR: Final = "\x1f"
"""Between the levels of a namespace in a path or a parameter; the one that is advertised and every client's default."""

KEY_HEADER: Final = "idempotency-key"

_UUID_V7: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_MAX_FIELDS: Final = 100
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True)
class Ask:
    host: Host
    caller: Caller
    request: Request
    route: str
    """Method and path as `ICEBERG_ROUTES` has them."""
    parameters: Mapping[str, str]
    """Those of the path, decoded."""
    limit: int
    """Bytes its body may have."""

    @property
    def warehouse(self) -> "Warehouse":
        return self.host.warehouse_of(self.caller.scope)

    @property
    def namespace(self) -> tuple[str, ...]:
        return split_namespace(self.parameters["namespace"])

    @property
    def path(self) -> tuple[str, ...]:
        """Namespace and name of the table or view the path names."""
        return (*self.namespace, self.parameters.get("table") or self.parameters["view"])

    @cached_property
    def query(self) -> dict[str, str]:
        """The first value of each parameter."""
        text = self.request.scope.get("query_string", b"").decode("latin-1")
        if not text:
            return {}
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
        except ValueError:
            raise BadRequest(f"more than {_MAX_FIELDS} query parameters; send fewer") from None
        return dict(reversed(pairs))

    def flag(self, name: str) -> bool:
        """A query parameter that is true or false; false if it is absent."""
        text = self.query.get(name, "false").lower()
        if text not in _BOOLEANS:
            raise BadRequest(f"the parameter {name} is true or false")
        return _BOOLEANS[text]

    @cached_property
    def key(self) -> str:
        """The idempotency key; empty if none was sent."""
        text = self.request.headers.get(KEY_HEADER)
        if text is None:
            return ""
        lowered = text.lower()
        if _UUID_V7.fullmatch(lowered) is None:  # the text is not shown: what is sent by mistake is often a credential
            raise BadRequest("Idempotency-Key must be a UUIDv7 (RFC 9562) of 36 characters; leave it out, or send one")
        return lowered

    @cached_property
    def operation(self) -> str:
        """The id under which a write is carried out, if it is the first one with its key."""
        return new_ulid(self.host.runtime, self.host.runtime)

    async def bytes(self) -> bytes:
        check_length(dict(self.request.scope["headers"]), self.limit)
        return await Request(self.request.scope, bounded(self.request.receive, self.limit, self.host.runtime)).body()

    async def json(self) -> Any:
        """The body, which must be a JSON object; what is declared is not looked at: not all clients declare it."""
        data = await self.bytes()
        if not data:
            raise BadRequest("the request has no body; send a JSON object")
        return decode(data)


def split_namespace(text: str) -> tuple[str, ...]:
    return tuple(text.split(SEPARATOR))
