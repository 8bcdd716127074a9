"""`Connection`: how one connection is served: uvicorn's way, but silence ends it and an answer leaves in one piece."""

import asyncio
from typing import Any, Final, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from arco.api.iceberg import Hot

__all__ = ["Connection"]

HEAD_SECONDS: Final = 10.0
"""How long a new connection has to send its first request."""


SMALL: Final = 64 << 10
"""Bytes up to which a body is copied behind its head; beyond that one more packet does not matter."""


class Connection(HttpToolsProtocol):
    """Ends a connection that has not sent a whole request head in time: silence must not keep others out."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._piece = OnePiece(transport)
        self._hot: Hot | None = getattr(self.config.app, "hot", None)
        super().connection_made(self._piece)
        self._deadline = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._give_up)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Answer at once what is answered as before; the rest is the application's.

        Not with other requests waiting behind it: their turn would come within this call, and theirs within that.
        """
        hot = self._hot
        if hot is None or app is not self.app or self.pipeline or self.flow.write_paused or not cycle.keep_alive:
            super()._start_asgi_task(cycle, app)
            return
        answer = hot.answer(cast(Scope, cycle.scope))
        if answer is None:
            super()._start_asgi_task(cycle, app)
            return
        self._piece.send(*answer)
        cycle.response_started = cycle.response_complete = True
        self.on_response_complete()

    def _give_up(self) -> None:
        if self.cycle is None:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)


class OnePiece(asyncio.Transport):
    """A transport that sends what is written one after the other together: the head of an answer and its body.

    Uvicorn writes them apart, which is two packets and wakes the client twice; see docs/measurements.md. What nothing
    follows at once is sent when the loop turns.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._held: Any = b""
        self._later: asyncio.Handle | None = None

    def write(self, data: Any) -> None:
        if self._later is None:
            self._held, self._later = data, self._loop.call_soon(self._flush)
            return
        self._later.cancel()
        held, self._held, self._later = self._held, b"", None
        self._send(held, data)

    def send(self, head: bytes, body: Any) -> None:
        """A whole answer, after what is held."""
        self._flush()
        self._send(head, body)

    def _send(self, head: Any, body: Any) -> None:
        if len(body) > SMALL:
            self._pass_on(head)
            self._pass_on(body)
        else:
            self._pass_on(head + body)

    def _pass_on(self, data: Any) -> None:
        if not self._transport.is_closing():  # else who asked has gone meanwhile, and uvloop says so by an error
            self._transport.write(data)

    def _flush(self) -> None:
        if self._later is not None:
            self._later.cancel()
            held, self._held, self._later = self._held, b"", None
            self._pass_on(held)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)
