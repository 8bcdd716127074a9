"""The catalogs that are measured against each other, and what each of them holds before that.

- `arco`: `arco serve` on local disk.
- `reference`: the REST server of Iceberg's test fixtures, whose JDBC catalog is on SQLite, with a write-ahead log.
- `sql`: PyIceberg's SQL catalog on SQLite, as PyIceberg opens it; every client is the catalog itself.

They do not promise the same. Arco syncs the metadata file, the pointer and their folders before it answers; the other
two sync their database, and leave the metadata files to the system: after a power loss a table may lead to an empty
one. `sql` has no server, so that nothing goes over a socket and no process but the client's works.

Tables for the list are rows that are copied in the database where there is one: a list reads nothing else. In Arco they
are created as clients do it, so that its server has met them, as one that runs has.
"""

import json
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench._iceberg_client import Done, Http, Job
from bench._iceberg_sql import open_sql
from tests.rck.servers import Server, arco_server, reference_server, running

__all__ = ["Crowd", "Side", "sides"]

NAMESPACE = "bench"
CREATORS = 16
UNSYNCED = "metadata files not synced"
LISTED = "listed"
"""The namespace of the tables that are listed."""


class Crowd:
    """A process that clients are forked from."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "bench._iceberg_client"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def pid(self) -> int:
        return self._process.pid

    def work(self, jobs: Sequence[Job]) -> tuple[list[Done], float]:
        """A client for each job; what they did, and the seconds until the last was done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(jobs) + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a client of the bench failed; what it said is above")
        done = msgspec.json.decode(line, type=list[Done])
        return done, max(sum(one.milliseconds) for one in done) / 1000

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait(60)


@dataclass(frozen=True)
class Side:
    name: str
    kind: str
    """How a client speaks to it: `http` or `sql`."""
    place: str
    warehouse: str
    folder: Path
    crowd: Crowd
    database: Path | None = None
    pid: int = 0
    """Of the server."""
    unlike: str = ""
    """What it does not do that Arco does."""

    def job(self, work: str, tables: Sequence[str], *, seconds: float = 0.0, count: int = 0) -> Job:
        namespace = LISTED if work == "list" else NAMESPACE
        return Job(self.kind, self.place, self.warehouse, work, namespace, tuple(tables), seconds, count)

    def prepare(self, listed: int, snapshots: Sequence[int]) -> None:
        """Tables named `snapshots_<n>` with so many snapshots, and a namespace with tables to list."""
        for name in (NAMESPACE, LISTED):
            self._namespace(name)
        for number in snapshots:
            self._register(f"snapshots_{number}", self._write_metadata(number))
        first = Job(self.kind, self.place, self.warehouse, "create", LISTED, ("first",), count=1)
        if self.database is None:
            begin = [msgspec.structs.replace(first, tables=(f"part{number}",)) for number in range(CREATORS)]
            self.crowd.work([msgspec.structs.replace(job, count=listed // CREATORS) for job in begin])
        else:
            self.crowd.work([first])
            self._copy_rows(listed - 1)

    def _namespace(self, name: str) -> None:
        if self.kind == "sql":
            open_sql(self.place, self.warehouse).create_namespace(name)
        else:
            body = {"namespace": [name], "properties": {}}
            Http(self.place, self.warehouse).done("POST", "/namespaces", body)

    def _register(self, table: str, location: str) -> None:
        if self.kind == "sql":
            open_sql(self.place, self.warehouse).register_table((NAMESPACE, table), location)
        else:
            body = {"name": table, "metadata-location": location}
            Http(self.place, self.warehouse).done("POST", f"/namespaces/{NAMESPACE}/register", body)

    def _write_metadata(self, snapshots: int) -> str:
        location = (self.folder / "outside" / f"snapshots_{snapshots}").absolute()
        path = location / "metadata" / f"00000-{uuid.uuid4()}.metadata.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(metadata(f"file://{location}", snapshots)))
        return f"file://{path}"

    def _copy_rows(self, count: int) -> None:
        assert self.database is not None
        with sqlite3.connect(self.database, timeout=60) as connection:
            columns = [row[1] for row in connection.execute("pragma table_info(iceberg_tables)")]
            values = ["'copy_' || n" if column == "table_name" else column for column in columns]
            connection.execute(
                f"with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < {count}) "
                f"insert into iceberg_tables ({', '.join(columns)}) "
                f"select {', '.join(values)} from iceberg_tables, numbers where table_namespace = '{LISTED}'"
            )
        connection.close()


@contextmanager
def sides(folder: Path) -> Iterator[list[Side]]:
    """All of them, with the servers running."""
    with ExitStack() as stack:

        def crowd() -> Crowd:
            return stack.enter_context(closing(Crowd()))

        def started(server: Server, database: Path | None) -> Side:
            stack.enter_context(running(server))
            assert server.process is not None
            place, pid = server.log.parent, server.process.pid
            unlike = UNSYNCED if database else ""
            return Side(server.name, "http", server.uri, server.warehouse, place, crowd(), database, pid, unlike)

        outside = (folder / "arco" / "outside").absolute()
        reference, sql = folder / "reference", folder / "sql"
        sql.mkdir(parents=True)
        warehouse, database = f"file://{sql.absolute()}/warehouse", sql / "catalog.db"
        url, unlike = f"sqlite:///{database.absolute()}?timeout=60", f"no server, {UNSYNCED}"
        yield [
            started(arco_server(folder / "arco", allowed=[f"file://{outside}"]), None),
            started(reference_server(reference), reference / "catalog.db"),
            Side("sql", "sql", url, warehouse, sql, crowd(), database, unlike=unlike),
        ]


def metadata(location: str, snapshots: int) -> dict[str, object]:
    """A table's metadata with so many snapshots, as long as those of a real engine."""
    start = 1_750_000_000_000
    fields = [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "text", "type": "string", "required": False},
    ]
    listed = [
        {
            "snapshot-id": number,
            **({"parent-snapshot-id": number - 1} if number > 1 else {}),
            "sequence-number": number,
            "timestamp-ms": start + number,
            "manifest-list": f"{location}/metadata/snap-{number:019d}-1-{uuid.UUID(int=number)}.avro",
            "summary": {
                "operation": "append",
                "added-data-files": "1",
                "added-records": "100",
                "added-files-size": "1234",
                "total-records": str(number * 100),
                "total-data-files": str(number),
                "total-delete-files": "0",
            },
            "schema-id": 0,
        }
        for number in range(1, snapshots + 1)
    ]
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "location": location,
        "last-sequence-number": snapshots,
        "last-updated-ms": start + snapshots,
        "last-column-id": 2,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": snapshots,
        "refs": {"main": {"snapshot-id": snapshots, "type": "branch"}},
        "snapshots": listed,
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [{"timestamp-ms": start + n, "snapshot-id": n} for n in range(1, snapshots + 1)],
        "metadata-log": [],
    }
