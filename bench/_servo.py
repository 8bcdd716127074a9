"""Servo: what running and planning assets costs that do nothing, side by side with Dagster in the same run.

Arco's runs go the whole way: a request to a server process, a worker process that claims over HTTP, a driver process
that calls the function, a result that is durable before the next task begins. Dagster's begin at its executor, and in
one process nothing stands between its tasks and it. A run is the best of as many by each; work of one thread is CPU
time. Where Dagster ran fewer tasks, its whole time is that of as many as Arco's.

- *overhead*: the whole time over the number of tasks, from the request to the end of the last one.
- *gap*: the time from one call of a function to the next; the functions themselves only note when they are called.
- *requests*: what the server asked of the store from the request to the end of the run.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from arco.core import SECOND
from arco.runtime import AsyncRuntime, init_workspace
from arco.storage import LocalStore, Scope
from bench._measure import Line, percentile
from bench._servo_dagster import Dagster
from bench._servo_fleet import Fleet, fleet
from bench._servo_plans import plan_lines, served_plan, shape_plan
from bench._servo_projects import Needs, chain, fan, grid, write_arco, write_dagster
from bench._servo_versus import SECTION, versus

__all__ = ["measure_servo"]

SLOTS = 4
OVERHEAD_MS = 20.0
WRITES = 2.0


@dataclass(frozen=True)
class _Size:
    tasks: int
    assets: int
    runs: int
    """Of which the best counts; of Arco's the first, which starts drivers, is not among them."""
    inside: int
    """Tasks of Dagster's runs in one process."""
    default: int
    """Tasks of its only run with a process for each, which take seconds."""


FULL = _Size(tasks=200, assets=2_000, runs=3, inside=200, default=20)
QUICK = _Size(tasks=200, assets=2_000, runs=2, inside=50, default=4)


@dataclass(frozen=True)
class _Run:
    """One run, by either."""

    seconds: float
    calls: list[float]
    """When each function was called."""
    requests: Counter[str] = field(default_factory=Counter)
    cpu: tuple[float, float] = (0.0, 0.0)
    """Seconds of the server and of the worker."""

    @property
    def overhead(self) -> float:
        """Milliseconds a task."""
        return self.seconds / len(self.calls) * 1_000

    def gap(self, percent: int) -> float:
        """Milliseconds."""
        return percentile([after - before for before, after in pairwise(self.calls)], percent) * 1_000


async def measure_servo(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    size = QUICK if quick else FULL
    folder.mkdir(parents=True)
    dagster, lines = _dagster(folder)
    scope, store = Scope("bench", "servo"), folder / "store"
    await init_workspace(LocalStore(store), scope, runtime)
    shapes: dict[str, Callable[[int], Needs]] = {"chain": chain, "fan": fan}
    with fleet(store, scope, SLOTS) as processes:
        try:
            for name, shape in shapes.items():
                project = write_arco(folder / name, shape(size.tasks))
                ours = await _runs(processes, runtime, project, size.runs)
                theirs = _dagster_runs(dagster, folder / f"dagster-{name}", shape, size) if dagster else {}
                lines += _run_lines(f"{name} of {size.tasks}", ours, theirs)
                other = write_dagster(folder / f"dagster-{name}" / "plan", shape(size.tasks))
                lines.append(shape_plan(f"{name} of {size.tasks}", project, other, dagster))
            project = write_arco(folder / "grid", grid(size.assets), daily=True)
            other = write_dagster(folder / "dagster-grid", grid(size.assets), daily=True)
            lines += plan_lines(project, other, dagster, whole=not quick)
            lines.append(await served_plan(processes, project))
        finally:
            await processes.close()
    places = [store / scope.root / place for place in ("data", "logs")]
    written = sum(path.is_file() for place in places for path in place.rglob("*"))
    lines.append(Line(SECTION, "objects that tasks wrote themselves", str(written), budget="0", ok=not written))
    return lines


def _dagster(folder: Path) -> tuple[Dagster | None, list[Line]]:
    try:
        return Dagster.install(folder / "dagster"), []
    except RuntimeError as error:
        return None, [Line(SECTION, "side by side with Dagster", "not measured", str(error), ok=False)]


# Runs


async def _runs(processes: Fleet, runtime: AsyncRuntime, project: Path, times: int) -> list[_Run]:
    """Runs of everything, without the first."""
    await processes.deploy(project)
    return [await _run(processes, runtime) for _ in range(times + 1)][1:]


async def _run(processes: Fleet, runtime: AsyncRuntime) -> _Run:
    before = await processes.load()
    asked = runtime.now() / SECOND
    triggered = await processes.ask("POST", "/runs", json={"selection": "*", "mode": "force"})
    run = await processes.finished(triggered["run_id"])
    after = await processes.load()
    ended = datetime.fromisoformat(run["ended_at"]).timestamp()
    used = (after.server - before.server, after.worker - before.worker)
    return _Run(ended - asked, processes.marks(), after.requests - before.requests, used)


def _dagster_runs(dagster: Dagster, folder: Path, shape: Callable[[int], Needs], size: _Size) -> dict[str, _Run]:
    """By executor."""
    found = {}
    for executor, tasks, times in (("inside", size.inside, size.runs), ("default", size.default, 1)):
        project = write_dagster(folder / executor, shape(tasks))
        best = min((dagster.run(project, executor) for _ in range(times)), key=lambda ran: ran.seconds)
        found[executor] = _Run(best.seconds, best.calls)
    return found


def _run_lines(title: str, ours: list[_Run], theirs: Mapping[str, _Run]) -> list[Line]:
    best, inside, default = min(ours, key=lambda run: run.seconds), theirs.get("inside"), theirs.get("default")
    count = len(best.calls)
    server, worker = (used / count * 1_000 for used in best.cpu)
    whole = inside.overhead * count / 1_000 if inside else None
    each = inside.overhead if inside else None
    lines = [
        versus(f"{title}: whole time", best.seconds, " s", whole),
        versus(f"{title}: overhead a task", best.overhead, " ms", each, OVERHEAD_MS),
        Line(SECTION, f"{title}: CPU a task", f"server {server:.1f} ms", f"worker {worker:.1f} ms"),
        versus(f"{title}: overhead a task", best.overhead, " ms", default.overhead if default else None, by="default"),
    ]
    for percent in (50, 95):
        other = inside.gap(percent) if inside else None
        lines.append(versus(f"{title}: gap, p{percent}", best.gap(percent), " ms", other))
    return [*lines, _requests(title, best)]


def _requests(title: str, run: _Run) -> Line:
    """A publish is a delta, a manifest and a hint; merges are what else is created."""
    count, found = len(run.calls), run.requests
    appends, publishes = found["create segment"] / count, found["create manifest"] / count
    merged = found["create other"] / count
    read = sum(number for name, number in found.items() if name.split()[0] in ("get", "head", "list")) / count
    return Line(
        SECTION,
        f"{title}: requests a task",
        f"{appends:.2f} appends",
        f"{publishes:.2f} publishes; merges: {merged:.2f} writes, {read:.2f} reads",
        budget=f"≤ {WRITES:g} + publishes",
        ok=appends <= WRITES,
    )
