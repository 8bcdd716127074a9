"""Signed URLs of local disk, which has no server of its own: this process serves the objects they name.

The URL is the whole right: its signature covers tenant, workspace, path and expiry. Ranges are answered as a bucket
would, since readers of Parquet ask for the end of a file first.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from arco.api._host import Host
from arco.api._problems import problem_response
from arco.core import ArcoError, Forbidden, Invalid, NotFound
from arco.storage import ObjectMissing, Scope, parse_range, verify_local

__all__ = ["object_route"]

# Numbers of more digits than any real one has are not even read.
MAX_QUERY = 512
MAX_RANGE = 128


def object_route(host: Host) -> Route:
    async def serve(request: Request) -> Response:
        try:
            return await _serve(host, request)
        except ArcoError as error:
            return problem_response(error, str(request.scope.get("arco.request_id", "")))

    return Route("/objects/{path:path}", serve, methods=["GET", "HEAD"], include_in_schema=False)


async def _serve(host: Host, request: Request) -> Response:
    refused = Forbidden("this signed URL is not valid; ask for a new one")
    if host.signing is None or len(request.url.query) > MAX_QUERY:
        raise refused
    secret, base_url = host.signing
    raw = request.scope.get("raw_path", b"").decode("latin-1") or request.url.path
    path = verify_local(secret, base_url, f"{raw}?{request.url.query}", host.runtime.now())
    tenant, workspace, rest = [*path.split("/", 2), "", ""][:3]
    store = host.reader_of(Scope(tenant, workspace)) if rest else None
    if store is None:
        raise refused
    headers = {"Accept-Ranges": "bytes", "Cache-Control": "private, max-age=300", "Vary": "Origin"}
    try:
        size = (await store.head(rest)).size
        wanted = request.headers.get("range")
        try:
            offset, length = parse_range(wanted[:MAX_RANGE] if wanted is not None else None, size)
        except Invalid:
            return Response(status_code=416, headers={"Content-Range": f"bytes */{size}"})
        if wanted is not None:
            headers["Content-Range"] = f"bytes {offset}-{offset + length - 1}/{size}"
        headers["Content-Length"] = str(length)
        body = b"" if request.method == "HEAD" else await store.get_range(rest, offset, length)
    except ObjectMissing:
        raise NotFound("this object is not there any more; ask for new URLs") from None
    status = 206 if wanted is not None else 200
    return Response(body, status, headers, media_type="application/octet-stream")
