"""Small projects and states for tests of planning and deploying."""

from collections.abc import Iterable
from datetime import date
from typing import Any

from arco.assets import (
    AssetDefinition,
    Dependency,
    Dimension,
    DynamicPartitions,
    Mapping,
    Project,
    StaticPartitions,
    TimePartitions,
    resolve,
)
from arco.core import DAY, AssetId, PartitionKey, Ulid, derive_ulid, partition_id
from arco.domains.orchestration.plan import Plan, Task
from arco.servo._envelope import inputs_fingerprint
from arco.servo._planner import make_plan
from arco.servo._planning_state import PlanningState, Version
from arco.servo._request import RunRequest

__all__ = [
    "AT",
    "DAILY",
    "REGION",
    "asset",
    "customers",
    "day",
    "dep",
    "good",
    "id_of",
    "ids_of",
    "made_by",
    "part",
    "plan",
    "project",
    "task",
]

AT = 20_463 * DAY + DAY // 2
"""2026-01-10, noon: nine days of January have ended."""

DAILY = Dimension("date", TimePartitions("0 0 * * *", "2026-01-01"))
REGION = Dimension("region", StaticPartitions(("eu", "us")))


def customers(name: str = "customers") -> Dimension:
    return Dimension("customer", DynamicPartitions(name))


def dep(key: str, parameter: str = "x", **mappings: Mapping) -> Dependency:
    return Dependency(key, parameter, mappings)


def asset(key: str, *needs: str | Dependency, partitions: Iterable[Dimension] = (), **more: Any) -> AssetDefinition:
    """An asset that reads what it `needs`, each by a parameter of its own unless it is given as a dependency."""
    dependencies = tuple(
        need if isinstance(need, Dependency) else Dependency(need, f"p{index}") for index, need in enumerate(needs)
    )
    values = {"function": "jobs:make", "code_version": "1", "file": "jobs.py", "line": 1, **more}
    return AssetDefinition(key=key, dependencies=dependencies, partitions=tuple(partitions), **values)


def day(number: int) -> date:
    """A day of the January in which tests play."""
    return date(2026, 1, number)


def project(*assets: AssetDefinition) -> Project:
    return resolve(Project(assets))


def id_of(key: str) -> str:
    return derive_ulid(AT, key)


def ids_of(of: Project) -> dict[str, str]:
    return {definition.key: id_of(definition.key) for definition in of.assets}


def part(key: str, **values: Any) -> str:
    """The id of a partition of an asset."""
    return partition_id(AssetId(Ulid(id_of(key))), PartitionKey(values))


def good(*versions: tuple[str, str, Version], **more: Any) -> PlanningState:
    """A state in which partitions have versions: the asset's key, the partition's id, the version."""
    found: dict[str, dict[str, Version]] = {}
    for key, partition, version in versions:
        found.setdefault(id_of(key), {})[partition] = version
    return PlanningState("7", "9", found, **more)


def plan(of: Project, selection: str = "*", state: PlanningState | None = None, **more: Any) -> Plan:
    partitions = more.pop("partitions", {})
    request = RunRequest(selection, partitions, at=AT, **more)
    return make_plan(of, ids_of(of), state or PlanningState("7", "9"), request, "code_1")


def task(of: Plan, key: str) -> Task:
    (found,) = [task for task in of.tasks if task.task_key == key]
    return found


def made_by(of: Plan, project: Project, before: PlanningState | None = None) -> PlanningState:
    """The state after all tasks of a plan succeeded, on top of another one."""
    before = before or PlanningState("7", "9")
    versions = {asset_id: dict(found) for asset_id, found in before.versions.items()}
    codes = {definition.key: definition.code_version for definition in project.assets}
    for done in of.tasks:
        read = [
            (source.asset_id, pin.partition_id, pin.materialization_id or _newest(versions, source.asset_id, pin))
            for source in done.inputs
            for pin in source.pins
        ]
        for output in done.outputs:
            count = len(versions.get(output.asset_id, {}).get(output.partition_id, Version("")).materialization_id)
            versions.setdefault(output.asset_id, {})[output.partition_id] = Version(
                "m" * (count + 1), codes[output.asset_key], inputs_fingerprint(read), 2.0
            )
    return PlanningState("8", "10", versions, before.bad, before.usual_seconds, before.dynamic)


def _newest(versions: dict[str, dict[str, Version]], asset_id: str, pin: Any) -> str:
    return versions[asset_id][pin.partition_id].materialization_id
