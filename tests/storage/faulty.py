"""A tiny S3 on loopback that breaks one promise, so that our answers to broken servers can be tested for real."""

import contextlib
import threading
import time
from collections.abc import Iterator
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from arco.storage import CloudStore, s3_store

__all__ = ["ACCESS_KEY", "SECRET_KEY", "SESSION_TOKEN", "Fault", "FaultyServer", "run_faulty"]

ACCESS_KEY = "AKIAFAULTYEXAMPLE"
SECRET_KEY = "faulty-secret-key-0123456789"
SESSION_TOKEN = "faulty-session-token-0123456789"


class Fault(Enum):
    NONE = auto()
    IGNORES_CONDITION = auto()
    LOOKS_THEN_WRITES = auto()
    """Takes its time between the look whether an object is there and the write."""
    CONSOLE = auto()
    """Answers everything with a page for people: the address is that of a console or a proxy."""
    OTHER_REGION = auto()
    CONFLICT_NOTHING_APPLIED = auto()
    CONFLICT_ONCE = auto()
    APPLIES_THEN_500 = auto()
    APPLIES_THEN_DROPS = auto()
    FORBIDS_MISSING = auto()
    READ_ONLY = auto()
    NO_DELETE = auto()
    NO_LIST = auto()
    EMPTY_LIST = auto()
    STALE_READS = auto()
    NO_CONDITIONAL_WRITES = auto()
    QUOTES_REQUEST = auto()
    ALWAYS_503 = auto()


class FaultyServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, fault: Fault) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fault = fault
        self.objects: dict[str, bytes] = {}
        self.first_bytes: dict[str, bytes] = {}
        self.lock = threading.Lock()
        self.requests: list[tuple[str, str]] = []

    def store(self, prefix: str = "") -> CloudStore:
        return s3_store(
            "faulty",
            prefix,
            {
                "endpoint": f"http://127.0.0.1:{self.server_port}",
                "access_key_id": ACCESS_KEY,
                "secret_access_key": SECRET_KEY,
                "session_token": SESSION_TOKEN,
                "region": "us-east-1",
                "allow_http": True,
                "timeout": "5s",
            },
        )

    def count(self, method: str) -> int:
        return sum(1 for asked, _ in self.requests if asked == method)


@contextlib.contextmanager
def run_faulty(fault: Fault) -> Iterator[FaultyServer]:
    server = FaultyServer(fault)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyServer

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        key, fault = self._start("PUT"), self.server.fault
        conditional = self.headers.get("If-None-Match") == "*"
        if self._is_broken():
            return
        if fault is Fault.READ_ONLY:
            self._fail(403, "AccessDenied")
        elif fault is Fault.NO_CONDITIONAL_WRITES and conditional:
            self._fail(501, "NotImplemented")
        elif conditional and self._conflicts():
            self._fail(409, "ConditionalRequestConflict")
        elif conditional and not self._create(key, data):
            self._fail(412, "PreconditionFailed")
        else:
            self._write(key, data, conditional)

    def _conflicts(self) -> bool:
        once = self.server.fault is Fault.CONFLICT_ONCE and self.server.count("PUT") == 1
        return once or self.server.fault is Fault.CONFLICT_NOTHING_APPLIED

    def _create(self, key: str, data: bytes) -> bool:
        if self.server.fault is Fault.LOOKS_THEN_WRITES:
            is_there = key in self.server.objects
            time.sleep(0.05)
            if not is_there:
                self.server.objects[key] = data
            return not is_there
        with self.server.lock:
            if key in self.server.objects and self.server.fault is not Fault.IGNORES_CONDITION:
                return False
            self.server.objects[key] = data
            return True

    def _write(self, key: str, data: bytes, conditional: bool) -> None:
        with self.server.lock:
            if not conditional:
                self.server.objects[key] = data
            self.server.first_bytes.setdefault(key, data)
        if conditional and self.server.fault is Fault.APPLIES_THEN_500:
            self._fail(500, "InternalError")
        elif conditional and self.server.fault is Fault.APPLIES_THEN_DROPS:
            self.close_connection = True
        else:
            self._answer(200, b"", {"ETag": '"etag"'})

    def do_GET(self) -> None:
        key = self._start("GET")
        if self._is_broken():
            return
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self._list(query.get("prefix", [""])[0])
            return
        data = self._read(key)
        if data is None:
            return
        wanted = self.headers.get("Range")
        if wanted is None:
            self._answer(200, data, _ABOUT)
            return
        first, last = (int(text) for text in wanted.removeprefix("bytes=").split("-"))
        part = data[first : last + 1]
        self._answer(206, part, {**_ABOUT, "Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(data)}"})

    def do_HEAD(self) -> None:
        key = self._start("HEAD")
        if not self._is_broken() and (data := self._read(key)) is not None:
            self._answer(200, data, _ABOUT)

    def do_DELETE(self) -> None:
        key = self._start("DELETE")
        if self._is_broken():
            return
        if self.server.fault in (Fault.NO_DELETE, Fault.READ_ONLY):
            self._fail(403, "AccessDenied")
            return
        with self.server.lock:
            self.server.objects.pop(key, None)
        self._answer(204, b"", {})

    def _read(self, key: str) -> bytes | None:
        with self.server.lock:
            data = self.server.objects.get(key)
            if data is not None and self.server.fault is Fault.STALE_READS:
                data = self.server.first_bytes[key]
        if data is None:
            if self.server.fault is Fault.FORBIDS_MISSING:
                self._fail(403, "AccessDenied")
            else:
                self._fail(404, "NoSuchKey")
        return data

    def _list(self, prefix: str) -> None:
        if self.server.fault is Fault.NO_LIST:
            self._fail(403, "AccessDenied")
            return
        with self.server.lock:
            keys = sorted(key for key in self.server.objects if key.startswith(prefix))
        if self.server.fault is Fault.EMPTY_LIST:
            keys = []
        rows = "".join(
            f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>e</ETag>"
            f"<Size>{len(self.server.objects[key])}</Size></Contents>"
            for key in keys
        )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        self._answer(200, body.encode(), {"Content-Type": "application/xml"})

    def _start(self, method: str) -> str:
        key = unquote(urlsplit(self.path).path).removeprefix("/faulty").lstrip("/")
        self.server.requests.append((method, key))
        return key

    def _is_broken(self) -> bool:
        if self.server.fault is Fault.ALWAYS_503:
            self._fail(503, "SlowDown")
        elif self.server.fault is Fault.CONSOLE:
            self._answer(200, b"<!doctype html><title>Sign in</title>", {**_ABOUT, "Content-Type": "text/html"})
        elif self.server.fault is Fault.OTHER_REGION:
            self._fail(400, "AuthorizationHeaderMalformed", "expecting 'eu-1'")
        elif self.server.fault is Fault.QUOTES_REQUEST:
            self._fail(400, "SignatureDoesNotMatch", f"{SECRET_KEY} {self.headers}")
        else:
            return False
        return True

    def _fail(self, status: int, code: str, message: str = "no") -> None:
        body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        self._answer(status, body.encode(), {"Content-Type": "application/xml"})

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


_ABOUT = {"ETag": '"etag"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
