"""Rebuilding state from the log: in this process against Spark on all cores, across sizes; then a large log on Spark.

The events are those of `measure_states`: materializations with one file each, of so many assets that each has 500.
Times are wall times of `Runner.refold`, without the publish, and of `Runner.merge` of the table of materializations,
from the layers in which a rebuild in one process leaves it. Every figure comes from a process of its own, which prints
it: `python -m bench._rebuild FOLDER EVENTS ENGINE CORES`, which writes the log first if the folder has none. Spark is
started before, and has rebuilt a small log once, so that executors have loaded the program; what that takes is a line
of its own, and the large log also says what its rate is with it. Memory is the greatest sum over the process and all
its children, shared pages counted once; processor time is that of all of them while the rebuild runs, apart for Java.
Processes are pinned to their cores, as `taskset` does it.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from arco.domains.execution import MATERIALIZATIONS
from arco.log import Header, Place, encode_segment
from arco.runtime import AsyncRuntime
from arco.spark import Site, SparkRunner, spark_sessions
from arco.spark._engine import SPARK_FROM_EVENTS, SPARK_FROM_ROWS
from arco.spark._site import definition_of
from arco.state import Layout, LocalRunner, Manifest, MergeJob, RefoldJob, Runner
from arco.storage import LocalStore, RequestCounts, Role, RoleStore, Scope
from arco.storage import Sequence as Numbers
from bench._measure import Line, Stopwatch
from bench._sample import event_batches

__all__ = ["measure_rebuild"]

SECTION = "rebuild from the log (local disk, wall time)"
SIZE = 5_000
"""Events of a segment."""
SMALL = 10_000
"""Events of the log that warms Spark up."""
BUDGET = 150_000
"""Events a second on two cores."""
RUNS = 3
"""Of the large log on two cores. The fastest counts: whatever else a machine does, or its host, only adds to it."""
AT = 1_750_000_000_000_000

Figures = dict[str, float]
"""Seconds of the rebuild, of the start of Spark, of a merge and rows of that, bytes of memory, and seconds of processor
time in Python and in Java."""


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
    lines.append(Line(SECTION, "start of Spark and its first job", f"{found[-1][1]['start']:.1f} s"))
    lines += _threshold("seconds", "events", "a rebuild", SPARK_FROM_EVENTS, found)
    lines += _threshold("merge", "rows", "a merge", SPARK_FROM_ROWS, found)
    lines += _large(folder, large, 2, 1 if quick else RUNS)
    lines += _large(folder, large, 1, 1)
    return lines


def _both(events: int, local: Figures, spark: Figures) -> list[Line]:
    ours, theirs = spark["seconds"], local["seconds"]
    merged = f"  then merging {local['rows']:,.0f} rows of materializations"
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
            merged,
            f"{spark['merge']:.1f} s",
            f"in this process {local['merge']:.1f} s",
            spark["merge"] / local["merge"],
        ),
        Line(
            SECTION,
            "  memory at most, all processes",
            f"{spark['memory'] / 1e6:,.0f} MB",
            f"in this process {local['memory'] / 1e6:,.0f} MB",
            spark["memory"] / local["memory"],
        ),
    ]


def _threshold(what: str, unit: str, name: str, threshold: int, found: Sequence[tuple[Figures, Figures]]) -> list[Line]:
    """From what size on Spark is faster although it has to start: by the two largest sizes, as straight lines."""
    (local_few, spark_few), (local_many, spark_many) = found[-2:]
    size = local_many[unit] - local_few[unit]
    here = (local_many[what] - local_few[what]) / size
    there = (spark_many[what] - spark_few[what]) / size
    lead = spark_many["start"] + spark_many[what] - local_many[what]
    title = f"{name} is faster on Spark, its start counted, from"
    if here <= there:
        return [Line(SECTION, title, "no size", f"by the two largest: {here * 1e6:.1f} and {there * 1e6:.1f} µs")]
    crossing = local_many[unit] + lead / (here - there)
    ratio = threshold / crossing
    told = f"`auto` takes it from {threshold:,}"
    return [Line(SECTION, title, f"{crossing:,.0f} {unit}", told, ratio, "0.5 to 2", 0.5 <= ratio <= 2)]


def _large(folder: Path, events: int, cores: int, runs: int) -> list[Line]:
    every = [_figures(folder, events, "spark", cores) for _ in range(runs)]
    found = min(every, key=lambda figures: figures["seconds"])
    times = ", ".join(f"{figures['seconds']:.1f}" for figures in every)
    rate = events / found["seconds"]
    budget = (f"≥ {BUDGET:,}/s", rate >= BUDGET) if cores == 2 else ("", None)
    name = f"{events:,} events, Spark on {cores} core{'s' * (cores > 1)}"
    whole = found["seconds"] + found["start"]
    python, java = (found[kind] * 1e6 / events for kind in ("python", "java"))
    busy = (found["python"] + found["java"]) / found["seconds"]
    return [
        Line(SECTION, name, f"{rate:,.0f} events/s", f"{times} s", None, *budget),
        Line(SECTION, "  with the start of Spark", f"{events / whole:,.0f} events/s", f"{whole:.1f} s"),
        Line(SECTION, "  processor time of an event", f"{python + java:.1f} µs", f"{java:.1f} of it in Java"),
        Line(SECTION, "  cores that worked", f"{busy:.2f}", f"of {cores}", busy / cores),
        Line(SECTION, "  memory at most, all processes", f"{found['memory'] / 1e6:,.0f} MB"),
    ]


def _place(events: int) -> Place:
    return Place("bench", f"rebuild-{events}", "inc-bench", "activity")


def _fill(folder: Path, events: int) -> None:
    """Write a log past the owner and past the store, which would sync every segment."""
    place = _place(events)
    root = folder / place.tenant / place.workspace
    if root.exists():
        return
    log = Numbers(LocalStore(folder), Layout(place).ledger, AsyncRuntime())
    previous = ""
    for number, batch in enumerate(event_batches(events, SIZE, AT), 1):
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


def _runner(folder: Path, place: Place, engine: str, sessions: Any) -> Runner:
    runtime = AsyncRuntime()
    store = RoleStore(LocalStore(folder), Scope(place.tenant, place.workspace), Role.COMPACTOR, RequestCounts())
    if engine == "spark":
        return SparkRunner(store, Site.of(f"file://{folder.absolute()}", {}, place), runtime, sessions)
    return LocalRunner(store, place, runtime)


async def _rebuild(runner: Runner, events: int, attempt: str) -> tuple[float, Manifest]:
    definition = definition_of(_place(events).log)
    with Stopwatch() as watch:
        manifest = await runner.refold(RefoldJob(definition, -(-events // SIZE), f"{0:020d}-{attempt}"))
    return watch.wall, manifest


async def _merge(runner: Runner, manifest: Manifest, attempt: str) -> tuple[float, int]:
    layers = tuple(layer for layer in manifest.layers if layer.table == MATERIALIZATIONS.name)
    with Stopwatch() as watch:
        await runner.merge(MergeJob(MATERIALIZATIONS, layers, True, None, f"{1:020d}-{attempt}"))
    return watch.wall, sum(layer.rows for layer in layers)


def _processes() -> dict[int, list[str]]:
    """This process and everything below it: what the system says of each, from its state on."""
    known = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                known[int(entry.name)] = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
    mine = {os.getpid()}
    while more := {pid for pid, found in known.items() if int(found[1]) in mine} - mine:
        mine |= more
    return {pid: known[pid] for pid in mine}


def _look(spent: dict[int, tuple[str, float]]) -> None:
    """Note for every process how many seconds of processor time it has taken so far. Who has ended stays noted: Spark
    ends processes of Python in the middle of a job, and not every one is waited for."""
    for pid, found in _processes().items():
        with suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            seconds = sum(map(int, found[11:13])) / os.sysconf("SC_CLK_TCK")
            spent[pid] = ("java" if name == "java" else "python", seconds)


def _total(spent: dict[int, tuple[str, float]]) -> dict[str, float]:
    return {kind: sum(seconds for name, seconds in list(spent.values()) if name == kind) for kind in ("python", "java")}


def _memory() -> int:
    """Bytes of this process and everything below it."""
    total = 0
    for pid in _processes():
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def main() -> None:
    folder, events, engine, cores = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    for size in (SMALL, events):
        _fill(folder, size)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])  # Spark's processes inherit it
    most = [0]
    spent: dict[int, tuple[str, float]] = {}

    def watch() -> None:
        for turn in count():
            _look(spent)
            if turn % 4 == 0:
                most[0] = max(most[0], _memory())
            time.sleep(0.2 if events <= 1_000_000 else 2)  # looks take time, too

    started = time.perf_counter()
    attempt = f"{engine}-{cores}-{os.getpid()}"
    layers = folder / f"layers-{events}.json"
    with spark_sessions(f"local[{cores}]") as sessions:
        if engine == "spark":
            asyncio.run(_rebuild(_runner(folder, _place(SMALL), engine, sessions), SMALL, attempt))
        ready = time.perf_counter() - started
        threading.Thread(target=watch, daemon=True).start()
        runner = _runner(folder, _place(events), engine, sessions)
        _look(spent)
        before = _total(spent)
        seconds, manifest = asyncio.run(_rebuild(runner, events, attempt))
        _look(spent)
        taken = {kind: after - before[kind] for kind, after in _total(spent).items()}
        found = {"events": events, "seconds": seconds, "start": ready, "memory": max(most[0], 1), **taken}
        if engine == "local":
            layers.write_bytes(msgspec.json.encode(manifest))
        if layers.exists():
            manifest = msgspec.json.decode(layers.read_bytes(), type=Manifest)
            found["merge"], found["rows"] = asyncio.run(_merge(runner, manifest, attempt))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
