"""The token endpoint, for clients that want to exchange a credential before they begin.

Iceberg deprecates it. It takes `client_credentials` and gives back the Arco key itself, if it is valid: a key is a
bearer token already. The key is the client's secret; or the client's id is the key without its last part
(`arco_{tenant}_{workspace}_{key id}`) and the secret is that part. Errors are OAuth's (RFC 6749, 5.2), not Iceberg's.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from typing import Final
from urllib.parse import parse_qsl, unquote_plus

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from arco.api._caller import by_token
from arco.api._host import Host
from arco.api._limits import bounded, check_length
from arco.core import Invalid, TooLarge, Unauthenticated

__all__ = ["issue_token"]

FORM_BYTES: Final = 16 << 10
_MAX_FIELDS: Final = 20
_GRANT: Final = "client_credentials"
_NO_STORE: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}


async def issue_token(host: Host, request: Request) -> Response:
    try:
        form = await _form(host, request)
    except TooLarge as error:
        return _refused(413, "invalid_request", error.message)
    except Invalid as error:
        return _refused(400, "invalid_request", error.message)
    grant = form.get("grant_type", "")
    if grant != _GRANT:
        text = f"only the grant type {_GRANT} is known here; Arco's keys do not expire in use and are not exchanged"
        return _refused(400, "unsupported_grant_type" if grant else "invalid_request", text)
    try:
        token = _token(form, request.headers.get("authorization", ""))
        await by_token(host, token, request.scope)
    except Unauthenticated as error:
        return _refused(401, "invalid_client", error.message)
    answer = {
        "access_token": token,
        "token_type": "bearer",
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }
    return Response(msgspec.json.encode(answer), 200, _NO_STORE, "application/json")


async def _form(host: Host, request: Request) -> dict[str, str]:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise Invalid("the body is not a form; send it as application/x-www-form-urlencoded")
    check_length(dict(request.scope["headers"]), FORM_BYTES)
    body = await Request(request.scope, bounded(request.receive, FORM_BYTES, host.runtime)).body()
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:  # a decoding error is one too
        raise Invalid("the body is not a form") from None
    if len(dict(pairs)) != len(pairs):
        raise Invalid("a field of the form is given more than once; send one value")
    return dict(pairs)


def _token(form: dict[str, str], header: str) -> str:
    """The Arco key in what the client calls its id and its secret, of the form or of the header (Basic)."""
    name, secret = form.get("client_id", ""), form.get("client_secret", "")
    scheme, _, encoded = header.partition(" ")
    if not secret and scheme.lower() == "basic":
        try:
            name, _, secret = b64decode(encoded, validate=True).decode("ascii").partition(":")
        except (Base64Error, UnicodeDecodeError):
            raise Unauthenticated("the credentials of the Authorization header cannot be read") from None
        name, secret = unquote_plus(name), unquote_plus(secret)
    return secret if secret.startswith("arco_") else f"{name}_{secret}"


def _refused(status: int, error: str, description: str) -> Response:
    headers = {**_NO_STORE, **({"WWW-Authenticate": 'Basic realm="arco"'} if status == 401 else {})}
    body = msgspec.json.encode({"error": error, "error_description": description})
    return Response(body, status, headers, "application/json")
