"""Clients of a catalog, each a process of its own. `python -m bench._iceberg_client` reads lines from its stdin, each a
list of `Job` as JSON, and answers each by a list of `Done`.

It has loaded what clients need and forks them; they begin at once when all of them are connected. The HTTP client is a
blocking socket that does little, so that it costs little beside a server on the same machine.
"""

import multiprocessing
import os
import socket
import sys
import threading
import time
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

__all__ = ["Done", "Head", "Http", "Job"]

PATIENCE = 120.0
ATTEMPTS = 1_000


class Job(msgspec.Struct, frozen=True):
    side: str
    """`http` or `sql`."""
    place: str
    """URI of the catalog, or the URL of a database."""
    warehouse: str
    work: str
    """`load`, `load refs`, `load unchanged`, `exists`, `list`, `create` or `commit`."""
    namespace: str
    tables: tuple[str, ...]
    """In turn; of `create`, how a name begins."""
    seconds: float = 0.0
    count: int = 0
    """How often, if not for so many seconds."""


class Done(msgspec.Struct, frozen=True):
    milliseconds: list[float]
    """Of each time."""
    size: int
    """Bytes of the last answer."""
    conflicts: int = 0
    """Commits that were refused since somebody else was faster, and made again."""


class Head(msgspec.Struct, frozen=True, rename="kebab"):
    """What a writer must know of a table's metadata."""

    location: str
    last_sequence_number: int
    current_snapshot_id: int | None = None


class _Answer(msgspec.Struct, frozen=True):
    metadata: Head


class Catalog(Protocol):
    """A catalog as a client sees it. Each call tells the bytes of the answer."""

    def load(self, namespace: str, table: str) -> int: ...
    def exists(self, namespace: str, table: str) -> int: ...
    def list(self, namespace: str) -> int: ...
    def create(self, namespace: str, table: str) -> int: ...
    def head(self, namespace: str, table: str) -> Head: ...
    def commit(self, namespace: str, table: str, head: Head, snapshot: int) -> tuple[Head, int] | None:
        """What the table is now, or None if it was no more as in `head`."""
        ...


class Http:
    """One connection that stays open."""

    def __init__(self, uri: str, warehouse: str) -> None:
        parts = urlsplit(uri)
        self._host = f"{parts.hostname}:{parts.port}"
        self._base = f"{parts.path.rstrip('/')}/v1"
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._kept = b""
        self._etag = ""
        config = msgspec.json.decode(self.done("GET", f"/config?warehouse={warehouse}"))
        prefix = {**config["defaults"], **config["overrides"]}.get("prefix", "")
        self._base += f"/{prefix}" if prefix else ""

    def load(self, namespace: str, table: str) -> int:
        return len(self.done("GET", f"/namespaces/{namespace}/tables/{table}"))

    def load_refs(self, namespace: str, table: str) -> int:
        return len(self.done("GET", f"/namespaces/{namespace}/tables/{table}?snapshots=refs"))

    def load_unchanged(self, namespace: str, table: str) -> int:
        path = f"/namespaces/{namespace}/tables/{table}"
        if not self._etag:
            _, headers, _ = self.ask("GET", path)
            self._etag = headers["etag"]
        status, _, body = self.ask("GET", path, headers=f"If-None-Match: {self._etag}\r\n")
        if status != 304:
            raise RuntimeError(f"a table that did not change was answered {status}")
        return len(body)

    def exists(self, namespace: str, table: str) -> int:
        return len(self.done("HEAD", f"/namespaces/{namespace}/tables/{table}"))

    def list(self, namespace: str) -> int:
        return len(self.done("GET", f"/namespaces/{namespace}/tables"))

    def create(self, namespace: str, table: str) -> int:
        fields = [{"id": 1, "name": "id", "type": "long", "required": True}]
        fields += [{"id": 2, "name": "text", "type": "string", "required": False}]
        body = {"name": table, "schema": {"type": "struct", "schema-id": 0, "fields": fields}}
        return len(self.done("POST", f"/namespaces/{namespace}/tables", body))

    def head(self, namespace: str, table: str) -> Head:
        body = self.done("GET", f"/namespaces/{namespace}/tables/{table}")
        return msgspec.json.decode(body, type=_Answer).metadata

    def commit(self, namespace: str, table: str, head: Head, snapshot: int) -> tuple[Head, int] | None:
        before = head.current_snapshot_id if head.current_snapshot_id != -1 else None
        added = {
            "snapshot-id": snapshot,
            "sequence-number": head.last_sequence_number + 1,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": f"{head.location}/metadata/snap-{snapshot}.avro",
            "summary": {"operation": "append", "added-data-files": "1", "added-records": "1"},
            "schema-id": 0,
            **({"parent-snapshot-id": before} if before is not None else {}),
        }
        ref = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot}
        body = {
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": before}],
            "updates": [{"action": "add-snapshot", "snapshot": added}, {"action": "set-snapshot-ref", **ref}],
        }
        status, _, text = self.ask("POST", f"/namespaces/{namespace}/tables/{table}", body)
        if status == 409:
            return None
        if status != 200:
            raise RuntimeError(f"a commit was answered {status}: {text[:500]!r}")
        return msgspec.json.decode(text, type=_Answer).metadata, len(text)

    def done(self, method: str, path: str, body: Any = None) -> bytes:
        """The body of an answer that must be one of success."""
        status, _, text = self.ask(method, path, body)
        if status >= 300:
            raise RuntimeError(f"{method} {path} was answered {status}: {text[:500]!r}")
        return text

    def ask(self, method: str, path: str, body: Any = None, headers: str = "") -> tuple[int, dict[str, str], bytes]:
        data = b"" if body is None else msgspec.json.encode(body)
        kind = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n" if data else ""
        head = f"{method} {self._base}{path} HTTP/1.1\r\nHost: {self._host}\r\n{headers}{kind}\r\n"
        self._socket.sendall(head.encode("latin-1") + data)
        first, *rest = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(first.split(" ", 2)[1])
        found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        if method == "HEAD" or status in (204, 304):
            return status, found, b""
        if found.get("transfer-encoding") == "chunked":
            return status, found, b"".join(self._chunks())
        return status, found, self._exactly(int(found.get("content-length", "0")))

    def _chunks(self) -> Any:
        while size := int(self._until(b"\r\n"), 16):
            yield self._exactly(size)
            self._until(b"\r\n")
        self._until(b"\r\n")

    def _until(self, mark: bytes) -> bytes:
        while (at := self._kept.find(mark)) < 0:
            self._kept += self._more()
        found, self._kept = self._kept[:at], self._kept[at + len(mark) :]
        return found

    def _exactly(self, size: int) -> bytes:
        parts, have = [self._kept], len(self._kept)
        while have < size:
            parts.append(self._more())
            have += len(parts[-1])
        whole = b"".join(parts)
        self._kept = whole[size:]
        return whole[:size]

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            raise RuntimeError("the server closed the connection")
        return data


