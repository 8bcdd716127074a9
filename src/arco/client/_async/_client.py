"""The client: every call of the API on one server."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

import httpx

from arco.client._async._access import AsyncAccessCalls
from arco.client._async._activity import AsyncActivityCalls
from arco.client._async._catalog import AsyncNamespaceCalls, AsyncTableCalls
from arco.client._async._connection import AsyncConnection
from arco.client._async._reading import AsyncReadingCalls
from arco.client._async._servo import AsyncServoCalls
from arco.core import Runtime
from arco.runtime import AsyncRuntime

__all__ = ["AsyncClient"]

TIMEOUT_SECONDS = 30.0


class AsyncClient(
    AsyncNamespaceCalls,
    AsyncTableCalls,
    AsyncActivityCalls,
    AsyncServoCalls,
    AsyncReadingCalls,
    AsyncAccessCalls,
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
        transport: httpx.AsyncBaseTransport | None = None,
        timeout: float = TIMEOUT_SECONDS,
        runtime: Runtime | None = None,
    ) -> None:
        super().__init__(AsyncConnection(url, token, transport, timeout, runtime or AsyncRuntime()))

    @property
    def url(self) -> str:
        return self._connection.url

    @property
    def positions(self) -> Mapping[str, str]:
        """The newest position of each log that an answer told. Pass one as `min_position` to another client."""
        return {log: str(position) for log, position in self._connection.seen.items()}

    async def close(self) -> None:
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"
