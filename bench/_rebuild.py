"""Rebuilding state from the log: in this process against Spark on all cores, across sizes; then a large log on Spark.

The events are those of `measure_states`: materializations with one file each, of so many assets that each has 500.
Times are wall times of `Runner.refold`, without the publish. Every figure comes from a process of its own, which prints
it: `python -m bench._rebuild FOLDER EVENTS ENGINE CORES`. Spark is started before, and has rebuilt a small log once, so
that executors have loaded the program; what that takes is a line of its own. Memory is the greatest sum over the
process and all its children, shared pages counted once. Processes are pinned to their cores, as `taskset` does it.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from arco.log import Header, Place, encode_segment
from arco.runtime import AsyncRuntime
from arco.spark import Site, SparkRunner, spark_sessions
from arco.spark._engine import SPARK_FROM_EVENTS
from arco.spark._site import definition_of
from arco.state import Layout, LocalRunner, RefoldJob, Runner
from arco.storage import LocalStore, RequestCounts, Role, RoleStore, Scope
from arco.storage import Sequence as Numbers
from bench._measure import Line, Stopwatch
from bench._sample import encoded_events

__all__ = ["measure_rebuild"]

SECTION = "rebuild from the log (local disk, wall time)"
SIZE = 5_000
"""Events of a segment."""
SMALL = 10_000
"""Events of the log that warms Spark up."""
BUDGET = 150_000
"""Events a second on two cores."""
AT = 1_750_000_000_000_000

Figures = dict[str, float]
"""Seconds of the rebuild, of the start of Spark, and bytes of memory."""


async def measure_rebuild(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    sizes = (20_000, 100_000) if quick else (20_000, 100_000, 300_000, 1_000_000)
    large = 500_000 if quick else 10_000_000
    for events in (SMALL, *sizes, large):
        _fill(folder, events)
    lines, found = [], []
    for events in sizes:
        local, spark = (_figures(folder, events, engine, 2) for engine in ("local", "spark"))
        found.append((local, spark))
        lines += _both(events, local, spark)
    lines += _threshold(sizes, found)
    for cores in (2, 1):
        lines += _large(folder, large, cores)
    return lines


def _both(events: int, local: Figures, spark: Figures) -> list[Line]:
    ours, theirs = spark["seconds"], local["seconds"]
    return [
        Line(
            SECTION,
            f"{events:,} events, Spark on 2 cores, warm",
            f"{ours:.1f} s",
            f"in this process {theirs:.1f} s",
            ours / theirs,
        ),
        Line(
            SECTION,
            "  memory at most, all processes",
            f"{spark['memory'] / 1e6:,.0f} MB",
            f"in this process {local['memory'] / 1e6:,.0f} MB",
            spark["memory"] / local["memory"],
        ),
    ]


def _threshold(sizes: Sequence[int], found: Sequence[tuple[Figures, Figures]]) -> list[Line]:
    """From how many events on Spark is faster although it has to start: by the two largest sizes, as straight lines."""
    (local_few, spark_few), (local_many, spark_many) = found[-2:]
    events = sizes[-1] - sizes[-2]
    start = spark_many["start"]
    here = (local_many["seconds"] - local_few["seconds"]) / events
    there = (spark_many["seconds"] - spark_few["seconds"]) / events
    lead = start + spark_many["seconds"] - local_many["seconds"]
    lines = [Line(SECTION, "start of Spark and its first job", f"{start:.1f} s")]
    if here > there:
        crossing = sizes[-1] + lead / (here - there)
        ratio = SPARK_FROM_EVENTS / crossing
        told = f"`auto` takes it from {SPARK_FROM_EVENTS:,}"
        name = "Spark is faster, its start counted, from"
        fits = 0.5 <= ratio <= 2
        lines.append(Line(SECTION, name, f"{crossing:,.0f} events", told, ratio, "0.5 to 2", fits))
    return lines


def _large(folder: Path, events: int, cores: int) -> list[Line]:
    found = _figures(folder, events, "spark", cores)
    rate = events / found["seconds"]
    budget = (f"≥ {BUDGET:,}/s", rate >= BUDGET) if cores == 2 else ("", None)
    name = f"{events:,} events, Spark on {cores} core{'s' * (cores > 1)}"
    return [
        Line(SECTION, name, f"{rate:,.0f} events/s", f"{found['seconds']:.1f} s", None, *budget),
        Line(SECTION, "  memory at most, all processes", f"{found['memory'] / 1e6:,.0f} MB"),
    ]


def _place(events: int) -> Place:
    return Place("bench", f"rebuild-{events}", "inc-bench", "activity")


def _batch(task: tuple[int, int, int]) -> list[bytes]:
    start, count, assets = task
    return list(encoded_events(start, count, AT, assets=assets, files=1))


def _batches(events: int) -> Iterator[list[bytes]]:
    assets = max(events // 500, 200)
    tasks = [(start, min(SIZE, events - start), assets) for start in range(0, events, SIZE)]
    with get_context("spawn").Pool(2) as pool:
        yield from pool.imap(_batch, tasks, chunksize=4)


def _fill(folder: Path, events: int) -> None:
    """Write a log past the owner and past the store, which would sync every segment."""
    place = _place(events)
    root = folder / place.tenant / place.workspace
    if root.exists():
        return
    log = Numbers(LocalStore(folder), Layout(place).ledger, AsyncRuntime())
    previous = ""
    for number, batch in enumerate(_batches(events), 1):
        where = (place.log, number, f"01SEG{number:021d}", previous, place.incarnation, place.tenant, place.workspace)
        data = encode_segment(Header(1, *where, "bench", AT, {}), batch)
        previous = hashlib.sha256(data).hexdigest()
        path = root / log.path(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _figures(folder: Path, events: int, engine: str, cores: int) -> Figures:
    command = [sys.executable, "-m", "bench._rebuild", str(folder), str(events), engine, str(cores)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


# In the process that is measured


async def _rebuild(folder: Path, events: int, engine: str, sessions: Any, attempt: str) -> float:
    place, runtime = _place(events), AsyncRuntime()
    definition = definition_of(place.log)
    store = RoleStore(LocalStore(folder), Scope(place.tenant, place.workspace), Role.COMPACTOR, RequestCounts())
    runner: Runner = LocalRunner(store, place, runtime)
    if engine == "spark":
        runner = SparkRunner(store, Site.of(f"file://{folder.absolute()}", {}, place), runtime, sessions)
    with Stopwatch() as watch:
        await runner.refold(RefoldJob(definition, -(-events // SIZE), f"{0:020d}-{attempt}"))
    return watch.wall


def _memory() -> int:
    """Bytes of this process and everything below it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    total = 0
    for pid in mine:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def main() -> None:
    folder, events, engine, cores = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])  # Spark's processes inherit it
    most = [0]

    def watch() -> None:
        while True:
            most[0] = max(most[0], _memory())
            time.sleep(0.5)

    started = time.perf_counter()
    attempt = f"{engine}-{cores}-{os.getpid()}"
    with spark_sessions(f"local[{cores}]") as sessions:
        if engine == "spark":
            asyncio.run(_rebuild(folder, SMALL, engine, sessions, attempt))
        ready = time.perf_counter() - started
        threading.Thread(target=watch, daemon=True).start()
        seconds = asyncio.run(_rebuild(folder, events, engine, sessions, attempt))
    print(json.dumps({"seconds": seconds, "start": ready, "memory": max(most[0], 1)}))


if __name__ == "__main__":
    main()
