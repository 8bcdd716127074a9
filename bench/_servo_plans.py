"""What loading and planning costs: CPU time of one process each, and of a plan that a server makes the whole time."""

import resource
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from arco.assets import Project
from arco.core import SECOND, derive_ulid
from arco.domains.orchestration import plan_fingerprint
from arco.sdk import load_project
from arco.servo import RunRequest
from arco.servo._planner import make_plan
from arco.servo._planning_state import PlanningState
from bench._measure import Line, Stopwatch
from bench._servo_dagster import Dagster
from bench._servo_fleet import Fleet
from bench._servo_projects import DAYS, days
from bench._servo_versus import versus

__all__ = ["plan_lines", "served_plan", "shape_plan"]

PLAN_SECONDS = 1.0
PLAN_DAYS = 5
"""Of 2,000 assets: 10,000 tasks."""
NOW = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * SECOND
"""All days have ended by then."""
TIMES = 3


def shape_plan(title: str, project: Path, other: Path, dagster: Dagster | None) -> Line:
    """The plan of a project without partitions."""
    _, seconds = _plan(load_project(project).project, {})
    return versus(f"{title}: plan (CPU)", seconds * 1_000, " ms", dagster.plan(other) * 1_000 if dagster else None)


def plan_lines(project: Path, other: Path, dagster: Dagster | None, *, whole: bool) -> list[Line]:
    """Loading a large project, and planning it; Dagster plans every day on its own."""
    before = _children_cpu()
    loaded = load_project(project).project
    used, theirs = _children_cpu() - before, dagster.load(other) if dagster else None
    lines = [versus(f"load of {len(loaded.assets):,} assets × {DAYS} days (CPU)", used, " s", theirs)]
    a_day = dagster.plan(other, days(PLAN_DAYS)) / PLAN_DAYS if dagster else None
    for count in (PLAN_DAYS, DAYS) if whole else (PLAN_DAYS,):
        tasks, seconds = _plan(loaded, _first(count), TIMES if count == PLAN_DAYS else 1)
        budget = PLAN_SECONDS if count == PLAN_DAYS else None
        name = f"plan of {tasks:,} tasks, {count} days (CPU)"
        lines.append(versus(name, seconds, " s", a_day * count if a_day is not None else None, budget))
    return lines


def _plan(project: Project, partitions: dict[str, str], times: int = TIMES) -> tuple[int, float]:
    """Tasks of a plan, and the CPU seconds it took with its fingerprint; the best of a few."""
    ids = {asset.key: derive_ulid(NOW, asset.key) for asset in project.assets}
    request = RunRequest("*", partitions, at=NOW)
    seconds, tasks = [], 0
    for _ in range(times):
        with Stopwatch() as watch:
            plan = make_plan(project, ids, PlanningState(), request, "bench")
            plan_fingerprint(plan)
        tasks = len(plan.tasks)
        seconds.append(watch.cpu)
    return tasks, min(seconds)


def _first(count: int) -> dict[str, str]:
    """So many days from the first on."""
    chosen = days(count)
    return {"date": f"{chosen[0]}..{chosen[-1]}"}


async def served_plan(processes: Fleet, project: Path) -> Line:
    await processes.deploy(project)
    asked = {"selection": "*", "partitions": _first(PLAN_DAYS)}
    plan: Any = None
    seconds = []
    for _ in range(TIMES):
        with Stopwatch() as watch:
            plan = await processes.ask("POST", "/plans", json=asked)
        seconds.append(watch.wall)
    return versus(f"plan of {plan['task_count']:,} tasks, from a server", min(seconds), " s", None, PLAN_SECONDS)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
