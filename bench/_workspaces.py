"""Many workspaces in one process: what opening costs, what an open one takes, what idle ones do, and whether busy ones
notice the others.

The host is that of `arco serve --workspaces all`, which collects once a day too; requests come from this process, so
that the network is not measured. Every workspace has a few changes in its catalog; another process made them, whose
memory would else be used again.
"""

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from arco.api import HttpPeers, ServeOptions, ServiceIdentity
from arco.api._host import Host
from arco.api._server import make_host
from arco.api._uses import uses_of
from arco.core import DAY
from arco.domains.catalog import CreateNamespace
from arco.runtime import OPEN_BYTES, AsyncRuntime, init_workspace
from arco.storage import LocalStore, Scope
from bench._measure import Line, MeteredStore, Stopwatch, percentile

__all__ = ["measure_workspaces"]

SECTION = "many workspaces"
BUSY = 20
CHANGES = 5
"""In each workspace before it is measured."""
SECRET = b"what the processes of this bench share"


def scope(index: int) -> Scope:
    return Scope(f"tenant-{index % 50:02d}", f"workspace-{index:04d}")


class House:
    def __init__(self, host: Host, store: MeteredStore) -> None:
        self.host = host
        self.store = store

    async def ask(self, index: int, name: str = "") -> None:
        """A request: it holds the workspace open, and writes if given a name."""
        request: dict[str, object] = {}
        workspace = await self.host.find(scope(index), request)
        assert workspace is not None
        uses_of(request).accept()
        if name:
            await workspace.decide("catalog", CreateNamespace((name,)), actor="bench")
        uses_of(request).release()

    async def closed(self) -> None:
        while self.host.workspaces:
            await asyncio.sleep(0.05)


@asynccontextmanager
async def house(folder: Path, runtime: AsyncRuntime, idle_seconds: float) -> AsyncIterator[House]:
    store = MeteredStore(LocalStore(folder))
    options = ServeOptions(
        f"file://{folder}", (scope(0),), all_workspaces=True, idle_seconds=idle_seconds, collect_every=DAY
    )
    peers = HttpPeers(ServiceIdentity(SECRET, "bench", runtime), runtime)
    host = make_host(store, runtime, options, "http://127.0.0.1:1", SECRET, peers)
    assert host.served is not None
    try:
        yield House(host, store)
    finally:
        await host.served.close()
        await peers.close()


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def load(found: House, seconds: float, label: str) -> tuple[float, float]:
    """Writes a second of the busy workspaces, and the time of the slowest twentieth."""
    times: list[float] = []
    until = time.perf_counter() + seconds

    async def write(index: int) -> None:
        number = 0
        while time.perf_counter() < until:
            began = time.perf_counter()
            await found.ask(index, f"{label}-{number}")
            times.append(time.perf_counter() - began)
            number += 1

    await asyncio.gather(*(write(index) for index in range(BUSY)))
    return len(times) / seconds, percentile(times, 95)


async def idle(found: House, seconds: float) -> tuple[float, int]:
    """Part of a core that is used while nobody asks, and the requests to the store meanwhile."""
    before = found.store.requests.total()
    with Stopwatch() as watch:
        await asyncio.sleep(seconds)
    return watch.cpu / watch.wall, found.store.requests.total() - before


async def make(folder: Path, count: int) -> None:
    runtime, base = AsyncRuntime(), LocalStore(folder)
    for index in range(count):
        await init_workspace(base, scope(index), runtime)
    async with house(folder, runtime, 3600.0) as found:
        for index in range(count):
            for number in range(CHANGES):
                await found.ask(index, f"before-{number}")


async def measure_workspaces(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    count, seconds = (200, 3.0) if quick else (1000, 10.0)
    command = [sys.executable, "-m", "bench._workspaces", str(folder), str(count)]
    await asyncio.to_thread(subprocess.run, command, check=True)
    lines: list[Line] = []

    def line(name: str, measured: str, reference: str = "", ratio: float | None = None, ok: bool | None = None) -> None:
        lines.append(Line(SECTION, name, measured, reference, ratio, "" if ok is None else "holds", ok))

    async with house(folder, runtime, 3600.0) as found:
        await asyncio.gather(*(found.ask(index) for index in range(BUSY)))
        alone, alone_p95 = await load(found, seconds, "alone")
        before = resident()
        with Stopwatch() as watch:
            for index in range(BUSY, count):
                await found.ask(index)
        opened = count - BUSY
        each = (resident() - before) / opened
        line(
            f"open one of {count:,}", f"{1000 * watch.wall / opened:.1f} ms", f"CPU {1000 * watch.cpu / opened:.1f} ms"
        )
        line(
            f"memory of an open one, {count:,} open",
            f"{each / 1024:.0f} KiB",
            f"counted as {OPEN_BYTES >> 10} KiB",
            each / OPEN_BYTES,
            each <= OPEN_BYTES,
        )
        await asyncio.sleep(15)  # each looks once for commits that nobody told of
        part, requests = await idle(found, seconds)
        line(f"idle, {count:,} open: CPU", f"{part:.2%}", "of a core", ok=part < 0.01)
        line(f"idle, {count:,} open: requests in {seconds:.0f} s", f"{requests}", ok=requests == 0)
        among, among_p95 = await load(found, seconds, "among")
        ratio = among / alone
        line(f"{BUSY} busy, {count:,} open", f"{among:.0f} writes/s", f"{alone:.0f} with none else", ratio, ratio > 0.8)
        line("  slowest twentieth", f"{1000 * among_p95:.0f} ms", f"{1000 * alone_p95:.0f} ms", among_p95 / alone_p95)
    async with house(folder, runtime, 1.0) as found:
        before = resident()
        with Stopwatch() as watch:
            for index in range(count):
                await found.ask(index)
            await found.closed()
        line(f"open and close {count:,}, one after the other", f"{watch.wall:.0f} s", f"CPU {watch.cpu:.0f} s")
        part, requests = await idle(found, seconds)
        line(f"idle, {count:,} closed: CPU", f"{part:.2%}", "of a core", ok=part < 0.01)
        line(f"idle, {count:,} closed: requests in {seconds:.0f} s", f"{requests}", ok=requests == 0)
        kept = (resident() - before) / count
        line(
            "memory that a closed one leaves behind",
            f"{kept / 1024:.1f} KiB",
            f"{each / 1024:.0f} KiB open",
            kept / each,
        )
        assert found.host.served is not None
        begun = found.host.served.opens
        with Stopwatch() as watch:
            for number in range(3):
                await asyncio.gather(*(found.ask(index, f"again-{number}") for index in range(BUSY)))
        again = found.host.served.opens - begun
        line(f"{BUSY} of {count:,} closed ones asked at once, 3 times", f"{watch.wall:.2f} s", f"{again} opened")
    return lines


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1]), int(sys.argv[2])))
