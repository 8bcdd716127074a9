"""Signed URLs for objects on local disk, which has no server of its own to sign for: the API serves them.

A signed URL reads one object until a time. Its signature is an HMAC over the method, the object's full path (tenant and
workspace come first in it) and the expiry, so that none of them can be changed. `parse_range` reads the `Range` header
the API answers such URLs with.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from arco.core import SECOND, Clock, Forbidden, Invalid, format_time
from arco.storage._store import check_path

__all__ = ["MAX_SIGNED_SECONDS", "LocalSigner", "check_expiry", "parse_range", "sign_local", "verify_local"]

MAX_SIGNED_SECONDS = 7 * 86_400
"""What S3 allows at most; the same everywhere."""

MIN_SECRET = 32


@dataclass(frozen=True, slots=True)
class LocalSigner:
    """What a `LocalStore` needs to sign: the secret it shares with the API, the API's URL, and the time."""

    secret: bytes = field(repr=False)
    base_url: str
    clock: Clock = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) < MIN_SECRET:
            raise Invalid(f"a signing secret needs at least {MIN_SECRET} bytes; make one with `openssl rand -hex 32`")
        if urlsplit(self.base_url).scheme not in ("http", "https"):
            raise Invalid("the URL that serves signed objects must start with http:// or https://")

    def sign(self, path: str, expires_in: int) -> str:
        return sign_local(self.secret, self.base_url, path, self.clock.now() + check_expiry(expires_in) * SECOND)


def check_expiry(seconds: int) -> int:
    """The seconds themselves if a signed URL may live so long, else `Invalid`."""
    if not 1 <= seconds <= MAX_SIGNED_SECONDS:
        raise Invalid(f"a signed URL lives 1 to {MAX_SIGNED_SECONDS} seconds, not {seconds}")
    return seconds


def sign_local(secret: bytes, base_url: str, path: str, expires_at: int, method: str = "GET") -> str:
    """A URL below `base_url` that reads `path` until `expires_at`, in microseconds since 1970."""
    signature = _signature(secret, method, check_path(path), expires_at)
    return f"{base_url.rstrip('/')}/{quote(path)}?expires={expires_at}&signature={signature}"


def verify_local(secret: bytes, base_url: str, url: str, now: int, method: str = "GET") -> str:
    """The path that a signed URL reads. `Forbidden` if it is not exactly what was signed, or has expired.

    Only the path and query of `url` count: a proxy may serve the API under another host.
    """
    refused = Forbidden("this signed URL is not valid; ask for a new one")
    parts = urlsplit(url)
    start = urlsplit(base_url).path.rstrip("/") + "/"
    query = parse_qsl(parts.query, keep_blank_values=True)
    values = dict(query)
    expires = values.get("expires", "")
    if not parts.path.startswith(start) or len(query) != 2 or not (expires.isascii() and expires.isdigit()):
        raise refused
    try:
        path = check_path(unquote(parts.path[len(start) :]))
    except Invalid:
        raise refused from None
    expected = _signature(secret, method, path, int(expires))
    # bytes, since compare_digest refuses texts beyond ASCII
    if not hmac.compare_digest(expected.encode(), values.get("signature", "").encode()):
        raise refused
    if now >= int(expires):
        raise Forbidden(f"this signed URL expired at {format_time(int(expires))}; ask for a new one")
    return path


def parse_range(header: str | None, size: int) -> tuple[int, int]:
    """(offset, length) that a `Range` header asks of an object of `size` bytes; all of it without a header.

    One range only: `bytes=a-b`, `bytes=a-`, `bytes=-n`. Anything else, or a range that starts past the end, is
    `Invalid`: the answer is 416.
    """
    if header is None:
        return 0, size
    unit, _, text = header.strip().partition("=")
    first, dash, last = text.strip().partition("-")
    digits = first + last
    if unit.strip().lower() != "bytes" or not dash or not (digits.isascii() and digits.isdigit()):
        raise Invalid(f"cannot serve the range {header!r}; ask for one range such as bytes=0-99")
    if first:
        offset, end = int(first), min(int(last) + 1 if last else size, size)
    else:
        offset, end = max(size - int(last), 0), size
    if offset >= end:
        raise Invalid(f"the range {header!r} selects nothing of {size} bytes")
    return offset, end - offset


def _signature(secret: bytes, method: str, path: str, expires_at: int) -> str:
    text = f"arco-signed-url-1\n{method.upper()}\n{path}\n{expires_at}"
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()
