"""A small Google Cloud Storage on loopback: as much of its XML API as obstore speaks, with its preconditions.

There is no emulator of it that obstore can use: those that exist check conditions of the JSON API only. This one
decides under a lock, as Google does. It knows

- `x-goog-if-generation-match: 0`, and generations that never repeat;
- tokens (JSON Web Tokens that a service account's key signed) and V4 signed URLs, both really verified;
- pages of listings, ranges, 404 of objects and buckets;
- one write a second of one name (`limit`), and answers that a test asks for (`fail`), before or after they took effect.

Built from Google's documentation, not compared with the service: `tests/storage/test_real_buckets.py` does that.
"""

import base64
import contextlib
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from arco.core import Invalid
from arco.storage import parse_range

__all__ = ["EMAIL", "HOST", "FakeGcs", "run_gcs_server"]

EMAIL = "arco@test.iam.gserviceaccount.com"
HOST = "storage.googleapis.com"
"""What browsers call it; signatures hold for this name."""


@dataclass
class _Object:
    data: bytes
    generation: int
    modified: float


@dataclass
class _Answer:
    """What a test wants to be answered: `times` more requests of a method."""

    method: str
    status: int
    times: int
    applied: bool


@dataclass
class FakeGcs:
    """Buckets and what was asked of them."""

    page: int = 1000
    limit: float = 0.0
    """Seconds that must lie between two writes of one name; Google has 1."""
    buckets: dict[str, dict[str, _Object]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)
    port: int = 0
    _answers: list[_Answer] = field(default_factory=list)
    _written: dict[tuple[str, str], float] = field(default_factory=dict)
    _generation: int = 1_700_000_000_000_000

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def service_account_key(self) -> str:
        pem = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        fields = {"client_email": EMAIL, "private_key": pem.decode(), "private_key_id": "k1"}
        return json.dumps({"type": "service_account", **fields})

    def fail(self, method: str, status: int, *, times: int = 1, applied: bool = False) -> None:
        """Answer the next requests of a method so. With `applied` they take effect first; status 0 hangs up."""
        self._answers.append(_Answer(method, status, times, applied))

    def asked_for(self, method: str) -> _Answer | None:
        with self.lock:
            for answer in self._answers:
                if answer.method == method and answer.times:
                    answer.times -= 1
                    return answer
        return None

    def is_too_fast(self, bucket: str, name: str) -> bool:
        """Call with the lock held."""
        last = self._written.get((bucket, name))
        return bool(self.limit) and last is not None and time.monotonic() - last < self.limit

    def put(self, bucket: str, name: str, data: bytes) -> int:
        """Call with the lock held."""
        self._generation += 1
        self.buckets[bucket][name] = _Object(data, self._generation, time.time())
        self._written[bucket, name] = time.monotonic()
        return self._generation

    def verify(self, data: bytes, signature: bytes) -> bool:
        try:
            self.key.public_key().verify(signature, data, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return False
        return True


@contextlib.contextmanager
def run_gcs_server(fake: FakeGcs) -> Iterator[FakeGcs]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.fake = fake
    fake.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    fake: FakeGcs


class _Refused(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._handle()

    def do_HEAD(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def _handle(self) -> None:
        fake = self.server.fake
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        fake.requests[self.command] += 1
        parts = urlsplit(self.path)
        bucket, _, name = parts.path.lstrip("/").partition("/")
        bucket, name = unquote(bucket), unquote(name)
        wanted = fake.asked_for(self.command)
        try:
            if wanted and not wanted.applied:
                raise _Refused(wanted.status, "Asked")
            self._check_access(fake)
            status, data, headers = self._serve(fake, bucket, name, parse_qs(parts.query), body)
            if wanted:
                raise _Refused(wanted.status, "Asked")
        except _Refused as refused:
            if refused.status == 0:
                self.close_connection = True
                return
            status, headers = refused.status, {"Content-Type": "application/xml"}
            data = f"<?xml version='1.0'?><Error><Code>{refused.code}</Code><Message>no</Message></Error>".encode()
        self._answer(status, data, headers)

    def _serve(
        self, fake: FakeGcs, bucket: str, name: str, query: dict[str, list[str]], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        with fake.lock:
            if bucket not in fake.buckets:
                raise _Refused(404, "NoSuchBucket")
            objects = fake.buckets[bucket]
            if not name:
                return 200, _listing(objects, query, fake.page), {"Content-Type": "application/xml"}
            found = objects.get(name)
            if self.command == "PUT":
                return self._put(fake, bucket, name, found, body)
            if found is None:
                raise _Refused(404, "NoSuchKey")
            if self.command == "DELETE":
                if fake.is_too_fast(bucket, name):
                    raise _Refused(429, "SlowDown")
                del objects[name]
                return 204, b"", {}
        return self._get(found)

    def _put(
        self, fake: FakeGcs, bucket: str, name: str, found: _Object | None, body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        condition = self.headers.get("x-goog-if-generation-match")
        if fake.is_too_fast(bucket, name):
            raise _Refused(429, "SlowDown")
        if condition is not None and int(condition) != (found.generation if found else 0):
            raise _Refused(412, "PreconditionFailed")
        generation = fake.put(bucket, name, body)
        return 200, b"", {"ETag": f'"{generation}"', "x-goog-generation": str(generation)}

    def _get(self, found: _Object) -> tuple[int, bytes, dict[str, str]]:
        headers = {
            "ETag": f'"{found.generation}"',
            "x-goog-generation": str(found.generation),
            "Last-Modified": formatdate(found.modified, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        header = self.headers.get("Range")
        if header is None:
            return 200, found.data, headers
        try:
            offset, length = parse_range(header, len(found.data))
        except Invalid:
            raise _Refused(416, "InvalidRange") from None
        headers["Content-Range"] = f"bytes {offset}-{offset + length - 1}/{len(found.data)}"
        return 206, found.data[offset : offset + length], headers

    def _check_access(self, fake: FakeGcs) -> None:
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        if kind == "Bearer":
            self._check_token(fake, token)
        elif "X-Goog-Signature" in self.path:
            self._check_signature(fake)
        else:
            raise _Refused(401, "AuthenticationRequired")

    def _check_token(self, fake: FakeGcs, token: str) -> None:
        text, _, signature = token.rpartition(".")
        if not text or not fake.verify(text.encode(), _unbase64(signature)):
            raise _Refused(401, "AuthenticationRequired")
        claims = json.loads(_unbase64(text.partition(".")[2]))
        if claims["iss"] != EMAIL or claims["exp"] < time.time():
            raise _Refused(401, "AuthenticationRequired")

    def _check_signature(self, fake: FakeGcs) -> None:
        """V4. A URL that was signed for GET is good for HEAD too."""
        parts = urlsplit(self.path)
        fields = dict(parse_qsl(parts.query))
        signature = bytes.fromhex(fields.pop("X-Goog-Signature"))
        method = "GET" if self.command == "HEAD" else self.command
        query = urlencode(sorted(fields.items()), quote_via=quote, safe="")
        host = self.headers.get("Host", "")
        canonical = f"{method}\n{parts.path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
        scope = fields["X-Goog-Credential"].partition("/")[2]
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"GOOG4-RSA-SHA256\n{fields['X-Goog-Date']}\n{scope}\n{digest}"
        if not fake.verify(text.encode(), signature):
            raise _Refused(403, "SignatureDoesNotMatch")
        begin = datetime.strptime(fields["X-Goog-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if datetime.now(UTC) >= begin + timedelta(seconds=int(fields["X-Goog-Expires"])):
            raise _Refused(400, "ExpiredToken")

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Silence."""


def _listing(objects: dict[str, _Object], query: dict[str, list[str]], page: int) -> bytes:
    """One page of `list-type=2`. Times have milliseconds here, and seconds in headers."""
    prefix, after = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
    names = [name for name in sorted(objects) if name.startswith(prefix) and name > after]
    rows = "".join(
        f"<Contents><Key>{escape(name)}</Key><Generation>{objects[name].generation}</Generation>"
        f"<LastModified>{_moment(objects[name].modified)}</LastModified><ETag>{objects[name].generation}</ETag>"
        f"<Size>{len(objects[name].data)}</Size></Contents>"
        for name in names[:page]
    )
    more = f"<NextContinuationToken>{escape(names[page - 1])}</NextContinuationToken>" if len(names) > page else ""
    cut = "true" if more else "false"
    return f"<ListBucketResult><IsTruncated>{cut}</IsTruncated>{more}{rows}</ListBucketResult>".encode()


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _unbase64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
