"""The Iceberg catalog beside the reference REST server and PyIceberg's SQL catalog, all in one run on one disk.

Every kind of work is done by all sides in turn, in rounds: reads for some time, writes a number of times, since tables
grow by them. Clients are processes (`bench._iceberg_client`); the first line says how fast they are by themselves.
A commit is that of an engine: it adds a snapshot to what the client read, and is made again on a conflict.
"""

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from arco.runtime import AsyncRuntime
from bench._iceberg_ceiling import measure_ceiling
from bench._iceberg_client import Done
from bench._iceberg_sides import Crowd, Side, sides
from bench._iceberg_syncs import measure_syncs
from bench._measure import Line, percentile

__all__ = ["measure_iceberg"]

SECTION = "Iceberg catalog, on local disk"
MANY = 8
ROUNDS = 2


@dataclass(frozen=True)
class Size:
    listed: int
    snapshots: int
    seconds: float
    writes: int
    """Of one client in a round."""


@dataclass(frozen=True)
class Work:
    name: str
    what: str
    """As the clients call it."""
    clients: int
    tables: tuple[str, ...]
    """Of one client that writes, or all; the others have one of them each if there are several."""
    writes: int = 0
    """How often each client does it in a round; else it is done for some time."""
    shared: bool = True
    """Whether all clients use all tables."""


@dataclass(frozen=True)
class Found:
    """What one side did in all rounds."""

    done: list[Done]
    seconds: float

    @property
    def times(self) -> list[float]:
        return [value for one in self.done for value in one.milliseconds]

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    @property
    def text(self) -> str:
        times = self.times
        conflicts = sum(one.conflicts for one in self.done)
        again = f", {conflicts / len(times):.1f} conflicts" if conflicts else ""
        size = max(one.size for one in self.done)
        told = f", {size:,} B" if size else ""
        return f"{self.rate:,.0f}/s, p50 {percentile(times, 50):.2f}, p99 {percentile(times, 99):.2f} ms{told}{again}"


async def measure_iceberg(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    size = Size(1_000, 1_000, 0.5, 20) if quick else Size(10_000, 10_000, 2.0, 60)
    return await asyncio.to_thread(_measure, folder, size)


def _measure(folder: Path, size: Size) -> list[Line]:
    lines = [_ceiling(size.seconds)]
    with sides(folder) as found:
        for side in found:
            side.prepare(size.listed, (10, size.snapshots))
        lines.append(measure_ceiling(SECTION, found[0], "snapshots_10", size.seconds))
        for work in _works(size):
            lines += _compare(work, found, size)
        lines += measure_syncs(SECTION, found, "one_00000", size.writes, folder)
    return lines


def _works(size: Size) -> list[Work]:
    few, many = "snapshots_10", f"snapshots_{size.snapshots}"
    spread, own = (tuple(f"{name}_{number}" for number in range(MANY)) for name in ("spread", "own"))
    return [
        Work("load a table of 10 snapshots, 1 client", "load", 1, (few,)),
        Work(f"load a table of 10 snapshots, {MANY} clients", "load", MANY, (few,)),
        Work(f"load a table of {size.snapshots:,} snapshots", "load", 1, (many,)),
        Work(f"load a table of {size.snapshots:,} snapshots, refs only", "load refs", 1, (many,)),
        Work(f"load a table of {size.snapshots:,} snapshots, unchanged", "load unchanged", 1, (many,)),
        Work("table exists, 1 client", "exists", 1, (few,)),
        Work(f"table exists, {MANY} clients", "exists", MANY, (few,)),
        Work(f"list {size.listed:,} tables", "list", 1, ("",)),
        Work("create a table, 1 client", "create", 1, ("alone",), size.writes),
        Work(
            f"create a table, {MANY} clients",
            "create",
            MANY,
            tuple(f"made_{n}" for n in range(MANY)),
            size.writes,
            False,
        ),
        Work("commit, 1 writer to 1 table", "commit", 1, ("one",), size.writes),
        Work(f"commit, 1 writer to {MANY} tables", "commit", 1, spread, size.writes),
        Work(f"commit, {MANY} writers to {MANY} tables", "commit", MANY, own, size.writes, False),
        Work(f"commit, {MANY} writers to 1 table", "commit", MANY, ("contended",), max(size.writes // 3, 1)),
    ]


def _compare(work: Work, found: Sequence[Side], size: Size) -> list[Line]:
    able = [side for side in found if side.kind == "http" or work.what not in ("load refs", "load unchanged")]
    done: dict[str, Found] = {}
    for side in able:
        if work.what == "commit":
            side.crowd.work([side.job("create", [table], count=1) for table in work.tables])
        # A first round that is not counted: a JVM compiles what it runs often, and caches fill.
        _round(side, work, size, "warm")
    for number in range(ROUNDS):
        for side in able:
            now = _round(side, work, size, f"round{number}")
            before = done.get(side.name, Found([], 0.0))
            done[side.name] = Found(before.done + now.done, before.seconds + now.seconds)
    return [_line(work, done["arco"], side, done[side.name]) for side in able if side.name != "arco"]


def _line(work: Work, ours: Found, side: Side, other: Found) -> Line:
    """Reads and commits must be ahead; a table is created once, and its name is an event in the log besides."""
    told = f" ({side.unlike})" if work.writes else ""
    ratio, text = ours.rate / other.rate, f"{side.name}{told} {other.text}"
    if work.what == "create":
        return Line(SECTION, work.name, ours.text, text, ratio)
    return Line(SECTION, work.name, ours.text, text, ratio, ">= 1.0", ratio >= 1.0)


def _round(side: Side, work: Work, size: Size, name: str) -> Found:
    jobs = []
    for number in range(work.clients):
        tables = work.tables if work.shared else (work.tables[number],)
        if work.what == "create":
            tables = tuple(f"{table}_{name}" for table in tables)
        elif work.what == "commit":
            tables = tuple(f"{table}_00000" for table in tables)
        jobs.append(side.job(work.what, tables, seconds=0.0 if work.writes else size.seconds, count=work.writes))
    done, seconds = side.crowd.work(jobs)
    return Found(done, seconds)


def _ceiling(seconds: float) -> Line:
    """How fast the clients are, asking a server that only sends back what it has ready."""
    with _canned() as url, closing(Crowd()) as crowd:
        side = Side("canned", "http", url, "", Path(), crowd)
        done, took = crowd.work([side.job("load", ["t"], seconds=seconds) for _ in range(MANY)])
    found = Found(done, took)
    return Line(SECTION, f"the clients themselves, {MANY} of them", found.text)


@contextmanager
def _canned() -> Iterator[str]:
    """A server in a thread of this process with one answer, which is also a configuration."""
    body = b'{"defaults":{},"overrides":{},"more":"' + b"x" * 2_000 + b'"}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    loop = asyncio.new_event_loop()

    class Canned(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = transport

        def data_received(self, data: bytes) -> None:
            assert isinstance(self._transport, asyncio.WriteTransport)
            self._transport.write(answer)

    listening = socket.create_server(("127.0.0.1", 0))
    server = loop.run_until_complete(loop.create_server(Canned, sock=listening))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.run_until_complete(server.wait_closed())
        loop.close()
