"""Many partitions on Spark: one plan over all, plans side by side, a job for each, plain scripts, and Dagster.

All aggregate the same rows by the same function (`bench/spark/functions.py`) on one Spark application each, with the
same settings. Everybody runs everything once before it counts; of the runs that do, the best is shown.

- *one plan*: what Arco does by itself where Spark's plan proves that partitions do not mix.
- *side by side*: what it does where that is not proven.
- *one at a time*: a job for each partition, as `--batch 1` asks for; a slot runs one after the other.
- *Dagster*: in one process, a run for each partition; or one run for all (`BackfillPolicy.single_run`), for which the
  author has to write another function.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import pyarrow.parquet as pq

from arco.runtime import AsyncRuntime, init_workspace
from arco.storage import LocalStore
from bench._measure import Line
from bench._plain import CORES, FUNCTIONS, OPTIONS, Plain, plain, write_project, write_settings
from bench._servo_dagster import HERE, Dagster
from bench._servo_fleet import fleet
from bench._spark import SCOPE, timed_run

__all__ = ["measure_partitions"]

SECTION = f"many partitions on Spark ({CORES} cores, local disk, wall time)"
FIRST_DAY = date(2025, 1, 1)
OURS: dict[str, dict[str, str | int]] = {
    "one plan": {"selection": "bench.totals"},
    "side by side": {"selection": "bench.kinds"},
    "one at a time": {"selection": "bench.totals", "batch": 1},
}


@dataclass(frozen=True)
class _Size:
    partitions: int
    rows: int
    runs: int


FULL = _Size(partitions=40, rows=100_000, runs=2)
QUICK = _Size(partitions=10, rows=100_000, runs=1)


async def measure_partitions(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    size = QUICK if quick else FULL
    end = FIRST_DAY + timedelta(size.partitions)
    sizes: dict[str, str | int] = {"FIRST_DAY": str(FIRST_DAY), "END_DAY": str(end), "ROWS": size.rows, "EVENTS": 1}
    project = write_project(folder / "project", sizes)
    store, raw = folder / "store", (folder / "raw").absolute()
    await init_workspace(LocalStore(store), SCOPE, runtime)
    whole = {"date": "*"}
    found: dict[str, list[float]] = {name: [] for name in OURS}
    with fleet(store, SCOPE, 1, OPTIONS) as processes:
        try:
            await processes.deploy(project)
            await timed_run(processes, runtime, selection="bench.raw", partitions=whole)
            _gather(store / SCOPE.root / "data", raw, size)
            for _ in range(size.runs + 1):
                for name, request in OURS.items():
                    found[name].append(await timed_run(processes, runtime, partitions=whole, **request))
        finally:
            await processes.close()
    with plain(folder / "plain") as script:
        for _ in range(size.runs + 1):
            for what in ("loop", "together"):
                found.setdefault(what, []).append(_scripted(script, what, folder / "made", raw, size))
    lines = []
    try:
        found |= _dagster(folder, raw, size)
    except RuntimeError as error:
        lines = [Line(SECTION, "side by side with Dagster", "not measured", str(error), ok=False)]
    best = {name: min(times[1:]) for name, times in found.items()}
    return [*_lines(f"{size.partitions} partitions of {size.rows:,} rows", best), *lines]


def _days(size: _Size) -> list[str]:
    return [str(FIRST_DAY + timedelta(number)) for number in range(size.partitions)]


def _gather(data: Path, raw: Path, size: _Size) -> None:
    """The files that Arco reads, again for those who look for a partition by the name of its folder."""
    for path in data.rglob("*.parquet"):
        day = pq.read_metadata(path).row_group(0).column(1).statistics.min
        target = raw / f"date={day}"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    assert sorted(path.name for path in raw.iterdir()) == [f"date={day}" for day in _days(size)]


def _scripted(script: Plain, what: str, target: Path, raw: Path, size: _Size) -> float:
    try:
        return script.order(what, folder=str(raw), days=_days(size), target=str(target.absolute()))
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _dagster(folder: Path, raw: Path, size: _Size) -> dict[str, list[float]]:
    dagster = Dagster.install(folder / "dagster")
    project = folder / "dagster-project"
    project.mkdir()
    shutil.copy(FUNCTIONS, project)
    shutil.copy(HERE / "partitions.py", project / "project.py")
    environ = {
        "BENCH_RAW": str(raw),
        "BENCH_MADE": str((folder / "dagster-made").absolute()),
        "BENCH_FIRST_DAY": str(FIRST_DAY),
        "BENCH_END_DAY": str(FIRST_DAY + timedelta(size.partitions)),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    settings = write_settings(folder / "dagster-spark")
    found = dagster.partitions(project, environ, settings, size.runs + 1, _days(size))
    return {f"Dagster, {name}": times for name, times in found.items()}


def _lines(title: str, best: Mapping[str, float]) -> list[Line]:
    each, single = best.get("Dagster, totals"), best.get("Dagster, together")
    lines = [
        _versus(f"{title}, one plan", best["one plan"], "plain script, one plan", best["together"]),
        _versus("one plan", best["one plan"], "one at a time", best["one at a time"], ahead=True),
        _versus("one plan", best["one plan"], "Dagster, a run for each", each, ahead=True),
        _versus("one plan", best["one plan"], "Dagster, one run, written for it", single),
        _versus("side by side", best["side by side"], "one at a time", best["one at a time"], ahead=True),
        _versus("side by side", best["side by side"], "Dagster, a run for each", each, ahead=True),
        _versus("one at a time", best["one at a time"], "plain script, a job for each", best["loop"]),
        _versus("one at a time", best["one at a time"], "Dagster, a run for each", each, ahead=True),
    ]
    return [line for line in lines if line is not None]


def _versus(name: str, ours: float, other: str, theirs: float | None, *, ahead: bool = False) -> Line | None:
    if theirs is None:
        return None
    holds = ours < theirs if ahead else None
    told = f"{other}: {theirs:.2f} s"
    return Line(SECTION, name, f"{ours:.2f} s", told, ours / theirs, "ahead" if ahead else "", holds)
