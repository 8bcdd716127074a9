"""AWS Signature Version 4 in the headers of a request, for S3 and STS. Pure: the time comes in.

What is signed is the method, the host, the path, the query, the headers named in `SignedHeaders` and the digest of the
body. Path and query come decoded and are encoded here by AWS's rules, so that the text that is signed and the URL that
is sent (`request_url`) are one.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote

__all__ = ["UNSIGNED", "Keys", "keys_from", "request_url", "sign_headers"]

UNSIGNED = "UNSIGNED-PAYLOAD"
"""Instead of a digest: S3 takes a body that was not signed."""

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Keys:
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


def keys_from(options: Mapping[str, str | bool], environ: Mapping[str, str]) -> Keys | None:
    """The keys a store is opened with: its options, else AWS's variables; never half of one and half of the other."""
    for source, names in (
        (options, ("access_key_id", "secret_access_key", "session_token")),
        (environ, ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")),
    ):
        key, secret, token = (str(source.get(name, "")) for name in names)
        if key and secret:
            return Keys(key, secret, token)
    return None


def request_url(base: str, path: str, query: Iterable[tuple[str, str]] = ()) -> str:
    """The URL of a decoded path and query, encoded as it is signed. `base` is scheme and host."""
    text = _query(query)
    return f"{base}{_path(path)}{'?' + text if text else ''}"


def sign_headers(
    method: str,
    host: str,
    path: str,
    query: Iterable[tuple[str, str]],
    headers: Mapping[str, str],
    digest: str,
    keys: Keys,
    region: str,
    service: str,
    now: int,
) -> dict[str, str]:
    """The headers to send besides `headers`: the signature, its time, the digest and the session's token.

    Every one of `headers` (lower-case names) is signed. `now` is in microseconds since 1970.
    """
    moment = datetime.fromtimestamp(now // 1_000_000, UTC).strftime("%Y%m%dT%H%M%SZ")
    added = {"x-amz-date": moment, "x-amz-content-sha256": digest}
    if keys.session_token:
        added["x-amz-security-token"] = keys.session_token
    signed = {name: " ".join(value.split()) for name, value in {**headers, **added, "host": host}.items()}
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    canonical = "\n".join([method, _path(path), _query(query), lines, names, digest])
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    text = "\n".join([_ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys.secret_access_key}".encode()
    for part in (moment[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    credential = f"Credential={keys.access_key_id}/{scope}"
    return {**added, "authorization": f"{_ALGORITHM} {credential}, SignedHeaders={names}, Signature={signature}"}


def _path(path: str) -> str:
    return quote(path, safe="/~") or "/"


def _query(query: Iterable[tuple[str, str]]) -> str:
    encoded = sorted((quote(name, safe="~"), quote(value, safe="~")) for name, value in query)
    return "&".join(f"{name}={value}" for name, value in encoded)
