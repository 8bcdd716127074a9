"""Callback tokens: what a worker shows when it speaks of an attempt.

A token holds for one attempt of one workspace until it expires, and for nothing else. It is made from the secret of the
deployment and kept nowhere: whoever has the secret can check it.
"""

import hashlib
import hmac
import re
from typing import Final

from arco.core import Unauthenticated, derive_secret

__all__ = ["callback_token", "check_callback"]

_TOKEN: Final = re.compile(r"cb1\.([0-9]{1,18})\.([0-9a-f]{64})", re.ASCII)


def callback_token(secret: bytes, tenant: str, workspace: str, attempt_id: str, expires_at: int) -> str:
    """The token of an attempt, good until `expires_at` (microseconds)."""
    return f"cb1.{expires_at}.{_sign(secret, tenant, workspace, attempt_id, expires_at)}"


def check_callback(secret: bytes, token: str, tenant: str, workspace: str, attempt_id: str, now: int) -> None:
    """`Unauthenticated` unless the token is that of this attempt and still good; it does not say what was wrong."""
    match = _TOKEN.fullmatch(token)
    expires_at, given = (int(match[1]), match[2]) if match else (0, "")
    expected = _sign(secret, tenant, workspace, attempt_id, expires_at)
    if not hmac.compare_digest(given, expected) or now >= expires_at:
        raise Unauthenticated("this callback carries no valid token of the attempt; send the one of its envelope")


def _sign(secret: bytes, tenant: str, workspace: str, attempt_id: str, expires_at: int) -> str:
    key = derive_secret(secret, "callback")
    text = "\n".join((tenant, workspace, attempt_id, str(expires_at)))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
