"""Plans whose bytes must never change by accident. Other processes import this, so it needs little."""

import hashlib

import msgspec

from arco.assets import Dimension, Engine, Offset, Project, StaticPartitions, TimePartitions, Window
from arco.domains.orchestration.plan import Plan
from arco.servo._planner import make_plan
from arco.servo._planning_state import PlanningState
from arco.servo._request import RunRequest
from tests.servo.projects import AT, DAILY, REGION, asset, dep, ids_of, made_by, project

__all__ = ["digest", "golden"]


def example() -> tuple[Project, PlanningState, RunRequest]:
    """A project with everything in it, half of it made already."""
    hourly = Dimension("hour", TimePartitions("0 */6 * * *", "2026-01-08", timezone="Europe/Berlin", values="time"))
    odd = Dimension("name", StaticPartitions(("Köln", "a b")))
    made = project(
        asset("raw.orders", partitions=[DAILY, REGION], tags={"tier": "gold", "a": "1"}),
        asset("raw.events", partitions=[hourly]),
        asset("core.orders", "raw.orders", partitions=[DAILY]),
        asset("core.window", dep("core.orders", date=Window(-2)), partitions=[DAILY]),
        asset("core.change", dep("core.orders", date=Offset(-1)), "core.window", partitions=[DAILY]),
        asset("core.x", "core.orders", unit="core.both", partitions=[DAILY]),
        asset("core.y", "core.orders", unit="core.both", partitions=[DAILY]),
        asset("mart.names", partitions=[odd]),
        asset("mart.all", "core.x", "mart.names", dep("raw.events", "")),
        asset("mart.jobs", "core.orders", partitions=[DAILY, REGION], engine=Engine.SPARK),
    )
    request = RunRequest(
        "*",
        {"date": "2026-01-03..2026-01-05", "region": "*", "hour": "*", "name": "*"},
        at=AT,
        batch=4,
        tags={"b": "2", "a": "1"},
    )
    first = RunRequest("+core.window", {"date": "2026-01-01..2026-01-04", "region": "*"}, at=AT)
    done = made_by(make_plan(made, ids_of(made), PlanningState("1", "2"), first, "code_0"), made)
    return made, done, request


def digest(of: Plan) -> str:
    return hashlib.sha256(msgspec.json.encode(of, order="deterministic")).hexdigest()


def golden() -> str:
    """What the plans of everything, and of what is made already, hash to."""
    made, state, request = example()
    again = RunRequest("core.window,core.change", {"date": "2026-01-02..2026-01-06"}, at=AT)
    plans = [make_plan(made, ids_of(made), state, asked, "code_1") for asked in (request, again)]
    return " ".join(f"{digest(found)}/{len(found.tasks)}/{len(found.skips)}" for found in plans)
