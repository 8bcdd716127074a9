"""`HttpControlPlane`: a server of the workspace as a worker's control plane. The other end is `arco.api._work`.

Calls carry the service identity of the deployment and, where they speak of attempts, the callback token of each.
Nothing is repeated here: the worker knows what may be.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import httpx
import msgspec

from arco.core import ArcoError, Runtime, ServiceIdentity, Unauthenticated, Unavailable
from arco.log import Place
from arco.servo import (
    Beat,
    Beats,
    Callback,
    Claimed,
    Claims,
    Ended,
    Envelope,
    Finished,
    Heard,
    Progress,
    Results,
    Session,
)
from arco.wire import unpack_error
from arco.worker._control import Told

__all__ = ["HttpControlPlane"]

CONNECT: Final = 2.0
ANSWER: Final = 30.0
CODE_SECONDS: Final = 300.0


class HttpControlPlane:
    """Implements `ControlPlane`."""

    def __init__(
        self,
        url: str,
        place: Place,
        identity: ServiceIdentity,
        runtime: Runtime,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        """`place` names tenant, workspace and incarnation."""
        self._url = url.rstrip("/")
        self._place = place
        self._identity = identity
        self._runtime = runtime
        self._worker, self._session = "", ""
        # Idle connections go before the server closes them, as between servers.
        self._client = client or httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=20.0),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def open_session(self, worker: str, session: str) -> None:
        self._worker, self._session = worker, session
        await self._call("POST", "/work/sessions", Session(worker, session), ANSWER)

    async def claim(self, slots: int, wait_seconds: float) -> list[bytes]:
        asked = Claims(self._worker, self._session, slots, wait_seconds)
        return _finished(await self._call("POST", "/work/claims", asked, wait_seconds + ANSWER)).envelopes

    async def heartbeat(self, envelopes: Sequence[Envelope], progress: Progress | None = None) -> Sequence[Beat]:
        alive = Beats(tuple(Callback(one.attempt_id, one.callback_token, progress) for one in envelopes))
        return msgspec.json.decode(await self._call("POST", "/work/beats", alive, ANSWER), type=Heard).beats

    async def finish(self, told: Sequence[Told], claim: int) -> Finished:
        ended = tuple(Ended(envelope.callback_token, result) for envelope, result in told)
        results = Results(self._worker, self._session, ended, claim)
        return _finished(await self._call("POST", "/work/results", results, ANSWER, told[0][0].traceparent))

    async def code(self, sha256: str) -> bytes:
        return await self._call("GET", f"/code/{quote(sha256, safe='')}", None, CODE_SECONDS)

    async def _call(self, method: str, path: str, body: object, seconds: float, traceparent: str = "") -> bytes:
        place = self._place
        target = "/internal/{}/{}{}?incarnation={}".format(
            quote(place.tenant, safe=""), quote(place.workspace, safe=""), path, quote(place.incarnation, safe="")
        )
        data = msgspec.json.encode(body) if body is not None else b""
        headers = {"content-type": "application/json", **self._identity.headers(method, target, data)}
        if traceparent:
            headers["traceparent"] = traceparent
        try:
            response = await self._client.request(
                method,
                self._url + target,
                content=data,
                headers=headers,
                timeout=httpx.Timeout(seconds, connect=CONNECT, pool=CONNECT),
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"{self._url} cannot be reached: {str(error) or type(error).__name__}") from error
        if response.is_success:
            return response.content
        raise self._refusal(response)

    def _refusal(self, response: httpx.Response) -> ArcoError:
        error = unpack_error(response.content)
        if isinstance(error, Unauthenticated):
            return Unauthenticated(
                f"{self._url} does not accept this worker: {error.message}; give both the same ARCO_SERVICE_SECRET"
            )
        return error or Unavailable(f"{self._url} answered with status {response.status_code}")


def _finished(body: bytes) -> Finished:
    found = msgspec.json.decode(body, type=Claimed)
    refused = {refusal.attempt_id: refusal.raised for refusal in found.refused}
    return Finished([envelope.encode() for envelope in found.envelopes], refused)
