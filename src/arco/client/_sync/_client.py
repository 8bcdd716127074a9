"""The client: every call of the API on one server."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

import httpx

from arco.client._blocking import BlockingRuntime, ThreadRuntime
from arco.client._sync._access import AccessCalls
from arco.client._sync._activity import ActivityCalls
from arco.client._sync._catalog import NamespaceCalls, TableCalls
from arco.client._sync._connection import Connection
from arco.client._sync._reading import ReadingCalls
from arco.client._sync._servo import ServoCalls

__all__ = ["Client"]

TIMEOUT_SECONDS = 30.0


class Client(
    NamespaceCalls,
    TableCalls,
    ActivityCalls,
    ServoCalls,
    ReadingCalls,
    AccessCalls,
):
    """A server of Arco. Use it as a context manager, or `close` it.

    Calls that change something always carry a request key, so that a call is carried out once however often it had to
    be sent. Failures that pass (no connection, 429, 503) are tried again until `timeout`; every other one is raised
    as the `arco.core` error it is.

    Args:
        url: where the server is, such as `http://127.0.0.1:8020`.
        token: an API key; None where the server asks for none.
        transport: what sends requests, if not the network.
        timeout: seconds one call may take, all its tries together.
        runtime: time and chance.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        timeout: float = TIMEOUT_SECONDS,
        runtime: BlockingRuntime | None = None,
    ) -> None:
        super().__init__(Connection(url, token, transport, timeout, runtime or ThreadRuntime()))

    @property
    def url(self) -> str:
        return self._connection.url

    @property
    def positions(self) -> Mapping[str, str]:
        """The newest position of each log that an answer told. Pass one as `min_position` to another client."""
        return {log: str(position) for log, position in self._connection.seen.items()}

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"
