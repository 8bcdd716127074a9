"""`Caller`: who asks, in which workspace, and with which role. Found before anything else of a request is looked at.

A token is `arco_{tenant}_{workspace}_{key id}_{secret}`. It is good for the workspace it names and no other. A token
that is malformed, of another workspace, unknown, revoked or expired is answered alike. Keys are read from the replica,
which is never more than a few seconds old.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request

from arco.api._host import Door, Host
from arco.api._permissions import Permission, allowed
from arco.api._uses import WORKSPACE, uses_of
from arco.core import Forbidden, NotFound, Runtime, Unauthenticated, parse_ulid
from arco.domains.access import API_KEYS, ROLE_BINDINGS, UserRole
from arco.runtime import Workspace
from arco.storage import Scope

__all__ = ["ASKED", "Caller", "authenticate", "authorize", "by_token", "format_token", "new_secret"]

ASKED: Final = "arco.scope"
"""Where a request carries the workspace it was let into."""

# Scope names and ids are matched whole: what is malformed must not be told from what is unknown.
_SCOPE: Final = "([a-z0-9][a-z0-9-]{0,62})"
_TOKEN: Final = re.compile(rf"arco_{_SCOPE}_{_SCOPE}_([0-7][0-9A-HJKMNP-TV-Z]{{25}})_([A-Za-z0-9_-]{{43}})")
_NOBODY: Final = "Bearer None"
"""What PyIceberg sends when it was given no token."""

_FORWARDED: Final = frozenset(
    {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
)
_LOOPBACK: Final = re.compile(r"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]{1,5})?")


@dataclass(frozen=True)
class Caller:
    workspace: Workspace
    actor: str
    role: UserRole
    request_id: str
    traceparent: str
    bucket: str
    """Whose requests are counted together for the rate limit."""
    position: int = -1
    """Of the catalog before it was asked who this is; -1 if it was not asked."""
    expires_at: int | None = None
    """When the key ends; None if it does not, or if there is none."""

    @property
    def scope(self) -> Scope:
        return self.workspace.scope


def new_secret(runtime: Runtime) -> tuple[str, str]:
    """A fresh secret as text, and the hash that is all the log will know of it."""
    secret = base64.urlsafe_b64encode(runtime.bytes(32)).rstrip(b"=").decode()
    return secret, hash_secret(secret)


def hash_secret(secret: str) -> str:
    """256 bits of chance need no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def format_token(scope: Scope, key_id: str, secret: str) -> str:
    return f"arco_{scope.tenant}_{scope.workspace}_{key_id}_{secret}"


async def authenticate(host: Host, request: Request) -> Caller:
    """Who asks, or `Unauthenticated`."""
    caller = await _authenticate(host, request)
    request.scope[ASKED] = caller.scope
    return caller


async def _authenticate(host: Host, request: Request) -> Caller:
    headers: dict[bytes, bytes] = dict(request.scope["headers"])
    given = headers.get(b"authorization")
    header = None if given is None else given.decode("latin-1")
    if header == _NOBODY:
        header = None
    request_id = str(request.scope.get("arco.request_id", ""))
    traceparent = headers.get(b"traceparent", b"")[:128].decode("latin-1")
    if header is None and host.door is not Door.KEYS:
        if host.door is Door.DEVELOPMENT:
            _check_own_page(headers)
        workspace = await host.find(host.default, request.scope)
        if workspace is None:
            raise host.lost(host.default) or NotFound(
                f"there is no workspace {host.default.root} here; send a key of one that there is"
            )
        uses_of(request.scope).accept()
        request.scope[WORKSPACE] = workspace.scope.root
        position = workspace.logs["catalog"].replica.watermark
        return Caller(workspace, host.actor, UserRole.OWNER, request_id, traceparent, host.actor, position)
    if header is None:
        raise Unauthenticated("this server wants a key, and the request carries none")
    scheme, _, token = header.partition(" ")
    token = token.strip() if scheme.lower() == "bearer" else ""
    return await by_token(host, token, request.scope, request_id, traceparent)


async def by_token(
    host: Host, token: str, asgi: MutableMapping[str, Any], request_id: str = "", traceparent: str = ""
) -> Caller:
    """Who has this token, or `Unauthenticated`. `asgi` is the request, which holds the workspace open."""
    found = _TOKEN.fullmatch(token)
    refused = Unauthenticated("this key is not valid here: unknown, revoked, expired, or of another workspace")
    workspace = await host.find(Scope(found[1], found[2]), asgi) if found else None
    if found is None or workspace is None:
        raise refused
    caller = await _by_key(workspace, parse_ulid(found[3]), found[4], refused, request_id, traceparent)
    uses_of(asgi).accept()
    asgi[WORKSPACE] = workspace.scope.root
    return caller


async def _by_key(
    workspace: Workspace, key_id: str, secret: str, refused: Unauthenticated, request_id: str, traceparent: str
) -> Caller:
    opened = workspace.logs["catalog"]
    await opened.current(strong=False)  # so that a key revoked elsewhere is known here within the bound
    replica = opened.replica
    position = replica.watermark
    key = await replica.get(API_KEYS, key_id, key_id)
    expected = key.secret_hash if key is not None else hash_secret("")
    if not hmac.compare_digest(hash_secret(secret), expected) or key is None or key.revoked_at is not None:
        raise refused
    if key.expires_at is not None and key.expires_at <= workspace.runtime.now():
        raise refused
    role = key.role
    if role is None:
        binding = await replica.get(ROLE_BINDINGS, key.principal, key.principal)
        if binding is None:
            raise refused
        role = binding.role
    actor = f"{key.principal or key.name}/{key_id}"
    return Caller(workspace, actor, UserRole(role), request_id, traceparent, key_id, position, key.expires_at)


def _check_own_page(headers: Mapping[bytes, bytes]) -> None:
    """Without a key the browser is the danger: a page of somebody else may ask a loopback address in its user's name.

    Such a request names the page's origin, or reaches us under a name that was made to point here.
    """
    if not _FORWARDED.isdisjoint(headers):
        raise Unauthenticated(
            "in development mode this server answers nobody behind a proxy; start it with --require-keys"
        )
    host, origin = headers.get(b"host", b"").decode("latin-1"), headers.get(b"origin")
    if _LOOPBACK.fullmatch(host) is None:
        raise Unauthenticated("in development mode this server answers only to a loopback name such as localhost")
    if origin is not None and origin.decode("latin-1").partition("://")[2] != host:
        raise Unauthenticated("in development mode this server answers no pages of other origins")


def authorize(caller: Caller, permission: Permission | None) -> None:
    if not allowed(caller.role, permission):
        raise Forbidden(
            f"the role {caller.role} may not do that; it needs the permission {permission}",
            permission=str(permission),
            role=caller.role.value,
        )