def work(catalog: Catalog, job: Job) -> Done:
    times: list[float] = []
    size = conflicts = turn = 0
    heads: dict[str, Head] = {}
    end = time.perf_counter() + (job.seconds or PATIENCE)
    while turn < job.count or (not job.count and time.perf_counter() < end):
        table = job.tables[turn % len(job.tables)]
        began = time.perf_counter()
        if job.work == "commit":
            heads[table], size, lost = _commit(catalog, job.namespace, table, heads.get(table))
            conflicts += lost
        elif job.work == "list":
            size = catalog.list(job.namespace)
        elif job.work == "create":
            size = catalog.create(job.namespace, f"{table}_{turn:05d}")
        else:
            size = getattr(catalog, job.work.replace(" ", "_"))(job.namespace, table)
        times.append((time.perf_counter() - began) * 1000)
        turn += 1
    return Done(times, size, conflicts)


def _commit(catalog: Catalog, namespace: str, table: str, head: Head | None) -> tuple[Head, int, int]:
    """Like an engine: on what was read last, and if that is not the newest, on what is read then."""
    for attempt in range(ATTEMPTS):
        if head is None:
            head = catalog.head(namespace, table)
        done = catalog.commit(namespace, table, head, int.from_bytes(os.urandom(8)) >> 1)
        if done is not None:
            return *done, attempt
        head = None
    raise RuntimeError(f"a client never got its turn at {table}")


def _open(job: Job) -> Catalog:
    if job.side == "http":
        return Http(job.place, job.warehouse)
    from bench._iceberg_sql import Sql

    return Sql(job.place, job.warehouse)


def _be_client(number: int, job: Job, begin: Barrier, found: SimpleQueue) -> None:
    try:
        catalog = _open(job)
        begin.wait(PATIENCE)
        found.put((number, msgspec.json.encode(work(catalog, job))))
    except threading.BrokenBarrierError:
        found.put((number, b""))  # another client failed, and tells of it
    except BaseException:
        begin.abort()
        found.put((number, b""))
        raise


def _fork(jobs: list[Job]) -> list[bytes]:
    fork = multiprocessing.get_context("fork")
    begin, found = fork.Barrier(len(jobs)), fork.SimpleQueue()
    started = [fork.Process(target=_be_client, args=(number, job, begin, found)) for number, job in enumerate(jobs)]
    for process in started:
        process.start()
    done = dict(found.get() for _ in jobs)
    for process in started:
        process.join()
    return [done[number] for number in range(len(jobs))]


def main() -> int:
    for line in sys.stdin.buffer:
        jobs = msgspec.json.decode(line, type=list[Job])
        if any(job.side == "sql" for job in jobs):
            __import__("bench._iceberg_sql")
        done = _fork(jobs)
        if not all(done):
            return 1
        sys.stdout.buffer.write(b"[" + b",".join(done) + b"]\n")
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
