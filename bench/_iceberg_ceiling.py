"""A hot load beside the ceiling of the HTTP server itself: a handler that only sends an answer of that size.

`python -m bench._iceberg_ceiling SIZE` is that handler, served as `arco serve` serves. Both are asked by one client in
turns, so that what else the machine does meets both alike; the processor time of either server is told too.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench._iceberg_client import Done
from bench._iceberg_sides import Crowd, Side
from bench._measure import Line, middle, percentile

__all__ = ["measure_ceiling"]

BUDGET = 0.5
TURNS = 8
_TICKS = os.sysconf("SC_CLK_TCK")


def measure_ceiling(section: str, arco: Side, table: str, seconds: float) -> Line:
    loads = arco.job("load", [table], seconds=seconds)
    size = arco.crowd.work([arco.job("load", [table], count=1)])[0][0].size
    with _bare(size) as bare, closing(Crowd()) as crowd:
        ceiling = Side("bare", "http", bare.url, "", Path(), crowd, pid=bare.pid)
        answers = ceiling.job("load", [table], seconds=seconds)
        turns = [(_turn(arco, loads), _turn(ceiling, answers)) for _ in range(TURNS + 1)][1:]  # one to get warm
    ours, theirs = [one for one, _ in turns], [other for _, other in turns]
    # Of each turn by itself: a neighbour that comes and goes does not count for one of the two alone.
    ratio = middle([one.rate / other.rate for one, other in turns])
    name = "load a table of 10 snapshots, against the server's own ceiling"
    return Line(section, name, _text(ours), f"bare handler {_text(theirs)}", ratio, f">= {BUDGET}", ratio >= BUDGET)


class _Turn(msgspec.Struct, frozen=True):
    done: Done
    seconds: float
    cpu: float
    """Seconds of the server's processor time; 0 if the system does not tell."""

    @property
    def rate(self) -> float:
        return len(self.done.milliseconds) / self.seconds


def _turn(side: Side, job: Any) -> _Turn:
    before = _cpu(side.pid)
    (done,), seconds = side.crowd.work([job])
    return _Turn(done, seconds, _cpu(side.pid) - before)


def _text(turns: list[_Turn]) -> str:
    times = [value for turn in turns for value in turn.done.milliseconds]
    cpu = sum(turn.cpu for turn in turns) / len(times) * 1e6
    told = f", {cpu:.0f} µs of CPU" if cpu else ""
    rate = len(times) / sum(turn.seconds for turn in turns)
    return f"{rate:,.0f}/s, p50 {percentile(times, 50):.2f}, p99 {percentile(times, 99):.2f} ms{told}"


def _cpu(pid: int) -> float:
    """Processor seconds of a process so far, all threads that are or were."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


class _Bare(msgspec.Struct, frozen=True):
    url: str
    pid: int


@contextmanager
def _bare(size: int) -> Iterator[_Bare]:
    command = [sys.executable, "-m", "bench._iceberg_ceiling", str(size)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield _Bare(process.stdout.readline().strip(), process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()


async def _serve(size: int) -> None:
    import socket

    import uvicorn

    from arco.api._connection import Connection
    from arco.api._server import config_of

    body = b'{"defaults":{},"overrides":{},"more":""}'
    body = body[:-2] + b"x" * (size - len(body)) + body[-2:]
    headers = [
        (b"content-length", str(len(body)).encode()),
        (b"etag", b'"000000000000000000000000-all"'),
        (b"content-type", b"application/json"),
        (b"x-request-id", b"01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    ]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    listener = socket.create_server(("127.0.0.1", 0))
    config = config_of(app)
    assert config.http is Connection
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/\n")
    sys.stdout.flush()
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))
