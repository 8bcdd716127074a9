"""How clients reach a table's files: new credentials, and signatures of their requests."""

from typing import Final

import msgspec
from starlette.responses import Response

from arco.api.iceberg._ask import Ask
from arco.api.iceberg._delegation import may_write, vended
from arco.iceberg import Unsupported, parse_sign, places_of

__all__ = ["ACCESS"]


async def load_credentials(ask: Ask) -> Response:
    warehouse = ask.warehouse
    loaded = await warehouse.tables.load(ask.path)
    found = []
    if warehouse.vendor is not None:
        given = await vended(ask, loaded, warehouse.vendor, write=may_write(ask, loaded))
        found = [{"prefix": one.prefix, "config": one.config} for one in given]
    body = msgspec.json.encode({"storage-credentials": found})
    return Response(body, headers={"Cache-Control": "no-store"}, media_type="application/json")


async def sign_request(ask: Ask) -> Response:
    warehouse = ask.warehouse
    request = parse_sign(await ask.json())
    loaded = await warehouse.tables.load(ask.path)
    if warehouse.signer is None:
        raise Unsupported(
            "the store of this warehouse takes no signed requests, or the server has no keys to sign with"
        )
    places = places_of(loaded.metadata, warehouse.locations)
    signed = warehouse.signer.sign(request, places, write=may_write(ask, loaded))
    headers = {"Cache-Control": "private" if signed.cacheable else "no-cache"}
    body = msgspec.json.encode({"uri": signed.uri, "headers": signed.headers})
    return Response(body, headers=headers, media_type="application/json")


_TABLE: Final = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
ACCESS: Final = {
    ("GET", f"{_TABLE}/credentials"): load_credentials,
    ("POST", f"{_TABLE}/sign"): sign_request,
}
"""Handlers by operation."""
