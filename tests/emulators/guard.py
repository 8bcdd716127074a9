"""A guard before an emulator of S3: every access key may do what its policy document says, as on the real one.

The emulator itself lets everybody do everything. A session that STS makes may do what the policy says that it was asked
for with. Signatures are not checked, so this is a proof about programs that behave, not against those that forge keys.
What is denied is told to the file `denied`, a JSON document a line.
"""

import io
import json
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.emulators.policies import evaluate

__all__ = ["Guard"]

Asked = tuple[str, str, dict[str, str]]
"""An action, what it is done to, and what conditions may ask about."""


class Guard:
    """A WSGI application. `folder` holds `policies.json`, by access key; null there is everything."""

    def __init__(self, inner: Callable[..., Iterable[bytes]], folder: Path) -> None:
        self._inner = inner
        self._folder = folder
        self._lock = threading.Lock()
        self._sessions: dict[str, Any] = {}
        """Policies of sessions, by access key."""

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        key = access_key(environ)
        policies = {**self._sessions, **json.loads((self._folder / "policies.json").read_text())}
        if environ["REQUEST_METHOD"] == "POST" and environ["PATH_INFO"] == "/" and policies.get(key, "") is None:
            return self._assume(environ, start)
        wanted = [] if key in policies and policies[key] is None else asked(environ)
        policy = policies.get(key) or {"Statement": []}
        denied = [one for one in wanted if not evaluate(policy, *one)]
        if not denied:
            return self._inner(environ, start)
        with self._lock, (self._folder / "denied").open("a") as file:
            file.writelines(json.dumps({"key": key, "action": one[0], "resource": one[1]}) + "\n" for one in denied)
        _drain(environ)
        body = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>the guard says no</Message></Error>'
        start("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _assume(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """A request to STS: the session it makes gets the policy it was asked for with."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        answer = b"".join(self._inner(environ, start))
        policy = urllib.parse.parse_qs(body.decode()).get("Policy")
        made = re.search(rb"<AccessKeyId>([^<]+)</AccessKeyId>", answer)
        if policy and made:
            self._sessions[made[1].decode()] = json.loads(policy[0])
        return [answer]


def access_key(environ: dict[str, Any]) -> str:
    query = urllib.parse.parse_qs(environ.get("QUERY_STRING", ""))
    text = environ.get("HTTP_AUTHORIZATION", "") or f"Credential={query.get('X-Amz-Credential', [''])[0]}"
    found = re.search(r"Credential=([^/,\s]+)", text)
    return found[1] if found else ""


def asked(environ: dict[str, Any]) -> list[Asked]:
    """What a request wants to do. Buckets are named in the path."""
    method = environ["REQUEST_METHOD"]
    query = dict(urllib.parse.parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    bucket, _, name = environ["PATH_INFO"].encode("latin-1").decode().lstrip("/").partition("/")
    where = f"arn:aws:s3:::{bucket}"
    if not name:
        if method == "POST" and "delete" in query:
            return [("s3:DeleteObject", f"{where}/{key}", {}) for key in _deleted(environ)]
        if method in ("GET", "HEAD") and not set(query) & {"acl", "policy", "uploads", "versioning"}:
            return [("s3:ListBucket", where, {"s3:prefix": query["prefix"]} if "prefix" in query else {})]
        return [(f"s3:{method} of a bucket", where, {})]
    thing = f"{where}/{name}"
    if method in ("GET", "HEAD"):
        signed = "X-Amz-Signature" in query
        return [("s3:GetObject", thing, {"s3:authType": "REST-QUERY-STRING" if signed else "REST-HEADER"})]
    if method == "DELETE":
        return [("s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject", thing, {})]
    condition = environ.get("HTTP_IF_NONE_MATCH")
    put: Asked = ("s3:PutObject", thing, {"s3:if-none-match": condition} if condition else {})
    source = urllib.parse.unquote(environ.get("HTTP_X_AMZ_COPY_SOURCE", "")).lstrip("/")
    return [put, ("s3:GetObject", f"arn:aws:s3:::{source}", {})] if source else [put]


def _deleted(environ: dict[str, Any]) -> list[str]:
    """The keys in the body of a delete of many, which is then there to be read again."""
    import xml.etree.ElementTree as Tree

    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return [element.text or "" for element in Tree.fromstring(body).iter() if element.tag.rpartition("}")[2] == "Key"]


def _drain(environ: dict[str, Any]) -> None:
    """Read what is sent along, or the next request on this connection begins in the middle of it."""
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
