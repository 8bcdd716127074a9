"""`HttpPeers`: the other processes of a deployment over HTTP. The other end is `_internal`.

A command is sent once. If it cannot have been sent the answer is `Unavailable`, and the caller may take over the log at
once; if it may have been, `OutcomeUnknown`. Nothing is repeated here: the gateway knows what may be.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Final
from urllib.parse import quote

import httpx
import msgspec

from arco.api._internal import HEARTBEAT, Covered, SyncCompact, unpack_frames
from arco.core import ArcoError, Invalid, OutcomeUnknown, Runtime, ServiceIdentity, Unauthenticated, Unavailable
from arco.log import Command, Place, Receipt, is_http, parse_position
from arco.runtime import HttpTransport
from arco.servo import RELAYED, Beat, Beats, Callback, Heard
from arco.wire import unpack_error

__all__ = ["HttpPeers"]

CONNECT: Final = 1.0
FORWARD: Final = 30.0
"""Seconds for an answer; the gateway gives up on a silent owner long before."""
PUBLISH: Final = 10.0
BEAT: Final = 5.0

_NOT_SENT: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)


class HttpPeers:
    """Implements `arco.runtime.Peers`. One serves every workspace of a process."""

    def __init__(self, identity: ServiceIdentity, runtime: Runtime, client: httpx.AsyncClient | None = None) -> None:
        self._identity = identity
        self._runtime = runtime
        # No proxy of the environment comes between. Open streams take no connection from commands. Idle connections go
        # before the server closes them: a command on one that is just being closed has an unknown outcome for nothing.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=2.0)
        self._client = client or httpx.AsyncClient(
            transport=HttpTransport(trust_env=False, limits=limits), trust_env=False, follow_redirects=False
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def forward(self, address: str, place: Place, command: Command) -> Receipt:
        body = msgspec.json.encode(command)
        request = self._request("POST", address, place, f"/logs/{place.log}/commands", body, FORWARD)
        try:
            response = await self._client.send(request)
        except _NOT_SENT as error:
            raise _unreachable(address, error) from error
        except httpx.HTTPError as error:
            raise _unsettled(address, command, repr(error)) from error
        if response.status_code == 200:
            try:
                return msgspec.json.decode(response.content, type=Receipt)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                raise _unsettled(address, command, "an answer that is no receipt") from None
        error_ = _refusal(address, response)
        # Whoever stands in between may have passed the command on before it lost patience.
        if error_ is None and response.status_code >= 500:
            raise _unsettled(address, command, f"status {response.status_code}")
        raise error_ or Unavailable(f"{address} answered with status {response.status_code}, so it is no owner of ours")

    async def publish(self, address: str, place: Place, position: int) -> int:
        asked = msgspec.json.encode(SyncCompact(place.log, str(position)))
        request = self._request("POST", address, place, "/sync-compact", asked, PUBLISH)
        try:
            response = await self._client.send(request)
            if response.status_code == 200:
                return parse_position(msgspec.json.decode(response.content, type=Covered).position)
        except (httpx.HTTPError, Invalid, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _unreachable(address, error) from error
        raise _refusal(address, response) or Unavailable(f"{address} answered with status {response.status_code}")

    async def beat(self, address: str, place: Place, attempts: Sequence[Callback]) -> list[Beat]:
        """Pass signs of life on to the process that leads the log."""
        body = msgspec.json.encode(Beats(tuple(attempts)))
        request = self._request("POST", address, place, "/work/beats", body, BEAT)
        request.headers[RELAYED] = "1"
        try:
            response = await self._client.send(request)
            if response.status_code == 200:
                return list(msgspec.json.decode(response.content, type=Heard).beats)
        except (httpx.HTTPError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _unreachable(address, error) from error
        raise _refusal(address, response) or Unavailable(f"{address} answered with status {response.status_code}")

    async def segments(self, address: str, place: Place) -> AsyncGenerator[tuple[int, bytes], None]:
        request = self._request("GET", address, place, f"/logs/{place.log}/segments", b"", 3 * HEARTBEAT)
        try:
            response = await self._client.send(request, stream=True)
            try:
                if response.status_code != 200:
                    await response.aread()
                    raise _refusal(address, response) or Unavailable(f"{address} answered {response.status_code}")
                async for frame in unpack_frames(response.aiter_raw()):
                    yield frame
            finally:
                await response.aclose()
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _unreachable(address, error) from error

    def _request(
        self, method: str, address: str, place: Place, path: str, body: bytes, seconds: float
    ) -> httpx.Request:
        if not is_http(address):
            raise Unavailable(f"{address} can only be reached in its own process")
        target = "/internal/{}/{}{}?incarnation={}".format(
            quote(place.tenant, safe=""), quote(place.workspace, safe=""), path, quote(place.incarnation, safe="")
        )
        headers = {"content-type": "application/json", **self._identity.headers(method, target, body)}
        timeout = httpx.Timeout(seconds, connect=CONNECT, pool=CONNECT)
        try:
            return self._client.build_request(
                method, address.rstrip("/") + target, content=body, headers=headers, timeout=timeout
            )
        except httpx.InvalidURL as error:
            raise _unreachable(address, error) from error


def _refusal(address: str, response: httpx.Response) -> ArcoError | None:
    """The error that was raised there; None if the answer is not one of ours."""
    error = unpack_error(response.content)
    if isinstance(error, Unauthenticated):
        return Unauthenticated(
            f"{address} does not accept this process: ARCO_SERVICE_SECRET is missing or another one there, or it does "
            "not serve this workspace; give all processes of the deployment the same secret"
        )
    return error


def _unreachable(address: str, error: Exception) -> Unavailable:
    return Unavailable(f"{address} cannot be reached: {str(error) or type(error).__name__}")


def _unsettled(address: str, command: Command, reason: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{address} may have taken operation {command.operation} and did not answer: {reason}",
        operation=command.operation,
    )
