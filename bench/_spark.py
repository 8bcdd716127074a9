"""Spark: an asset on Arco against the same PySpark as a plain script, and checks on the write against checks after it.

Arco's time is that of a whole run: from the request to a server process, over planning, a claim over HTTP, a driver
process, the job and the footers of its files to the event that makes the version known. The script's is that of
reading, the function and writing. Both have the same settings, read the same files and are warm; they take turns, and
the best of each counts. What the first run of each takes is a line of its own.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from arco.core import SECOND
from arco.runtime import AsyncRuntime, init_workspace
from arco.storage import LocalStore, Scope
from bench._measure import Line
from bench._plain import CORES, OPTIONS, Plain, plain, write_project
from bench._servo_fleet import Fleet, fleet

__all__ = ["SCOPE", "measure_checks", "measure_spark", "timed_run"]

SECTION = f"assets on Spark ({CORES} cores, local disk, wall time)"
SCOPE = Scope("bench", "spark")
OVERHEAD = 1.05
CHECKS = {"scanning_once": "one more scan for all", "scanning": "a scan for each"}
UNUSED: dict[str, str | int] = {"FIRST_DAY": "2025-01-01", "END_DAY": "2025-01-02", "ROWS": 1}


@dataclass(frozen=True)
class _Size:
    events: int
    runs: int
    checked: int
    """Events that checks are about."""


FULL = _Size(events=16_000_000, runs=3, checked=8_000_000)
QUICK = _Size(events=1_000_000, runs=2, checked=1_000_000)


async def measure_spark(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    size = QUICK if quick else FULL
    project = write_project(folder / "project", {**UNUSED, "EVENTS": size.events})
    store = folder / "store"
    await init_workspace(LocalStore(store), SCOPE, runtime)
    with fleet(store, SCOPE, 1, OPTIONS) as processes:
        try:
            await processes.deploy(project)
            start = await timed_run(processes, runtime, selection="bench.events")
            files = [str(path.absolute()) for path in (store / SCOPE.root / "data").rglob("*.parquet")]
            return await _against_script(folder, runtime, processes, files, start, size)
        finally:
            await processes.close()


async def _against_script(
    folder: Path, runtime: AsyncRuntime, processes: Fleet, files: list[str], start: float, size: _Size
) -> list[Line]:
    ours, theirs, cold = [], [], 0.0
    with plain(folder / "plain") as script:
        for turn in range(size.runs + 1):
            theirs.append(_scripted(script, folder / "made", files))
            if not turn:
                cold = script.age()
            ours.append(await timed_run(processes, runtime, selection="bench.report"))
    best, other = min(ours[1:]), min(theirs[1:])
    title = f"job over {size.events:,} events"
    return [
        Line(
            SECTION,
            f"{title}, warm",
            f"{best:.2f} s",
            f"plain script {other:.2f} s",
            best / other,
            f"≤ {OVERHEAD}",
            best / other <= OVERHEAD,
        ),
        Line(SECTION, f"{title}, Arco adds", f"{(best - other) * 1_000:.0f} ms a run"),
        Line(SECTION, "the first run in a new process, Spark's start included", f"{cold:.1f} s", "plain script"),
        Line(SECTION, "a first run in a new driver, Spark's start included", f"{start:.1f} s", "Arco, making events"),
    ]


def _scripted(script: Plain, target: Path, files: list[str]) -> float:
    try:
        return script.order("report", files=files, target=str(target.absolute()))
    finally:
        shutil.rmtree(target, ignore_errors=True)


async def measure_checks(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    size = QUICK if quick else FULL
    project = write_project(folder / "project", {**UNUSED, "EVENTS": size.checked})
    store = folder / "store"
    await init_workspace(LocalStore(store), SCOPE, runtime)
    names = ("unchecked", "riding", *CHECKS)
    found: dict[str, list[float]] = {name: [] for name in names}
    with fleet(store, SCOPE, 1, OPTIONS) as processes:
        try:
            await processes.deploy(project)
            await timed_run(processes, runtime, selection="bench.events")
            for _ in range(size.runs + 1):
                for name in names:
                    found[name].append(await timed_run(processes, runtime, selection=f"bench.{name}"))
        finally:
            await processes.close()
    return _check_lines(size.checked, {name: min(times[1:]) for name, times in found.items()})


def _check_lines(events: int, best: Mapping[str, float]) -> list[Line]:
    none, riding = best["unchecked"], best["riding"]
    lines = [
        Line(
            SECTION,
            f"8 checks riding on a write of {events:,} rows",
            f"{riding:.2f} s",
            f"no checks {none:.2f} s",
            riding / none,
        )
    ]
    for name, how in CHECKS.items():
        took = best[name]
        told = f"after it, {how}: {took:.2f} s"
        lines.append(Line(SECTION, "the same", f"{riding:.2f} s", told, riding / took, "ahead", riding < took))
    return lines


async def timed_run(processes: Fleet, runtime: AsyncRuntime, **body: Any) -> float:
    """Seconds from the request to the end of a run of everything that is selected."""
    asked = runtime.now() / SECOND
    triggered = await processes.ask("POST", "/runs", json={"mode": "force", **body})
    run = await processes.finished(triggered["run_id"])
    return float(datetime.fromisoformat(run["ended_at"]).timestamp() - asked)
