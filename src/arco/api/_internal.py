"""`/internal/*`: what processes of one deployment ask of each other. Not part of the public API.

    POST /internal/{tenant}/{workspace}/logs/{log}/commands      a forwarded command -> its receipt
    GET  /internal/{tenant}/{workspace}/logs/{log}/segments      won segments, as frames, until one side ends it
    POST /internal/{tenant}/{workspace}/sync-compact             wait until a revision covers a position

Every call names the incarnation it means (`?incarnation=`) and carries a service identity. A bad identity and a
workspace that is not served here get the same answer, and no store is asked. One that is served and not open is opened
for workers only: a process that asks for the owner of a log hears that it is not here, and takes its place.

Errors travel as `{name, message, details}` and become the same class on the other side. A frame is the segment's number
(8 bytes), the length (4 bytes) and so many bytes; length 0 is a sign of life that says how far the owner's log goes.
"""

import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Final, Protocol

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from arco.core import (
    ArcoError,
    Conflict,
    Corrupt,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    RateLimited,
    Refused,
    Runtime,
    ServiceIdentity,
    StoreRefused,
    Superseded,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from arco.log import MAX_SEGMENT_BYTES, Command, parse_position
from arco.runtime import OpenLog, Workspace
from arco.wire import pack_error

__all__ = [
    "BASE",
    "HEARTBEAT",
    "MAX_BODY_BYTES",
    "Admit",
    "Covered",
    "SyncCompact",
    "answering",
    "decode_body",
    "door_of",
    "encode_error",
    "internal_routes",
    "pack_frame",
    "unpack_frames",
]

HEARTBEAT: Final = 2.0
"""Seconds after which a silent stream shows that it lives."""

PATIENCE: Final = 30.0
"""Seconds for which a forwarded command is waited for; whoever sent it has gone by then."""

MAX_BODY_BYTES: Final = MAX_SEGMENT_BYTES + (1 << 20)
"""The largest command fits into a segment; the rest is what surrounds it."""

_FRAME: Final = struct.Struct(">QI")

BASE: Final = "/internal/{tenant}/{workspace}"

Find = Callable[[Request, bool], Awaitable[Workspace | None]]
Endpoint = Callable[[Request], Awaitable[Response]]


class Admit(Protocol):
    async def __call__(self, request: Request, *, opens: bool = False) -> tuple[Workspace, bytes]:
        """The workspace and the body of a call, or `Unauthenticated`. With `opens` it need not be open yet."""
        ...


class SyncCompact(msgspec.Struct, frozen=True):
    log: str
    position: str


class Covered(msgspec.Struct, frozen=True):
    revision: int
    position: str


# Errors


_STATUS: Final[tuple[tuple[type[ArcoError], int], ...]] = (
    # The first class that fits decides.
    (TooLarge, 413),
    (Invalid, 400),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (PreconditionFailed, 412),
    (Conflict, 409),
    (Refused, 422),
    (RateLimited, 429),
    (OutcomeUnknown, 504),
    (Unavailable, 503),
    (Superseded, 409),
    (StoreRefused, 502),
    (Corrupt, 500),
)


def encode_error(error: ArcoError) -> Response:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return Response(pack_error(error), status, media_type="application/json")


# Frames


def pack_frame(number: int, data: bytes = b"") -> bytes:
    return _FRAME.pack(number, len(data)) + data


async def unpack_frames(chunks: AsyncIterator[bytes]) -> AsyncGenerator[tuple[int, bytes], None]:
    """Numbers and bytes out of chunks that are cut anywhere; a frame larger than a segment ends it."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        while len(buffer) >= _FRAME.size:
            number, length = _FRAME.unpack_from(buffer)
            if length > MAX_SEGMENT_BYTES:
                raise Unavailable("the stream of segments holds a frame that is too large; it is not a stream of ours")
            end = _FRAME.size + length
            if len(buffer) < end:
                break
            data = bytes(buffer[_FRAME.size : end])
            del buffer[:end]
            yield number, data


# Routes


def door_of(find: Find, identity: ServiceIdentity | None) -> Admit:
    """Who lets calls in. `find` returns the workspace of a call, which it may open if told so.

    Without an identity nobody is let in.
    """

    async def admitted(request: Request, *, opens: bool = False) -> tuple[Workspace, bytes]:
        if identity is None:
            raise _stranger()
        path = request.scope["raw_path"].decode("ascii", "replace")
        query = request.scope["query_string"].decode("ascii", "replace")
        called = f"{path}?{query}" if query else path
        try:
            identity.verify_head(request.headers, request.method, called)  # a stranger's body is not even read
            body = await _body(request)
            identity.verify(request.headers, request.method, called, body)
        except Unauthenticated:
            raise _stranger() from None
        try:
            workspace = await find(request, opens)
        except Invalid:
            workspace = None  # what cannot be a name is the name of nothing
        if workspace is None:
            raise _stranger()
        if request.query_params.get("incarnation") != workspace.incarnation.id:
            raise Superseded("this process has another incarnation of the workspace open; reopen it")
        return workspace, body

    return admitted


def internal_routes(admitted: Admit, runtime: Runtime) -> list[Route]:
    """The routes, for the root of an application."""

    async def commands(request: Request) -> Response:
        workspace, body = await admitted(request)
        log = _log_of(workspace, request.path_params["log"])
        command = decode_body(body, Command)
        try:
            receipt = await runtime.timeout(PATIENCE, log.gateway.receive(command))
        except TimeoutError:
            raise OutcomeUnknown(
                f"operation {command.operation} was taken and is not settled yet", operation=command.operation
            ) from None
        return Response(msgspec.json.encode(receipt), media_type="application/json")

    async def segments(request: Request) -> Response:
        workspace, _ = await admitted(request)
        log = _log_of(workspace, request.path_params["log"])
        if not log.owning or log.stream.closed:
            raise Superseded(f"this process does not own the log {log.place.log}")
        return StreamingResponse(_frames(log, runtime), media_type="application/octet-stream")

    async def sync_compact(request: Request) -> Response:
        workspace, body = await admitted(request)
        asked = decode_body(body, SyncCompact)
        manifest = await _log_of(workspace, asked.log).publishing.publish_here(parse_position(asked.position))
        return Response(
            msgspec.json.encode(Covered(manifest.number, manifest.watermark)), media_type="application/json"
        )

    return [
        Route(f"{BASE}/logs/{{log}}/commands", answering(commands), methods=["POST"]),
        Route(f"{BASE}/logs/{{log}}/segments", answering(segments), methods=["GET"]),
        Route(f"{BASE}/sync-compact", answering(sync_compact), methods=["POST"]),
    ]


def answering(endpoint: Endpoint) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ArcoError as error:
            return encode_error(error)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it

    return answer


def _stranger() -> Unauthenticated:
    return Unauthenticated("this process does not accept the call: unknown service identity or workspace")


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise TooLarge(f"the body has more than {MAX_BODY_BYTES} bytes")
    return bytes(body)


def decode_body(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Invalid(f"the body is no {kind.__name__}: {error}") from error


def _log_of(workspace: Workspace, name: str) -> OpenLog:
    found = workspace.logs.get(name)
    if found is None:
        raise NotFound(f"there is no log {name!r}; there are {', '.join(sorted(workspace.logs))}")
    return found


async def _frames(log: OpenLog, runtime: Runtime) -> AsyncGenerator[bytes, None]:
    """What this process wins, as long as it owns the log; first of all how far the log goes."""
    subscription = log.stream.subscribe()
    try:
        yield pack_frame(log.follower.tail.number)
        while True:
            try:
                tail, data = await runtime.timeout(HEARTBEAT, subscription.next())
            except TimeoutError:
                if not log.owning:
                    return
                yield pack_frame(log.follower.tail.number)
                continue
            except Unavailable:
                return  # this process stops
            yield pack_frame(tail.number, data)
    finally:
        subscription.close()
